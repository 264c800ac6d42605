//! Matrix products.

use crate::support::{Buffer, Guarded, PageEnd, levels};
use std::sync::Mutex;
use titan_ir::DType;
use titan_ir::kernel::workspace::{self, TILE_LD};
use titan_ir::kernel::{Access, Cols, Contract, Expr, Input, Output, RowKernel, Store};
use titan_run::kernels::{Epilogue, Isa, contract_on};
use titan_run::pool::Pool;

fn spec(dtype: DType, out: DType, [m, n, k]: [u64; 3], trans: [bool; 2]) -> Contract {
    Contract { dtype, out, m, n, k, trans_a: trans[0], trans_b: trans[1], epilogue: None }
}

/// The product in f64, and for every element the sum of the magnitudes of its products.
fn reference(spec: &Contract, a: &[f64], b: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let (m, n, k) = (spec.m as usize, spec.n as usize, spec.k as usize);
    let at = |i: usize, p: usize| if spec.trans_a { a[p * m + i] } else { a[i * k + p] };
    let bt = |p: usize, j: usize| if spec.trans_b { b[j * k + p] } else { b[p * n + j] };
    let (mut sums, mut magnitudes) = (vec![0.0; m * n], vec![0.0; m * n]);
    for i in 0..m {
        for p in 0..k {
            let x = at(i, p);
            for j in 0..n {
                sums[i * n + j] += x * bt(p, j);
                magnitudes[i * n + j] += (x * bt(p, j)).abs();
            }
        }
    }
    (sums, magnitudes)
}

fn operands(spec: &Contract) -> (Buffer, Buffer) {
    let len = |x: u64, y: u64| (x * y) as usize;
    (Buffer::random(spec.dtype, len(spec.m, spec.k), 1), Buffer::random(spec.dtype, len(spec.k, spec.n), 2))
}

fn product(isa: Isa, pool: &Pool, spec: &Contract, a: &Buffer, b: &Buffer) -> Buffer {
    let mut c = Buffer::unwritten(spec.out, (spec.m * spec.n) as usize);
    let mut scratch = Guarded::new(workspace::contract(spec), pool.num_threads());
    // SAFETY: operands, result and scratch have the sizes of the spec.
    unsafe { contract_on(isa, pool, spec, [a.ptr(), b.ptr()], c.ptr_mut(), None, &scratch.scratch()) };
    scratch.check();
    c
}

/// An f32 sum of k products is off by at most k + 2 roundings of the sum of magnitudes; a bf16 result by one more rounding to 8 bits.
fn assert_close(spec: &Contract, actual: &Buffer, sums: &[f64], magnitudes: &[f64], what: &str) {
    let roundings = (spec.k + 2) as f64 * f64::from(f32::EPSILON);
    let last = if spec.out == DType::Bf16 { 1.0 / 256.0 } else { 0.0 };
    for (i, value) in actual.values().into_iter().enumerate() {
        let bound = roundings * magnitudes[i] + last * sums[i].abs();
        assert!((value - sums[i]).abs() <= bound, "{what}: {spec:?} element {i}: {value} is not {}", sums[i]);
    }
}

/// All levels and one to three threads.
fn check(spec: &Contract) {
    let (a, b) = operands(spec);
    let (sums, magnitudes) = reference(spec, &a.values(), &b.values());
    let pools = [1, 2, 3].map(|num_threads| Pool::new(num_threads, None));
    for isa in levels() {
        let [c, others @ ..] = pools.each_ref().map(|pool| product(isa, pool, spec, &a, &b));
        assert_close(spec, &c, &sums, &magnitudes, &format!("{isa:?}"));
        assert!(others.iter().all(|other| *other == c), "{isa:?}: {spec:?} depends on the number of threads");
    }
}

fn check_all_layouts(shape: [u64; 3]) {
    for (dtype, out) in [
        (DType::F32, DType::F32),
        (DType::Bf16, DType::F32),
        (DType::Bf16, DType::Bf16),
        (DType::F32, DType::Bf16),
    ] {
        for trans in [[false, false], [false, true], [true, false], [true, true]] {
            check(&spec(dtype, out, shape, trans));
        }
    }
}

