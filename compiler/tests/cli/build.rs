//! `titanc build` and `titanc check`.

use crate::support::{Folder, TINY, masked};
use std::fs;
use std::path::Path;

#[test]
fn the_debug_example_builds_with_a_summary() {
    let folder = Folder::new();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/llama3_debug.toml");
    fs::copy(example, folder.path.join("llama3_debug.toml")).unwrap();
    let shown = folder.show("build llama3_debug.toml --titan.target cpu-portable");
    insta::assert_snapshot!(masked(&shown));
    assert_eq!(folder.files(), ["llama3_debug.titan", "llama3_debug.toml"]);
}

#[test]
fn check_shows_the_same_and_writes_nothing() {
    let folder = Folder::with(TINY);
    insta::assert_snapshot!(masked(&folder.show("check a.toml")));
    assert_eq!(folder.files(), ["a.toml"]);
}

#[test]
fn equal_inputs_give_equal_bytes_in_any_folder() {
    let (one, two) = (Folder::with(TINY), Folder::new());
    fs::create_dir(two.path.join("deeper")).unwrap();
    fs::copy(one.path.join("a.toml"), two.path.join("deeper/a.toml")).unwrap();
    assert_eq!(one.run("build a.toml -o b.titan").code, 0);
    assert_eq!(two.run("build --job.config_file deeper/a.toml").code, 0);
    assert_eq!(one.read("b.titan"), two.read("a.titan"));
}

#[test]
fn every_setting_reaches_the_bytes() {
    let folder = Folder::with(TINY);
    let build = |args: &str| {
        let ran = folder.run(&format!("build a.toml {args}"));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        folder.read("a.titan")
    };
    let plain = build("");
    for args in [
        "--optimizer.lr 1e-3",
        "--training.mixed_precision_param float32",
        "--training.global_batch_size 8",
        "--activation_checkpoint.mode full",
        "--titan.model_args.n_layers 1",
        "--titan.target cpu-avx2",
        "--emit-ir",
    ] {
        assert_ne!(build(args), plain, "{args}");
    }
    assert_eq!(build(""), plain);
}

#[test]
fn memory_that_is_set_must_suffice() {
    let folder = Folder::with(TINY);
    let fits = folder.run("build a.toml --titan.memory_gib 1");
    assert_eq!(fits.code, 0, "{}", fits.stdout);
    std::fs::remove_file(folder.path.join("a.titan")).unwrap();
    let small = folder.run("build a.toml --titan.memory_gib 0.00001 --titan.world_size 2");
    assert_eq!(small.code, 3, "{}", small.stdout);
    assert!(small.stderr.contains("error[T0510]: the plan for 2 ranks needs "), "{}", small.stderr);
    assert_eq!(folder.files(), ["a.toml"]);
}

#[test]
fn plans_that_do_not_fit_are_named_beside_one_that_does() {
    let folder = Folder::with(TINY);
    let shown = |gib: &str| {
        // A vocabulary whose embedding, cut over the ranks, is most of the memory.
        let ran =
            folder.run(&format!("check a.toml --titan.model_args.vocab_size 4096 --titan.memory_gib {gib}"));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.stdout
    };
    let some = shown("0.004");
    assert!(some.contains("does not fit in 0.004 GiB with ranks = 1; fits with ranks = 2\n"), "{some}");
    assert!(!shown("1").contains("does not fit"));
}

#[test]
fn size_does_not_grow_with_ranks_and_stays_small() {
    let folder = Folder::new();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/llama3_8b.toml");
    fs::copy(example, folder.path.join("a.toml")).unwrap();
    let sizes = [8, 1024].map(|ranks| {
        let ran = folder.run(&format!("build a.toml --titan.world_size {ranks}"));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        folder.read("a.titan").len()
    });
    assert!(sizes[1] <= sizes[0] && sizes[0] < 1 << 20, "{sizes:?}");
}

/// The advice must be true: with it the same command succeeds.
#[test]
fn the_change_that_is_advised_makes_it_fit() {
    let folder = Folder::with(TINY);
    let base = "--titan.world_size 1 --training.local_batch_size 8 --training.seq_len 128";
    let before = folder.run(&format!("check a.toml {base} --titan.memory_gib 0.0015"));
    assert_eq!(before.code, 3, "{}", before.stdout);
    let advice = before.stderr.rsplit(": add ").next().unwrap().trim();
    assert!(advice.starts_with("--"), "{}", before.stderr);
    let after = folder.run(&format!("check a.toml {base} --titan.memory_gib 0.0015 {advice}"));
    assert_eq!(after.code, 0, "{advice}\n{}{}", after.stderr, after.stdout);
}

#[test]
fn accumulation_and_mixed_meshes_build() {
    let folder = Folder::with(TINY);
    for args in [
        "--training.global_batch_size 8 --titan.world_size 1",
        "--training.global_batch_size 16 --titan.world_size 4",
        "--parallelism.data_parallel_replicate_degree 2 --titan.world_size 4",
        "--parallelism.data_parallel_replicate_degree 4 --titan.world_size 4",
        "--titan.world_size 3",
        "--titan.model_args.n_kv_heads 2 --titan.model_args.vocab_size 61 --titan.world_size 4",
        "--optimizer.name Adam --activation_checkpoint.mode none",
        "--activation_checkpoint.selective_ac_option op --parallelism.fsdp_reshard_after_forward never",
        "--titan.bucket_mib 1 --parallelism.fsdp_reshard_after_forward always",
    ] {
        let ran = folder.run(&format!("build a.toml {args}"));
        assert_eq!(ran.code, 0, "{args}\n{}", ran.stderr);
    }
}

#[test]
fn a_failed_build_leaves_the_old_artifact_and_nothing_else() {
    let folder = Folder::with(TINY);
    folder.write("a.titan", "old");
    assert_eq!(folder.run("build a.toml --training.seq_len 17").code, 1);
    assert_eq!(folder.run("build a.toml -o missing/a.titan").code, 1);
    assert_eq!(folder.read("a.titan"), b"old");
    assert_eq!(folder.files(), ["a.titan", "a.toml"]);
}
