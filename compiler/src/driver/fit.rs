//! Whether a plan fits a device, and the cheapest change of the configuration that would make it fit.

use super::{PassFlags, Planner, Source, resolve};
use crate::config::{AcMode, Config};
use crate::model::Registry;
use crate::report::{bytes, plural, ranks};
use crate::target::Target;
use titan_ir::plan::MemoryReport;

/// Bytes of a GiB.
const GIB: f64 = (1_u64 << 30) as f64;

/// How often the number of ranks is doubled in search of one that fits.
const MAX_DOUBLINGS: u32 = 10;

/// Memory a rank may use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    gib: f64,
}

/// A change that makes a plan fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What changes, in words.
    pub what: String,
    /// The arguments that make it.
    pub overrides: Vec<String>,
    /// Bytes of a rank afterwards.
    pub total_bytes: u64,
}

/// Bytes of that many GiB.
pub(super) fn gib_to_bytes(gib: f64) -> u64 {
    (gib * GIB) as u64
}

impl Limit {
    /// `titan.memory_gib`, or else what the target has.
    pub fn of(config: &Config, target: Target) -> Self {
        Self { gib: config.titan.memory_gib.unwrap_or_else(|| target.default_memory_gib()) }
    }

    /// A limit of that many GiB.
    pub fn of_gib(gib: f64) -> Self {
        Self { gib }
    }

    /// A limit of that many bytes, or else what the target has.
    pub fn of_bytes(memory_bytes: Option<u64>, target: Target) -> Self {
        Self { gib: memory_bytes.map_or_else(|| target.default_memory_gib(), |bytes| bytes as f64 / GIB) }
    }

    /// The limit in words.
    pub fn name(self) -> String {
        format!("{} GiB", self.gib)
    }

    /// Whether a rank with one thread fits.
    pub fn fits(self, memory: &MemoryReport) -> bool {
        memory.total_bytes(1) <= gib_to_bytes(self.gib)
    }
}

impl Change {
    /// One line for people.
    pub fn text(&self) -> String {
        format!("{} ({} per rank): add {}", self.what, bytes(self.total_bytes), self.overrides.join(" "))
    }
}

/// What a candidate changes.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    full_checkpointing: bool,
    /// Divisor of the local batch; microbatches make up for it.
    batch_divisor: u64,
    /// Factor on the number of ranks.
    rank_factor: u64,
}

/// Plans the model with changes, cheapest first, until one fits: recomputing activations, smaller microbatches, more ranks. Every
/// answer is a plan that was really made.
pub fn cheapest_change(registry: &Registry, source: &Source, limit: Limit, world: u64) -> Option<Change> {
    let (config, _) = source.load().ok()?;
    let search = Search { registry, source, config: &config, limit, world };
    let local = config.training.local_batch_size;
    let can_checkpoint = config.activation_checkpoint.mode != AcMode::Full;
    let mut smallest = Candidate { full_checkpointing: can_checkpoint, batch_divisor: 1, rank_factor: 1 };
    let mut memory = None;
    for batch_divisor in divisors(local) {
        for full_checkpointing in [false, true] {
            let candidate = Candidate { full_checkpointing, batch_divisor, rank_factor: 1 };
            let is_change = full_checkpointing || batch_divisor > 1;
            if !is_change || (full_checkpointing && !can_checkpoint) {
                continue;
            }
            let found = search.plan(candidate)?;
            if limit.fits(&found) {
                return Some(search.change(candidate, &found));
            }
            (smallest, memory) = (candidate, Some(found));
        }
    }
    let memory = match memory {
        Some(memory) => memory,
        None => search.plan(smallest)?,
    };
    search.more_ranks(smallest, &memory)
}

/// Divisors to try on a local batch: powers of two as long as they divide.
fn divisors(local: u64) -> impl Iterator<Item = u64> {
    (0..u64::BITS).map(|i| 1 << i).take_while(move |d| local.is_multiple_of(*d))
}

struct Search<'a> {
    registry: &'a Registry,
    source: &'a Source,
    config: &'a Config,
    limit: Limit,
    world: u64,
}

impl Search<'_> {
    /// Doubles the ranks until what is cut over them leaves enough room, then makes that plan.
    fn more_ranks(&self, smallest: Candidate, memory: &MemoryReport) -> Option<Change> {
        let cut = memory.params_bytes + memory.grads_bytes + memory.optimizer_bytes;
        let rest = memory.total_bytes(1) - cut;
        let limit_bytes = gib_to_bytes(self.limit.gib);
        (1..=MAX_DOUBLINGS)
            .map(|i| Candidate { rank_factor: 1 << i, ..smallest })
            .filter(|c| rest + cut / c.rank_factor <= limit_bytes)
            .take(2)
            .find_map(|candidate| {
                let found = self.plan(candidate)?;
                self.limit.fits(&found).then(|| self.change(candidate, &found))
            })
    }

    /// The memory of a plan with the change, if there is one.
    fn plan(&self, candidate: Candidate) -> Option<MemoryReport> {
        let (config, _) = self.source.with(&self.overrides(candidate)).load().ok()?;
        let model = resolve(self.registry, &config).ok()?;
        let dims = config.parallel_dims(self.world * candidate.rank_factor).ok()?;
        let flags = PassFlags::default();
        let target = Target::of_name(&config.titan.target).ok()?;
        let planned = Planner::new(&config, &model, target, &flags).plan(&dims).ok()?;
        Some(planned.info.memory)
    }

    fn overrides(&self, candidate: Candidate) -> Vec<String> {
        let mut overrides = Vec::new();
        let mut set = |key: &str, value: String| overrides.extend([format!("--{key}"), value]);
        if candidate.full_checkpointing {
            set("activation_checkpoint.mode", "full".to_owned());
        }
        if candidate.batch_divisor > 1 {
            set(
                "training.local_batch_size",
                (self.config.training.local_batch_size / candidate.batch_divisor).to_string(),
            );
            if let Some(global) = self.global_batch(candidate) {
                set("training.global_batch_size", global.to_string());
            }
        }
        if candidate.rank_factor > 1 {
            let shard = self.config.parallelism.data_parallel_shard_degree;
            if shard > 0 {
                set(
                    "parallelism.data_parallel_shard_degree",
                    (shard as u64 * candidate.rank_factor).to_string(),
                );
            }
            set("titan.world_size", (self.world * candidate.rank_factor).to_string());
        }
        overrides
    }

    /// The global batch that keeps the step as it is, when the configuration leaves it to the local batch.
    fn global_batch(&self, candidate: Candidate) -> Option<u64> {
        let dims = self.config.parallel_dims(self.world).ok()?;
        let batch = self.config.batch(&dims).ok()?;
        (self.config.training.global_batch_size < 0).then_some(batch.global * candidate.rank_factor)
    }

    fn change(&self, candidate: Candidate, memory: &MemoryReport) -> Change {
        let mut what = Vec::new();
        if candidate.full_checkpointing {
            what.push("recompute every block".to_owned());
        }
        if candidate.batch_divisor > 1 {
            let local = self.config.training.local_batch_size / candidate.batch_divisor;
            what.push(format!("{} per microbatch, the rest by accumulation", plural(local, "sequence")));
        }
        if candidate.rank_factor > 1 {
            what.push(ranks(self.world * candidate.rank_factor));
        }
        Change {
            what: what.join(", "),
            overrides: self.overrides(candidate),
            total_bytes: memory.total_bytes(1),
        }
    }
}
