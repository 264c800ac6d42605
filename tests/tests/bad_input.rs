//! Bad input: every case is a coded error that says what is wrong, the exit code tells whose command line it was, and nothing is written.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::ops::Range;
use std::process::Output;
use titan_ir::artifact::{Artifact, MANIFEST, Manifest, encode};
use titan_tests::programs::{TINY, Work, stderr};
use titan_tests::tensors::{draw_tokens, write_safetensors, write_tokens};

/// Bytes of the header before the section table, and of an entry of the table.
const FIXED_BYTES: usize = 24;
const ENTRY_BYTES: usize = 72;

/// Builds for one and two ranks, program text included.
fn built(name: &str) -> Work {
    let work = Work::new(name);
    let open = ["--emit-ir", "--parallelism.data_parallel_shard_degree", "-1", "--titan.ranks", "1,2"];
    work.build_with(TINY, &open);
    for rows in [1, 2] {
        let tokens = draw_tokens(4 * rows * 23, 77);
        write_tokens(&work.path(&format!("t{rows}.safetensors")), [4, rows, 23], &tokens);
    }
    work
}

/// Checks an output: exit code, the first line, and that the rest says `facts`.
fn check(case: &str, output: &Output, exit: i32, first: &str, facts: &[&str]) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(exit), "{case}: {said}");
    assert_eq!(said.lines().find(|l| l.starts_with("error")), Some(first), "{case}: {said}");
    for fact in facts {
        assert!(said.contains(fact), "{case}: `{fact}` is not in:\n{said}");
    }
}

/// Runs `titan-run` with two files to write, and checks that it fails as it should and writes nothing.
fn refused(work: &Work, args: &[&str], first: &str, facts: &[&str]) {
    let before = work.names();
    let files = ["--metrics-json", "m.jsonl", "--save-weights", "w.safetensors"];
    let asked: Vec<&str> = files.chunks(2).filter(|f| !args.contains(&f[0])).flatten().copied().collect();
    let output = work.titan_run(&[args, &asked].concat());
    check(&args.join(" "), &output, 1, first, facts);
    assert_eq!(work.names(), before, "{args:?} wrote something");
}

/// The sections of an artifact and where their bytes are.
fn sections(bytes: &[u8]) -> Vec<(String, Range<usize>)> {
    let number =
        |at: usize, len: usize| bytes[at..at + len].iter().rev().fold(0, |n, &b| n << 8 | usize::from(b));
    let entry = |i: usize| {
        let at = FIXED_BYTES + i * ENTRY_BYTES;
        let name = String::from_utf8(bytes[at..at + 24].to_vec()).unwrap().trim_end_matches('\0').to_owned();
        let start = number(at + 24, 8);
        (name, start..start + number(at + 32, 8))
    };
    (0..number(12, 4)).map(entry).collect()
}

