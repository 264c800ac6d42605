//! The host's side of a step: where microbatches come from.

use crate::cli::Options;
use crate::data::{DataConfig, Loader, Source, TokenFile, TokenShape, Tokenizer};
use crate::device::Inputs;
use crate::load::Loaded;
use std::path::PathBuf;
use std::sync::Arc;
use titan_ir::artifact::Manifest;
use titan_ir::plan::PlanTensor;
use titan_ir::{Diag, DiagResult};

/// What the data of all ranks comes from.
pub(crate) struct Data<'a> {
    options: &'a Options,
    loaded: &'a Loaded,
    /// Steps that will ask for data.
    steps: u64,
    /// Shared by all ranks; none when the run trains on token ids.
    tokenizer: Option<Arc<Tokenizer>>,
}

impl<'a> Data<'a> {
    /// Opens what ranks share.
    pub(crate) fn open(options: &'a Options, loaded: &'a Loaded, steps: u64) -> DiagResult<Self> {
        let open = || Tokenizer::open(&tokenizer_folder(options, &loaded.manifest)).map(Arc::new);
        let tokenizer = options.tokens.is_none().then(open).transpose()?;
        Ok(Self { options, loaded, steps, tokenizer })
    }
}

/// Microbatches of a step: how often the segment that reads them runs.
pub(crate) fn num_microbatches(plan: &titan_ir::Plan) -> u64 {
    plan.segments.iter().map(|segment| segment.repeat).max().unwrap_or(1)
}

/// Opens a rank's data.
fn open_source(data: &Data<'_>, rank: u64) -> DiagResult<Source> {
    let (options, manifest) = (data.options, &data.loaded.manifest);
    let tokens = tensor(&data.loaded.plan.tensors, "tokens");
    let (local_batch, seq_len) = (tokens.local_dims[0] as usize, tokens.local_dims[1] as usize);
    let dp_world = (tokens.global_dims[0] / tokens.local_dims[0]) as usize;
    let (dp_rank, vocab_size) = (rank as usize, manifest.model.vocab_size as usize);
    if let Some(path) = &options.tokens {
        let file = TokenFile::open(path, TokenShape { seq_len, local_batch, dp_rank, dp_world, vocab_size })?;
        file.check_lasts(data.steps.saturating_mul(num_microbatches(&data.loaded.plan)))?;
        return Ok(Source::Tokens(file));
    }
    let Some(tokenizer) = &data.tokenizer else { titan_ir::ice!("a run on text has a tokenizer") };
    let dataset_path = options.dataset_path.clone().or_else(|| manifest.data.dataset_path.clone());
    let config = DataConfig {
        dataset: manifest.data.dataset.clone(),
        dataset_path: dataset_path.map(Into::into),
        tokenizer_dir: tokenizer_folder(options, manifest),
        seq_len,
        local_batch,
        dp_rank,
        dp_world,
        vocab_size,
        infinite: true,
    };
    Loader::with_tokenizer(config, Arc::clone(tokenizer)).map(Source::Text)
}

fn tokenizer_folder(options: &Options, manifest: &Manifest) -> PathBuf {
    options.hf_assets_path.clone().unwrap_or_else(|| manifest.data.tokenizer_path.clone()).into()
}

/// The tensor of that name.
pub(crate) fn tensor<'a>(tensors: &'a [PlanTensor], name: &str) -> &'a PlanTensor {
    let found = tensors.iter().find(|t| t.name == name);
    found.unwrap_or_else(|| titan_ir::ice!("the plan has no tensor `{name}`"))
}

/// A rank's data.
pub(crate) struct Host {
    source: Source,
    /// Per microbatch: ids, labels.
    batches: Vec<[Vec<i32>; 2]>,
}

impl Host {
    /// Opens a rank's data.
    pub(crate) fn new(data: &Data<'_>, rank: u64) -> DiagResult<Self> {
        let plan = &data.loaded.plan;
        let len = tensor(&plan.tensors, "tokens").local_dims.iter().product::<u64>() as usize;
        let microbatches = num_microbatches(plan) as usize;
        Ok(Self {
            source: open_source(data, rank)?,
            batches: vec![[vec![0; len], vec![0; len]]; microbatches],
        })
    }

    /// Fetches the microbatches of the next step.
    pub(crate) fn fetch(&mut self) -> DiagResult<()> {
        for [tokens, labels] in &mut self.batches {
            if !self.source.next_batch(tokens, labels)? {
                titan_ir::ice!("a training source has no end");
            }
        }
        Ok(())
    }

    /// What the last fetch gives step `step`.
    pub(crate) fn inputs(&self, step: u64) -> Inputs<'_> {
        Inputs { step, batches: &self.batches }
    }

    /// One line on what is read.
    pub(crate) fn summary(&self) -> String {
        self.source.summary()
    }

    /// What the user should hear about the data since the last call.
    pub(crate) fn take_warnings(&mut self) -> Vec<Diag> {
        self.source.take_warnings()
    }
}
