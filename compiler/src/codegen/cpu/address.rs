//! Addresses, loads and stores of operands.

use super::builder::{Builder, Cmp, Elem, Memory, Val};
use super::math;
use titan_ir::kernel::workspace::TILE_LD;
use titan_ir::kernel::{Access, Cols, RowKernel};
use titan_ir::{DType, ice};

/// The columns one vector operation covers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns<'c, 'a> {
    /// The first, an i64.
    pub(super) first: Val<'c, 'a>,
    /// Which lanes are inside the domain; all, if there is no mask.
    pub(super) mask: Option<Val<'c, 'a>>,
    /// Number of lanes.
    pub(super) lanes: u32,
}

/// The arguments of a kernel function.
#[derive(Debug)]
pub(super) struct Arguments<'c, 'a> {
    /// A pointer per input.
    pub(super) inputs: Vec<Val<'c, 'a>>,
    /// A pointer per output.
    pub(super) outputs: Vec<Val<'c, 'a>>,
    /// The rows, from and to.
    pub(super) rows: (Val<'c, 'a>, Val<'c, 'a>),
    /// The columns, from and to.
    pub(super) cols: (Val<'c, 'a>, Val<'c, 'a>),
}

/// How elements of this type are in memory.
pub(super) fn memory(dtype: DType) -> Memory {
    let elem = match dtype {
        DType::F32 => Elem::F32,
        DType::Bf16 => Elem::I16,
        DType::I32 => Elem::I32,
    };
    Memory { elem, align_bytes: dtype.size_bytes() as i64 }
}

fn index<'c, 'a>(b: &Builder<'c, 'a>, name: &str, value: Val<'c, 'a>, constant: u64) -> Val<'c, 'a> {
    if constant == 1 && matches!(name, "arith.muli" | "arith.divui") {
        return value;
    }
    let constant = i64::try_from(constant).expect("sizes fit in 63 bits");
    b.same(name, &[value, b.int(Elem::I64, constant, 1)])
}

/// The pointer to the start of the row `i` of an operand: to what column 0 reads (of a tile: the first column of the call).
pub(super) fn row_pointer<'c, 'a>(
    b: &Builder<'c, 'a>,
    kernel: &RowKernel,
    arguments: &Arguments<'c, 'a>,
    input: usize,
    i: Val<'c, 'a>,
) -> Val<'c, 'a> {
    let base = arguments.inputs[input];
    let elem = memory(kernel.inputs[input].dtype).elem;
    let start = match kernel.inputs[input].access {
        Access::Row => i,
        Access::Col | Access::Scalar => return base,
        Access::Full => return full_row_pointer(b, kernel, base, elem, i),
        Access::Table { row_div, row_mod, width } => {
            let row = index(b, "arith.remui", index(b, "arith.divui", i, row_div), row_mod);
            index(b, "arith.muli", row, width)
        }
        Access::Gather { ids, num } => {
            let ids = ids as usize;
            let at = row_pointer(b, kernel, arguments, ids, i);
            let id = b.load(at, memory(kernel.inputs[ids].dtype), 1);
            let num = b.int(Elem::I32, i64::try_from(num).expect("sizes fit in 63 bits"), 1);
            let is_valid = b.compare(Cmp::BelowUnsigned, id, num);
            let row = b.select(is_valid, id, b.int(Elem::I32, 0, 1));
            let row = b.convert("arith.extui", row, Elem::I64);
            return full_row_pointer(b, kernel, base, elem, row);
        }
        Access::Tile => {
            let row = b.same("arith.subi", &[i, arguments.rows.0]);
            index(b, "arith.muli", row, TILE_LD)
        }
    };
    b.offset(base, start, elem)
}

/// The pointer to element `row * cols`; of a flat vector to its start.
pub(super) fn full_row_pointer<'c, 'a>(
    b: &Builder<'c, 'a>,
    kernel: &RowKernel,
    base: Val<'c, 'a>,
    elem: Elem,
    row: Val<'c, 'a>,
) -> Val<'c, 'a> {
    match kernel.cols {
        Cols::Static(cols) => b.offset(base, index(b, "arith.muli", row, cols), elem),
        Cols::Flat { .. } => base,
    }
}

