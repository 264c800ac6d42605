//! The evaluator: rounding, collectives, and per-rank programs against hand-computed values.

use crate::common::{Rng, assert_close, eval_op, func_of, infer, mesh, samples, values};
use titan_ir::eval::{eval, eval_ranks};
use titan_ir::kernel::ReduceKind;
use titan_ir::ops::{Add, AllGather, AllReduce, Cast, Mul, RankSlice, ReduceScatter, ReduceSum};
use titan_ir::{AxisId, DType, EvalMode, Func, Init, Op, ResultKind, Role, Tensor, TensorType};

const COLLECTIVES: [&str; 4] = ["all_gather", "reduce_scatter", "all_reduce", "rank_slice"];

#[test]
fn functions_of_one_op_give_what_the_op_gives() {
    let mut rng = Rng(2);
    for (op, ins) in samples() {
        let func = func_of(&op, &ins);
        let args = values(&op, &ins, &mut rng);
        let expected = eval_op(&op, &args, &infer(&op, &ins));
        if COLLECTIVES.contains(&op.rules().name()) {
            // An op alone means what rank 0 gets when all ranks hold the same.
            let ranks = vec![args; mesh().num_ranks() as usize];
            let results = eval_ranks(&func, &mesh(), &ranks, EvalMode::F64);
            results[0].iter().zip(&expected).for_each(|(a, b)| assert_close(a, b, 1e-15, &format!("{op:?}")));
        } else {
            assert_eq!(eval(&func, &args, EvalMode::F64), expected, "{op:?}");
        }
    }
}

#[test]
fn rounded_results_are_of_their_type() {
    let mut rng = Rng(4);
    for (op, ins) in samples() {
        if COLLECTIVES.contains(&op.rules().name()) {
            continue;
        }
        let args = values(&op, &ins, &mut rng);
        let outs = infer(&op, &ins);
        for (out, ty) in eval(&func_of(&op, &ins), &args, EvalMode::Rounded).iter().zip(&outs) {
            assert_eq!(*out, out.clone().rounded(ty.dtype), "{op:?}");
        }
    }
}

#[test]
fn rounding_happens_between_ops() {
    let mut func = Func::new("f");
    let x = func.add_param("x", TensorType::scalar(DType::F32), Role::Input, Init::Host);
    let y = func.emit1(Cast { to: DType::Bf16 }, &[x]).unwrap();
    let y = func.emit1(Mul, &[y, y]).unwrap();
    func.add_result(y, ResultKind::Output("y".to_owned()));
    let x = Tensor::scalar(1.0 + 1.0 / 512.0);
    // bf16 has 8 significant bits: 1 + 1/512 is 1 there.
    assert_eq!(eval(&func, std::slice::from_ref(&x), EvalMode::Rounded)[0].data, [1.0]);
    assert_eq!(
        eval(&func, std::slice::from_ref(&x), EvalMode::F64)[0].data,
        [(1.0 + 1.0 / 512.0) * (1.0 + 1.0 / 512.0)]
    );
}

/// Rank `r` of a 2 x 4 mesh holds `[10 r, 10 r + 1, ..]`.
fn on_ranks(op: impl Into<Op>, rows: u64) -> Vec<Vec<f64>> {
    let func = func_of(&op.into(), &[TensorType::new(DType::F32, &[rows])]);
    let args: Vec<Vec<Tensor>> = (0..8)
        .map(|rank| vec![Tensor::new(&[rows], (0..rows).map(|i| (10 * rank + i) as f64).collect())])
        .collect();
    eval_ranks(&func, &mesh(), &args, EvalMode::F64).into_iter().map(|mut r| r.remove(0).data).collect()
}

#[test]
fn collectives_by_hand() {
    let (dp, tp) = (AxisId(0), AxisId(1));
    let gathered = on_ranks(AllGather { axis: dp, ranks: 2 }, 2);
    assert_eq!(gathered[1], [10.0, 11.0, 50.0, 51.0]);
    assert_eq!(gathered[5], gathered[1]);
    let scattered = on_ranks(ReduceScatter { axis: tp, ranks: 4, reduce: ReduceKind::Sum }, 8);
    assert_eq!(scattered[6], [4.0 * 4.0 + 220.0, 4.0 * 5.0 + 220.0]);
    let largest = on_ranks(AllReduce { axis: tp, ranks: 4, reduce: ReduceKind::Max }, 2);
    assert_eq!(largest[2], [30.0, 31.0]);
    assert_eq!(largest[4], [70.0, 71.0]);
    let slices = on_ranks(RankSlice { axis: tp, ranks: 4 }, 6);
    assert_eq!(slices[4..], [vec![40.0, 41.0], vec![52.0, 53.0], vec![64.0, 65.0], vec![0.0, 0.0]]);
}

/// Gradient norm of a sharded gradient: local squares, local sum, sum over ranks.
#[test]
fn per_rank_programs_run_on_all_ranks() {
    let mut func = Func::new("norm");
    let g = func.add_param("g", TensorType::new(DType::F32, &[3]), Role::Input, Init::Host);
    let square = func.emit1(Mul, &[g, g]).unwrap();
    let sum = func.emit1(ReduceSum::all(), &[square]).unwrap();
    let along_tp =
        func.emit1(AllReduce { axis: AxisId(1), ranks: 4, reduce: ReduceKind::Sum }, &[sum]).unwrap();
    let total =
        func.emit1(AllReduce { axis: AxisId(0), ranks: 2, reduce: ReduceKind::Sum }, &[along_tp]).unwrap();
    let twice = func.emit1(Add, &[total, total]).unwrap();
    func.add_result(twice, ResultKind::Output("twice".to_owned()));
    let args: Vec<Vec<Tensor>> = (0..8).map(|r| vec![Tensor::new(&[3], vec![f64::from(r); 3])]).collect();
    let results = eval_ranks(&func, &mesh(), &args, EvalMode::F64);
    let expected = 2.0 * 3.0 * (0..8).map(|r| f64::from(r * r)).sum::<f64>();
    assert!(results.iter().all(|r| r[0].data == [expected]));
}
