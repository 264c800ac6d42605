//! Sums of rows by id.

use crate::support::{Buffer, PageEnd, levels};
use titan_ir::DType;
use titan_ir::kernel::ScatterAdd;
use titan_run::kernels::{bf16, scatter_add_on};
use titan_run::pool::Pool;

/// Token by token in f32, in order: the exact definition.
fn reference(s: &ScatterAdd, ids: &[i32], rows: &Buffer) -> Vec<f64> {
    let cols = s.cols as usize;
    let mut sums = vec![0.0f32; s.num as usize * cols];
    for (row, &id) in rows.values().chunks(cols).zip(ids) {
        if (0..s.num as i32).contains(&id) {
            for (sum, x) in sums[id as usize * cols..].iter_mut().zip(row) {
                *sum += *x as f32;
            }
        }
    }
    let stored = |x: f32| if s.out == DType::Bf16 { bf16::widen(bf16::round(x)) } else { x };
    sums.into_iter().map(|x| f64::from(stored(x))).collect()
}

fn check(num: u64, tokens: u64, cols: u64, id_of: impl Fn(u64) -> i32) {
    let ids: Vec<i32> = (0..tokens).map(id_of).collect();
    for (dtype, out) in [
        (DType::F32, DType::F32),
        (DType::Bf16, DType::F32),
        (DType::Bf16, DType::Bf16),
        (DType::F32, DType::Bf16),
    ] {
        let s = ScatterAdd { dtype, out, num, tokens, cols };
        let rows = Buffer::random(dtype, (tokens * cols) as usize, 5);
        let expected = reference(&s, &ids, &rows);
        let rows = PageEnd::new(&rows);
        for (isa, num_threads) in levels().flat_map(|isa| [1, 2, 3].map(|n| (isa, n))) {
            let mut table = Buffer::unwritten(out, (num * cols) as usize);
            // SAFETY: the buffers have the sizes of the spec.
            unsafe {
                scatter_add_on(
                    isa,
                    &Pool::new(num_threads, None),
                    &s,
                    ids.as_ptr(),
                    rows.ptr(),
                    table.ptr_mut(),
                );
            }
            assert!(table.values() == expected, "{isa:?}, {num_threads} threads: {s:?}");
        }
    }
}

#[test]
fn scattered_ids() {
    check(300, 500, 40, |t| (t * 7919 % 300) as i32);
    check(65, 33, 129, |t| (t * t % 65) as i32);
    check(1, 20, 1, |_| 0);
}

#[test]
fn most_tokens_share_a_row() {
    check(130, 400, 257, |t| if t % 5 == 0 { (t % 130) as i32 } else { 64 });
}

#[test]
fn rows_nobody_names_are_zero() {
    check(200, 3, 20, |t| t as i32 * 66);
    check(70, 0, 5, |_| 0);
}

#[test]
fn ids_out_of_the_table_are_passed_over() {
    check(10, 40, 17, |t| t as i32 - 15);
}

/// Large aligned tables are written around the caches.
#[test]
fn large_tables() {
    let s = ScatterAdd { dtype: DType::F32, out: DType::F32, num: 40_000, tokens: 50, cols: 64 };
    let ids: Vec<i32> = (0..50).map(|t| (t * 7919) % 40_000).collect();
    let rows = Buffer::random(DType::F32, 50 * 64, 5);
    let expected = reference(&s, &ids, &rows);
    for isa in levels() {
        let mut table = vec![Line([f32::NAN; 16]); 40_000 * 4];
        // SAFETY: the buffers have the sizes of the spec.
        unsafe {
            let out = table.as_mut_ptr().cast();
            scatter_add_on(isa, &Pool::new(2, None), &s, ids.as_ptr(), rows.ptr(), out);
        }
        assert!(table.iter().flat_map(|line| line.0).map(f64::from).eq(expected.iter().copied()), "{isa:?}");
    }
}

/// A cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([f32; 16]);
