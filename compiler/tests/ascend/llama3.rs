//! A small Llama 3 on one rank: the training step as operators and as kernels, against the f64 evaluator.

use crate::lowered::{Lowered, STYLES, fuse, lower_plan, soc};
use crate::ranks::Order;
use std::collections::BTreeMap;
use titan_ir::ascend::{Call, Program, Soc};
use titan_ir::eval::{EvalMode, shard};
use titan_ir::plan::PlanTensor;
use titan_ir::{DType, Mesh, Module, Role};
use titan_passes::accumulate::Accumulate;
use titan_passes::autodiff::Autodiff;
use titan_passes::manager::{self, ManagerOptions};
use titan_passes::optimizer::Optimizer;
use titan_passes::pass::{Pass, PassCx};
use titan_passes::pipeline::{PipelineOptions, pipeline};
use titan_passes::remat::{Checkpointing, Remat};
use titan_tests::run::{State, run};
use titan_tests::state::sample_state;
use titanc::codegen::ascend::KernelStyle;
use titanc::model::Registry;
use titanc::nn::TraceOptions;

const LAYERS: usize = 2;
const VOCAB: u64 = 48;

/// The published 8B model on eight ranks.
fn traced_8b() -> Module {
    let registry = Registry::builtin();
    let llama3 = registry.get("llama3").unwrap();
    let mesh = Mesh::new(&[("dp_replicate", 1), ("dp_shard", 8)]);
    let options = TraceOptions { mesh, batch: 8, seq_len: 8192, compute: DType::Bf16 };
    llama3.trace(&llama3.flavor_args("8B").unwrap(), options).unwrap().module
}

fn traced(compute: DType) -> Module {
    traced_on([1, 1], 2, compute)
}

/// A small model on a mesh of replicas and shards.
fn traced_on([replicas, shards]: [u64; 2], batch: u64, compute: DType) -> Module {
    let registry = Registry::builtin();
    let llama3 = registry.get("llama3").unwrap();
    let mut args = llama3.flavor_args("debugmodel").unwrap();
    let sizes = [
        ("dim", 32),
        ("n_layers", LAYERS as u64),
        ("n_heads", 4),
        ("n_kv_heads", 2),
        ("vocab_size", VOCAB),
        ("multiple_of", 16),
    ];
    for (name, value) in sizes {
        args.insert(name.to_owned(), value.into());
    }
    let mesh = Mesh::new(&[("dp_replicate", replicas), ("dp_shard", shards)]);
    llama3.trace(&args, TraceOptions { mesh, batch, seq_len: 12, compute }).unwrap().module
}

fn optimizer() -> Optimizer {
    Optimizer { weight_decay: 0.1, ..Optimizer::default() }
}

/// The outputs of a step in f64, and the state after it.
fn expected(module: &Module, num_microbatches: u64, state: &State) -> (State, State) {
    let mut global = module.clone();
    let passes: [&dyn Pass; 3] = [&Autodiff, &Accumulate { num_microbatches }, &optimizer()];
    for pass in passes {
        pass.run(&mut global, &mut PassCx::default()).unwrap();
    }
    let mut state = state.clone();
    for func in &global.funcs {
        for (name, value) in sample_state(func, VOCAB) {
            state.entry(name).or_insert(value);
        }
    }
    let mut outputs = State::new();
    for func in &global.funcs {
        for _ in 0..func.repeat {
            outputs.extend(run(func, &mut state, EvalMode::F64));
        }
    }
    (outputs, state)
}

fn lowered(module: &Module, num_microbatches: u64, style: KernelStyle, soc: &'static Soc) -> Lowered {
    let mut module = module.clone();
    let options = PipelineOptions {
        accumulate: Accumulate { num_microbatches },
        optimizer: optimizer(),
        remat: Remat { checkpointing: Checkpointing::None, cheap: false, ..Remat::default() },
        fuse: fuse(style),
        ..PipelineOptions::default()
    };
    let mut cx = PassCx::default();
    manager::run(&mut module, &mut cx, &pipeline(options), &ManagerOptions::default()).unwrap();
    let kernels: Vec<_> = cx.kernels.kernels().cloned().collect();
    lower_plan(cx.plan.unwrap(), &kernels, style, soc)
}

/// Programs of the small model: both element types, styles and generations of devices.
pub(crate) fn programs() -> Vec<Program> {
    let newest = Soc::of_name("Ascend950PR_9599").unwrap();
    let mut programs = Vec::new();
    for compute in [DType::F32, DType::Bf16] {
        let module = traced(compute);
        for (style, soc) in STYLES.into_iter().flat_map(|style| [(style, soc()), (style, newest)]) {
            programs.push(lowered(&module, 1, style, soc).program);
        }
    }
    programs
}

