//! `titanc inspect ARTIFACT`.

mod ascend;
mod collectives;
mod json;
mod listing;
mod text;

use crate::cli::{CommandResult, InspectArgs, print};
use titan_ir::artifact::{Artifact, IR_TEXT};
use titan_ir::{Diag, DiagResult};

pub(crate) fn run(args: &InspectArgs) -> CommandResult {
    let name = args.artifact.display().to_string();
    let bytes = std::fs::read(&args.artifact)
        .map_err(|e| Diag::new("T0600", format!("cannot read the artifact {name}: {e}")))?;
    let artifact = Artifact::parse(&bytes).map_err(|diag| diag.note(format!("file: {name}")))?;
    let text = match args {
        InspectArgs { ir: true, .. } => ir_text(&artifact)?,
        InspectArgs { json: true, plan, .. } => json::json(&artifact, *plan)?,
        InspectArgs { plan: Some(world_size), .. } if ascend::soc_of(&artifact.manifest)?.is_some() => {
            ascend::listing(&artifact, *world_size)?
        }
        InspectArgs { plan: Some(world_size), .. } => listing::listing(&artifact, *world_size)?,
        _ => text::overview(&artifact, &name, bytes.len() as u64)?,
    };
    print(&text)?;
    Ok(())
}

fn ir_text(artifact: &Artifact<'_>) -> DiagResult<String> {
    if !artifact.sections().any(|(name, _)| name == IR_TEXT) {
        return Err(Diag::new("T0611", "the artifact does not hold the text of its program")
            .help("build it with --emit-ir, or set titan.keep_ir"));
    }
    Ok(String::from_utf8_lossy(artifact.section(IR_TEXT)?).into_owned())
}
