//! Evaluation of per-rank programs: all ranks of the mesh, node by node.

use super::{EvalMode, Tensor, eval_node};
use crate::kernel::ReduceKind;
use crate::{AxisId, Func, Layout, Mesh, Node, Op, Placement, ice};
use smallvec::SmallVec;

/// The results of a function on every rank, in order. Collectives combine the ranks' values in the order of their coordinates.
///
/// `args[rank]` are the parameters' values on that rank.
pub fn eval_ranks(func: &Func, mesh: &Mesh, args: &[Vec<Tensor>], mode: EvalMode) -> Vec<Vec<Tensor>> {
    let num_ranks = mesh.num_ranks() as usize;
    if args.len() != num_ranks {
        ice!("arguments of {} ranks for a mesh of {num_ranks}", args.len());
    }
    let mut uses = func.num_uses();
    let mut values: Vec<Vec<Option<Tensor>>> = args.iter().map(|args| bind(func, args)).collect();
    for node in &func.nodes {
        let outs = eval_on_ranks(func, node, mesh, &values, mode);
        for (values, outs) in values.iter_mut().zip(outs) {
            for (&value, out) in node.outs.iter().zip(outs) {
                values[value.index()] = Some(out);
            }
        }
        for value in &node.ins {
            uses[value.index()] -= 1;
            if uses[value.index()] == 0 {
                values.iter_mut().for_each(|values| values[value.index()] = None);
            }
        }
    }
    let result = |values: &Vec<Option<Tensor>>| -> Vec<Tensor> {
        func.results.iter().map(|r| get(values, r.value.index()).clone()).collect()
    };
    values.iter().map(result).collect()
}

/// The values of a rank before the first node.
fn bind(func: &Func, args: &[Tensor]) -> Vec<Option<Tensor>> {
    if args.len() != func.params.len() {
        ice!("{} arguments for {} parameters of `{}`", args.len(), func.params.len(), func.name);
    }
    let mut values = vec![None; func.num_values()];
    for (param, arg) in func.params.iter().zip(args) {
        let dims = &func.ty(param.value).dims;
        if arg.dims != *dims {
            ice!("parameter `{}` has dimensions {dims:?}, its value {:?}", param.name, arg.dims);
        }
        values[param.value.index()] = Some(arg.clone());
    }
    values
}

fn get(values: &[Option<Tensor>], value: usize) -> &Tensor {
    let Some(tensor) = &values[value] else { ice!("%{value} is used before it is defined") };
    tensor
}

fn eval_on_ranks(
    func: &Func,
    node: &Node,
    mesh: &Mesh,
    values: &[Vec<Option<Tensor>>],
    mode: EvalMode,
) -> Vec<SmallVec<[Tensor; 2]>> {
    // One result per operand, as a function of the rank and the operand.
    let per_rank = |f: &dyn Fn(u64, usize) -> Tensor| {
        let of_rank = |rank| (0..node.ins.len()).map(|i| f(rank, i)).collect();
        (0..values.len() as u64).map(of_rank).collect()
    };
    let operand = |rank: u64, i: usize| get(&values[rank as usize], node.ins[i].index());
    let group = |rank: u64, axis: AxisId, i: usize| {
        mesh.group(rank, axis).into_iter().map(move |rank| operand(rank, i))
    };
    let reduced = |rank: u64, axis: AxisId, reduce: ReduceKind, i: usize| {
        let dtype = func.ty(node.outs[i]).dtype;
        let round = |x: f64| if mode == EvalMode::Rounded { dtype.round(x) } else { x };
        combine(group(rank, axis, i), |a, b| round(reduce.apply(a, b)))
    };
    match &node.op {
        Op::AllGather(op) => per_rank(&|rank, i| concat(&group(rank, op.axis, i).collect::<Vec<_>>(), 0)),
        Op::ReduceScatter(op) => per_rank(&|rank, i| {
            chunk(&reduced(rank, op.axis, op.reduce, i), 0, op.ranks, mesh.coordinate(rank, op.axis))
        }),
        Op::AllReduce(op) => per_rank(&|rank, i| reduced(rank, op.axis, op.reduce, i)),
        Op::RankSlice(op) => {
            per_rank(&|rank, i| chunk(operand(rank, i), 0, op.ranks, mesh.coordinate(rank, op.axis)))
        }
        _ => values
            .iter()
            .map(|values| {
                let ins: Vec<&Tensor> = node.ins.iter().map(|v| get(values, v.index())).collect();
                eval_node(func, node, &ins, mode)
            })
            .collect(),
    }
}

/// Part `index` of `parts` along a dimension: `ceil(n / parts)` long, zeros past the end.
fn chunk(x: &Tensor, dim: usize, parts: u64, index: u64) -> Tensor {
    let len = x.dims[dim].div_ceil(parts);
    slice(x, dim, index * len, len)
}

/// `len` elements along a dimension from `start` on, zeros past the end.
fn slice(x: &Tensor, dim: usize, start: u64, len: u64) -> Tensor {
    let mut dims = x.dims.clone();
    dims[dim] = len;
    let inner: u64 = x.dims[dim + 1..].iter().product();
    let end = (start + len).min(x.dims[dim]).max(start.min(x.dims[dim]));
    let start = start.min(x.dims[dim]);
    let (from, to) = ((start * inner) as usize, (end * inner) as usize);
    let mut data = Vec::with_capacity(dims.iter().product::<u64>() as usize);
    for block in x.data.chunks((x.dims[dim] * inner).max(1) as usize) {
        data.extend_from_slice(&block[from..to]);
        data.resize(data.len() + (len * inner) as usize - (to - from), 0.0);
    }
    Tensor { dims, data }
}