#[test]
fn artifacts_with_a_flipped_bit() {
    let work = built("flipped");
    let whole = fs::read(work.path("run.titan")).unwrap();
    let sections = sections(&whole);
    let names: Vec<&str> = sections.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["manifest", "plan.1", "plan.2", "kernels.table", "kernels.image", "ir.text"]);
    let flipped = |at: usize, first: &str, facts: &[&str]| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(work.path("bad.titan"), bytes).unwrap();
        refused(&work, &["bad.titan", "--tokens", "t1.safetensors"], first, facts);
    };
    let damaged = |name: &str| {
        format!("error[T0604]: the artifact is damaged: the hash of section `{name}` does not agree")
    };
    fs::write(work.path("bad.titan"), "").unwrap();
    for (name, range) in &sections {
        for at in [range.start, usize::midpoint(range.start, range.end), range.end - 1] {
            flipped(at, &damaged(name), &[&format!("at: bad.titan, section {name}"), "titanc build"]);
        }
    }
    let table_end = FIXED_BYTES + sections.len() * ENTRY_BYTES;
    for at in [FIXED_BYTES, FIXED_BYTES + 30, table_end - 1, table_end, table_end + 31] {
        flipped(at, &damaged("header"), &[]);
    }
    let starts = sections.iter().map(|(_, range)| range.start).chain([whole.len()]);
    let ends = [table_end + 32].into_iter().chain(sections.iter().map(|(_, range)| range.end));
    for (end, start) in ends.zip(starts).filter(|(end, start)| end < start) {
        flipped(end, &damaged("padding"), &[]);
        flipped(start - 1, &damaged("padding"), &[]);
    }
    flipped(3, "error[T0601]: this is not a Titan artifact: it does not start with `TITANAOT`", &[]);
    let version = "error[T0602]: artifact format version is 257, this program reads version 1";
    flipped(9, &version.replace("257", "513"), &["build it again"]);
    flipped(8, &version.replace("257", "0"), &["build it again"]);
    flipped(15, "error[T0603]: the section table is cut short", &[]);
    let length = |n: usize| format!("error[T0603]: the file has {} bytes, its header says {n}", whole.len());
    flipped(16, &length(whole.len() ^ 1), &["copy it again"]);

    // The compiler reads artifacts with the same care.
    let mut bytes = whole.clone();
    bytes[sections[1].1.start] ^= 1;
    fs::write(work.path("bad.titan"), bytes).unwrap();
    check("inspect", &work.titanc(&["inspect", "bad.titan"]), 1, &damaged("plan.1"), &["bad.titan"]);
}

#[test]
fn artifacts_of_another_length() {
    let work = built("truncated");
    let whole = fs::read(work.path("run.titan")).unwrap();
    fs::write(work.path("bad.titan"), "").unwrap();
    let len = whole.len();
    for cut in [1, 23, 24, 100, 4096, len / 2, len - 4096, len - 1] {
        fs::write(work.path("bad.titan"), &whole[..cut]).unwrap();
        let first = match cut {
            0..24 => {
                "error[T0601]: this is not a Titan artifact: it does not start with `TITANAOT`".to_owned()
            }
            _ => format!("error[T0603]: the file has {cut} bytes, its header says {len}"),
        };
        refused(&work, &["bad.titan"], &first, &["at: bad.titan"]);
    }
    fs::write(work.path("bad.titan"), [&whole[..], b"x"].concat()).unwrap();
    let longer = format!("error[T0603]: the file has {} bytes, its header says {len}", len + 1);
    refused(&work, &["bad.titan"], &longer, &["at: bad.titan"]);
}

#[test]
fn files_that_are_no_artifacts() {
    let work = built("no artifact");
    fs::write(work.path("empty"), "").unwrap();
    fs::create_dir(work.path("folder")).unwrap();
    refused(
        &work,
        &["empty"],
        "error[T0601]: this is not a Titan artifact: the file is empty",
        &["at: empty"],
    );
    refused(&work, &["folder"], "error[T0600]: the artifact cannot be read: is a directory", &["at: folder"]);
    let missing = "error[T0600]: the artifact cannot be read: No such file or directory (os error 2)";
    refused(&work, &["nowhere"], missing, &["at: nowhere"]);
    let other = "error[T0601]: this is not a Titan artifact: it does not start with `TITANAOT`";
    refused(&work, &["run.toml"], other, &["at: run.toml", "give the file that `titanc build` wrote"]);
}

#[test]
fn artifacts_for_other_machines() {
    let work = built("machines");
    let whole = fs::read(work.path("run.titan")).unwrap();
    let rewritten = |change: &dyn Fn(&mut Manifest)| {
        let mut manifest = Artifact::parse(&whole).unwrap().manifest;
        change(&mut manifest);
        let mut sections: Vec<(String, Vec<u8>)> =
            sections(&whole).into_iter().map(|(name, range)| (name, whole[range].to_vec())).collect();
        assert_eq!(sections[0].0, MANIFEST);
        sections[0].1 = serde_json::to_vec(&manifest).unwrap();
        fs::write(work.path("other.titan"), encode(&sections)).unwrap();
    };
    let run = ["other.titan", "--tokens", "t1.safetensors"];
    // Rewritten without a change, the artifact is good.
    rewritten(&|_| {});
    assert!(work.titan_run(&run).status.success());
    rewritten(&|manifest| {
        manifest.target.name = "cpu-avx2048".to_owned();
        manifest.target.features.extend(["avx2048f".to_owned(), "avx2048bw".to_owned()]);
    });
    let lacks =
        "error[T0607]: the artifact was built for cpu-avx2048, this machine lacks avx2048f, avx2048bw";
    refused(&work, &run, lacks, &["at: other.titan", "--titan.target cpu-portable"]);
    rewritten(&|manifest| manifest.target.name = "ascend910b1".to_owned());
    let other = "error[T0608]: the artifact was built for ascend910b1, this program runs CPU plans";
    refused(&work, &run, other, &["--titan.target cpu"]);
}

