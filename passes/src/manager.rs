//! Runs steps in order and does the same after each: verify, time, count ops, dump.

use crate::pass::{Changed, Check, Pass, PassCx};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use titan_ir::{Diag, DiagResult, Diags, Module, Stage, ice, text, verify};

/// One step of a pipeline.
#[derive(Debug)]
pub enum Step {
    /// The passes before have lifted the module to this stage.
    Begin(Stage),
    /// Transform.
    Run(Box<dyn Pass>),
    /// Transform; the program is complete without it.
    Optional(Box<dyn Pass>),
    /// Judge.
    Check(Box<dyn Check>),
}

impl Step {
    /// A step that runs `pass`.
    pub fn run(pass: impl Pass + 'static) -> Self {
        Self::Run(Box::new(pass))
    }

    /// A step that runs `pass` unless it is disabled.
    pub fn optional(pass: impl Pass + 'static) -> Self {
        Self::Optional(Box::new(pass))
    }

    /// A step that runs `check`.
    pub fn check(check: impl Check + 'static) -> Self {
        Self::Check(Box::new(check))
    }

    /// The name on the command line; empty for [`Step::Begin`].
    pub fn name(&self) -> &'static str {
        match self {
            Self::Begin(_) => "",
            Self::Run(pass) | Self::Optional(pass) => pass.name(),
            Self::Check(check) => check.name(),
        }
    }
}

/// How the manager runs a pipeline.
#[derive(Debug, Clone)]
pub struct ManagerOptions {
    /// Verify after every step.
    pub verify: bool,
    /// Write `NN-name.titan` there after every pass.
    pub dump_dir: Option<PathBuf>,
    /// Stop after the first step of this name.
    pub stop_after: Option<String>,
    /// Optional passes left out.
    pub disabled: Vec<String>,
}

impl Default for ManagerOptions {
    fn default() -> Self {
        Self { verify: true, dump_dir: None, stop_after: None, disabled: Vec::new() }
    }
}

/// What one step did.
#[derive(Debug, Clone)]
pub struct StepReport {
    /// Pass or check.
    pub name: &'static str,
    /// Whether the module was rewritten; never for a check.
    pub changed: Changed,
    /// Time of the step itself.
    pub time: Duration,
    /// Time of the verifier after it.
    pub verify_time: Duration,
    /// Nodes of all functions afterwards.
    pub num_nodes: usize,
    /// Change in the number of nodes of each op, changes only.
    pub ops: BTreeMap<&'static str, i64>,
}

/// What a pipeline did, step by step.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Steps in the order run.
    pub steps: Vec<StepReport>,
}

impl Report {
    /// A table of times and op counts for `--timing`.
    pub fn table(&self) -> String {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let mut table = format!("{:<20} {:>9} {:>9} {:>8}  ops\n", "pass", "ms", "verify", "nodes");
        for step in &self.steps {
            let ops: Vec<String> = step.ops.iter().map(|(op, n)| format!("{op} {n:+}")).collect();
            let (time, verify_time) = (ms(step.time), ms(step.verify_time));
            let row = format!(
                "{:<20} {time:>9.2} {verify_time:>9.2} {:>8}  {}",
                step.name,
                step.num_nodes,
                ops.join(", ")
            );
            table.push_str(row.trim_end());
            table.push('\n');
        }
        let total: Duration = self.steps.iter().map(|s| s.time).sum();
        let total_verify: Duration = self.steps.iter().map(|s| s.verify_time).sum();
        table.push_str(&format!("{:<20} {:>9.2} {:>9.2}\n", "total", ms(total), ms(total_verify)));
        table
    }
}

