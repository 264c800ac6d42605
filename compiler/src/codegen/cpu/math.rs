//! Functions of f32 lanes. Each is the same sequence of correctly rounded operations at every level and every number of lanes.
//!
//! The exponential and the logarithm are at most 1 ulp off over all of f32, denormals included; the sigmoid at most 3.

use super::builder::{Builder, Cmp, Elem, Val};
use titan_ir::kernel::{BinaryFn, UnaryFn};

type V<'c, 'a> = Val<'c, 'a>;

/// A function of one value.
pub(super) fn unary<'c, 'a>(b: &Builder<'c, 'a>, f: UnaryFn, x: V<'c, 'a>) -> V<'c, 'a> {
    match f {
        UnaryFn::Neg => b.same("arith.negf", &[x]),
        UnaryFn::Exp => exp(b, x),
        UnaryFn::Log => log(b, x),
        UnaryFn::Sqrt => b.same("math.sqrt", &[x]),
        UnaryFn::Rsqrt => b.same("arith.divf", &[b.f32(1.0, x.lanes), b.same("math.sqrt", &[x])]),
        UnaryFn::Sigmoid => sigmoid(b, x),
        UnaryFn::RoundBf16 => {
            let high_half = b.int(Elem::I32, i64::from(0xffff_0000_u32), x.lanes);
            let bits = b.same("arith.andi", &[round_to_bf16(b, x), high_half]);
            b.convert("arith.bitcast", bits, Elem::F32)
        }
    }
}

/// A function of two values.
pub(super) fn binary<'c, 'a>(b: &Builder<'c, 'a>, f: BinaryFn, x: V<'c, 'a>, y: V<'c, 'a>) -> V<'c, 'a> {
    match f {
        BinaryFn::Add => b.same("arith.addf", &[x, y]),
        BinaryFn::Sub => b.same("arith.subf", &[x, y]),
        BinaryFn::Mul => b.same("arith.mulf", &[x, y]),
        BinaryFn::Div => b.same("arith.divf", &[x, y]),
        BinaryFn::Max => extremum(b, Cmp::Gt, x, y),
        BinaryFn::Min => extremum(b, Cmp::Lt, x, y),
    }
}

/// `cmp(x, y) ? x : y`, NaN if either is. The comparison and selection are one x86 instruction, which gives `y` if either is a NaN.
fn extremum<'c, 'a>(b: &Builder<'c, 'a>, cmp: Cmp, x: V<'c, 'a>, y: V<'c, 'a>) -> V<'c, 'a> {
    let best = b.select(b.compare(cmp, x, y), x, y);
    b.select(b.compare(Cmp::Unordered, x, x), x, best)
}

/// `x * y + z`, rounded once.
///
/// Without the instruction: the product is exact in f64; the sum is rounded to odd there (its error is known exactly), after which
/// rounding to f32 is as if done once. Source: S. Boldo, G. Melquiond, "Emulation of a FMA and correctly rounded sums: proved
/// algorithms using rounding to odd", IEEE Transactions on Computers 57(4), 2008; the error of a sum: D. Knuth, TAOCP vol. 2, 4.2.2.
pub(super) fn fma<'c, 'a>(b: &Builder<'c, 'a>, x: V<'c, 'a>, y: V<'c, 'a>, z: V<'c, 'a>) -> V<'c, 'a> {
    if b.level.has_fma() {
        return b.same("math.fma", &[x, y, z]);
    }
    let [x, y, z] = [x, y, z].map(|v| b.convert("arith.extf", v, Elem::F64));
    let product = b.same("arith.mulf", &[x, y]);
    let sum = b.same("arith.addf", &[product, z]);
    let sub = |x, y| b.same("arith.subf", &[x, y]);
    let z_part = sub(sum, product);
    let error = b.same("arith.addf", &[sub(product, sub(sum, z_part)), sub(z, z_part)]);
    let zero = b.f64(0.0, sum.lanes);
    let bits = b.convert("arith.bitcast", sum, Elem::I64);
    let one = b.int(Elem::I64, 1, sum.lanes);
    let is_even = b.compare(Cmp::Eq, b.same("arith.andi", &[bits, one]), b.int(Elem::I64, 0, sum.lanes));
    let is_inexact = b.compare(Cmp::Ne, error, zero);
    let away_from_zero = b.compare(
        Cmp::Eq,
        b.convert("arith.extui", b.compare(Cmp::Gt, error, zero), Elem::I32),
        b.convert("arith.extui", b.compare(Cmp::Gt, sum, zero), Elem::I32),
    );
    let step = b.select(away_from_zero, one, b.int(Elem::I64, -1, sum.lanes));
    let odd = b.same("arith.addi", &[bits, step]);
    let bits = b.select(b.same("arith.andi", &[is_even, is_inexact]), odd, bits);
    b.convert("arith.truncf", b.convert("arith.bitcast", bits, Elem::F64), Elem::F32)
}