#[test]
fn options_that_ask_for_what_is_not_there() {
    let work = built("options");
    fs::create_dir(work.path("folder")).unwrap();
    let refused = |args: &[&str], first: &str, facts: &[&str]| {
        refused(&work, &[&["run.titan", "--tokens", "t1.safetensors"][..], args].concat(), first, facts);
    };
    let rebuild = "help: rebuild it: titanc build run.toml --titan.world_size";
    let none = "error[T0606]: this artifact has no plan for 3 ranks, only for 1, 2";
    refused(&["--nodes", "3"], none, &[&format!("{rebuild} 3"), "at: run.titan"]);
    refused(&["--nproc-per-node", "3"], none, &[&format!("{rebuild} 3")]);
    let most = u64::MAX.to_string();
    let many = format!("error[T0606]: this artifact has no plan for {most} ranks, only for 1, 2");
    refused(&["--nodes", &most, "--nproc-per-node", "3"], &many, &[]);
    let facts = ["help: run it without `--device ascend`, or rebuild it with `--target Ascend910B3`"];
    refused(&["--device", "ascend"], "error[T0608]: the artifact was built for the CPU", &facts);
    let steps = "error[T0702]: --steps 5, but the artifact's learning rate schedule has 4";
    refused(&["--steps", "5"], steps, &["--training.steps 5"]);
    let [missing, folder] = ["No such file or directory (os error 2)", "is a directory"];
    let metrics =
        |path: &str, why: &str| format!("error[T0704]: `{path}` of --metrics-json cannot be written: {why}");
    refused(&["--metrics-json", "nowhere/m"], &metrics("nowhere/m", missing), &[]);
    refused(&["--metrics-json", "folder"], &metrics("folder", "Is a directory (os error 21)"), &[]);
    let weights =
        |path: &str, why: &str| format!("error[T0843]: `{path}` of --save-weights cannot be written: {why}");
    refused(&["--save-weights", "nowhere/w"], &weights("nowhere/w", missing), &[]);
    refused(&["--save-weights", "folder"], &weights("folder", folder), &[]);
    refused(&["--save-weights", "/dev/null"], &weights("/dev/null", "it is not a file"), &[]);
    refused(&["--save-weights", "run.toml/w"], &weights("run.toml/w", "Not a directory (os error 20)"), &[]);

    let before = work.names();
    for args in
        [&[][..], &["run.titan", "--nodes", "0"], &["run.titan", "--steps", "-1"], &["run.titan", "--fast"]]
    {
        let output = work.titan_run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
    }
    assert_eq!(work.names(), before);
}

