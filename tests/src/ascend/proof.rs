//! The same plan on CPU and on Ascend devices: what must be equal, what must be close, and what must be caught.

use super::mutants::{self, Mutant};
use super::runs::{Run, Settings, Style, build, train};
use crate::programs::{Step, Work, stderr};
use std::fmt::Write;

/// A configuration to prove it on.
#[derive(Debug, Clone, Copy)]
pub struct Model {
    /// `[model]` and sizes.
    pub sizes: &'static str,
    /// Sequences of all ranks; divisible by 4.
    pub batch: u64,
    /// Tokens of a sequence.
    pub seq_len: u64,
}

/// Llama 3's debug model on short sequences.
pub const DEBUG: Model =
    Model { sizes: "[model]\nname = \"llama3\"\nflavor = \"debugmodel\"\n", batch: 4, seq_len: 64 };

/// The debug model made smaller still.
pub const SMALL: Model = Model {
    sizes: "[model]\nname = \"llama3\"\nflavor = \"debugmodel\"\n\
            [titan.model_args]\ndim = 64\nn_layers = 2\nn_heads = 4\nn_kv_heads = 2\nhidden_dim = 96\n",
    batch: 4,
    seq_len: 32,
};

impl Model {
    /// The text of a configuration for so many ranks.
    pub fn toml(&self, dtype: Dtype, ranks: u64, steps: u64) -> String {
        format!(
            "{}[metrics]\ndisable_color_printing = true\n[optimizer]\nlr = 8e-4\n\
             [lr_scheduler]\nwarmup_steps = 2\ndecay_ratio = 0.8\n\
             [training]\nlocal_batch_size = {}\nseq_len = {}\nsteps = {steps}\ndataset = \"c4_test\"\n\
             mixed_precision_param = \"{}\"\n[parallelism]\ndata_parallel_shard_degree = {ranks}\n",
            self.sizes,
            self.batch / ranks,
            self.seq_len,
            dtype.name(),
        )
    }
}

/// What a run computes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dtype {
    /// bf16 weights and activations, f32 sums.
    Bf16,
    /// f32 throughout.
    F32,
}

impl Dtype {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Bf16, Self::F32];

    /// As a configuration names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bfloat16",
            Self::F32 => "float32",
        }
    }

    /// Largest relative difference of losses and gradient norms of two backends: each may be so far, halved, from the exact
    /// trace (`tests/assets/golden/README.md`).
    pub fn spread(self) -> [f64; 2] {
        match self {
            Self::Bf16 => [2e-3, 1e-2],
            Self::F32 => [4e-6, 4e-6],
        }
    }
}

/// Largest relative differences of losses and of gradient norms.
fn differences(a: &[Step], b: &[Step]) -> [f64; 2] {
    let worst =
        |of: fn(&Step) -> f64| a.iter().zip(b).map(|(a, b)| (of(a) / of(b) - 1.0).abs()).fold(0.0, f64::max);
    [worst(|s| s.loss), worst(|s| s.grad_norm)]
}

/// Trains, and fails the test if the run fails.
fn must_train(work: &Work, name: &str, settings: Settings, args: &[&str]) -> Run {
    train(work, name, settings, args)
        .unwrap_or_else(|output| panic!("{name} {settings:?}:\n{}", stderr(&output)))
}

/// One line per style: the losses of a captured run are those of the CPU within the spread, those of a run without capture bit
/// for bit; nothing raced, nothing leaked, and graphs were replayed once per step after the first.
///
/// # Panics
/// When any of it is not so.
pub fn agrees(model: Model, dtype: Dtype, ranks: u64, steps: u64, say: &mut dyn FnMut(&str)) {
    let work = Work::new(&format!("ascend-{dtype:?}-{ranks}"));
    let toml = model.toml(dtype, ranks, steps);
    work.build(&toml);
    let cpu = work.train(ranks, 2, &[]);
    assert_eq!(cpu.len() as u64, steps);
    for style in Style::ALL {
        build(&work, style.name(), &toml, style, &[]);
        let settings = Settings { ranks, captures: true, seed: 1 };
        let captured = must_train(&work, style.name(), settings, &[]);
        let eager = must_train(&work, style.name(), Settings { captures: false, seed: 2, ..settings }, &[]);
        assert_eq!(captured.bits(), eager.bits(), "{dtype:?} {ranks} {style}: capture changes the numbers");
        let [loss, norm] = differences(&captured.steps, &cpu);
        let (races, leaks) = (captured.count("races") + eager.count("races"), captured.count("leaks"));
        let (graphs, replayed) = (captured.count("graphs_captured"), captured.count("graphs_replayed"));
        say(&format!(
            "{ranks:5}  {:9} {style:6} {loss:10.1e} {norm:10.1e} {graphs:7} {replayed:9} {:8} {races:6} {leaks:6}",
            dtype.name(),
            captured.count("kernels"),
        ));
        let [loss_spread, norm_spread] = dtype.spread();
        assert!(
            loss <= loss_spread && norm <= norm_spread,
            "{dtype:?} {ranks} {style}: off by {loss}, {norm}"
        );
        assert_eq!((races, leaks), (0, 0), "{dtype:?} {ranks} {style}");
        assert!(graphs > 0 && replayed == graphs * (steps - 1), "{graphs} graphs, {replayed} replays");
        assert_eq!((eager.count("graphs_captured"), eager.count("graphs_replayed")), (0, 0));
        assert_eq!(captured.count("kernels") > 0, style == Style::Fused, "kernels run when they are fused");
    }
}

/// What [`agrees`] says, named.
pub const AGREES_HEADER: &str =
    "ranks  dtype     style        loss  grad_norm  graphs  replayed  kernels  races  leaks";

/// Whatever order the devices choose, the numbers are the same to the last bit.
///
/// # Panics
/// When they are not.
pub fn any_order(
    model: Model,
    style: Style,
    ranks: u64,
    seeds: std::ops::Range<u64>,
    say: &mut dyn FnMut(&str),
) {
    let work = Work::new(&format!("ascend-order-{style}"));
    build(&work, style.name(), &model.toml(Dtype::Bf16, ranks, 3), style, &[]);
    let run = |seed| must_train(&work, style.name(), Settings { ranks, captures: true, seed }, &[]);
    let first = run(seeds.start);
    let num_seeds = seeds.end - seeds.start;
    for seed in seeds.skip(1) {
        assert_eq!(run(seed).bits(), first.bits(), "{style}: seed {seed} changes the numbers");
    }
    say(&format!("{style:6} {ranks} ranks: {num_seeds} orders, the same bits"));
}

/// Every mutant is caught: by the runtime at load, by the host implementation while it runs, or by numbers that differ.
///
/// # Panics
/// When one is not.
pub fn catches_mutants(model: Model, style: Style, say: &mut dyn FnMut(&str)) {
    let work = Work::new(&format!("ascend-mutants-{style}"));
    let ranks = 2;
    build(&work, "whole", &model.toml(Dtype::Bf16, ranks, 3), style, &[]);
    let settings = Settings { ranks, captures: true, seed: 1 };
    let whole = must_train(&work, "whole", settings, &[]);
    let mut missed = String::new();
    for mutant in Mutant::ALL {
        let caught = mutants::run(&work, mutant, &whole, settings);
        say(&format!("{style:6} {:46} {}", mutant.what(), caught.as_deref().unwrap_or("NOT CAUGHT")));
        if caught.is_none() {
            let _ = writeln!(missed, "{style}: {}", mutant.what());
        }
    }
    assert!(missed.is_empty(), "not caught:\n{missed}");
}
