//! AdamW: Loshchilov and Hutter, "Decoupled weight decay regularization", 2019, as the vendor writes it down.

use super::args::{Args, null};
use super::check::{FLOATS, ensure};
use super::compute::{DType, View, for_each_row};
use super::launch::{Launch, Tensor};
use super::plan::Plan;
use super::{Operator, Table};
use crate::fault::Fault;

pub(super) const OPERATORS: Table =
    &[("aclnnApplyAdamW", apply_adam_w as Operator), ("aclnnApplyAdamWV2", apply_adam_w_v2)];

/// A step of the optimizer, the same for all elements.
#[derive(Debug, Clone, Copy)]
struct Step {
    lr: f32,
    weight_decay: f32,
    betas: [f32; 2],
    /// 1 - beta^t.
    corrections: [f32; 2],
    epsilon: f32,
    maximize: bool,
}

/// Elements worked on at a time.
const CHUNK: usize = 512;

impl Step {
    /// One element: weight, moments and the running maximum of the second.
    fn element(&self, [weight, m, v, max]: [f32; 4], grad: f32, has_max: bool) -> [f32; 4] {
        let grad = if self.maximize { -grad } else { grad };
        let m = m * self.betas[0] + (1.0 - self.betas[0]) * grad;
        let v = v * self.betas[1] + (1.0 - self.betas[1]) * grad * grad;
        let max = max.max(v);
        let second = if has_max { max } else { v };
        let denominator = (second / self.corrections[1]).sqrt() + self.epsilon;
        let decayed = weight * (1.0 - self.lr * self.weight_decay);
        [decayed - self.lr * (m / self.corrections[0]) / denominator, m, v, max]
    }

    fn apply(&self, state: [&View; 4], grad: &View, has_max: bool) {
        let [weight, m, v, max] = state;
        let views = [weight, m, v, max, grad];
        let mut lanes = [[0.0f32; CHUNK]; 5];
        for_each_row(views, |at, len, stride| {
            for from in (0..len).step_by(CHUNK) {
                let n = CHUNK.min(len - from);
                for k in 0..5 {
                    views[k].load(at[k] + from * stride[k], stride[k], &mut lanes[k][..n]);
                }
                let [weight, m, v, max, grad] = &mut lanes;
                let state = weight.iter_mut().zip(m).zip(v).zip(max).zip(grad).take(n);
                for ((((weight, m), v), max), grad) in state {
                    [*weight, *m, *v, *max] = self.element([*weight, *m, *v, *max], *grad, has_max);
                }
                for k in 0..if has_max { 4 } else { 3 } {
                    views[k].store(at[k] + from * stride[k], stride[k], &lanes[k][..n]);
                }
            }
        });
    }
}

/// All tensors have the type and shape of the weights.
fn check_alike(weight: &Tensor, others: &[&Tensor]) -> Result<(), Fault> {
    weight.is_of(FLOATS)?;
    weight.has_rank(1..=8)?;
    for tensor in others {
        tensor.is_typed_as(weight)?;
        tensor.is_shaped_as(weight)?;
    }
    Ok(())
}

/// All hyperparameters are in device memory; `beta1Power` is that of the step before, and stays what it is.
fn apply_adam_w(args: &mut Args) -> Result<Plan, Fault> {
    let (weight, m, v) = (args.updated("varRef")?, args.updated("mRef")?, args.updated("vRef")?);
    let names = ["beta1Power", "beta2Power", "lr", "weightDecay", "beta1", "beta2", "eps"];
    let scalars: Vec<Tensor> = names.iter().map(|name| args.input(name)).collect::<Result<_, _>>()?;
    let grad = args.input("grad")?;
    let max = args.optional_input("maxGradNormOptional")?;
    let (amsgrad, maximize) = (args.bool(), args.bool());
    if amsgrad && max.is_none() {
        return Err(null("maxGradNormOptional, with amsgrad,"));
    }
    check_alike(&weight, &[&m, &v, &grad])?;
    if let Some(max) = &max {
        check_alike(&weight, &[max])?;
    }
    for scalar in &scalars {
        scalar.is_typed_as(&weight)?;
        ensure(scalar.view.num_elements() == 1, || {
            format!("{} has shape {:?}; one element is expected", scalar.name, scalar.dims())
        })?;
    }
    args.plan(0, move |launch| {
        let value = |i: usize| launch[&scalars[i]].get::<f32>(0);
        let betas = [value(4), value(5)];
        let step = Step {
            lr: value(2),
            weight_decay: value(3),
            betas,
            corrections: [1.0 - value(0) * betas[0], 1.0 - value(1) * betas[1]],
            epsilon: value(6),
            maximize,
        };
        update(launch, &step, [&weight, &m, &v], &grad, max.as_ref().filter(|_| amsgrad), false);
    })
}

/// Updates weights and moments. The maximum is kept in `v` itself, or, if `keeps_max`, in its own tensor.
fn update(
    launch: &Launch<'_>,
    step: &Step,
    [weight, m, v]: [&Tensor; 3],
    grad: &Tensor,
    max: Option<&Tensor>,
    keeps_max: bool,
) {
    let (weight, m, v, grad) = (&launch[weight], &launch[m], &launch[v], &launch[grad]);
    let Some(max) = max else { return step.apply([weight, m, v, v], grad, false) };
    if keeps_max {
        return step.apply([weight, m, v, &launch[max]], grad, true);
    }
    let mut values: Vec<f32> = launch[max].to_vec();
    let copy = View::of_f32(&mut values, &weight.dims);
    step.apply([weight, m, v, &copy], grad, true);
}

/// The rate and the other hyperparameters are the host's, and frozen.
fn apply_adam_w_v2(args: &mut Args) -> Result<Plan, Fault> {
    let (weight, m, v) = (args.updated("varRef")?, args.updated("mRef")?, args.updated("vRef")?);
    let max = args.optional_updated("maxGradNormOptionalRef")?;
    let (grad, count) = (args.input("grad")?, args.input("step")?);
    let (lr, betas, weight_decay, epsilon) = (args.f32(), [args.f32(), args.f32()], args.f32(), args.f32());
    let (amsgrad, maximize) = (args.bool(), args.bool());
    if amsgrad && max.is_none() {
        return Err(null("maxGradNormOptionalRef, with amsgrad,"));
    }
    check_alike(&weight, &[&m, &v])?;
    grad.is_of(FLOATS)?;
    if weight.dtype() != DType::F32 {
        grad.is_typed_as(&weight)?;
    }
    grad.is_shaped_as(&weight)?;
    if let Some(max) = &max {
        check_alike(&weight, &[max])?;
    }
    count.is_of(&[DType::I64, DType::F32])?;
    ensure(count.view.num_elements() == 1, || "step has more than one element".to_owned())?;
    args.plan(0, move |launch| {
        let count = launch[&count].get::<f32>(0);
        let corrections = betas.map(|beta| 1.0 - beta.powf(count));
        let step = Step { lr, weight_decay, betas, corrections, epsilon, maximize };
        update(launch, &step, [&weight, &m, &v], &grad, max.as_ref().filter(|_| amsgrad), true);
    })
}
