//! A cursor that appends operations to an MLIR function, with values that know their element type and lanes.

mod constant;
mod control;

use super::CpuLevel;
use melior::Context;
use melior::dialect::llvm;
use melior::ir::attribute::{
    DenseI32ArrayAttribute, DenseI64ArrayAttribute, IntegerAttribute, StringAttribute, TypeAttribute,
};
use melior::ir::operation::{OperationBuilder, OperationLike, OperationRef};
use melior::ir::r#type::{FunctionType, IntegerType};
use melior::ir::{
    Attribute, Block, BlockLike, BlockRef, Identifier, Location, Module, Region, RegionLike, Type, Value,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// The name of the function of a module.
pub(super) const FUNCTION: &str = "kernel";

/// An element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Elem {
    F32,
    F64,
    I1,
    I16,
    I32,
    I64,
    Ptr,
}

/// An SSA value: a scalar when `lanes` is 1, else a vector.
#[derive(Debug, Clone, Copy)]
pub(super) struct Val<'c, 'a> {
    raw: Value<'c, 'a>,
    pub(super) elem: Elem,
    pub(super) lanes: u32,
}

/// Comparisons, of floats (ordered: false with a NaN, but [`Cmp::Unordered`]) or of signed integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cmp {
    Eq,
    Ne,
    Gt,
    Lt,
    /// Floats only: either is a NaN.
    Unordered,
    /// Integers only, unsigned.
    BelowUnsigned,
}

/// The memory an access touches: `elem`s of alignment `align_bytes`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    pub(super) elem: Elem,
    pub(super) align_bytes: i64,
}

/// The type and lanes of a constant, and its bits: one for all lanes or one for each.
type Constant = (Elem, u32, Vec<u64>);

/// Appends operations at a cursor, inside one function.
pub(super) struct Builder<'c, 'a> {
    pub(super) level: CpuLevel,
    /// Whether the low half of every NaN the function meets is zero.
    pub(super) nans_are_bf16: bool,
    context: &'c Context,
    location: Location<'c>,
    entry: BlockRef<'c, 'a>,
    block: Cell<BlockRef<'c, 'a>>,
    /// Constants live at the top of the entry block, one of a kind.
    constants: RefCell<BTreeMap<Constant, Val<'c, 'a>>>,
}

impl<'c, 'a> Builder<'c, 'a> {
    /// Starts the function [`FUNCTION`] in `module`; returns its arguments.
    pub(super) fn function(
        context: &'c Context,
        module: &'a Module<'c>,
        (level, nans_are_bf16): (CpuLevel, bool),
        arguments: &[Elem],
    ) -> (Self, Vec<Val<'c, 'a>>) {
        let location = Location::unknown(context);
        let types: Vec<Type<'c>> = arguments.iter().map(|&e| elem_type(context, e)).collect();
        let region = Region::new();
        region.append_block(Block::new(&types.iter().map(|&t| (t, location)).collect::<Vec<_>>()));
        let operation = OperationBuilder::new("func.func", location)
            .add_attributes(&[
                (Identifier::new(context, "sym_name"), StringAttribute::new(context, FUNCTION).into()),
                (
                    Identifier::new(context, "function_type"),
                    TypeAttribute::new(FunctionType::new(context, &types, &[]).into()).into(),
                ),
            ])
            .add_regions([region])
            .build()
            .expect("a function operation");
        let entry = body(module.body().append_operation(operation), 0);
        let arguments = arguments
            .iter()
            .enumerate()
            .map(|(i, &elem)| Val {
                raw: entry.argument(i).expect("as many arguments as types").into(),
                elem,
                lanes: 1,
            })
            .collect();
        let block = Cell::new(entry);
        let constants = RefCell::default();
        (Self { level, nans_are_bf16, context, location, entry, block, constants }, arguments)
    }

    /// Ends the function.
    pub(super) fn finish(self) {
        self.append("func.return", &[], &[], &[], vec![]);
    }

