//! Training runs against the golden traces: `titanc build` and `titan-run` as a user runs them, on one rank and on several.
//!
//! The arbiter is the f64 trace; f32 runs agree within 2e-6, bf16 runs within 1e-3 in loss and 5e-3 in gradient norm
//! (`tests/assets/golden/README.md`).
#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::Value;
use titan_tests::programs::{Step, Work, assets};

/// How the ranks share the work.
#[derive(Clone, Copy, Debug)]
enum Mesh {
    One,
    Fsdp(u64),
    Hsdp(u64, u64),
    Ddp(u64),
}

impl Mesh {
    fn ranks(self) -> u64 {
        match self {
            Self::One => 1,
            Self::Fsdp(n) | Self::Ddp(n) => n,
            Self::Hsdp(replicate, shard) => replicate * shard,
        }
    }

    fn toml(self) -> String {
        let (replicate, shard) = match self {
            Self::One => (1, 1),
            Self::Fsdp(n) => (1, n),
            Self::Hsdp(replicate, shard) => (replicate, shard),
            Self::Ddp(n) => (n, 1),
        };
        format!("data_parallel_replicate_degree = {replicate}\ndata_parallel_shard_degree = {shard}\n")
    }
}

const MESHES: [Mesh; 6] =
    [Mesh::One, Mesh::Fsdp(2), Mesh::Ddp(2), Mesh::Fsdp(4), Mesh::Hsdp(2, 2), Mesh::Ddp(4)];

