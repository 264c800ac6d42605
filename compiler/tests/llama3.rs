//! Llama 3 traces to torchtitan's sizes, names and counts.
#![expect(clippy::unwrap_used, reason = "tests")]

use titan_ir::{DType, Mesh, Role};
use titanc::model::Registry;
use titanc::nn::{TraceOptions, Traced};

fn traced(flavor: &str, seq_len: u64) -> Traced {
    let registry = Registry::builtin();
    let llama3 = registry.get("llama3").unwrap();
    let options = TraceOptions {
        mesh: Mesh::new(&[("dp_replicate", 1), ("dp_shard", 2)]),
        batch: 2,
        seq_len,
        compute: DType::Bf16,
    };
    llama3.trace(&llama3.flavor_args(flavor).unwrap(), options).unwrap()
}

#[test]
fn every_flavor_has_the_published_number_of_parameters_and_flops() {
    let expected = [
        ("debugmodel", 2048, 6_163_712, 71_585_280),
        ("8B", 8192, 8_030_261_248, 57_914_449_920),
        ("70B", 8192, 70_553_706_496, 481_442_709_504),
        ("405B", 8192, 405_853_388_800, 2_625_449_459_712),
    ];
    let registry = Registry::builtin();
    let llama3 = registry.get("llama3").unwrap();
    assert_eq!(llama3.flavors(), expected.map(|(flavor, ..)| flavor));
    for (flavor, seq_len, num_params, flops) in expected {
        let traced = traced(flavor, seq_len);
        assert_eq!(traced.num_params, num_params, "{flavor}");
        let args = llama3.flavor_args(flavor).unwrap();
        assert_eq!(llama3.flops_per_token(&args, num_params, seq_len).unwrap(), flops, "{flavor}");
    }
}

#[test]
fn weights_have_torchtitans_names_and_each_has_a_hugging_face_name() {
    let traced = traced("debugmodel", 64);
    let params = traced.module.funcs[0].params.iter().filter(|p| p.role == Role::Param);
    let names: Vec<&str> = params.map(|p| p.name.as_str()).collect();
    let block = |layer: u64| {
        let weights = [
            "attention.wq",
            "attention.wk",
            "attention.wv",
            "attention.wo",
            "feed_forward.w1",
            "feed_forward.w2",
            "feed_forward.w3",
            "attention_norm",
            "ffn_norm",
        ];
        weights.map(|w| format!("layers.{layer}.{w}.weight"))
    };
    let mut expected = vec!["tok_embeddings.weight".to_owned()];
    expected.extend((0..6).flat_map(block));
    expected.extend(["norm.weight".to_owned(), "output.weight".to_owned()]);
    let sorted = |mut v: Vec<String>| {
        v.sort();
        v
    };
    assert_eq!(sorted(names.iter().map(|&n| n.to_owned()).collect()), sorted(expected));

    let registry = Registry::builtin();
    let llama3 = registry.get("llama3").unwrap();
    let hf = llama3.hf_names(&llama3.flavor_args("debugmodel").unwrap()).unwrap();
    for name in names {
        let pattern: Vec<&str> =
            name.split('.').map(|p| if p.parse::<u64>().is_ok() { "*" } else { p }).collect();
        assert!(hf.iter().any(|h| h.fqn == pattern.join(".")), "{name}");
    }
}

#[test]
fn sizes_that_do_not_fit_are_refused_with_the_numbers() {
    let registry = Registry::builtin();
    let llama3 = registry.get("llama3").unwrap();
    let mut args = llama3.flavor_args("8B").unwrap();
    args.insert("n_kv_heads".into(), 5.into());
    let diag = llama3.check(&args).unwrap_err();
    assert_eq!((diag.code, diag.message.as_str()), ("T0440", "n_heads 32 is not a multiple of n_kv_heads 5"));
}
