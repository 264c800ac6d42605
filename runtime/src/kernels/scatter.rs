//! Sums of rows by id: the gradient of an embedding table.
//!
//! A task owns some rows and columns of the table, and looks through all ids for its rows: cheaper than an index, and the order of additions is the
//! order of tokens whatever the number of threads.

use super::bf16;
use super::isa::{Isa, per_engine};
use super::simd::Simd;
use super::streams;
use crate::pool::Pool;
use titan_ir::DType;
use titan_ir::kernel::ScatterAdd;

/// Rows and columns of a task: its f32 sums fill the first-level cache.
const TASK_ROWS: usize = 64;
const TASK_COLS: usize = 128;

/// Ids compared at once.
const ID_BLOCK: usize = 32;

/// `out[v, :]` is the sum of `rows[t, :]` over the `t` with `ids[t] == v`, in the order of `t`, in f32; zero when there is none. Ids that are no row of the
/// table are passed over.
///
/// # Safety
/// The operands are as large as `spec` says and do not overlap `out`.
pub unsafe fn scatter_add(pool: &Pool, spec: &ScatterAdd, ids: *const i32, rows: *const u8, out: *mut u8) {
    // SAFETY: the caller's.
    unsafe { scatter_add_on(Isa::native(), pool, spec, ids, rows, out) }
}

/// [`scatter_add`] with given instructions, which the machine must have.
///
/// # Safety
/// As for [`scatter_add`]; `isa` is available.
pub unsafe fn scatter_add_on(
    isa: Isa,
    pool: &Pool,
    spec: &ScatterAdd,
    ids: *const i32,
    rows: *const u8,
    out: *mut u8,
) {
    let engine = isa.engine(spec.dtype);
    let stream = streams(out, spec.num as usize, spec.cols as usize * spec.out.size_bytes());
    let whole = Scatter { spec, ids, rows, out, stream };
    let (row_tasks, col_tasks) =
        ((spec.num as usize).div_ceil(TASK_ROWS), (spec.cols as usize).div_ceil(TASK_COLS));
    // SAFETY: the caller's; tasks write disjoint parts of the table.
    pool.run(row_tasks * col_tasks, &|task, _| unsafe {
        run_task(engine, &whole, task / col_tasks, task % col_tasks)
    });
}

struct Scatter<'a> {
    spec: &'a ScatterAdd,
    ids: *const i32,
    rows: *const u8,
    out: *mut u8,
    /// Whether the table goes around the caches.
    stream: bool,
}

// SAFETY: tasks write disjoint parts of `out`, and read the rest.
unsafe impl Sync for Scatter<'_> {}

per_engine! {
    /// Computes one task's part of the table.
    ///
    /// # Safety
    /// The problem is as `scatter_add` was promised.
    unsafe fn run_task(whole: &Scatter<'_>, row_task: usize, col_task: usize) = run_task_on
}

#[inline(always)]
unsafe fn run_task_on<S: Simd>(whole: &Scatter<'_>, row_task: usize, col_task: usize) {
    let spec = whole.spec;
    let (first_row, first_col) = (row_task * TASK_ROWS, col_task * TASK_COLS);
    let num_rows = (spec.num as usize - first_row).min(TASK_ROWS);
    let num_cols = (spec.cols as usize - first_col).min(TASK_COLS);
    let mut sums = [[0.0f32; TASK_COLS]; TASK_ROWS];
    // SAFETY: the caller's.
    unsafe {
        let ids = std::slice::from_raw_parts(whole.ids, spec.tokens as usize);
        for (block, ids) in ids.chunks(ID_BLOCK).enumerate() {
            let row_of = |id: i32| (id as u32).wrapping_sub(first_row as u32);
            let is_mine = |id: i32| row_of(id) < num_rows as u32;
            if !ids.iter().fold(false, |any, &id| any | is_mine(id)) {
                continue;
            }
            for (i, &id) in ids.iter().enumerate() {
                if is_mine(id) {
                    let from = (block * ID_BLOCK + i) * spec.cols as usize + first_col;
                    add_row::<S>(
                        whole.rows.add(from * spec.dtype.size_bytes()),
                        spec.dtype,
                        &mut sums[row_of(id) as usize][..num_cols],
                    );
                }
            }
        }
        for (row, sums) in sums[..num_rows].iter().enumerate() {
            let at = (first_row + row) * spec.cols as usize + first_col;
            let to = whole.out.add(at * spec.out.size_bytes());
            store_sums::<S>(&sums[..num_cols], to, spec.out, whole.stream);
        }
        if whole.stream {
            S::fence();
        }
    }
}

/// Adds a row in memory to sums.
#[inline(always)]
unsafe fn add_row<S: Simd>(from: *const u8, dtype: DType, sums: &mut [f32]) {
    let whole = sums.len() / S::LANES * S::LANES;
    let to = sums.as_mut_ptr();
    // SAFETY: the caller's; the row is as long as the sums.
    unsafe {
        for i in (0..whole).step_by(S::LANES) {
            let row = if dtype == DType::Bf16 {
                S::load_bf16(from.cast::<u16>().add(i))
            } else {
                S::load(from.cast::<f32>().add(i))
            };
            S::store(to.add(i), S::add(S::load(to.add(i)), row));
        }
        for i in whole..sums.len() {
            *to.add(i) += if dtype == DType::Bf16 {
                bf16::widen(from.cast::<u16>().add(i).read())
            } else {
                from.cast::<f32>().add(i).read()
            };
        }
    }
}

/// Stores sums as `dtype`; with `stream`, whole vectors to aligned addresses.
#[inline(always)]
unsafe fn store_sums<S: Simd>(sums: &[f32], to: *mut u8, dtype: DType, stream: bool) {
    let whole = sums.len() / S::LANES * S::LANES;
    let (f32s, bf16s) = (to.cast::<f32>(), to.cast::<u16>());
    // SAFETY: the caller's.
    unsafe {
        for i in (0..whole).step_by(S::LANES) {
            let x = S::load(sums.as_ptr().add(i));
            match (dtype == DType::Bf16, stream) {
                (false, false) => S::store(f32s.add(i), x),
                (false, true) => S::stream(f32s.add(i), x),
                (true, false) => S::store_bf16(bf16s.add(i), x),
                (true, true) => S::stream_bf16(bf16s.add(i), x),
            }
        }
        for (i, &sum) in sums.iter().enumerate().skip(whole) {
            if dtype == DType::Bf16 {
                bf16s.add(i).write(bf16::round(sum));
            } else {
                f32s.add(i).write(sum);
            }
        }
    }
}
