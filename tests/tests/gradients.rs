//! Gradients of whole models against finite differences.
#![expect(clippy::unwrap_used, reason = "tests")]

use titan_ir::eval::Tensor;
use titan_ir::ops::{CrossEntropy, Einsum, ReduceSum, RmsNorm, Silu};
use titan_ir::{DType, Dims, Func, Init, Mesh, Module, ResultKind, Role, Stage, TensorType};
use titan_passes::autodiff::Autodiff;
use titan_passes::check::gradients::check_gradients;
use titan_passes::pass::{Pass, PassCx};
use titan_tests::decoder::Decoder;
use titan_tests::state::sample_state;

fn differentiated(mut module: Module) -> Func {
    Autodiff.run(&mut module, &mut PassCx::default()).unwrap();
    module.funcs.remove(0)
}

/// `cross_entropy(w2 silu(w1 rms_norm(x)))`.
fn mlp(num_rows: u64, dim: u64, hidden: u64, vocab: u64) -> Module {
    let mut func = Func::new("step");
    let weight = |func: &mut Func, name: &str, dims: &[u64]| {
        func.add_param(name, TensorType::new(DType::F32, dims), Role::Param, Init::Zeros)
    };
    let x_bsd = weight(&mut func, "x", &[1, num_rows, dim]);
    let gain_d = weight(&mut func, "gain", &[dim]);
    let w1_fd = weight(&mut func, "w1", &[hidden, dim]);
    let w2_vf = weight(&mut func, "w2", &[vocab, hidden]);
    let labels_bs =
        func.add_param("labels", TensorType::new(DType::I32, &[1, num_rows]), Role::Input, Init::Host);
    let product = || Einsum { spec: "bsk,nk->bsn".to_owned(), out: DType::F32 };
    let n_bsd = func.emit(RmsNorm { eps: 1e-5 }, &[x_bsd, gain_d]).unwrap()[0];
    let a_bsf = func.emit1(product(), &[n_bsd, w1_fd]).unwrap();
    let h_bsf = func.emit1(Silu, &[a_bsf]).unwrap();
    let logits_bsv = func.emit1(product(), &[h_bsf, w2_vf]).unwrap();
    let nll_bs = func.emit(CrossEntropy, &[logits_bsv, labels_bs]).unwrap()[0];
    let loss = func.emit1(ReduceSum::all(), &[nll_bs]).unwrap();
    func.add_result(loss, ResultKind::Output("loss".to_owned()));
    Module { stage: Stage::Graph, mesh: Mesh::default(), funcs: vec![func] }
}

#[test]
fn mlp_with_norm_and_cross_entropy() {
    let func = differentiated(mlp(5, 7, 9, 6));
    check_gradients(&func, &sample_state(&func, 6)).unwrap();
}

#[test]
fn decoder_with_shared_key_heads() {
    let spec = Decoder { num_heads: 3, num_kv_heads: 1, dim: 12, seq: 5, ..Decoder::default() };
    let func = differentiated(spec.module().unwrap());
    check_gradients(&func, &sample_state(&func, spec.vocab)).unwrap();
}

#[test]
fn casts_carry_gradients() {
    let spec = Decoder { compute: DType::Bf16, num_layers: 1, ..Decoder::default() };
    let func = differentiated(spec.module().unwrap());
    check_gradients(&func, &sample_state(&func, spec.vocab)).unwrap();
}

#[test]
fn a_wrong_gradient_is_found() {
    let mut func = differentiated(mlp(2, 3, 4, 5));
    let gain =
        func.results.iter().position(|r| r.kind == ResultKind::Output("grad:gain".to_owned())).unwrap();
    let double = func.emit1(titan_ir::ops::Add, &[func.results[gain].value; 2]).unwrap();
    func.results[gain].value = double;
    let diags = check_gradients(&func, &sample_state(&func, 5)).unwrap_err();
    assert_eq!(diags.0.iter().map(|d| d.path.as_deref()).collect::<Vec<_>>(), [Some("gain")]);
}

#[test]
fn an_unused_weight_gets_zeros_and_a_warning() {
    let mut module = mlp(2, 3, 4, 5);
    module.funcs[0].add_param("idle", TensorType::new(DType::F32, &[2]), Role::Param, Init::Zeros);
    let mut cx = PassCx::default();
    Autodiff.run(&mut module, &mut cx).unwrap();
    assert_eq!(cx.warnings.iter().map(|w| w.code).collect::<Vec<_>>(), ["T0204"]);
    let func = &module.funcs[0];
    let mut state = sample_state(func, 5);
    state.insert("idle".to_owned(), Tensor { dims: Dims::from_slice(&[2]), data: vec![3.0, -4.0] });
    check_gradients(func, &state).unwrap();
}
