//! What the forward and the backward operator have in common.

use super::layout::Layout;
use super::mask::{Mask, Sparse};
use super::{BLOCK, REPEATS, SYSTEM_BYTES};
use crate::fault::Fault;
use crate::operators::args::Args;
use crate::operators::check::{FLOATS, ensure};
use crate::operators::compute::{DType, View};
use crate::operators::launch::{Launch, Tensor};
use crate::soc::{self, Family};

/// Arguments after the tensors.
pub(super) struct Attributes {
    pub(super) scale: f32,
    window: [i64; 2],
    num_heads: i64,
    layout: Layout,
    sparse_mode: i64,
}

impl Attributes {
    /// Takes them; `version` says which there are.
    pub(super) fn take(args: &mut Args, version: u8) -> Result<Self, Fault> {
        let _prefix = args.optional_ints()?;
        if version >= 2 {
            let _starts = [args.optional_ints()?, args.optional_ints()?];
        }
        let (scale, keep) = (args.f64() as f32, args.f64());
        let (window, num_heads) = ([args.i64(), args.i64()], args.i64());
        let layout = Layout::of(args.text().as_deref())?;
        let (precise, sparse_mode) = (args.i64(), args.i64());
        let shift_type = if version >= 2 { args.i64() } else { 1 };
        ensure(keep == 1.0, || format!("keepProb is {keep}; dropout is not implemented on this host"))?;
        ensure((0..=3).contains(&precise), || format!("innerPrecise is {precise}; allowed: 0 to 3"))?;
        ensure((0..=3).contains(&shift_type), || format!("pseType is {shift_type}; allowed: 0 to 3"))?;
        Ok(Self { scale, window, num_heads, layout, sparse_mode })
    }
}

/// A checked problem.
#[derive(Debug, Clone)]
pub(super) struct Problem {
    pub(super) scale: f32,
    layout: Layout,
    rule: Sparse,
    /// Type of queries, keys and values.
    pub(super) dtype: DType,
    pub(super) batch: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) queries: usize,
    pub(super) keys: usize,
    pub(super) width: usize,
}

impl Problem {
    pub(super) fn check(
        args: &Args,
        attributes: &Attributes,
        [query, key, value]: [&Tensor; 3],
        mask: Option<&Tensor>,
    ) -> Result<Self, Fault> {
        query.is_of(FLOATS)?;
        let layout = attributes.layout;
        let num_heads = usize::try_from(attributes.num_heads).unwrap_or(0);
        let width = layout.width(query, num_heads)?;
        let [batch, heads, queries, _] = layout.dims(query, query, width)?;
        let [key_batch, kv_heads, keys, _] = layout.dims(key, query, width)?;
        value.is_typed_as(key)?;
        value.is_shaped_as(key)?;
        ensure(heads == num_heads, || format!("headNum is {num_heads} and query has {heads} heads"))?;
        ensure(key_batch == batch, || format!("key has a batch of {key_batch} and query one of {batch}"))?;
        ensure(kv_heads > 0 && heads.is_multiple_of(kv_heads), || {
            format!("query has {heads} heads, no multiple of key's {kv_heads}")
        })?;
        let widest = if args.family == Family::A5 { 768 } else { 512 };
        let limits = [
            ("batch", batch, 2 << 20),
            ("heads", heads, 256),
            ("queries", queries, 1 << 20),
            ("keys", keys, 1 << 20),
            ("head width", width, widest),
        ];
        for (what, size, limit) in limits {
            ensure((1..=limit).contains(&size), || {
                format!("query or key: {what} is {size}; allowed: 1 to {limit}")
            })?;
        }
        let rule =
            Sparse::of(attributes.sparse_mode, attributes.window, mask, [batch, heads, queries, keys])?;
        let (scale, dtype) = (attributes.scale, query.dtype());
        Ok(Self { scale, layout, rule, dtype, batch, heads, kv_heads, queries, keys, width })
    }

    /// A maximum or sum of each row, eight times.
    pub(super) fn check_statistic(&self, tensor: &Tensor) -> Result<(), Fault> {
        tensor.is_of(&[DType::F32])?;
        tensor.has_dims(&[self.batch, self.heads, self.queries, REPEATS], "batch, heads, queries, 8")
    }

    /// Scores of a block for each core, and its accumulator.
    pub(super) fn workspace_bytes(&self) -> usize {
        let keys = self.keys.next_multiple_of(BLOCK).min(1024);
        SYSTEM_BYTES + soc::current().cube_cores as usize * BLOCK * (keys + self.width) * 8
    }

    /// A tensor as batch, heads, tokens, width.
    pub(super) fn heads_of(&self, launch: &Launch<'_>, tensor: &Tensor) -> View {
        self.layout.heads(&launch[tensor], self.width)
    }

    pub(super) fn mask<'a>(&self, view: Option<&'a View>) -> Mask<'a> {
        Mask { rule: self.rule, view, queries: self.queries, keys: self.keys }
    }

    /// A number in the type the cube reads probabilities in.
    pub(super) fn rounded(&self, x: f32) -> f32 {
        match self.dtype {
            DType::Bf16 => half::bf16::from_f32(x).to_f32(),
            DType::F16 => half::f16::from_f32(x).to_f32(),
            _ => x,
        }
    }
}
