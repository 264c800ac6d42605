//! [`RowKernel`]s as static tensor functions for the device compiler.

mod body;
mod rules;
mod shape;
mod split;
mod text;

pub use split::{Piece, split};

use body::Writer;
use shape::Shape;
use text::Value;
use titan_ir::ascend::{Access, DeviceKernel, Element, KernelArg, Soc, TableFill};
use titan_ir::ice;
use titan_ir::kernel::row::Rank;
use titan_ir::kernel::{self, Expr, KernelSpec, RowKernel};

/// Why a kernel is not in the device compiler's subset; it goes the way of operators instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit(pub String);

/// The function of `kernel` over `rows` rows, or over `rows` elements of a flat domain.
///
/// A launch takes one address per input of the kernel, then one per constant table of [`DeviceKernel::tables`], then one per output.
///
/// # Errors
/// [`Unfit`], with the reason.
pub fn emit(kernel: &RowKernel, rows: u64, soc: &Soc) -> Result<DeviceKernel, Unfit> {
    let shape = Shape::of(kernel, rows)?;
    rules::check(kernel, &shape)?;
    let tables = tables(kernel, &shape);
    let inputs = input_args(kernel, &shape);
    let values: Vec<Value> = inputs
        .iter()
        .chain(&table_args(&tables, &shape))
        .enumerate()
        .map(|(i, arg)| Value {
            name: format!("%a{i}"),
            dims: arg.dims.clone(),
            element: mlir_name(arg.element),
        })
        .collect();
    let mut writer = Writer::new(kernel, &shape, &values);
    let results: Vec<Value> =
        (0..kernel.outputs.len()).map(|i| writer.output(i)).collect::<Result<_, _>>()?;
    let symbol = symbol(kernel, rows);
    let mlir = writer.body.function(&symbol, &values, &results);
    let outputs = results.iter().map(|value| KernelArg {
        element: if value.element == "bf16" { Element::Bf16 } else { Element::F32 },
        dims: value.dims.clone(),
        access: Access::Write,
    });
    let args = inputs.into_iter().chain(table_args(&tables, &shape)).chain(outputs).collect();
    let kernel = kernel.clone();
    Ok(DeviceKernel {
        symbol,
        kernel,
        rows,
        mlir,
        args,
        tables,
        num_blocks: soc.vector_cores,
        object: vec![],
    })
}

/// A name that says nothing but which kernel it is.
fn symbol(kernel: &RowKernel, rows: u64) -> String {
    let text = kernel::text::print(&KernelSpec::Row(kernel.clone()));
    let hash = blake3::hash(format!("{rows} {text}").as_bytes()).to_hex();
    format!("titan_{}", &hash[..24])
}

fn mlir_name(element: Element) -> &'static str {
    match element {
        Element::F32 => "f32",
        Element::Bf16 => "bf16",
        Element::I32 => "i32",
        Element::I64 | Element::U8 | Element::Bool => {
            ice!("no operand of a kernel is of type {}", element.name())
        }
    }
}

fn tables(kernel: &RowKernel, shape: &Shape) -> Vec<TableFill> {
    let len = shape.cols.iter().product();
    let reads = kernel.exprs.contains(&Expr::ColIndex);
    reads.then_some(TableFill::Iota { len }).into_iter().collect()
}

fn table_args(tables: &[TableFill], shape: &Shape) -> Vec<KernelArg> {
    let arg = |_| KernelArg { element: Element::F32, dims: shape.cols.clone(), access: Access::Read };
    tables.iter().map(arg).collect()
}

fn input_args(kernel: &RowKernel, shape: &Shape) -> Vec<KernelArg> {
    use kernel::Access as At;
    let dims = |access| match access {
        At::Full | At::Tile | At::Gather { .. } => shape.full(),
        At::Row => shape.of_rank(Rank::Row),
        At::Col => shape.of_rank(Rank::Col),
        At::Scalar => vec![1],
        At::Table { row_div, row_mod, width } => shape.table([row_div, row_mod, width]).0,
    };
    let arg = |input: &kernel::Input| KernelArg {
        element: input.dtype.into(),
        dims: dims(input.access),
        access: Access::Read,
    };
    kernel.inputs.iter().map(arg).collect()
}
