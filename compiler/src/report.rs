//! What a build says of its result: sizes and memory, for people.

use crate::driver::Limit;
use crate::target::{ASCEND_RESERVED_GIB, Target};
use titan_ir::artifact::{Manifest, PlanInfo};
use titan_ir::plan::MemoryReport;

/// Width of a column of the memory table.
const COLUMN: usize = 13;

/// Width of the first column.
const LABEL: usize = 16;

/// A row of the memory table.
type Row = (&'static str, fn(&MemoryReport) -> u64);

/// What the communication library of Ascend devices allocates for itself.
const HCCL_BUFFERS: &str = "HCCL buffers";

/// Purposes of memory, and their sum.
const ROWS: [Row; 9] = [
    ("parameters", |m| m.params_bytes),
    ("gradients", |m| m.grads_bytes),
    ("optimizer", |m| m.optimizer_bytes),
    ("tables", |m| m.buffers_bytes),
    ("activations", |m| m.activations_bytes),
    ("collectives", |m| m.collectives_bytes),
    ("workspace", |m| m.workspace_bytes + m.workspace_per_thread_bytes),
    (HCCL_BUFFERS, |m| m.communication_bytes),
    ("total", |m| m.total_bytes(1)),
];

/// A number of bytes with the unit that suits it.
pub fn bytes(num_bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if num_bytes < 1024 {
        return format!("{num_bytes} B");
    }
    let mut value = num_bytes as f64 / 1024.0;
    let mut unit = 0;
    // What rounds to 1024 is written in the next unit.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A number with a comma between thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// "1 rank", "2 ranks".
pub fn ranks(number: u64) -> String {
    plural(number, "rank")
}

/// The number and the noun, in the plural unless it is 1.
pub fn plural(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Model, batch and memory of every plan, and whether each fits.
pub fn summary(manifest: &Manifest, limit: Limit) -> String {
    let (model, run) = (&manifest.model, &manifest.run);
    let mut text = format!(
        "model: {} {}, {} parameters, {} compute, target {}\n",
        model.name,
        model.flavor,
        grouped(model.num_params),
        run.compute_dtype,
        manifest.target.name,
    );
    text.push_str(&format!(
        "step:  {} x {} tokens per rank and microbatch, {}\n\n",
        run.local_batch_size,
        grouped(run.seq_len),
        plural(run.steps, "step"),
    ));
    text.push_str(&table(&manifest.plans, limit));
    if let Ok(Target::Ascend(soc)) = Target::of_name(&manifest.target.name) {
        text.push_str(&format!(
            "{} has {} GiB, of which driver and runtime are taken to keep {ASCEND_RESERVED_GIB} GiB.\n",
            soc.name, soc.hbm_gib,
        ));
    }
    text
}

/// A row per purpose, a column per plan.
fn table(plans: &[PlanInfo], limit: Limit) -> String {
    let mut text = String::new();
    let mut row = |label: &str, cell: &dyn Fn(&PlanInfo) -> String| {
        let cells: String = plans.iter().map(|plan| format!("{:>COLUMN$}", cell(plan))).collect();
        text.push_str(format!("{label:<LABEL$}{cells}").trim_end());
        text.push('\n');
    };
    row("per rank", &|p| ranks(p.world_size));
    row("replica x shard", &|p| {
        let sizes: Vec<String> = p.mesh.axes.iter().map(|a| a.size.to_string()).collect();
        sizes.join(" x ")
    });
    row("sequences", &|p| grouped(p.global_batch_size));
    row("microbatches", &|p| grouped(p.accumulation));
    let communicates = plans.iter().any(|plan| plan.memory.communication_bytes > 0);
    for (label, of) in ROWS.into_iter().filter(|(label, _)| communicates || *label != HCCL_BUFFERS) {
        row(label, &|p| bytes(of(&p.memory)));
    }
    row(&format!("fits {}", limit.name()), &|p| if limit.fits(&p.memory) { "yes" } else { "no" }.to_owned());
    if communicates {
        text.push_str("HCCL buffers: two of 200 MB for each communicator, allocated by the library.\n");
    }
    text.push_str("Gradients, activations and collectives: what is in use at the peak of the step.\n");
    let per_thread = plans.iter().map(|p| p.memory.workspace_per_thread_bytes).max().unwrap_or(0);
    if per_thread > 0 {
        text.push_str(&format!("Each further thread of a rank takes {} of workspace.\n", bytes(per_thread)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        let written = [0, 1023, 1024, 1_048_524, 1_048_575, 68_719_476_736].map(bytes);
        assert_eq!(written, ["0 B", "1023 B", "1.0 KiB", "1023.9 KiB", "1.0 MiB", "64.0 GiB"]);
        assert_eq!([0, 999, 1000, 8_030_261_248].map(grouped), ["0", "999", "1,000", "8,030,261,248"]);
        assert_eq!([ranks(1), ranks(1024)], ["1 rank", "1,024 ranks"]);
    }
}
