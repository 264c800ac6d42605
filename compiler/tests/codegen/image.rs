//! Runs kernels of an image in this process, as a runtime does.

use titan_ir::DType;
use titan_ir::kernel::eval::eval_row;
use titan_ir::kernel::workspace::TILE_LD;
use titan_ir::kernel::{Access, Cols, RowKernel, Store};
use titanc::codegen::cpu::Image;

/// An image mapped read-only and executable.
pub(crate) struct Mapped {
    base: *mut libc::c_void,
    image: Image,
}

impl Mapped {
    pub(crate) fn new(image: Image) -> Self {
        let len = image.bytes.len();
        // SAFETY: a fresh anonymous mapping of `len` bytes, filled before it is made executable.
        let base = unsafe {
            let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let base = libc::mmap(std::ptr::null_mut(), len, prot, flags, -1, 0);
            assert_ne!(base, libc::MAP_FAILED);
            std::ptr::copy_nonoverlapping(image.bytes.as_ptr(), base.cast(), len);
            assert_eq!(libc::mprotect(base, len, libc::PROT_READ | libc::PROT_EXEC), 0);
            base
        };
        Self { base, image }
    }

    /// One launch.
    pub(crate) fn call(&self, kernel: usize, args: &[*mut u8], rows: (i64, i64), cols: (i64, i64)) {
        // SAFETY: the entry of a generated kernel, which has this signature.
        unsafe {
            let entry = self.base.cast::<u8>().add(self.image.entries[kernel] as usize);
            let f: extern "C" fn(*const *mut u8, i64, i64, i64, i64) = std::mem::transmute(entry);
            f(args.as_ptr(), rows.0, rows.1, cols.0, cols.1);
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and nothing refers to it.
        unsafe { libc::munmap(self.base, self.image.bytes.len()) };
    }
}

/// An operand in memory, with guard bytes behind it that must stay as they are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    dtype: DType,
    len: usize,
}

const GUARD: [u8; 128] = [0xA5; 128];

impl Buffer {
    pub(crate) fn of(dtype: DType, values: &[f64]) -> Self {
        let mut bytes: Vec<u8> = Vec::new();
        for &x in values {
            match dtype {
                DType::F32 => bytes.extend((x as f32).to_le_bytes()),
                DType::Bf16 => bytes.extend(half::bf16::from_f64(x).to_le_bytes()),
                DType::I32 => bytes.extend((x as i32).to_le_bytes()),
            }
        }
        bytes.extend(GUARD);
        Self { bytes, dtype, len: values.len() }
    }

    pub(crate) fn pointer(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }

    /// The values; fails if something was written behind them.
    pub(crate) fn values(&self) -> Vec<f64> {
        let size = self.dtype.size_bytes();
        let (values, guard) = self.bytes.split_at(self.len * size);
        assert_eq!(guard, GUARD, "written behind the end");
        let value = |b: &[u8]| match self.dtype {
            DType::F32 => f64::from(f32::from_le_bytes(b.try_into().unwrap())),
            DType::Bf16 => half::bf16::from_le_bytes(b.try_into().unwrap()).to_f64(),
            DType::I32 => f64::from(i32::from_le_bytes(b.try_into().unwrap())),
        };
        values.chunks_exact(size).map(value).collect()
    }
}

/// How a launch is split.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Split {
    /// Rows of one call.
    pub(crate) rows: u64,
    /// Columns of one call, where a kernel may be split by columns.
    pub(crate) cols: u64,
}

impl Split {
    /// One call.
    pub(crate) const NONE: Self = Self { rows: u64::MAX, cols: u64::MAX };
}

/// A kernel, its operands, and how much of its domain there is.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) kernel: RowKernel,
    /// Rows of a static kernel, elements of a flat one.
    pub(crate) extent: u64,
    /// The values of each input.
    pub(crate) inputs: Vec<Vec<f64>>,
    /// The input over which each output lies, if it does.
    pub(crate) in_place: Vec<Option<usize>>,
}

impl Case {
    /// What the kernel means, in the precision of a backend.
    pub(crate) fn expected(&self) -> Vec<Vec<f64>> {
        let len = matches!(self.kernel.cols, Cols::Flat { .. }).then_some(self.extent);
        let inputs: Vec<&[f64]> = self.inputs.iter().map(Vec::as_slice).collect();
        eval_row(&self.kernel, self.extent, len, &inputs, true)
    }

