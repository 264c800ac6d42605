//! Kernels compute what ops do, bit for bit however they are grouped; plans touch no byte at a wrong time, and checks find those that do.

use titan_ir::eval::Tensor;
use titan_ir::kernel::Cols;
use titan_ir::ops::{Add, Einsum};
use titan_ir::plan::{Action, Address, Arena, Instr, Plan};
use titan_ir::{DType, Func, Init, Mesh, Module, Op, ResultKind, Role, Stage, TensorType, verify};
use titan_passes::accumulate::Accumulate;
use titan_passes::autodiff::Autodiff;
use titan_passes::bucket_collectives::BucketCollectives;
use titan_passes::check::{buffers, spmd};
use titan_passes::emit_plan::{KernelTable, emit};
use titan_passes::fuse::Fuse;
use titan_passes::insert_reshard::InsertReshard;
use titan_passes::localize::Localize;
use titan_passes::optimizer::Optimizer;
use titan_passes::pass::{Pass, PassCx};
use titan_passes::prefetch::Prefetch;
use titan_passes::propagate::Propagate;
use titan_passes::remat::{Checkpointing, Remat};
use titan_passes::schedule::Schedule;
use titan_passes::simplify::Simplify;
use titan_tests::decoder::Decoder;
use titan_tests::run::State;
use titan_tests::state::sample_state;

const NO_FUSION: Fuse = Fuse { max_operands: 0, epilogues: false };

fn run(module: &mut Module, passes: &[&dyn Pass]) {
    for pass in passes {
        pass.run(module, &mut PassCx::default()).unwrap_or_else(|diag| panic!("{}: {diag}", pass.name()));
        verify::verify(module).unwrap_or_else(|diags| panic!("after {}: {diags}", pass.name()));
    }
}

/// Sizes at which sums need several blocks of rows and several chunks.
fn decoder(mesh: &[(&str, u64)], compute: DType) -> Decoder {
    let mesh = Mesh::new(mesh);
    let batch = mesh.num_ranks() * 4;
    let sizes = Decoder { num_layers: 2, vocab: 23, hidden: 300, dim: 60, seq: 11, ..Decoder::default() };
    Decoder { mesh, batch, compute, ..sizes }
}

/// The training step on the global graph, and per rank before fusion.
fn local(decoder: &Decoder, num_microbatches: u64, checkpointing: Checkpointing) -> (Module, Module) {
    let mut global = decoder.module().expect("sizes fit");
    run(&mut global, &[&Autodiff, &Accumulate { num_microbatches }, &Optimizer::default()]);
    let mut local = global.clone();
    let remat = Remat { checkpointing, ..Remat::default() };
    run(
        &mut local,
        &[
            &Simplify::default(),
            &Propagate,
            &InsertReshard,
            &Localize,
            &remat,
            &BucketCollectives::default(),
            &Prefetch::default(),
        ],
    );
    (global, local)
}

fn fused(local: &Module, fuse: Fuse) -> Module {
    let mut module = local.clone();
    run(&mut module, &[&fuse, &Schedule]);
    module
}

fn fused_only(local: &Module) -> Module {
    let mut module = local.clone();
    run(&mut module, &[&Fuse::default()]);
    module
}

fn planned(module: &Module) -> (Plan, KernelTable) {
    let mut kernels = KernelTable::default();
    let plan = emit(module, &mut kernels).unwrap_or_else(|diag| panic!("{diag}"));
    (plan, kernels)
}

const MESHES: [&[(&str, u64)]; 4] =
    [&[], &[("dp_shard", 2)], &[("dp_replicate", 2)], &[("dp_replicate", 2), ("dp_shard", 3)]];

#[test]
fn kernels_compute_what_ops_do() {
    for mesh in MESHES {
        let decoder = decoder(mesh, DType::Bf16);
        let (global, local) = local(&decoder, 2, Checkpointing::EveryNth(2));
        for fuse in [NO_FUSION, Fuse::default()] {
            let fused = fused(&local, fuse);
            // Constants of kernels are f32, those of ops f64.
            if let Err(difference) = spmd::compare_within(&global, &fused, decoder.vocab, 1e-6) {
                panic!("{mesh:?}, {fuse:?}: {difference}");
            }
        }
    }
}

