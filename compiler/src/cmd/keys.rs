//! `titanc keys [FILTER]`.

use crate::cli::{CommandResult, print};
use crate::config::list_keys;
use crate::model::Registry;
use titan_ir::Diag;

pub(crate) fn run(registry: &Registry, filter: &str) -> CommandResult {
    let (keys, args) = (list_keys(filter), list_model_args(registry, filter));
    if keys.is_empty() && args.is_empty() {
        return Err(Diag::new("T0901", format!("no key contains `{filter}`"))
            .help("`titanc keys` lists all keys")
            .into());
    }
    let gap = if keys.is_empty() || args.is_empty() { "" } else { "\n" };
    print(&format!("{keys}{gap}{args}"))?;
    Ok(())
}

/// The section of model arguments, with the models that have one whose path contains `filter`.
fn list_model_args(registry: &Registry, filter: &str) -> String {
    let mut text = String::new();
    for model in registry.names().into_iter().filter_map(|name| registry.get(name)) {
        let first = model.flavors().into_iter().next();
        let args = first.and_then(|flavor| model.flavor_args(flavor)).unwrap_or_default();
        if args.keys().any(|arg| format!("titan.model_args.{arg}").contains(filter)) {
            let args: Vec<&str> = args.keys().map(String::as_str).collect();
            text.push_str(&format!(
                "  Any argument of the flavor, for {}: {}\n",
                model.name(),
                args.join(", ")
            ));
        }
    }
    if text.is_empty() { text } else { format!("[titan.model_args]\n{text}") }
}
