//! `accumulate`: gradient accumulation over microbatches.
//!
//! Splits the differentiated function `step` in two. `micro` runs once per microbatch and adds loss, token count and gradients to
//! accumulators, which are zero when a step starts; gradients are f32 and laid out as the stored weight, so that they are
//! reduced over ranks in every microbatch, as torchtitan does. `update` runs once, shows the accumulators under the names the
//! gradients had, and is where `optimizer` continues.

use crate::autodiff::{self, GRAD_PREFIX};
use crate::pass::{Changed, NumericsClass, Pass, PassCx};
use titan_ir::ops::{Add, Reshard};
use titan_ir::{
    DType, DiagResult, Func, Init, Layout, LocId, Module, Param, Phase, ResultKind, Role, Stage, TensorType,
    ValueId,
};

/// The pass.
#[derive(Debug, Clone)]
pub struct Accumulate {
    /// Microbatches of a step; 1 leaves the module as it is.
    pub num_microbatches: u64,
}

impl Default for Accumulate {
    fn default() -> Self {
        Self { num_microbatches: 1 }
    }
}

impl Pass for Accumulate {
    fn name(&self) -> &'static str {
        "accumulate"
    }

    fn summary(&self) -> &'static str {
        "split the step in microbatches that accumulate gradients and one update"
    }

    fn numerics(&self) -> NumericsClass {
        NumericsClass::Reassociating
    }

    fn stages(&self) -> &'static [Stage] {
        &[Stage::Graph]
    }

    fn run(&self, module: &mut Module, _cx: &mut PassCx) -> DiagResult<Changed> {
        if self.num_microbatches == 1 {
            return Ok(Changed::No);
        }
        let mut updates = Vec::new();
        for func in &mut module.funcs {
            updates.push(split(func, self.num_microbatches)?);
        }
        module.funcs.extend(updates);
        Ok(Changed::Yes)
    }
}

/// Turns `func` into `micro` and gives `update`.
fn split(func: &mut Func, num_microbatches: u64) -> DiagResult<Func> {
    func.name = "micro".to_owned();
    func.repeat = num_microbatches;
    func.phase = Phase::Backward;
    let mut update = Func::new("update");
    update.phase = Phase::Update;
    let weights: Vec<Param> = func.params.iter().filter(|p| p.role == Role::Param).cloned().collect();
    for weight in &weights {
        let value = update.new_value(func.ty(weight.value).clone());
        update.params.push(Param { value, ..weight.clone() });
    }
    for result in std::mem::take(&mut func.results) {
        let ResultKind::Output(name) = result.kind else {
            func.results.push(result);
            continue;
        };
        let layout = match name.strip_prefix(GRAD_PREFIX) {
            Some(fqn) => weights.iter().find(|w| w.name == fqn).map(|w| func.ty(w.value).layout.clone()),
            None => None,
        };
        let ty = add_to_accumulator(func, &name, result.value, layout.unwrap_or_default())?;
        let value = update.add_param(&accumulator_name(&name), ty, Role::GradAccum, Init::Zeros);
        update.add_result(value, ResultKind::Output(name));
    }
    func.phase = Phase::Forward;
    Ok(update)
}

/// The state name of the accumulator of an output.
fn accumulator_name(output: &str) -> String {
    match output.strip_prefix(GRAD_PREFIX) {
        Some(fqn) => format!("{fqn}.grad"),
        None => format!("{output}.sum"),
    }
}

/// Emits `accumulator += value` and gives the accumulator's type.
fn add_to_accumulator(
    func: &mut Func,
    output: &str,
    value: ValueId,
    layout: Layout,
) -> DiagResult<TensorType> {
    func.loc = LocId(0);
    if let Some(def) = func.nodes.iter().rev().find(|n| n.outs.contains(&value)) {
        func.loc = def.loc;
    }
    let ty = TensorType::new(DType::F32, &func.ty(value).dims).with_layout(layout);
    let accumulator = func.add_param(&accumulator_name(output), ty.clone(), Role::GradAccum, Init::Zeros);
    let index = func.params.len() - 1;
    let value = autodiff::cast(func, value, DType::F32)?;
    let value = func.emit1(Reshard { to: ty.layout.clone(), reduce: None }, &[value])?;
    let sum = func.emit1(Add, &[accumulator, value])?;
    func.add_result(sum, ResultKind::Update(index));
    Ok(ty)
}
