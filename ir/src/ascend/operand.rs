//! What operators are given: views of the arena, and values in the types of C.

use crate::DType;
use serde::{Deserialize, Serialize};

/// Element types of operators' tensors and scalars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Element {
    /// IEEE 754 binary32.
    F32,
    /// bfloat16.
    Bf16,
    /// 32-bit integer.
    I32,
    /// 64-bit integer.
    I64,
    /// Byte.
    U8,
    /// One byte, 0 or 1.
    Bool,
}

impl Element {
    /// The value of `aclDataType`.
    pub fn acl_code(self) -> i32 {
        match self {
            Self::F32 => 0,
            Self::I32 => 3,
            Self::U8 => 4,
            Self::I64 => 9,
            Self::Bool => 12,
            Self::Bf16 => 27,
        }
    }

    /// The value of `HcclDataType`, for the types that are reduced or moved between ranks.
    pub fn hccl_code(self) -> i32 {
        match self {
            Self::I32 => 2,
            Self::F32 => 4,
            Self::I64 => 5,
            Self::U8 | Self::Bool => 7,
            Self::Bf16 => 11,
        }
    }

    /// Bytes of one element.
    pub fn size_bytes(self) -> u64 {
        match self {
            Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::Bf16 => 2,
            Self::U8 | Self::Bool => 1,
        }
    }

    /// The name in listings.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::Bool => "bool",
        }
    }
}

impl From<DType> for Element {
    fn from(dtype: DType) -> Self {
        match dtype {
            DType::F32 => Self::F32,
            DType::Bf16 => Self::Bf16,
            DType::I32 => Self::I32,
        }
    }
}

/// What a call does with an operand's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes all of it.
    Write,
    /// Reads and writes it.
    Update,
}

impl Access {
    /// Whether it reads.
    pub fn reads(self) -> bool {
        self != Self::Write
    }

    /// Whether it writes.
    pub fn writes(self) -> bool {
        self != Self::Read
    }
}

/// A strided view of the arena.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorArg {
    /// Element type.
    pub element: Element,
    /// Dimensions; none for a scalar.
    pub dims: Vec<u64>,
    /// Elements between neighbours of each dimension; 0 repeats.
    pub strides: Vec<u64>,
    /// The first element, in bytes from the start of the arena.
    pub at: u64,
    /// What the call does with it.
    pub access: Access,
}

impl TensorArg {
    /// A row-major tensor.
    pub fn contiguous(element: Element, dims: &[u64], at: u64, access: Access) -> Self {
        Self { element, dims: dims.to_vec(), strides: contiguous_strides(dims), at, access }
    }

    /// Number of elements.
    pub fn num_elements(&self) -> u64 {
        self.dims.iter().product()
    }

    /// Bytes from the first element to the end of the last.
    pub fn extent_bytes(&self) -> u64 {
        if self.num_elements() == 0 {
            return 0;
        }
        let last: u64 = self.dims.iter().zip(&self.strides).map(|(d, s)| (d - 1) * s).sum();
        (last + 1) * self.element.size_bytes()
    }
}

/// Strides of a row-major tensor, in elements.
pub fn contiguous_strides(dims: &[u64]) -> Vec<u64> {
    let mut strides = vec![1; dims.len()];
    for i in (1..dims.len()).rev() {
        strides[i - 1] = strides[i] * dims[i];
    }
    strides
}

/// An argument of phase one of an operator, in the type its C prototype has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Arg {
    /// `aclTensor*`.
    Tensor(TensorArg),
    /// `aclTensorList*`.
    Tensors(Vec<TensorArg>),
    /// A null pointer for an optional tensor, list or array.
    Null,
    /// `aclScalar*` of that type.
    Scalar(Element, f64),
    /// `aclIntArray*`.
    Ints(Vec<i64>),
    /// `char*`.
    Text(String),
    /// `double`.
    F64(f64),
    /// `float`.
    F32(f32),
    /// `int64_t`.
    I64(i64),
    /// `uint64_t`.
    U64(u64),
    /// `int8_t`.
    I8(i8),
    /// `bool`.
    Bool(bool),
    /// `aclDataType`.
    Type(Element),
}
