//! Mesh and batch arithmetic.

use super::accepted;
use crate::config::{Config, ParallelDims};
use titan_ir::Diag;

fn dims(config: &Config, world: u64) -> (u64, u64) {
    let dims = config.parallel_dims(world).unwrap();
    assert_eq!(dims.world(), world);
    assert_eq!(dims.dp(), dims.fsdp() * dims.dp_replicate);
    (dims.dp_replicate, dims.dp_shard)
}

#[test]
fn the_open_shard_degree_takes_the_remaining_ranks() {
    let config = accepted("");
    assert_eq!(dims(&config, 1), (1, 1));
    assert_eq!(dims(&config, 1024), (1, 1024));
    let config = accepted("parallelism.data_parallel_replicate_degree = 2");
    assert_eq!(dims(&config, 8), (2, 4));
    let config =
        accepted("[parallelism]\ndata_parallel_replicate_degree = 4\ndata_parallel_shard_degree = 1");
    assert_eq!(dims(&config, 4), (4, 1));
}

#[test]
fn accumulation_is_global_over_local_batch() {
    let config = accepted("[training]\nglobal_batch_size = 32");
    assert_eq!(config.gradient_accumulation_steps(2).unwrap(), 2);
    assert_eq!(config.gradient_accumulation_steps(4).unwrap(), 1);
    assert_eq!(accepted("").gradient_accumulation_steps(512).unwrap(), 1);
    assert_eq!(accepted("").batch(&accepted("").parallel_dims(4).unwrap()).unwrap().global, 32);
}

#[test]
fn planned_meshes_suit_degrees_and_batch() {
    let worlds = |text: &str| {
        accepted(text).planned_dims().map(|all| all.iter().map(ParallelDims::world).collect::<Vec<_>>())
    };
    assert_eq!(worlds("").unwrap(), [1, 2, 4, 8]);
    assert_eq!(worlds("titan.ranks = [16, 3]").unwrap(), [3, 16]);
    assert_eq!(worlds("titan.ranks = [16, 3]\ntitan.world_size = 512").unwrap(), [512]);
    assert_eq!(worlds("parallelism.data_parallel_replicate_degree = 2").unwrap(), [2, 4, 8]);
    assert_eq!(worlds("training.global_batch_size = 24").unwrap(), [1]);
    assert_eq!(worlds("parallelism.data_parallel_shard_degree = 6").unwrap(), [6]);
}

#[test]
fn what_does_not_divide_is_explained() {
    let error = |text: &str, world| accepted(text).gradient_accumulation_steps(world).unwrap_err();
    let all: Vec<Diag> = vec![
        error("[parallelism]\ndata_parallel_replicate_degree = 3", 8),
        error("[parallelism]\ndata_parallel_shard_degree = 4", 6),
        error(
            "[parallelism]\ndata_parallel_shard_degree = 9223372036854775807\ndata_parallel_replicate_degree = 3",
            6,
        ),
        error("[training]\nglobal_batch_size = 20", 2),
        error("[training]\nglobal_batch_size = 0", 1),
        error("[training]\nglobal_batch_size = 70", 2),
        error("[training]\nseq_len = 2047", 1),
        error("[training]\nseq_len = 1", 1),
        error("", 0),
    ];
    insta::assert_snapshot!(titan_ir::Diags(all));
    let none = accepted("training.global_batch_size = 5").planned_dims().unwrap_err();
    insta::assert_snapshot!(none);
    let some = accepted("training.global_batch_size = 16\ntitan.ranks = [1, 4]").planned_dims().unwrap_err();
    insta::assert_snapshot!(some);
}
