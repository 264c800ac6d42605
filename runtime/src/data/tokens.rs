//! Batches read from a file of token ids: the same tokens for every run, whatever the tokenizer.

use super::{DataState, codes};
use crate::weights::{Dtype, Weights};
use std::path::Path;
use titan_ir::{Diag, DiagResult};

/// The shape a training run needs its tokens in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenShape {
    /// Inputs of a sequence.
    pub seq_len: usize,
    /// Sequences of a micro-batch of one rank.
    pub local_batch: usize,
    /// This rank.
    pub dp_rank: usize,
    /// Data-parallel ranks.
    pub dp_world: usize,
    /// Token ids of the model.
    pub vocab_size: usize,
}

/// Tensor `tokens` of a safetensors file: I32 or I64 `[micro_batches, local_batch * dp_world, seq_len + 1]`.
///
/// Inputs are the first `seq_len` tokens of a row, labels the last; rank `r` takes the rows `r * local_batch ..`. The file is
/// read once: every micro-batch of every step has its own entry.
pub struct TokenFile {
    weights: Weights,
    path: String,
    shape: TokenShape,
    num_batches: usize,
    /// Micro-batches handed out.
    num_taken: usize,
}

impl TokenFile {
    /// Opens the file.
    ///
    /// # Errors
    /// It is not a safetensors file, has no integer tensor `tokens`, or its shape does not fit `shape`.
    pub fn open(path: &Path, shape: TokenShape) -> DiagResult<Self> {
        let weights = Weights::open(path)?;
        let shown = path.display().to_string();
        let wrong = |found: String| {
            let (rows, row) = (shape.local_batch * shape.dp_world, shape.seq_len + 1);
            Diag::new(codes::TOKEN_SHAPE, format!("token file `{shown}` {found}"))
                .note(format!("the run needs I32 or I64 [micro-batches, {rows}, {row}]"))
                .note(format!(
                    "{rows} = {} sequences x {} data-parallel ranks, {row} = sequence length + 1",
                    shape.local_batch, shape.dp_world
                ))
        };
        let Some(info) = weights.info("tokens") else {
            return Err(wrong("has no tensor named `tokens`".to_string()));
        };
        let fits = matches!(info.shape[..], [_, rows, row]
            if rows == shape.local_batch * shape.dp_world && row == shape.seq_len + 1);
        if !fits || !matches!(info.dtype, Dtype::I32 | Dtype::I64) {
            return Err(wrong(format!("holds {:?} {:?}", info.dtype, info.shape)));
        }
        let num_batches = info.shape[0];
        Ok(Self { weights, path: shown, shape, num_batches, num_taken: 0 })
    }

    /// Checks that the file has `needed` micro-batches.
    ///
    /// # Errors
    /// It has fewer.
    pub fn check_lasts(&self, needed: u64) -> DiagResult<()> {
        let found = self.num_batches as u64;
        if found >= needed {
            return Ok(());
        }
        let message = format!("token file `{}` has {found} micro-batches, the run takes {needed}", self.path);
        Err(used_up(message))
    }

    /// Writes the next micro-batch.
    ///
    /// Shapes: `inputs` and `labels` `[local_batch, seq_len]`.
    ///
    /// # Errors
    /// The file is used up, or holds a token outside the vocabulary.
    pub fn next_batch(&mut self, inputs: &mut [i32], labels: &mut [i32]) -> DiagResult<()> {
        if self.num_taken == self.num_batches {
            let message =
                format!("token file `{}` is used up after {} micro-batches", self.path, self.num_batches);
            return Err(used_up(message));
        }
        let TokenShape { seq_len, local_batch, dp_rank, dp_world, .. } = self.shape;
        let info = self.weights.info("tokens").expect("the tensor was there at opening");
        let token_bytes = info.dtype.bitsize() / 8;
        let row_bytes = (seq_len + 1) * token_bytes;
        let first_row = (self.num_taken * dp_world + dp_rank) * local_batch;
        let rows =
            &self.weights.bytes("tokens").expect("the tensor was there at opening")[first_row * row_bytes..];
        let outputs = inputs.chunks_exact_mut(seq_len).zip(labels.chunks_exact_mut(seq_len));
        for (row, (inputs, labels)) in outputs.take(local_batch).enumerate() {
            for position in 0..=seq_len {
                let bytes = &rows[row * row_bytes + position * token_bytes..][..token_bytes];
                let token = integer(bytes);
                let valid = usize::try_from(token).is_ok_and(|t| t < self.shape.vocab_size);
                let id = i32::try_from(token).ok().filter(|_| valid);
                let id = id.ok_or_else(|| self.outside(token, row, position))?;
                if position < seq_len {
                    inputs[position] = id;
                }
                if position > 0 {
                    labels[position - 1] = id;
                }
            }
        }
        self.num_taken += 1;
        Ok(())
    }

    /// What to resume from.
    pub fn state(&self) -> DataState {
        DataState {
            dp_rank: self.shape.dp_rank as u64,
            dp_world: self.shape.dp_world as u64,
            sample_idx: self.num_taken as u64,
            ..DataState::default()
        }
    }

    /// Continues where `state` was taken.
    ///
    /// # Errors
    /// The state belongs to another rank or number of ranks, or lies behind the end of the file.
    pub fn restore(&mut self, state: &DataState) -> DiagResult<()> {
        state.check_rank(self.shape.dp_rank, self.shape.dp_world)?;
        if state.sample_idx > self.num_batches as u64 {
            let message =
                format!("the saved data position lies behind the end of token file `{}`", self.path);
            return Err(
                Diag::new(codes::STATE, message).help("resume with the token file the state was saved with")
            );
        }
        self.num_taken = state.sample_idx as usize;
        Ok(())
    }

    /// One line on what is read, for the log.
    pub fn summary(&self) -> String {
        format!("token file {} of {} micro-batches", self.path, self.num_batches)
    }

    fn outside(&self, token: i64, row: usize, position: usize) -> Diag {
        let TokenShape { local_batch, dp_rank, vocab_size, .. } = self.shape;
        let row = dp_rank * local_batch + row;
        let message = format!("token {token} is outside the model's vocabulary of {vocab_size}");
        Diag::new(codes::VOCABULARY, message)
            .at(format!("{}: tokens[{}, {row}, {position}]", self.path, self.num_taken))
            .help("build with a larger titan.model_args.vocab_size, or make the token file for this model")
    }
}

fn used_up(message: String) -> Diag {
    Diag::new(codes::TOKENS_END, message)
        .note("a token file is never read twice: a step takes one entry for each accumulation step")
        .help("train fewer steps (training.steps) or give a longer file")
}

/// A little-endian integer of four or eight bytes.
fn integer(bytes: &[u8]) -> i64 {
    match <[u8; 8]>::try_from(bytes) {
        Ok(eight) => i64::from_le_bytes(eight),
        Err(_) => i64::from(i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
    }
}
