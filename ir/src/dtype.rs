//! Element types.

use half::bf16;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DType {
    /// IEEE 754 binary32.
    F32,
    /// bfloat16.
    Bf16,
    /// Two's complement 32-bit integer: token ids, labels, the step counter.
    I32,
}

impl DType {
    /// Every type, in the order of [`DType::name`] listings.
    pub const ALL: [Self; 3] = [Self::F32, Self::Bf16, Self::I32];

    /// The name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::I32 => "i32",
        }
    }

    /// The type of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|d| d.name() == name)
    }

    /// Bytes of one element.
    pub fn size_bytes(self) -> usize {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::Bf16 => 2,
        }
    }

    /// Whether gradients exist for this type.
    pub fn is_float(self) -> bool {
        self != Self::I32
    }

    /// `x` rounded to the nearest value of this type, ties to even.
    pub fn round(self, x: f64) -> f64 {
        match self {
            Self::F32 => f64::from(x as f32),
            Self::Bf16 => round_to_bf16(x),
            Self::I32 => x.round_ties_even(),
        }
    }
}

/// Through f32 rounded to odd, which makes the second rounding right; `bf16::from_f64` looks only at half of the digits.
fn round_to_bf16(x: f64) -> f64 {
    let nearest = x as f32;
    let odd = if f64::from(nearest) == x || x.is_nan() {
        nearest
    } else {
        let toward_zero = nearest.to_bits() - u32::from(f64::from(nearest).abs() > x.abs());
        f32::from_bits(toward_zero | 1)
    };
    bf16::from_f32(odd).to_f64()
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_to_bf16_is_to_nearest_even() {
        let half = 1.0 + 2.0_f64.powi(-8);
        for (x, rounded) in [
            (half, 1.0),
            (half + 1e-15, 1.0 + 2.0_f64.powi(-7)),
            (half - 1e-15, 1.0),
            (half + 2.0_f64.powi(-23), 1.0 + 2.0_f64.powi(-7)),
            (1e300, f64::INFINITY),
            (-1e-300, 0.0),
            (3.0, 3.0),
        ] {
            assert_eq!(DType::Bf16.round(x), rounded, "{x}");
        }
        assert!(DType::Bf16.round(f64::NAN).is_nan());
    }
}
