//! `titanc opt -p PASS,PASS FILE.titan`.

use crate::cli::{CommandResult, OptArgs, note, print, warn};
use crate::driver::write_file;
use std::path::Path;
use titan_ir::artifact::MAGIC;
use titan_ir::{Diag, DiagResult, Diags, text};
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
    let source = read_text(path, &name)?;
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

fn read_text(path: &Path, name: &str) -> DiagResult<String> {
    let unreadable = |reason: String| Diag::new("T0007", format!("cannot read {name}: {reason}"));
    let bytes = std::fs::read(path).map_err(|e| unreadable(e.to_string()))?;
    if bytes.starts_with(MAGIC) {
        return Err(Diag::new("T0008", format!("{name} is an artifact; `titanc inspect` reads it"))
            .help("`titanc build --dump-ir DIR` writes programs that `titanc opt` reads"));
    }
    String::from_utf8(bytes).map_err(|e| unreadable(e.to_string()))
}
