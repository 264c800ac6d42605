//! `titanc opt -p PASS,PASS FILE.titan`.

use crate::cli::{CommandResult, OptArgs, note, print, warn};
use crate::driver::write_file;
use titan_ir::{Diag, Diags, text};
use titan_passes::manager::{self, ManagerOptions};
use titan_passes::pass::PassCx;
use titan_passes::registry;

pub(crate) fn run(args: &OptArgs) -> CommandResult {
    if args.list {
        print(&registry::list())?;
        return Ok(());
    }
    let Some(path) = &args.file else { titan_ir::ice!("clap let a missing file pass") };
    let name = path.display().to_string();
    let source =
        std::fs::read_to_string(path).map_err(|e| Diag::new("T0007", format!("cannot read {name}: {e}")))?;
    let steps = if args.passes.is_empty() { Vec::new() } else { registry::steps(&args.passes)? };
    let mut module = text::parse(&name, &source)?;
    let mut cx = PassCx::default();
    let report = manager::run(&mut module, &mut cx, &steps, &ManagerOptions::default())?;
    warn(&Diags(cx.warnings));
    if args.timing {
        note(&report.table());
    }
    let printed = text::print(&module);
    match &args.output {
        Some(output) => write_file(output, printed.as_bytes())?,
        None => print(&printed)?,
    }
    Ok(())
}
