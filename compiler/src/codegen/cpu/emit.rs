//! A kernel as loops: rows outside, columns inside, in vectors.

mod reduce;

use super::address::{
    Arguments, Columns, full_row_pointer, load_columns, load_scalar, memory, row_pointer, to_memory,
};
use super::builder::{Builder, Cmp, Elem, Memory, Val};
use super::level::CpuLevel;
use super::math;
use super::schedule::{Schedule, is_fixed};
use melior::Context;
use melior::ir::{Location, Module};
use titan_ir::kernel::row::Rank;
use titan_ir::kernel::{Cols, Expr, ExprId, Output, RowKernel, Store, UnaryFn};
use titan_ir::{DType, ice};

/// The kernel as a module with one function of the launch ABI.
pub(super) fn module<'c>(context: &'c Context, kernel: &RowKernel, level: CpuLevel) -> Module<'c> {
    let module = Module::new(Location::unknown(context));
    let parameters = [Elem::Ptr, Elem::I64, Elem::I64, Elem::I64, Elem::I64];
    // x86 makes NaNs with a zero low half, and passes those of its operands on.
    let is_odd_nan = |expr: &Expr| matches!(*expr, Expr::Const(bits) if f32::from_bits(bits).is_nan() && bits & 0xffff != 0);
    let nans_are_bf16 =
        kernel.inputs.iter().all(|input| input.dtype != DType::F32) && !kernel.exprs.iter().any(is_odd_nan);
    let (builder, values) = Builder::function(context, &module, (level, nans_are_bf16), &parameters);
    let b = &builder;
    let pointers = Memory { elem: Elem::Ptr, align_bytes: 8 };
    let pointer = |k: usize| {
        let k = i64::try_from(k).expect("few operands");
        b.load(b.offset(values[0], b.int(Elem::I64, k, 1), Elem::Ptr), pointers, 1)
    };
    let num_inputs = kernel.inputs.len();
    let arguments = Arguments {
        inputs: (0..num_inputs).map(pointer).collect(),
        outputs: (0..kernel.outputs.len()).map(|k| pointer(num_inputs + k)).collect(),
        rows: (values[1], values[2]),
        cols: whole_row(kernel)
            .map_or((values[3], values[4]), |cols| (b.int(Elem::I64, 0, 1), b.int(Elem::I64, cols, 1))),
    };
    let none = vec![None; kernel.exprs.len()];
    let mut emitter = Emitter {
        kernel,
        schedule: Schedule::of(kernel),
        b,
        arguments,
        lanes: level.lanes(),
        fixed: none.clone(),
        wide: none,
    };
    emitter.kernel();
    builder.finish();
    module
}

/// The columns, if calls always cover all of them.
fn whole_row(kernel: &RowKernel) -> Option<i64> {
    match kernel.cols {
        Cols::Static(cols) if kernel.has_row_reduction() || kernel.block_rows().is_some() => {
            Some(i64::try_from(cols).expect("sizes fit in 63 bits"))
        }
        Cols::Static(_) | Cols::Flat { .. } => None,
    }
}

struct Emitter<'k, 'b, 'c, 'a> {
    kernel: &'k RowKernel,
    schedule: Schedule,
    b: &'b Builder<'c, 'a>,
    arguments: Arguments<'c, 'a>,
    lanes: u32,
    /// The values of expressions of rank `Scalar` and `Row`, once known.
    fixed: Vec<Option<Val<'c, 'a>>>,
    /// The same in every lane, where a column loop uses them.
    wide: Vec<Option<Val<'c, 'a>>>,
}

/// The pointers of a row.
struct Row<'c, 'a> {
    inputs: Vec<Val<'c, 'a>>,
    /// Where column 0 of each output is; of [`Store::Row`] the element.
    outputs: Vec<Val<'c, 'a>>,
}

impl<'c, 'a> Emitter<'_, '_, 'c, 'a> {
    fn kernel(&mut self) {
        let pointers = self.arguments.inputs.clone();
        for id in self.schedule.fixed(self.kernel, Rank::Scalar, 0) {
            self.compute_fixed(id, &pointers);
        }
        let sums = self.column_sums();
        let (b, (low, high)) = (self.b, self.arguments.rows);
        b.for_loop((low, high, 1), &[], |i, _| {
            self.row(i, &sums);
            vec![]
        });
    }