    fn r#type(&self, elem: Elem, lanes: u32) -> Type<'c> {
        let scalar = elem_type(self.context, elem);
        if lanes == 1 { scalar } else { Type::vector(&[u64::from(lanes)], scalar) }
    }

    fn append(
        &self,
        name: &str,
        operands: &[Val<'c, 'a>],
        results: &[Type<'c>],
        attributes: &[(&str, Attribute<'c>)],
        regions: Vec<Region<'c>>,
    ) -> OperationRef<'c, 'a> {
        let operands: Vec<Value<'c, 'a>> = operands.iter().map(|v| v.raw).collect();
        let attributes: Vec<_> =
            attributes.iter().map(|&(name, value)| (Identifier::new(self.context, name), value)).collect();
        let operation = OperationBuilder::new(name, self.location)
            .add_operands(&operands)
            .add_results(results)
            .add_attributes(&attributes)
            .add_regions_vec(regions)
            .build()
            .expect("an operation of a loaded dialect");
        self.block.get().append_operation(operation)
    }

    /// An operation with one result.
    fn op(
        &self,
        name: &str,
        operands: &[Val<'c, 'a>],
        elem: Elem,
        lanes: u32,
        attributes: &[(&str, Attribute<'c>)],
    ) -> Val<'c, 'a> {
        let operation = self.append(name, operands, &[self.r#type(elem, lanes)], attributes, vec![]);
        Val { raw: operation.result(0).expect("one result").into(), elem, lanes }
    }

    fn integer(&self, bits: u32, value: i64) -> Attribute<'c> {
        IntegerAttribute::new(IntegerType::new(self.context, bits).into(), value).into()
    }

    /// A value of the type of its operands, of which all have one type.
    pub(super) fn same(&self, name: &str, operands: &[Val<'c, 'a>]) -> Val<'c, 'a> {
        self.op(name, operands, operands[0].elem, operands[0].lanes, &[])
    }

    /// A conversion to another element type.
    pub(super) fn convert(&self, name: &str, value: Val<'c, 'a>, elem: Elem) -> Val<'c, 'a> {
        self.op(name, &[value], elem, value.lanes, &[])
    }

    /// Lane-wise comparison.
    pub(super) fn compare(&self, cmp: Cmp, a: Val<'c, 'a>, b: Val<'c, 'a>) -> Val<'c, 'a> {
        let is_float = matches!(a.elem, Elem::F32 | Elem::F64);
        let predicate = match (cmp, is_float) {
            (Cmp::Eq, true) => 1,
            (Cmp::Gt, true) => 2,
            (Cmp::Lt, true) => 4,
            (Cmp::Ne, true) => 6,
            (Cmp::Unordered, _) => 14,
            (Cmp::Eq, false) => 0,
            (Cmp::Ne, false) => 1,
            (Cmp::Lt, false) => 2,
            (Cmp::Gt, false) => 4,
            (Cmp::BelowUnsigned, _) => 6,
        };
        let name = if is_float { "arith.cmpf" } else { "arith.cmpi" };
        self.op(name, &[a, b], Elem::I1, a.lanes, &[("predicate", self.integer(64, predicate))])
    }

    /// `condition ? then : other`, lane-wise.
    pub(super) fn select(
        &self,
        condition: Val<'c, 'a>,
        then: Val<'c, 'a>,
        other: Val<'c, 'a>,
    ) -> Val<'c, 'a> {
        self.op("arith.select", &[condition, then, other], then.elem, then.lanes, &[])
    }

    /// The value in every lane.
    pub(super) fn widen(&self, value: Val<'c, 'a>, lanes: u32) -> Val<'c, 'a> {
        if value.lanes == lanes {
            return value;
        }
        self.op("vector.broadcast", &[value], value.elem, lanes, &[])
    }

    /// The lanes of `value` in another order, or some of them.
    pub(super) fn shuffle(&self, value: Val<'c, 'a>, order: &[i64]) -> Val<'c, 'a> {
        let mask = DenseI64ArrayAttribute::new(self.context, order).into();
        let lanes = u32::try_from(order.len()).expect("few lanes");
        // A vector of one lane is not a scalar.
        debug_assert!(lanes > 1);
        self.op("vector.shuffle", &[value, value], value.elem, lanes, &[("mask", mask)])
    }

    /// One lane.
    pub(super) fn lane(&self, value: Val<'c, 'a>, lane: i64) -> Val<'c, 'a> {
        let position = DenseI64ArrayAttribute::new(self.context, &[lane]).into();
        self.op("vector.extract", &[value], value.elem, 1, &[("static_position", position)])
    }

    /// `base + index * size of elem`; `index` may be a vector.
    pub(super) fn offset(&self, base: Val<'c, 'a>, index: Val<'c, 'a>, elem: Elem) -> Val<'c, 'a> {
        // The least i32 marks an index that is an operand.
        let dynamic = DenseI32ArrayAttribute::new(self.context, &[i32::MIN]).into();
        let r#type = TypeAttribute::new(elem_type(self.context, elem)).into();
        self.op(
            "llvm.getelementptr",
            &[base, index],
            Elem::Ptr,
            index.lanes,
            &[("rawConstantIndices", dynamic), ("elem_type", r#type)],
        )
    }

    /// Loads `lanes` consecutive elements.
    pub(super) fn load(&self, pointer: Val<'c, 'a>, memory: Memory, lanes: u32) -> Val<'c, 'a> {
        let alignment = self.integer(64, memory.align_bytes);
        self.op("llvm.load", &[pointer], memory.elem, lanes, &[("alignment", alignment)])
    }

    /// Loads the elements whose mask is set, at one pointer or one pointer per lane; zero elsewhere.
    pub(super) fn load_masked(&self, pointer: Val<'c, 'a>, memory: Memory, mask: Val<'c, 'a>) -> Val<'c, 'a> {
        let zero = self.constant(memory.elem, mask.lanes, vec![0]);
        let name = if pointer.lanes == 1 { "llvm.intr.masked.load" } else { "llvm.intr.masked.gather" };
        let alignment = self.integer(32, memory.align_bytes);
        self.op(name, &[pointer, mask, zero], memory.elem, mask.lanes, &[("alignment", alignment)])
    }

    /// Stores consecutive elements, where the mask is set if there is one.
    pub(super) fn store(
        &self,
        pointer: Val<'c, 'a>,
        value: Val<'c, 'a>,
        align_bytes: i64,
        mask: Option<Val<'c, 'a>>,
    ) {
        match mask {
            None => {
                let alignment = [("alignment", self.integer(64, align_bytes))];
                self.append("llvm.store", &[value, pointer], &[], &alignment, vec![]);
            }
            Some(mask) => {
                let alignment = [("alignment", self.integer(32, align_bytes))];
                self.append("llvm.intr.masked.store", &[value, pointer, mask], &[], &alignment, vec![]);
            }
        }
    }
}

fn body<'c, 'a>(operation: OperationRef<'c, 'a>, region: usize) -> BlockRef<'c, 'a> {
    operation.region(region).ok().and_then(|r| r.first_block()).expect("a region with a block")
}

fn elem_type(context: &Context, elem: Elem) -> Type<'_> {
    match elem {
        Elem::F32 => Type::float32(context),
        Elem::F64 => Type::float64(context),
        Elem::I1 => IntegerType::new(context, 1).into(),
        Elem::I16 => IntegerType::new(context, 16).into(),
        Elem::I32 => IntegerType::new(context, 32).into(),
        Elem::I64 => IntegerType::new(context, 64).into(),
        Elem::Ptr => llvm::r#type::pointer(context, 0),
    }
}
