//! Small programs around the sample operands of ops.

use titan_ir::{DType, Func, Init, Mesh, Module, Op, ResultKind, Role, Stage, Tensor, TensorType};

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

/// Values for operands of these types: f32 and bf16 numbers between 0.3 and 1.3, far from the poles of every op, and small integers.
pub(crate) fn values(op: &Op, types: &[TensorType], rng: &mut Rng) -> Vec<Tensor> {
    let mut draw = |ty: &TensorType| {
        let value = |_| match ty.dtype {
            DType::I32 => rng.below(3) as f64,
            _ => 0.3 + (rng.bits() >> 40) as f64 / f64::from(1 << 24),
        };
        Tensor::new(&ty.dims, (0..ty.num_elements()).map(value).collect())
    };
    let mut values: Vec<Tensor> = types.iter().map(&mut draw).collect();
    if op.rules().name() == "rope" && values.len() == 3 {
        // Its tables are those of rotations: a cosine per pair, and sines of opposite sign.
        for i in (0..values[1].data.len()).step_by(2) {
            values[1].data[i + 1] = values[1].data[i];
            values[2].data[i + 1] = -values[2].data[i];
        }
    }
    values
}

/// The results of an op in f64.
pub(crate) fn eval_op(op: &Op, ins: &[Tensor], outs: &[TensorType]) -> Vec<Tensor> {
    let (ins, outs): (Vec<&Tensor>, Vec<&TensorType>) = (ins.iter().collect(), outs.iter().collect());
    op.rules().eval(&ins, &outs).into_vec()
}

/// The types of the results.
pub(crate) fn infer(op: &Op, ins: &[TensorType]) -> Vec<TensorType> {
    op.rules()
        .infer(&ins.iter().collect::<Vec<_>>())
        .unwrap_or_else(|diag| panic!("{op:?}: {diag}"))
        .into_vec()
}

/// Checks that two tensors agree but for rounding.
pub(crate) fn assert_close(found: &Tensor, expected: &Tensor, tolerance: f64, what: &str) {
    assert_eq!(found.dims, expected.dims, "{what}");
    assert_eq!(found.data.len(), expected.data.len(), "{what}");
    for (i, (a, b)) in found.data.iter().zip(&expected.data).enumerate() {
        // False for NaN too.
        let close = (a - b).abs() <= tolerance * b.abs().max(1.0);
        assert!(close, "{what}: element {i} is {a:e}, expected {b:e}");
    }
}
