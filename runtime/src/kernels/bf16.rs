//! Conversions between f32 and bf16.

/// The bf16 nearest to `x`, ties to even; NaN stays NaN.
#[inline(always)]
pub fn round(x: f32) -> u16 {
    let bits = x.to_bits();
    if x.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

/// The value of a bf16.
#[inline(always)]
pub fn widen(x: u16) -> f32 {
    f32::from_bits(u32::from(x) << 16)
}

/// Rounds a slice. Lengths must agree.
pub fn round_slice(from: &[f32], to: &mut [u16]) {
    assert_eq!(from.len(), to.len());
    for (y, x) in to.iter_mut().zip(from) {
        *y = round(*x);
    }
}

/// Widens a slice. Lengths must agree.
pub fn widen_slice(from: &[u16], to: &mut [f32]) {
    assert_eq!(from.len(), to.len());
    for (y, x) in to.iter_mut().zip(from) {
        *y = widen(*x);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_to_nearest_even() {
        for (x, bits) in [
            (1.0f32, 0x3f80u16),
            (f32::from_bits(0x3f80_8000), 0x3f80),
            (f32::from_bits(0x3f81_8000), 0x3f82),
            (f32::from_bits(0x3f80_8001), 0x3f81),
            (f32::MAX, 0x7f80),
            (f32::NEG_INFINITY, 0xff80),
            (-0.0, 0x8000),
            (f32::from_bits(1), 0),
        ] {
            assert_eq!(round(x), bits, "{x}");
        }
        assert!(widen(round(f32::from_bits(0x7f80_0001))).is_nan());
    }

    #[test]
    fn widening_is_exact() {
        let all: Vec<u16> = (0..=u16::MAX).collect();
        let mut wide = vec![0.0; all.len()];
        widen_slice(&all, &mut wide);
        let mut back = vec![0; all.len()];
        round_slice(&wide, &mut back);
        assert!(all.iter().zip(&back).zip(&wide).all(|((a, b), w)| a == b || w.is_nan()));
    }
}
