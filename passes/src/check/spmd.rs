//! SPMD equivalence: all ranks of a localised module together compute what the global module computes.
//!
//! One step of both modules is evaluated in f64 without rounding, from the same state and inputs: the global one as it is, the localised
//! one on every rank of the mesh, each with its shards. Then every rank must hold its shard of the same new state, with zero padding, and
//! show the same outputs. For small sizes, in tests.

use smallvec::SmallVec;
use std::collections::BTreeMap;
use titan_ir::eval::Tensor;
use titan_ir::{DType, Func, Layout, Mesh, Module, Node, Op, Param, ResultKind, Role, TensorType, ValueId};

/// Relative difference allowed: sums of f64 in another order.
const TOLERANCE: f64 = 1e-9;

/// Compares one step. Integer inputs are drawn from `0..num_ids`.
///
/// # Errors
/// The first difference: what, on which rank, and both numbers.
pub fn compare(global: &Module, local: &Module, num_ids: u64) -> Result<(), String> {
    compare_within(global, local, num_ids, TOLERANCE)
}

/// As [`compare`], with a relative difference allowed: for a module that holds kernels, whose constants are f32.
///
/// # Errors
/// As [`compare`].
pub fn compare_within(global: &Module, local: &Module, num_ids: u64, tolerance: f64) -> Result<(), String> {
    let one_rank = Mesh::default();
    let first = draw_state(global, num_ids);
    let expected = run(global, &one_rank, &first);
    let shards = |param: &Param, rank: u64| shard(&first[&param.name], &param.layout, &local.mesh, rank);
    let state: Vec<State> = (0..local.mesh.num_ranks())
        .map(|rank| params(local).map(|p| (p.name.clone(), shards(p, rank))).collect())
        .collect();
    let found = run_ranks(local, &local.mesh, state);
    for (rank, found) in found.iter().enumerate() {
        for param in params(local) {
            let expected = shard(&expected.state[&param.name], &param.layout, &local.mesh, rank as u64);
            same(&param.name, rank, &expected, &found.state[&param.name], tolerance)?;
        }
        for (name, expected) in &expected.outputs {
            let found = found.outputs.get(name).ok_or_else(|| format!("output `{name}` is gone"))?;
            same(name, rank, expected, found, tolerance)?;
        }
    }
    Ok(())
}

type State = BTreeMap<String, Tensor>;

/// What one rank holds after a step.
#[derive(Debug, Clone, Default)]
struct Outcome {
    state: State,
    outputs: State,
}

fn params(module: &Module) -> impl Iterator<Item = &Param> {
    module.funcs.iter().flat_map(|f| &f.params)
}

fn same(name: &str, rank: usize, expected: &Tensor, found: &Tensor, tolerance: f64) -> Result<(), String> {
    if expected.dims != found.dims {
        return Err(format!("`{name}` on rank {rank}: {:?}, expected {:?}", found.dims, expected.dims));
    }
    for (i, (x, y)) in expected.data.iter().zip(&found.data).enumerate() {
        let close = (x - y).abs() <= tolerance * (1.0 + x.abs());
        if !close {
            return Err(format!("`{name}` on rank {rank}, element {i}: {y}, expected {x}"));
        }
    }
    Ok(())
}