/// Loads the value of an operand at one row, as f32.
pub(super) fn load_scalar<'c, 'a>(b: &Builder<'c, 'a>, dtype: DType, pointer: Val<'c, 'a>) -> Val<'c, 'a> {
    from_memory(b, dtype, b.load(pointer, memory(dtype), 1))
}

/// Loads the values of an operand at some columns of the row that starts at `row`, as f32.
pub(super) fn load_columns<'c, 'a>(
    b: &Builder<'c, 'a>,
    kernel: &RowKernel,
    arguments: &Arguments<'c, 'a>,
    input: usize,
    row: Val<'c, 'a>,
    at: Columns<'c, 'a>,
) -> Val<'c, 'a> {
    let operand = &kernel.inputs[input];
    let memory = memory(operand.dtype);
    let contiguous = |first| {
        let pointer = b.offset(row, first, memory.elem);
        match at.mask {
            None => b.load(pointer, memory, at.lanes),
            Some(mask) => b.load_masked(pointer, memory, mask),
        }
    };
    let raw = match operand.access {
        Access::Full | Access::Col | Access::Gather { .. } => contiguous(at.first),
        Access::Tile => contiguous(b.same("arith.subi", &[at.first, arguments.cols.0])),
        Access::Table { width, .. } if kernel.cols == Cols::Static(width) => contiguous(at.first),
        // Vectors start at multiples of the lanes, so these do not cross the end of a table row,
        Access::Table { width, .. } if width % u64::from(at.lanes) == 0 => {
            contiguous(index(b, "arith.remui", at.first, width))
        }
        // and these are whole table rows.
        Access::Table { width: 1, .. } => b.widen(b.load(row, memory, 1), at.lanes),
        Access::Table { width, .. } if u64::from(at.lanes) % width == 0 => {
            let width = u32::try_from(width).expect("a divisor of the lanes");
            let repeated: Vec<i64> = (0..at.lanes).map(|l| i64::from(l % width)).collect();
            b.shuffle(b.load(row, memory, width), &repeated)
        }
        Access::Table { width, .. } => {
            let lanes = b.same("arith.addi", &[b.widen(at.first, at.lanes), b.iota_i64(at.lanes)]);
            let width = b.int(Elem::I64, i64::try_from(width).expect("sizes fit in 63 bits"), at.lanes);
            let pointers = b.offset(row, b.same("arith.remui", &[lanes, width]), memory.elem);
            b.load_masked(pointers, memory, at.mask.unwrap_or_else(|| b.int(Elem::I1, 1, at.lanes)))
        }
        Access::Row | Access::Scalar => ice!("an operand per row is loaded outside the column loop"),
    };
    from_memory(b, operand.dtype, raw)
}

fn from_memory<'c, 'a>(b: &Builder<'c, 'a>, dtype: DType, raw: Val<'c, 'a>) -> Val<'c, 'a> {
    match dtype {
        DType::F32 => raw,
        DType::I32 => b.convert("arith.sitofp", raw, Elem::F32),
        DType::Bf16 => {
            let wide = b.convert("arith.extui", raw, Elem::I32);
            let bits = b.same("arith.shli", &[wide, b.int(Elem::I32, 16, raw.lanes)]);
            b.convert("arith.bitcast", bits, Elem::F32)
        }
    }
}

/// The value as it is in memory. `is_bf16` says that it is known to be exact in bf16.
pub(super) fn to_memory<'c, 'a>(
    b: &Builder<'c, 'a>,
    dtype: DType,
    value: Val<'c, 'a>,
    is_bf16: bool,
) -> Val<'c, 'a> {
    match dtype {
        DType::F32 => value,
        DType::I32 => b.convert("arith.fptosi", b.same("math.roundeven", &[value]), Elem::I32),
        DType::Bf16 => {
            let bits = if is_bf16 {
                b.convert("arith.bitcast", value, Elem::I32)
            } else {
                math::round_to_bf16(b, value)
            };
            let high = b.same("arith.shrui", &[bits, b.int(Elem::I32, 16, value.lanes)]);
            b.convert("arith.trunci", high, Elem::I16)
        }
    }
}
