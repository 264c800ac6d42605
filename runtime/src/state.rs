//! First values of a rank's state, and its weights at the end.

use crate::cli::Options;
use crate::device::{Device, RankError};
use crate::pool::Pool;
use crate::weights::{NamedTensor, Weights, write_safetensors};
use safetensors::Dtype;
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use titan_ir::artifact::{HfName, Manifest};
use titan_ir::plan::PlanTensor;
use titan_ir::{AxisId, Diag, DiagResult, Mesh, Placement, Plan, Role};

/// Elements one task fills.
const CHUNK_LEN: usize = 1 << 14;

/// Gives every state tensor of a rank its first value: drawn, computed, or read from a file.
///
/// # Errors
/// T084x when `--init-from` does not hold the model's weights; what the device says when it does not take them.
pub(crate) fn initialize(
    device: &mut dyn Device,
    rank: u64,
    plan: &Plan,
    options: &Options,
    manifest: &Manifest,
) -> Result<(), RankError> {
    let seed = options.seed.unwrap_or(manifest.run.seed);
    let given = options.init_from.as_deref().map(|path| Given::open(path, plan, manifest)).transpose()?;
    for tensor in plan.tensors.iter().filter(|t| matches!(t.role, Some(role) if role != Role::Input)) {
        let rows = local_rows(&plan.mesh, rank, tensor);
        let len = (rows.end - rows.start) * row_len(tensor);
        device.write_state(tensor, len, &mut |out, pool| match &given {
            Some(given) if tensor.role == Some(Role::Param) => given.read(tensor, rows.clone(), out),
            _ => {
                draw(pool, tensor, rows.start * row_len(tensor), seed, out);
                Ok(())
            }
        })?;
    }
    Ok(())
}

/// Global rows of a rank's part of a tensor; rows past the end of the tensor are padding.
fn local_rows(mesh: &Mesh, rank: u64, tensor: &PlanTensor) -> Range<u64> {
    let rows = tensor.global_dims.first().copied().unwrap_or(1);
    let mut part = 0..rows;
    let mut span = rows;
    for axis in tensor.layout.axes_of_dim(0) {
        span = span.div_ceil(mesh.size(axis));
        let start = (part.start + mesh.coordinate(rank, axis) * span).min(part.end);
        part = start..(start + span).min(part.end);
    }
    debug_assert!(
        tensor.layout.iter().all(|(_, p)| p == Placement::Shard(0)),
        "state is cut along dimension 0 only"
    );
    part
}

fn row_len(tensor: &PlanTensor) -> u64 {
    tensor.global_dims.iter().skip(1).product()
}

/// Draws the elements of a tensor from number `first`.
fn draw(pool: &Pool, tensor: &PlanTensor, first: u64, seed: u64, out: &mut [f32]) {
    let len = out.len();
    let base = Shared(out.as_mut_ptr());
    pool.run(len.div_ceil(CHUNK_LEN), &|task, _| {
        let base = { base };
        let start = task * CHUNK_LEN;
        // SAFETY: chunk `task` of the tensor, written by this task alone.
        let chunk = unsafe { std::slice::from_raw_parts_mut(base.0.add(start), CHUNK_LEN.min(len - start)) };
        tensor.init.fill(seed, &tensor.name, &tensor.global_dims, first + start as u64, chunk);
    });
}

#[derive(Clone, Copy)]
struct Shared(*mut f32);
// SAFETY: every task writes its own chunk.
unsafe impl Sync for Shared {}

/// Weights from a file, in torchtitan's names or Hugging Face's.
struct Given<'a> {
    weights: Weights,
    hf_names: Option<&'a [HfName]>,
}

impl<'a> Given<'a> {
    fn open(path: &Path, plan: &Plan, manifest: &'a Manifest) -> DiagResult<Self> {
        let weights = Weights::open(path)?;
        let params = || plan.tensors.iter().filter(|t| t.role == Some(Role::Param));
        let hf = &manifest.model.hf_names;
        let speaks_hf = !hf.is_empty() && params().all(|t| weights.info(&t.name).is_none());
        let given = Self { weights, hf_names: speaks_hf.then_some(hf.as_slice()) };
        let mut expected = Vec::new();
        for tensor in params() {
            let shape: Vec<usize> = tensor.global_dims.iter().map(|&d| d as usize).collect();
            expected.push((given.name_of(tensor)?.0, shape));
        }
        given.weights.check(expected.iter().map(|(name, shape)| (name.as_str(), shape.as_slice())))?;
        Ok(given)
    }

    /// The name of a tensor in the file, and its heads if its rows are permuted there.
    fn name_of(&self, tensor: &PlanTensor) -> DiagResult<(String, Option<u64>)> {
        let Some(names) = self.hf_names else { return Ok((tensor.name.clone(), None)) };
        let found = names.iter().find_map(|n| Some((match_name(&n.fqn, &tensor.name, &n.hf)?, n.rope_heads)));
        found.ok_or_else(|| {
            Diag::new("T0711", format!("weight `{}` has no Hugging Face name in this model", tensor.name))
                .help("give a file with torchtitan's names")
        })
    }

