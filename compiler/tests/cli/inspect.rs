//! `titanc inspect`.

use crate::support::{Folder, Ran, TINY, masked};

fn built(args: &str) -> Folder {
    let folder = Folder::with(TINY);
    let ran = folder.run(&format!("build a.toml {args}"));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    folder
}

#[test]
fn an_artifact_at_a_glance() {
    insta::assert_snapshot!(masked(&built("").show("inspect a.titan")));
}

#[test]
fn the_path_of_the_data_is_shown() {
    let shown = |args: &str| built(args).run("inspect a.titan").stdout;
    let data = "data:  c4 from /data/c4, tokenizer ";
    assert!(shown("--training.dataset c4 --training.dataset_path /data/c4").contains(data));
    assert!(shown("").contains("data:  c4_test, tokenizer "));
}

#[test]
fn a_plan_instruction_by_instruction() {
    let shown = built("").run("inspect a.titan --plan 2").stdout;
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "plan for 2 ranks, mesh [dp_replicate = 1, dp_shard = 2]");
    for wanted in [
        " param tok_embeddings.weight f32[32, 32] of [64, 32]",
        " optimizer layers.1.feed_forward.w2.weight.exp_avg_sq ",
        " input tokens i32[2, 16] of [4, 16]",
        " output loss f32[]",
        "all_gather dp_shard f32, ",
        "reduce_scatter(sum) dp_shard f32, ",
        "guard coef loss grad_norm",
    ] {
        let wanted = wanted.replace("all_gather dp_shard f32", "all_gather dp_shard bf16");
        assert!(lines.iter().any(|line| line.contains(&wanted)), "no `{wanted}` in\n{shown}");
    }
}

#[test]
fn scripts_get_json() {
    let folder = built("--training.global_batch_size 8");
    let json: serde_json::Value = serde_json::from_str(&folder.run("inspect a.titan --json").stdout).unwrap();
    assert_eq!(json["manifest"]["model"]["name"], "llama3");
    assert_eq!(json["manifest"]["config"]["training"]["global_batch_size"], 8);
    assert_eq!(json["manifest"]["config"]["titan"]["model_args"]["dim"], 32);
    let plans = json["plans"].as_array().unwrap();
    assert_eq!(plans.len(), 2);
    for (plan, accumulation) in plans.iter().zip([4, 2]) {
        let segments = plan["segments"].as_array().unwrap();
        let micro = segments.iter().find(|s| s["name"] == "micro").unwrap();
        assert_eq!(micro["repeat"], accumulation);
    }
    assert_eq!(plans[0]["collectives"], serde_json::json!([]));
    let moved = plans[1]["collectives"].as_array().unwrap();
    assert!(moved.iter().any(|c| c["kind"] == "reduce_scatter(sum)" && c["module"] != ""), "{moved:?}");
    let one: serde_json::Value =
        serde_json::from_str(&folder.run("inspect a.titan --json --plan 2").stdout).unwrap();
    assert_eq!(one["plans"], serde_json::json!([plans[1]]));
}

#[test]
fn the_program_is_kept_on_demand() {
    let without = built("").run("inspect a.titan --ir");
    assert_eq!((without.code, without.stdout.as_str()), (1, ""));
    assert!(without.stderr.contains("error[T0611]"), "{}", without.stderr);
    let with = built("--emit-ir").run("inspect a.titan --ir");
    assert!(with.stdout.contains("stage = graph") && with.stdout.contains("stage = kernels"));
    let key = built("--titan.keep_ir").run("inspect a.titan --ir");
    assert_eq!(key.code, 0);
}

#[test]
fn only_whole_artifacts_are_believed() {
    let folder = built("");
    let bytes = folder.read("a.titan");
    let shown = |name: &str, bytes: &[u8]| -> Ran {
        folder.write(name, bytes);
        folder.run(&format!("inspect {name}"))
    };
    let refused = |ran: &Ran, code: &str| {
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
        assert!(ran.stderr.contains(&format!("error[{code}]")), "{}", ran.stderr);
    };
    refused(&shown("empty", b""), "T0601");
    refused(&shown("text", TINY.as_bytes()), "T0601");
    refused(&shown("short", &bytes[..bytes.len() - 4096]), "T0603");
    let mut newer = bytes.clone();
    newer[8] ^= 0x40;
    refused(&shown("newer", &newer), "T0602");
    // A flipped bit in every part of the file: header, sections, padding.
    for at in (24..bytes.len()).step_by(bytes.len() / 12) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1;
        refused(&shown("flipped", &flipped), "T0604");
    }
    refused(&folder.run("inspect a.titan --plan 3"), "T0606");
}
