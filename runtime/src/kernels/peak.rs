//! The machine's peak arithmetic rate, measured, and the arithmetic of a contraction: what benches divide by each other.

use super::isa::{Isa, per_engine};
use super::simd::Simd;
use crate::pool::Pool;
use std::sync::atomic::{AtomicU64, Ordering};
use titan_ir::DType;
use titan_ir::kernel::Contract;

/// Independent accumulators: enough to hide the latency of the multiply-add, few enough for sixteen registers.
const NUM_CHAINS: usize = 12;

/// Multiply-adds of each chain in one measurement: some milliseconds.
const NUM_STEPS: usize = 1 << 20;

/// Measurements per thread; the best counts.
const NUM_TRIES: usize = 8;

/// Floating-point operations per second of `pool`'s threads with operands of `dtype`, from registers only: the best of a few measurements of one thread's
/// processor time while all are busy, times the number of threads.
pub fn peak(pool: &Pool, dtype: DType) -> f64 {
    let engine = Isa::native().engine(dtype);
    let best_ns = AtomicU64::new(u64::MAX);
    pool.run(NUM_TRIES * pool.num_threads(), &|_, _| {
        let start_ns = thread_time_ns();
        // SAFETY: the engine is the machine's.
        unsafe { chains(engine) };
        best_ns.fetch_min(thread_time_ns() - start_ns, Ordering::Relaxed);
    });
    // SAFETY: the engine is the machine's.
    let flops_per_step = unsafe { flops_per_step(engine) };
    let num_flops = (pool.num_threads() * NUM_STEPS * flops_per_step) as f64;
    num_flops / (best_ns.into_inner().max(1) as f64 * 1e-9)
}

/// Processor time of the calling thread: other processes do not lengthen it.
fn thread_time_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Floating-point operations of a contraction.
pub fn gemm_flops(spec: &Contract) -> f64 {
    2.0 * spec.m as f64 * spec.n as f64 * spec.k as f64
}

per_engine! {
    /// Runs the chains.
    unsafe fn chains() = chains_on
}

per_engine! {
    /// Floating-point operations of one step of all chains.
    unsafe fn flops_per_step() -> usize = flops_per_step_on
}

#[inline(always)]
unsafe fn flops_per_step_on<S: Simd>() -> usize {
    NUM_CHAINS * S::LANES * if S::PAIRS { 4 } else { 2 }
}

#[inline(always)]
unsafe fn chains_on<S: Simd>() {
    // SAFETY: the caller's.
    unsafe {
        let mut acc = [S::zero(); NUM_CHAINS];
        // The bits of one as a bf16 pair, and close to one as an f32.
        let one = std::hint::black_box(0x3f80_3f80u32);
        let (a, b) = (S::splat_unit(&raw const one), S::splat_unit(&raw const one));
        for _ in 0..NUM_STEPS {
            for acc in &mut acc {
                *acc = S::mac(*acc, a, b);
            }
        }
        let mut sink = [0.0f32; super::simd::MAX_LANES];
        for acc in acc {
            S::store(sink.as_mut_ptr(), acc);
            std::hint::black_box(&sink);
        }
    }
}
