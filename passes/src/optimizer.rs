//! `optimizer`: gradient clipping and AdamW, from the outputs `grad:<fqn>`, `loss` and `num_tokens` to the next state.
//!
//! With `n` the token count of the whole step, gradients `g` of the summed loss, and everything in f32:
//! `norm = sqrt(sum of g^2) / n`, `coef = min(1, max_norm / (norm + 1e-6)) / n`, and every weight takes one AdamW step with
//! `coef g`. Dividing once, here, makes the mean right for any number of microbatches and of ignored labels.
//! Before any state is written the step is guarded by finite loss and norm.
//!
//! Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019; `torch.nn.utils.clip_grad_norm_`;
//! normalisation of torchtitan v0.2.2.

use crate::autodiff::{self, GRAD_PREFIX, LOSS, NUM_TOKENS};
use crate::pass::{Changed, NumericsClass, Pass, PassCx};
use std::collections::BTreeMap;
use titan_ir::ops::{AdamW, Add, Div, Guard, Index, Min, Mul, ReduceSum, Reshard, Sqrt};
use titan_ir::{
    DType, Decay, Diag, DiagResult, Func, FuncResult, Init, LocId, LrSchedule, Module, Param, Phase,
    ResultKind, Role, Stage, TensorType, ValueId, ice,
};

/// The output with the norm of all gradients before clipping.
pub const GRAD_NORM: &str = "grad_norm";

/// The output with the learning rate of this step.
pub const LR: &str = "lr";

/// The input with the 0-based number of this step.
pub const STEP: &str = "step";

/// Added to the norm before `max_norm` is divided by it.
const CLIP_EPS: f64 = 1e-6;

/// The pass and its options; the defaults are torchtitan's.
#[derive(Debug, Clone)]
pub struct Optimizer {
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Weight decay.
    pub weight_decay: f64,
    /// Weight decay as AdamW has it; otherwise it is added to the gradient, as Adam has it.
    pub decoupled: bool,
    /// Largest norm of all gradients together.
    pub max_norm: f64,
    /// Learning rates.
    pub schedule: LrSchedule,
    /// Steps of the run: entries of the tables.
    pub num_steps: u64,
}

impl Default for Optimizer {
    fn default() -> Self {
        let schedule =
            LrSchedule { lr: 8e-4, warmup: 2, stable: 1, decay: 8, kind: Decay::Linear, min_factor: 0.0 };
        Self {
            beta1: 0.9,
            beta2: 0.95,
            eps: 1e-8,
            weight_decay: 0.1,
            decoupled: true,
            max_norm: 1.0,
            schedule,
            num_steps: 10,
        }
    }
}

impl Pass for Optimizer {
    fn name(&self) -> &'static str {
        "optimizer"
    }

    fn summary(&self) -> &'static str {
        "append gradient clipping, the guard against non-finite values and AdamW"
    }

    fn numerics(&self) -> NumericsClass {
        NumericsClass::Exact
    }

    fn stages(&self) -> &'static [Stage] {
        &[Stage::Graph]
    }

    fn run(&self, module: &mut Module, _cx: &mut PassCx) -> DiagResult<Changed> {
        let has_grads =
            |f: &Func| f.results.iter().any(|r| is_output(&r.kind, |name| name.starts_with(GRAD_PREFIX)));
        let Some(func) = module.funcs.iter_mut().find(|f| has_grads(f)) else {
            return Err(
                Diag::new("T0205", "no function has gradients to optimize with").help("run autodiff first")
            );
        };
        let phase = std::mem::replace(&mut func.phase, Phase::Update);
        let grads = take_gradients(func)?;
        let scales = self.clip(func, &grads)?;
        self.update(func, &grads, &scales)?;
        func.phase = phase;
        Ok(Changed::Yes)
    }
}

/// A weight, by its parameter index, its name as the path of new nodes, and its gradient.
struct Gradient {
    param: usize,
    loc: LocId,
    value: ValueId,
}

/// Scalars all updates share.
struct Scales {
    coef: ValueId,
    lr: ValueId,
    bias_corrections: [ValueId; 2],
}

fn is_output(kind: &ResultKind, test: impl Fn(&str) -> bool) -> bool {
    matches!(kind, ResultKind::Output(name) if test(name))
}

/// Takes the gradients out of the results, in f32 and laid out as the stored weight.
fn take_gradients(func: &mut Func) -> DiagResult<Vec<Gradient>> {
    let (grads, rest): (Vec<FuncResult>, Vec<FuncResult>) = std::mem::take(&mut func.results)
        .into_iter()
        .partition(|r| is_output(&r.kind, |name| name.starts_with(GRAD_PREFIX)));
    func.results = rest;
    let weights: Vec<usize> =
        func.params.iter().enumerate().filter(|(_, p)| p.role == Role::Param).map(|(i, _)| i).collect();
    // Gradients are in the order of the weights.
    if weights.len() != grads.len() {
        ice!("{} weights have {} gradients", weights.len(), grads.len());
    }
    let mut locs: BTreeMap<String, LocId> =
        func.locs.iter().enumerate().map(|(i, path)| (path.clone(), LocId::new(i))).collect();
    let mut taken = Vec::with_capacity(grads.len());
    for (grad, param) in grads.into_iter().zip(weights) {
        let Param { value: weight, name, .. } = func.params[param].clone();
        if !is_output(&grad.kind, |output| output.strip_prefix(GRAD_PREFIX) == Some(&name)) {
            ice!("{:?} is not the gradient of {name}", grad.kind);
        }
        let loc = *locs.entry(name).or_insert_with_key(|name| {
            func.locs.push(name.clone());
            LocId::new(func.locs.len() - 1)
        });
        func.loc = loc;
        let mut value = autodiff::cast(func, grad.value, DType::F32)?;
        // An accumulator is stored as the weight is.
        if !func.params.iter().any(|p| p.value == value) {
            let to = func.ty(weight).layout.clone();
            value = func.emit1(Reshard { to, reduce: None }, &[value])?;
        }
        taken.push(Gradient { param, loc, value });
    }
    Ok(taken)
}

