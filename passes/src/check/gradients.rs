//! Are the gradients that `autodiff` appended the derivatives of the loss?
//!
//! Asks the evaluator only: along a direction `d` in the space of one weight, the change of the loss must be `<gradient, d>`. The
//! direction has the signs of a hash, so that every element counts. Central differences at two step lengths are extrapolated,
//! which leaves an error of the fourth order. Everything is f64 and unrounded, so that the tolerance is small.

use crate::autodiff::{GRAD_PREFIX, LOSS};
use crate::simplify::remove_dead;
use std::collections::BTreeMap;
use titan_ir::eval::{EvalMode, Tensor, eval};
use titan_ir::{Diag, Diags, Func, ResultKind, Role};

/// The longer of the two steps.
const STEP: f64 = 2e-4;

/// Difference allowed, relative to the larger of the derivative and [`SMALL`] times the loss.
const TOLERANCE: f64 = 1e-7;

/// Derivatives are compared absolutely below this part of the loss.
const SMALL: f64 = 1e-3;

/// Compares every output `grad:<weight>` of a function with differences of the output `loss`. `state` has the values of all
/// parameters by name.
///
/// # Errors
/// T0206 for every weight whose gradient is missing or wrong.
pub fn check_gradients(func: &Func, state: &BTreeMap<String, Tensor>) -> Result<(), Diags> {
    let outputs = evaluate(func, state);
    let mut loss_only = func.clone();
    loss_only.results.retain(|r| r.kind == ResultKind::Output(LOSS.to_owned()));
    remove_dead(&mut loss_only);
    let mut diags = Diags::default();
    for weight in func.params.iter().filter(|p| p.role == Role::Param) {
        let Some(gradient) = outputs.get(&format!("{GRAD_PREFIX}{}", weight.name)) else {
            diags.push(Diag::new("T0206", "no gradient").at(&weight.name));
            continue;
        };
        let direction = signs(&weight.name, gradient.data.len());
        let loss_at = |step: f64| {
            let mut moved = state.clone();
            if let Some(tensor) = moved.get_mut(&weight.name) {
                tensor.data.iter_mut().zip(&direction).for_each(|(w, d)| *w += step * d);
            }
            evaluate(&loss_only, &moved)[LOSS].data[0]
        };
        let slope = |step: f64| (loss_at(step) - loss_at(-step)) / (2.0 * step);
        let expected = (4.0 * slope(STEP / 2.0) - slope(STEP)) / 3.0;
        let actual: f64 = gradient.data.iter().zip(&direction).map(|(g, d)| g * d).sum();
        let scale = expected.abs().max(SMALL * outputs[LOSS].data[0].abs());
        // A comparison that is false for NaN.
        let agrees = (actual - expected).abs() <= TOLERANCE * scale;
        if !agrees {
            let message =
                format!("the loss changes by {expected:e} along a direction, its gradient says {actual:e}");
            diags.push(Diag::new("T0206", message).at(&weight.name));
        }
    }
    if diags.has_errors() { Err(diags) } else { Ok(()) }
}

/// The outputs by name.
fn evaluate(func: &Func, state: &BTreeMap<String, Tensor>) -> BTreeMap<String, Tensor> {
    let args: Vec<Tensor> = func.params.iter().map(|p| state[&p.name].clone()).collect();
    let results = func.results.iter().zip(eval(func, &args, EvalMode::F64));
    let named = results.filter_map(|(result, value)| match &result.kind {
        ResultKind::Output(name) => Some((name.clone(), value)),
        ResultKind::Update(_) => None,
    });
    named.collect()
}

/// Plus and minus one, by a hash of name and position.
fn signs(name: &str, len: usize) -> Vec<f64> {
    let mut state =
        name.bytes().fold(0x9e37_79b9_7f4a_7c15_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if state >> 63 == 0 { 1.0 } else { -1.0 }
    };
    (0..len).map(|_| next()).collect()
}
