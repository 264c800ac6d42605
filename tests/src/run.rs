//! Runs a function by name of its parameters.

use std::collections::BTreeMap;
use titan_ir::eval::{EvalMode, Tensor, eval};
use titan_ir::{Func, ResultKind};

/// Tensors by name.
pub type State = BTreeMap<String, Tensor>;

/// The outputs of a function; parameters it updates are written to `state`.
///
/// # Panics
/// When `state` lacks a parameter.
pub fn run(func: &Func, state: &mut State, mode: EvalMode) -> State {
    let args: Vec<Tensor> = func
        .params
        .iter()
        .map(|p| state.get(&p.name).unwrap_or_else(|| panic!("no value for {}", p.name)).clone())
        .collect();
    let mut outputs = State::new();
    for (result, value) in func.results.iter().zip(eval(func, &args, mode)) {
        match &result.kind {
            ResultKind::Output(name) => outputs.insert(name.clone(), value),
            ResultKind::Update(param) => state.insert(func.params[*param].name.clone(), value),
        };
    }
    outputs
}
