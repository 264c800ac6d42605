//! Operands of kernels: numbers, and their bytes in memory.

use half::bf16;
use titan_ir::DType;
use titan_ir::ascend::TableFill;
use titan_ir::kernel::{Access, Cols, RowKernel};

/// SplitMix64. Source: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
#[derive(Debug, Clone)]
pub struct Rng(pub u64);

impl Rng {
    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.draw() % n
    }

    /// One of the list.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }

    /// Uniform in `-1..1`.
    pub fn unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

/// Rows, or elements of a flat domain, as [`eval_row`](titan_ir::kernel::eval::eval_row) takes them.
pub fn extent(kernel: &RowKernel, rows: u64) -> (u64, Option<u64>) {
    match kernel.cols {
        Cols::Static(_) => (rows, None),
        Cols::Flat { .. } => (0, Some(rows)),
    }
}

/// Values for the inputs of a kernel, representable in their types. Most kernels take roots and logarithms only of sums of squares; scalars and
/// rows are positive, as counts, norms and variances are.
pub fn inputs(kernel: &RowKernel, rows: u64, seed: u64) -> Vec<Vec<f64>> {
    let mut rng = Rng(seed);
    let (num_rows, len) = extent(kernel, rows);
    let sizes = kernel.signature(num_rows, len).ins;
    let mut draw = |k: usize, (dtype, num): (DType, u64)| {
        let access = kernel.inputs[k].access;
        let is_positive = matches!(access, Access::Scalar | Access::Row);
        let value = |rng: &mut Rng| match dtype {
            DType::I32 => ids(kernel, k, rng),
            _ if is_positive => rng.unit().abs() + 0.25,
            _ => rng.unit() * 2.0,
        };
        (0..num).map(|_| dtype.round(value(&mut rng))).collect()
    };
    sizes.into_iter().enumerate().map(|(k, size)| draw(k, size)).collect()
}

/// Ids: mostly of columns, now and then one that is none, or that is ignored.
fn ids(kernel: &RowKernel, k: usize, rng: &mut Rng) -> f64 {
    let num = match kernel.cols {
        Cols::Static(cols) if kernel.inputs[k].access != Access::Full => cols,
        _ => 5,
    };
    match rng.below(8) {
        0 => -100.0,
        1 => -1.0,
        _ => rng.below(num) as f64,
    }
}

/// The numbers of a table.
pub fn table(fill: &TableFill) -> Vec<f64> {
    match *fill {
        TableFill::Iota { len } => (0..len).map(|i| i as f64).collect(),
        TableFill::Constant { bits, len } => vec![f64::from(f32::from_bits(bits)); len as usize],
        TableFill::UpperTriangle { rows, cols } => {
            (0..rows * cols).map(|i| f64::from(u8::from(i % cols > i / cols))).collect()
        }
    }
}

/// Numbers as they lie in memory.
pub fn to_bytes(dtype: DType, values: &[f64]) -> Vec<u8> {
    let bytes = |x: f64| match dtype {
        DType::F32 => (x as f32).to_le_bytes().to_vec(),
        DType::Bf16 => bf16::from_f64(x).to_le_bytes().to_vec(),
        DType::I32 => (x as i32).to_le_bytes().to_vec(),
    };
    values.iter().flat_map(|&x| bytes(x)).collect()
}

/// Numbers from memory.
pub fn from_bytes(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let word = |b: &[u8]| <[u8; 4]>::try_from(b).expect("chunks of four");
    match dtype {
        DType::F32 => bytes.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes(word(b)))).collect(),
        DType::I32 => bytes.chunks_exact(4).map(|b| f64::from(i32::from_le_bytes(word(b)))).collect(),
        DType::Bf16 => bytes.chunks_exact(2).map(|b| f64::from(bf16::from_le_bytes([b[0], b[1]]))).collect(),
    }
}
