//! What passes do to numbers, on one rank.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use titan_ir::eval::{EvalMode, Tensor};
use titan_ir::{DType, Func, Module, Op, Phase, Role};
use titan_passes::accumulate::Accumulate;
use titan_passes::autodiff::Autodiff;
use titan_passes::optimizer::Optimizer;
use titan_passes::pass::{Pass, PassCx};
use titan_passes::remat::{Checkpointing, Remat, ReshardAfterForward};
use titan_passes::simplify::Simplify;
use titan_tests::decoder::Decoder;
use titan_tests::run::{State, run};
use titan_tests::state::sample_state;

fn after(mut module: Module, passes: &[&dyn Pass]) -> Module {
    for pass in passes {
        pass.run(&mut module, &mut PassCx::default()).unwrap();
    }
    module
}

fn training(spec: &Decoder) -> Module {
    after(spec.module().unwrap(), &[&Autodiff, &Optimizer::default()])
}

/// State and outputs after one step.
fn step(func: &Func, vocab: u64, mode: EvalMode) -> (State, State) {
    let mut state = sample_state(func, vocab);
    let outputs = run(func, &mut state, mode);
    (state, outputs)
}

fn assert_close(actual: &State, expected: &State, tolerance: f64) {
    assert_eq!(actual.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (name, tensor) in expected {
        for (i, (a, e)) in actual[name].data.iter().zip(&tensor.data).enumerate() {
            assert!((a - e).abs() <= tolerance * e.abs().max(1e-3), "{name}[{i}] is {a:e}, expected {e:e}");
        }
    }
}

fn assert_same_bits(actual: &(State, State), expected: &(State, State)) {
    let bits = |state: &State| -> BTreeMap<String, Vec<u64>> {
        state.iter().map(|(name, t)| (name.clone(), t.data.iter().map(|x| x.to_bits()).collect())).collect()
    };
    assert!(expected.1.contains_key("loss"));
    assert_eq!(bits(&actual.0), bits(&expected.0));
    assert_eq!(bits(&actual.1), bits(&expected.1));
}

/// One step of AdamW or Adam from gradients of the summed loss, written down from the papers.
fn reference_step(optimizer: &Optimizer, grads: &State, num_tokens: f64, state: &mut State) -> (f64, f64) {
    let mean = |g: f64| g / num_tokens;
    let weights: Vec<String> =
        grads.keys().filter_map(|n| n.strip_prefix("grad:")).map(str::to_owned).collect();
    let norm = weights
        .iter()
        .flat_map(|w| &grads[&format!("grad:{w}")].data)
        .map(|&g| mean(g) * mean(g))
        .sum::<f64>()
        .sqrt();
    let clip = (optimizer.max_norm / (norm + 1e-6)).min(1.0);
    // Tables are f32.
    let table = |x: f64| DType::F32.round(x);
    let lr = table(optimizer.schedule.lr * optimizer.schedule.factor(0));
    let (b1, b2) = (optimizer.beta1, optimizer.beta2);
    for w in weights {
        for i in 0..state[&w].data.len() {
            let p = state[&w].data[i];
            let mut g = clip * mean(grads[&format!("grad:{w}")].data[i]);
            if !optimizer.decoupled {
                g += optimizer.weight_decay * p;
            }
            let decay = if optimizer.decoupled { lr * optimizer.weight_decay * p } else { 0.0 };
            let (m, v) = ((1.0 - b1) * g, (1.0 - b2) * g * g);
            let (m_hat, v_hat) = (m / table(1.0 - b1), v / table(1.0 - b2));
            state.get_mut(&w).unwrap().data[i] = p - decay - lr * m_hat / (v_hat.sqrt() + optimizer.eps);
            state.get_mut(&format!("{w}.exp_avg")).unwrap().data[i] = m;
            state.get_mut(&format!("{w}.exp_avg_sq")).unwrap().data[i] = v;
        }
    }
    (norm, lr)
}

fn check_optimizer(optimizer: &Optimizer) -> f64 {
    let spec = Decoder::default();
    let grads_of = after(spec.module().unwrap(), &[&Autodiff]).funcs.remove(0);
    let func = after(spec.module().unwrap(), &[&Autodiff, optimizer]).funcs.remove(0);
    let mut expected = sample_state(&func, spec.vocab);
    let grads = run(&grads_of, &mut expected.clone(), EvalMode::F64);
    let num_tokens = grads["num_tokens"].data[0];
    assert_eq!(num_tokens, (spec.batch * spec.seq - 1) as f64);
    let (norm, lr) = reference_step(optimizer, &grads, num_tokens, &mut expected);
    let (state, outputs) = step(&func, spec.vocab, EvalMode::F64);
    assert_close(&state, &expected, 1e-9);
    let scalar = |x: f64| Tensor { dims: Default::default(), data: vec![x] };
    let loss = grads["loss"].data[0] / num_tokens;
    let expected = [("grad_norm", norm), ("loss", loss), ("lr", lr)];
    assert_close(&outputs, &expected.into_iter().map(|(n, x)| (n.to_owned(), scalar(x))).collect(), 1e-9);
    norm
}

#[test]
fn optimizer_clips_and_decays_as_torch_does() {
    let norm = check_optimizer(&Optimizer { max_norm: 1e9, ..Optimizer::default() });
    check_optimizer(&Optimizer { max_norm: norm / 3.0, ..Optimizer::default() });
    check_optimizer(&Optimizer { decoupled: false, max_norm: norm / 2.0, ..Optimizer::default() });
}

#[test]
fn microbatches_equal_one_batch() {
    let small = Decoder { batch: 2, ..Decoder::default() };
    let large = Decoder { batch: 6, ..small.clone() };
    let large_func = training(&large).funcs.remove(0);
    let mut large_state = sample_state(&large_func, large.vocab);
    let module = after(
        small.module().unwrap(),
        &[&Autodiff, &Accumulate { num_microbatches: 3 }, &Optimizer::default()],
    );
    let [micro, update] = &module.funcs[..] else { panic!("expected two functions") };
    assert_eq!((micro.repeat, update.repeat), (3, 1));
    let mut state = sample_state(update, small.vocab);
    state.extend(sample_state(micro, small.vocab));
    for k in 0..3 {
        for input in ["tokens", "labels"] {
            let len = state[input].data.len();
            state.get_mut(input).unwrap().data = large_state[input].data[k * len..(k + 1) * len].to_vec();
        }
        assert!(run(micro, &mut state, EvalMode::F64).is_empty());
    }
    let outputs = run(update, &mut state, EvalMode::F64);
    let expected = run(&large_func, &mut large_state, EvalMode::F64);
    assert_close(&outputs, &expected, 1e-9);
    state.retain(|name, _| !name.ends_with(".grad") && !name.ends_with(".sum"));
    for input in ["tokens", "labels"] {
        large_state.insert(input.to_owned(), state[input].clone());
    }
    assert_close(&state, &large_state, 1e-9);
}

#[test]
fn simplify_keeps_bits() {
    for compute in [DType::F32, DType::Bf16] {
        let spec = Decoder { compute, ..Decoder::default() };
        let before = training(&spec);
        let simplified = after(before.clone(), &[&Simplify::default()]);
        assert!(simplified.funcs[0].nodes.len() < before.funcs[0].nodes.len());
        let [expected, actual] =
            [before, simplified].map(|m| step(&m.funcs[0], spec.vocab, EvalMode::Rounded));
        assert_same_bits(&actual, &expected);
    }
}

/// Paths of the matrix products that run again in the backward pass.
fn products_again(func: &Func) -> BTreeSet<String> {
    let again = |n: &&titan_ir::Node| {
        n.phase == Phase::Backward && matches!(&n.op, Op::Einsum(e) if e.spec == "bsk,nk->bsn")
    };
    func.nodes.iter().filter(again).map(|n| func.path(n.loc).to_owned()).collect()
}

fn in_blocks(blocks: &[u64], products: &[&str]) -> BTreeSet<String> {
    blocks.iter().flat_map(|b| products.iter().map(move |p| format!("layers.{b}.{p}"))).collect()
}

#[test]
fn remat_keeps_bits_and_recomputes_what_the_mode_says() {
    let all = [
        "attention.wq",
        "attention.wk",
        "attention.wv",
        "attention.wo",
        "feed_forward.w1",
        "feed_forward.w3",
    ];
    let every_second = ["attention.wk", "attention.wo", "feed_forward.w3"];
    let modes = [
        (Checkpointing::None, in_blocks(&[], &all)),
        (Checkpointing::Full, in_blocks(&[0, 1, 2], &all)),
        (Checkpointing::EveryNth(2), in_blocks(&[1], &all)),
        (Checkpointing::EveryNth(0), in_blocks(&[0, 1, 2], &all)),
        (Checkpointing::PerOp, in_blocks(&[0, 1, 2], &every_second)),
    ];
    let spec = Decoder { compute: DType::Bf16, num_layers: 3, ..Decoder::default() };
    let before = after(training(&spec), &[&Simplify::default()]);
    let expected = step(&before.funcs[0], spec.vocab, EvalMode::Rounded);
    for (checkpointing, products) in modes {
        for cheap in [false, true] {
            let pass = Remat { checkpointing, cheap, ..Remat::default() };
            let module = after(before.clone(), &[&pass]);
            assert_eq!(products_again(&module.funcs[0]), products, "{pass:?}");
            assert_same_bits(&step(&module.funcs[0], spec.vocab, EvalMode::Rounded), &expected);
        }
    }
}

#[test]
fn products_like_a_listed_one_are_recomputed_and_not_counted() {
    let spec = Decoder { compute: DType::Bf16, num_layers: 3, ..Decoder::default() };
    let before = after(training(&spec), &[&Simplify::default()]);
    // w3 has the dimensions of w1; without the two, w2 is the fifth product and stays.
    let expected = ["attention.wk", "attention.wo", "feed_forward.w1", "feed_forward.w3"];
    let recompute_like = vec!["feed_forward.w1".to_owned()];
    let pass = Remat { checkpointing: Checkpointing::PerOp, recompute_like, ..Remat::default() };
    let module = after(before, &[&pass]);
    assert_eq!(products_again(&module.funcs[0]), in_blocks(&[0, 1, 2], &expected));
}

/// Paths of weights that are cast again in the backward pass.
fn weights_again(func: &Func) -> BTreeSet<String> {
    let weights: Vec<_> = func.params.iter().filter(|p| p.role == Role::Param).map(|p| p.value).collect();
    let again = |n: &&titan_ir::Node| n.phase == Phase::Backward && n.ins.iter().any(|v| weights.contains(v));
    func.nodes.iter().filter(again).map(|n| func.path(n.loc).to_owned()).collect()
}

#[test]
fn weights_are_gathered_again_unless_backward_starts_with_them() {
    let spec = Decoder { compute: DType::Bf16, num_layers: 1, ..Decoder::default() };
    let before = after(training(&spec), &[&Simplify::default()]);
    let weights = [
        "attention.wq",
        "attention.wk",
        "attention.wv",
        "attention.wo",
        "attention_norm",
        "ffn_norm",
        "feed_forward.w1",
        "feed_forward.w2",
        "feed_forward.w3",
    ];
    let block = in_blocks(&[0], &weights);
    let root = ["norm".to_owned(), "output".to_owned()];
    let cases = [
        (ReshardAfterForward::Never, BTreeSet::new()),
        (ReshardAfterForward::Default, block.clone()),
        (ReshardAfterForward::Always, block.into_iter().chain(root).collect()),
    ];
    for (reshard_after_forward, expected) in cases {
        let pass = Remat { reshard_after_forward, ..Remat::default() };
        assert_eq!(weights_again(&after(before.clone(), &[&pass]).funcs[0]), expected, "{pass:?}");
    }
}