#[test]
fn token_files_that_do_not_fit() {
    let work = built("tokens");
    let refused = |tokens: &str, ranks: &str, first: &str, facts: &[&str]| {
        refused(&work, &["run.titan", "--nodes", ranks, "--tokens", tokens], first, facts);
    };
    let path = |name: &str| work.path(name);
    let fail_together = "note: rank 0 failed, so all 2 stopped";
    let shape = "note: the run needs I32 or I64 [micro-batches, 1, 23]";
    refused(
        "t2.safetensors",
        "1",
        "error[T0830]: token file `t2.safetensors` holds I32 [4, 2, 23]",
        &[shape],
    );
    let two = &["[micro-batches, 2, 23]", fail_together];
    refused("t1.safetensors", "2", "error[T0830]: token file `t1.safetensors` holds I32 [4, 1, 23]", two);
    write_tokens(&path("long"), [4, 1, 24], &draw_tokens(4 * 24, 77));
    refused("long", "1", "error[T0830]: token file `long` holds I32 [4, 1, 24]", &[shape]);
    write_safetensors(&path("f32"), &[("tokens", "F32", &[4, 1, 23], &[0; 4 * 4 * 23])]);
    refused("f32", "1", "error[T0830]: token file `f32` holds F32 [4, 1, 23]", &[shape]);
    write_safetensors(&path("ids"), &[("ids", "I32", &[4, 1, 23], &[0; 4 * 4 * 23])]);
    refused("ids", "1", "error[T0830]: token file `ids` has no tensor named `tokens`", &[shape]);
    write_tokens(&path("short"), [3, 1, 23], &draw_tokens(3 * 23, 77));
    refused(
        "short",
        "1",
        "error[T0831]: token file `short` has 3 micro-batches, the run takes 4",
        &["fewer steps"],
    );
    refused("run.toml", "1", "error[T0840]: `run.toml` cannot be read as safetensors: header too large", &[]);
    let mut tokens = draw_tokens(4 * 23, 77);
    for id in [77, -1] {
        tokens[22] = id;
        write_tokens(&path("ids"), [4, 1, 23], &tokens);
        let first = format!("error[T0822]: token {id} is outside the model's vocabulary of 77");
        refused("ids", "1", &first, &["at: ids: tokens[0, 0, 22]"]);
    }
}

#[test]
fn weights_that_do_not_fit() {
    let work = built("weights");
    let start = ["run.titan", "--tokens", "t1.safetensors", "--steps", "0", "--save-weights", "good"];
    assert!(work.titan_run(&start).status.success());
    let refused = |weights: &str, ranks: &str, first: &str, facts: &[&str]| {
        let tokens = format!("t{ranks}.safetensors");
        let args = ["run.titan", "--nodes", ranks, "--tokens", &tokens, "--init-from", weights];
        refused(&work, &args, first, facts);
    };
    let good = fs::read(work.path("good")).unwrap();
    let header = 8 + usize::try_from(u64::from_le_bytes(good[..8].try_into().unwrap())).unwrap();
    let edited = |from: &str, to: &str| {
        assert_eq!(from.len(), to.len());
        let text = std::str::from_utf8(&good[8..header]).unwrap();
        assert!(text.contains(from), "{text}");
        let bytes = [&good[..8], text.replacen(from, to, 1).as_bytes(), &good[header..]].concat();
        fs::write(work.path("bad"), bytes).unwrap();
    };
    let mismatch = "error[T0841]: the tensors of `bad` are not those of the model";
    edited("layers.1.ffn_norm.weight", "layers.1.ffn_nose.weight");
    let facts = ["1 missing: layers.1.ffn_norm.weight", "1 not in the model: layers.1.ffn_nose.weight"];
    refused("bad", "1", mismatch, &facts);
    refused("bad", "2", mismatch, &[&facts[..], &["note: rank 0 failed, so all 2 stopped"]].concat());
    edited("[77,36]", "[36,77]");
    let facts = ["1 of another shape: ", " is [36, 77], the model needs [77, 36]"];
    refused("bad", "1", mismatch, &facts);
    fs::write(work.path("bad"), &good[..good.len() - 1]).unwrap();
    refused(
        "bad",
        "1",
        "error[T0840]: `bad` cannot be read as safetensors: incomplete metadata, file not fully covered",
        &[],
    );
    refused("run.toml", "1", "error[T0840]: `run.toml` cannot be read as safetensors: header too large", &[]);
    refused(
        "no",
        "1",
        "error[T0840]: `no` cannot be read as safetensors: No such file or directory (os error 2)",
        &[],
    );
}

