//! Loops and branches.

use super::{Builder, Elem, Val, body};
use melior::ir::{Block, BlockLike, Region, RegionLike, Value};

impl<'c, 'a> Builder<'c, 'a> {
    /// `for index in (low..high).step_by(step)`, carrying values.
    pub(in super::super) fn for_loop(
        &self,
        (low, high, step): (Val<'c, 'a>, Val<'c, 'a>, i64),
        carried: &[Val<'c, 'a>],
        emit_body: impl FnOnce(Val<'c, 'a>, &[Val<'c, 'a>]) -> Vec<Val<'c, 'a>>,
    ) -> Vec<Val<'c, 'a>> {
        let step = self.int(Elem::I64, step, 1);
        let types: Vec<_> = carried.iter().map(|v| self.r#type(v.elem, v.lanes)).collect();
        let arguments: Vec<_> = std::iter::once(&self.r#type(Elem::I64, 1))
            .chain(&types)
            .map(|&r#type| (r#type, self.location))
            .collect();
        let region = Region::new();
        region.append_block(Block::new(&arguments));
        let operands: Vec<_> = [low, high, step].into_iter().chain(carried.iter().copied()).collect();
        let operation = self.append("scf.for", &operands, &types, &[], vec![region]);
        let block = body(operation, 0);
        let of = |raw: Value<'c, 'a>, like: &Val<'c, 'a>| Val { raw, ..*like };
        let index = of(block.argument(0).expect("the induction variable").into(), &low);
        let inner: Vec<_> = carried
            .iter()
            .enumerate()
            .map(|(i, v)| of(block.argument(i + 1).expect("a carried value").into(), v))
            .collect();
        let outer = self.block.replace(block);
        let yielded = emit_body(index, &inner);
        self.append("scf.yield", &yielded, &[], &[], vec![]);
        self.block.set(outer);
        carried
            .iter()
            .enumerate()
            .map(|(i, v)| of(operation.result(i).expect("a result per carried value").into(), v))
            .collect()
    }

    /// `if condition { .. }`.
    pub(in super::super) fn if_then(&self, condition: Val<'c, 'a>, emit_body: impl FnOnce()) {
        self.if_then_yield(condition, &mut [], |_| emit_body());
    }

    /// `if condition { .. }` with a body that changes `values`.
    pub(in super::super) fn if_then_yield(
        &self,
        condition: Val<'c, 'a>,
        values: &mut [Val<'c, 'a>],
        emit_body: impl FnOnce(&mut [Val<'c, 'a>]),
    ) {
        let (then, other) = (Region::new(), Region::new());
        then.append_block(Block::new(&[]));
        let unchanged = values.to_vec();
        if !unchanged.is_empty() {
            other.append_block(Block::new(&[]));
        }
        let types: Vec<_> = values.iter().map(|v| self.r#type(v.elem, v.lanes)).collect();
        let operation = self.append("scf.if", &[condition], &types, &[], vec![then, other]);
        let outer = self.block.replace(body(operation, 0));
        emit_body(values);
        self.append("scf.yield", values, &[], &[], vec![]);
        if !unchanged.is_empty() {
            self.block.set(body(operation, 1));
            self.append("scf.yield", &unchanged, &[], &[], vec![]);
        }
        self.block.set(outer);
        for (i, value) in values.iter_mut().enumerate() {
            value.raw = operation.result(i).expect("a result per value").into();
        }
    }
}
