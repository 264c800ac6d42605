//! The backward nodes of every op give the slopes that finite differences measure.

use crate::common::{Rng, assert_close, eval_op, infer, samples, values};
use std::collections::BTreeSet;
use titan_ir::eval::eval;
use titan_ir::{DType, EvalMode, Func, Init, Op, ResultKind, Role, Tensor, TensorType, ValueId, Vjp, VjpCx};

/// Half the distance of the two points of a central difference.
const STEP: f64 = 1e-5;

/// The backward function of an op: parameters are its operands and a cotangent per given result, results the cotangents of the
/// operands. `None` if the op is not differentiable in that result.
struct Backward {
    func: Func,
    /// Whether an operand has a gradient.
    has_grad: Vec<bool>,
}

fn backward(op: &Op, ins: &[TensorType], given: &[bool], ct_dtype: Option<DType>) -> Option<Backward> {
    let mut func = Func::new("backward");
    let param = |func: &mut Func, ty: &TensorType, name: String| {
        func.add_param(&name, ty.clone(), Role::Input, Init::Host)
    };
    let args: Vec<ValueId> =
        ins.iter().enumerate().map(|(i, ty)| param(&mut func, ty, format!("x{i}"))).collect();
    let outs = func.emit(op.clone(), &args).unwrap();
    let cts: Vec<Option<ValueId>> = outs
        .iter()
        .zip(given)
        .enumerate()
        .map(|(i, (&out, &given))| {
            let ty = func.ty(out).clone();
            let ty = ct_dtype.map_or(ty.clone(), |dtype| ty.with_dtype(dtype));
            given.then(|| param(&mut func, &ty, format!("ct{i}")))
        })
        .collect();
    let mut cx = VjpCx { func: &mut func, ins: &args, outs: &outs, cts: &cts };
    let Vjp::Grads(grads) = op.rules().vjp(&mut cx).unwrap() else { return None };
    assert_eq!(grads.len(), ins.len(), "{op:?}");
    for (i, grad) in grads.iter().enumerate() {
        let Some(grad) = *grad else { continue };
        let (found, operand) = (func.ty(grad), &ins[i]);
        assert_eq!(found.dims, operand.dims, "{op:?}: cotangent {i}");
        assert!(
            found.dtype == operand.dtype || found.dtype == DType::F32,
            "{op:?}: cotangent {i} is {}",
            found.dtype
        );
        func.add_result(grad, ResultKind::Output(format!("d{i}")));
    }
    Some(Backward { func, has_grad: grads.iter().map(Option::is_some).collect() })
}

/// The slopes of `sum(ct * result)` in every element of an operand.
fn slopes(op: &Op, args: &[Tensor], outs: &[TensorType], cts: &[Option<Tensor>], operand: usize) -> Tensor {
    let loss = |args: &[Tensor]| -> f64 {
        let dot = |(out, ct): (Tensor, &Option<Tensor>)| match ct {
            Some(ct) => out.data.iter().zip(&ct.data).map(|(a, b)| a * b).sum(),
            None => 0.0,
        };
        eval_op(op, args, outs).into_iter().zip(cts).map(dot).sum()
    };
    let mut moved = args.to_vec();
    let mut slope = |i: usize| {
        let x = args[operand].data[i];
        let mut at = |x: f64| {
            moved[operand].data[i] = x;
            loss(&moved)
        };
        let difference = at(x + STEP) - at(x - STEP);
        at(x);
        difference / (2.0 * STEP)
    };
    let data = (0..args[operand].data.len()).map(&mut slope).collect();
    Tensor::new(&args[operand].dims, data)
}

#[test]
fn vjps_agree_with_finite_differences() {
    let mut rng = Rng(11);
    let (mut skipped, mut constant) = (BTreeSet::new(), BTreeSet::new());
    for (op, ins) in samples() {
        let name = op.rules().name();
        let outs = infer(&op, &ins);
        // Results that only serve the gradient refuse a cotangent.
        let all = vec![true; outs.len()];
        let first: Vec<bool> = (0..outs.len()).map(|i| i == 0).collect();
        let given = [all, first].into_iter().find(|given| backward(&op, &ins, given, None).is_some());
        let Some(given) = given else {
            skipped.insert(name);
            continue;
        };
        for ct_dtype in [None, Some(DType::F32)] {
            let Backward { func, has_grad } = backward(&op, &ins, &given, ct_dtype).unwrap();
            let args = values(&op, &ins, &mut rng);
            let cts: Vec<Option<Tensor>> = outs
                .iter()
                .zip(&given)
                .map(|(ty, &given)| given.then(|| values(&op, std::slice::from_ref(ty), &mut rng).remove(0)))
                .collect();
            let all_args: Vec<Tensor> = args.iter().cloned().chain(cts.iter().flatten().cloned()).collect();
            let mut grads = eval(&func, &all_args, EvalMode::F64).into_iter();
            for (i, ty) in ins.iter().enumerate().filter(|(_, ty)| ty.dtype.is_float()) {
                let expected = slopes(&op, &args, &outs, &cts, i);
                let what = format!("{op:?}, operand {i} {ty:?}");
                if has_grad[i] {
                    assert_close(&grads.next().unwrap(), &expected, 1e-7, &what);
                } else if expected.data.iter().any(|x| *x != 0.0) {
                    constant.insert((name, i));
                }
            }
        }
    }
    // The answers the ops declare, so that a gradient is not lost by mistake.
    let not_differentiable = [
        "adamw",
        "all_gather",
        "all_reduce",
        "attention_grad",
        "cross_entropy_grad",
        "embedding_grad",
        "index",
        "launch",
        "max",
        "min",
        "rank_slice",
        "reduce_scatter",
        "rms_norm_grad",
        "silu_grad",
    ];
    assert_eq!(skipped, BTreeSet::from(not_differentiable));
    assert_eq!(constant, BTreeSet::from([("rope", 1), ("rope", 2)]));
}

/// Ignored labels have no loss and no gradient.
#[test]
fn ignored_labels_do_not_count() {
    use titan_ir::ops::{CrossEntropy, CrossEntropyGrad};
    let ty = |dims: &[u64]| TensorType::new(DType::F32, dims);
    let logits = Tensor::new(&[2, 3], vec![1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
    let labels = Tensor::new(&[2], vec![-100.0, 1.0]);
    let forward = eval_op(&CrossEntropy.into(), &[logits.clone(), labels.clone()], &[ty(&[2]), ty(&[2])]);
    assert_eq!(forward[0].data[0], 0.0);
    assert!((forward[0].data[1] - ((-1.0_f64).exp() + 1.0 + 1.0_f64.exp()).ln()).abs() < 1e-15);
    let dnll = Tensor::new(&[2], vec![1.0, 1.0]);
    let grad =
        &eval_op(&CrossEntropyGrad.into(), &[logits, labels, forward[1].clone(), dnll], &[ty(&[2, 3])])[0];
    assert_eq!(grad.data[..3], [0.0; 3]);
    assert!(grad.data[3..].iter().sum::<f64>().abs() < 1e-15 && grad.data[4] < 0.0);
}