/// `coefficients[0] * x^n + .. + coefficients[n]`.
fn polynomial<'c, 'a>(b: &Builder<'c, 'a>, x: V<'c, 'a>, coefficients: &[f32]) -> V<'c, 'a> {
    let (&first, rest) = coefficients.split_first().expect("a coefficient");
    rest.iter().fold(b.f32(first, x.lanes), |sum, &c| fma(b, sum, x, b.f32(c, x.lanes)))
}

/// ln 2 as a sum of two f32, the first with enough trailing zeros that its multiples by small integers are exact.
const LN_2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);

/// `e^x`.
fn exp<'c, 'a>(b: &Builder<'c, 'a>, x: V<'c, 'a>) -> V<'c, 'a> {
    // Above this the result is infinite in any case. A NaN passes.
    let high = b.f32(89.0, x.lanes);
    exp_below(b, b.select(b.compare(Cmp::Gt, x, high), high, x))
}

/// `e^x` for x up to 89: `x = n ln 2 + r` with `|r| <= ln 2 / 2`, a polynomial of r, and an exact scaling by `2^n` in two steps, so that
/// denormal results are rounded once.
///
/// Source: Cephes Math Library, `expf` (S. Moshier), with the reduction done by fused multiply-adds.
fn exp_below<'c, 'a>(b: &Builder<'c, 'a>, x: V<'c, 'a>) -> V<'c, 'a> {
    let lanes = x.lanes;
    // Below this the result is zero in any case. A NaN passes.
    let low = b.f32(-104.0, lanes);
    let x = b.select(b.compare(Cmp::Lt, x, low), low, x);
    // Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits; unlike a conversion it is defined for a NaN. Adding twice the bias
    // of an exponent as well leaves there the sum of the exponents of two f32 whose product is 2^n.
    let magic = b.f32(12_582_912.0 + 254.0, lanes);
    let shifted = fma(b, x, b.f32(std::f32::consts::LOG2_E, lanes), magic);
    let n = b.same("arith.subf", &[shifted, magic]);
    let r = fma(b, n, b.f32(-LN_2.0, lanes), x);
    let r = fma(b, n, b.f32(-LN_2.1, lanes), r);
    let q = polynomial(
        b,
        r,
        &[1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5],
    );
    let q = fma(b, q, b.same("arith.mulf", &[r, r]), r);
    let p = b.same("arith.addf", &[q, b.f32(1.0, lanes)]);
    let exponents = b.convert("arith.bitcast", shifted, Elem::I32);
    let half = b.same("arith.shrui", &[exponents, b.int(Elem::I32, 1, lanes)]);
    let rest = b.same("arith.subi", &[exponents, half]);
    [half, rest].into_iter().fold(p, |p, exponent| {
        // What is above the exponent is shifted out.
        let bits = b.same("arith.shli", &[exponent, b.int(Elem::I32, 23, lanes)]);
        b.same("arith.mulf", &[p, b.convert("arith.bitcast", bits, Elem::F32)])
    })
}

