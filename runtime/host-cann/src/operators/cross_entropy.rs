//! Cross entropy of logits and class numbers.

use super::args::Args;
use super::check::{FLOATS, INDICES, ensure};
use super::compute::{DType, Rows, View};
use super::indexing::index;
use super::launch::{Launch, Tensor};
use super::plan::Plan;
use super::softmax::max_and_sum;
use super::{Operator, Table};
use crate::fault::Fault;

pub(super) const OPERATORS: Table =
    &[("aclnnCrossEntropyLoss", forward as Operator), ("aclnnCrossEntropyLossGrad", backward)];

/// What becomes of the losses of all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reduction {
    None,
    Mean,
    Sum,
}

impl Reduction {
    fn of(text: Option<&str>) -> Result<Self, Fault> {
        match text {
            Some("none") => Ok(Self::None),
            None | Some("mean") => Ok(Self::Mean),
            Some("sum") => Ok(Self::Sum),
            Some(other) => {
                let text = format!("reductionOptional is `{other}`; allowed: none, mean, sum");
                Err(super::check::invalid(text))
            }
        }
    }

    /// A loss per row, or one.
    fn check(self, loss: &Tensor, rows: usize) -> Result<(), Fault> {
        let fits = match self {
            Self::None => loss.dims() == [rows],
            _ => loss.view.num_elements() == 1 && loss.rank() <= 1,
        };
        ensure(fits, || {
            format!("{} has shape {:?} for {rows} rows with reduction {self:?}", loss.name, loss.dims())
        })
    }
}

/// What both directions know of rows and classes.
#[derive(Debug, Clone)]
struct Rules {
    reduction: Reduction,
    ignored: i64,
    smoothing: f32,
}

impl Rules {
    fn check(&self) -> Result<(), Fault> {
        ensure((0.0..1.0).contains(&self.smoothing), || {
            format!("labelSmoothing is {}; allowed: 0 up to, not including, 1", self.smoothing)
        })
    }

    /// The class of each row, none if it is ignored.
    ///
    /// # Errors
    /// There is no such class.
    fn classes(&self, target: &View, num_classes: usize) -> Result<Vec<Option<usize>>, Fault> {
        let class = |&class: &i64| {
            if class == self.ignored { Ok(None) } else { index("target", class, num_classes).map(Some) }
        };
        target.to_vec::<i64>().iter().map(class).collect()
    }
}

/// Weights of classes: ones without a tensor.
fn weights(launch: &Launch<'_>, weight: &Option<Tensor>, num_classes: usize) -> Vec<f32> {
    launch.view(weight).map_or_else(|| vec![1.0; num_classes], View::to_vec)
}

fn check_weight(weight: &Option<Tensor>, num_classes: usize) -> Result<(), Fault> {
    let Some(weight) = weight else { return Ok(()) };
    weight.is_of(&[DType::F32])?;
    weight.has_dims(&[num_classes], "one weight per class")
}

