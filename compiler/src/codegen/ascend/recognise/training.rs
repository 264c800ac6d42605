//! Losses and the optimizer.

use super::super::emitter::Emitter;
use super::super::launch::Launch;
use super::super::native::{cast, dense};
use super::Match;
use super::emit::{operand, overlap};
use titan_ir::ascend::{Arg, Call, Element, TableFill, TensorArg};
use titan_ir::ops::adamw::AdamW;
use titan_ir::ops::cross_entropy::IGNORE_LABEL;

/// `count` rows of a tensor from row `first`.
fn rows(t: &TensorArg, first: u64, count: u64) -> TensorArg {
    let row: u64 = t.dims[1..].iter().product();
    let dims: Vec<u64> = [count].into_iter().chain(t.dims[1..].iter().copied()).collect();
    dense(t.element, &dims, t.at + first * row * t.element.size_bytes())
}

/// First row and number of rows of blocks of which `per_row` f32 values stay in scratch.
fn blocks(e: &Emitter<'_>, num_rows: u64, per_row: u64) -> Vec<(u64, u64)> {
    let count = (e.budget_bytes() / (per_row * 4) / 16 * 16).max(16);
    let starts = (0..num_rows).step_by(usize::try_from(count).expect("a block is small"));
    starts.map(|first| (first, count.min(num_rows - first))).collect()
}

/// In f32: itself, or a cast in scratch.
fn widened(e: &mut Emitter<'_>, t: TensorArg) -> TensorArg {
    if t.element == Element::F32 {
        return t;
    }
    let wide = e.temp(Element::F32, &t.dims);
    cast(e, t, &wide);
    wide
}

/// Losses, and `lse = x - log_prob` of the first column.
pub(super) fn cross_entropy(e: &mut Emitter<'_>, launch: &Launch<'_>, found: &Match) -> bool {
    let (Some(x), Some(labels)) = (operand(launch, found, 0), operand(launch, found, 1)) else {
        return false;
    };
    let (num, width) = (x.dims[0], x.dims[1]);
    let result = |k| found.output(launch, k).map(|at| dense(Element::F32, &[num], at));
    let (nll, lse) = (result(0), result(1));
    for (first, count) in blocks(e, num, 2 * width) {
        let wide = widened(e, rows(&x, first, count));
        let log_prob = e.temp(Element::F32, &[count, width]);
        let unused = [0; 2].map(|_| e.temp(Element::F32, &[count]));
        let loss = match &nll {
            Some(nll) => rows(nll, first, count),
            None => e.temp(Element::F32, &[count]),
        };
        let args = vec![
            Arg::Tensor(wide.clone()),
            Arg::Tensor(rows(&labels, first, count)),
            Arg::Null,
            Arg::Text("none".to_owned()),
            Arg::I64(i64::from(IGNORE_LABEL)),
            Arg::F64(0.0),
            Arg::F64(0.0),
            Arg::Bool(false),
            Arg::Tensor(loss.clone()),
            Arg::Tensor(log_prob.clone()),
            Arg::Tensor(unused[0].clone()),
            Arg::Tensor(unused[1].clone()),
        ];
        e.operator("aclnnCrossEntropyLoss", args);
        if let Some(lse) = &lse {
            let column = |t: &TensorArg| TensorArg { dims: vec![count], strides: vec![width], ..t.clone() };
            let one = Arg::Scalar(Element::F32, 1.0);
            let args = vec![
                Arg::Tensor(column(&wide)),
                Arg::Tensor(column(&log_prob)),
                one,
                Arg::Tensor(rows(lse, first, count)),
            ];
            e.operator("aclnnSub", args);
        }
        [&wide, &log_prob, &unused[0], &unused[1], &loss].into_iter().for_each(|t| e.free(t));
    }
    true
}

/// A scalar as a vector.
fn repeated(e: &mut Emitter<'_>, scalar: &TensorArg, count: u64) -> TensorArg {
    let all = e.temp(Element::F32, &[count]);
    let one = dense(Element::F32, &[1], scalar.at);
    e.operator("aclnnInplaceCopy", vec![Arg::Tensor(all.clone()), Arg::Tensor(one)]);
    all
}