/// A number in `0..1` from a name and a position: the same in every run.
fn draw(name: &str, i: u64) -> f64 {
    let mut bits = i.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for byte in name.bytes() {
        bits = (bits ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        bits ^= bits >> 29;
    }
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// First values of all state and inputs, by name.
fn draw_state(module: &Module, num_ids: u64) -> State {
    let tensor = |(func, param): (&Func, &Param)| {
        let ty = func.ty(param.value);
        let element = |i: u64| {
            let x = draw(&param.name, i);
            match param.role {
                _ if ty.dtype == DType::I32 => (x * num_ids as f64).floor(),
                Role::GradAccum => 0.0,
                Role::Param | Role::Input => 2.0 * x - 1.0,
                // Positive: second moments have a square root, tables are divided by.
                Role::Optimizer | Role::Buffer => 0.1 + 0.8 * x,
            }
        };
        (
            param.name.clone(),
            Tensor { dims: ty.dims.clone(), data: (0..ty.num_elements()).map(element).collect() },
        )
    };
    module.funcs.iter().flat_map(|f| f.params.iter().map(move |p| (f, p))).map(tensor).collect()
}

/// The part of a global tensor a rank stores: chunks of `ceil(n / ranks)`, zeros past the end.
fn shard(global: &Tensor, layout: &Layout, mesh: &Mesh, rank: u64) -> Tensor {
    // Per dimension: first global index, length of the chunk, end of what is there.
    let cut = |(dim, &n): (usize, &u64)| {
        layout.axes_of_dim(dim).fold((0, n, n), |(start, len, end), axis| {
            let chunk = len.div_ceil(mesh.size(axis));
            let start = start + mesh.coordinate(rank, axis) * chunk;
            (start, chunk, end.min(start + chunk))
        })
    };
    let cuts: Vec<(u64, u64, u64)> = global.dims.iter().enumerate().map(cut).collect();
    let dims: SmallVec<[u64; 4]> = cuts.iter().map(|&(_, len, _)| len).collect();
    let element = |flat: u64| {
        let (mut rest, mut stride, mut index, mut is_there) = (flat, 1, 0, true);
        for (&(start, len, end), &n) in cuts.iter().zip(&global.dims).rev() {
            let at = start + rest % len;
            rest /= len;
            is_there &= at < end;
            index += at * stride;
            stride *= n;
        }
        if is_there { global.data[usize::try_from(index).expect("small")] } else { 0.0 }
    };
    let num_elements: u64 = dims.iter().product();
    Tensor { data: (0..num_elements).map(element).collect(), dims }
}

/// One step on one rank.
fn run(module: &Module, mesh: &Mesh, state: &State) -> Outcome {
    run_ranks(module, mesh, vec![state.clone()]).pop().expect("one rank")
}

/// One step on all ranks.
fn run_ranks(module: &Module, mesh: &Mesh, state: Vec<State>) -> Vec<Outcome> {
    let mut ranks: Vec<Outcome> =
        state.into_iter().map(|state| Outcome { state, outputs: State::new() }).collect();
    for func in &module.funcs {
        for microbatch in 0..func.repeat {
            run_func(func, mesh, &mut ranks, microbatch);
        }
    }
    ranks
}

fn run_func(func: &Func, mesh: &Mesh, ranks: &mut [Outcome], microbatch: u64) {
    let mut values: Vec<Vec<Option<Tensor>>> = vec![vec![None; func.num_values()]; ranks.len()];
    for (values, rank) in values.iter_mut().zip(&*ranks) {
        for param in &func.params {
            values[param.value.index()] = Some(rank.state[&param.name].clone());
        }
    }
    for node in &func.nodes {
        let results: Vec<_> = (0..ranks.len()).map(|rank| eval(func, mesh, node, &values, rank)).collect();
        for (values, results) in values.iter_mut().zip(results) {
            for (out, tensor) in node.outs.iter().zip(results) {
                values[out.index()] = Some(tensor);
            }
        }
    }
    for (values, rank) in values.iter().zip(ranks) {
        for result in &func.results {
            let value = get(values, result.value).clone();
            match &result.kind {
                ResultKind::Update(param) => rank.state.insert(func.params[*param].name.clone(), value),
                ResultKind::Output(name) => rank.outputs.insert(format!("{name} {microbatch}"), value),
            };
        }
    }
}

fn get(values: &[Option<Tensor>], value: ValueId) -> &Tensor {
    values[value.index()].as_ref().expect("defined before use")
}

/// The results of a node on one rank.
fn eval(
    func: &Func,
    mesh: &Mesh,
    node: &Node,
    values: &[Vec<Option<Tensor>>],
    rank: usize,
) -> SmallVec<[Tensor; 2]> {
    let group = |axis| {
        let ranks = mesh.group(rank as u64, axis);
        move |value: ValueId| -> Vec<&Tensor> {
            ranks.iter().map(|&r| get(&values[usize::try_from(r).expect("few ranks")], value)).collect()
        }
    };
    let part = |axis| usize::try_from(mesh.coordinate(rank as u64, axis)).expect("few ranks");
    match &node.op {
        Op::AllGather(op) => node.ins.iter().map(|&v| concatenate(&group(op.axis)(v))).collect(),
        Op::AllReduce(op) => {
            node.ins.iter().map(|&v| reduce(&group(op.axis)(v), |a, b| op.reduce.apply(a, b))).collect()
        }
        Op::ReduceScatter(op) => {
            let whole = |&v: &ValueId| reduce(&group(op.axis)(v), |a, b| op.reduce.apply(a, b));
            node.ins.iter().map(|v| chunk(&whole(v), op.ranks, part(op.axis))).collect()
        }
        Op::RankSlice(op) => {
            node.ins.iter().map(|&v| chunk(get(&values[rank], v), op.ranks, part(op.axis))).collect()
        }
        op => {
            let ins: Vec<&Tensor> = node.ins.iter().map(|&v| get(&values[rank], v)).collect();
            let outs: Vec<&TensorType> = node.outs.iter().map(|&v| func.ty(v)).collect();
            op.rules().eval(&ins, &outs)
        }
    }
}

fn concatenate(parts: &[&Tensor]) -> Tensor {
    let mut dims = parts[0].dims.clone();
    dims[0] = parts.iter().map(|t| t.dims[0]).sum();
    Tensor { dims, data: parts.iter().flat_map(|t| t.data.iter().copied()).collect() }
}

fn reduce(parts: &[&Tensor], apply: impl Fn(f64, f64) -> f64) -> Tensor {
    let mut sum = parts[0].clone();
    for part in &parts[1..] {
        for (x, &y) in sum.data.iter_mut().zip(&part.data) {
            *x = apply(*x, y);
        }
    }
    sum
}

/// Part `part` of `ranks` along dimension 0, zeros past the end.
fn chunk(whole: &Tensor, ranks: u64, part: usize) -> Tensor {
    let mut dims = whole.dims.clone();
    dims[0] = dims[0].div_ceil(ranks);
    let len = usize::try_from(dims.iter().product::<u64>()).expect("small");
    let at = |i: usize| whole.data.get(part * len + i).copied().unwrap_or(0.0);
    Tensor { data: (0..len).map(at).collect(), dims }
}
