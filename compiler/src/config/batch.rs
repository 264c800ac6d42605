//! Batch and sequence arithmetic.

use super::Config;
use super::parallel_dims::ParallelDims;
use titan_ir::DiagResult;

/// Sizes of one optimizer step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// Sequences per data-parallel rank and microbatch.
    pub local: u64,
    /// Sequences per step over all ranks.
    pub global: u64,
    /// Microbatches per step.
    pub num_accumulation_steps: u64,
}

impl Config {
    /// Batch sizes on the mesh `dims`.
    ///
    /// # Errors
    /// `T0421` when the global batch size is no positive multiple of the microbatches of all ranks, `T0422` when the sequence
    /// length does not divide.
    pub fn batch(&self, dims: &ParallelDims) -> DiagResult<Batch> {
        let local = self.training.local_batch_size;
        let microbatch = local.checked_mul(dims.dp()).ok_or_else(|| {
            let message =
                format!("`training.local_batch_size = {local}` is too large for {} ranks", dims.dp());
            self.error("training.local_batch_size", "T0421", message)
        })?;
        let global = u64::try_from(self.training.global_batch_size).unwrap_or(microbatch);
        if global == 0 || !global.is_multiple_of(microbatch) {
            let message = format!(
                "`training.global_batch_size = {global}` is not a positive multiple of {microbatch}, the sequences of one \
                 microbatch on {} ranks",
                dims.world()
            );
            return Err(self
                .error("training.global_batch_size", "T0421", message)
                .note(format!("local_batch_size {local} x data-parallel degree {}", dims.dp()))
                .help(match global / microbatch * microbatch {
                    0 => format!("the smallest is {microbatch}"),
                    below => format!("the nearest are {below} and {}", below + microbatch),
                }));
        }
        self.check_seq_len(dims)?;
        self.check_bounds(local, global / microbatch)?;
        Ok(Batch { local, global, num_accumulation_steps: global / microbatch })
    }

    /// Microbatches per optimizer step on `world` ranks.
    ///
    /// # Errors
    /// As [`Config::parallel_dims`] and [`Config::batch`].
    pub fn gradient_accumulation_steps(&self, world: u64) -> DiagResult<u64> {
        Ok(self.batch(&self.parallel_dims(world)?)?.num_accumulation_steps)
    }

    /// Bounds far above any real run: kernels count tokens and steps exactly up to 2^24, and the host holds the tokens of a whole step.
    fn check_bounds(&self, local: u64, accumulation: u64) -> DiagResult<()> {
        let tokens = local.saturating_mul(self.training.seq_len);
        let bounds = [
            ("training.seq_len", "tokens of a rank and microbatch", tokens, 1 << 24),
            ("training.steps", "steps", self.training.steps, 1 << 24),
            ("training.global_batch_size", "microbatches of a step", accumulation, 1 << 16),
        ];
        for (key, what, found, most) in bounds {
            if found > most {
                return Err(self
                    .error(key, "T0424", format!("{found} {what}, the most are {most}"))
                    .help(format!("lower `{key}`")));
            }
        }
        Ok(())
    }

    /// The factor 2 is the two chunks of context parallelism; it applies without it too.
    fn check_seq_len(&self, dims: &ParallelDims) -> DiagResult<()> {
        let seq_len = self.training.seq_len;
        let divisor = dims.tp * 2 * dims.cp;
        if seq_len.is_multiple_of(divisor) {
            return Ok(());
        }
        let message = format!("`training.seq_len = {seq_len}` is not a multiple of {divisor}");
        let note = format!("tensor_parallel_degree {} x 2 x context_parallel_degree {}", dims.tp, dims.cp);
        let above = seq_len.div_ceil(divisor).saturating_mul(divisor);
        let help = match seq_len / divisor * divisor {
            0 => format!("the smallest is {divisor}"),
            below => format!("the nearest are {below} and {above}"),
        };
        Err(self.error("training.seq_len", "T0422", message).note(note).help(help))
    }
}