/// Values of everything a plan keeps or is given.
fn values(lowered: &Lowered, state: &State) -> BTreeMap<String, Vec<f64>> {
    let known = |name: &str| state.get(name).map(|t| t.data.clone());
    let tensors = lowered.plan.tensors.iter().filter(|t| t.role.is_some());
    tensors
        .map(|t| {
            let zeros = || vec![0.0; t.local_dims.iter().product::<u64>() as usize];
            (t.name.clone(), known(&t.name).unwrap_or_else(zeros))
        })
        .collect()
}

#[test]
fn a_step_of_llama3_gives_the_evaluators_loss_gradient_norm_and_weights() {
    for (compute, num_microbatches, step) in
        [(DType::F32, 1, 1e-4), (DType::F32, 2, 1e-4), (DType::Bf16, 1, 2e-2)]
    {
        let module = traced(compute);
        let state = sample_state(&module.funcs[0], VOCAB);
        let (outputs, after) = expected(&module, num_microbatches, &state);
        let newest = Soc::of_name("Ascend950PR_9599").unwrap();
        let variants = STYLES.map(|style| (style, soc())).into_iter().chain([(KernelStyle::Aclnn, newest)]);
        for (style, soc) in variants {
            let lowered = lowered(&module, num_microbatches, style, soc);
            let results = lowered.run(&values(&lowered, &after_with(&state, &after)));
            for name in ["loss", "grad_norm"] {
                let (a, e) = (results[name][0], outputs[name].data[0]);
                assert!((a - e).abs() <= step * e.abs(), "{compute} {style:?}: {name} is {a} not {e}");
            }
            for tensor in lowered.plan.tensors.iter().filter(|t| t.role == Some(Role::Param)) {
                let (a, e) = (&results[&tensor.name], &after[&tensor.name].data);
                let mean = |pairs: &mut dyn Iterator<Item = (f64, f64)>| {
                    let differences: Vec<f64> = pairs.map(|(x, y)| (x - y).abs()).collect();
                    differences.iter().sum::<f64>() / differences.len() as f64
                };
                let off = mean(&mut a.iter().copied().zip(e.iter().copied()));
                let before = &state[&tensor.name].data;
                let moved = mean(&mut e.iter().copied().zip(before.iter().copied()));
                // The first step of Adam moves every element by about lr, in a direction that rounding of small gradients may turn.
                let turned = if compute == DType::F32 { 0.02 } else { 0.3 };
                assert!(
                    moved > 0.0 && off <= turned * moved,
                    "{compute} {style:?}: {} is off by {off} of {moved}",
                    tensor.name
                );
            }
        }
    }
}

#[test]
fn ranks_together_take_the_step_of_one_whenever_communication_runs() {
    for sizes in [[1, 2], [2, 2], [1, 3]] {
        let module = traced_on(sizes, 6 * sizes[0], DType::F32);
        let state = sample_state(&module.funcs[0], VOCAB);
        let (outputs, after) = expected(&module, 1, &state);
        let before = after_with(&state, &after);
        for style in STYLES {
            let lowered = lowered(&module, 1, style, soc());
            assert!(lowered.program.num_streams == 2 && !lowered.program.comm_axes.is_empty());
            let value = |tensor: &PlanTensor, rank: u64| match before.get(&tensor.name) {
                Some(whole) => shard(whole, &tensor.layout, &lowered.plan.mesh, rank).data,
                None => vec![0.0; tensor.local_dims.iter().product::<u64>() as usize],
            };
            let [late, early] = [Order::Late, Order::Early].map(|order| lowered.run_ranks(order, value));
            assert_eq!(late, early, "{sizes:?} {style:?}: the order of streams matters");
            for results in &late {
                for name in ["loss", "grad_norm"] {
                    let (a, e) = (results[name][0], outputs[name].data[0]);
                    assert!((a - e).abs() <= 1e-4 * e.abs(), "{sizes:?} {style:?}: {name} is {a} not {e}");
                }
            }
        }
    }
}

/// States before the step; what only the optimizer made has the values it started with.
fn after_with(state: &State, after: &State) -> State {
    let mut all = state.clone();
    for (name, tensor) in after {
        let starts_at_zero =
            name.ends_with("exp_avg") || name.ends_with("exp_avg_sq") || name.ends_with(".grad");
        if !starts_at_zero && !all.contains_key(name) {
            all.insert(name.clone(), tensor.clone());
        }
    }
    all
}

