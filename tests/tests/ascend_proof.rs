//! Ascend programs over the host implementation of CANN, small: `make demo-ascend` does the same at the size of the debug model.

use titan_tests::ascend::proof::{Dtype, SMALL, agrees, any_order, catches_mutants};
use titan_tests::ascend::runs::Style;

fn silent(_: &str) {}

#[test]
fn bf16_runs_agree_with_the_cpu_on_one_two_and_four_ranks() {
    for ranks in [1, 2, 4] {
        agrees(SMALL, Dtype::Bf16, ranks, 4, &mut silent);
    }
}

#[test]
fn f32_runs_agree_with_the_cpu_on_one_two_and_four_ranks() {
    for ranks in [1, 2, 4] {
        agrees(SMALL, Dtype::F32, ranks, 4, &mut silent);
    }
}

#[test]
fn no_order_of_the_devices_changes_a_bit() {
    for style in Style::ALL {
        any_order(SMALL, style, 2, 0..4, &mut silent);
    }
}

#[test]
fn programs_with_one_thing_wrong_are_caught() {
    for style in Style::ALL {
        catches_mutants(SMALL, style, &mut silent);
    }
}
