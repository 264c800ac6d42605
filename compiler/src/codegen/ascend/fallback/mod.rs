//! Any generated kernel as a sequence of the vendor's elementwise operators and reductions, expression by expression.
//!
//! The domain is cut in windows of rows, so that the values between the operators stay within a budget of scratch. In a window every value is a
//! tensor of `[rows or 1, cols or 1]`: operators broadcast the others. Values are f32; one that is rounded to bf16 is kept as bf16
//! and widened where it is read. An output is written where its value is made, unless it shares memory with an input: then
//! when all of the window has been read.

mod exprs;
mod functions;
mod loads;
mod pairs;
mod store;
mod table;

use super::emitter::Emitter;
use super::launch::Launch;
use exprs::Sequence;
use std::cell::Cell;
use titan_ir::DiagResult;
use titan_ir::ascend::TensorArg;
use titan_ir::kernel::{Access, Cols, Store};

/// Rows of a window are a multiple of this, so that windows of 2-byte elements start at 32 bytes.
const GRAIN: u64 = 16;

/// A part of the domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    /// First row, or chunk.
    first: u64,
    /// Rows.
    rows: u64,
    /// Columns of a row.
    cols: u64,
    /// The element of a [`Access::Full`] operand it starts with.
    at: u64,
    /// Whether it is the last.
    last: bool,
}

/// How a domain is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// Rows of a static width.
    Rows { rows: u64, cols: u64 },
    /// Chunks of a vector, as rows; the last may be short.
    Chunks { len: u64, chunk: u64 },
    /// Elements of a vector.
    Elements { len: u64 },
}

impl Cut {
    fn of(launch: &Launch<'_>) -> Self {
        let kernel = launch.kernel;
        match (kernel.cols, launch.len) {
            (Cols::Flat { chunk }, Some(len)) => {
                let by_row = kernel.has_row_reduction()
                    || kernel.outputs.iter().any(|o| o.store != Store::Full)
                    || kernel.inputs.iter().any(|i| matches!(i.access, Access::Row | Access::Gather { .. }));
                if by_row { Self::Chunks { len, chunk } } else { Self::Elements { len } }
            }
            (Cols::Static(cols), _) => Self::Rows { rows: launch.rows, cols },
            (Cols::Flat { .. }, None) => titan_ir::ice!("a flat kernel without a length"),
        }
    }

    /// Rows or elements that may be cut anywhere at a multiple of the grain.
    fn total(self) -> u64 {
        match self {
            Self::Rows { rows, .. } => rows,
            Self::Chunks { len, chunk } => len / chunk,
            Self::Elements { len } => len,
        }
    }

    /// The smallest piece.
    fn grain(self, block_rows: Option<u64>) -> u64 {
        match self {
            Self::Rows { rows, .. } => match block_rows {
                Some(block) if block < rows && block.is_multiple_of(GRAIN) => block,
                Some(block) if block < rows => block * GRAIN,
                _ => GRAIN,
            },
            Self::Chunks { .. } => 1,
            Self::Elements { .. } => 1024,
        }
    }

    fn window(self, first: u64, count: u64) -> Window {
        match self {
            Self::Rows { cols, .. } => Window { first, rows: count, cols, at: first * cols, last: false },
            Self::Chunks { chunk, .. } => {
                Window { first, rows: count, cols: chunk, at: first * chunk, last: false }
            }
            Self::Elements { .. } => Window { first: 0, rows: 1, cols: count, at: first, last: false },
        }
    }

    /// Windows of `count` rows, chunks or elements.
    fn windows(self, count: u64) -> Vec<Window> {
        let total = self.total();
        let starts = (0..total).step_by(usize::try_from(count).expect("a window is small"));
        let mut windows: Vec<Window> =
            starts.map(|first| self.window(first, count.min(total - first))).collect();
        if let Self::Chunks { len, chunk } = self
            && len % chunk > 0
        {
            windows.push(Window { first: total, rows: 1, cols: len % chunk, at: total * chunk, last: false });
        }
        if let Some(last) = windows.last_mut() {
            last.last = true;
        }
        windows
    }
}

/// Emits the operators that compute a launch.
///
/// # Errors
/// T0530 for a [`Access::Table`] in a flat domain.
pub(super) fn fallback(e: &mut Emitter<'_>, launch: &Launch<'_>) -> DiagResult<()> {
    let cut = Cut::of(launch);
    let grain = cut.grain(launch.kernel.block_rows());
    let mut count = cut.total().max(1);
    loop {
        let failure = Cell::new(None);
        let bytes = e.probe(|e| {
            let window = Window { last: true, ..cut.window(0, count) };
            failure.set(Sequence::new(e, launch, cut, window).run(&mut Vec::new()).err());
        });
        if let Some(diag) = failure.into_inner() {
            return Err(diag);
        }
        if bytes <= e.budget_bytes() || count <= grain {
            break;
        }
        count = (count / 2 / grain * grain).max(grain);
    }
    let mut sums: Vec<Option<TensorArg>> = vec![None; launch.kernel.outputs.len()];
    for window in cut.windows(count) {
        Sequence::new(e, launch, cut, window).run(&mut sums)?;
    }
    Ok(())
}
