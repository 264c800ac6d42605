//! What an unknown name was probably meant to be.

use super::table::KEYS;
use strsim::damerau_levenshtein;

/// Keys of v0.2.0 that later versions renamed, read with a warning: (old, new).
pub(super) const REDIRECTS: &[(&str, &str)] = &[
    ("experimental.custom_args_module", "job.custom_config_module"),
    ("model.tokenizer_path", "model.hf_assets_path"),
    ("training.deterministic", "debug.deterministic"),
    ("training.moe_force_load_balance", "debug.moe_force_load_balance"),
    ("training.seed", "debug.seed"),
];

/// Keys from before v0.2.0, which are errors: (old, new).
const MOVED: &[(&str, &str)] = &[
    ("checkpoint.enable_checkpoint", "checkpoint.enable"),
    ("checkpoint.model_weights_only", "checkpoint.last_save_model_only"),
    ("checkpoint.last_save_model_weights_only", "checkpoint.last_save_model_only"),
    ("experimental.context_parallel_degree", "parallelism.context_parallel_degree"),
    ("experimental.enable_async_tensor_parallel", "parallelism.enable_async_tensor_parallel"),
    ("experimental.pipeline_parallel_degree", "parallelism.pipeline_parallel_degree"),
    ("experimental.pipeline_parallel_schedule", "parallelism.pipeline_parallel_schedule"),
    ("float8.enable_fsdp_float8_all_gather", "quantize.linear.float8.enable_fsdp_float8_all_gather"),
    ("float8.filter_fqns", "quantize.linear.float8.filter_fqns"),
    (
        "float8.precompute_float8_dynamic_scale_for_fsdp",
        "quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp",
    ),
    ("job.print_args", "job.print_config"),
    ("job.tokenizer_path", "model.hf_assets_path"),
    ("lr_scheduler.lr_min", "lr_scheduler.min_lr_factor"),
    ("model.norm_eps", "titan.model_args.norm_eps"),
    ("optimizer.fused", "optimizer.implementation"),
    ("parallelism.pipeline_parallel_split_points", "parallelism.module_fqns_per_model_part"),
    ("training.batch_size", "training.local_batch_size"),
    ("training.compile", "compile.enable"),
    ("training.data_parallel_degree", "parallelism.data_parallel_shard_degree"),
    ("training.data_parallel_replicate_degree", "parallelism.data_parallel_replicate_degree"),
    ("training.data_parallel_shard_degree", "parallelism.data_parallel_shard_degree"),
    ("training.tensor_parallel_degree", "parallelism.tensor_parallel_degree"),
    ("training.warmup_steps", "lr_scheduler.warmup_steps"),
];

/// Sections that were renamed: (old, new).
const MOVED_SECTIONS: &[(&str, &str)] = &[
    ("float8", "quantize.linear.float8"),
    ("mx", "quantize.linear.mx"),
    ("quantize.linear.fp8", "quantize.linear.float8"),
    ("quantize.dense.float8", "quantize.linear.float8"),
    ("quantize.moe.float8", "quantize.grouped_mm.float8"),
    ("training.data_loader", "training.dataloader"),
    ("validation.data_loader", "validation.dataloader"),
];

/// Longer names are no typing errors; the distance is quadratic.
const LONGEST_NAME: usize = 100;

/// What to say about an unknown key.
pub(super) struct Hint {
    /// The key is known to have moved.
    pub(super) moved: bool,
    /// The path it was probably meant to be.
    pub(super) path: String,
}

/// The key that `section.name` was probably meant to be.
pub(super) fn key_hint(section: &str, name: &str) -> Option<Hint> {
    let path = format!("{section}.{name}");
    if let Some((_, new)) = MOVED.iter().chain(REDIRECTS).find(|(old, _)| *old == path) {
        return Some(Hint { moved: true, path: (*new).to_string() });
    }
    let near = |path: &str| Some(Hint { moved: false, path: path.to_string() });
    let own = KEYS.iter().filter(|key| key.section == section);
    if let Some(name) = nearest(name, own.clone().map(|key| key.name)) {
        return near(&format!("{section}.{name}"));
    }
    if let Some(key) = KEYS.iter().find(|key| key.name == name) {
        return near(key.path);
    }
    if let Some(key) = own.into_iter().find(|key| name.len() >= 3 && key.name.contains(name)) {
        return near(key.path);
    }
    let name = nearest(name, KEYS.iter().map(|key| key.name))?;
    KEYS.iter().find(|key| key.name == name).and_then(|key| near(key.path))
}

/// The section `section` was probably meant to be, and whether it is known to have been renamed.
pub(super) fn section_hint(section: &str) -> Option<Hint> {
    if let Some((_, new)) = MOVED_SECTIONS.iter().find(|(old, _)| *old == section) {
        return Some(Hint { moved: true, path: (*new).to_string() });
    }
    let all = KEYS.iter().map(|key| key.section).chain(["titan.model_args"]);
    if let Some(path) = nearest(section, all.clone()) {
        return Some(Hint { moved: false, path: path.to_string() });
    }
    let last = section.rsplit('.').next().unwrap_or(section);
    let path = all.clone().find(|s| s.rsplit('.').next() == Some(last))?;
    Some(Hint { moved: false, path: path.to_string() })
}

/// The candidate a typing error away from `name`, the first of equally near ones.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    if lower.len() > LONGEST_NAME {
        return None;
    }
    candidates
        .map(|candidate| (damerau_levenshtein(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| {
            *distance <= (candidate.chars().count().max(lower.chars().count()) / 3).max(1)
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::values::key_index;

    #[test]
    fn old_names_lead_to_present_ones() {
        for (old, new) in REDIRECTS.iter().chain(MOVED) {
            assert!(key_index(old).is_none(), "{old} still exists");
            assert!(key_index(new).is_some() || new.starts_with("titan.model_args."), "{new} does not exist");
        }
        for (old, new) in MOVED_SECTIONS {
            assert!(KEYS.iter().all(|key| key.section != *old), "[{old}] still exists");
            assert!(KEYS.iter().any(|key| key.section == *new), "[{new}] does not exist");
        }
    }

    #[test]
    fn the_nearest_name_is_a_typing_error_away() {
        let names = ["seq_len", "steps", "lr"];
        assert_eq!(nearest("seqlen", names.into_iter()), Some("seq_len"));
        assert_eq!(nearest("STEP", names.into_iter()), Some("steps"));
        assert_eq!(nearest("rl", names.into_iter()), Some("lr"));
        assert_eq!(nearest("dataset", names.into_iter()), None);
        assert_eq!(nearest(&"seq_len".repeat(50), names.into_iter()), None);
    }
}
