//! Element types of tensors.

use std::fmt;

/// An element type the host computes with. Others exist on devices and are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DType {
    F32,
    F16,
    I8,
    I32,
    U8,
    I16,
    U16,
    U32,
    I64,
    U64,
    F64,
    Bool,
    Bf16,
}

/// Type, `aclDataType`, bytes, the vendor's name.
const TABLE: [(DType, i32, usize, &str); 13] = [
    (DType::F32, 0, 4, "FLOAT"),
    (DType::F16, 1, 2, "FLOAT16"),
    (DType::I8, 2, 1, "INT8"),
    (DType::I32, 3, 4, "INT32"),
    (DType::U8, 4, 1, "UINT8"),
    (DType::I16, 6, 2, "INT16"),
    (DType::U16, 7, 2, "UINT16"),
    (DType::U32, 8, 4, "UINT32"),
    (DType::I64, 9, 8, "INT64"),
    (DType::U64, 10, 8, "UINT64"),
    (DType::F64, 11, 8, "DOUBLE"),
    (DType::Bool, 12, 1, "BOOL"),
    (DType::Bf16, 27, 2, "BFLOAT16"),
];

impl DType {
    /// The type with this value of `aclDataType`.
    pub(crate) fn of_acl(code: i32) -> Option<Self> {
        TABLE.iter().find(|row| row.1 == code).map(|row| row.0)
    }

    fn row(self) -> &'static (DType, i32, usize, &'static str) {
        TABLE.iter().find(|row| row.0 == self).expect("every type has a row")
    }

    /// Bytes of an element.
    pub(crate) fn size_bytes(self) -> usize {
        self.row().2
    }

    /// The vendor's name.
    pub(crate) fn name(self) -> &'static str {
        self.row().3
    }

    /// Whether it holds fractions.
    pub(crate) fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F16 | Self::Bf16 | Self::F64)
    }

    /// The type two types meet in, by torch's rule for tensors of equal rank.
    pub(crate) fn promote(self, other: Self) -> Self {
        if self == other {
            return self;
        }
        let (low, high) = if self.category() <= other.category() { (self, other) } else { (other, self) };
        if low.category() < high.category() {
            return high;
        }
        match (low, high) {
            (Self::F16, Self::Bf16) | (Self::Bf16, Self::F16) => Self::F32,
            _ if low.is_float() => {
                if low.size_bytes() > high.size_bytes() {
                    low
                } else {
                    high
                }
            }
            _ => promote_integers(low, high),
        }
    }

    /// Bool 0, integers 1, floats 2.
    pub(crate) fn category(self) -> u8 {
        match self {
            Self::Bool => 0,
            _ if self.is_float() => 2,
            _ => 1,
        }
    }

    fn is_unsigned(self) -> bool {
        matches!(self, Self::U8 | Self::U16 | Self::U32 | Self::U64)
    }
}

/// The wider of two integers; of an unsigned and a signed one, a signed type that holds both.
fn promote_integers(a: DType, b: DType) -> DType {
    if a.is_unsigned() == b.is_unsigned() {
        return if a.size_bytes() >= b.size_bytes() { a } else { b };
    }
    let (unsigned, signed) = if a.is_unsigned() { (a, b) } else { (b, a) };
    if signed.size_bytes() > unsigned.size_bytes() {
        return signed;
    }
    match unsigned.size_bytes() {
        1 => DType::I16,
        2 => DType::I32,
        _ => DType::I64,
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::DType::*;

    #[test]
    fn types_meet_as_in_torch() {
        let cases = [
            (F32, Bf16, F32),
            (F16, Bf16, F32),
            (Bf16, Bf16, Bf16),
            (I64, Bf16, Bf16),
            (Bool, I32, I32),
            (I32, I64, I64),
            (U8, I8, I16),
            (U8, I32, I32),
            (F64, F32, F64),
        ];
        for (a, b, both) in cases {
            assert_eq!(a.promote(b), both, "{a} {b}");
            assert_eq!(b.promote(a), both, "{b} {a}");
        }
    }
}
