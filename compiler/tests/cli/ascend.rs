//! Building and inspecting artifacts for Ascend devices, on a machine without any.

use crate::support::{Folder, TINY};

const BUILD: &str = "build a.toml --titan.target ascend910b3";

fn built(args: &str) -> Folder {
    let folder = Folder::with(TINY);
    let ran = folder.run(&format!("{BUILD} {args}"));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    folder
}

/// Amounts and hashes masked, and without the lists of operators, which change whenever lowering gets better.
fn masked(text: &str) -> String {
    let mut lines = String::new();
    let mut in_list = false;
    for line in text.lines() {
        let starts = line.trim_start();
        in_list = match starts.split_once(':') {
            Some(("operators" | "kernels", _)) => true,
            Some(_) if !line.starts_with("             ") => false,
            _ => in_list && line.starts_with("             "),
        };
        if in_list {
            continue;
        }
        let hash = |word: &str| word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit());
        let words = starts.split_whitespace().map(|word| match word {
            word if hash(word) => "<hash>".to_owned(),
            word if word.starts_with("Ascend") || word.starts_with("ascend") => word.to_owned(),
            word => number(word),
        });
        let words: Vec<String> = words.collect();
        let indent = &line[..line.len() - starts.len()];
        lines.push_str(&format!("{indent}{}\n", words.join(" ")));
    }
    lines.replace("KiB", "B").replace("MiB", "B").replace("GiB", "B")
}

/// A word with its digits masked, and what separates them.
fn number(word: &str) -> String {
    let mut masked = String::new();
    for c in word.chars() {
        match c {
            '0'..='9' if masked.ends_with('*') => {}
            '0'..='9' => masked.push('*'),
            '.' | ',' if masked.ends_with('*') && !word.ends_with(c) => {}
            c => masked.push(c),
        }
    }
    masked
}

#[test]
fn an_artifact_at_a_glance() {
    let folder = built("");
    insta::assert_snapshot!(masked(&folder.show("inspect a.titan")));
}

#[test]
fn operators_and_kernels_are_listed() {
    for style in ["aclnn", "fused"] {
        let shown = built(&format!("--ascend-kernels={style}")).run("inspect a.titan").stdout;
        for wanted in
            ["aclnnMm ", "aclnnFlashAttentionScoreV2 ", "aclnnFlashAttentionScoreGradV2 ", "fits 60.9 GiB"]
        {
            assert!(shown.contains(wanted), "{style}: no {wanted} in\n{shown}");
        }
        assert_eq!(shown.contains("code:  operators only"), style == "aclnn", "{shown}");
        assert_eq!(
            shown.contains("of MLIR, to be compiled on the device machine"),
            style == "fused",
            "{shown}"
        );
    }
}

#[test]
fn a_program_call_by_call() {
    let shown = built("").run("inspect a.titan --plan 2").stdout;
    assert!(shown.starts_with("program for 2 ranks, arena "), "{shown}");
    for wanted in [
        " workspace of stream 0\n",
        "table, upper triangle of 2048 x 2048\n",
        "\ngraph 0 of step, 1 per step\n",
        "\ngraph 1 of step, 1 per step\n",
        " 1 all_gather dp_shard bf16[",
        " 1 reduce_scatter(sum) dp_shard f32[",
        " 0 aclnnMm(bf16[",
        "titan_",
        "  guard coef step+0x",
    ] {
        assert!(shown.contains(wanted), "no `{wanted}` in\n{shown}");
    }
}

#[test]
fn who_lacks_a_plan_is_told_how_to_build_for_the_same_device() {
    let asked = built("").run("inspect a.titan --plan 3").stderr;
    let wanted = "--target Ascend910B3 --ascend-kernels fused --titan.world_size 3";
    assert!(asked.contains(wanted), "no `{wanted}` in\n{asked}");
}

#[test]
fn scripts_get_json() {
    let folder = built("--training.global_batch_size 8");
    let json: serde_json::Value = serde_json::from_str(&folder.run("inspect a.titan --json").stdout).unwrap();
    assert!(json["device_kernels"]["num_kernels"].as_u64().unwrap() > 0);
    assert_eq!(json["device_kernels"]["num_compiled"], 0);
    let plans = json["plans"].as_array().unwrap();
    assert_eq!(plans.len(), 2);
    for (plan, accumulation) in plans.iter().zip([4, 2]) {
        let program = &plan["ascend"];
        let segments = program["estimate"]["segments"].as_array().unwrap();
        let micro = segments.iter().find(|s| s["name"] == "micro").unwrap();
        assert_eq!(micro["repeat"], accumulation);
        let sum: f64 =
            segments.iter().map(|s| s["ms"].as_f64().unwrap() * s["repeat"].as_f64().unwrap()).sum();
        let step = program["estimate"]["step_ms"].as_f64().unwrap();
        assert!(step > 0.0 && (step - sum).abs() < 1e-9 * step, "{step} {sum}");
        let assumptions = program["estimate"]["assumptions"].as_array().unwrap();
        assert!(assumptions.iter().any(|a| a["name"] == "memory bandwidth"), "{assumptions:?}");
        assert!(program["operators"]["aclnnMm"].as_u64().unwrap() > 0);
    }
    let collectives = |plan: usize| plans[plan]["ascend"]["streams"].as_array().unwrap().len();
    assert_eq!([collectives(0), collectives(1)], [1, 2]);
    let two_communicators = 2 * 200 * 1024 * 1024;
    assert_eq!(plans[1]["ascend"]["hccl_bytes"], two_communicators);
}

