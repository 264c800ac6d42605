//! Runs a function on one rank, op by op, by the ops' own meaning in f64.

use std::collections::BTreeMap;
use titan_ir::eval::Tensor;
use titan_ir::{Func, ResultKind, TensorType};

/// Tensors by name.
pub type State = BTreeMap<String, Tensor>;

/// Where results are rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// Nowhere: real arithmetic, as near as f64 is to it.
    Never,
    /// After every op, to the element type of its result.
    EveryOp,
}

/// The outputs of a function; parameters it updates are written to `state`.
///
/// # Panics
/// When `state` lacks a parameter.
pub fn run(func: &Func, state: &mut State, rounding: Rounding) -> State {
    let mut values: Vec<Option<Tensor>> = vec![None; func.num_values()];
    for param in &func.params {
        let value = state.get(&param.name).unwrap_or_else(|| panic!("no value for {}", param.name));
        values[param.value.index()] = Some(value.clone());
    }
    for node in &func.nodes {
        let ins: Vec<&Tensor> =
            node.ins.iter().map(|v| values[v.index()].as_ref().expect("defined")).collect();
        let types: Vec<&TensorType> = node.outs.iter().map(|&v| func.ty(v)).collect();
        for ((out, mut tensor), ty) in node.outs.iter().zip(node.op.rules().eval(&ins, &types)).zip(types) {
            if rounding == Rounding::EveryOp {
                tensor.data.iter_mut().for_each(|x| *x = ty.dtype.round(*x));
            }
            values[out.index()] = Some(tensor);
        }
    }
    let mut outputs = State::new();
    for result in &func.results {
        let value = values[result.value.index()].clone().expect("defined");
        match &result.kind {
            ResultKind::Output(name) => outputs.insert(name.clone(), value),
            ResultKind::Update(param) => state.insert(func.params[*param].name.clone(), value),
        };
    }
    outputs
}
