//! One rank's batches, made on demand: records to tokens to packed sequences.

use super::files::{DataFile, find_files};
use super::pack::Packer;
use super::samples::{Position, Samples, Split};
use super::tokenizer::Tokenizer;
use super::{DataConfig, DataState, codes, shipped};
use std::sync::Arc;
use titan_ir::{Diag, DiagResult};

/// One micro-batch of a rank.
pub(super) struct Batch {
    /// Shape `[local_batch, seq_len]`.
    pub(super) inputs: Vec<i32>,
    /// Shape `[local_batch, seq_len]`.
    pub(super) labels: Vec<i32>,
    /// What to resume from after this batch.
    pub(super) state: DataState,
    /// What the user should hear about it.
    pub(super) warnings: Vec<Diag>,
}

/// Makes the batches of one rank.
pub(super) struct BatchStream {
    config: DataConfig,
    tokenizer: Arc<Tokenizer>,
    samples: Samples,
    packer: Packer,
    epoch: u64,
    /// Records of this epoch that went into the packer.
    num_samples: u64,
    /// Tokens of this epoch that went into the packer.
    num_tokens: u64,
    warnings: Vec<Diag>,
}

impl BatchStream {
    /// Opens the dataset.
    pub(super) fn open(config: DataConfig, tokenizer: Arc<Tokenizer>) -> DiagResult<Self> {
        let (files, split) = dataset(&config)?;
        let samples = Samples::open(files, split, config.dp_rank, config.dp_world)?;
        Ok(Self {
            config,
            tokenizer,
            samples,
            packer: Packer::default(),
            epoch: 0,
            num_samples: 0,
            num_tokens: 0,
            warnings: Vec::new(),
        })
    }

    /// The next batch; none at the end of a dataset that is read once. An incomplete last batch is dropped.
    pub(super) fn next_batch(&mut self) -> DiagResult<Option<Batch>> {
        let (num_rows, seq_len) = (self.config.local_batch, self.config.seq_len);
        let mut inputs = vec![0; num_rows * seq_len];
        let mut labels = vec![0; num_rows * seq_len];
        for (row, labels) in inputs.chunks_exact_mut(seq_len).zip(labels.chunks_exact_mut(seq_len)) {
            while !self.packer.take(row, labels) {
                if !self.add_sample()? {
                    return Ok(None);
                }
            }
        }
        Ok(Some(Batch { inputs, labels, state: self.state(), warnings: std::mem::take(&mut self.warnings) }))
    }

    pub(super) fn state(&self) -> DataState {
        DataState {
            dp_rank: self.config.dp_rank as u64,
            dp_world: self.config.dp_world as u64,
            epoch: self.epoch,
            sample_idx: self.num_samples,
            position: self.samples.position(),
            token_buffer: self.packer.rest().to_vec(),
        }
    }

    pub(super) fn restore(&mut self, state: &DataState) -> DiagResult<()> {
        state.check_rank(self.config.dp_rank, self.config.dp_world)?;
        self.samples.seek(state.position)?;
        self.packer = Packer::with_rest(state.token_buffer.clone());
        self.epoch = state.epoch;
        self.num_samples = state.sample_idx;
        self.num_tokens = u64::from(state.sample_idx > 0);
        Ok(())
    }

    /// One line on what is read.
    pub(super) fn summary(&self) -> String {
        let place = match &self.config.dataset_path {
            Some(path) => path.display().to_string(),
            None => "shipped with Titan".to_string(),
        };
        format!(
            "dataset {} ({place}), tokenizer of {} tokens ({})",
            self.config.dataset,
            self.tokenizer.num_tokens(),
            self.tokenizer.origin()
        )
    }

    /// Moves one record into the packer; false at the end of a dataset that is read once.
    fn add_sample(&mut self) -> DiagResult<bool> {
        loop {
            if let Some(text) = self.samples.next_text()? {
                let tail = self.packer.tail();
                let start = tail.len();
                self.tokenizer.encode(&text, tail)?;
                let vocab_size = self.config.vocab_size;
                let outside = tail[start..].iter().find(|&&id| id as usize >= vocab_size).copied();
                self.num_samples += 1;
                self.num_tokens += (tail.len() - start) as u64;
                return outside.map_or(Ok(true), |id| Err(self.outside_vocabulary(id)));
            }
            self.end_epoch()?;
            if !self.config.infinite {
                return Ok(false);
            }
        }
    }

    fn end_epoch(&mut self) -> DiagResult<()> {
        if self.num_tokens == 0 {
            let what = if self.num_samples == 0 { "no record" } else { "no token" };
            let message = format!(
                "dataset {} gives {what} to data-parallel rank {} of {}",
                self.config.dataset, self.config.dp_rank, self.config.dp_world
            );
            return Err(Diag::new(codes::EMPTY, message).help(
                "give more text, or train on fewer data-parallel ranks; every rank needs records of its own",
            ));
        }
        if self.config.infinite {
            self.samples.rewind();
            self.epoch += 1;
            (self.num_samples, self.num_tokens) = (0, 0);
            let message = format!("dataset {} is being re-looped", self.config.dataset);
            self.warnings.push(Diag::warning(codes::RELOOPED, message));
        }
        Ok(())
    }

    fn outside_vocabulary(&self, id: i32) -> Diag {
        let vocab_size = self.config.vocab_size;
        let text = self.tokenizer.token(id).unwrap_or_default();
        let message = format!("token {id} (`{text}`) is outside the model's vocabulary of {vocab_size}");
        Diag::new(codes::VOCABULARY, message)
            .at(self.samples.place())
            .note(format!("the tokenizer ({}) has {} tokens", self.tokenizer.origin(), self.tokenizer.num_tokens()))
            .help("build with titan.model_args.vocab_size of at least the tokenizer's size, or use the model's own tokenizer")
    }
}

/// The files of the configured dataset and how the ranks share them.
fn dataset(config: &DataConfig) -> DiagResult<(Vec<DataFile>, Split)> {
    let name = config.dataset.as_str();
    let split = match name {
        "c4_test" => Split::Contiguous,
        "c4" | "c4_validation" => Split::Streaming,
        _ => {
            let message = format!("there is no dataset named `{name}`");
            return Err(Diag::new(codes::UNKNOWN_DATASET, message)
                .help("use c4_test, c4 or c4_validation, with training.dataset_path for your own text"));
        }
    };
    let files = match &config.dataset_path {
        Some(path) => find_files(path)?,
        None if split == Split::Contiguous => vec![DataFile::in_memory(shipped::TEXT_NAME, shipped::TEXT)],
        None => {
            let message = format!("dataset {name} is on the network, and titan-run never goes there");
            return Err(Diag::new(codes::NO_NETWORK, message)
                .help("set training.dataset_path to a folder with its .json.gz files, or train on c4_test"));
        }
    };
    Ok((files, split))
}

impl Default for DataState {
    fn default() -> Self {
        Self {
            dp_rank: 0,
            dp_world: 1,
            epoch: 0,
            sample_idx: 0,
            position: Position::default(),
            token_buffer: Vec::new(),
        }
    }
}
