//! Mistakes of a user: each a coded error with its place, nothing written.

use crate::support::{Folder, TINY};

/// The errors of a build with more lines in the file.
fn errors(more: &str, args: &str) -> String {
    let folder = Folder::with(&format!("{more}{TINY}"));
    let shown = folder.show(&format!("build a.toml {args}"));
    assert_eq!(folder.files(), ["a.toml"], "{shown}");
    shown
}

#[test]
fn keys_and_values() {
    insta::assert_snapshot!(errors(
        "[optimizer]\nlearning_rate = 1e-3\nbeta1 = 'big'\nname = 'adamw'\n\n[trainin]\nsteps = 3\n",
        ""
    ));
}

#[test]
fn features_that_do_not_exist_yet() {
    insta::assert_snapshot!(errors(
        "[parallelism]\ntensor_parallel_degree = 2\npipeline_parallel_degree = 2\n\n[checkpoint]\nenable = true\n\n",
        "--model.converters quantize.linear.float8"
    ));
}

#[test]
fn sizes_that_do_not_divide() {
    let sizes = ["--training.seq_len 17", "--training.global_batch_size 7 --titan.world_size 2"];
    insta::assert_snapshot!(sizes.map(|args| errors("", args)).join("\n"));
}

#[test]
fn numbers_of_ranks() {
    insta::assert_snapshot!(errors(
        "[parallelism]\ndata_parallel_replicate_degree = 3\n\n",
        "--titan.world_size 8"
    ));
}

#[test]
fn models() {
    let model = |args: &str| errors("", args);
    insta::assert_snapshot!(
        [
            model("--model.name lama3"),
            model("--model.name deepseek_v3"),
            model("--model.name simple_fsdp.llama3"),
            model("--model.flavor 7B"),
            model("--model.flavor 8B_flex"),
            model("--model.flavor debugmodel_varlen_attn"),
        ]
        .join("\n")
    );
}

#[test]
fn model_arguments() {
    let model = |more: &str| {
        let folder = Folder::with(&format!("{TINY}{more}"));
        folder.show("build a.toml")
    };
    insta::assert_snapshot!(
        [
            model("n_layer = 3\nhidden = 7\n"),
            model("rope_theta = 'big'\nnorm_eps = 1\nhidden_dim = 1.5\nn_kv_heads = -1\n"),
            model("n_kv_heads = 3\n"),
        ]
        .join("\n")
    );
}

#[test]
fn everything_wrong_is_said_at_once() {
    let shown = errors("", "--model.flavor 8C --titan.model_args.dim 2 --training.seq_len 17");
    assert!(shown.contains("T0432") && shown.contains("T0422"), "{shown}");
}

#[test]
fn files_that_are_not_there() {
    let folder = Folder::new();
    insta::assert_snapshot!(
        [
            folder.show("build missing.toml"),
            folder.show("check --job.config_file missing.toml"),
            folder.show("inspect missing.titan"),
            folder.show("opt missing.titan -p dce"),
        ]
        .join("\n")
    );
}