    /// Zeroes the column sums of this call; returns their pointers, one per output.
    fn column_sums(&self) -> Vec<Option<Val<'c, 'a>>> {
        let b = self.b;
        let sums: Vec<Option<Val<'c, 'a>>> = self
            .kernel
            .outputs
            .iter()
            .zip(&self.arguments.outputs)
            .map(|(output, &base)| match output.store {
                Store::ColSum { block_rows } if output.dtype == DType::F32 => {
                    let rows = i64::try_from(block_rows).expect("sizes fit in 63 bits");
                    let block = b.same("arith.divui", &[self.arguments.rows.0, b.int(Elem::I64, rows, 1)]);
                    Some(full_row_pointer(b, self.kernel, base, Elem::F32, block))
                }
                Store::ColSum { .. } => ice!("column sums are f32"),
                Store::Full | Store::Row => None,
            })
            .collect();
        if sums.iter().any(Option::is_some) {
            self.for_columns(|at| {
                for &sum in sums.iter().flatten() {
                    let pointer = b.offset(sum, at.first, Elem::F32);
                    b.store(pointer, b.f32(0.0, at.lanes), 4, at.mask);
                }
            });
        }
        sums
    }

    fn row(&mut self, i: Val<'c, 'a>, sums: &[Option<Val<'c, 'a>>]) {
        let (b, kernel) = (self.b, self.kernel);
        let row = Row {
            inputs: (0..kernel.inputs.len()).map(|k| row_pointer(b, kernel, &self.arguments, k, i)).collect(),
            outputs: kernel
                .outputs
                .iter()
                .enumerate()
                .map(|(k, output)| {
                    let (base, elem) = (self.arguments.outputs[k], memory(output.dtype).elem);
                    match output.store {
                        Store::Full => full_row_pointer(b, kernel, base, elem, i),
                        Store::Row => b.offset(base, i, elem),
                        Store::ColSum { .. } => sums[k].expect("a pointer per column sum"),
                    }
                })
                .collect(),
        };
        for phase in 0..=self.schedule.num_phases {
            for id in self.schedule.fixed(kernel, Rank::Row, phase) {
                self.compute_fixed(id, &row.inputs);
            }
            if phase < self.schedule.num_phases {
                self.reduce(phase, &row);
            }
        }
        self.store_columns(&row);
        // Last, since an output may lie over an operand of the row.
        for (output, &pointer) in kernel.outputs.iter().zip(&row.outputs) {
            if output.store == Store::Row {
                let value =
                    self.fixed[output.value.index()].unwrap_or_else(|| ice!("a value per row varies"));
                self.store(output, pointer, value, None);
            }
        }
    }

    /// The stores per element.
    fn store_columns(&self, row: &Row<'c, 'a>) {
        let b = self.b;
        let outputs: Vec<(&Output, Val<'c, 'a>)> = self
            .kernel
            .outputs
            .iter()
            .zip(row.outputs.iter().copied())
            .filter(|(output, _)| output.store != Store::Row)
            .collect();
        if outputs.is_empty() {
            return;
        }
        let needed = self.schedule.columns(self.kernel, outputs.iter().map(|(o, _)| o.value));
        self.for_columns(|at| {
            let values = self.columns(&needed, row, at);
            for &(output, start) in &outputs {
                let value = self.lanes_of(&values, output.value);
                let pointer = b.offset(start, at.first, memory(output.dtype).elem);
                if output.store == Store::Full {
                    self.store(output, pointer, value, at.mask);
                    continue;
                }
                let f32s = memory(DType::F32);
                let sum = match at.mask {
                    None => b.load(pointer, f32s, at.lanes),
                    Some(mask) => b.load_masked(pointer, f32s, mask),
                };
                self.store(output, pointer, b.same("arith.addf", &[sum, value]), at.mask);
            }
        });
    }

    fn store(&self, output: &Output, pointer: Val<'c, 'a>, value: Val<'c, 'a>, mask: Option<Val<'c, 'a>>) {
        let rounded = self.kernel.exprs[output.value.index()];
        let is_bf16 = matches!(rounded, Expr::Unary(UnaryFn::RoundBf16, _));
        let mut raw = to_memory(self.b, output.dtype, value, is_bf16);
        let mut mask = mask;
        // LLVM 22 writes four bytes for the one i16 lane of a constant mask.
        if mask.is_some() && whole_row(self.kernel).is_some_and(|cols| cols % i64::from(self.lanes) == 1) {
            (raw, mask) = (self.b.lane(raw, 0), None);
        }
        self.b.store(pointer, raw, memory(output.dtype).align_bytes, mask);
    }

    /// Computes a value that is the same for all columns.
    fn compute_fixed(&mut self, id: ExprId, pointers: &[Val<'c, 'a>]) {
        let b = self.b;
        let value = match self.kernel.exprs[id.index()] {
            Expr::Load(input) => {
                let input = input as usize;
                load_scalar(b, self.kernel.inputs[input].dtype, pointers[input])
            }
            expr => self.apply(expr, 1, |e| self.fixed[e.index()].expect("operands come first")),
        };
        self.set_fixed(id, value);
    }

