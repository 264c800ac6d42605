//! A step allocates nothing: a run of many steps makes as many heap allocations as a run of few.
//!
//! Counted are all threads of the process, those of the ranks and of their pools. The batches come from a token file, which is
//! mapped: with text, a loader's own thread tokenizes ahead, and it does allocate.
#![expect(clippy::unwrap_used, reason = "tests")]

use clap::Parser;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use titan_run::cli::Options;
use titan_run::train;
use titan_tests::programs::{TINY, Work};
use titan_tests::tensors::{draw_tokens, write_tokens};

/// The system's allocator, counting.
struct Counting;

static NUM_ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is handed to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        NUM_ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        NUM_ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        NUM_ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe { System.realloc(at, layout, new_size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Steps of the short and the long run.
const NUM_STEPS: [u64; 2] = [2, 52];

/// Allocations by which two runs may differ: the one step line they print has digits of its own, and longer text grows its buffer
/// once more. One allocation in every step would be 50.
const CHANCE: u64 = 8;

/// Heap allocations of a whole run.
fn allocations(work: &Work, ranks: u64, threads: u64, steps: u64) -> u64 {
    let path = |name: &str| work.path(name).to_str().unwrap().to_owned();
    let [artifact, tokens, metrics] = ["run.titan", "t.safetensors", "m.jsonl"].map(path);
    let [ranks, threads, steps] = [ranks, threads, steps].map(|n| n.to_string());
    let args = ["titan-run", &artifact, "--tokens", &tokens, "--nodes", &ranks, "--threads", &threads];
    let more = ["--steps", &steps, "--metrics-json", &metrics];
    let options = Options::parse_from(args.into_iter().chain(more));
    let before = NUM_ALLOCATIONS.load(Ordering::SeqCst);
    train::run(&options).unwrap();
    NUM_ALLOCATIONS.load(Ordering::SeqCst) - before
}

// One test alone in its program: another would be counted too.
#[test]
fn steps_allocate_nothing() {
    let work = Work::new("allocations");
    let open = ["--parallelism.data_parallel_shard_degree", "-1", "--titan.ranks", "1,2"];
    let long = ["--training.steps", "52", "--metrics.log_freq", "1000", "--training.global_batch_size", "4"];
    for dtype in ["float32", "bfloat16"] {
        let overrides = [&open[..], &long, &["--training.mixed_precision_param", dtype]].concat();
        work.build_with(TINY, &overrides);
        for (ranks, threads) in [(1, 1), (1, 2), (2, 2), (2, 4)] {
            let rows = ranks as usize;
            let dims = [NUM_STEPS[1] as usize * 4 / rows, rows, 23];
            write_tokens(&work.path("t.safetensors"), dims, &draw_tokens(dims.iter().product(), 77));
            // The first run of the process also fills what is filled once.
            allocations(&work, ranks, threads, 1);
            let [few, many] = NUM_STEPS.map(|steps| allocations(&work, ranks, threads, steps));
            assert!(few > 0, "nothing is counted");
            let run = format!("{dtype}, {ranks} ranks, {threads} threads");
            assert!(
                many.abs_diff(few) <= CHANCE,
                "{run}: {NUM_STEPS:?} steps make {few} and {many} allocations"
            );
        }
    }
}