impl Optimizer {
    /// Emits the global norm, the factor of all gradients and the guard; shows loss, norm and learning rate.
    fn clip(&self, func: &mut Func, grads: &[Gradient]) -> DiagResult<Scales> {
        let mut squares = Vec::with_capacity(grads.len());
        for grad in grads {
            func.loc = grad.loc;
            let square = func.emit1(Mul, &[grad.value, grad.value])?;
            squares.push(func.emit1(ReduceSum::all(), &[square])?);
        }
        func.loc = func.intern("optimizer");
        let square = sum_tree(func, squares)?;
        let mut norm = func.emit1(Sqrt, &[square])?;
        let num_tokens = take_output(func, NUM_TOKENS);
        if let Some(num_tokens) = num_tokens {
            norm = func.emit1(Div, &[norm, num_tokens])?;
        }
        let [one, max_norm, eps] = [1.0, self.max_norm, CLIP_EPS].map(|c| autodiff::constant(func, c, &[]));
        let (one, max_norm, eps) = (one?, max_norm?, eps?);
        let shifted = func.emit1(Add, &[norm, eps])?;
        let ratio = func.emit1(Div, &[max_norm, shifted])?;
        let mut coef = func.emit1(Min, &[ratio, one])?;
        if let Some(num_tokens) = num_tokens {
            coef = func.emit1(Div, &[coef, num_tokens])?;
        }
        let (loss, coef) = guard(func, coef, norm, num_tokens)?;
        let step = step_input(func);
        let num_steps = self.num_steps;
        let table = |func: &mut Func, name: &str, init: Init| {
            let table = func.add_param(name, TensorType::new(DType::F32, &[num_steps]), Role::Buffer, init);
            func.emit1(Index, &[table, step])
        };
        let lr = table(func, "lr_schedule", Init::LrSchedule(self.schedule))?;
        let bias_correction1 = table(func, "bias_correction1", Init::BiasCorrection { beta: self.beta1 })?;
        let bias_correction2 = table(func, "bias_correction2", Init::BiasCorrection { beta: self.beta2 })?;
        for (name, value) in [(LOSS, loss), (GRAD_NORM, norm), (LR, lr)] {
            func.add_result(value, ResultKind::Output(name.to_owned()));
        }
        Ok(Scales { coef, lr, bias_corrections: [bias_correction1, bias_correction2] })
    }

    /// Emits one optimizer step per weight.
    fn update(&self, func: &mut Func, grads: &[Gradient], scales: &Scales) -> DiagResult<()> {
        let op = AdamW {
            beta1: self.beta1,
            beta2: self.beta2,
            eps: self.eps,
            weight_decay: self.weight_decay,
            decoupled: self.decoupled,
        };
        for grad in grads {
            func.loc = grad.loc;
            let weight = func.params[grad.param].clone();
            let ty = func.ty(weight.value).clone();
            let first = func.params.len();
            let moments = ["exp_avg", "exp_avg_sq"].map(|m| {
                func.add_param(&format!("{}.{m}", weight.name), ty.clone(), Role::Optimizer, Init::Zeros)
            });
            let scaled = func.emit1(Mul, &[grad.value, scales.coef])?;
            let [bias_correction1, bias_correction2] = scales.bias_corrections;
            let ins =
                [weight.value, scaled, moments[0], moments[1], scales.lr, bias_correction1, bias_correction2];
            let outs = func.emit(op.clone(), &ins)?;
            for (out, param) in outs.iter().zip([grad.param, first, first + 1]) {
                func.add_result(*out, ResultKind::Update(param));
            }
        }
        Ok(())
    }
}

/// The sum of scalars as a balanced tree: its rounding error grows with the logarithm of their number.
fn sum_tree(func: &mut Func, mut terms: Vec<ValueId>) -> DiagResult<ValueId> {
    while terms.len() > 1 {
        terms = terms
            .chunks(2)
            .map(|pair| if let [a, b] = *pair { func.emit1(Add, &[a, b]) } else { Ok(pair[0]) })
            .collect::<DiagResult<_>>()?;
    }
    match terms.first() {
        Some(&sum) => Ok(sum),
        None => autodiff::constant(func, 0.0, &[]),
    }
}

/// Removes an output and gives its value.
fn take_output(func: &mut Func, name: &str) -> Option<ValueId> {
    let at = func.results.iter().position(|r| is_output(&r.kind, |n| n == name))?;
    Some(func.results.remove(at).value)
}

/// The mean loss, and the coefficient once loss and norm are known to be finite.
fn guard(
    func: &mut Func,
    coef: ValueId,
    norm: ValueId,
    num_tokens: Option<ValueId>,
) -> DiagResult<(ValueId, ValueId)> {
    let Some(mut loss) = take_output(func, LOSS) else {
        return Err(Diag::new("T0203", "the function with the gradients has no output `loss`"));
    };
    if let Some(num_tokens) = num_tokens {
        loss = func.emit1(Div, &[loss, num_tokens])?;
    }
    let names = format!("coef,{LOSS},{GRAD_NORM}");
    let coef = func.emit1(Guard { names }, &[coef, loss, norm])?;
    Ok((loss, coef))
}

/// The step number, an input the host supplies.
fn step_input(func: &mut Func) -> ValueId {
    match func.params.iter().find(|p| p.name == STEP) {
        Some(step) => step.value,
        None => func.add_param(STEP, TensorType::scalar(DType::I32), Role::Input, Init::Host),
    }
}
