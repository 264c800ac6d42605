//! The pipeline: what happens to a traced module until it is a plan, and why in this order.

use crate::accumulate::Accumulate;
use crate::autodiff::Autodiff;
use crate::bucket_collectives::BucketCollectives;
use crate::check::buffers::Buffers;
use crate::check::collectives::Collectives;
use crate::emit_plan::EmitPlan;
use crate::fuse::Fuse;
use crate::insert_reshard::InsertReshard;
use crate::localize::Localize;
use crate::manager::Step;
use crate::optimizer::Optimizer;
use crate::prefetch::Prefetch;
use crate::propagate::Propagate;
use crate::remat::Remat;
use crate::schedule::Schedule;
use crate::simplify::Simplify;
use titan_ir::Stage;

/// Options of all passes: each pass is its own options.
#[derive(Debug, Clone, Default)]
pub struct PipelineOptions {
    /// Gradient accumulation.
    pub accumulate: Accumulate,
    /// Clipping and optimizer.
    pub optimizer: Optimizer,
    /// Algebra.
    pub simplify: Simplify,
    /// Recomputation.
    pub remat: Remat,
    /// Merging of collectives.
    pub bucket: BucketCollectives,
    /// Gathers ahead of their use.
    pub prefetch: Prefetch,
    /// Kernels.
    pub fuse: Fuse,
}

/// The steps from a traced module to a plan.
pub fn pipeline(options: PipelineOptions) -> Vec<Step> {
    let PipelineOptions { accumulate, optimizer, simplify, remat, bucket, prefetch, fuse } = options;
    vec![
        Step::Begin(Stage::Graph),
        // Gradients first, on the global graph: everything after treats forward and backward alike, so that gradients are
        // sharded, fused and placed by the same rules as activations.
        Step::run(Autodiff),
        // Microbatches share one forward and backward; what follows must only see the sums.
        Step::run(accumulate),
        Step::run(optimizer),
        // Now that every consumer is there: the rules that made the nodes above did not look around themselves.
        Step::optional(simplify),
        // Layouts of weights and batch are known; all others follow. Where neighbours disagree a reshard is inserted,
        // and nothing else moves data between ranks.
        Step::run(Propagate),
        Step::run(InsertReshard),
        Step::Begin(Stage::Sharded),
        // Per-rank shapes, collectives in place of reshards.
        Step::run(Localize),
        Step::Begin(Stage::Local),
        // Collectives and activations are explicit: what is worth keeping until backward can be told by bytes. Before
        // fusion, which fuses what is recomputed into its readers; no common subexpressions are merged from here on.
        Step::optional(remat),
        // Recomputed gathers form buckets of their own; which there are is only known now.
        Step::optional(bucket),
        Step::optional(prefetch),
        // Every op is lowered; what a kernel can keep in registers never reaches memory.
        Step::run(fuse),
        Step::Begin(Stage::Kernels),
        // Kernels are final: which order holds least memory can be told.
        Step::optional(Schedule),
        // Streams, addresses, instructions.
        Step::run(EmitPlan),
        // Proofs about the plan: independent of what made it, and always run.
        Step::check(Collectives),
        Step::check(Buffers),
    ]
}
