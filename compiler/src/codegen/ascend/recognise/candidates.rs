//! Ops a kernel could be, with types read off the kernel.

use super::super::launch::Launch;
use super::{Candidate, Repeated};
use titan_ir::kernel::{Access, Cols, Expr, Input, RowKernel, Store};
use titan_ir::ops::{adamw, cross_entropy, embedding, rms_norm, rope, silu};
use titan_ir::{DType, TensorType};

/// Ops whose lowering `launch` may be.
pub(super) fn candidates(launch: &Launch<'_>) -> Vec<Candidate> {
    match (launch.kernel.cols, launch.len) {
        (Cols::Static(cols), _) => of_rows(launch.kernel, launch.rows, cols),
        (Cols::Flat { .. }, Some(len)) => of_elements(launch.kernel, len),
        (Cols::Flat { .. }, None) => Vec::new(),
    }
}

/// The element types of the inputs of an access.
fn dtypes(kernel: &RowKernel, wanted: impl Fn(&Access) -> bool) -> Vec<DType> {
    kernel.inputs.iter().filter(|i| wanted(&i.access)).map(|i| i.dtype).collect()
}

fn constants(kernel: &RowKernel) -> Vec<f32> {
    let constant = |e: &Expr| if let Expr::Const(bits) = e { Some(f32::from_bits(*bits)) } else { None };
    kernel.exprs.iter().filter_map(constant).collect()
}

/// The number a setting was before it became an f32: the shortest that rounds to it.
fn setting(x: f32) -> f64 {
    x.to_string().parse().unwrap_or_else(|_| f64::from(x))
}

fn of_elements(kernel: &RowKernel, len: u64) -> Vec<Candidate> {
    let full = dtypes(kernel, |a| *a == Access::Full);
    let x = |i: usize| TensorType::new(full[i], &[len]);
    match (full.len(), kernel.inputs.len()) {
        (1, 1) => vec![Candidate::new(silu::Silu, vec![x(0)])],
        (2, 2) => vec![Candidate::new(silu::SiluGrad, vec![x(0), x(1)])],
        (4, 7) => adamw(kernel, len),
        _ => Vec::new(),
    }
}

/// Every assignment of the constants to the settings of AdamW that could be.
fn adamw(kernel: &RowKernel, len: u64) -> Vec<Candidate> {
    let all: Vec<f64> = constants(kernel).into_iter().map(setting).collect();
    let known = |x: f64| all.iter().any(|&y| y as f32 == x as f32);
    let betas: Vec<f64> =
        all.iter().copied().filter(|&x| (0.5..1.0).contains(&x) && known(1.0 - x)).collect();
    let mut found = Vec::new();
    let (f32_of, scalar) = (TensorType::new(DType::F32, &[len]), TensorType::scalar(DType::F32));
    let types: Vec<TensorType> =
        std::iter::repeat_n(f32_of, 4).chain(std::iter::repeat_n(scalar, 3)).collect();
    for &beta1 in &betas {
        for &beta2 in &betas {
            for &eps in all.iter().filter(|&&x| x < 1e-2) {
                for &weight_decay in &all {
                    for decoupled in [true, false] {
                        let op = adamw::AdamW { beta1, beta2, eps, weight_decay, decoupled };
                        found.push(Candidate::new(op, types.clone()));
                    }
                }
            }
        }
    }
    found
}

fn of_rows(kernel: &RowKernel, rows: u64, cols: u64) -> Vec<Candidate> {
    let full = dtypes(kernel, |a| *a == Access::Full);
    let col = dtypes(kernel, |a| *a == Access::Col);
    let row = dtypes(kernel, |a| *a == Access::Row);
    let t = |dtype, dims: &[u64]| TensorType::new(dtype, dims);
    let f32_row = || t(DType::F32, &[rows]);
    match (&full[..], &col[..], &row[..]) {
        ([x], [g], []) => {
            let types = vec![t(*x, &[rows, cols]), t(*g, &[cols])];
            let norm = |eps| Candidate::new(rms_norm::RmsNorm { eps }, types.clone());
            constants(kernel).into_iter().map(setting).map(norm).collect()
        }
        ([x, dy], [g], [DType::F32]) => {
            let types = vec![t(*x, &[rows, cols]), t(*g, &[cols]), f32_row(), t(*dy, &[rows, cols])];
            vec![Candidate::new(rms_norm::RmsNormGrad, types)]
        }
        ([x], [], [DType::I32]) => {
            let types = vec![t(*x, &[rows, cols]), t(DType::I32, &[rows])];
            vec![Candidate::new(cross_entropy::CrossEntropy, types)]
        }
        ([x], [], [_, _, rest @ ..]) => {
            let types = vec![t(*x, &[rows, cols]), t(DType::I32, &[rows]), f32_row(), f32_row()];
            let op = Candidate::new(cross_entropy::CrossEntropyGrad, types);
            if !rest.is_empty() {
                return vec![op];
            }
            // The gradient of a sum of losses is one number for all rows.
            let values = constants(kernel).into_iter().map(Some).chain([None]);
            let repeated = |value| Some(Repeated { operand: 3, value });
            values.map(|value| Candidate { repeated: repeated(value), ..op.clone() }).collect()
        }
        ([x], [], []) => rope(kernel, *x, rows, cols),
        ([], [], [DType::I32]) => embedding(kernel, rows, cols),
        _ => Vec::new(),
    }
}

fn rope(kernel: &RowKernel, x: DType, rows: u64, cols: u64) -> Vec<Candidate> {
    let table = kernel.inputs.iter().find_map(|input| match input {
        Input { access: Access::Table { row_mod, width, .. }, .. } => Some((*row_mod, *width)),
        _ => None,
    });
    let Some((tokens, width)) = table.filter(|(tokens, _)| rows.is_multiple_of(*tokens)) else {
        return Vec::new();
    };
    let table = TensorType::new(DType::F32, &[tokens, width]);
    let x = TensorType::new(x, &[rows / tokens, tokens, cols / width, width]);
    let types = vec![x, table.clone(), table];
    [false, true].map(|inverse| Candidate::new(rope::Rope { inverse }, types.clone())).into()
}

fn embedding(kernel: &RowKernel, rows: u64, cols: u64) -> Vec<Candidate> {
    let table = kernel.inputs.iter().find_map(|input| match input.access {
        Access::Gather { num, .. } => Some((input.dtype, num)),
        _ => None,
    });
    let is_one_row = kernel.outputs.iter().any(|o| o.store != Store::Full);
    let Some((dtype, num)) = table.filter(|_| !is_one_row) else { return Vec::new() };
    let types = vec![TensorType::new(dtype, &[num, cols]), TensorType::new(DType::I32, &[rows])];
    vec![Candidate::new(embedding::Embedding, types)]
}