fn expected(case: &str) -> Value {
    let path = assets().join(format!("golden/{case}.expected.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn toml(golden: &Value, dtype: &str, mesh: Mesh) -> String {
    let config = &golden["config"];
    let batch = golden["batch"].as_u64().unwrap();
    let local = batch / mesh.ranks();
    format!(
        "[model]\nname = \"llama3\"\nflavor = \"debugmodel\"\n\
         [titan.model_args]\ndim = {dim}\nn_layers = {layers}\nn_heads = {heads}\nn_kv_heads = {kv}\n\
         hidden_dim = {hidden}\nvocab_size = {vocab}\n\
         [optimizer]\nlr = 4e-3\n\
         [lr_scheduler]\nwarmup_steps = 2\ndecay_ratio = 0.8\n\
         [training]\nlocal_batch_size = {local}\nglobal_batch_size = {global}\nseq_len = {seq}\nmax_norm = {max_norm}\n\
         steps = 10\nmixed_precision_param = \"{dtype}\"\n\
         [parallelism]\n{mesh}",
        dim = config["dim"],
        layers = config["n_layers"],
        heads = config["n_heads"],
        kv = config["n_kv_heads"],
        hidden = config["ffn_hidden"],
        vocab = config["vocab"],
        global = batch * golden["grad_accum"].as_u64().unwrap(),
        seq = golden["seq"],
        max_norm = golden["max_norm"],
        mesh = mesh.toml(),
    )
}

fn check(case: &str, golden: &Value, steps: &[Step], loss_tolerance: f64, norm_tolerance: f64) {
    let list = |key: &str| -> Vec<f64> {
        golden["runs"]["f64"][key].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
    };
    let (losses, norms, rates) = (list("loss"), list("grad_norm"), list("lr"));
    assert_eq!(steps.len(), 10, "{case}");
    for (i, step) in steps.iter().enumerate() {
        let close = |value: f64, target: f64, tolerance: f64| (value / target - 1.0).abs() <= tolerance;
        let number = i + 1;
        assert!(close(step.lr, rates[i], 1e-6), "{case} step {number}: lr {} is not {}", step.lr, rates[i]);
        assert!(
            close(step.loss, losses[i], loss_tolerance),
            "{case} step {number}: loss {} is not {} within {loss_tolerance}",
            step.loss,
            losses[i]
        );
        assert!(
            close(step.grad_norm, norms[i], norm_tolerance),
            "{case} step {number}: grad_norm {} is not {} within {norm_tolerance}",
            step.grad_norm,
            norms[i]
        );
    }
}

fn run_case(case: &str, dtype: &str) {
    let golden = expected(case);
    let weights = assets().join("golden").join(golden["weights"].as_str().unwrap());
    let tokens = assets().join("golden").join(golden["tokens"].as_str().unwrap());
    let (loss_tolerance, norm_tolerance) = if dtype == "float32" { (2e-6, 2e-6) } else { (1e-3, 5e-3) };
    let batch = golden["batch"].as_u64().unwrap();
    for mesh in MESHES.into_iter().filter(|mesh| batch.is_multiple_of(mesh.ranks())) {
        let name = format!("{case} {dtype} {mesh:?}");
        let work = Work::new(&name);
        work.build(&toml(&golden, dtype, mesh));
        let given = ["--init-from", weights.to_str().unwrap(), "--tokens", tokens.to_str().unwrap()];
        let steps = work.train(mesh.ranks(), 2, &given);
        check(&name, &golden, &steps, loss_tolerance, norm_tolerance);
    }
}

#[test]
fn plain_f32() {
    run_case("plain", "float32");
}

#[test]
fn plain_bf16() {
    run_case("plain", "bfloat16");
}

#[test]
fn grouped_queries_f32() {
    run_case("gqa", "float32");
}

#[test]
fn grouped_queries_bf16() {
    run_case("gqa", "bfloat16");
}

#[test]
fn accumulation_f32() {
    run_case("accum", "float32");
}

#[test]
fn accumulation_bf16() {
    run_case("accum", "bfloat16");
}

#[test]
fn clipping_f32() {
    run_case("clip", "float32");
}

#[test]
fn clipping_bf16() {
    run_case("clip", "bfloat16");
}

/// The golden weights under Hugging Face's names: written by the definition of their layout, which keeps the first elements of a head's
/// rotary pairs before the second ones.
fn write_hf(path: &std::path::Path, golden: &Value) {
    let file = std::fs::read(assets().join("golden").join(golden["weights"].as_str().unwrap())).unwrap();
    let ours = safetensors::SafeTensors::deserialize(&file).unwrap();
    let head_dim = golden["config"]["head_dim"].as_u64().unwrap() as usize;
    let theirs = ours.iter().map(|(name, tensor)| {
        let row_bytes = tensor.data().len() / tensor.shape()[0];
        let mut data = tensor.data().to_vec();
        if name.ends_with("wq.weight") || name.ends_with("wk.weight") {
            for (row, bytes) in tensor.data().chunks_exact(row_bytes).enumerate() {
                let (head, pair, second) = (row / head_dim, row % head_dim / 2, row % 2);
                let to = (head * head_dim + second * head_dim / 2 + pair) * row_bytes;
                data[to..to + row_bytes].copy_from_slice(bytes);
            }
        }
        (hf_name(name), (tensor.dtype(), tensor.shape().to_vec(), data))
    });
    let theirs: Vec<_> = theirs.collect();
    let views = theirs.iter().map(|(name, (dtype, shape, data))| {
        (name, safetensors::tensor::TensorView::new(*dtype, shape.clone(), data).unwrap())
    });
    std::fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
}

fn hf_name(name: &str) -> String {
    let parts = [
        ("tok_embeddings", "model.embed_tokens"),
        ("attention_norm", "input_layernorm"),
        ("ffn_norm", "post_attention_layernorm"),
        ("attention.wq", "self_attn.q_proj"),
        ("attention.wk", "self_attn.k_proj"),
        ("attention.wv", "self_attn.v_proj"),
        ("attention.wo", "self_attn.o_proj"),
        ("feed_forward.w1", "mlp.gate_proj"),
        ("feed_forward.w2", "mlp.down_proj"),
        ("feed_forward.w3", "mlp.up_proj"),
        ("output.weight", "lm_head.weight"),
    ];
    let name = parts.iter().fold(name.to_owned(), |name, (ours, theirs)| name.replace(ours, theirs));
    if name.starts_with("layers.") || name == "norm.weight" { format!("model.{name}") } else { name }
}

#[test]
fn hugging_face_weights_start_the_same_run() {
    let golden = expected("gqa");
    let work = Work::new("hf");
    work.build(&toml(&golden, "float32", Mesh::Fsdp(2)));
    let hf = work.folder.join("hf.safetensors");
    write_hf(&hf, &golden);
    let tokens = assets().join("golden").join(golden["tokens"].as_str().unwrap());
    let steps =
        work.train(2, 2, &["--init-from", hf.to_str().unwrap(), "--tokens", tokens.to_str().unwrap()]);
    check("hf", &golden, &steps, 2e-6, 2e-6);
}