#[test]
fn the_vendors_operators_compute_whole_ops() {
    let module = traced(DType::Bf16);
    let num_params = module.funcs[0].params.iter().filter(|p| p.role == Role::Param).count();
    let newest = Soc::of_name("Ascend950PR_9599").unwrap();
    for soc in [soc(), newest] {
        let lowered = lowered(&module, 1, KernelStyle::Aclnn, soc);
        let counts = lowered.counts();
        let whole = [
            ("aclnnEmbedding", 1),
            ("aclnnEmbeddingDenseBackward", 1),
            ("aclnnRmsNorm", 2 * LAYERS + 1),
            ("aclnnRmsNormGrad", 2 * LAYERS + 1),
            ("aclnnRotaryPositionEmbedding", 4 * LAYERS),
            ("aclnnFlashAttentionScoreV2", LAYERS),
            ("aclnnFlashAttentionScoreGradV2", LAYERS),
            ("aclnnSilu", LAYERS),
            ("aclnnSiluBackward", LAYERS),
            ("aclnnCrossEntropyLoss", 1),
            ("aclnnCrossEntropyLossGrad", 1),
            ("aclnnMm", 3 * (7 * LAYERS + 1)),
            ("aclnnApplyAdamW", if soc == newest { num_params } else { 0 }),
        ];
        for (name, count) in whole {
            assert_eq!(counts.get(name).copied().unwrap_or(0), count, "{name} on {}: {counts:?}", soc.name);
        }
        // Rotation, log sums, loss and its mean, norms, clipping and, on older devices, the optimizer.
        let allowed = [
            "aclnnAdd",
            "aclnnAdds",
            "aclnnCast",
            "aclnnDiv",
            "aclnnDivs",
            "aclnnEqTensor",
            "aclnnInplaceCopy",
            "aclnnLog",
            "aclnnMaximum",
            "aclnnMinimum",
            "aclnnMul",
            "aclnnMuls",
            "aclnnNeg",
            "aclnnReduceSum",
            "aclnnSWhere",
            "aclnnSqrt",
            "aclnnSub",
            "aclnnInplaceFillScalar",
        ];
        for name in counts.keys() {
            let known = whole.iter().any(|(n, _)| n == name) || allowed.contains(&name.as_str());
            assert!(known, "{name} on {}: {counts:?}", soc.name);
        }
    }
}

#[test]
fn generated_kernels_take_the_place_of_elementwise_operators() {
    let module = traced(DType::Bf16);
    let lowered = lowered(&module, 1, KernelStyle::Fused, soc());
    let num_kernels = lowered.program.submissions().filter(|s| matches!(s.call, Call::Kernel { .. })).count();
    let counts = lowered.counts();
    assert!(num_kernels > 10 * LAYERS, "{num_kernels} launches; {counts:?}");
    // What is left are products, attention and rotation with the casts around, the embedding, fused with a norm, and its gradient.
    let allowed = [
        "aclnnAdd",
        "aclnnAdds",
        "aclnnCast",
        "aclnnDivs",
        "aclnnEmbedding",
        "aclnnEmbeddingDenseBackward",
        "aclnnFlashAttentionScoreGradV2",
        "aclnnFlashAttentionScoreV2",
        "aclnnInplaceCopy",
        "aclnnLog",
        "aclnnMm",
        "aclnnMul",
        "aclnnNeg",
        "aclnnReduceSum",
        "aclnnRotaryPositionEmbedding",
        "aclnnRsqrt",
    ];
    assert!(counts.keys().all(|name| allowed.contains(&name.as_str())), "{counts:?}");
    assert!(counts["aclnnMul"] < 8 && counts["aclnnRsqrt"] < 3, "{counts:?}");
}

#[test]
fn the_memory_report_is_the_arena() {
    for style in STYLES {
        let Lowered { plan, program, .. } = lowered(&traced(DType::Bf16), 2, style, soc());
        assert_eq!(program.memory.total_bytes(1), program.arena_bytes);
        assert_eq!(program.memory.params_bytes, plan.memory.params_bytes);
        assert_eq!((program.memory.communication_bytes, program.comm_axes.len()), (0, 0));
        let regions = [program.state, program.step, program.scratch].into_iter().chain(program.workspaces);
        for region in regions {
            assert!(region.at.is_multiple_of(512) && region.end() <= program.arena_bytes, "{region:?}");
        }
    }
}

#[test]
fn scratch_and_workspace_of_8b_stay_bounded() {
    const GIB: u64 = 1 << 30;
    let module = traced_8b();
    for style in STYLES {
        let Lowered { program, .. } = lowered(&module, 1, style, soc());
        // The budget, and the sines of both directions.
        assert!(program.scratch.size_bytes <= GIB / 4 + (16 << 20), "{style:?}: {:?}", program.scratch);
        assert!(program.workspaces[0].size_bytes <= 5 * GIB / 2, "{style:?}: {:?}", program.workspaces);
        assert_eq!(program.comm_axes.len(), 1);
        assert_eq!(program.memory.total_bytes(1), program.arena_bytes + program.memory.communication_bytes);
    }
}
