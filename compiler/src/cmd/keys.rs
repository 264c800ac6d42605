//! `titanc keys [FILTER]`.

use crate::cli::{CommandResult, print};
use crate::config::list_keys;
use titan_ir::Diag;

pub(crate) fn run(filter: &str) -> CommandResult {
    let list = list_keys(filter);
    if list.is_empty() {
        return Err(Diag::new("T0901", format!("no key contains `{filter}`"))
            .help("`titanc keys` lists all keys")
            .into());
    }
    print(&list)?;
    Ok(())
}
