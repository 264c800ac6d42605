//! Every section and key of torchtitan v0.2.2, and `[titan]`: the one place that knows them. Parsing, overrides, defaults,
//! suggestions, the key listing and the resolved dump all read this table.
//! Source: torchtitan v0.2.2 `job_config.py`, with the fault-tolerance extension and the key v0.2.0 still had.

use super::choices::{
    AcMode, AscendKernels, DecayType, OptimizerName, Precision, ReducePrecision, ReshardPolicy, SelectiveAc,
};
use super::schema::Check::{
    Any, BelowOne, Fraction, Min, MinusOneOr, NameOf, NotNegative, OneOf, Positive, Text, Within,
};
use super::schema::Support::{AtRest, Observes, Refused, RefusedValue, Used};
use super::schema::{Key, sections};
use super::value::{KeyType, Value};
use super::values::Values;

const LINE: &str = "the step line and --metrics-json show the values";
const ONE: &str = "set it to 1; data_parallel_shard_degree and data_parallel_replicate_degree use the ranks";
const ONE_MORE_DATA: &str =
    "set it to 1; its ranks then take batches of their own: set training.global_batch_size to keep the batch";
const NO_PYTHON: &str =
    "remove it; models are written in Rust, and [titan.model_args] changes their arguments";
const NO_CHECKPOINT: &str = "set it to false; `titan-run --init-from FILE.safetensors` starts from weights";

/// Names `model.converters` accepts: the last two are the old names of the first and third.
const CONVERTERS: &[&str] = &[
    "quantize.linear.float8",
    "quantize.grouped_mm.float8",
    "quantize.linear.mx",
    "quantize.grouped_mm.mx",
    "float8",
    "mx",
];
const CHECKPOINT_PARTS: &[&str] = &["model", "optimizer", "lr_scheduler", "dataloader", "train_state"];
const TARGETS: &[&str] = &[
    "cpu",
    "cpu-avx512",
    "cpu-avx2",
    "cpu-portable",
    "Ascend910B1",
    "Ascend910B2",
    "Ascend910B2C",
    "Ascend910B3",
    "Ascend910B4",
    "Ascend910_9391",
    "Ascend910_9392",
    "Ascend910_9381",
    "Ascend910_9382",
    "Ascend910_9372",
    "Ascend910_9362",
    "Ascend950PR_9599",
    "Ascend950PR_9579",
    "Ascend950DT_9591",
    "Ascend950DT_95A1",
];