#[test]
fn small_and_odd_shapes() {
    for shape in [
        [1, 1, 1],
        [1, 7, 3],
        [5, 1, 9],
        [2, 33, 1],
        [13, 31, 17],
        [14, 32, 16],
        [15, 33, 33],
        [29, 65, 47],
        [64, 48, 128],
    ] {
        check_all_layouts(shape);
    }
}

#[test]
fn several_row_blocks_and_k_blocks() {
    for shape in [[171, 40, 530], [350, 35, 65], [9, 50, 1601]] {
        check_all_layouts(shape);
    }
}

#[test]
fn several_strips() {
    for shape in [[15, 2100, 33], [3, 550, 1100]] {
        check_all_layouts(shape);
    }
}

/// A cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u8; 64]);

/// Large aligned results are written around the caches.
#[test]
fn large_results() {
    for out in [DType::F32, DType::Bf16] {
        let spec = spec(DType::Bf16, out, [2064, 2080, 3], [false, true]);
        let (a, b) = operands(&spec);
        let (sums, magnitudes) = reference(&spec, &a.values(), &b.values());
        for (isa, num_threads) in levels().flat_map(|isa| [(isa, 1), (isa, 2)]) {
            let mut c = vec![Line([0xff; 64]); 2064 * 2080 * out.size_bytes() / 64];
            let mut scratch = Guarded::new(workspace::contract(&spec), num_threads);
            let (pool, operands) = (Pool::new(num_threads, None), [a.ptr(), b.ptr()]);
            // SAFETY: operands, result and scratch have the sizes of the spec.
            unsafe {
                contract_on(isa, &pool, &spec, operands, c.as_mut_ptr().cast(), None, &scratch.scratch());
            }
            scratch.check();
            let c = Buffer { dtype: out, bytes: c.iter().flat_map(|line| line.0).collect() };
            assert_close(&spec, &c, &sums, &magnitudes, &format!("{isa:?}"));
        }
    }
}

#[test]
fn nothing_is_touched_beyond_the_operands() {
    for shape in [[1, 1, 1], [17, 35, 19], [30, 50, 34]] {
        for (dtype, out) in [(DType::F32, DType::F32), (DType::Bf16, DType::F32), (DType::Bf16, DType::Bf16)]
        {
            for trans in [[false, false], [false, true], [true, false], [true, true]] {
                let spec = spec(dtype, out, shape, trans);
                let (a, b) = operands(&spec);
                let (a, b) = (PageEnd::new(&a), PageEnd::new(&b));
                let c = PageEnd::new(&Buffer::unwritten(out, (spec.m * spec.n) as usize));
                let mut scratch = Guarded::new(workspace::contract(&spec), 1);
                let (pool, operands) = (Pool::new(1, None), [a.ptr().cast_const(), b.ptr().cast_const()]);
                for isa in levels() {
                    // SAFETY: operands, result and scratch have the sizes of the spec.
                    unsafe { contract_on(isa, &pool, &spec, operands, c.ptr(), None, &scratch.scratch()) };
                }
            }
        }
    }
}

#[test]
fn empty_k_gives_zeros() {
    check_all_layouts([3, 5, 0]);
}

#[test]
fn not_a_number_reaches_only_its_row() {
    let spec = spec(DType::F32, DType::F32, [20, 40, 10], [false, false]);
    let (mut a, b) = operands(&spec);
    a.bytes[3 * 10 * 4..][..4].copy_from_slice(&f32::NAN.to_ne_bytes());
    for isa in levels() {
        let c = product(isa, &Pool::new(1, None), &spec, &a, &b).values();
        assert!(c.chunks(40).enumerate().all(|(i, row)| row.iter().all(|x| x.is_nan() == (i == 3))));
    }
}

/// What the epilogue of the test sees: its calls, and C plus one.
struct Seen {
    calls: Mutex<Vec<[i64; 4]>>,
    n: i64,
}

