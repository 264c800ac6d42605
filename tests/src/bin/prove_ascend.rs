//! Trains Llama 3's debug model on Ascend devices that the host implementation of CANN simulates, in every way that matters, and
//! says what was compared. Stops with an error at the first thing that is not as it must be.

use titan_tests::ascend::proof::{AGREES_HEADER, DEBUG, Dtype, SMALL, agrees, any_order, catches_mutants};
use titan_tests::ascend::runs::Style;

/// Steps of every comparison.
const STEPS: u64 = 10;
/// Orders tried.
const NUM_SEEDS: u64 = 50;

fn main() {
    if std::env::args().len() > 1 {
        eprintln!("prove_ascend takes no arguments: it runs for some minutes and says what it compared");
        std::process::exit(2);
    }
    let say = &mut |line: &str| println!("{line}");
    println!("Losses and gradient norms of {STEPS} steps, beside the CPU's: largest relative difference");
    println!("{AGREES_HEADER}");
    for dtype in Dtype::ALL {
        for ranks in [1, 2, 4] {
            agrees(DEBUG, dtype, ranks, STEPS, say);
        }
    }
    println!("A captured run and one with --no-capture gave the same bits each time.\n");
    println!("Orders in which devices may run what may run");
    for style in Style::ALL {
        any_order(SMALL, style, 2, 0..NUM_SEEDS, say);
    }
    println!("\nPrograms with one thing wrong, and who catches it");
    for style in Style::ALL {
        catches_mutants(SMALL, style, say);
    }
    println!("\nEverything is as it must be.");
}