sections! {
    /// `[job]`: where outputs go, and what is printed.
    job: Job = "job" {
        config_file: Option<String> = (), Any, Used, "The TOML file itself; only as --job.config_file.";
        dump_folder: String = "./outputs", Any, Used, "Root of every output.";
        description: String = "default job", Any, Used, "Printed as `Starting job: ...`.";
        print_config: bool = false, Any, Used, "Prints the resolved configuration as JSON.";
        save_config_file: Option<String> = (), Any,
            Observes("saving the configuration", "`titanc inspect ARTIFACT --json` shows it"),
            "File below dump_folder for the resolved configuration.";
        custom_config_module: String = "", Any, Refused("a Python schema extension", NO_PYTHON), "Python module with more keys.";
    }

    /// `[profiling]`: traces and memory snapshots.
    profiling: Profiling = "profiling" {
        enable_profiling: bool = false, Any, Observes("Chrome traces", "`titan-run --profile` shows where a step goes"),
            "Writes traces.";
        save_traces_folder: String = "profile_traces", Any, AtRest, "Folder of the traces below dump_folder.";
        profile_freq: u64 = 10, Any, AtRest, "Steps in one profiling cycle.";
        profiler_active: u64 = 1, Any, AtRest, "Recorded steps of a cycle.";
        profiler_warmup: u64 = 3, Any, AtRest, "Warm-up steps of a cycle.";
        enable_memory_snapshot: bool = false, Any,
            Observes("memory snapshots", "`titanc inspect ARTIFACT` shows the whole memory plan"), "Writes memory snapshots.";
        save_memory_snapshot_folder: String = "memory_snapshot", Any, AtRest, "Folder of the snapshots below dump_folder.";
    }

    /// `[metrics]`: what is logged, and how often.
    metrics: Metrics = "metrics" {
        log_freq: u64 = 10, Min(1), Used, "Steps from one printed line to the next; step 1 is always printed.";
        enable_tensorboard: bool = false, Any, Observes("TensorBoard", LINE), "Logs to TensorBoard.";
        disable_color_printing: bool = false, Any, Used, "Prints the step line without colours.";
        save_tb_folder: String = "tb", Any, AtRest, "Folder of TensorBoard files below dump_folder.";
        save_for_all_ranks: bool = false, Any, AtRest, "Logs on every rank, not on one only.";
        enable_wandb: bool = false, Any, Observes("Weights & Biases", LINE), "Logs to Weights & Biases.";
    }

    /// `[model]`: which model, and its assets.
    model: Model = "model" {
        name: String = "llama3", Any, Used, "Name in the model registry.";
        flavor: String = "debugmodel", Any, Used, "Size of the model.";
        hf_assets_path: String = "./tests/assets/tokenizer", Any, Used, "Folder with tokenizer.json, and weights if any.";
        converters: Vec<String> = [""; 0], OneOf(CONVERTERS),
            Refused("low-precision training (float8, MX)", "remove the converters; bfloat16 is training.mixed_precision_param"),
            "Changes applied to the model, in order.";
        print_after_conversion: bool = false, Any,
            Observes("printing the model", "`titanc inspect ARTIFACT` shows its program"), "Prints the model after conversion.";
    }

    /// `[optimizer]`: the optimizer and its rates.
    optimizer: Optimizer = "optimizer" {
        name: OptimizerName = "AdamW", Any, Used, "Which optimizer.";
        lr: f64 = 8e-4, NotNegative, Used, "Learning rate before the schedule.";
        beta1: f64 = 0.9, BelowOne, Used, "Decay of the first moment.";
        beta2: f64 = 0.95, BelowOne, Used, "Decay of the second moment.";
        eps: f64 = 1e-8, NotNegative, Used, "Added to the root of the second moment.";
        weight_decay: f64 = 0.1, NotNegative, Used, "Decay of every parameter, norms and embeddings included.";
        implementation: String = "fused", OneOf(&["for-loop", "foreach", "fused"]), AtRest, "How PyTorch runs the optimizer.";
        early_step_in_backward: bool = false, Any,
            Refused("optimizer steps inside the backward pass", "set it to false; gradient memory is planned either way"),
            "Updates each parameter as soon as its gradient is known, without clipping.";
    }

    /// `[lr_scheduler]`: warm-up, stable phase and decay of the learning rate.
    lr_scheduler: LrScheduler = "lr_scheduler" {
        warmup_steps: u64 = 200, Any, Used, "Steps of linear warm-up.";
        decay_ratio: Option<f64> = (), Fraction, Used, "Share of the steps that decays; None: all after warm-up.";
        decay_type: DecayType = "linear", Any, Used, "Curve of the decay.";
        min_lr_factor: f64 = 0.0, Fraction, Used, "Factor at the end of the decay.";
        total_steps: Option<u64> = (), Min(1), Used, "Steps the schedule spans; None: training.steps.";
    }

    /// `[training]`: data, batch, length and precision.
    training: Training = "training" {
        dataset: String = "c4_test", OneOf(&["c4_test", "c4", "c4_validation"]), Used, "Name of the dataset.";
        dataset_path: Option<String> = (), Any, Used, "Local path in place of the dataset's own.";
        local_batch_size: u64 = 8, Min(1), Used, "Sequences per data-parallel rank and microbatch.";
        global_batch_size: i64 = -1, Any, Used, "Sequences per step; negative: local_batch_size x data-parallel degree.";
        seq_len: u64 = 2048, Min(1), Used, "Tokens in one sequence.";
        max_norm: f64 = 1.0, Positive, Used, "Norm the gradient is clipped to.";
        steps: u64 = 10_000, Min(1), Used, "The last step.";
        enable_cpu_offload: bool = false, Any,
            Refused("offload of parameters to the host", "set it to false; a higher shard degree saves memory too"),
            "Keeps parameters, gradients and optimizer state on the host.";
        dtype: Precision = "float32", Any,
            Refused("bfloat16 master weights", "set it to \"float32\"; mixed_precision_param gives bfloat16 compute"),
            "Storage of parameters, gradients and optimizer state.";
        mixed_precision_param: Precision = "bfloat16", Any, Used, "Precision of the computation.";
        mixed_precision_reduce: ReducePrecision = "float32", Any, Used, "Precision gradients are reduced in.";
        gc_freq: u64 = 50, Any, AtRest, "Steps from one Python garbage collection to the next.";
        gc_debug: bool = false, Any, AtRest, "Python garbage collection debugging.";
    }

    /// `[training.dataloader]`: how Python loads data.
    training_dataloader: TrainingDataloader = "training.dataloader" {
        num_workers: u64 = 0, Any, AtRest, "Loader processes.";
        persistent_workers: bool = false, Any, AtRest, "Keeps them for all epochs.";
        pin_memory: bool = false, Any, AtRest, "Loads into pinned memory.";
        prefetch_factor: Option<u64> = (), Any, AtRest, "Batches loaded ahead by each process.";
    }

    /// `[parallelism]`: how ranks share the work.
    parallelism: Parallelism = "parallelism" {
        data_parallel_replicate_degree: u64 = 1, Min(1), Used, "Copies of the weights.";
        enable_compiled_autograd: bool = false, Any, AtRest, "Of v0.2.0: backward is always compiled.";
        data_parallel_shard_degree: i64 = -1, MinusOneOr(1), Used, "Ranks that share one copy; -1: all that remain.";
        fsdp_reshard_after_forward: ReshardPolicy = "default", Any, Used, "Whether weights are gathered again for backward.";
        tensor_parallel_degree: u64 = 1, Min(1), Refused("tensor parallelism", ONE_MORE_DATA), "Ranks that share each matrix.";
        disable_loss_parallel: bool = false, Any, AtRest, "Gathers the logits under tensor parallelism.";
        enable_async_tensor_parallel: bool = false, Any, AtRest, "Overlaps tensor-parallel communication.";
        pipeline_parallel_degree: u64 = 1, Min(1), Refused("pipeline parallelism", ONE_MORE_DATA), "Ranks that share the layers.";
        module_fqns_per_model_part: Option<Vec<Vec<String>>> = (), Any, AtRest, "Modules of each pipeline stage.";
        pipeline_parallel_first_stage_less_layers: u64 = 1, Any, AtRest, "Layers the embedding counts as.";
        pipeline_parallel_last_stage_less_layers: u64 = 1, Any, AtRest, "Layers the norm and output count as.";
        pipeline_parallel_layers_per_stage: Option<u64> = (), Any, AtRest, "Layers of a pipeline stage.";
        pipeline_parallel_schedule: String = "1F1B", Any, AtRest, "Order of the microbatches.";
        pipeline_parallel_schedule_csv: Option<String> = "", Any, AtRest, "File with a pipeline schedule.";
        pipeline_parallel_microbatch_size: u64 = 1, Any, AtRest, "Sequences in a pipeline microbatch.";
        pipeline_parallel_expert_parallel_overlap: bool = true, Any, AtRest, "Overlaps expert communication in DualPipeV.";
        context_parallel_degree: u64 = 1, Min(1), Refused("context parallelism", ONE_MORE_DATA), "Ranks that share each sequence.";
        context_parallel_load_balancer: Option<String> = "headtail", OneOf(&["headtail", "ptrr"]), AtRest,
            "How context parallelism splits a sequence.";
        context_parallel_rotate_method: String = "allgather", OneOf(&["allgather", "alltoall"]), AtRest,
            "How context parallelism exchanges keys and values.";
        expert_parallel_degree: u64 = 1, Min(1), Refused("expert parallelism", ONE), "Ranks that share the experts.";
        expert_tensor_parallel_degree: u64 = 1, Min(1), Refused("expert tensor parallelism", ONE),
            "Ranks that share each expert.";
        expert_parallel_comm_backend: String = "standard", OneOf(&["standard", "deepep"]), AtRest,
            "Library for expert communication.";
    }

    /// `[checkpoint]`: saving and loading the training state.
    checkpoint: Checkpoint = "checkpoint" {
        enable: bool = false, Any, Refused("checkpoints", NO_CHECKPOINT), "Saves and loads checkpoints.";
        enable_ft_dataloader_checkpoints: bool = true, Any, AtRest, "Saves loader state under TorchFT.";
        folder: String = "checkpoint", Any, AtRest, "Folder below dump_folder.";
        interval: u64 = 500, Min(1), AtRest, "Steps from one checkpoint to the next.";
        initial_load_path: Option<String> = (), Any, AtRest, "Checkpoint to start from.";
        initial_load_model_only: bool = true, Any, AtRest, "Loads only the weights at the start.";
        initial_load_in_hf: bool = false, Any, AtRest, "The checkpoint to start from is in Hugging Face form.";
        initial_load_in_hf_quantized: bool = false, Any, AtRest, "It is quantized.";
        last_save_model_only: bool = true, Any, AtRest, "Saves only the weights at the end.";
        last_save_in_hf: bool = false, Any, AtRest, "Saves them in Hugging Face form.";
        export_dtype: String = "float32", OneOf(&["float16", "bfloat16", "float32"]), AtRest, "Precision of that save.";
        async_mode: String = "disabled", OneOf(&["disabled", "async", "async_with_pinned_mem"]), AtRest,
            "Saves while training goes on.";
        keep_latest_k: u64 = 10, Any, AtRest, "Checkpoints kept; 0: all.";
        load_step: i64 = -1, MinusOneOr(0), AtRest, "Step to load; -1: the latest.";
        exclude_from_loading: Vec<String> = [""; 0], OneOf(CHECKPOINT_PARTS), AtRest, "Parts not loaded.";
        enable_first_step_checkpoint: bool = false, Any, AtRest, "Saves after step 1 too.";
        create_seed_checkpoint: bool = false, Any, Refused("seed checkpoints", NO_CHECKPOINT), "Saves initial weights, then stops.";
        load_only: bool = false, Any, AtRest, "Never saves.";
    }

    /// `[activation_checkpoint]`: what is recomputed in the backward pass instead of kept.
    activation_checkpoint: ActivationCheckpoint = "activation_checkpoint" {
        mode: AcMode = "selective", Any,
            RefusedValue("memory_budget", "activation checkpointing by memory budget", "use \"selective\" or \"full\""),
            "What is recomputed.";
        selective_ac_option: SelectiveAc = "2", Text(|s| SelectiveAc::parse(s).is_some(), "\"op\", or digits in quotes"), Used,
            "Every n-th block, or `op`: by operator.";
        per_op_sac_force_recompute_mm_shapes_by_fqns: Vec<String> = ["moe.router.gate"], Any, Used,
            "Linears whose products `op` always recomputes.";
        early_stop: bool = false, Any, AtRest, "Ends recomputation once nothing more is needed.";
        memory_budget: f64 = 0.5, Fraction, AtRest, "Share of memory in mode memory_budget.";
        visualize_memory_budget_pareto: bool = false, Any, AtRest, "Draws memory against time in mode memory_budget.";
        preserve_rng_state: bool = true, Any, AtRest, "Recomputes with the same random numbers, which is always so here.";
        determinism_check: String = "default", Any, AtRest, "Compares recomputed tensors.";
        debug: bool = false, Any, AtRest, "Debugging of recomputation.";
    }

    /// `[compile]`: torch.compile; Titan always compiles.
    compile: Compile = "compile" {
        enable: bool = false, Any, AtRest, "Compiles the model.";
        components: Vec<String> = ["model", "loss"], OneOf(&["model", "loss"]), AtRest, "What is compiled.";
        backend: String = "inductor", Any, AtRest, "What compiles it.";
    }

    /// `[quantize.linear.float8]`: in effect with its converter only.
    quantize_linear_float8: QuantizeLinearFloat8 = "quantize.linear.float8" {
        enable_fsdp_float8_all_gather: bool = false, Any, AtRest, "Gathers weights in float8.";
        precompute_float8_dynamic_scale_for_fsdp: bool = false, Any, AtRest, "Computes all scales at once.";
        recipe_name: Option<String> = (), OneOf(&["tensorwise", "rowwise", "rowwise_with_gw_hp"]), AtRest, "How values are scaled.";
        filter_fqns: Vec<String> = [""; 0], Any, AtRest, "Modules left as they are.";
        emulate: bool = false, Any, AtRest, "Emulates float8 arithmetic.";
    }

    /// `[quantize.linear.mx]`: in effect with its converter only.
    quantize_linear_mx: QuantizeLinearMx = "quantize.linear.mx" {
        mxfp8_dim1_cast_kernel_choice: String = "triton", OneOf(&["triton", "cuda", "torch"]), AtRest, "Kernel of the cast.";
        recipe_name: String = "mxfp8_cublas", Any, AtRest, "How values are scaled.";
        filter_fqns: Vec<String> = ["output"], Any, AtRest, "Modules left as they are.";
    }

    /// `[quantize.grouped_mm.float8]`: in effect with its converter only.
    quantize_grouped_mm_float8: QuantizeGroupedMmFloat8 = "quantize.grouped_mm.float8" {
        fqns: Vec<String> = [""; 0], Any, AtRest, "Modules converted.";
    }

    /// `[quantize.grouped_mm.mx]`: in effect with its converter only.
    quantize_grouped_mm_mx: QuantizeGroupedMmMx = "quantize.grouped_mm.mx" {
        recipe_name: String = "mxfp8", Any, AtRest, "How values are scaled.";
        fqns: Vec<String> = [""; 0], Any, AtRest, "Modules converted.";
    }

    /// `[comm]`: communication libraries.
    comm: Comm = "comm" {
        init_timeout_seconds: u64 = 300, Any, AtRest, "Patience until step 1 is done.";
        train_timeout_seconds: u64 = 100, Any, AtRest, "Patience after step 1.";
        trace_buf_size: u64 = 20_000, Any, AtRest, "Entries of the flight recorder.";
        save_traces_folder: String = "comm_traces", Any, AtRest, "Its folder below dump_folder.";
        save_traces_file_prefix: String = "rank_", Any, AtRest, "Prefix of its files.";
        mode: String = "default", OneOf(&["default", "fake_backend", "local_tensor"]),
            Refused("simulated communication", "remove it; `titanc check` validates shapes and memory with no device at all"),
            "Simulates the other ranks.";
    }

    /// `[memory_estimation]`: a separate torchtitan script.
    memory_estimation: MemoryEstimation = "memory_estimation" {
        enable: bool = false, Any, Observes("memory estimation", "every build prints the exact memory plan"), "Estimates memory.";
        disable_fake_mode: bool = false, Any, AtRest, "Estimates with real tensors.";
    }

    /// `[fault_tolerance]`: TorchFT, with the keys of its extension.
    fault_tolerance: FaultTolerance = "fault_tolerance" {
        enable: bool = false, Any, Refused("fault tolerance (TorchFT)", "set it to false"), "Trains in replica groups that may fail.";
        process_group: String = "gloo", Any, AtRest, "Library between groups.";
        process_group_timeout_ms: u64 = 10_000, Any, AtRest, "Patience between groups.";
        replica_id: u64 = 0, Any, AtRest, "This group.";
        group_size: u64 = 0, Any, AtRest, "Number of groups.";
        min_replica_size: u64 = 1, Any, AtRest, "Groups that must be alive.";
        semi_sync_method: Option<String> = (), OneOf(&["local_sgd", "diloco"]), AtRest, "Training between synchronisations.";
        sync_steps: u64 = 5, Any, AtRest, "Steps from one synchronisation to the next.";
        should_quantize: bool = false, Any, AtRest, "Quantizes what is synchronised.";
        fragment_sync_delay: u64 = 0, Any, AtRest, "Steps a synchronisation may take.";
        fragment_update_alpha: f64 = 0.0, Fraction, AtRest, "Share of the local weights kept.";
        module_fqns_per_model_fragment: Vec<Vec<String>> = [[""; 0]; 0], Any, AtRest, "Modules of each fragment.";
        num_fragments: u64 = 1, Any, AtRest, "Fragments synchronised apart.";
    }

    /// `[experimental]`: extensions in Python.
    experimental: Experimental = "experimental" {
        custom_import: String = "", Any, Refused("importing a Python module", NO_PYTHON), "Python module imported first.";
    }

    /// `[validation]`: loss on other data.
    validation: Validation = "validation" {
        enable: bool = false, Any, Refused("validation", "set it to false"), "Validates.";
        dataset: String = "c4_validation", Any, AtRest, "Name of the dataset.";
        dataset_path: Option<String> = (), Any, AtRest, "Local path in place of the dataset's own.";
        local_batch_size: u64 = 8, Any, AtRest, "Sequences per data-parallel rank.";
        seq_len: u64 = 2048, Any, AtRest, "Tokens in one sequence.";
        freq: u64 = 10, Min(1), AtRest, "Steps from one validation to the next.";
        steps: i64 = -1, MinusOneOr(1), AtRest, "Batches of one validation; -1: all.";
    }

    /// `[validation.dataloader]`: how Python loads data.
    validation_dataloader: ValidationDataloader = "validation.dataloader" {
        num_workers: u64 = 0, Any, AtRest, "Loader processes.";
        persistent_workers: bool = false, Any, AtRest, "Keeps them for all epochs.";
        pin_memory: bool = false, Any, AtRest, "Loads into pinned memory.";
        prefetch_factor: Option<u64> = (), Any, AtRest, "Batches loaded ahead by each process.";
    }

    /// `[debug]`: seed and determinism.
    debug: DebugOptions = "debug" {
        seed: Option<u64> = (), Any, Used, "Seed of the initial weights; None: a fixed one.";
        deterministic: bool = false, Any, AtRest, "Same bits in every run, which is always so here.";
        deterministic_warn_only: bool = false, Any, AtRest, "Tolerates operators that are not deterministic.";
        moe_force_load_balance: bool = false, Any, AtRest, "Gives every expert the same number of tokens.";
    }

    /// `[titan]`: Titan's own keys.
    titan: Titan = "titan" {
        ranks: Vec<u64> = [1, 2, 4, 8], Min(1), Used, "Numbers of ranks to plan for while the shard degree is -1.";
        world_size: Option<u64> = (), Min(1), Used, "The one number of ranks to plan for, in place of titan.ranks.";
        target: String = "cpu", NameOf(TARGETS), Used, "Device to compile for; cpu: the widest of this machine.";
        ascend_kernels: AscendKernels = "fused", Any, Used, "What computes on Ascend: the vendor's operators, or generated kernels too.";
        ascend_workspace_mib: Option<u64> = (), Within(1, 1 << 20), Used, "Workspace of operators on Ascend devices; None: a bound from their shapes.";
        memory_gib: Option<f64> = (), Positive, Used, "Memory of a rank, which a plan must fit; None: that of the device, and only reported.";
        bucket_mib: Option<u64> = (), Min(1), Used, "Size collectives are bucketed to; None: one bucket per block.";
        keep_ir: bool = false, Any, Used, "Keeps the IR text in the artifact.";
    }
}
