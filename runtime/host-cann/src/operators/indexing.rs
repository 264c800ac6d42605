//! Rows by number, and sums of rows by number.

use super::args::Args;
use super::check::{ALL, FLOATS, INDICES, dimension, ensure};
use super::compute::{DType, Order, Rows, View, copy};
use super::plan::Plan;
use super::{Operator, Table};
use crate::fault::Fault;
use ascend_rs_sys::types::ACL_ERROR_RT_AICORE_EXCEPTION;

/// Room of the system's own kernels.
const SYSTEM_BYTES: usize = 16 << 20;

pub(super) const OPERATORS: Table = &[
    ("aclnnEmbedding", embedding as Operator),
    ("aclnnEmbeddingDenseBackward", embedding_dense_backward),
    ("aclnnGatherV2", gather_v2),
    ("aclnnIndexSelect", index_select),
    ("aclnnGather", gather),
    ("aclnnScatterAdd", scatter_add),
];

/// `value` as an index below `size`: what the device finds out while it runs.
///
/// # Errors
/// 507015: it is none.
pub(super) fn index(name: &str, value: i64, size: usize) -> Result<usize, Fault> {
    let index = usize::try_from(value).ok().filter(|&index| index < size);
    index.ok_or_else(|| {
        Fault::new(ACL_ERROR_RT_AICORE_EXCEPTION, format!("{name} has {value}; allowed: 0 to {}", size - 1))
    })
}

fn embedding(args: &mut Args) -> Result<Plan, Fault> {
    let (weight, ids, out) = (args.input("weight")?, args.input("indices")?, args.output("out")?);
    weight.is_of(ALL)?;
    weight.has_rank(2..=2)?;
    ids.is_of(INDICES)?;
    out.is_typed_as(&weight)?;
    out.has_dims(&[ids.dims(), &weight.dims()[1..]].concat(), "indices and a row of weight")?;
    args.plan(0, move |launch| take(&launch[&weight], 0, &launch[&ids], &launch[&out]))
}

/// `out[..a, i, b..] = from[..a, ids[i], b..]`; `ids` may have any rank.
fn take(from: &View, dim: usize, ids: &View, out: &View) -> Result<(), Fault> {
    let rank = ids.rank();
    let order: Vec<usize> = (dim..dim + rank).chain(0..dim).chain(dim + rank..out.rank()).collect();
    let out = Rows::new(&out.permuted(&order), rank);
    for (place, id) in ids.to_vec::<i64>().into_iter().enumerate() {
        let id = index("the index", id, from.dims[dim])?;
        copy(&from.at(dim, id), &out.row(place));
    }
    Ok(())
}

fn gather_v2(args: &mut Args) -> Result<Plan, Fault> {
    let (x, dim, ids, out) = (args.input("self")?, args.i64(), args.input("index")?, args.output("out")?);
    x.is_of(ALL)?;
    x.has_rank(1..=8)?;
    ids.is_of(INDICES)?;
    let dim = dimension(dim, x.rank(), "dim")?;
    out.is_typed_as(&x)?;
    out.has_dims(&[&x.dims()[..dim], ids.dims(), &x.dims()[dim + 1..]].concat(), "self with index put in")?;
    args.plan(0, move |launch| take(&launch[&x], dim, &launch[&ids], &launch[&out]))
}

fn index_select(args: &mut Args) -> Result<Plan, Fault> {
    let (x, dim, ids, out) = (args.input("self")?, args.i64(), args.input("index")?, args.output("out")?);
    x.is_of(ALL)?;
    x.has_rank(1..=8)?;
    ids.is_of(INDICES)?;
    ids.has_rank(1..=1)?;
    let dim = dimension(dim, x.rank(), "dim")?;
    out.is_typed_as(&x)?;
    let mut dims = x.dims().to_vec();
    dims[dim] = ids.dims()[0];
    out.has_dims(&dims, "self with as many as index along dim")?;
    args.plan(0, move |launch| take(&launch[&x], dim, &launch[&ids], &launch[&out]))
}

/// `out[i, j] = self[index[i, j], j]` for the first dimension, likewise for others.
fn gather(args: &mut Args) -> Result<Plan, Fault> {
    let (x, dim, ids, out) = (args.input("self")?, args.i64(), args.input("index")?, args.output("out")?);
    x.is_of(ALL)?;
    x.has_rank(1..=8)?;
    ids.is_of(INDICES)?;
    ids.has_rank(x.rank()..=x.rank())?;
    let dim = dimension(dim, x.rank(), "dim")?;
    let fits = (0..x.rank()).all(|d| d == dim || ids.dims()[d] <= x.dims()[d]);
    ensure(fits, || format!("index has shape {:?}, more than self's {:?}", ids.dims(), x.dims()))?;
    out.is_typed_as(&x)?;
    out.is_shaped_as(&ids)?;
    args.plan(0, move |launch| {
        let (x, ids, out) = (&launch[&x], &launch[&ids], &launch[&out]);
        let others = View { dims: ids.dims.clone(), ..x.clone() };
        let mut base = others.clone();
        base.strides[dim] = 0;
        for ((from, id_at), to) in base.offsets().zip(ids.offsets()).zip(out.offsets()) {
            let id = index("index", ids.get::<i64>(id_at), x.dims[dim])?;
            let element = |view: &View, at: usize| {
                View::contiguous(view.dtype, &[], view.address + at * view.dtype.size_bytes())
            };
            copy(&element(x, from + id * x.strides[dim]), &element(out, to));
        }
        Ok::<(), Fault>(())
    })
}

