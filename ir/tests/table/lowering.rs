//! What ops lower to computes what the ops compute.

use crate::common::{Rng, assert_close, eval_op, infer, samples, values};
use std::collections::BTreeSet;
use std::sync::Arc;
use titan_ir::kernel::eval::eval_row;
use titan_ir::kernel::fragment::Result as Out;
use titan_ir::kernel::{Access, Cols, Expr, Fragment, KernelSpec, Output, RowKernel, Store};
use titan_ir::ops::Launch;
use titan_ir::{Lowering, Op, Tensor, TensorType};

fn lower(op: &Op, ins: &[TensorType], outs: &[TensorType]) -> Lowering {
    op.rules().lower(&ins.iter().collect::<Vec<_>>(), &outs.iter().collect::<Vec<_>>())
}

/// A kernel of one fragment; sums over all elements come out as sums over the rows.
fn kernel(fragment: &Fragment, cols: Cols) -> RowKernel {
    let store = |result| match result {
        Out::Full => Store::Full,
        Out::Row => Store::Row,
        Out::ColSum | Out::AllSum => Store::ColSum { block_rows: fragment.rows },
    };
    let output = |&(result, dtype, value)| Output { dtype, store: store(result), value };
    RowKernel {
        cols,
        inputs: fragment.inputs.clone(),
        exprs: fragment.exprs.clone(),
        outputs: fragment.results.iter().map(output).collect(),
    }
}

fn check_fragment(op: &Op, fragment: &Fragment, args: &[Tensor], outs: &[TensorType], expected: &[Tensor]) {
    let data: Vec<&[f64]> = args.iter().map(|t| t.data.as_slice()).collect();
    let compare = |results: Vec<Vec<f64>>, what: &str| {
        assert_eq!(results.len(), outs.len(), "{op:?}");
        for (i, (mut data, ty)) in results.into_iter().zip(outs).enumerate() {
            if fragment.results[i].0 == Out::AllSum {
                data = vec![data.iter().sum()];
            }
            // Constants of kernels are f32.
            assert_close(&Tensor::new(&ty.dims, data), &expected[i], 1e-6, &format!("{op:?} {what}"));
        }
    };
    let rows = eval_row(&kernel(fragment, Cols::Static(fragment.cols)), fragment.rows, None, &data, false);
    compare(rows, "as rows");
    let sums = fragment.results.iter().any(|r| matches!(r.0, Out::ColSum | Out::AllSum));
    if fragment.elastic && !sums {
        let len = fragment.rows * fragment.cols;
        compare(eval_row(&kernel(fragment, Cols::Flat { chunk: 4 }), 1, Some(len), &data, false), "flat");
    }
}

fn check_form(op: &Op, fragment: &Fragment, ins: &[TensorType], outs: &[TensorType]) {
    assert_eq!(fragment.inputs.len(), ins.len(), "{op:?}: one input per operand");
    assert!(fragment.inputs.iter().zip(ins).all(|(input, ty)| input.dtype == ty.dtype), "{op:?}");
    assert!(fragment.results.iter().zip(outs).all(|(result, ty)| result.1 == ty.dtype), "{op:?}");
    for (i, expr) in fragment.exprs.iter().enumerate() {
        assert!(expr.operands().all(|operand| operand.index() < i), "{op:?}: expression {i} is out of order");
    }
    if fragment.elastic {
        let plain = |access| matches!(access, Access::Full | Access::Scalar);
        assert!(fragment.inputs.iter().all(|input| plain(input.access)), "{op:?}");
        let by_row =
            |e: &Expr| matches!(e, Expr::ColIndex | Expr::SwapPairs(_) | Expr::RowSum(_) | Expr::RowMax(_));
        assert!(!fragment.exprs.iter().any(by_row), "{op:?}");
        assert!(!fragment.results.iter().any(|r| matches!(r.0, Out::Row | Out::ColSum)), "{op:?}");
    }
}