/// Runs `steps` on the module.
///
/// # Errors
/// What the first failing pass or check finds; T0211 for a name in the options that no step has; T0212 when a dump
/// cannot be written; T0214 for a pass that does not take the stage the module is at; T0215 when a step is disabled
/// that is not optional.
pub fn run(
    module: &mut Module,
    cx: &mut PassCx,
    steps: &[Step],
    options: &ManagerOptions,
) -> Result<Report, Diags> {
    check_names(steps, options)?;
    verify_after("the input", module, options)?;
    let mut report = Report::default();
    let mut counts = count_ops(module);
    for step in steps {
        if options.disabled.iter().any(|name| name == step.name()) {
            continue;
        }
        let start = Instant::now();
        let changed = match step {
            Step::Begin(stage) if module.stage != *stage => {
                ice!("the pipeline begins {stage:?}, the module is {:?}", module.stage)
            }
            Step::Begin(_) => continue,
            Step::Run(pass) | Step::Optional(pass) => {
                check_stage(pass.as_ref(), module)?;
                pass.run(module, cx)?
            }
            Step::Check(check) => check.run(module, cx).map(|()| Changed::No)?,
        };
        let time = start.elapsed();
        let verify_time = if changed == Changed::Yes {
            verify_after(step.name(), module, options)?
        } else {
            Duration::ZERO
        };
        let now = count_ops(module);
        report.steps.push(StepReport {
            name: step.name(),
            changed,
            time,
            verify_time,
            num_nodes: module.funcs.iter().map(|f| f.nodes.len()).sum(),
            ops: difference(&counts, &now),
        });
        counts = now;
        if let Step::Run(pass) | Step::Optional(pass) = step {
            dump(module, pass.name(), report.steps.len(), options)?;
        }
        if options.stop_after.as_deref() == Some(step.name()) {
            break;
        }
    }
    Ok(report)
}

fn check_names(steps: &[Step], options: &ManagerOptions) -> DiagResult<()> {
    for name in options.disabled.iter().chain(&options.stop_after) {
        if !steps.iter().any(|step| step.name() == name) {
            let known: Vec<&str> = steps.iter().map(Step::name).filter(|n| !n.is_empty()).collect();
            return Err(Diag::new("T0211", format!("the pipeline has no step `{name}`"))
                .note(format!("its steps are {}", known.join(", "))));
        }
    }
    let optional = || steps.iter().filter(|step| matches!(step, Step::Optional(_))).map(Step::name);
    match options.disabled.iter().find(|name| !optional().any(|n| n == *name)) {
        None => Ok(()),
        Some(name) => Err(Diag::new("T0215", format!("`{name}` cannot be left out"))
            .note(format!("these can: {}", optional().collect::<Vec<_>>().join(", ")))),
    }
}

fn check_stage(pass: &dyn Pass, module: &Module) -> DiagResult<()> {
    if pass.stages().contains(&module.stage) {
        return Ok(());
    }
    let stages: Vec<String> = pass.stages().iter().map(Stage::to_string).collect();
    let message = format!(
        "pass `{}` needs a module at stage {}, this one is at stage {}",
        pass.name(),
        stages.join(" or "),
        module.stage
    );
    Err(Diag::new("T0214", message)
        .help("run the passes before it first; `titanc opt --list` has their order"))
}

/// A module a pass has broken is our fault; one that came in broken is the user's.
fn verify_after(step: &str, module: &Module, options: &ManagerOptions) -> Result<Duration, Diags> {
    if !options.verify {
        return Ok(Duration::ZERO);
    }
    let start = Instant::now();
    match verify::verify(module) {
        Ok(()) => Ok(start.elapsed()),
        Err(diags) if step == "the input" => Err(diags),
        Err(diags) => ice!("the module does not verify after {step}:\n{diags}"),
    }
}

fn count_ops(module: &Module) -> BTreeMap<&'static str, i64> {
    let mut counts = BTreeMap::new();
    for node in module.funcs.iter().flat_map(|f| &f.nodes) {
        *counts.entry(node.op.rules().name()).or_default() += 1;
    }
    counts
}

fn difference(
    before: &BTreeMap<&'static str, i64>,
    after: &BTreeMap<&'static str, i64>,
) -> BTreeMap<&'static str, i64> {
    let mut change = after.clone();
    for (op, n) in before {
        *change.entry(op).or_default() -= n;
    }
    change.retain(|_, n| *n != 0);
    change
}

fn dump(module: &Module, name: &str, number: usize, options: &ManagerOptions) -> DiagResult<()> {
    let Some(dir) = &options.dump_dir else { return Ok(()) };
    let path = dir.join(format!("{number:02}-{name}.titan"));
    let written = std::fs::create_dir_all(dir).and_then(|()| std::fs::write(&path, text::print(module)));
    written.map_err(|e| Diag::new("T0212", format!("cannot write {}: {e}", path.display())))
}
