//! Training data: datasets, tokenizer, packing, and batches made ahead of the training loop.
//!
//! Everything follows torchtitan v0.2.1 where it decides which token stands where: dataset names, rank sharding, special tokens,
//! packing, looping. Files are streamed; memory is bounded by the largest record.

mod codes;
pub mod files;
pub mod loader;
pub mod pack;
pub mod records;
pub mod samples;
mod shipped;
mod stream;
pub mod tokenizer;
pub mod tokens;

pub use loader::Loader;
pub use samples::Position;
pub use tokenizer::Tokenizer;
pub use tokens::{TokenFile, TokenShape};

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use titan_ir::{Diag, DiagResult};

/// What one rank reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataConfig {
    /// `training.dataset`: `c4_test`, `c4` or `c4_validation`.
    pub dataset: String,
    /// `training.dataset_path`; without it `c4_test` is the text shipped with the project.
    pub dataset_path: Option<PathBuf>,
    /// `model.hf_assets_path`.
    pub tokenizer_dir: PathBuf,
    /// Inputs of a sequence.
    pub seq_len: usize,
    /// Sequences of a micro-batch of one rank.
    pub local_batch: usize,
    /// This rank among the data-parallel ranks (replicate outer, shard inner).
    pub dp_rank: usize,
    /// Data-parallel ranks.
    pub dp_world: usize,
    /// Token ids of the model; a text with others is refused.
    pub vocab_size: usize,
    /// Whether the data starts again at its end.
    pub infinite: bool,
}

/// Where a rank's data stands, to be saved with a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataState {
    /// The rank the state belongs to.
    pub dp_rank: u64,
    /// Data-parallel ranks of the run.
    pub dp_world: u64,
    /// Times the data has started again.
    pub epoch: u64,
    /// Records (of a token file: micro-batches) the rank has taken in this epoch.
    pub sample_idx: u64,
    /// Where the next record is looked for.
    pub position: Position,
    /// Tokens read but not yet in a batch.
    pub token_buffer: Vec<i32>,
}

impl DataState {
    /// # Errors
    /// The state belongs to another rank or number of ranks.
    fn check_rank(&self, dp_rank: usize, dp_world: usize) -> DiagResult<()> {
        if (self.dp_rank, self.dp_world) == (dp_rank as u64, dp_world as u64) {
            return Ok(());
        }
        let message = format!(
            "the saved data position is of data-parallel rank {} of {}, not {dp_rank} of {dp_world}",
            self.dp_rank, self.dp_world
        );
        Err(Diag::new(codes::STATE, message).help(
            "resume with as many data-parallel ranks as the state was saved with, or start the data afresh",
        ))
    }
}

/// Where batches come from.
pub enum Source {
    /// Text, tokenized while training.
    Text(Loader),
    /// A file of token ids.
    Tokens(TokenFile),
}

impl Source {
    /// Writes the next micro-batch; false at the end of a dataset that is read once.
    ///
    /// Shapes: `inputs` and `labels` `[local_batch, seq_len]`.
    ///
    /// # Errors
    /// Those of [`Loader::next_batch`] and [`TokenFile::next_batch`].
    pub fn next_batch(&mut self, inputs: &mut [i32], labels: &mut [i32]) -> DiagResult<bool> {
        match self {
            Self::Text(loader) => loader.next_batch(inputs, labels),
            Self::Tokens(file) => file.next_batch(inputs, labels).map(|()| true),
        }
    }

    /// What to resume from after the batch last returned.
    pub fn state(&self) -> DataState {
        match self {
            Self::Text(loader) => loader.state().clone(),
            Self::Tokens(file) => file.state(),
        }
    }

    /// Continues where `state` was taken; before the first batch only.
    ///
    /// # Errors
    /// The state does not belong to this rank and data.
    pub fn restore(&mut self, state: &DataState) -> DiagResult<()> {
        match self {
            Self::Text(loader) => loader.restore(state),
            Self::Tokens(file) => file.restore(state),
        }
    }

    /// The warnings since the last call.
    pub fn take_warnings(&mut self) -> Vec<Diag> {
        match self {
            Self::Text(loader) => loader.take_warnings(),
            Self::Tokens(_) => Vec::new(),
        }
    }

    /// One line on what is read, for the log.
    pub fn summary(&self) -> String {
        match self {
            Self::Text(loader) => loader.summary().to_string(),
            Self::Tokens(file) => file.summary(),
        }
    }
}
