//! The reference evaluator: the meaning of a function, slow and obvious.

mod ranks;

pub use ranks::{eval_ranks, shard, unshard};

use crate::{DType, Dims, Func, Mesh, Node, Op, TensorType};
use smallvec::SmallVec;

/// A tensor of the evaluator: f64, row-major.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Dimensions.
    pub dims: Dims,
    /// Elements.
    pub data: Vec<f64>,
}

impl Tensor {
    /// A tensor of these dimensions.
    pub fn new(dims: &[u64], data: Vec<f64>) -> Self {
        Self { dims: dims.into(), data }
    }

    /// A scalar.
    pub fn scalar(value: f64) -> Self {
        Self::new(&[], vec![value])
    }

    /// A tensor of zeros.
    pub fn zeros(dims: &[u64]) -> Self {
        Self::new(dims, vec![0.0; dims.iter().product::<u64>() as usize])
    }

    /// The same with every element rounded to a type.
    pub fn rounded(mut self, dtype: DType) -> Self {
        self.data.iter_mut().for_each(|x| *x = dtype.round(*x));
        self
    }
}

/// What is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvalMode {
    /// Nothing: real numbers as far as f64 holds them.
    F64,
    /// The results of every operation, to their element type, and inside of kernels every expression to f32.
    Rounded,
}

/// The results of a function of global tensors, in order. Reshards and guards are the identity.
///
/// `args` are the parameters' values, in order and of their dimensions.
pub fn eval(func: &Func, args: &[Tensor], mode: EvalMode) -> Vec<Tensor> {
    let mut results = eval_ranks(func, &Mesh::default(), &[args.to_vec()], mode);
    results.pop().expect("a mesh without axes has one rank")
}

/// The results of a node on one rank, which must not be a collective.
fn eval_node(func: &Func, node: &Node, ins: &[&Tensor], mode: EvalMode) -> SmallVec<[Tensor; 2]> {
    let types: SmallVec<[&TensorType; 2]> = node.outs.iter().map(|&v| func.ty(v)).collect();
    if mode == EvalMode::F64 {
        return node.op.rules().eval(ins, &types);
    }
    let outs = match &node.op {
        Op::Launch(launch) => {
            let data: Vec<&[f64]> = ins.iter().map(|t| t.data.as_slice()).collect();
            let outs = launch.run(&data, true).into_iter().zip(&types);
            outs.map(|(data, ty)| Tensor::new(&ty.dims, data)).collect()
        }
        op => op.rules().eval(ins, &types),
    };
    outs.into_iter().zip(&types).map(|(out, ty)| out.rounded(ty.dtype)).collect()
}