    fn read(&self, tensor: &PlanTensor, rows: Range<u64>, out: &mut [f32]) -> DiagResult<()> {
        let (name, rope_heads) = self.name_of(tensor)?;
        let row_len = row_len(tensor) as usize;
        let Some(heads) = rope_heads else {
            return self.weights.read_rows_f32(&name, rows.start as usize..rows.end as usize, out);
        };
        let head_dim = tensor.global_dims[0] / heads;
        for (row, out) in rows.zip(out.chunks_exact_mut(row_len)) {
            let theirs = hf_rope_row(row, head_dim) as usize;
            self.weights.read_rows_f32(&name, theirs..theirs + 1, out)?;
        }
        Ok(())
    }
}

/// The row of a Hugging Face query or key projection that is our row `row`: in every head they keep the first and second elements of all pairs
/// apart, we keep pairs together.
fn hf_rope_row(row: u64, head_dim: u64) -> u64 {
    let (head, r) = (row / head_dim, row % head_dim);
    head * head_dim + r / 2 + (r % 2) * (head_dim / 2)
}

/// `replacement` with its `*` filled by what `*` stands for in `name`, if `name` matches `pattern`.
fn match_name(pattern: &str, name: &str, replacement: &str) -> Option<String> {
    let Some((before, after)) = pattern.split_once('*') else {
        return (pattern == name).then(|| replacement.to_owned());
    };
    let layer = name.strip_prefix(before)?.strip_suffix(after)?;
    layer.bytes().all(|b| b.is_ascii_digit()).then(|| replacement.replace('*', layer))
}

/// The whole weights, as the ranks bring them together: in the process of rank 0.
#[derive(Debug)]
pub(crate) struct Gathered<'a> {
    plan: &'a Plan,
    whole: Vec<Mutex<Vec<u8>>>,
}

fn params(plan: &Plan) -> impl Iterator<Item = &PlanTensor> {
    plan.tensors.iter().filter(|t| t.role == Some(Role::Param))
}

/// Takes a part of a weight: its number, the first byte, the bytes.
pub(crate) type Give<'a> = dyn Fn(u64, u64, &[u8]) -> DiagResult<()> + 'a;

impl<'a> Gathered<'a> {
    /// Nothing yet.
    pub(crate) fn new(plan: &'a Plan) -> Self {
        Self { plan, whole: params(plan).map(|_| Mutex::default()).collect() }
    }

    /// Shows a rank's parts to `give`, unless a lower rank has the same.
    ///
    /// # Errors
    /// When the device does not give them, or `give` fails.
    pub(crate) fn parts(&self, device: &dyn Device, rank: u64, give: &Give<'_>) -> Result<(), RankError> {
        let mesh = &self.plan.mesh;
        for (number, tensor) in params(self.plan).enumerate() {
            let cut: Vec<AxisId> = tensor.layout.axes_of_dim(0).collect();
            let others = (0..mesh.axes.len()).map(AxisId::new).filter(|axis| !cut.contains(axis));
            if others.into_iter().any(|axis| mesh.coordinate(rank, axis) > 0) {
                continue;
            }
            let rows = local_rows(mesh, rank, tensor);
            let (start, mut given) = (rows.start * row_len(tensor) * 4, Ok(()));
            device.read_state(tensor, (rows.end - rows.start) * row_len(tensor), &mut |part| {
                given = give(number as u64, start, bytemuck::cast_slice(part));
            })?;
            given?;
        }
        Ok(())
    }

    /// Puts a part where it belongs.
    pub(crate) fn put(&self, number: u64, start: u64, part: &[u8]) {
        let tensor = params(self.plan).nth(number as usize).expect("the weight is of this plan");
        let mut whole = self.whole[number as usize].lock().unwrap_or_else(PoisonError::into_inner);
        whole.resize(tensor.global_dims.iter().product::<u64>() as usize * 4, 0);
        whole[start as usize..][..part.len()].copy_from_slice(part);
    }

    /// Writes them as f32.
    ///
    /// # Errors
    /// T084x when the file cannot be written.
    pub(crate) fn save(self, path: &Path) -> DiagResult<()> {
        let whole = self.whole.into_iter();
        let whole = whole.map(|whole| whole.into_inner().unwrap_or_else(PoisonError::into_inner));
        let whole: Vec<(Vec<u8>, Vec<usize>)> = whole
            .zip(params(self.plan))
            .map(|(bytes, tensor)| (bytes, tensor.global_dims.iter().map(|&d| d as usize).collect()))
            .collect();
        let named = params(self.plan).zip(&whole).map(|(tensor, (data, shape))| NamedTensor {
            name: &tensor.name,
            dtype: Dtype::F32,
            shape,
            data,
        });
        write_safetensors(path, &named.collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hugging_face_rows_are_the_halves_of_pairs() {
        let theirs: Vec<u64> = (0..8).map(|row| hf_rope_row(row, 4)).collect();
        assert_eq!(theirs, [0, 2, 1, 3, 4, 6, 5, 7]);
    }

    #[test]
    fn layer_numbers_carry_over() {
        let hf =
            |name| match_name("layers.*.attention.wq.weight", name, "model.layers.*.self_attn.q_proj.weight");
        assert_eq!(
            hf("layers.12.attention.wq.weight").as_deref(),
            Some("model.layers.12.self_attn.q_proj.weight")
        );
        assert_eq!(hf("layers.12.attention.wk.weight"), None);
        assert_eq!(hf("layers.x.attention.wq.weight"), None);
    }
}