/// One step on one rank as a backend computes it: kernels round every expression, ops their results.
fn run_rounded(func: &Func, state: &mut State) -> State {
    let mut values: Vec<Option<Tensor>> = vec![None; func.num_values()];
    for param in &func.params {
        values[param.value.index()] = Some(state[&param.name].clone());
    }
    for node in &func.nodes {
        let ins: Vec<&Tensor> =
            node.ins.iter().map(|v| values[v.index()].as_ref().expect("defined")).collect();
        let types: Vec<&TensorType> = node.outs.iter().map(|&v| func.ty(v)).collect();
        let results: Vec<Vec<f64>> = match &node.op {
            Op::Launch(launch) => {
                launch.run(&ins.iter().map(|t| t.data.as_slice()).collect::<Vec<_>>(), true)
            }
            op => op.rules().eval(&ins, &types).into_iter().map(|t| t.data).collect(),
        };
        for ((out, mut data), ty) in node.outs.iter().zip(results).zip(types) {
            // Products are accumulated in f32 before they are rounded to anything else.
            data.iter_mut().for_each(|x| *x = ty.dtype.round(DType::F32.round(*x)));
            values[out.index()] = Some(Tensor { dims: ty.dims.clone(), data });
        }
    }
    let mut outputs = State::new();
    for result in &func.results {
        let value = values[result.value.index()].clone().expect("defined");
        match &result.kind {
            ResultKind::Output(name) => outputs.insert(name.clone(), value),
            ResultKind::Update(param) => state.insert(func.params[*param].name.clone(), value),
        };
    }
    outputs
}

#[test]
fn fusion_changes_no_bit() {
    for (mesh, compute) in [(MESHES[0], DType::Bf16), (MESHES[0], DType::F32), (MESHES[1], DType::Bf16)] {
        let decoder = decoder(mesh, compute);
        let (_, local) = local(&decoder, 1, Checkpointing::Full);
        let [mut apart, mut together] = [NO_FUSION, Fuse::default()].map(|fuse| fused(&local, fuse));
        let (apart, together) = (apart.funcs.remove(0), together.funcs.remove(0));
        assert!(together.nodes.len() < apart.nodes.len() * 3 / 4);
        let mut expected = sample_state(&apart, decoder.vocab);
        let mut found = expected.clone();
        let (expected_outputs, outputs) =
            (run_rounded(&apart, &mut expected), run_rounded(&together, &mut found));
        assert!(expected_outputs["loss"].data[0].is_finite());
        assert_eq!(expected_outputs, outputs);
        for (name, expected) in &expected {
            assert!(*expected == found[name], "{name} differs");
        }
    }
}

#[test]
fn layers_share_kernels() {
    let count = |num_layers| {
        let decoder = Decoder { num_layers, ..decoder(&[("dp_shard", 2)], DType::Bf16) };
        let (_, local) = local(&decoder, 1, Checkpointing::None);
        let (_, kernels) = planned(&fused(&local, Fuse::default()));
        // The tree that adds the norms of all weights depends on their number.
        kernels.kernels().filter(|k| matches!(k.cols, Cols::Static(_))).count()
    };
    assert_eq!(count(3), count(6));
}