/// `out = self`, then `out[index[i, j], j] += src[i, j]` for the first dimension, likewise for others.
fn scatter_add(args: &mut Args) -> Result<Plan, Fault> {
    let (x, dim, ids) = (args.input("self")?, args.i64(), args.input("index")?);
    let (src, out) = (args.input("src")?, args.output("out")?);
    x.is_of(FLOATS)?;
    x.has_rank(1..=8)?;
    ids.is_of(INDICES)?;
    let dim = dimension(dim, x.rank(), "dim")?;
    [&src, &out].into_iter().try_for_each(|tensor| tensor.is_typed_as(&x))?;
    out.is_shaped_as(&x)?;
    let fits = ids.rank() == x.rank()
        && src.rank() == x.rank()
        && (0..x.rank())
            .all(|d| ids.dims()[d] <= src.dims()[d] && (d == dim || ids.dims()[d] <= x.dims()[d]));
    ensure(fits, || {
        format!("index has shape {:?}, more than src's {:?} or self's {:?}", ids.dims(), src.dims(), x.dims())
    })?;
    args.allow_in_place();
    args.plan(0, move |launch| {
        let (x, ids, src, out) = (&launch[&x], &launch[&ids], &launch[&src], &launch[&out]);
        let mut sums: Vec<f32> = x.to_vec();
        let dense = View::contiguous(DType::F32, &x.dims, 0);
        let mut base = View { dims: ids.dims.clone(), ..dense.clone() };
        base.strides[dim] = 0;
        let (ids_flat, starts): (Vec<i64>, Vec<usize>) = (ids.to_vec(), base.offsets().collect());
        let values: Vec<f32> = View { dims: ids.dims.clone(), ..src.clone() }.to_vec();
        for place in launch.order.indices(values.len()) {
            let id = index("index", ids_flat[place], x.dims[dim])?;
            sums[starts[place] + id * dense.strides[dim]] += values[place];
        }
        out.assign(&sums);
        Ok::<(), Fault>(())
    })
}

fn embedding_dense_backward(args: &mut Args) -> Result<Plan, Fault> {
    let (grad, ids) = (args.input("grad")?, args.input("indices")?);
    let (num_weights, padding, by_frequency) = (args.u64() as usize, args.u64() as i64, args.bool());
    let out = args.output("out")?;
    grad.is_of(FLOATS)?;
    grad.has_rank(2..=8)?;
    ids.is_of(INDICES)?;
    let width = *grad.dims().last().expect("its rank was checked");
    grad.has_dims(&[ids.dims(), &[width]].concat(), "a row for every index")?;
    out.is_typed_as(&grad)?;
    out.has_dims(&[num_weights, width], "numWeights rows")?;
    out.is_contiguous()?;
    let own_bytes = SYSTEM_BYTES + ids.view.num_elements() * 8;
    args.plan(own_bytes, move |launch| {
        let ids: Vec<i64> = launch[&ids].to_vec();
        let rows = Rows::new(&launch[&grad], launch[&grad].rank() - 1);
        let sums = sum_rows(&rows, &ids, num_weights, padding, launch.order)?;
        let out = &launch[&out];
        out.assign(&sums);
        if by_frequency {
            scale_by_frequency(out, &sums, &ids, width);
        }
        Ok::<(), Fault>(())
    })
}

/// Sums of the rows with each number, in f32.
fn sum_rows(rows: &Rows, ids: &[i64], num: usize, padding: i64, order: Order) -> Result<Vec<f32>, Fault> {
    let width = rows.width();
    let mut sums = vec![0.0f32; num * width];
    let mut row = vec![0.0f32; width];
    for place in order.indices(ids.len()) {
        if ids[place] == padding {
            continue;
        }
        let id = index("indices", ids[place], num)?;
        rows.load(place, &mut row);
        sums[id * width..][..width].iter_mut().zip(&row).for_each(|(sum, x)| *sum += x);
    }
    Ok(sums)
}

/// Divides each row by how often its number occurs.
fn scale_by_frequency(out: &View, sums: &[f32], ids: &[i64], width: usize) {
    let mut counts = vec![0.0f32; sums.len() / width.max(1)];
    ids.iter().filter_map(|&id| usize::try_from(id).ok()).for_each(|id| counts[id] += 1.0);
    let scaled: Vec<f32> = sums.iter().enumerate().map(|(i, x)| x / counts[i / width].max(1.0)).collect();
    out.assign(&scaled);
}
