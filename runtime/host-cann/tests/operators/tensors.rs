//! Tensors in device memory, with what they hold.

use crate::support::*;
use ascend_rs_sys::types::*;
use ascend_rs_sys::{Nnopbase, Search};
use half::{bf16, f16};
use std::ffi::c_void;
use std::sync::OnceLock;

/// Descriptors.
pub(crate) fn nnopbase() -> &'static Nnopbase {
    static NNOPBASE: OnceLock<Nnopbase> = OnceLock::new();
    NNOPBASE.get_or_init(|| Nnopbase::load(&Search::at(&library()), acl()).unwrap())
}

/// An element type: its name in `data`, its number, its bytes.
pub(crate) const TYPES: [(&str, i32, usize); 10] = [
    ("f32", 0, 4),
    ("f16", 1, 2),
    ("i8", 2, 1),
    ("i32", 3, 4),
    ("u8", 4, 1),
    ("i64", 9, 8),
    ("u64", 10, 8),
    ("f64", 11, 8),
    ("bool", 12, 1),
    ("bf16", 27, 2),
];

pub(crate) fn type_of(name: &str) -> (i32, usize) {
    let found = TYPES.iter().find(|row| row.0 == name).unwrap();
    (found.1, found.2)
}

fn encode(dtype: &str, value: f64) -> Vec<u8> {
    match dtype {
        "f32" => (value as f32).to_le_bytes().to_vec(),
        "f64" => value.to_le_bytes().to_vec(),
        "f16" => f16::from_f64(value).to_le_bytes().to_vec(),
        "bf16" => bf16::from_f64(value).to_le_bytes().to_vec(),
        "i32" => (value as i32).to_le_bytes().to_vec(),
        "i64" | "u64" => (value as i64).to_le_bytes().to_vec(),
        _ => vec![value as i8 as u8],
    }
}

fn decode(dtype: &str, bytes: &[u8]) -> f64 {
    match dtype {
        "f32" => f64::from(f32::from_le_bytes(bytes.try_into().unwrap())),
        "f64" => f64::from_le_bytes(bytes.try_into().unwrap()),
        "f16" => f16::from_le_bytes(bytes.try_into().unwrap()).to_f64(),
        "bf16" => bf16::from_le_bytes(bytes.try_into().unwrap()).to_f64(),
        "i32" => f64::from(i32::from_le_bytes(bytes.try_into().unwrap())),
        "i64" | "u64" => i64::from_le_bytes(bytes.try_into().unwrap()) as f64,
        _ => f64::from(bytes[0]),
    }
}

/// A tensor in memory of its own.
#[derive(Debug, Clone)]
pub(crate) struct Tensor {
    pub(crate) dtype: String,
    pub(crate) dims: Vec<i64>,
    pub(crate) strides: Vec<i64>,
    pub(crate) memory: *mut c_void,
    pub(crate) handle: *mut aclTensor,
}

pub(crate) fn row_major(dims: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; dims.len()];
    for i in (1..dims.len()).rev() {
        strides[i - 1] = strides[i] * dims[i];
    }
    strides
}

/// Offsets of all elements in row-major order of the indices.
fn offsets(dims: &[i64], strides: &[i64]) -> Vec<usize> {
    let mut offsets = vec![0];
    for (&dim, &stride) in dims.iter().zip(strides) {
        offsets = offsets.iter().flat_map(|at| (0..dim).map(move |i| at + (i * stride) as usize)).collect();
    }
    offsets
}

impl Tensor {
    /// Memory that is fresh, and a descriptor of it.
    pub(crate) fn new(dtype: &str, dims: &[i64], strides: &[i64]) -> Self {
        let extent = offsets(dims, strides).into_iter().max().map_or(0, |last| last + 1);
        let memory = device_memory((extent * type_of(dtype).1).max(32));
        let (dims, strides) = (dims.to_vec(), strides.to_vec());
        let handle = describe(dtype, &dims, &strides, 0, extent as i64, memory);
        Self { dtype: dtype.to_owned(), dims, strides, memory, handle }
    }

    /// A row-major tensor of these values.
    pub(crate) fn of(dtype: &str, dims: &[i64], values: &[f64]) -> Self {
        let tensor = Self::new(dtype, dims, &row_major(dims));
        tensor.write(values);
        tensor
    }

    /// A row-major tensor of one value.
    pub(crate) fn full(dtype: &str, dims: &[i64], value: f64) -> Self {
        Self::of(dtype, dims, &vec![value; dims.iter().product::<i64>() as usize])
    }

    /// Writes values in row-major order of the indices.
    pub(crate) fn write(&self, values: &[f64]) {
        let (size, at) = (type_of(&self.dtype).1, offsets(&self.dims, &self.strides));
        assert_eq!(at.len(), values.len(), "a value for every element");
        let Some(last) = at.iter().max() else { return };
        let mut bytes = vec![0; (last + 1) * size];
        for (at, &value) in at.iter().zip(values) {
            bytes[at * size..(at + 1) * size].copy_from_slice(&encode(&self.dtype, value));
        }
        let kind = aclrtMemcpyKind::ACL_MEMCPY_HOST_TO_DEVICE;
        // SAFETY: the bytes are ours, the memory has room for them.
        unsafe {
            acl().aclrtMemcpy(self.memory, bytes.len(), bytes.as_ptr().cast(), bytes.len(), kind).unwrap();
        }
    }

    /// Its values in row-major order of the indices.
    pub(crate) fn values(&self) -> Vec<f64> {
        let (size, at) = (type_of(&self.dtype).1, offsets(&self.dims, &self.strides));
        let Some(last) = at.iter().max() else { return Vec::new() };
        let bytes = read(self.memory, (last + 1) * size).unwrap();
        at.iter().map(|at| decode(&self.dtype, &bytes[at * size..(at + 1) * size])).collect()
    }
}

/// A descriptor.
pub(crate) fn describe(
    dtype: &str,
    dims: &[i64],
    strides: &[i64],
    offset: i64,
    storage: i64,
    memory: *mut c_void,
) -> *mut aclTensor {
    let (storage, nd) = ([storage], aclFormat(2));
    let rank = dims.len() as u64;
    // SAFETY: the arrays have these lengths.
    unsafe {
        nnopbase()
            .aclCreateTensor(
                dims.as_ptr(),
                rank,
                aclDataType(type_of(dtype).0),
                strides.as_ptr(),
                offset,
                nd,
                storage.as_ptr(),
                1,
                memory,
            )
            .unwrap()
    }
}

/// A scalar.
pub(crate) fn scalar(dtype: &str, value: f64) -> *mut aclScalar {
    let mut bytes = encode(dtype, value);
    // SAFETY: the bytes are those of a value of this type.
    unsafe { nnopbase().aclCreateScalar(bytes.as_mut_ptr().cast(), aclDataType(type_of(dtype).0)).unwrap() }
}
