//! The host's side of a step: it fetches microbatches, puts them into a rank's memory, and takes the results out.

use crate::cli::Options;
use crate::data::{DataConfig, Loader, Source, TokenFile, TokenShape, Tokenizer};
use crate::exec::{Rank, StepError};
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
fn open_source(data: &Data<'_>, rank: &Rank) -> DiagResult<Source> {
    let (options, manifest) = (data.options, &data.loaded.manifest);
    let tokens = tensor(&data.loaded.plan.tensors, "tokens");
    let (local_batch, seq_len) = (tokens.local_dims[0] as usize, tokens.local_dims[1] as usize);
    let dp_world = (tokens.global_dims[0] / tokens.local_dims[0]) as usize;
    let (dp_rank, vocab_size) = (rank.comm.rank as usize, manifest.model.vocab_size as usize);
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

/// What the host puts into a rank's memory before, and takes out of it after, every step.
pub(crate) struct Host {
    source: Source,
    /// Per microbatch: ids, labels.
    batches: Vec<[Vec<i32>; 2]>,
    tokens: *mut i32,
    labels: *mut i32,
    step: *mut i32,
    outputs: [*const f32; 3],
}

impl Host {
    /// Opens a rank's data.
    pub(crate) fn new(data: &Data<'_>, rank: &Rank) -> DiagResult<Self> {
        let plan = &data.loaded.plan;
        let pointer = |name: &str| rank.memory.tensor(tensor(&plan.tensors, name));
        let len = tensor(&plan.tensors, "tokens").local_dims.iter().product::<u64>() as usize;
        let microbatches = num_microbatches(plan) as usize;
        Ok(Self {
            source: open_source(data, rank)?,
            batches: vec![[vec![0; len], vec![0; len]]; microbatches],
            tokens: pointer("tokens").cast(),
            labels: pointer("labels").cast(),
            step: pointer("step").cast(),
            outputs: ["loss", "grad_norm", "lr"].map(|name| pointer(name).cast_const().cast()),
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

    /// One line on what is read.
    pub(crate) fn summary(&self) -> String {
        self.source.summary()
    }

    /// What the user should hear about the data since the last call.
    pub(crate) fn take_warnings(&mut self) -> Vec<Diag> {
        self.source.take_warnings()
    }

    /// Sets the step number, from 1.
    pub(crate) fn begin(&self, step: u64) {
        // SAFETY: the address is this rank's, and no kernel runs.
        unsafe { self.step.write(i32::try_from(step - 1).unwrap_or(i32::MAX)) };
    }

    /// Puts a microbatch into the rank's memory.
    pub(crate) fn load(&self, microbatch: usize) {
        let [tokens, labels] = &self.batches[microbatch.min(self.batches.len() - 1)];
        // SAFETY: the addresses are this rank's, as long as a microbatch, and no kernel runs.
        unsafe {
            std::ptr::copy_nonoverlapping(tokens.as_ptr(), self.tokens, tokens.len());
            std::ptr::copy_nonoverlapping(labels.as_ptr(), self.labels, labels.len());
        }
    }

    /// Runs one step on what [`Host::fetch`] fetched. Allocates nothing.
    pub(crate) fn run_step(&self, rank: &mut Rank, step: u64) -> Result<(), StepError> {
        self.begin(step);
        for segment in 0..rank.step.segments.len() {
            for microbatch in 0..rank.step.segments[segment].repeat as usize {
                self.load(microbatch);
                rank.run_segment(segment)?;
            }
        }
        if let Some(profile) = &mut rank.profile {
            profile.num_steps += 1;
        }
        Ok(())
    }

    /// Loss, gradient norm, learning rate of the last step.
    pub(crate) fn outputs(&self) -> [f32; 3] {
        // SAFETY: scalars of this rank that no kernel is writing.
        self.outputs.map(|at| unsafe { at.read() })
    }
}