/// What a middle layer runs forward: norms and attention, and contractions that end with what follows them.
#[test]
fn a_layer_runs_few_kernels() {
    let decoder = Decoder { num_layers: 3, ..decoder(&[("dp_shard", 2)], DType::Bf16) };
    let (_, local) = local(&decoder, 1, Checkpointing::None);
    let (plan, _) = planned(&fused(&local, Fuse::default()));
    let in_layer = |i: &&Instr| {
        i.phase == titan_ir::Phase::Forward && plan.locs[i.loc as usize].starts_with("layers.1.")
    };
    let kind = |i: &Instr| match &i.action {
        Action::Launch { .. } => "launch",
        Action::Contract { epilogue: Some(_), .. } => "contract with epilogue",
        Action::Contract { .. } => "contract",
        Action::Attention { .. } => "attention",
        _ => "other",
    };
    let casts = |i: &&Instr| !matches!(i.action, Action::Launch { ref args, .. } if args.len() == 2);
    let kinds: Vec<&str> = plan.segments[0].instrs.iter().filter(in_layer).filter(casts).map(kind).collect();
    let expected = [
        "launch",
        "contract with epilogue",
        "contract with epilogue",
        "contract",
        "attention",
        "contract with epilogue",
        "launch",
        "contract",
        "contract with epilogue",
        "contract with epilogue",
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn plans_pass_their_check() {
    for mesh in MESHES {
        for (num_microbatches, checkpointing) in
            [(1, Checkpointing::None), (3, Checkpointing::Full), (2, Checkpointing::PerOp)]
        {
            let (_, local) = local(&decoder(mesh, DType::Bf16), num_microbatches, checkpointing);
            for fuse in [NO_FUSION, Fuse::default()] {
                let module = fused(&local, fuse);
                let (plan, kernels) = planned(&module);
                buffers::check(&plan, &module, &kernels).unwrap_or_else(|d| panic!("{mesh:?} {fuse:?}: {d}"));
                let copies = plan.segments.iter().flat_map(|s| &s.instrs);
                let copies = copies
                    .filter(|i| matches!(i.action, Action::Copy { dst, .. } if dst.arena == Arena::State));
                assert_eq!(copies.count(), 0, "states are updated in place");
            }
        }
    }
}

/// A function that reads the old value of a state after the new one is made.
fn late_reader() -> Module {
    let mut func = Func::new("step");
    let p = func.add_param("p", TensorType::new(DType::F32, &[4, 4]), Role::Param, Init::Ones);
    let next = func.emit1(Add, &[p, p]).expect("fits");
    let product = func.emit1(Einsum::new("mk,kn->mn", DType::F32), &[next, p]).expect("fits");
    func.add_result(next, ResultKind::Update(0));
    func.add_result(product, ResultKind::Output("product".to_owned()));
    Module { stage: Stage::Local, mesh: Mesh::default(), funcs: vec![func] }
}

#[test]
fn a_state_that_is_read_late_is_copied() {
    let module = fused(&late_reader(), Fuse::default());
    let (plan, kernels) = planned(&module);
    let last = plan.segments[0].instrs.last().map(|i| &i.action);
    assert!(
        matches!(last, Some(Action::Copy { dst, size_bytes: 64, .. }) if *dst == plan.tensors[0].address)
    );
    buffers::check(&plan, &module, &kernels).unwrap_or_else(|diags| panic!("{diags}"));
}

#[test]
fn states_that_swap_are_refused() {
    let mut module = late_reader();
    let func = &mut module.funcs[0];
    let q = func.add_param("q", TensorType::new(DType::F32, &[4, 4]), Role::Param, Init::Ones);
    func.add_result(func.params[0].value, ResultKind::Update(1));
    func.results[0].value = q;
    let diag = emit(&fused_only(&module), &mut KernelTable::default()).expect_err("states swap");
    assert_eq!(diag.code, "T0502");
}

#[test]
fn memory_report_adds_up() {
    let (_, local) = local(&decoder(MESHES[3], DType::Bf16), 2, Checkpointing::None);
    let (plan, _) = planned(&fused(&local, Fuse::default()));
    let workspace_bytes = plan.workspace.shared_bytes + 4 * plan.workspace.per_thread_bytes;
    assert_eq!(plan.memory.total_bytes(4), plan.state_bytes + plan.step_bytes + workspace_bytes);
    assert!(plan.largest.is_sorted_by_key(|b| std::cmp::Reverse(b.size_bytes)));
    assert!(plan.largest.iter().all(|b| !b.path.is_empty()));
}

/// Every address of an action.
fn addresses(action: &mut Action) -> Vec<&mut Address> {
    match action {
        Action::Launch { args, .. } => args.iter_mut().collect(),
        Action::Contract { a, b, c, epilogue, .. } => {
            let args = epilogue.iter_mut().flat_map(|(_, args)| args.iter_mut());
            [a, b].into_iter().chain(c.as_mut()).chain(args).collect()
        }
        Action::Attention { args, .. } => args.iter_mut().collect(),
        Action::AttentionGrad { args, .. } => args.iter_mut().collect(),
        Action::ScatterAdd { args, .. } => args.iter_mut().collect(),
        Action::Collective { parts, .. } => parts.iter_mut().flat_map(|p| [&mut p.src, &mut p.dst]).collect(),
        Action::Guard { scalars } => scalars.iter_mut().map(|(_, address)| address).collect(),
        Action::Copy { src, dst, .. } | Action::RankSlice { src, dst, .. } => vec![src, dst],
        Action::Zero { dst, .. } => vec![dst],
        Action::Record { .. } | Action::Wait { .. } => vec![],
    }
}

struct Mutants {
    module: Module,
    plan: Plan,
    kernels: KernelTable,
}

impl Mutants {
    fn new() -> Self {
        let (_, local) = local(&decoder(&[("dp_shard", 2)], DType::Bf16), 2, Checkpointing::Full);
        let module = fused(&local, Fuse::default());
        let (plan, kernels) = planned(&module);
        Self { module, plan, kernels }
    }

    fn is_found(&self, mutate: impl FnOnce(&mut Plan)) -> bool {
        let mut plan = self.plan.clone();
        mutate(&mut plan);
        assert!(plan != self.plan, "nothing was changed");
        buffers::check(&plan, &self.module, &self.kernels).is_err()
    }

    /// Segment and position of every instruction that `select`s.
    fn places(&self, select: impl Fn(&Instr) -> bool) -> Vec<(usize, usize)> {
        let segments = self.plan.segments.iter().enumerate();
        segments
            .flat_map(|(s, segment)| (0..segment.instrs.len()).map(move |i| (s, i)))
            .filter(|&(s, i)| select(&self.plan.segments[s].instrs[i]))
            .collect()
    }
}

/// The first operand of an instruction moved to where another instruction's is.
#[test]
fn a_wrong_address_is_found() {
    let mutants = Mutants::new();
    let places = mutants.places(|i| !matches!(i.action, Action::Record { .. } | Action::Wait { .. }));
    for (n, &(s, i)) in places.iter().enumerate().step_by(7) {
        let (t, j) = places[(n * 31 + 17) % places.len()];
        let mut other = mutants.plan.segments[t].instrs[j].action.clone();
        let mut own = mutants.plan.segments[s].instrs[i].action.clone();
        let (own, other) = (*addresses(&mut own)[0], *addresses(&mut other)[0]);
        if own != other {
            let found = mutants.is_found(|p| *addresses(&mut p.segments[s].instrs[i].action)[0] = other);
            assert!(found, "{:?} at {other:?}", mutants.plan.segments[s].instrs[i]);
        }
    }
}

#[test]
fn a_missing_instruction_is_found() {
    let mutants = Mutants::new();
    let works = mutants.places(|i| !matches!(i.action, Action::Record { .. } | Action::Wait { .. }));
    for &(s, i) in works.iter().step_by(11) {
        assert!(mutants.is_found(|p| drop(p.segments[s].instrs.remove(i))));
    }
}

#[test]
fn a_missing_wait_is_found() {
    let mutants = Mutants::new();
    let waits = mutants.places(|i| matches!(i.action, Action::Wait { .. }));
    assert!(waits.len() > 20);
    for (s, i) in waits {
        assert!(mutants.is_found(|p| drop(p.segments[s].instrs.remove(i))), "{s} {i}");
    }
}

#[test]
fn a_small_or_crooked_arena_is_found() {
    let mutants = Mutants::new();
    assert!(mutants.is_found(|p| p.step_bytes -= 64));
    assert!(mutants.is_found(|p| p.state_bytes -= 64));
    let (s, i) = mutants.places(|i| matches!(i.action, Action::Contract { .. }))[3];
    assert!(mutants.is_found(|p| addresses(&mut p.segments[s].instrs[i].action)[0].offset_bytes += 4));
}
