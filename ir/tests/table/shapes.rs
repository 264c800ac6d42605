//! Operands that do not fit are refused, by codes and in words.

use crate::common::samples;
use titan_ir::{DType, DiagResult, Op, TensorType, Types};

/// Ops that take any element type.
const ANY_DTYPE: [&str; 7] = ["cast", "reshape", "reshard", "all_gather", "rank_slice", "pad", "take_rows"];

/// Ops that treat any number of operands alike, each alone.
const VARIADIC: [&str; 3] = ["all_gather", "all_reduce", "reduce_scatter"];

fn infer(op: &Op, ins: &[TensorType]) -> DiagResult<Types> {
    op.rules().infer(&ins.iter().collect::<Vec<_>>())
}

fn assert_refused(op: &Op, ins: &[TensorType], codes: &[&str], what: &str) {
    let Err(diag) = infer(op, ins) else { panic!("{op:?} accepts {what}: {ins:?}") };
    assert!(codes.contains(&diag.code), "{op:?}, {what}: {diag}");
    assert!(diag.message.contains(&format!("`{}`", op.rules().name())), "{diag}");
}

#[test]
fn other_numbers_of_operands_are_refused() {
    for (op, ins) in samples() {
        if ins.len() == 1 || !ins.is_empty() && !VARIADIC.contains(&op.rules().name()) {
            assert_refused(&op, &ins[1..], &["T0101"], "an operand less");
        }
        if VARIADIC.contains(&op.rules().name()) {
            continue;
        }
        let more: Vec<TensorType> = ins.iter().cloned().chain([TensorType::scalar(DType::F32)]).collect();
        assert_refused(&op, &more, &["T0101"], "an operand more");
    }
}

#[test]
fn integers_for_reals_and_reals_for_integers_are_refused() {
    for (op, ins) in samples() {
        if ANY_DTYPE.contains(&op.rules().name()) {
            continue;
        }
        for i in 0..ins.len() {
            let mut ins = ins.clone();
            ins[i].dtype = if ins[i].dtype == DType::I32 { DType::F32 } else { DType::I32 };
            assert_refused(&op, &ins, &["T0102"], "another element type");
        }
    }
}

/// A dimension of two operands that is one factor has one size.
#[test]
fn different_sizes_of_one_factor_are_refused() {
    let mut num_cases = 0;
    for (op, ins) in samples() {
        if VARIADIC.contains(&op.rules().name()) {
            continue;
        }
        let rule = op.rules().shard(&ins.iter().collect::<Vec<_>>());
        for (i, factors) in rule.ins.iter().enumerate() {
            for (dim, letters) in factors.iter().enumerate() {
                let has = |j: usize| rule.ins[j].iter().any(|d| d.contains(&letters[0]));
                if !(0..ins.len()).any(|j| j != i && has(j)) {
                    continue;
                }
                let mut ins = ins.clone();
                ins[i].dims[dim] += 1;
                assert_refused(&op, &ins, &["T0103", "T0106"], "a longer dimension");
                num_cases += 1;
            }
        }
    }
    assert!(num_cases > 60, "only {num_cases} cases");
}

/// One more or one less dimension, where the op does not take any number of them, and whatever the answer, no panic.
#[test]
fn other_numbers_of_dimensions_are_answered() {
    let mut num_refused = 0;
    for (op, ins) in samples() {
        for i in 0..ins.len() {
            for more in [true, false] {
                let mut ins = ins.clone();
                if more {
                    ins[i].dims.push(3);
                } else if ins[i].dims.pop().is_none() {
                    continue;
                }
                if let Err(diag) = infer(&op, &ins) {
                    assert!(["T0102", "T0103", "T0104", "T0106"].contains(&diag.code), "{diag}");
                    num_refused += 1;
                }
            }
        }
    }
    assert!(num_refused > 90, "only {num_refused} refused");
}

#[test]
fn attributes_without_meaning_are_refused() {
    use titan_ir::ops::{Broadcast, Einsum, Guard, Pad, ReduceSum, Reshape, Reshard, Rope, TakeRows};
    use titan_ir::{AxisId, Layout, Placement};
    let t = |dims: &[u64]| TensorType::new(DType::F32, dims);
    let einsum = |spec: &str| Op::from(Einsum::new(spec, DType::F32));
    let two = || vec![t(&[2, 3]), t(&[3, 4])];
    let cut = |dim| Layout::replicate().with(AxisId(0), Placement::Shard(dim));
    let cases: Vec<(Op, Vec<TensorType>, &str)> = vec![
        (einsum("mk,kn"), two(), "is not of the form"),
        (einsum("mk,kn->nm"), two(), "is not one matrix product"),
        (einsum("mk,kn->m"), two(), "in 1 of the 3 tensors"),
        (einsum("mkb,knb->mnb"), two(), "in 3 of the 3 tensors"),
        (einsum("mm,kn->mn"), two(), "twice in one tensor"),
        (einsum("mK,Kn->mn"), two(), "expected letters a to z"),
        (einsum("akb,kn->abn"), two(), "is not one matrix product"),
        (
            einsum("mk,kn->mn"),
            vec![t(&[2, 3]), t(&[4, 4])],
            "`k` is 3 in the left operand [2, 3] and 4 in the right",
        ),
        (Reshape::new(&[5]).into(), vec![t(&[2, 3])], "from [2, 3] (6 elements) to [5] (5 elements)"),
        (
            Broadcast::new(&[3, 2]).into(),
            vec![t(&[3])],
            "[3, 2] does not end with the operand's dimensions [3]",
        ),
        (ReduceSum::leading(3).into(), vec![t(&[2, 3])], "over 3 leading dimensions of [2, 3]"),
        (ReduceSum::leading(0).into(), vec![t(&[2, 3])], "over 0 leading dimensions"),
        (Pad { rows: 1 }.into(), vec![t(&[2, 3])], "from 2 to 1 rows"),
        (TakeRows { rows: 3 }.into(), vec![t(&[2, 3])], "from 2 to 3 rows"),
        (Guard::new(&["a"]).into(), vec![], "got 0"),
        (Reshard::new(cut(2)).into(), vec![t(&[2, 3])], "cuts dimension 2 of [2, 3]"),
        (
            Rope { inverse: false }.into(),
            vec![t(&[1, 2, 3, 5]), t(&[2, 5]), t(&[2, 5])],
            "the head dimension 5",
        ),
    ];
    for (op, ins, message) in cases {
        let diag = infer(&op, &ins).unwrap_err();
        assert!(diag.code.starts_with("T01") && diag.message.contains(message), "{diag}");
    }
}