#[test]
fn datasets_and_tokenizers_that_are_not_there() {
    let work = built("datasets");
    fs::create_dir(work.path("empty")).unwrap();
    let mut gzip = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    gzip.extend([0x55; 40]);
    fs::write(work.path("bad.json.gz"), gzip).unwrap();
    let refused = |args: &[&str], first: &str, facts: &[&str]| {
        for (ranks, note) in [("1", ""), ("2", "rank 0 failed, so all 2 stopped")] {
            // What all ranks share is opened before there are ranks.
            let note = if args[0] == "--hf-assets-path" { "" } else { note };
            let args = [&["run.titan", "--nodes", ranks][..], args].concat();
            refused(&work, &args, first, &[facts, &[note]].concat());
        }
    };
    refused(
        &["--hf-assets-path", "no"],
        "error[T0820]: the tokenizer folder `no` is not a folder",
        &["tokenizer.json"],
    );
    let holds = "error[T0820]: the tokenizer folder `empty` holds no tokenizer";
    refused(&["--hf-assets-path", "empty"], holds, &["tokenizer.json"]);
    let none = "error[T0802]: `empty` holds no training text";
    refused(&["--dataset-path", "empty"], none, &[".jsonl", ".gz"]);
    refused(
        &["--dataset-path", "bad.json.gz"],
        "error[T0804]: `bad.json.gz` is not a whole gzip file: corrupt deflate stream",
        &[],
    );
    // The vocabulary of 77 is too small for the tokenizer that is shipped.
    let outside = "error[T0822]: token 259 (`he`) is outside the model's vocabulary of 77";
    refused(&["--threads", "1"], outside, &["titan.model_args.vocab_size"]);
}

#[test]
fn configurations() {
    let work = Work::new("configurations");
    let titanc = |toml: &str, more: &[&str], exit: i32, first: &str, facts: &[&str]| {
        fs::write(work.path("bad.toml"), toml).unwrap();
        let output = work.titanc(&[&["build", "bad.toml"], more].concat());
        check(toml, &output, exit, first, facts);
        assert_eq!(work.names(), ["bad.toml"], "{toml}: something was written");
    };
    let training = |line: &str| TINY.replace("seq_len = 22", line);
    let unknown = "error[T0402]: unknown key `seq_length` in [training]";
    titanc(&training("seq_length = 22"), &[], 1, unknown, &["bad.toml:21:1", "did you mean `seq_len`?"]);
    let integer = "error[T0404]: `training.seq_len` must be an integer, found the string \"22\"";
    titanc(&training("seq_len = \"22\""), &[], 1, integer, &["bad.toml:21:11", "write seq_len = 22"]);
    let odd = "error[T0422]: `training.seq_len = 23` is not a multiple of 2";
    titanc(&training("seq_len = 23"), &[], 1, odd, &["bad.toml:21:11", "the nearest are 22 and 24"]);
    let section = "error[T0403]: unknown section [trainin]";
    titanc(&TINY.replace("[training]", "[trainin]"), &[], 1, section, &["did you mean [training]?"]);
    titanc("[model", &[], 1, "error[T0401]: unclosed table, expected `]`", &["bad.toml:1:7"]);
    let heads = "error[T0440]: n_heads 3 is not a multiple of n_kv_heads 2";
    titanc(&TINY.replace("n_kv_heads = 1", "n_kv_heads = 2"), &[], 1, heads, &["titan.model_args"]);
    let tensor_parallel = "error[T0409]: `parallelism.tensor_parallel_degree = 2` asks for tensor parallelism, which titanc does not support yet";
    titanc(TINY, &["--parallelism.tensor_parallel_degree=2"], 1, tensor_parallel, &[]);
    let option = "error[T0910]: unknown option `--training.seq_length`";
    titanc(TINY, &["--training.seq_length=22"], 2, option, &["did you mean --training.seq_len?"]);
    let folder = "error[T0610]: cannot write .: Is a directory (os error 21)";
    titanc(TINY, &["--titan.world_size=1", "-o", "."], 1, folder, &[]);
    titanc(TINY, &["--fast"], 2, "error: unexpected argument '--fast' found", &[]);
}