    /// Runs the kernel at that place of the image over its whole domain.
    pub(crate) fn run(&self, mapped: &Mapped, index: usize, split: Split) -> Vec<Vec<f64>> {
        let Self { kernel, extent, .. } = self;
        let mut inputs: Vec<Buffer> =
            kernel.inputs.iter().zip(&self.inputs).map(|(input, v)| Buffer::of(input.dtype, v)).collect();
        let mut outputs: Vec<Buffer> = kernel
            .outputs
            .iter()
            .map(|o| Buffer::of(o.dtype, &vec![77.0; output_len(kernel, o.store, *extent)]))
            .collect();
        let mut args: Vec<*mut u8> = inputs.iter_mut().map(Buffer::pointer).collect();
        for (output, place) in outputs.iter_mut().zip(&self.in_place) {
            args.push(place.map_or_else(|| output.pointer(), |input| args[input]));
        }
        for (rows, cols) in launches(kernel, *extent, split) {
            let mut tiles = self.tiles(rows, cols);
            let mut args = args.clone();
            for (k, tile) in &mut tiles {
                args[*k] = tile.pointer();
            }
            mapped.call(index, &args, rows, cols);
        }
        let at = |k: usize| self.in_place[k].map_or(&outputs[k], |input| &inputs[input]);
        (0..outputs.len()).map(|k| at(k).values()).collect()
    }

    /// The accumulator tiles of one call, by input.
    fn tiles(&self, rows: (i64, i64), cols: (i64, i64)) -> Vec<(usize, Buffer)> {
        let Cols::Static(width) = self.kernel.cols else { return vec![] };
        let is_tile = |k: &usize| self.kernel.inputs[*k].access == Access::Tile;
        (0..self.inputs.len())
            .filter(is_tile)
            .map(|k| {
                let mut tile = vec![f64::NAN; ((rows.1 - rows.0) as u64 * TILE_LD) as usize];
                for i in rows.0..rows.1 {
                    for j in cols.0..cols.1 {
                        let element = self.inputs[k][i as usize * width as usize + j as usize];
                        tile[(i - rows.0) as usize * TILE_LD as usize + (j - cols.0) as usize] = element;
                    }
                }
                (k, Buffer::of(DType::F32, &tile))
            })
            .collect()
    }
}

/// The calls that cover a domain: rows and columns, from and to.
fn launches(kernel: &RowKernel, extent: u64, split: Split) -> Vec<((i64, i64), (i64, i64))> {
    let range = |from: u64, step: u64, end: u64| (from as i64, end.min(from.saturating_add(step)) as i64);
    let starts = |end: u64, step: u64| (0..end).step_by(step.min(1 << 40) as usize);
    match kernel.cols {
        Cols::Flat { chunk } => {
            let chunks = starts(extent, chunk).enumerate();
            chunks.map(|(i, j)| (range(i as u64, 1, u64::MAX), range(j, chunk, extent))).collect()
        }
        Cols::Static(cols) => {
            // A value per row may lie over an operand: one call must compute the whole row.
            let is_whole =
                kernel.has_row_reduction() || kernel.outputs.iter().any(|o| o.store != Store::Full);
            let rows_step = kernel.block_rows().unwrap_or(split.rows);
            let cols_step = if is_whole { cols } else { split.cols };
            starts(extent, rows_step)
                .flat_map(|i| starts(cols, cols_step).map(move |j| (i, j)))
                .map(|(i, j)| (range(i, rows_step, extent), range(j, cols_step, cols)))
                .collect()
        }
    }
}

/// Elements of an output.
fn output_len(kernel: &RowKernel, store: Store, extent: u64) -> usize {
    let (rows, full) = match kernel.cols {
        Cols::Static(cols) => (extent, extent * cols),
        Cols::Flat { chunk } => (extent.div_ceil(chunk), extent),
    };
    let len = match store {
        Store::Full => full,
        Store::Row => rows,
        Store::ColSum { block_rows } => rows.div_ceil(block_rows) * full.checked_div(rows).unwrap_or(0),
    };
    len as usize
}
