//! The pipeline: what happens to a traced module until it is a plan, and why in this order.

use crate::manager::Step;
use titan_ir::Stage;

/// Options of all passes: each pass is its own options.
#[derive(Debug, Clone, Default)]
pub struct PipelineOptions {}

/// The steps from a traced module to a plan.
pub fn pipeline(_options: PipelineOptions) -> Vec<Step> {
    vec![
        Step::Begin(Stage::Graph),
        // Sharded: layouts everywhere, then explicit changes of layout.
        // Step::run(propagate), Step::run(insert_reshard), Step::Begin(Stage::Sharded),
        // Local: per-rank shapes, collectives.
        // Step::run(localize), Step::Begin(Stage::Local), Step::run(remat), Step::run(bucket),
        // Kernels.
        // Step::run(fuse), Step::Begin(Stage::Kernels), schedule, check collectives, place, check memory, emit-plan.
    ]
}
