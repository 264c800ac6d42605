//! Generated kernels that are one op of the table become one operator of the vendor.
//!
//! A kernel is recognised by lowering the op again, with types read off the kernel, and comparing: fusion with nothing fused makes equal
//! kernels of equal ops. So nothing here knows what an op's expressions look like, and a changed rule of an op is at worst not recognised.
//!
//! `ApplyAdamW` is called on the newest devices only: the vendor's documentation says that the others have it in one version and that they have not
//! in another. There AdamW is a sequence of elementwise operators.

mod candidates;
mod emit;
mod rotary;
mod training;

use super::emitter::Emitter;
use super::launch::Launch;
use indexmap::IndexMap;
use titan_ir::kernel::{KernelSpec, RowKernel};
use titan_ir::ops::{Broadcast, Full};
use titan_ir::{Func, Init, Mesh, Module, Op, ResultKind, Role, Stage, TensorType};
use titan_passes::fuse::Fuse;
use titan_passes::pass::{Pass, PassCx};

/// Kernels looked at before, by kernel and domain.
pub(super) type Known = IndexMap<(RowKernel, u64, Option<u64>), Option<Match>>;

/// An op a kernel could be.
#[derive(Debug, Clone)]
struct Candidate {
    /// The op.
    op: Op,
    /// Types of its operands.
    types: Vec<TensorType>,
    /// The operand that is one repeated number, if one is.
    repeated: Option<Repeated>,
}

/// An operand of one repeated number.
#[derive(Debug, Clone, Copy)]
struct Repeated {
    /// Which operand.
    operand: usize,
    /// The number, if it is known.
    value: Option<f32>,
}

impl Candidate {
    fn new(op: impl Into<Op>, types: Vec<TensorType>) -> Self {
        Self { op: op.into(), types, repeated: None }
    }
}

/// An op that lowers to a kernel.
#[derive(Debug, Clone)]
pub(super) struct Match {
    /// The op.
    op: Op,
    /// Types of its operands, as the kernel reads them: a repeated number is a scalar.
    types: Vec<TensorType>,
    /// The value of an operand no input holds.
    constant: Option<f32>,
    /// Per operand the input of the kernel that reads it.
    ins: Vec<Option<usize>>,
    /// Per result the output of the kernel that stores it.
    outs: Vec<Option<usize>>,
}

impl Match {
    /// The address of an operand.
    fn input(&self, launch: &Launch<'_>, operand: usize) -> Option<u64> {
        self.ins[operand].map(|i| launch.args[i])
    }

    /// The address of a result.
    fn output(&self, launch: &Launch<'_>, result: usize) -> Option<u64> {
        self.outs[result].map(|o| launch.args[launch.kernel.inputs.len() + o])
    }
}

/// Emits one operator and what it needs around it, if the kernel is an op the vendor has.
pub(super) fn recognise(e: &mut Emitter<'_>, launch: &Launch<'_>, known: &mut Known) -> bool {
    let key = (launch.kernel.clone(), launch.rows, launch.len);
    let found = known.entry(key).or_insert_with(|| {
        candidates::candidates(launch).into_iter().find_map(|candidate| matches(launch, &candidate))
    });
    found.as_ref().is_some_and(|found| emit::emit(e, launch, found)) || emit::single(e, launch)
}

/// The op, if it lowers to the kernel of `launch` with all or some of its results kept.
fn matches(launch: &Launch<'_>, candidate: &Candidate) -> Option<Match> {
    let refs: Vec<&TensorType> = candidate.types.iter().collect();
    let num_results = candidate.op.rules().infer(&refs).ok()?.len();
    (1..1_u32 << num_results).rev().find_map(|kept| matches_kept(launch, candidate, kept))
}

/// As [`matches`], for the results whose bits are set.
fn matches_kept(launch: &Launch<'_>, candidate: &Candidate, kept: u32) -> Option<Match> {
    let Candidate { op, types, repeated } = candidate;
    let mut types = types.clone();
    let mut func = Func::new("op");
    if let Some(Repeated { operand, .. }) = *repeated {
        types[operand] = TensorType::scalar(types[operand].dtype);
    }
    let params: Vec<_> =
        types.iter().map(|ty| func.add_param("operand", ty.clone(), Role::Input, Init::Zeros)).collect();
    let mut operands = params.clone();
    if let Some(Repeated { operand, value }) = *repeated {
        let whole = &candidate.types[operand];
        operands[operand] = match value {
            Some(value) => func.emit1(Full::new(f64::from(value), whole.dtype, &whole.dims), &[]).ok()?,
            None => func.emit1(Broadcast::new(&whole.dims), &[params[operand]]).ok()?,
        };
    }
    let results = func.emit(op.clone(), &operands).ok()?;
    for (i, &result) in results.iter().enumerate().filter(|(i, _)| kept >> i & 1 == 1) {
        func.add_result(result, ResultKind::Output(i.to_string()));
    }
    let mut module = Module { mesh: Mesh::default(), stage: Stage::Local, funcs: vec![func] };
    Fuse { max_operands: 0, epilogues: false }.run(&mut module, &mut PassCx::default()).ok()?;
    let node = module.funcs[0].nodes.first()?;
    let Op::Launch(lowered) = &node.op else { return None };
    let KernelSpec::Row(kernel) = &*lowered.spec else { return None };
    if kernel != launch.kernel || lowered.rows != launch.rows || lowered.len != launch.len {
        return None;
    }
    let ins = params.iter().map(|param| node.ins.iter().position(|v| v == param)).collect();
    let is_result = |at: &usize| results.contains(&node.outs[*at]);
    // A sum over rows whose partial sums the kernel stores is the one output that is no result.
    let partial = (0..node.outs.len()).find(|at| !is_result(at));
    let place = |i: usize| node.outs.iter().position(|v| *v == results[i]).or(partial);
    let outs = (0..results.len()).map(|i| (kept >> i & 1 == 1).then(|| place(i)).flatten()).collect();
    let constant = repeated.and_then(|r| r.value);
    Some(Match { op: op.clone(), types, constant, ins, outs })
}