    fn set_fixed(&mut self, id: ExprId, value: Val<'c, 'a>) {
        self.fixed[id.index()] = Some(value);
        if self.schedule.is_used_by_columns[id.index()] {
            self.wide[id.index()] = Some(match self.kernel.exprs[id.index()] {
                Expr::Const(bits) => self.b.f32(f32::from_bits(bits), self.lanes),
                _ => self.b.widen(value, self.lanes),
            });
        }
    }

    /// The expression without its loads, over scalars or vectors.
    fn apply(&self, expr: Expr, lanes: u32, of: impl Fn(ExprId) -> Val<'c, 'a>) -> Val<'c, 'a> {
        let b = self.b;
        match expr {
            Expr::Const(bits) => b.f32(f32::from_bits(bits), lanes),
            Expr::Unary(f, x) => math::unary(b, f, of(x)),
            Expr::Binary(f, x, y) => math::binary(b, f, of(x), of(y)),
            Expr::Fma(x, y, z) => math::fma(b, of(x), of(y), of(z)),
            Expr::SelectEq(x, y, then, other) => {
                b.select(b.compare(Cmp::Eq, of(x), of(y)), of(then), of(other))
            }
            Expr::SelectLt(x, y, then, other) => {
                b.select(b.compare(Cmp::Lt, of(x), of(y)), of(then), of(other))
            }
            // Columns of a row-constant are alike.
            Expr::SwapPairs(x) if lanes == 1 => of(x),
            Expr::SwapPairs(x) => b.shuffle(of(x), &(0..i64::from(lanes)).map(|l| l ^ 1).collect::<Vec<_>>()),
            Expr::Load(_) | Expr::ColIndex | Expr::RowSum(_) | Expr::RowMax(_) => {
                ice!("{expr:?} is not a function of its operands")
            }
        }
    }

    /// Computes the expressions `needed` at some columns.
    fn columns(&self, needed: &[ExprId], row: &Row<'c, 'a>, at: Columns<'c, 'a>) -> Vec<Option<Val<'c, 'a>>> {
        let b = self.b;
        let mut values = vec![None; self.kernel.exprs.len()];
        for &id in needed {
            let value = match self.kernel.exprs[id.index()] {
                Expr::Load(input) => {
                    let input = input as usize;
                    load_columns(b, self.kernel, &self.arguments, input, row.inputs[input], at)
                }
                Expr::ColIndex => {
                    let first = b.widen(b.convert("arith.sitofp", at.first, Elem::F32), at.lanes);
                    b.same("arith.addf", &[first, b.iota_f32(at.lanes)])
                }
                expr => self.apply(expr, at.lanes, |e| self.lanes_of(&values, e)),
            };
            values[id.index()] = Some(value);
        }
        values
    }

    fn lanes_of(&self, values: &[Option<Val<'c, 'a>>], id: ExprId) -> Val<'c, 'a> {
        let known = if is_fixed(self.schedule.ranks[id.index()]) { &self.wide } else { values };
        known[id.index()].expect("operands come first")
    }

    /// A loop over all columns of the call, in vectors, the last one masked.
    fn for_columns(&self, emit_body: impl Fn(Columns<'c, 'a>)) {
        let (b, lanes) = (self.b, self.lanes);
        let (low, high) = self.arguments.cols;
        let step = i64::from(lanes);
        let end = self.whole_steps(step);
        // Calls cover multiples of 16 columns or reach the last column.
        let (has_whole, has_rest) = match self.kernel.cols {
            Cols::Static(cols) => (cols >= u64::from(lanes), cols % u64::from(lanes) != 0),
            Cols::Flat { .. } => (true, true),
        };
        if has_whole {
            b.for_loop((low, end, step), &[], |first, _| {
                emit_body(Columns { first, mask: None, lanes });
                vec![]
            });
        }
        if has_rest {
            b.if_then(b.compare(Cmp::Lt, end, high), || {
                emit_body(Columns { first: end, mask: Some(self.mask(end)), lanes });
            });
        }
    }

    /// The end of the last whole step of that many columns.
    fn whole_steps(&self, step: i64) -> Val<'c, 'a> {
        let (b, (low, high)) = (self.b, self.arguments.cols);
        if let Some(cols) = whole_row(self.kernel) {
            return b.int(Elem::I64, cols - cols % step, 1);
        }
        let length = b.same("arith.subi", &[high, low]);
        let whole = b.same("arith.andi", &[length, b.int(Elem::I64, -step, 1)]);
        b.same("arith.addi", &[low, whole])
    }

    /// Which lanes of the vector at column `first` are before the last column.
    fn mask(&self, first: Val<'c, 'a>) -> Val<'c, 'a> {
        let b = self.b;
        let rest = b.same("arith.subi", &[self.arguments.cols.1, first]);
        let rest = b.widen(b.convert("arith.trunci", rest, Elem::I32), self.lanes);
        b.compare(Cmp::Lt, b.iota_i32(self.lanes), rest)
    }
}