#[test]
fn equal_inputs_give_equal_bytes_in_any_folder() {
    for style in ["aclnn", "fused"] {
        let args = format!("--ascend-kernels={style}");
        assert_eq!(built(&args).read("a.titan"), built(&args).read("a.titan"));
    }
}

#[test]
fn device_and_style_reach_the_bytes() {
    let plain = built("").read("a.titan");
    let args = ["--ascend-kernels aclnn", "--target Ascend910_9391", "--titan.ascend_workspace_mib 512"];
    for args in args {
        assert_ne!(built(args).read("a.titan"), plain, "{args}");
    }
}

#[test]
fn the_workspace_is_that_of_the_key() {
    let folder = built("--titan.ascend_workspace_mib 512 --titan.world_size 1");
    let json: serde_json::Value = serde_json::from_str(&folder.run("inspect a.titan --json").stdout).unwrap();
    assert_eq!(json["plans"][0]["ascend"]["workspace_bytes"], serde_json::json!([512 << 20]));
    let huge = folder.run(&format!("{BUILD} --titan.ascend_workspace_mib 17592186044416"));
    assert_eq!(huge.code, 1);
    assert!(huge.stderr.contains("from 1 to 1048576"), "{}", huge.stderr);
}

/// With less memory than HCCL's buffers alone take nothing helps; with a little more, the advice does.
#[test]
fn the_change_that_is_advised_makes_it_fit() {
    let folder = Folder::with(TINY);
    let base = "check a.toml --target ascend910b3 --titan.world_size 2 --training.local_batch_size 8 --training.seq_len 128";
    let hopeless = folder.run(&format!("{base} --titan.memory_gib 0.3"));
    assert_eq!(hopeless.code, 3, "{}", hopeless.stdout);
    assert!(hopeless.stderr.contains("nor more ranks make it fit"), "{}", hopeless.stderr);
    let needed = |args: &str| {
        let ran = folder.run(&format!("{base} --job.print_config {args}"));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let total = ran.stdout.lines().find(|line| line.starts_with("total ")).unwrap().to_owned();
        total.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap()
    };
    let (before, after) = (needed(""), needed("--activation_checkpoint.mode full"));
    assert!(after < before, "{after} {before}");
    let gib = f64::midpoint(before, after) / 1024.0;
    let small = folder.run(&format!("{base} --titan.memory_gib {gib}"));
    assert_eq!(small.code, 3, "{}", small.stdout);
    let advice = small.stderr.rsplit(": add ").next().unwrap().trim();
    assert!(advice.starts_with("--"), "{}", small.stderr);
    let mended = folder.run(&format!("{base} --titan.memory_gib {gib} {advice}"));
    assert_eq!(mended.code, 0, "{advice}\n{}", mended.stderr);
}

/// Fast and small at any number of ranks.
#[test]
fn size_does_not_grow_with_ranks() {
    let folder = Folder::new();
    let example = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/llama3_8b.toml");
    std::fs::copy(example, folder.path.join("a.toml")).unwrap();
    let sizes = [8, 1024].map(|ranks| {
        let ran = folder.run(&format!("{BUILD} --titan.world_size {ranks}"));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(ran.stdout.contains("fits 60.9 GiB             yes"), "{}", ran.stdout);
        folder.read("a.titan").len()
    });
    assert!(sizes[1] <= sizes[0] + (1 << 14) && sizes[0] < 2 << 20, "{sizes:?}");
}

/// A device compiler that says its version, and makes of a kernel what `$in` and `$out` say.
fn with_compiler(make: &str) -> Folder {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::with(TINY);
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 'device compiler 7' && exit 0\nin=$1\n\
         while [ $# -gt 1 ]; do [ \"$1\" = -o ] && out=$2; shift; done\n{make}\n"
    );
    folder.write("compiler", script);
    let path = folder.path.join("compiler");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

#[test]
fn a_device_compiler_that_is_there_compiles_at_build() {
    let folder = with_compiler("(echo object of; cat \"$in\") > \"$out\"");
    let ran = folder.run_with(BUILD, "./compiler");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains(" generated kernels with device compiler 7\n"), "{}", ran.stderr);
    let bytes = folder.read("a.titan");
    let shown = folder.run("inspect a.titan").stdout;
    assert!(shown.contains("of MLIR, compiled, "), "{shown}");
    assert_eq!(folder.run_with(BUILD, "./compiler").code, 0);
    assert_eq!(folder.read("a.titan"), bytes);
    assert_ne!(built("").read("a.titan"), bytes);
    // Operators need no compiler.
    let operators = folder.run_with(&format!("{BUILD} --ascend-kernels aclnn"), "./missing");
    assert_eq!(operators.code, 0, "{}", operators.stderr);
}

#[test]
fn what_the_device_compiler_says_is_passed_on() {
    let folder = with_compiler("echo 'kernel.mlir:3:5: error: no such operation' >&2; exit 1");
    let ran = folder.run_with(BUILD, "./compiler");
    assert_eq!(ran.code, 1);
    for part in ["error[T0541]", "no such operation", " for Ascend910B3"] {
        assert!(ran.stderr.contains(part), "no {part} in {}", ran.stderr);
    }
    let missing = folder.run_with(BUILD, "./missing");
    assert!(missing.code == 1 && missing.stderr.contains("error[T0540]"), "{}", missing.stderr);
    assert!(missing.stderr.contains("help: TITAN_BISHENGIR names it"), "{}", missing.stderr);
    assert_eq!(folder.files(), ["a.toml", "compiler"]);
}
