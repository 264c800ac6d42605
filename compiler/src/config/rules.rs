//! Rules beyond one key's type: old names of values, and keys that must agree with others.

use super::lr_schedule::{lr_schedule, total_steps, wanted_decay};
use super::value::Value;
use super::values::{Values, key_index};
use titan_ir::{Diag, Diags, Span, ice};

/// Old names of converters: (old, new).
const CONVERTER_ALIASES: &[(&str, &str)] =
    &[("float8", "quantize.linear.float8"), ("mx", "quantize.linear.mx")];

/// Replaces old names of values, and adds what is wrong or surprising.
pub(super) fn apply(values: &mut Values, diags: &mut Diags) {
    rename_converters(values, diags);
    refuse_tokenizer_model(values, diags);
    warn_of_dataset(values, diags);
    check_ranks(values, diags);
    warn_of_schedule(values, diags);
    warn_of_device_keys(values, diags);
    explain_unknown_keys(values, diags);
}

fn rename_converters(values: &mut Values, diags: &mut Diags) {
    let Some(index) = key_index("model.converters") else { ice!("no key model.converters") };
    let setting = values.get_mut(index);
    let Value::List(converters) = &mut setting.value else { return };
    for converter in converters {
        let alias = CONVERTER_ALIASES.iter().find(|(old, _)| *converter == Value::from(*old));
        if let Some((old, new)) = alias {
            *converter = Value::from(*new);
            let message = format!("converter {old:?} is deprecated and read as {new:?}");
            diags.push(place(Diag::warning("T0408", message), setting.span.as_ref()));
        }
    }
}

fn refuse_tokenizer_model(values: &Values, diags: &mut Diags) {
    let setting = values.at("model.hf_assets_path");
    let Value::Str(path) = &setting.value else { return };
    if path.ends_with("tokenizer.model") {
        let message = format!("`model.hf_assets_path` names the tiktoken file {path:?}, which is not read");
        let help = "name a folder with the model's tokenizer.json and tokenizer_config.json";
        diags.push(place(Diag::new("T0412", message), setting.span.as_ref()).help(help));
    }
}

/// torchtitan downloads all datasets but the test one.
fn warn_of_dataset(values: &Values, diags: &mut Diags) {
    let dataset: String = values.read("training.dataset");
    let path: Option<String> = values.read("training.dataset_path");
    if path.is_none() && ["c4", "c4_validation"].contains(&dataset.as_str()) {
        let message = format!("dataset `{dataset}` has no local path, and titan-run reads local data only");
        let help = "set training.dataset_path, or give `titan-run --dataset-path`";
        let span = values.at("training.dataset").span.as_ref();
        diags.push(place(Diag::warning("T0413", message), span).help(help));
    }
}

fn check_ranks(values: &Values, diags: &mut Diags) {
    let ranks: Vec<u64> = values.read("titan.ranks");
    let span = values.at("titan.ranks").span.as_ref();
    if ranks.is_empty() {
        diags.push(
            place(Diag::new("T0423", "`titan.ranks` is empty"), span)
                .help("for example ranks = [1, 2, 4, 8]"),
        );
    }
    for (i, rank) in ranks.iter().enumerate() {
        if ranks[..i].contains(rank) {
            diags.push(place(Diag::new("T0423", format!("`titan.ranks` names {rank} twice")), span));
        }
    }
}

fn warn_of_schedule(values: &Values, diags: &mut Diags) {
    let warmup: u64 = values.read("lr_scheduler.warmup_steps");
    let steps: u64 = values.read("training.steps");
    let (schedule, total) = (lr_schedule(values), total_steps(values));
    let mut warn = |path: &str, message: String| {
        let span = [path, "training.steps", "lr_scheduler.total_steps"]
            .iter()
            .find_map(|path| values.at(path).span.as_ref());
        diags.push(place(Diag::warning("T0411", message), span));
    };
    if warmup > total {
        let message = format!("warm-up of {warmup} steps is cut to the {total} steps of the schedule");
        warn("lr_scheduler.warmup_steps", message);
    }
    if let Some(decay) = wanted_decay(values).filter(|decay| *decay > schedule.decay) {
        let message = format!(
            "decay of {decay} steps is cut to {}: warm-up takes {} of {total}",
            schedule.decay, schedule.warmup
        );
        warn("lr_scheduler.decay_ratio", message);
    }
    if total < steps {
        let end = if schedule.decay == 0 { "peak" } else { "floor" };
        let message =
            format!("the schedule ends after {total} of {steps} steps; the rate then stays at its {end}");
        warn("lr_scheduler.total_steps", message);
    }
}

/// Keys of one kind of device, changed for another.
fn warn_of_device_keys(values: &Values, diags: &mut Diags) {
    let target: String = values.read("titan.target");
    // A target that is misspelled is refused, and tells nothing.
    if target.starts_with("Ascend") || diags.has_errors() {
        return;
    }
    let defaults = Values::defaults();
    for path in ["titan.ascend_kernels", "titan.ascend_workspace_mib"] {
        let setting = values.at(path);
        if let Some(span) = setting.span.as_ref().filter(|_| setting.value != defaults.at(path).value) {
            let message = format!("`{path}` has no effect: the target is `{target}`");
            let help = "build for an Ascend device, such as `--target Ascend910B3`";
            diags.push(Diag::warning("T0414", message).span(span.clone()).help(help));
        }
    }
}

/// A Python schema extension may define what is unknown here.
fn explain_unknown_keys(values: &Values, diags: &mut Diags) {
    let module: String = values.read("job.custom_config_module");
    if module.is_empty() {
        return;
    }
    for diag in diags.0.iter_mut().filter(|diag| ["T0402", "T0403"].contains(&diag.code)) {
        diag.notes.push(format!("{module} may define it for torchtitan; titanc does not read Python"));
    }
}

fn place(diag: Diag, span: Option<&Span>) -> Diag {
    match span {
        Some(span) => diag.span(span.clone()),
        None => diag,
    }
}
