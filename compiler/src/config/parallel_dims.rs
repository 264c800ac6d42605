//! How a number of ranks is cut into mesh axes.
//! Source: torchtitan v0.2.2 `ParallelDims`: `rank = (((pp R + dp_replicate) S + dp_shard) C + cp) T + tp`.

use super::Config;
use titan_ir::{Diag, DiagResult, Diags};

/// Degrees of all mesh axes, outermost first. Their product is the number of ranks; `ep` overlays the inner axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParallelDims {
    /// Ranks that share the layers.
    pub pp: u64,
    /// Copies of the weights.
    pub dp_replicate: u64,
    /// Ranks that share one copy.
    pub dp_shard: u64,
    /// Ranks that share each sequence.
    pub cp: u64,
    /// Ranks that share each matrix.
    pub tp: u64,
    /// Ranks that share the experts.
    pub ep: u64,
}

impl ParallelDims {
    /// Number of ranks.
    pub fn world(&self) -> u64 {
        self.pp * self.dp_replicate * self.dp_shard * self.cp * self.tp
    }

    /// Ranks with different data: `dp_replicate x dp_shard`.
    pub fn dp(&self) -> u64 {
        self.dp_replicate * self.dp_shard
    }

    /// Ranks parameters are sharded over: `dp_shard x cp`.
    pub fn fsdp(&self) -> u64 {
        self.dp_shard * self.cp
    }
}

impl Config {
    /// The mesh of `world` ranks.
    ///
    /// # Errors
    /// `T0420` when the degrees do not multiply to `world`.
    pub fn parallel_dims(&self, world: u64) -> DiagResult<ParallelDims> {
        let p = &self.parallelism;
        let mut dims = ParallelDims {
            pp: p.pipeline_parallel_degree,
            dp_replicate: p.data_parallel_replicate_degree,
            dp_shard: u64::try_from(p.data_parallel_shard_degree).unwrap_or(1),
            cp: p.context_parallel_degree,
            tp: p.tensor_parallel_degree,
            ep: p.expert_parallel_degree,
        };
        let factors = [dims.pp, dims.dp_replicate, dims.dp_shard, dims.cp, dims.tp];
        let product = factors.iter().try_fold(1_u64, |product, degree| product.checked_mul(*degree));
        let degrees = format!(
            "data_parallel_replicate_degree {} x context_parallel_degree {} x tensor_parallel_degree {} x \
             pipeline_parallel_degree {}",
            dims.dp_replicate, dims.cp, dims.tp, dims.pp
        );
        match product {
            Some(others)
                if p.data_parallel_shard_degree == -1 && world > 0 && world.is_multiple_of(others) =>
            {
                dims.dp_shard = world / others;
                Ok(dims)
            }
            Some(product) if p.data_parallel_shard_degree > 0 && product == world => Ok(dims),
            _ if p.data_parallel_shard_degree == -1 => Err(self
                .error(
                    "parallelism.data_parallel_replicate_degree",
                    "T0420",
                    format!("the parallel degrees do not divide {world} ranks"),
                )
                .note(degrees)
                .help("use a number of ranks that is a multiple of their product")),
            _ => {
                let shard = p.data_parallel_shard_degree;
                let product = product.map_or("more than 2^64".to_string(), |p| p.to_string());
                Err(self
                    .error(
                        "parallelism.data_parallel_shard_degree",
                        "T0420",
                        format!("the parallel degrees multiply to {product}, not to {world} ranks"),
                    )
                    .note(format!("data_parallel_shard_degree {shard} x {degrees}"))
                    .help("set data_parallel_shard_degree to -1 to use all ranks"))
            }
        }
    }

    /// The meshes to plan for, by ascending number of ranks: that of `titan.world_size`, or the only one the degrees allow, or
    /// those of `titan.ranks` that suit degrees and batch sizes. Every mesh returned passes [`Config::batch`].
    ///
    /// # Errors
    /// What is wrong with the only mesh, with each mesh of a `titan.ranks` the user wrote, or with every default one.
    pub fn planned_dims(&self) -> Result<Vec<ParallelDims>, Diags> {
        let check = |world: u64| {
            let dims = self.parallel_dims(world)?;
            self.batch(&dims).map(|_| dims)
        };
        if let Some(world) = self.titan.world_size.or_else(|| self.only_world()) {
            return check(world).map(|dims| vec![dims]).map_err(Diags::from);
        }
        let mut worlds = self.titan.ranks.clone();
        worlds.sort_unstable();
        let (found, errors): (Vec<_>, Vec<_>) = worlds.into_iter().map(check).partition(Result::is_ok);
        let errors: Vec<Diag> = errors.into_iter().filter_map(Result::err).collect();
        if let (true, [first, rest @ ..]) = (found.is_empty(), &errors[..])
            && !rest.is_empty()
            && rest.iter().all(|error| error == first)
        {
            // What is wrong on every mesh alike is not a matter of ranks.
            return Err(first.clone().into());
        }
        let chosen = self.span("titan.ranks").is_some();
        if found.is_empty() || (chosen && !errors.is_empty()) {
            let ranks = self.value("titan.ranks");
            let message = match found.is_empty() {
                true => format!("none of `titan.ranks = {ranks}` suits the degrees and batch sizes"),
                false => format!("not all of `titan.ranks = {ranks}` suit the degrees and batch sizes"),
            };
            let mut diags = Diags::from(
                self.error("titan.ranks", "T0423", message).help("set titan.ranks or titan.world_size"),
            );
            diags.0.extend(errors.into_iter().rev().take(1));
            return Err(diags);
        }
        Ok(found.into_iter().filter_map(Result::ok).collect())
    }

    /// The only number of ranks, when no degree is left open.
    fn only_world(&self) -> Option<u64> {
        let p = &self.parallelism;
        let shard = u64::try_from(p.data_parallel_shard_degree).ok()?;
        [p.data_parallel_replicate_degree, p.context_parallel_degree, p.tensor_parallel_degree]
            .into_iter()
            .try_fold(shard.checked_mul(p.pipeline_parallel_degree)?, |product, d| product.checked_mul(d))
    }
}
