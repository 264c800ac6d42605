//! The arena of a rank, read and written through strided views.

use titan_ir::DType;
use titan_ir::ascend::{Element, TensorArg};

/// Bytes, all of which are NaN to begin with.
pub(crate) struct Memory {
    pub(crate) bytes: Vec<u8>,
}

/// Positions of the elements of a view in row-major order, in elements from its first.
fn positions(tensor: &TensorArg) -> Vec<u64> {
    let mut positions = vec![0];
    for (&dim, &stride) in tensor.dims.iter().zip(&tensor.strides) {
        positions = positions.iter().flat_map(|&p| (0..dim).map(move |i| p + i * stride)).collect();
    }
    positions
}

impl Memory {
    pub(crate) fn new(size_bytes: u64) -> Self {
        Self { bytes: vec![0xFF; usize::try_from(size_bytes).unwrap()] }
    }

    pub(crate) fn read(&self, tensor: &TensorArg) -> Vec<f64> {
        let size = tensor.element.size_bytes();
        positions(tensor).into_iter().map(|p| self.element(tensor.element, tensor.at + p * size)).collect()
    }

    pub(crate) fn write(&mut self, tensor: &TensorArg, values: &[f64]) {
        let positions = positions(tensor);
        assert_eq!(positions.len(), values.len(), "a result of another size: {tensor:?}");
        let size = tensor.element.size_bytes();
        for (p, &value) in positions.into_iter().zip(values) {
            self.set(tensor.element, tensor.at + p * size, value);
        }
    }

    fn element(&self, element: Element, at: u64) -> f64 {
        let at = usize::try_from(at).unwrap();
        let two = || [self.bytes[at], self.bytes[at + 1]];
        let four = || [self.bytes[at], self.bytes[at + 1], self.bytes[at + 2], self.bytes[at + 3]];
        match element {
            Element::F32 => f64::from(f32::from_le_bytes(four())),
            Element::Bf16 => f64::from(f32::from_bits(u32::from(u16::from_le_bytes(two())) << 16)),
            Element::I32 => f64::from(i32::from_le_bytes(four())),
            Element::I64 => i64::from_le_bytes(self.bytes[at..at + 8].try_into().unwrap()) as f64,
            Element::U8 | Element::Bool => f64::from(self.bytes[at]),
        }
    }

    fn set(&mut self, element: Element, at: u64, value: f64) {
        let at = usize::try_from(at).unwrap();
        let mut put = |bytes: &[u8]| self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        match element {
            Element::F32 => put(&(value as f32).to_le_bytes()),
            Element::Bf16 => put(&((DType::Bf16.round(value) as f32).to_bits() >> 16).to_le_bytes()[..2]),
            Element::I32 => put(&(value as i32).to_le_bytes()),
            Element::I64 => put(&(value as i64).to_le_bytes()),
            Element::U8 | Element::Bool => put(&[value as u8]),
        }
    }
}