#[test]
fn lowerings_compute_the_op() {
    let mut rng = Rng(3);
    let mut others = BTreeSet::new();
    for (op, ins) in samples() {
        let outs = infer(&op, &ins);
        let args = values(&op, &ins, &mut rng);
        let expected = eval_op(&op, &args, &outs);
        match lower(&op, &ins, &outs) {
            Lowering::Fragment(fragment) => {
                check_form(&op, &fragment, &ins, &outs);
                check_fragment(&op, &fragment, &args, &outs, &expected);
            }
            Lowering::Native(native) => {
                let spec = Arc::new(KernelSpec::Native(native));
                let launch = Op::from(Launch { spec, rows: 1, len: None, results: outs.clone() });
                assert_eq!(infer(&launch, &ins), outs, "{op:?} as a launch");
                for (found, expected) in eval_op(&launch, &args, &outs).iter().zip(&expected) {
                    assert_close(found, expected, 1e-6, &format!("{op:?} as a launch"));
                }
            }
            Lowering::View | Lowering::Guard => {
                let view = &args[0].data[..expected[0].data.len()];
                assert_eq!(view, expected[0].data, "{op:?} is the first elements of its operand");
            }
            Lowering::Collective(..)
            | Lowering::RankSlice(_)
            | Lowering::Pad
            | Lowering::Launch(_)
            | Lowering::None => {
                others.insert(op.rules().name());
            }
        }
    }
    // Tested with the ranks, or nothing to compute.
    let expected = ["all_gather", "all_reduce", "launch", "pad", "rank_slice", "reduce_scatter", "reshard"];
    assert_eq!(others, BTreeSet::from(expected));
}

/// Ids and labels that are out of the ordinary mean the same in an op and in its kernel.
#[test]
fn strange_ids_mean_the_same_in_kernels() {
    use titan_ir::DType::{F32, I32};
    use titan_ir::ops::{CrossEntropy, CrossEntropyGrad, Embedding, EmbeddingGrad, Index};
    let real = |dims: &[u64]| TensorType::new(F32, dims);
    let ids = |dims: &[u64]| TensorType::new(I32, dims);
    let strange = Tensor::new(&[4], vec![-100.0, 2.0, 7.0, -1.0]);
    let cases: Vec<(Op, Vec<TensorType>, usize)> = vec![
        (CrossEntropy.into(), vec![real(&[4, 5]), ids(&[4])], 1),
        (CrossEntropyGrad.into(), vec![real(&[4, 5]), ids(&[4]), real(&[4]), real(&[4])], 1),
        (Embedding.into(), vec![real(&[3, 5]), ids(&[4])], 1),
        (EmbeddingGrad { num: 3 }.into(), vec![ids(&[4]), real(&[4, 2])], 0),
    ];
    let index: Op = Index.into();
    let mut rng = Rng(9);
    for (op, ins, at) in cases {
        let outs = infer(&op, &ins);
        let mut args = values(&op, &ins, &mut rng);
        args[at] = strange.clone();
        let expected = eval_op(&op, &args, &outs);
        match lower(&op, &ins, &outs) {
            Lowering::Fragment(fragment) => check_fragment(&op, &fragment, &args, &outs, &expected),
            _ => assert_eq!(expected[0].data[4..], args[1].data[2..4], "only id 2 is a row of the table"),
        }
    }
    for i in [-5.0, 0.0, 6.0, 99.0] {
        let (ins, outs) = (vec![real(&[7]), TensorType::scalar(I32)], vec![TensorType::scalar(F32)]);
        let mut args = values(&index, &ins, &mut rng);
        args[1] = Tensor::scalar(i);
        let expected = eval_op(&index, &args, &outs);
        assert_eq!(expected[0].data[0], args[0].data[i.clamp(0.0, 6.0) as usize]);
        let Lowering::Fragment(fragment) = lower(&index, &ins, &outs) else { panic!("a fragment") };
        check_fragment(&index, &fragment, &args, &outs, &expected);
    }
}