/// Stores `tile + addend` and notes the call. Arguments: tile, addend (one f32), C, `Seen`.
unsafe extern "C" fn add_and_note(args: *const *mut u8, i0: i64, i1: i64, j0: i64, j1: i64) {
    // SAFETY: the test passes these arguments.
    unsafe {
        let [tile, addend, c, seen] = *args.cast::<[*mut u8; 4]>();
        let seen = &*seen.cast::<Seen>();
        for i in i0..i1 {
            for j in j0..j1 {
                let sum = tile.cast::<f32>().offset(((i - i0) * TILE_LD as i64 + (j - j0)) as isize).read();
                c.cast::<f32>().offset((i * seen.n + j) as isize).write(sum + addend.cast::<f32>().read());
            }
        }
        seen.calls.lock().expect("no test thread panics").push([i0, i1, j0, j1]);
    }
}

/// A stand-in for the generated kernel: only its presence matters to the product.
fn some_epilogue(n: u64) -> RowKernel {
    let input = Input { dtype: DType::F32, access: Access::Tile };
    let output = Output { dtype: DType::F32, store: Store::Full, value: titan_ir::kernel::ExprId(0) };
    RowKernel {
        cols: Cols::Static(n),
        inputs: vec![input],
        exprs: vec![Expr::Load(0)],
        outputs: vec![output],
    }
}

#[test]
fn the_epilogue_sees_finished_tiles_that_cover_c_once() {
    for shape @ [m, n, _] in [[40, 70, 30], [200, 600, 600], [300, 45, 1500], [7, 600, 1300], [20, 2500, 20]]
    {
        for dtype in [DType::F32, DType::Bf16] {
            let plain = spec(dtype, DType::F32, shape, [false, true]);
            let fused = Contract { epilogue: Some(some_epilogue(n)), ..plain.clone() };
            let (a, b) = operands(&plain);
            for (isa, num_threads) in levels().flat_map(|isa| [(isa, 1), (isa, 2)]) {
                let pool = Pool::new(num_threads, None);
                let mut c = Buffer::unwritten(DType::F32, (m * n) as usize);
                let mut seen = Seen { calls: Mutex::new(vec![]), n: n as i64 };
                let mut addend = 1.0f32;
                let args = [(&raw mut addend).cast(), c.ptr_mut(), (&raw mut seen).cast()];
                let epilogue = Epilogue { kernel: add_and_note, args: &args };
                let mut scratch = Guarded::new(workspace::contract(&fused), num_threads);
                let (nowhere, some) = (std::ptr::null_mut(), Some(epilogue));
                // SAFETY: operands, result and scratch have the sizes of the spec.
                unsafe {
                    contract_on(isa, &pool, &fused, [a.ptr(), b.ptr()], nowhere, some, &scratch.scratch());
                }
                scratch.check();
                assert_tiles_cover(&seen.calls.into_inner().unwrap(), m as i64, n as i64);
                let expected: Vec<f64> = product(isa, &pool, &plain, &a, &b).values();
                let expected: Vec<f64> = expected.iter().map(|x| f64::from(*x as f32 + 1.0)).collect();
                assert_eq!(c.values(), expected, "{isa:?} {shape:?}");
            }
        }
    }
}

fn assert_tiles_cover(calls: &[[i64; 4]], m: i64, n: i64) {
    let mut counts = vec![0; (m * n) as usize];
    for &[i0, i1, j0, j1] in calls {
        assert!(i0 < i1 && i1 <= m && j0 < j1 && j1 <= n, "tile {i0}..{i1} x {j0}..{j1}");
        assert!(j0 % 32 == 0 && j1 - j0 <= TILE_LD as i64, "columns {j0}..{j1}");
        for i in i0..i1 {
            (j0..j1).for_each(|j| counts[(i * n + j) as usize] += 1);
        }
    }
    assert!(counts.iter().all(|c| *c == 1), "tiles do not cover C once");
}
