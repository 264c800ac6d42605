//! SPMD equivalence: all ranks of a localised module together compute what the global module computes.
//!
//! One step of both modules is evaluated in f64 without rounding, from the same state and inputs: the global one as it is, the localised
//! one on every rank of the mesh, each with its shards. Then every rank must hold its shard of the same new state, with zero padding, and
//! show the same outputs. For small sizes, in tests.

use std::collections::BTreeMap;
use titan_ir::eval::{EvalMode, Tensor, eval_ranks, shard};
use titan_ir::{DType, Func, Mesh, Module, Param, ResultKind, Role};

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
    let first = draw_state(global, num_ids);
    let expected = run(global, &Mesh::default(), vec![first.clone()]).pop().expect("one rank");
    let shards = |rank| {
        let of = |p: &Param| (p.name.clone(), shard(&first[&p.name], &p.layout, &local.mesh, rank));
        params(local).map(of).collect()
    };
    let found = run(local, &local.mesh, (0..local.mesh.num_ranks()).map(shards).collect());
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

/// One step on all ranks.
fn run(module: &Module, mesh: &Mesh, state: Vec<State>) -> Vec<Outcome> {
    let start = |state| Outcome { state, outputs: State::new() };
    let mut ranks: Vec<Outcome> = state.into_iter().map(start).collect();
    for func in &module.funcs {
        for microbatch in 0..func.repeat {
            let args = |rank: &Outcome| func.params.iter().map(|p| rank.state[&p.name].clone()).collect();
            let args: Vec<Vec<Tensor>> = ranks.iter().map(args).collect();
            let results = eval_ranks(func, mesh, &args, EvalMode::F64);
            for (rank, values) in ranks.iter_mut().zip(results) {
                for (result, value) in func.results.iter().zip(values) {
                    match &result.kind {
                        ResultKind::Update(param) => {
                            rank.state.insert(func.params[*param].name.clone(), value)
                        }
                        ResultKind::Output(name) => {
                            rank.outputs.insert(format!("{name} {microbatch}"), value)
                        }
                    };
                }
            }
        }
    }
    ranks
}
