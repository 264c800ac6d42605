//! Small programs around the sample operands of ops.

use titan_ir::{Func, Init, Mesh, Module, Op, ResultKind, Role, Stage, TensorType};

/// Numbers for tests. Source: Steele et al., SplitMix64.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }
}

/// Two axes, the first as the samples of collectives expect.
pub(crate) fn mesh() -> Mesh {
    Mesh::new(&[("dp", 2), ("tp", 4)])
}

/// A function that applies an op to parameters of these types.
pub(crate) fn func_of(op: &Op, ins: &[TensorType]) -> Func {
    let mut func = Func::new("step");
    func.loc = func.intern("layers.0");
    let args: Vec<_> = ins
        .iter()
        .enumerate()
        .map(|(i, ty)| func.add_param(&format!("p{i}"), ty.clone(), Role::Input, Init::Host))
        .collect();
    let outs = func.emit(op.clone(), &args).expect("samples fit");
    for (i, out) in outs.into_iter().enumerate() {
        func.add_result(out, ResultKind::Output(format!("r{i}")));
    }
    func
}

/// A module of one function at the first stage that has the op.
pub(crate) fn module_of(op: &Op, ins: &[TensorType]) -> Module {
    let name = op.rules().name();
    let local = ["launch", "all_gather", "reduce_scatter", "all_reduce", "rank_slice"].contains(&name);
    let stage = if local { Stage::Local } else { Stage::Graph };
    Module { stage, mesh: mesh(), funcs: vec![func_of(op, ins)] }
}

/// Every mnemonic of the table has samples, and all of them are here.
pub(crate) fn samples() -> Vec<(Op, Vec<TensorType>)> {
    let samples = Op::samples();
    for name in Op::NAMES {
        assert!(samples.iter().any(|(op, _)| op.rules().name() == *name), "`{name}` has no samples");
    }
    samples
}
