//! How far the polynomials are from the functions they stand for.

use super::image::{Case, Mapped, Split};
use titan_ir::DType;
use titan_ir::kernel::{Access, Cols, Expr, ExprId, Input, Output, RowKernel, Store, UnaryFn};
use titanc::codegen::cpu::{CpuLevel, compile};

fn elementwise(from: DType, f: UnaryFn, to: DType) -> RowKernel {
    RowKernel {
        cols: Cols::Flat { chunk: 1 << 22 },
        inputs: vec![Input { dtype: from, access: Access::Full }],
        exprs: vec![Expr::Load(0), Expr::Unary(f, ExprId(0))],
        outputs: vec![Output { dtype: to, store: Store::Full, value: ExprId(1) }],
    }
}

/// Applies the function to each f32, at the highest level of this processor.
fn apply(f: UnaryFn, values: &[f64]) -> Vec<f64> {
    run(elementwise(DType::F32, f, DType::F32), values)
}

fn run(kernel: RowKernel, values: &[f64]) -> Vec<f64> {
    let mapped = Mapped::new(compile(std::slice::from_ref(&kernel), CpuLevel::host().unwrap()));
    let inputs = vec![values.to_vec()];
    let case = Case { kernel, extent: values.len() as u64, inputs, in_place: vec![None] };
    case.run(&mapped, 0, Split::NONE).remove(0)
}

/// Units in the last place of the f32 nearest to `exact`, denormals included.
fn error_ulps(exact: f64, actual: f64) -> f64 {
    let rounded = exact as f32;
    if f64::from(rounded) == actual || (exact.is_nan() && actual.is_nan()) {
        return 0.0;
    }
    if rounded.is_infinite() || !actual.is_finite() {
        // One of them overflowed: near the limit that is an ulp.
        let largest = f64::from(f32::MAX);
        let near = |x: f64| x.abs() >= largest && x.signum() == actual.signum();
        return if near(exact) && near(actual.clamp(-2.0 * largest, 2.0 * largest)) {
            1.0
        } else {
            f64::INFINITY
        };
    }
    let exponent = (rounded.to_bits() >> 23 & 0xff).max(1) as i32;
    (exact - actual).abs() / 2.0_f64.powi(exponent - 127 - 23)
}

/// Every 1009th f32, so about 4 million, of both signs, and the special ones.
fn sweep() -> Vec<f64> {
    let spread = (0..u32::MAX / 1009).map(|k| f64::from(f32::from_bits(k * 1009)));
    let special = [0.0, -0.0, 1.0, f32::MAX, f32::MIN, f32::MIN_POSITIVE, f32::INFINITY, f32::NEG_INFINITY];
    // NaNs that rounding must not turn into numbers.
    let nans = [0x7fff_ffff, 0xffff_ffff, 0x7fc0_0000].map(f32::from_bits);
    spread.chain(special.into_iter().chain(nans).map(f64::from)).collect()
}

/// The largest error over some values.
fn worst(f: UnaryFn, exact: fn(f64) -> f64, values: &[f64]) -> f64 {
    apply(f, values).iter().zip(values).map(|(&y, &x)| error_ulps(exact(x), y)).fold(0.0, f64::max)
}

fn check(f: UnaryFn, exact: fn(f64) -> f64, interesting: (f64, f64), limit: f64) {
    let (from, to) = interesting;
    let dense = (0..2_000_000).map(|k| f64::from((from + (to - from) * f64::from(k) / 2e6) as f32));
    for values in [sweep(), dense.collect()] {
        let worst = worst(f, exact, &values);
        assert!(worst <= limit, "{f:?} is off by {worst} ulp");
    }
}

#[test]
fn exp_is_within_an_ulp() {
    check(UnaryFn::Exp, f64::exp, (-105.0, 90.0), 1.0);
}

#[test]
fn log_is_within_an_ulp() {
    check(UnaryFn::Log, f64::ln, (1e-3, 4.0), 1.0);
}

#[test]
fn sigmoid_is_within_three_ulp() {
    check(UnaryFn::Sigmoid, |x| 1.0 / (1.0 + (-x).exp()), (-105.0, 20.0), 3.0);
}

#[test]
fn roots_are_correctly_rounded() {
    let values = sweep();
    let roots = apply(UnaryFn::Sqrt, &values);
    let inverses = apply(UnaryFn::Rsqrt, &values);
    for ((&x, root), inverse) in values.iter().zip(roots).zip(inverses) {
        let expected = (x as f32).sqrt();
        assert_eq!(error_ulps(f64::from(expected), root), 0.0, "sqrt {x}");
        assert_eq!(error_ulps(f64::from(1.0 / expected), inverse), 0.0, "rsqrt {x}");
    }
}

#[test]
fn rounding_to_bf16_is_to_nearest_even_with_quiet_nan() {
    let f32s = sweep();
    let bf16s: Vec<f64> = (0..=u16::MAX).map(|bits| half::bf16::from_bits(bits).to_f64()).collect();
    for from in [DType::F32, DType::Bf16] {
        let values = if from == DType::F32 { &f32s } else { &bf16s };
        for (f, to) in [(UnaryFn::RoundBf16, DType::F32), (UnaryFn::Neg, DType::Bf16)] {
            for (&x, y) in values.iter().zip(run(elementwise(from, f, to), values)) {
                let expected = DType::Bf16.round(if f == UnaryFn::Neg { -x } else { x });
                let is_same = expected.to_bits() == y.to_bits() || (expected.is_nan() && y.is_nan());
                assert!(is_same, "{f:?} of {from} {x:e}: {y:e}");
            }
        }
    }
}

#[test]
fn integers_are_rounded_to_even() {
    let halves: Vec<f64> = (-40..40).map(|k| f64::from(k) / 2.0).collect();
    let expected: Vec<f64> = halves.iter().map(|x| (-x).round_ties_even()).collect();
    assert_eq!(run(elementwise(DType::F32, UnaryFn::Neg, DType::I32), &halves), expected);
}
