//! Outputs of a window.

use super::Cut;
use super::exprs::{Sequence, Value};
use crate::codegen::ascend::native::{cast, dense};
use titan_ir::ascend::{Arg, Call, Element, TensorArg};
use titan_ir::kernel::{ExprId, Store};

impl Sequence<'_, '_, '_> {
    /// Where output `o` of this window is, unless it is a column sum.
    pub(super) fn output_view(&self, o: usize) -> TensorArg {
        let output = &self.launch.kernel.outputs[o];
        let base = self.launch.args[self.launch.kernel.inputs.len() + o];
        let size = output.dtype.size_bytes() as u64;
        match output.store {
            Store::Row => dense(output.dtype, &[self.window.rows, 1], base + self.window.first * size),
            Store::Full | Store::ColSum { .. } => {
                dense(output.dtype, &[self.window.rows, self.window.cols], base + self.window.at * size)
            }
        }
    }

    /// Writes output `o`.
    pub(super) fn store(&mut self, o: usize, sums: &mut [Option<TensorArg>]) {
        if self.stored[o] {
            return;
        }
        self.stored[o] = true;
        let output = self.launch.kernel.outputs[o].clone();
        if let Store::ColSum { block_rows } = output.store {
            return self.col_sum(o, output.value, block_rows, &mut sums[o]);
        }
        let to = self.output_view(o);
        let mut from = match self.held(output.value).value.clone() {
            Value::Const(value) => {
                let value = Arg::Scalar(Element::F32, f64::from(value));
                return self.e.operator("aclnnInplaceFillScalar", vec![Arg::Tensor(to), value]);
            }
            Value::Tensor(tensor) => tensor,
        };
        if output.store == Store::Row && from.dims[1] != 1 {
            from.dims[1] = 1;
        }
        if from.dims != to.dims {
            self.e.operator("aclnnInplaceCopy", vec![Arg::Tensor(to), Arg::Tensor(from)]);
        } else if from.element != to.element {
            cast(self.e, from, &to);
        } else if from.strides == to.strides {
            let size_bytes = to.extent_bytes();
            self.e.push(Call::Copy { src: from.at, dst: to.at, size_bytes });
        } else {
            self.e.operator("aclnnInplaceCopy", vec![Arg::Tensor(to), Arg::Tensor(from)]);
        }
    }

    /// Writes the outputs that share memory with inputs: all of the window has been read, except what they are copies of.
    pub(super) fn store_late(&mut self, sums: &mut [Option<TensorArg>]) {
        let waiting: Vec<usize> = (0..self.stored.len()).filter(|&o| !self.stored[o]).collect();
        let ranges: Vec<(u64, u64)> = waiting
            .iter()
            .map(|&o| self.output_view(o))
            .map(|view| (view.at, view.at + view.extent_bytes()))
            .collect();
        for (i, &o) in waiting.iter().enumerate() {
            let id = self.launch.kernel.outputs[o].value;
            let Value::Tensor(from) = self.held(id).value.clone() else { continue };
            let end = from.at + from.extent_bytes();
            let lost = ranges[..i].iter().any(|&(start, stop)| from.at < stop && start < end);
            if lost {
                self.keep(id, &from);
            }
        }
        for o in waiting {
            self.store(o, sums);
        }
    }

    /// Moves a value to scratch.
    fn keep(&mut self, id: ExprId, from: &TensorArg) {
        let kept = self.e.temp(from.element, &from.dims);
        // Before anything is written.
        self.e.push(Call::Copy { src: from.at, dst: kept.at, size_bytes: kept.extent_bytes() });
        self.replace(id, kept);
    }

    /// Column sums of blocks of rows. A block larger than the window is added up over windows.
    fn col_sum(&mut self, o: usize, id: ExprId, block_rows: u64, sum: &mut Option<TensorArg>) {
        let (rows, cols) = (self.window.rows, self.window.cols);
        let base = self.launch.args[self.launch.kernel.inputs.len() + o];
        let total = match self.cut {
            Cut::Rows { rows, .. } => rows,
            Cut::Chunks { .. } | Cut::Elements { .. } => self.cut.total(),
        };
        let (from, scratch) = self.whole(id);
        if block_rows >= total {
            self.add_to_sum(&from, dense(Element::F32, &[cols], base), sum);
        } else {
            let block_bytes = cols * 4;
            let first = base + self.window.first / block_rows * block_bytes;
            let (num, rest) = (rows / block_rows, rows % block_rows);
            if num > 0 {
                let view = dense(from.element, &[num, block_rows, cols], from.at);
                self.reduce(view, 1, dense(Element::F32, &[num, cols], first));
            }
            if rest > 0 {
                let skip = num * block_rows * cols * from.element.size_bytes();
                let view = dense(from.element, &[rest, cols], from.at + skip);
                self.reduce(view, 0, dense(Element::F32, &[cols], first + num * block_bytes));
            }
        }
        scratch.iter().for_each(|t| self.e.free(t));
    }

    fn reduce(&mut self, from: TensorArg, dim: i64, to: TensorArg) {
        let args = vec![
            Arg::Tensor(from),
            Arg::Ints(vec![dim]),
            Arg::Bool(false),
            Arg::Type(Element::F32),
            Arg::Tensor(to),
        ];
        self.e.operator("aclnnReduceSum", args);
    }

    /// Adds the sum of this window to those before; the last goes to the output.
    fn add_to_sum(&mut self, from: &TensorArg, out_c: TensorArg, sum: &mut Option<TensorArg>) {
        let is_last = self.window.last;
        let Some(before) = sum.take() else {
            let to = if is_last { out_c } else { self.e.temp(Element::F32, &out_c.dims) };
            self.reduce(from.clone(), 0, to.clone());
            *sum = (!is_last).then_some(to);
            return;
        };
        let this = self.e.temp(Element::F32, &out_c.dims);
        self.reduce(from.clone(), 0, this.clone());
        let to = if is_last { out_c } else { self.e.temp(Element::F32, &before.dims) };
        let one = Arg::Scalar(Element::F32, 1.0);
        let args = vec![Arg::Tensor(before.clone()), Arg::Tensor(this.clone()), one, Arg::Tensor(to.clone())];
        self.e.operator("aclnnAdd", args);
        self.e.free(&this);
        self.e.free(&before);
        *sum = (!is_last).then_some(to);
    }

    /// A value with all its rows and columns, and the scratch that took.
    fn whole(&mut self, id: ExprId) -> (TensorArg, Option<TensorArg>) {
        let from = self.real(id);
        let dims = [self.window.rows, self.window.cols];
        if from.dims == dims {
            return (from, None);
        }
        let whole = self.e.temp(from.element, &dims);
        self.e.operator("aclnnInplaceCopy", vec![Arg::Tensor(whole.clone()), Arg::Tensor(from)]);
        (whole.clone(), Some(whole))
    }
}
