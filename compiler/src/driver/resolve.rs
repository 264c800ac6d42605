//! Which model is meant: name, flavor and arguments of the configuration against the registry.

use crate::config::{Config, ModelArg, Value, nearest};
use crate::model::{AnyModel, ModelArgs, Registry};
use titan_ir::{Diag, DiagResult, Diags};

/// A model with its arguments.
pub struct ResolvedModel<'a> {
    /// The definition.
    pub model: &'a dyn AnyModel,
    /// `[model] flavor`.
    pub flavor: String,
    /// Arguments of the flavor with those of `[titan.model_args]` over them.
    pub args: ModelArgs,
}

impl std::fmt::Debug for ResolvedModel<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {:?}", self.model.name(), self.flavor, self.args)
    }
}

/// Models of torchtitan v0.2.2 and its experiments, and the one here that trains the same, if there is one.
const ELSEWHERE: &[(&str, Option<&str>)] = &[
    ("autoparallel.deepseek_v3", None),
    ("autoparallel.llama3", Some("llama3")),
    ("autoparallel.local_map_deepseek_v3", None),
    ("compiler_toolkit.deepseek_v3", None),
    ("compiler_toolkit.llama3", Some("llama3")),
    ("deepseek_v3", None),
    ("flux", None),
    ("gpt_oss", None),
    ("llama3_ft", Some("llama3")),
    ("llama4", None),
    ("qwen3", None),
    ("simple_fsdp.deepseek_v3", None),
    ("simple_fsdp.llama3", Some("llama3")),
    ("transformers_modeling_backend", None),
    ("vlm", None),
];

/// Endings of flavors whose attention stays inside a document.
const DOCUMENT_MASKED: &[&str] = &["_flex_attn", "_varlen_attn", "_flex", "_varlen"];

/// The model `config` names.
///
/// # Errors
/// T0430 unknown model, T0431 a model of torchtitan that is not here, T0432 unknown flavor, T0433 a flavor with document masks; T0441 and T0442 for
/// each bad argument, T0440 when the arguments do not go together.
pub fn resolve<'a>(registry: &'a Registry, config: &Config) -> Result<ResolvedModel<'a>, Diags> {
    let name = &config.model.name;
    let Some(model) = registry.get(name) else { return Err(unknown_model(registry, config).into()) };
    let flavor = config.model.flavor.clone();
    let Some(of_flavor) = model.flavor_args(&flavor) else {
        return Err(unknown_flavor(model, config).into());
    };
    let mut args = of_flavor.clone();
    let mut diags = Diags::default();
    for (key, arg) in config.model_args().iter() {
        match checked(model, &of_flavor, key, arg) {
            Ok(value) => drop(args.insert(key.to_owned(), value)),
            Err(diag) => diags.push(diag),
        }
    }
    if diags.has_errors() {
        // By name so far: the order of the file is easier to follow.
        diags.0.sort_by_key(|diag| diag.span.as_ref().map(|span| (span.file.clone(), span.line)));
        return Err(diags);
    }
    model.check(&args).map_err(|diag| at_argument(config, diag))?;
    Ok(ResolvedModel { model, flavor, args })
}

/// Points at the argument, if the user set just one.
fn at_argument(config: &Config, diag: Diag) -> Diag {
    let mut args = config.model_args().iter();
    match (args.next(), args.next()) {
        (Some((_, arg)), None) => diag.span(arg.span.clone()),
        _ => diag,
    }
}

fn unknown_model(registry: &Registry, config: &Config) -> Diag {
    let name = config.model.name.as_str();
    let known = registry.names();
    if let Some((_, same)) = ELSEWHERE.iter().find(|(other, _)| *other == name) {
        let message = format!("model `{name}` of torchtitan does not exist here yet");
        let diag = config.error("model.name", "T0431", message);
        return match same {
            Some(same) => diag.help(format!("`{same}` is the same model")),
            None => diag.help(format!("models here: {}", known.join(", "))),
        };
    }
    let diag = config.error("model.name", "T0430", format!("unknown model `{name}`"));
    match nearest(name, known.iter().copied()) {
        Some(near) => diag.help(format!("did you mean `{near}`?")),
        None => diag.help(format!("models: {}", known.join(", "))),
    }
}

fn unknown_flavor(model: &dyn AnyModel, config: &Config) -> Diag {
    let (name, flavor) = (model.name(), config.model.flavor.as_str());
    let known = model.flavors();
    let masked = DOCUMENT_MASKED.iter().find_map(|ending| flavor.strip_suffix(ending));
    if let Some(plain) = masked.filter(|plain| known.contains(plain)) {
        let message = format!("flavor `{flavor}` needs document masks, which do not exist yet");
        return config
            .error("model.flavor", "T0433", message)
            .note("tokens of one sequence would attend across documents without them")
            .help(format!("`{plain}` is the same model with plain causal attention"));
    }
    let diag = config.error("model.flavor", "T0432", format!("model `{name}` has no flavor `{flavor}`"));
    match nearest(flavor, known.iter().copied()) {
        Some(near) => diag.help(format!("did you mean `{near}`?")),
        None => diag.help(format!("flavors: {}", known.join(", "))),
    }
}

/// The value of an argument, held alone against the model's argument type.
fn checked(
    model: &dyn AnyModel,
    of_flavor: &ModelArgs,
    key: &str,
    arg: &ModelArg,
) -> DiagResult<serde_json::Value> {
    let name = model.name();
    if !of_flavor.contains_key(key) {
        let known = || of_flavor.keys().map(String::as_str);
        let diag =
            Diag::new("T0441", format!("model `{name}` has no argument `{key}`")).span(arg.span.clone());
        return Err(match nearest(key, known()) {
            Some(near) => diag.help(format!("did you mean `{near}`?")),
            None => diag.help(format!("arguments: {}", known().collect::<Vec<_>>().join(", "))),
        });
    }
    let value = json(&arg.value);
    let mut args = of_flavor.clone();
    args.insert(key.to_owned(), value.clone());
    let wrong = |reason: Diag| {
        let message = format!("argument `{key}` of model `{name}` cannot be {}", arg.value);
        let diag = Diag::new("T0442", message).span(arg.span.clone()).note(reason.message);
        match &of_flavor[key] {
            serde_json::Value::Null => diag,
            default => diag.help(format!("flavor default: {key} = {default}")),
        }
    };
    model.typecheck(&args).map_err(wrong)?;
    Ok(value)
}

fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::None => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(value) => (*value).into(),
        Value::Float(value) => (*value).into(),
        Value::Str(value) => value.as_str().into(),
        Value::List(values) => values.iter().map(json).collect(),
    }
}
