//! Values that come from memory.

use super::exprs::{Held, Sequence, Value};
use super::{Cut, Window, table};
use crate::codegen::ascend::native::dense;
use titan_ir::ascend::{Arg, Element, TableFill};
use titan_ir::kernel::Access;
use titan_ir::{DType, Diag, DiagResult, ice};

impl Sequence<'_, '_, '_> {
    /// An input, without moving anything where its addresses are a view.
    pub(super) fn load(&mut self, k: usize, input: usize) -> DiagResult<Held> {
        let Window { first, rows, cols, at, .. } = self.window;
        let spec = &self.launch.kernel.inputs[input];
        let size = spec.dtype.size_bytes() as u64;
        let base = self.launch.args[input];
        let flat = !matches!(self.cut, Cut::Rows { .. });
        let view = |dims: [u64; 2], skip: u64| dense(spec.dtype, &dims, base + skip * size);
        let view = match spec.access {
            Access::Full => view([rows, cols], at),
            Access::Col | Access::Gather { .. } if flat => view([rows, cols], at),
            Access::Col => view([1, cols], 0),
            Access::Row => view([rows, 1], first),
            Access::Scalar => view([1, 1], 0),
            Access::Gather { ids, num } => return Ok(self.gather(k, base, spec.dtype, ids as usize, num)),
            Access::Table { .. } if flat => {
                let message = "a kernel reads a table of rows over a flat domain";
                return Err(Diag::new("T0530", message));
            }
            Access::Table { row_div, row_mod, width } => {
                let held = self.result(k, spec.dtype.into(), &[rows, cols]);
                if let Value::Tensor(to) = &held.value {
                    let table = dense(spec.dtype, &[row_mod, width], base);
                    table::expand(self.e, &table, row_div, first, to);
                }
                return Ok(held);
            }
            Access::Tile => ice!("a tile outside of a contraction"),
        };
        Ok(Held { value: Value::Tensor(view), wide: None, owned: Vec::new() })
    }

    /// Rows of a table by number.
    fn gather(&mut self, k: usize, base: u64, dtype: DType, ids: usize, num: u64) -> Held {
        let Window { first, rows, cols, .. } = self.window;
        let (num_ids, skip) = match self.launch.kernel.inputs[ids].access {
            Access::Row => (rows, first),
            _ => (1, 0),
        };
        let ids_r = dense(DType::I32, &[num_ids], self.launch.args[ids] + skip * 4);
        let table_vc = dense(dtype, &[num, cols], base);
        let held = self.result(k, dtype.into(), &[num_ids, cols]);
        self.operator("aclnnEmbedding", vec![Arg::Tensor(table_vc), Arg::Tensor(ids_r)], &held);
        held
    }

    pub(super) fn col_index(&mut self, k: usize) -> Held {
        let Window { rows, cols, at, .. } = self.window;
        if matches!(self.cut, Cut::Rows { .. }) {
            let at = self.e.table(TableFill::Iota { len: cols });
            let value = Value::Tensor(dense(Element::F32, &[1, cols], at));
            return Held { value, wide: None, owned: Vec::new() };
        }
        let table = self.e.table(TableFill::Iota { len: rows * cols });
        let iota = dense(Element::F32, &[rows, cols], table);
        let held = self.result(k, Element::F32, &[rows, cols]);
        self.with_scalar("aclnnAdds", iota, at as f32, &held);
        held
    }
}
