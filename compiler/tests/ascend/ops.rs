//! Every op of the table, alone, on its sample operands.

use crate::generate::Rng;
use crate::lowered::{self, STYLES};
use std::collections::{BTreeMap, BTreeSet};
use titan_ir::ascend::Soc;
use titan_ir::eval::Tensor;
use titan_ir::{DType, Func, Init, Lowering, Op, ResultKind, Role, TensorType};

/// Values every op is defined on and no step of it is near a jump.
fn operand(rng: &mut Rng, op: &Op, k: usize, ty: &TensorType) -> Vec<f64> {
    let n = ty.num_elements();
    // The bias corrections of AdamW after some steps.
    if op.rules().name() == "adamw" && k >= 4 {
        return vec![DType::F32.round([1e-3, 1.0 - 0.9_f64.powi(3), 1.0 - 0.95_f64.powi(3)][k - 4])];
    }
    match ty.dtype {
        DType::I32 => {
            (0..n)
                .map(|i| {
                    if i == 1 && op.rules().name().starts_with("cross") {
                        -100.0
                    } else {
                        rng.below(5) as f64
                    }
                })
                .collect()
        }
        dtype => (0..n).map(|_| dtype.round(0.2 + 0.7 * (rng.unit() + 1.0))).collect(),
    }
}

fn func(op: &Op, types: &[TensorType]) -> Func {
    let mut func = Func::new("step");
    let ins: Vec<_> = (0..)
        .zip(types)
        .map(|(k, ty): (usize, _)| func.add_param(&format!("in{k}"), ty.clone(), Role::Input, Init::Zeros))
        .collect();
    let outs = func.emit(op.clone(), &ins).unwrap();
    for (k, out) in outs.into_iter().enumerate() {
        func.add_result(out, ResultKind::Output(format!("out{k}")));
    }
    func
}

#[test]
fn every_op_of_the_table_computes_what_it_means() {
    let (mut done, mut skipped) = (BTreeSet::new(), BTreeSet::new());
    for (seed, (op, types)) in Op::samples().into_iter().enumerate() {
        let refs: Vec<&TensorType> = types.iter().collect();
        let outs = op.rules().infer(&refs).unwrap();
        let out_refs: Vec<&TensorType> = outs.iter().collect();
        match op.rules().lower(&refs, &out_refs) {
            Lowering::Collective(..) | Lowering::RankSlice(_) | Lowering::None | Lowering::Launch(_) => {
                skipped.insert(op.rules().name());
                continue;
            }
            Lowering::Fragment(_)
            | Lowering::Native(_)
            | Lowering::View
            | Lowering::Guard
            | Lowering::Pad => {}
        }
        done.insert(op.rules().name());
        let rng = &mut Rng(seed as u64);
        let inputs: Vec<Vec<f64>> =
            types.iter().enumerate().map(|(k, ty)| operand(rng, &op, k, ty)).collect();
        let tensors: Vec<Tensor> =
            types.iter().zip(&inputs).map(|(ty, data)| Tensor::new(&ty.dims, data.clone())).collect();
        let expected = op.rules().eval(&tensors.iter().collect::<Vec<_>>(), &out_refs);
        let values: BTreeMap<String, Vec<f64>> =
            (0..).zip(inputs).map(|(k, data): (usize, _)| (format!("in{k}"), data)).collect();
        let devices = [lowered::soc(), Soc::of_name("Ascend950PR_9599").unwrap()];
        for (style, soc) in STYLES.into_iter().flat_map(|style| devices.map(|soc| (style, soc))) {
            let lowered = lowered::lower(lowered::module(func(&op, &types)), style, soc);
            let results = lowered.run(&values);
            for (k, (ty, expected)) in outs.iter().zip(&expected).enumerate() {
                let actual = &results[&format!("out{k}")];
                let step = if ty.dtype == DType::Bf16 { 0.01 } else { 2e-5 };
                let scale = expected.data.iter().fold(1.0_f64, |m, x| m.max(x.abs()));
                for (i, (a, e)) in actual.iter().zip(&expected.data).enumerate() {
                    let close = (a - e).abs() <= step * scale;
                    assert!(
                        close,
                        "{op:?} {style:?} {}: result {k} element {i} is {a} not {e}\n{:?}",
                        soc.name,
                        lowered.counts()
                    );
                }
            }
        }
    }
    let expected = ["all_gather", "all_reduce", "launch", "rank_slice", "reduce_scatter", "reshard"];
    assert_eq!(skipped.into_iter().collect::<Vec<_>>(), expected, "computed: {done:?}");
}
