//! `--section.key value` arguments.

use super::{args, codes};
use crate::config::{Config, Diags, config_file, parse, split_overrides};

fn with(line: &str) -> Result<(Config, Diags), Diags> {
    parse("train.toml", "[training]\nsteps = 1000\nseq_len = 64\n", &args(line))
}

#[test]
fn every_form_is_read() {
    let (config, warnings) = with(
        "--training.steps 20 --training.global_batch_size -1 --optimizer.lr=3e-4 --training.max-norm 2 \
         --job.print_config --checkpoint.no_initial_load_model_only --checkpoint.no-last-save-model-only \
         --training.dataloader.num_workers 2 --compile.components model,loss --titan.ranks 2,4 \
         --lr_scheduler.warmup_steps 1_0 --lr_scheduler.decay_ratio None --training.dataset_path=a=b \
         --titan.model_args.dim 64 --titan.model_args.rope_theta=5e5 --titan.model-args.tied true \
         --titan.model_args.kind relu --job.config_file x.toml --job.description=",
    )
    .unwrap();
    assert_eq!(warnings.to_string(), "");
    assert_eq!((config.training.steps, config.training.seq_len), (20, 64));
    assert_eq!((config.training.global_batch_size, config.training.max_norm), (-1, 2.0));
    assert_eq!(config.optimizer.lr, 3e-4);
    assert!(config.job.print_config);
    assert!(!config.checkpoint.initial_load_model_only && !config.checkpoint.last_save_model_only);
    assert_eq!(config.training_dataloader.num_workers, 2);
    assert_eq!(config.compile.components, ["model", "loss"]);
    assert_eq!(config.titan.ranks, [2, 4]);
    assert_eq!(config.lr_scheduler.warmup_steps, 10);
    assert_eq!(config.lr_scheduler.decay_ratio, None);
    assert_eq!(config.training.dataset_path.as_deref(), Some("a=b"));
    assert_eq!(config.job.description, "");
    let model_args: Vec<_> =
        config.model_args().iter().map(|(name, arg)| format!("{name}={}", arg.value)).collect();
    assert_eq!(model_args, ["dim=64", "kind=\"relu\"", "rope_theta=500000.0", "tied=true"]);
}

#[test]
fn the_last_override_wins_and_its_place_is_known() {
    let (config, _) = with("--training.steps 300 --training.steps=400").unwrap();
    assert_eq!(config.training.steps, 400);
    let span = config.span("training.steps").unwrap();
    assert_eq!((&*span.file, span.column, span.len), ("command line", 18, 3));
    assert_eq!(config.span("training.seq_len").unwrap().line, 3);
    assert_eq!(config.span("training.dataset"), None);
}

#[test]
fn equal_settings_give_equal_dumps() {
    let (by_flag, _) = with("--training.dataset c4 --job.config_file a.toml").unwrap();
    let text = "[training]\nsteps = 1_000\nseq_len = 0x40\ndataset = 'c4'";
    let (by_file, _) = parse("other.toml", text, &[]).unwrap();
    assert_eq!(serde_json::to_string(&by_flag).unwrap(), serde_json::to_string(&by_file).unwrap());
}

#[test]
fn mistakes_are_shown_in_the_argument() {
    insta::assert_snapshot!(
        with(
            "--training.step 5 --training.seq_len abc --training.local_batch_size=0 --compile.enable=true \
             --training.enable_cpu_offload true --optimizer.name SGD --titan.ranks 1,x \
             --parallelism.tensor_parallel_degree 8 --training.batch_size 4 --steps 4 --optimizer.lr \
             --training.seed 42 --model.converters float8,nope --training.steps=99999999999999999999"
        )
        .unwrap_err()
    );
}

#[test]
fn usage_errors_have_codes_of_the_command_line() {
    let found = |line: &str| codes(&with(line).unwrap_err());
    assert_eq!(found("--no.such 1"), ["T0910"]);
    assert_eq!(found("--training.steps"), ["T0911"]);
    assert_eq!(found("--training.steps --compile.enable"), ["T0911"]);
    assert_eq!(found("--compile.enable=1"), ["T0912"]);
    assert_eq!(found("stray"), ["T0913"]);
    assert_eq!(found("--compile.enable false"), ["T0913"]);
    assert_eq!(found("--training.no_steps"), ["T0910"]);
}

#[test]
fn overrides_are_told_from_other_arguments() {
    let line = args(
        "build a.toml --training.steps 5 -o b --compile.enable c.toml --x=1 --optimizer.lr=1 --titan.keep_ir",
    );
    let (others, overrides) = split_overrides(&line);
    assert_eq!(others.join(" "), "build a.toml -o b c.toml --x=1");
    assert_eq!(overrides.join(" "), "--training.steps 5 --compile.enable --optimizer.lr=1 --titan.keep_ir");
    assert_eq!(config_file(&args("--job.config_file a --job.config-file=b --training.steps 1")), Some("b"));
    assert_eq!(config_file(&args("--training.steps 1")), None);
}