/// From `log_prob = x - lse`.
pub(super) fn cross_entropy_grad(e: &mut Emitter<'_>, launch: &Launch<'_>, found: &Match) -> bool {
    let ins: Option<Vec<TensorArg>> = (0..3).map(|k| operand(launch, found, k)).collect();
    let (Some(mut ins), Some(dx)) = (ins, found.output(launch, 0)) else { return false };
    let d_loss = operand(launch, found, 3);
    ins.extend(d_loss.clone());
    let (num, width) = (ins[0].dims[0], ins[0].dims[1]);
    let dx = TensorArg { at: dx, ..ins[0].clone() };
    let is_direct = dx.element == Element::F32 && !ins.iter().any(|t| overlap(t, &dx));
    for (first, count) in blocks(e, num, 3 * width) {
        let [x, labels, lse] = [0, 1, 2].map(|k| rows(&ins[k], first, count));
        let d_loss = match &d_loss {
            Some(d_loss) if d_loss.dims.is_empty() => repeated(e, d_loss, count),
            Some(d_loss) => rows(d_loss, first, count),
            None => {
                let bits = found.constant.unwrap_or(1.0).to_bits();
                dense(Element::F32, &[count], e.table(TableFill::Constant { bits, len: num }))
            }
        };
        let wide = widened(e, x);
        let log_prob = e.temp(Element::F32, &[count, width]);
        let lse = dense(Element::F32, &[count, 1], lse.at);
        let one = Arg::Scalar(Element::F32, 1.0);
        let args = vec![Arg::Tensor(wide.clone()), Arg::Tensor(lse), one, Arg::Tensor(log_prob.clone())];
        e.operator("aclnnSub", args);
        e.free(&wide);
        let labels_i64 = e.temp(Element::I64, &[count]);
        cast(e, labels, &labels_i64);
        let to = rows(&dx, first, count);
        let grad = if is_direct { to.clone() } else { e.temp(Element::F32, &[count, width]) };
        let args = vec![
            Arg::Tensor(d_loss.clone()),
            Arg::Tensor(log_prob.clone()),
            Arg::Tensor(labels_i64.clone()),
            Arg::Null,
            Arg::Null,
            Arg::Null,
            Arg::Text("none".to_owned()),
            Arg::I64(i64::from(IGNORE_LABEL)),
            Arg::F64(0.0),
            Arg::F64(0.0),
            Arg::Tensor(grad.clone()),
        ];
        e.operator("aclnnCrossEntropyLossGrad", args);
        if to.element != Element::F32 {
            cast(e, grad.clone(), &to);
        } else if !is_direct {
            e.push(Call::Copy { src: grad.at, dst: to.at, size_bytes: to.extent_bytes() });
        }
        [&d_loss, &log_prob, &labels_i64, &grad].into_iter().for_each(|t| e.free(t));
    }
    true
}

/// The update in place. The operator takes `beta^(t - 1)`; our bias correction is `1 - beta^t`.
pub(super) fn adamw(e: &mut Emitter<'_>, launch: &Launch<'_>, found: &Match, op: &AdamW) -> bool {
    let ins: Option<Vec<TensorArg>> = (0..7).map(|k| operand(launch, found, k)).collect();
    let outs: Option<Vec<u64>> = (0..3).map(|k| found.output(launch, k)).collect();
    let (Some(ins), Some(outs)) = (ins, outs) else { return false };
    let [weight, grad, moment1, moment2] = [0, 1, 2, 3].map(|k: usize| &ins[k]);
    let updated = [weight, moment1, moment2];
    let in_place = updated.iter().zip(&outs).all(|(t, &at)| t.at == at);
    if !in_place || (!op.decoupled && op.weight_decay != 0.0) {
        return false;
    }
    let scalar = |t: &TensorArg| dense(Element::F32, &[1], t.at);
    let mut args: Vec<Arg> = updated.map(|t| Arg::Tensor(t.clone())).into();
    args.push(Arg::Tensor(power(e, "power of beta1", &ins[5], op.beta1)));
    args.push(Arg::Tensor(power(e, "power of beta2", &ins[6], op.beta2)));
    args.push(Arg::Tensor(scalar(&ins[4])));
    for setting in [op.weight_decay, op.beta1, op.beta2, op.eps] {
        args.push(Arg::Tensor(e.constant(setting as f32, 1)));
    }
    args.extend([Arg::Tensor(grad.clone()), Arg::Null, Arg::Bool(false), Arg::Bool(false)]);
    e.operator("aclnnApplyAdamW", args);
    true
}

/// `(1 - correction) / beta`.
fn power(e: &mut Emitter<'_>, what: &'static str, correction: &TensorArg, beta: f64) -> TensorArg {
    let from = dense(Element::F32, &[1], correction.at);
    e.slot(what, correction.at, &[1], |e, to| {
        let one = e.table(TableFill::Constant { bits: 1_f32.to_bits(), len: 1 });
        let whole = e.temp(Element::F32, &[1]);
        let alpha = Arg::Scalar(Element::F32, 1.0);
        let args = vec![
            Arg::Tensor(dense(Element::F32, &[1], one)),
            Arg::Tensor(from),
            alpha,
            Arg::Tensor(whole.clone()),
        ];
        e.operator("aclnnSub", args);
        let beta = Arg::Scalar(Element::F32, beta);
        e.operator("aclnnDivs", vec![Arg::Tensor(whole.clone()), beta, Arg::Tensor(to.clone())]);
        e.free(&whole);
    })
}
