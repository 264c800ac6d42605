//! Memory: does a rank fit its device, and if not, what is the least that would have to change?

use titan_ir::plan::{MemoryReport, PeakBuffer};
use titan_ir::{Diag, DiagResult};

/// What a rank may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capacity {
    /// The device, as the user named it.
    pub device: String,
    /// Bytes of a rank.
    pub memory_bytes: u64,
    /// Threads of a rank, each with its own scratch.
    pub num_threads: u64,
}

/// What the configuration leaves to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hints {
    /// Sequences of a rank in one microbatch.
    pub local_batch: u64,
    /// Ranks that share the state.
    pub shard_ranks: u64,
    /// Changes that were compiled, so that their bytes are exact: full recomputation, if it is off.
    pub compiled: Vec<Change>,
}

/// A change of the configuration, and the bytes a rank would then need, about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// In the words of the TOML.
    pub what: String,
    /// Bytes of a rank.
    pub total_bytes: u64,
}

/// Checks that the peak fits.
///
/// # Errors
/// T0505 with the bytes by purpose, the largest buffers and the cheapest change that would fit.
pub fn check(
    report: &MemoryReport,
    largest: &[PeakBuffer],
    capacity: &Capacity,
    hints: &Hints,
) -> DiagResult<()> {
    let total_bytes = report.total_bytes(capacity.num_threads);
    if total_bytes <= capacity.memory_bytes {
        return Ok(());
    }
    let message = format!(
        "a rank needs {} at the peak of its step, {} has {}",
        gib(total_bytes),
        capacity.device,
        gib(capacity.memory_bytes)
    );
    let mut diag = Diag::new("T0505", message).note(split(report, capacity.num_threads));
    for buffer in largest.iter().take(5) {
        diag = diag.note(format!(
            "{} for {} ({:?}, {} {:?})",
            gib(buffer.size_bytes),
            buffer.path,
            buffer.category,
            buffer.dtype,
            buffer.dims
        ));
    }
    Err(diag.help(advice(report, capacity, hints)))
}

/// Changes that lower the peak, cheapest first: those compiled, then smaller batches, then more machines.
pub fn changes(report: &MemoryReport, num_threads: u64, hints: &Hints) -> Vec<Change> {
    let total_bytes = report.total_bytes(num_threads);
    let mut changes = hints.compiled.clone();
    // Activations grow with the batch; what they are at the peak is all but the state.
    let mut batch = hints.local_batch / 2;
    while batch >= 1 {
        let kept = report.activations_bytes * batch / hints.local_batch;
        let what = format!("[training] local_batch_size = {batch}");
        changes.push(Change { what, total_bytes: total_bytes - report.activations_bytes + kept });
        batch /= 2;
    }
    let state_bytes = report.params_bytes + report.grads_bytes + report.optimizer_bytes;
    for factor in [2, 4, 8, 16] {
        let ranks = hints.shard_ranks * factor;
        let what = format!("[parallelism] data_parallel_shard_degree = {ranks}");
        changes.push(Change { what, total_bytes: total_bytes - state_bytes + state_bytes / factor });
    }
    changes
}

/// The first change that fits, or the one that helps most.
fn advice(report: &MemoryReport, capacity: &Capacity, hints: &Hints) -> String {
    let changes = changes(report, capacity.num_threads, hints);
    let fits = changes.iter().find(|c| c.total_bytes <= capacity.memory_bytes);
    let best = changes.iter().min_by_key(|c| c.total_bytes);
    match (fits, best) {
        (Some(change), _) => format!("`{}` would need about {}", change.what, gib(change.total_bytes)),
        (None, Some(change)) => format!(
            "no single change is enough; `{}` would need about {}, and recomputation, a smaller batch and more ranks add up",
            change.what,
            gib(change.total_bytes)
        ),
        (None, None) => "use a device with more memory".to_owned(),
    }
}

/// The report in one line.
fn split(report: &MemoryReport, num_threads: u64) -> String {
    let parts = [
        ("weights", report.params_bytes),
        ("gradients", report.grads_bytes),
        ("optimizer", report.optimizer_bytes),
        ("tables", report.buffers_bytes),
        ("activations", report.activations_bytes),
        ("collectives", report.collectives_bytes),
        ("workspace", report.workspace_bytes + num_threads * report.workspace_per_thread_bytes),
    ];
    let parts =
        parts.iter().filter(|(_, bytes)| *bytes > 0).map(|(name, bytes)| format!("{name} {}", gib(*bytes)));
    parts.collect::<Vec<_>>().join(", ")
}

fn gib(bytes: u64) -> String {
    format!("{:.2} GiB", bytes as f64 / f64::from(1 << 30))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn report() -> MemoryReport {
        MemoryReport {
            params_bytes: 8 * GIB,
            optimizer_bytes: 16 * GIB,
            activations_bytes: 40 * GIB,
            workspace_per_thread_bytes: GIB / 2,
            ..MemoryReport::default()
        }
    }

    fn hints() -> Hints {
        let full = Change { what: "[activation_checkpoint] mode = \"full\"".into(), total_bytes: 33 * GIB };
        Hints { local_batch: 4, shard_ranks: 8, compiled: vec![full] }
    }

    fn help(memory: u64, hints: &Hints) -> Option<String> {
        let capacity = Capacity { device: "Ascend910B4".into(), memory_bytes: memory * GIB, num_threads: 2 };
        check(&report(), &[], &capacity, hints).err().and_then(|diag| diag.help)
    }

    #[test]
    fn what_fits_passes() {
        assert_eq!(help(65, &hints()), None);
        assert!(help(64, &hints()).is_some());
    }

    #[test]
    fn the_cheapest_change_that_fits_is_named() {
        let full = help(33, &hints()).unwrap();
        assert!(full.contains("mode = \"full\"") && full.contains("33.00 GiB"), "{full}");
        let checkpointed = Hints { compiled: vec![], ..hints() };
        assert!(help(45, &checkpointed).unwrap().contains("local_batch_size = 2"));
        assert!(help(35, &checkpointed).unwrap().contains("local_batch_size = 1"));
        let one_sequence = Hints { local_batch: 1, ..checkpointed.clone() };
        assert!(help(53, &one_sequence).unwrap().contains("shard_degree = 16"));
        assert!(help(20, &one_sequence).unwrap().contains("no single change"));
    }
}
