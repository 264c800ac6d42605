//! Kernels of one reduction axis each.

use titan_ir::kernel::{Access, Expr, ExprId, Input, Output, RowKernel, Store};

/// One of the kernels a kernel is computed by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// What it computes.
    pub kernel: RowKernel,
    /// For each of its operands, inputs then outputs, the operand of the whole kernel.
    pub args: Vec<usize>,
}

/// Column sums go to a kernel of their own, away from what is stored per row or element; a value both need is computed twice. Column sums come
/// first, so that the other kernel may write over inputs of both.
pub fn split(kernel: &RowKernel) -> Vec<Piece> {
    let is_sum = |store: Store| matches!(store, Store::ColSum { .. });
    let pieces = [true, false].map(|sums| piece(kernel, |store| is_sum(store) == sums));
    pieces.into_iter().filter(|piece| !piece.kernel.outputs.is_empty()).collect()
}

/// The part of a kernel that some of its outputs need.
fn piece(kernel: &RowKernel, keep: impl Fn(Store) -> bool) -> Piece {
    let kept: Vec<usize> = (0..kernel.outputs.len()).filter(|&i| keep(kernel.outputs[i].store)).collect();
    let is_needed = needed(kernel, &kept);
    let is_read = read(kernel, &is_needed);
    let exprs = renumbered(&is_needed);
    let inputs = renumbered(&is_read);
    let expr = |id: ExprId| ExprId(exprs[id.index()]);
    let input = |Input { dtype, access }: Input| match access {
        Access::Gather { ids, num } => {
            Input { dtype, access: Access::Gather { ids: inputs[ids as usize], num } }
        }
        _ => Input { dtype, access },
    };
    let chosen = RowKernel {
        cols: kernel.cols,
        inputs: choose(&kernel.inputs, &is_read).map(|i| input(i.clone())).collect(),
        exprs: choose(&kernel.exprs, &is_needed)
            .map(|e| match e {
                Expr::Load(i) => Expr::Load(inputs[*i as usize]),
                other => other.map(expr),
            })
            .collect(),
        outputs: kept
            .iter()
            .map(|&i| Output { value: expr(kernel.outputs[i].value), ..kernel.outputs[i].clone() })
            .collect(),
    };
    let num_inputs = kernel.inputs.len();
    let args = (0..num_inputs).filter(|&i| is_read[i]).chain(kept.iter().map(|i| num_inputs + i)).collect();
    Piece { kernel: chosen, args }
}

/// Which expressions the outputs `kept` need.
fn needed(kernel: &RowKernel, kept: &[usize]) -> Vec<bool> {
    let mut is_needed = vec![false; kernel.exprs.len()];
    kept.iter().for_each(|&i| is_needed[kernel.outputs[i].value.index()] = true);
    for (i, expr) in kernel.exprs.iter().enumerate().rev() {
        if is_needed[i] {
            expr.operands().for_each(|operand| is_needed[operand.index()] = true);
        }
    }
    is_needed
}

/// Which inputs those expressions read.
fn read(kernel: &RowKernel, is_needed: &[bool]) -> Vec<bool> {
    let mut is_read = vec![false; kernel.inputs.len()];
    for expr in choose(&kernel.exprs, is_needed) {
        let Expr::Load(input) = *expr else { continue };
        is_read[input as usize] = true;
        if let Access::Gather { ids, .. } = kernel.inputs[input as usize].access {
            is_read[ids as usize] = true;
        }
    }
    is_read
}

fn choose<'a, T>(items: &'a [T], chosen: &[bool]) -> impl Iterator<Item = &'a T> {
    items.iter().zip(chosen).filter(|(_, chosen)| **chosen).map(|(item, _)| item)
}

/// The new number of each chosen thing.
fn renumbered(chosen: &[bool]) -> Vec<u32> {
    let mut next = 0;
    chosen
        .iter()
        .map(|&chosen| {
            next += u32::from(chosen);
            next.saturating_sub(1)
        })
        .collect()
}