/// Natural logarithm: `x = 2^e (1 + f)` with `1 + f` between `sqrt(1/2)` and `sqrt(2)`, and a polynomial of f.
///
/// Source: Cephes Math Library, `logf` (S. Moshier).
fn log<'c, 'a>(b: &Builder<'c, 'a>, x: V<'c, 'a>) -> V<'c, 'a> {
    let lanes = x.lanes;
    let zero = b.f32(0.0, lanes);
    let is_denormal = b.compare(Cmp::Lt, x, b.f32(f32::MIN_POSITIVE, lanes));
    let scaled = b.select(is_denormal, b.same("arith.mulf", &[x, b.f32(8_388_608.0, lanes)]), x);
    let bits = b.convert("arith.bitcast", scaled, Elem::I32);
    let sqrt_half = b.int(Elem::I32, i64::from(std::f32::consts::FRAC_1_SQRT_2.to_bits()), lanes);
    let shift = b.int(Elem::I32, 23, lanes);
    let e = b.same("arith.shrsi", &[b.same("arith.subi", &[bits, sqrt_half]), shift]);
    let mantissa = b.same("arith.subi", &[bits, b.same("arith.shli", &[e, shift])]);
    let mantissa = b.convert("arith.bitcast", mantissa, Elem::F32);
    let f = b.same("arith.subf", &[mantissa, b.f32(1.0, lanes)]);
    let e = b.convert("arith.sitofp", e, Elem::F32);
    let e = b.same("arith.subf", &[e, b.select(is_denormal, b.f32(23.0, lanes), zero)]);

    let p = polynomial(
        b,
        f,
        &[
            7.037_683_6e-2,
            -1.151_461e-1,
            1.167_699_9e-1,
            -1.242_014_1e-1,
            1.424_932_3e-1,
            -1.666_805_8e-1,
            2.000_071_5e-1,
            -2.499_999_4e-1,
            3.333_333e-1,
        ],
    );
    let f_squared = b.same("arith.mulf", &[f, f]);
    let tail = b.same("arith.mulf", &[p, b.same("arith.mulf", &[f, f_squared])]);
    let tail = fma(b, e, b.f32(LN_2.1, lanes), tail);
    let tail = fma(b, f_squared, b.f32(-0.5, lanes), tail);
    let result = fma(b, e, b.f32(LN_2.0, lanes), b.same("arith.addf", &[f, tail]));

    let infinity = b.f32(f32::INFINITY, lanes);
    let result = b.select(b.compare(Cmp::Eq, x, infinity), x, result);
    let at_zero =
        b.select(b.compare(Cmp::Eq, x, zero), b.f32(f32::NEG_INFINITY, lanes), b.f32(f32::NAN, lanes));
    b.select(b.compare(Cmp::Gt, x, zero), result, at_zero)
}

/// `1 / (1 + e^-x)`, from `e^-|x|` so that nothing overflows and small results keep their digits.
fn sigmoid<'c, 'a>(b: &Builder<'c, 'a>, x: V<'c, 'a>) -> V<'c, 'a> {
    let sign = b.int(Elem::I32, i64::from(0x8000_0000_u32), x.lanes);
    let negative = b.same("arith.ori", &[b.convert("arith.bitcast", x, Elem::I32), sign]);
    let e = exp_below(b, b.convert("arith.bitcast", negative, Elem::F32));
    let one = b.f32(1.0, x.lanes);
    let numerator = b.select(b.compare(Cmp::Lt, x, b.f32(0.0, x.lanes)), e, one);
    b.same("arith.divf", &[numerator, b.same("arith.addf", &[one, e])])
}

/// The bits of x rounded to bf16, to nearest with ties to even, in the high half of an i32 whose low half is to be dropped. A NaN becomes quiet.
pub(super) fn round_to_bf16<'c, 'a>(b: &Builder<'c, 'a>, x: V<'c, 'a>) -> V<'c, 'a> {
    let lanes = x.lanes;
    let int = |value| b.int(Elem::I32, value, lanes);
    let bits = b.convert("arith.bitcast", x, Elem::I32);
    let is_odd = b.same("arith.andi", &[b.same("arith.shrui", &[bits, int(16)]), int(1)]);
    let rounded = b.same("arith.addi", &[b.same("arith.addi", &[bits, int(0x7fff)]), is_odd]);
    if b.nans_are_bf16 {
        // Nothing carries into the exponent or the sign.
        return rounded;
    }
    let quiet = b.same("arith.ori", &[bits, int(0x0040_0000)]);
    b.select(b.compare(Cmp::Unordered, x, x), quiet, rounded)
}
