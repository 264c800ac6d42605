//! Matrix product.
//!
//! C is cut in strips of columns, K in blocks. For each strip, the threads pack a slice of B together; then each takes blocks of rows, packs its
//! part of A and runs the register tiles. An element of C is the sum of its K blocks in order, each block's sum in order of k:
//! the same whatever the tile, the thread or the number of threads.

mod micro;

use super::isa::{Engine, Isa};
use super::pack::{self, Source};
use super::{ThreadScratch, streams};
use crate::pool::Pool;
use titan_ir::DType;
use titan_ir::kernel::Contract;
use titan_ir::kernel::workspace::{Accumulators, Blocking, MAX_BLOCK_ROWS, TILE_LD};

/// A generated kernel, see `titan_ir::kernel::row`: arguments, then rows `i0..i1` and columns `j0..j1`.
pub type RowKernelFn = unsafe extern "C" fn(args: *const *mut u8, i0: i64, i1: i64, j0: i64, j1: i64);

/// Most arguments of an epilogue, the tile included.
const MAX_ARGS: usize = 64;

/// Columns of B that one packing task covers, in panels.
const PANELS_PER_TASK: usize = 4;

/// A generated kernel that takes the finished tiles of a product.
#[derive(Debug, Clone, Copy)]
pub struct Epilogue<'a> {
    /// The kernel. Its first argument is the tile: element (i0, j0) first, rows `TILE_LD` apart.
    pub kernel: RowKernelFn,
    /// The arguments after the tile.
    pub args: &'a [*mut u8],
}

/// `C = A B` as `spec` says, with the machine's best instructions. With an epilogue, `c` is not used: tiles of at most `TILE_LD` columns that
/// start at a multiple of 32 cover C once, in any order and from any thread, each with all of K summed.
///
/// # Safety
/// The operands are row-major and as large as `spec` says, and C overlaps neither; `scratch` has the bytes of
/// `workspace::contract(spec)` for every thread of `pool`; the epilogue's arguments fit its kernel.
pub unsafe fn contract(
    pool: &Pool,
    spec: &Contract,
    a: *const u8,
    b: *const u8,
    c: *mut u8,
    epilogue: Option<Epilogue<'_>>,
    scratch: &ThreadScratch,
) {
    // SAFETY: the caller's.
    unsafe { contract_on(Isa::native(), pool, spec, [a, b], c, epilogue, scratch) }
}

/// [`contract`] with given instructions, which the machine must have.
///
/// # Safety
/// As for [`contract`]; `isa` is available.
pub unsafe fn contract_on(
    isa: Isa,
    pool: &Pool,
    spec: &Contract,
    [a, b]: [*const u8; 2],
    c: *mut u8,
    epilogue: Option<Epilogue<'_>>,
    scratch: &ThreadScratch,
) {
    let engine = isa.engine(spec.dtype);
    let (m, n, k) = (spec.m as usize, spec.n as usize, spec.k as usize);
    if m == 0 || n == 0 {
        return;
    }
    let matrix = |ptr, k_contiguous, stride| Source { ptr, dtype: spec.dtype, k_contiguous, stride };
    let product = Product {
        engine,
        out: spec.out,
        m,
        n,
        k,
        a: if spec.trans_a { matrix(a, false, m) } else { matrix(a, true, k) },
        b: if spec.trans_b { matrix(b, true, k) } else { matrix(b, false, n) },
        c,
        epilogue,
        blocking: Blocking::new(spec, k.div_ceil(engine.elems_per_unit()) as u64),
        scratch: *scratch,
    };
    product.run(pool);
}

struct Product<'a> {
    engine: Engine,
    out: DType,
    m: usize,
    n: usize,
    k: usize,
    a: Source,
    b: Source,
    c: *mut u8,
    epilogue: Option<Epilogue<'a>>,
    blocking: Blocking,
    scratch: ThreadScratch,
}

// SAFETY: tasks write disjoint parts of C and of the scratch, and read the rest.
unsafe impl Sync for Product<'_> {}

/// Columns `first..first + num` of C, with `num_groups`-th part of K.
#[derive(Clone, Copy)]
struct Stage {
    first_col: usize,
    num_cols: usize,
    first_block: usize,
    num_blocks: usize,
}

