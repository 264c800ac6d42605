//! What the device compiler does not compile, or compiles wrongly: kernels outside its subset are refused here, each with its reason.
//!
//! **Source**: `bishengir-compile` 1.2.0, given kernels of every form with and without the thing in question; `make check-ascend-kernels` gives it
//! those of the examples and random ones, of which none may be refused.

use super::Unfit;
use super::shape::Shape;
use titan_ir::DType;
use titan_ir::kernel::row::Rank;
use titan_ir::kernel::{Access, Cols, Expr, RowKernel, Store};

/// Bytes a row must be a multiple of: others are padded, but not the buffer that holds them, and the last ones run into the next buffer.
const ROW_BYTES: u64 = 32;

/// Columns that taking pairs apart leaves whole rows of.
const PAIR_COLS: u64 = 16;

/// Judges a kernel.
pub(super) fn check(kernel: &RowKernel, shape: &Shape) -> Result<(), Unfit> {
    let ranks = kernel.ranks();
    let rules: [(bool, &str); 15] = [
        (shape.full().contains(&0), "has no elements"),
        (loads(kernel, |a| matches!(a, Access::Gather { .. })), "gathers rows"),
        (loads(kernel, |a| a == Access::Tile), "reads the tile of a contraction"),
        (kernel.outputs.iter().any(|o| o.dtype == DType::I32), "stores integers"),
        (misuses_a_vector(kernel, shape), "addresses rows or columns of a vector"),
        (kernel.block_rows().is_some() && kernel.has_row_reduction(), "reduces along rows and along columns"),
        (kernel.block_rows().is_some() && compares(kernel), "compares under a sum over rows"),
        (
            kernel.block_rows().is_some() && loads(kernel, |a| matches!(a, Access::Table { .. })),
            "reads a table under a sum over rows",
        ),
        (stores_one_row(kernel, shape), "stores a row's value and elements of one row"),
        (has_ragged_rows(kernel, shape), "rows are no multiple of 32 bytes"),
        (reduces_a_constant(kernel, &ranks), "reduces what is the same in a whole row"),
        (stores_a_constant(kernel), "stores what depends on no operand"),
        (stores_unreduced_rows(kernel), "stores a row's value that no reduction gives beside elements"),
        (stores_repeated_values(kernel, &ranks), "stores what is the same in whole rows or columns"),
        (confuses_dimensions(kernel, shape, &ranks), "reduces rows of as many columns as there are rows"),
    ];
    match rules.iter().find(|(is_broken, _)| *is_broken) {
        Some((_, reason)) => Err(Unfit((*reason).to_owned())),
        None => Ok(()),
    }
}

fn loads(kernel: &RowKernel, wanted: impl Fn(Access) -> bool) -> bool {
    kernel.inputs.iter().any(|input| wanted(input.access))
}

/// A vector has no rows, and the columns of a chunk are numbered from the start of the vector.
fn misuses_a_vector(kernel: &RowKernel, shape: &Shape) -> bool {
    if matches!(kernel.cols, Cols::Static(_)) {
        return false;
    }
    let reads_rows = loads(kernel, |a| matches!(a, Access::Row | Access::Table { .. }));
    let reads_columns = loads(kernel, |a| a == Access::Col) || kernel.exprs.contains(&Expr::ColIndex);
    let stores_rows = kernel.outputs.iter().any(|o| o.store != Store::Full);
    let is_cut = shape.rows.iter().any(|&rows| rows > 1);
    reads_rows
        || (reads_columns && is_cut)
        || (stores_rows && !kernel.has_row_reduction())
        || kernel.block_rows().is_some()
}

fn compares(kernel: &RowKernel) -> bool {
    kernel.exprs.iter().any(|e| matches!(e, Expr::SelectEq(..) | Expr::SelectLt(..)))
}

fn has_ragged_rows(kernel: &RowKernel, shape: &Shape) -> bool {
    let swaps = kernel.exprs.iter().any(|e| matches!(e, Expr::SwapPairs(_)));
    if swaps && !shape.innermost().is_multiple_of(PAIR_COLS) {
        return true;
    }
    if shape.rows.iter().product::<u64>() == 1 && shape.cols.len() == 1 {
        return false;
    }
    let stored = kernel.outputs.iter().filter(|o| o.store == Store::Full).map(|o| o.dtype);
    let loaded =
        kernel.inputs.iter().filter(|i| !matches!(i.access, Access::Row | Access::Scalar)).map(|i| i.dtype);
    let mut dtypes = stored.chain(loaded).chain([DType::F32]);
    !shape.rows.is_empty()
        && dtypes.any(|dtype| !(shape.innermost() * dtype.size_bytes() as u64).is_multiple_of(ROW_BYTES))
}

fn reduces_a_constant(kernel: &RowKernel, ranks: &[Rank]) -> bool {
    let is_constant = |rank: Rank| matches!(rank, Rank::Row | Rank::Scalar);
    kernel
        .exprs
        .iter()
        .any(|e| matches!(e, Expr::RowSum(a) | Expr::RowMax(a) if is_constant(ranks[a.index()])))
}

/// For each expression, whether it or anything it needs is `wanted`.
fn reaches(kernel: &RowKernel, wanted: impl Fn(&Expr) -> bool) -> Vec<bool> {
    let mut reached: Vec<bool> = Vec::with_capacity(kernel.exprs.len());
    for expr in &kernel.exprs {
        reached.push(wanted(expr) || expr.operands().any(|operand| reached[operand.index()]));
    }
    reached
}

fn stores_a_constant(kernel: &RowKernel) -> bool {
    let reads = reaches(kernel, |e| matches!(e, Expr::Load(_)));
    kernel.outputs.iter().any(|o| !reads[o.value.index()])
}

fn stores_unreduced_rows(kernel: &RowKernel) -> bool {
    let reduces = reaches(kernel, |e| matches!(e, Expr::RowSum(_) | Expr::RowMax(_)));
    let stores_elements = kernel.outputs.iter().any(|o| o.store == Store::Full);
    stores_elements && kernel.outputs.iter().any(|o| o.store == Store::Row && !reduces[o.value.index()])
}

fn stores_repeated_values(kernel: &RowKernel, ranks: &[Rank]) -> bool {
    kernel.outputs.iter().any(|o| o.store != Store::Row && ranks[o.value.index()] != Rank::Full)
}

fn stores_one_row(kernel: &RowKernel, shape: &Shape) -> bool {
    let stores = |wanted: Store| kernel.outputs.iter().any(|o| o.store == wanted);
    shape.rows.iter().product::<u64>() == 1 && stores(Store::Row) && stores(Store::Full)
}

/// What varies along columns only is taken for what varies along rows when there are as many of both, and nothing is cut in tiles.
fn confuses_dimensions(kernel: &RowKernel, shape: &Shape, ranks: &[Rank]) -> bool {
    let is_square = shape.rows.iter().product::<u64>() == shape.cols.iter().product::<u64>();
    is_square && kernel.has_row_reduction() && ranks.contains(&Rank::Col)
}