/// What a rank holds of a global tensor. Of partial sums the first rank along the axis has the value and the others zeros.
pub fn shard(x: &Tensor, layout: &Layout, mesh: &Mesh, rank: u64) -> Tensor {
    layout.iter().fold(x.clone(), |x, (axis, placement)| {
        let coordinate = mesh.coordinate(rank, axis);
        match placement {
            Placement::Shard(dim) => chunk(&x, usize::from(dim), mesh.size(axis), coordinate),
            Placement::Partial(ReduceKind::Sum) if coordinate > 0 => Tensor::zeros(&x.dims),
            Placement::Partial(_) => x,
        }
    })
}

/// The global tensor of dimensions `dims` of which `parts[rank]` are the parts.
///
/// # Errors
/// When ranks that should hold the same value do not, to the bit.
pub fn unshard(parts: &[Tensor], layout: &Layout, mesh: &Mesh, dims: &[u64]) -> Result<Tensor, String> {
    let mut parts: Vec<Option<Tensor>> = parts.iter().cloned().map(Some).collect();
    for axis in (0..mesh.axes.len()).rev().map(AxisId::new) {
        for rank in (0..mesh.num_ranks()).filter(|&rank| mesh.coordinate(rank, axis) == 0) {
            let group: Option<Vec<Tensor>> =
                mesh.group(rank, axis).into_iter().map(|r| parts[r as usize].take()).collect();
            // Ranks that differ along inner axes are already combined.
            let Some(group) = group else { continue };
            let outer = |dim: usize| layout.axes_of_dim(dim).filter(|a| *a < axis).map(|a| mesh.size(a));
            let whole = match layout.get(axis) {
                Some(Placement::Shard(dim)) => {
                    let dim = usize::from(dim);
                    let len = outer(dim).fold(dims[dim], |n, ranks| n.div_ceil(ranks));
                    slice(&concat(&group.iter().collect::<Vec<_>>(), dim), dim, 0, len)
                }
                Some(Placement::Partial(reduce)) => combine(group.iter(), |a, b| reduce.apply(a, b)),
                None => same(group).ok_or_else(|| {
                    format!("ranks along `{}` hold different values", mesh.axes[axis.index()].name)
                })?,
            };
            parts[rank as usize] = Some(whole);
        }
    }
    let whole = parts.swap_remove(0).expect("rank 0 is the first of every axis");
    if whole.dims.as_slice() == dims {
        Ok(whole)
    } else {
        Err(format!("parts of {dims:?} make {:?}", whole.dims))
    }
}

/// The parts one after the other along a dimension.
fn concat(parts: &[&Tensor], dim: usize) -> Tensor {
    let mut dims = parts[0].dims.clone();
    dims[dim] = parts.iter().map(|p| p.dims[dim]).sum();
    let outer = dims[..dim].iter().product::<u64>() as usize;
    let mut data = Vec::with_capacity(parts.iter().map(|p| p.data.len()).sum());
    for block in 0..outer {
        for part in parts {
            let len = part.data.len() / outer;
            data.extend_from_slice(&part.data[block * len..][..len]);
        }
    }
    Tensor { dims, data }
}

/// The parts combined element by element, in order.
fn combine<'a>(mut parts: impl Iterator<Item = &'a Tensor>, f: impl Fn(f64, f64) -> f64) -> Tensor {
    let first = parts.next().expect("an axis has a rank").clone();
    parts.fold(first, |mut whole, part| {
        whole.data.iter_mut().zip(&part.data).for_each(|(a, b)| *a = f(*a, *b));
        whole
    })
}

fn same(mut parts: Vec<Tensor>) -> Option<Tensor> {
    let first = parts.swap_remove(0);
    let bits = |t: &Tensor| t.data.iter().map(|x| x.to_bits()).collect::<Vec<u64>>();
    parts.iter().all(|part| bits(part) == bits(&first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sharding_and_back() {
        let mesh = Mesh::new(&[("a", 2), ("b", 3)]);
        let x = Tensor::new(&[4, 5], (0..20).map(f64::from).collect());
        let layouts = [
            Layout::replicate(),
            Layout::replicate().with(AxisId(0), Placement::Shard(0)).with(AxisId(1), Placement::Shard(1)),
            Layout::replicate().with(AxisId(0), Placement::Shard(1)).with(AxisId(1), Placement::Shard(1)),
            Layout::replicate().with(AxisId(1), Placement::Partial(ReduceKind::Sum)),
            Layout::replicate()
                .with(AxisId(0), Placement::Partial(ReduceKind::Max))
                .with(AxisId(1), Placement::Shard(0)),
        ];
        for layout in layouts {
            let mut parts: Vec<Tensor> = (0..6).map(|rank| shard(&x, &layout, &mesh, rank)).collect();
            assert!(parts.iter().all(|p| p.dims == layout.local_dims(&mesh, &x.dims)));
            assert_eq!(unshard(&parts, &layout, &mesh, &x.dims).as_ref(), Ok(&x), "{layout:?}");
            if layout.is_replicate() {
                parts[4].data[7] += 1.0;
                assert!(unshard(&parts, &layout, &mesh, &x.dims).is_err());
            }
        }
    }

    #[test]
    fn chunks_are_torchs() {
        let x = Tensor::new(&[5], vec![1.0, 2.0, 3.0, 4.0, 5.0]);
        let chunks: Vec<Vec<f64>> = (0..4).map(|i| chunk(&x, 0, 4, i).data).collect();
        assert_eq!(chunks, [vec![1.0, 2.0], vec![3.0, 4.0], vec![5.0, 0.0], vec![0.0, 0.0]]);
    }
}