impl Product<'_> {
    fn run(&self, pool: &Pool) {
        let strip = self.blocking.strip_cols as usize;
        let (num_blocks, group) = (self.blocking.num_blocks as usize, self.blocking.group as usize);
        let rows = self.rows_per_task(pool.num_threads());
        for first_col in (0..self.n).step_by(strip) {
            for first_block in (0..num_blocks).step_by(group) {
                let stage = Stage {
                    first_col,
                    num_cols: (self.n - first_col).min(strip),
                    first_block,
                    num_blocks: (num_blocks - first_block).min(group),
                };
                let num_chunks = stage.num_cols.div_ceil(self.cols_per_panel() * PANELS_PER_TASK);
                // SAFETY: the operands and the scratch are as `contract` was promised; blocks lie within them.
                unsafe {
                    pool.run(num_chunks * stage.num_blocks, &|task, _| self.pack_b(stage, task, num_chunks));
                    pool.run(self.m.div_ceil(rows), &|task, worker| {
                        self.compute(stage, task * rows, rows, worker)
                    });
                }
            }
        }
    }

    /// Rows of one task: whole register tiles, few enough that every thread gets several tasks.
    fn rows_per_task(&self, num_threads: usize) -> usize {
        let height = self.rows_per_panel();
        let num_panels = self.m.div_ceil(height);
        let mut num_tasks = self.m.div_ceil(MAX_BLOCK_ROWS as usize);
        if num_threads > 1 {
            num_tasks = num_tasks.max(num_panels.min(4 * num_threads)).next_multiple_of(num_threads);
        }
        num_panels.div_ceil(num_tasks) * height
    }

    fn rows_per_panel(&self) -> usize {
        match self.engine {
            Engine::Portable => 4,
            Engine::Avx2 => 6,
            Engine::Avx512 | Engine::Avx512Pairs => 14,
        }
    }

    fn cols_per_panel(&self) -> usize {
        match self.engine {
            Engine::Portable => 8,
            Engine::Avx2 => 16,
            Engine::Avx512 | Engine::Avx512Pairs => 32,
        }
    }

    /// First element and number of elements of a K block.
    fn elems_of(&self, block: usize) -> (usize, usize) {
        let elems = self.blocking.block_units as usize * self.engine.elems_per_unit();
        (block * elems, (self.k - block * elems).min(elems))
    }

    /// Where the packed B of a K block of the stage starts.
    unsafe fn packed_b(&self, stage: Stage, block: usize) -> *mut u32 {
        let block_units = self.blocking.block_units as usize * self.blocking.strip_cols as usize;
        // SAFETY: the scratch holds a group of blocks.
        unsafe { self.scratch.shared.cast::<u32>().add((block - stage.first_block) * block_units) }
    }

    unsafe fn pack_b(&self, stage: Stage, task: usize, num_chunks: usize) {
        let (block, chunk) = (stage.first_block + task / num_chunks, task % num_chunks);
        let (first_k, num_k) = self.elems_of(block);
        let width = self.cols_per_panel();
        let col = chunk * width * PANELS_PER_TASK;
        let num_cols = (stage.num_cols - col).min(width * PANELS_PER_TASK);
        // SAFETY: the caller's.
        unsafe {
            let from = self.b.at(stage.first_col + col, first_k);
            let to = self.packed_b(stage, block).add(col * num_k.div_ceil(self.engine.elems_per_unit()));
            pack::panels(self.engine, &from, width, num_cols, num_k, to);
        }
    }

    /// Rows `first_row..` of the stage: packs A for each K block and adds the block up.
    unsafe fn compute(&self, stage: Stage, first_row: usize, max_rows: usize, worker: usize) {
        let num_rows = (self.m - first_row).min(max_rows);
        let end_block = stage.first_block + stage.num_blocks;
        let tile_ld = TILE_LD as usize;
        // SAFETY: the caller's.
        unsafe {
            let packed_a = self.scratch.of(worker).cast::<u32>();
            for block in stage.first_block..end_block {
                let (first_k, num_k) = self.elems_of(block);
                let num_units = num_k.div_ceil(self.engine.elems_per_unit());
                let from = self.a.at(first_row, first_k);
                pack::panels(self.engine, &from, self.rows_per_panel(), num_rows, num_k, packed_a);
                for col in (0..stage.num_cols).step_by(tile_ld) {
                    let num_cols = (stage.num_cols - col).min(tile_ld);
                    let (to, to_ld) = self.target(first_row, stage.first_col + col, worker);
                    let b = self.packed_b(stage, block).add(col * num_units);
                    let add = block > 0;
                    let stream = self.blocking.num_blocks == 1 && self.writes_c() && self.streams();
                    let work = micro::Block {
                        a: packed_a,
                        b,
                        num_rows,
                        num_cols,
                        num_units,
                        to,
                        to_ld,
                        add,
                        stream,
                    };
                    micro::block(self.engine, &work);
                    if block + 1 == self.blocking.num_blocks as usize {
                        self.finish(to, [first_row, first_row + num_rows], stage.first_col + col, num_cols);
                    }
                }
            }
        }
    }

    /// Whether C, once written, is better left out of the caches: it is large, and its rows can be written that way.
    fn streams(&self) -> bool {
        streams(self.c, self.m, self.n * self.out.size_bytes())
    }

    /// Whether register tiles are stored to C itself.
    fn writes_c(&self) -> bool {
        self.blocking.accumulators == Accumulators::Output
    }

    /// Where the element (`row`, `col`) is added up, and its row stride.
    unsafe fn target(&self, row: usize, col: usize, worker: usize) -> (*mut f32, usize) {
        // SAFETY: the caller's.
        unsafe {
            match self.blocking.accumulators {
                Accumulators::Output => (self.c.cast::<f32>().add(row * self.n + col), self.n),
                Accumulators::Tile => {
                    let tile = self.scratch.of(worker).add(self.blocking.packed_a_bytes() as usize);
                    (tile.cast(), TILE_LD as usize)
                }
                Accumulators::Shared => {
                    let first = self.scratch.shared.add(self.blocking.packed_b_bytes() as usize);
                    (first.cast::<f32>().add(row * TILE_LD as usize), TILE_LD as usize)
                }
            }
        }
    }

    /// Hands a finished tile on.
    unsafe fn finish(&self, tile: *mut f32, [i0, i1]: [usize; 2], j0: usize, num_cols: usize) {
        // SAFETY: the caller's; the epilogue's arguments fit its kernel.
        unsafe {
            if let Some(epilogue) = self.epilogue {
                let mut args = [std::ptr::null_mut(); MAX_ARGS];
                args[0] = tile.cast();
                args[1..=epilogue.args.len()].copy_from_slice(epilogue.args);
                let j1 = j0 + num_cols;
                (epilogue.kernel)(args.as_ptr(), i0 as i64, i1 as i64, j0 as i64, j1 as i64);
            } else if self.out == DType::Bf16 {
                let to = self.c.cast::<u16>().add(i0 * self.n + j0);
                let (num_rows, to_ld, stream) = (i1 - i0, self.n, self.streams());
                micro::round(
                    self.engine,
                    &micro::Rounding { from: tile, num_rows, num_cols, to, to_ld, stream },
                );
            }
        }
    }
}
