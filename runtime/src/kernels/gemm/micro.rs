//! The register tile: `MR` rows by two vectors of C, and the loops that cover a block with it.

use crate::kernels::bf16;
use crate::kernels::isa::per_engine;
use crate::kernels::simd::{MAX_LANES, Simd};
use titan_ir::kernel::workspace::TILE_LD;

/// One block of the product: packed A rows times packed B columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    /// Panels of `MR` rows.
    pub(super) a: *const u32,
    /// Panels of two vectors of columns.
    pub(super) b: *const u32,
    /// Rows.
    pub(super) num_rows: usize,
    /// Columns.
    pub(super) num_cols: usize,
    /// Units of this K block.
    pub(super) num_units: usize,
    /// Where sums go.
    pub(super) to: *mut f32,
    /// Row stride at `to`.
    pub(super) to_ld: usize,
    /// Whether `to` holds the sum of the blocks before.
    pub(super) add: bool,
    /// Whether whole vectors go around the caches; `to` and its rows are then aligned to vectors, and `add` is false.
    pub(super) stream: bool,
}

per_engine! {
    /// Computes a block.
    ///
    /// # Safety
    /// The panels and the target are as [`Block`] says.
    pub(super) unsafe fn block(block: &Block) = block_on
}

/// Rows ahead of the current one that B is brought near.
const PREFETCH_ROWS: usize = 8;

#[inline(always)]
unsafe fn block_on<S: Simd>(block: &Block) {
    let width = 2 * S::LANES;
    let units = block.num_units;
    for col in (0..block.num_cols).step_by(width) {
        for row in (0..block.num_rows).step_by(S::MR) {
            // SAFETY: the panels and the target cover rows and columns below the block's.
            unsafe {
                let tile = Tile {
                    a: block.a.add(row * units),
                    b: block.b.add(col * units),
                    units,
                    to: block.to.add(row * block.to_ld + col),
                    ld: block.to_ld,
                    cols: (block.num_cols - col).min(width),
                    add: block.add,
                    stream: block.stream,
                };
                tile_of_rows::<S>(&tile, (block.num_rows - row).min(S::MR));
            }
        }
    }
    if block.stream {
        // SAFETY: the caller's.
        unsafe { S::fence() };
    }
}

#[derive(Clone, Copy)]
struct Tile {
    a: *const u32,
    b: *const u32,
    units: usize,
    to: *mut f32,
    ld: usize,
    cols: usize,
    add: bool,
    stream: bool,
}

#[inline(always)]
unsafe fn tile_of_rows<S: Simd>(t: &Tile, rows: usize) {
    // SAFETY: the caller's. A height above `MR` is never asked for, and the constant guard removes its code.
    unsafe {
        match rows {
            14 if S::MR >= 14 => tile::<S, 14>(t),
            13 if S::MR >= 14 => tile::<S, 13>(t),
            12 if S::MR >= 14 => tile::<S, 12>(t),
            11 if S::MR >= 14 => tile::<S, 11>(t),
            10 if S::MR >= 14 => tile::<S, 10>(t),
            9 if S::MR >= 14 => tile::<S, 9>(t),
            8 if S::MR >= 14 => tile::<S, 8>(t),
            7 if S::MR >= 14 => tile::<S, 7>(t),
            6 if S::MR >= 6 => tile::<S, 6>(t),
            5 if S::MR >= 6 => tile::<S, 5>(t),
            4 => tile::<S, 4>(t),
            3 => tile::<S, 3>(t),
            2 => tile::<S, 2>(t),
            _ => tile::<S, 1>(t),
        }
    }
}

#[inline(always)]
unsafe fn tile<S: Simd, const M: usize>(t: &Tile) {
    // SAFETY: the caller's; a prefetched address need not be valid.
    unsafe {
        let mut acc = [[S::zero(); 2]; M];
        let (mut a, mut b) = (t.a, t.b);
        for _ in 0..t.units {
            let columns = [S::load_units(b), S::load_units(b.add(S::LANES))];
            S::prefetch(b.wrapping_add(PREFETCH_ROWS * 2 * S::LANES));
            S::prefetch(b.wrapping_add(PREFETCH_ROWS * 2 * S::LANES + S::LANES));
            for (i, acc) in acc.iter_mut().enumerate() {
                let row = S::splat_unit(a.add(i));
                acc[0] = S::mac(acc[0], row, columns[0]);
                acc[1] = S::mac(acc[1], row, columns[1]);
            }
            a = a.add(S::MR);
            b = b.add(2 * S::LANES);
        }
        if t.cols < 2 * S::LANES {
            return store_some::<S, M>(t, &acc);
        }
        for (i, acc) in acc.iter().enumerate() {
            let to = t.to.add(i * t.ld);
            for (half, &sum) in acc.iter().enumerate() {
                let to = to.add(half * S::LANES);
                if t.stream {
                    S::stream(to, sum);
                } else {
                    S::store(to, if t.add { S::add(S::load(to), sum) } else { sum });
                }
            }
        }
    }
}

/// Stores the columns that exist.
#[inline(always)]
unsafe fn store_some<S: Simd, const M: usize>(t: &Tile, acc: &[[S::V; 2]; M]) {
    let mut row = [0.0f32; 2 * MAX_LANES];
    for (i, acc) in acc.iter().enumerate() {
        // SAFETY: the caller's.
        unsafe {
            S::store(row.as_mut_ptr(), acc[0]);
            S::store(row.as_mut_ptr().add(S::LANES), acc[1]);
            for (col, &sum) in row[..t.cols].iter().enumerate() {
                let to = t.to.add(i * t.ld + col);
                to.write(if t.add { to.read() + sum } else { sum });
            }
        }
    }
}

/// Rows of f32, `TILE_LD` apart, to round to bf16.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rounding {
    pub(super) from: *const f32,
    pub(super) num_rows: usize,
    pub(super) num_cols: usize,
    pub(super) to: *mut u16,
    /// Row stride at `to`.
    pub(super) to_ld: usize,
    /// Whether whole vectors go around the caches; `to` and its rows are then aligned to half vectors.
    pub(super) stream: bool,
}

per_engine! {
    /// Rounds a tile.
    ///
    /// # Safety
    /// The elements are readable and writable.
    pub(super) unsafe fn round(tile: &Rounding) = round_on
}

#[inline(always)]
unsafe fn round_on<S: Simd>(tile: &Rounding) {
    let whole = tile.num_cols / S::LANES * S::LANES;
    // SAFETY: the caller's.
    unsafe {
        for row in 0..tile.num_rows {
            let (from, to) = (tile.from.add(row * TILE_LD as usize), tile.to.add(row * tile.to_ld));
            for i in (0..whole).step_by(S::LANES) {
                if tile.stream {
                    S::stream_bf16(to.add(i), S::load(from.add(i)));
                } else {
                    S::store_bf16(to.add(i), S::load(from.add(i)));
                }
            }
            for i in whole..tile.num_cols {
                to.add(i).write(bf16::round(from.add(i).read()));
            }
        }
        if tile.stream {
            S::fence();
        }
    }
}
