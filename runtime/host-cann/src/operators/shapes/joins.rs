//! Several tensors to one, and one to several.

use crate::fault::Fault;
use crate::operators::args::Args;
use crate::operators::check::{ALL, dimension, ensure, invalid};
use crate::operators::compute::copy;
use crate::operators::launch::Tensor;
use crate::operators::plan::Plan;

/// `first` and the others agree but for dimension `dim`.
fn check_alike(tensors: &[Tensor], dim: usize) -> Result<(), Fault> {
    let first = &tensors[0];
    for tensor in tensors {
        let mut dims = first.dims().to_vec();
        tensor.has_rank(first.rank()..=first.rank())?;
        dims[dim] = tensor.dims()[dim];
        tensor.has_dims(&dims, &first.name)?;
    }
    Ok(())
}

pub(super) fn cat(args: &mut Args) -> Result<Plan, Fault> {
    let (tensors, dim, out) = (args.inputs("tensors")?, args.i64(), args.output("out")?);
    let first = tensors.first().ok_or_else(|| invalid("tensors is empty".to_owned()))?;
    first.has_rank(1..=8)?;
    let dim = dimension(dim, first.rank(), "dim")?;
    check_alike(&tensors, dim)?;
    for tensor in &tensors {
        tensor.is_of(ALL)?;
        out.can_hold(tensor.dtype())?;
    }
    let mut dims = first.dims().to_vec();
    dims[dim] = tensors.iter().map(|tensor| tensor.dims()[dim]).sum();
    out.has_dims(&dims, "tensors joined")?;
    args.plan(0, move |launch| {
        let mut start = 0;
        for tensor in &tensors {
            let len = tensor.dims()[dim];
            copy(&launch[tensor], &launch[&out].sliced(dim, start, len));
            start += len;
        }
    })
}

pub(super) fn stack(args: &mut Args) -> Result<Plan, Fault> {
    let (tensors, dim, out) = (args.inputs("tensors")?, args.i64(), args.output("out")?);
    let first = tensors.first().ok_or_else(|| invalid("tensors is empty".to_owned()))?;
    first.has_rank(0..=7)?;
    let dim = dimension(dim, first.rank() + 1, "dim")?;
    for tensor in &tensors {
        tensor.is_of(ALL)?;
        tensor.is_shaped_as(first)?;
        out.can_hold(tensor.dtype())?;
    }
    let mut dims = first.dims().to_vec();
    dims.insert(dim, tensors.len());
    out.has_dims(&dims, "tensors stacked")?;
    args.plan(0, move |launch| {
        for (i, tensor) in tensors.iter().enumerate() {
            copy(&launch[tensor], &launch[&out].at(dim, i));
        }
    })
}

/// Pieces of these sizes.
fn split(args: &mut Args, x: Tensor, dim: usize, sizes: &[usize], outs: Vec<Tensor>) -> Result<Plan, Fault> {
    x.is_of(ALL)?;
    ensure(sizes.iter().sum::<usize>() == x.dims()[dim], || {
        format!("pieces of {sizes:?} do not add up to the {} along dim", x.dims()[dim])
    })?;
    ensure(sizes.len() == outs.len(), || {
        format!("out has {} tensors for {} pieces", outs.len(), sizes.len())
    })?;
    for (out, &size) in outs.iter().zip(sizes) {
        let mut dims = x.dims().to_vec();
        dims[dim] = size;
        out.is_typed_as(&x)?;
        out.has_dims(&dims, "the piece")?;
    }
    args.plan(0, move |launch| {
        let mut start = 0;
        for out in &outs {
            let len = out.dims()[dim];
            copy(&launch[&x].sliced(dim, start, len), &launch[out]);
            start += len;
        }
    })
}

pub(super) fn split_with_size(args: &mut Args) -> Result<Plan, Fault> {
    let (x, sizes, dim) = (args.input("self")?, args.ints("splitSize")?, args.i64());
    let outs = args.outputs("out")?;
    x.has_rank(1..=8)?;
    let dim = dimension(dim, x.rank(), "dim")?;
    let negative = |_| invalid(format!("splitSize has a negative entry: {sizes:?}"));
    let sizes: Vec<usize> =
        sizes.iter().map(|&s| usize::try_from(s).map_err(negative)).collect::<Result<_, _>>()?;
    split(args, x, dim, &sizes, outs)
}

pub(super) fn split_tensor(args: &mut Args) -> Result<Plan, Fault> {
    let (x, size, dim) = (args.input("self")?, args.u64() as usize, args.i64());
    let outs = args.outputs("out")?;
    x.has_rank(1..=8)?;
    let dim = dimension(dim, x.rank(), "dim")?;
    ensure(size > 0, || "splitSections is 0".to_owned())?;
    let total = x.dims()[dim];
    let sizes: Vec<usize> = (0..total).step_by(size).map(|start| size.min(total - start)).collect();
    split(args, x, dim, &sizes, outs)
}