fn forward(args: &mut Args) -> Result<Plan, Fault> {
    let (input, target) = (args.input("input")?, args.input("target")?);
    let weight = args.optional_input("weightOptional")?;
    let reduction = Reduction::of(args.text().as_deref())?;
    let rules = Rules { reduction, ignored: args.i64(), smoothing: args.f64() as f32 };
    let (_z_scale, return_z) = (args.f64(), args.bool());
    let (loss, log_prob) = (args.output("lossOut")?, args.output("logProbOut")?);
    let (z_loss, lse) = (args.optional_output("zlossOut")?, args.optional_output("lseForZlossOut")?);
    input.is_of(FLOATS)?;
    input.has_rank(2..=2)?;
    let [rows, num_classes] = [input.dims()[0], input.dims()[1]];
    ensure(num_classes > 0, || "input has no classes".to_owned())?;
    target.is_of(INDICES)?;
    target.has_dims(&[rows], "one class per row of input")?;
    check_weight(&weight, num_classes)?;
    rules.check()?;
    loss.is_typed_as(&input)?;
    reduction.check(&loss, rows)?;
    log_prob.is_typed_as(&input)?;
    log_prob.is_shaped_as(&input)?;
    for tensor in [&z_loss, &lse].into_iter().flatten() {
        tensor.is_typed_as(&input)?;
    }
    ensure(!return_z || args.family == crate::soc::Family::A5, || {
        "returnZloss has no effect on this device".to_owned()
    })?;
    ensure(!return_z, || "returnZloss is not implemented on this host".to_owned())?;
    args.plan(0, move |launch| {
        let weights = weights(launch, &weight, num_classes);
        let classes = rules.classes(&launch[&target], num_classes)?;
        let (input, log_prob) = (Rows::new(&launch[&input], 1), Rows::new(&launch[&log_prob], 1));
        let mut row = vec![0.0f32; num_classes];
        let (mut losses, mut total, mut total_weight) = (vec![0.0f32; rows], 0.0f32, 0.0f32);
        for (index, class) in classes.into_iter().enumerate() {
            input.load(index, &mut row);
            let (max, sum) = max_and_sum(&row);
            let log = sum.ln();
            row.iter_mut().for_each(|x| *x = *x - max - log);
            log_prob.store(index, &row);
            let Some(class) = class else { continue };
            let smooth: f32 = match rules.smoothing {
                0.0 => 0.0,
                smoothing => {
                    let sum: f32 = row.iter().zip(&weights).map(|(x, w)| -x * w).sum();
                    sum * smoothing / num_classes as f32
                }
            };
            losses[index] = (1.0 - rules.smoothing) * -row[class] * weights[class] + smooth;
            total += losses[index];
            total_weight += weights[class];
        }
        match rules.reduction {
            Reduction::None => launch[&loss].assign(&losses),
            Reduction::Sum => launch[&loss].assign(&[total]),
            Reduction::Mean => launch[&loss].assign(&[total / total_weight]),
        }
        Ok::<(), Fault>(())
    })
}

fn backward(args: &mut Args) -> Result<Plan, Fault> {
    let (grad, log_prob, target) = (args.input("gradLoss")?, args.input("logProb")?, args.input("target")?);
    let weight = args.optional_input("weightOptional")?;
    args.absent("gradZlossOptional")?;
    args.absent("lseForZlossOptional")?;
    let reduction = Reduction::of(args.text().as_deref())?;
    let rules = Rules { reduction, ignored: args.i64(), smoothing: args.f64() as f32 };
    let _z_scale = args.f64();
    let out = args.output("out")?;
    log_prob.is_of(FLOATS)?;
    log_prob.has_rank(2..=2)?;
    let [rows, num_classes] = [log_prob.dims()[0], log_prob.dims()[1]];
    ensure(num_classes > 0, || "logProb has no classes".to_owned())?;
    target.is_of(&[DType::I64])?;
    target.has_dims(&[rows], "one class per row of logProb")?;
    check_weight(&weight, num_classes)?;
    rules.check()?;
    grad.is_typed_as(&log_prob)?;
    reduction.check(&grad, rows)?;
    out.is_typed_as(&log_prob)?;
    out.is_shaped_as(&log_prob)?;
    args.plan(0, move |launch| {
        let weights = weights(launch, &weight, num_classes);
        let classes = rules.classes(&launch[&target], num_classes)?;
        let grads: Vec<f32> = launch[&grad].to_vec();
        let total_weight: f32 = classes.iter().flatten().map(|&class| weights[class]).sum();
        let scale = if rules.reduction == Reduction::Mean { 1.0 / total_weight } else { 1.0 };
        let weight_sum: f32 = weights.iter().sum();
        let (log_prob, out) = (Rows::new(&launch[&log_prob], 1), Rows::new(&launch[&out], 1));
        let mut row = vec![0.0f32; num_classes];
        for (index, class) in classes.into_iter().enumerate() {
            let Some(class) = class else {
                row.fill(0.0);
                out.store(index, &row);
                continue;
            };
            log_prob.load(index, &mut row);
            let grad = grads[if grads.len() == 1 { 0 } else { index }] * scale;
            let (hit, smooth) = (1.0 - rules.smoothing, rules.smoothing / num_classes as f32);
            let pull = hit * weights[class] + smooth * weight_sum;
            for (i, x) in row.iter_mut().enumerate() {
                let own = if i == class { hit * weights[class] } else { 0.0 };
                *x = grad * (x.exp() * pull - own - smooth * weights[i]);
            }
            out.store(index, &row);
        }
        Ok::<(), Fault>(())
    })
}
