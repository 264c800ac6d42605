//! Passes and checks by name, with options: `titanc opt -p NAME[:key=value...]` and the first line of a filetest.

use crate::accumulate::Accumulate;
use crate::autodiff::Autodiff;
use crate::bucket_collectives::BucketCollectives;
use crate::check::buffers::Buffers;
use crate::check::collectives::Collectives;
use crate::emit_plan::EmitPlan;
use crate::fuse::Fuse;
use crate::insert_reshard::InsertReshard;
use crate::localize::Localize;
use crate::manager::Step;
use crate::optimizer::Optimizer;
use crate::pass::{Check, NumericsClass, Pass};
use crate::prefetch::Prefetch;
use crate::propagate::Propagate;
use crate::remat::Remat;
use crate::schedule::Schedule;
use crate::simplify::{Cse, Dce, Simplify};
use std::collections::BTreeMap;
use std::str::FromStr;
use titan_ir::{Diag, DiagResult, ice};

/// Makes a pass from the options after its name.
type MakePass = fn(&mut PassArgs<'_>) -> DiagResult<Box<dyn Pass>>;

/// Makes a check.
type MakeCheck = fn() -> Box<dyn Check>;

/// Every pass, in pipeline order, then those that are no part of the pipeline.
const PASSES: &[(&str, MakePass)] = &[
    ("autodiff", |_| Ok(Box::new(Autodiff))),
    ("accumulate", |args| {
        let mut pass = Accumulate::default();
        args.set("microbatches", &mut pass.num_microbatches)?;
        Ok(Box::new(pass))
    }),
    ("optimizer", |args| {
        let mut pass = Optimizer::default();
        args.set("max_norm", &mut pass.max_norm)?;
        args.set("decoupled", &mut pass.decoupled)?;
        args.set("steps", &mut pass.num_steps)?;
        Ok(Box::new(pass))
    }),
    ("simplify", |args| {
        let mut pass = Simplify::default();
        args.set("reassociate", &mut pass.reassociate)?;
        Ok(Box::new(pass))
    }),
    ("propagate", |_| Ok(Box::new(Propagate))),
    ("insert-reshard", |_| Ok(Box::new(InsertReshard))),
    ("localize", |_| Ok(Box::new(Localize))),
    ("remat", |args| {
        let mut pass = Remat::default();
        args.set("mode", &mut pass.checkpointing)?;
        args.set("reshard", &mut pass.reshard_after_forward)?;
        args.set("cheap", &mut pass.cheap)?;
        Ok(Box::new(pass))
    }),
    ("bucket-collectives", |args| {
        let mut pass = BucketCollectives::default();
        args.set("by_block", &mut pass.by_block)?;
        args.set("max_bytes", &mut pass.max_bytes)?;
        Ok(Box::new(pass))
    }),
    ("prefetch", |args| {
        let mut pass = Prefetch::default();
        args.set("depth", &mut pass.depth)?;
        Ok(Box::new(pass))
    }),
    ("fuse", |args| {
        let mut pass = Fuse::default();
        args.set("operands", &mut pass.max_operands)?;
        args.set("epilogues", &mut pass.epilogues)?;
        Ok(Box::new(pass))
    }),
    ("schedule", |_| Ok(Box::new(Schedule))),
    ("emit-plan", |_| Ok(Box::new(EmitPlan))),
    ("cse", |_| Ok(Box::new(Cse))),
    ("dce", |_| Ok(Box::new(Dce))),
];

/// Every check, in pipeline order.
const CHECKS: &[(&str, MakeCheck)] =
    &[("collectives", || Box::new(Collectives)), ("buffers", || Box::new(Buffers))];

/// Names of all passes, in pipeline order.
pub fn pass_names() -> impl Iterator<Item = &'static str> {
    PASSES.iter().map(|(name, _)| *name)
}

/// Names of all passes and checks.
pub fn step_names() -> impl Iterator<Item = &'static str> {
    pass_names().chain(CHECKS.iter().map(|(name, _)| *name))
}

/// Every pass with its summary, a line each, for `titanc opt --list`.
pub fn list() -> String {
    let line = |name: &str, summary: &str, note: &str| format!("{name:<22}{summary}{note}\n");
    let passes = PASSES.iter().map(|(name, make)| {
        let args = &mut PassArgs { pass: name, args: BTreeMap::new() };
        let Ok(pass) = make(args) else { ice!("pass {name} has no default options") };
        let note = match pass.numerics() {
            NumericsClass::Exact => "",
            NumericsClass::Reassociating => " [changes rounding]",
        };
        line(name, pass.summary(), note)
    });
    let checks = CHECKS.iter().map(|(name, make)| line(name, make().summary(), " [check]"));
    passes.chain(checks).collect()
}

/// The steps of a comma-separated list of `NAME[:key=value...]`.
///
/// # Errors
/// T0211 for an unknown name, T0213 for an option.
pub fn steps(list: &str) -> DiagResult<Vec<Step>> {
    list.split(',').map(|spec| step(spec.trim())).collect()
}

fn step(spec: &str) -> DiagResult<Step> {
    let mut parts = spec.split(':');
    let name = parts.next().unwrap_or_default();
    let mut args = PassArgs { pass: name, args: BTreeMap::new() };
    for part in parts {
        let (key, value) = part.split_once('=').unwrap_or((part, "true"));
        args.args.insert(key, value);
    }
    let step = if let Some((_, make)) = PASSES.iter().find(|(n, _)| *n == name) {
        Step::Run(make(&mut args)?)
    } else if let Some((_, make)) = CHECKS.iter().find(|(n, _)| *n == name) {
        Step::Check(make())
    } else {
        let known: Vec<&str> = step_names().collect();
        return Err(Diag::new("T0211", format!("there is no pass `{name}`"))
            .note(format!("there are {}", known.join(", "))));
    };
    match args.args.keys().next() {
        None => Ok(step),
        Some(key) => Err(Diag::new("T0213", format!("pass `{name}` has no option `{key}`"))),
    }
}

/// Options after a pass name.
#[derive(Debug)]
pub struct PassArgs<'a> {
    pass: &'a str,
    args: BTreeMap<&'a str, &'a str>,
}

impl PassArgs<'_> {
    /// Sets `place` if the option is given.
    ///
    /// # Errors
    /// T0213 when the text is not a value of that type.
    pub fn set<T: FromStr>(&mut self, key: &str, place: &mut T) -> DiagResult<()> {
        if let Some(text) = self.args.remove(key) {
            *place = text.parse().map_err(|_| {
                Diag::new("T0213", format!("option `{key}` of pass `{}`: `{text}` is not valid", self.pass))
            })?;
        }
        Ok(())
    }
}
