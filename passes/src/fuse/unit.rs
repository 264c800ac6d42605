//! Lowered nodes, and where the elements of each value really come from.

use titan_ir::kernel::fragment::Result as Out;
use titan_ir::kernel::{Access, Contract, Expr, Fragment, Native};
use titan_ir::{DType, Func, Lowering, Op, ValueId, ice};

/// What a node is to fusion.
#[derive(Debug)]
pub(super) enum Unit {
    /// May be grouped.
    Fragment(Fragment),
    /// May carry a group as its epilogue.
    Contract(Contract),
    /// Another native kernel.
    Native(Native),
    /// A collective, view or copy: stays as it is.
    Plain,
}

/// Where elements come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// A value, perhaps seen through reshapes and widening casts, which a load does for nothing.
    Memory(ValueId),
    /// A scalar, repeated.
    Repeat(ValueId),
    /// A constant, repeated: the bits of an f32.
    Const(u32),
}

/// The lowered nodes of a function.
#[derive(Debug)]
pub(super) struct Units {
    /// One per node.
    pub(super) units: Vec<Unit>,
    /// One per value.
    pub(super) sources: Vec<Source>,
    /// Per value the one it is a view of all of.
    stored: Vec<ValueId>,
    /// The defining node of each value.
    pub(super) defs: Vec<Option<u32>>,
    /// Whether a node is needed, once readers see through views.
    pub(super) live: Vec<bool>,
}

impl Units {
    /// Lowers every node of `func`.
    pub(super) fn of(func: &Func) -> Self {
        let mut this = Self {
            units: Vec::with_capacity(func.nodes.len()),
            sources: (0..func.num_values()).map(|i| Source::Memory(ValueId::new(i))).collect(),
            stored: (0..func.num_values()).map(ValueId::new).collect(),
            defs: func.defs(),
            live: Vec::new(),
        };
        for node in &func.nodes {
            let types = |values: &[ValueId]| values.iter().map(|&v| func.ty(v)).collect::<Vec<_>>();
            let (ins, outs) = (types(&node.ins), types(&node.outs));
            let unit = match node.op.rules().lower(&ins, &outs) {
                Lowering::Fragment(fragment) => Unit::Fragment(fragment),
                Lowering::Native(Native::Contract(contract)) => Unit::Contract(contract),
                Lowering::Native(native) => Unit::Native(native),
                Lowering::View if ins[0].size_bytes() == outs[0].size_bytes() => {
                    this.sources[node.outs[0].index()] = this.source(node.ins[0]);
                    this.stored[node.outs[0].index()] = this.stored(node.ins[0]);
                    Unit::Plain
                }
                Lowering::Collective(..)
                | Lowering::View
                | Lowering::Guard
                | Lowering::RankSlice(_)
                | Lowering::Pad
                | Lowering::Launch(_) => Unit::Plain,
                Lowering::None => ice!("fuse: `{}` has no lowering", node.op.rules().name()),
            };
            if let Unit::Fragment(fragment) = &unit
                && let [out] = node.outs[..]
                && let Some(source) = this.passed_through(func, fragment, &node.ins)
            {
                this.sources[out.index()] = source;
            }
            this.units.push(unit);
        }
        this.live = this.live_nodes(func);
        this
    }

    fn live_nodes(&self, func: &Func) -> Vec<bool> {
        let mut needed = vec![false; func.num_values()];
        func.results.iter().for_each(|r| needed[r.value.index()] = true);
        let mut live = vec![false; func.nodes.len()];
        for (n, node) in func.nodes.iter().enumerate().rev() {
            let effect = matches!(node.op, Op::Guard(_));
            live[n] = effect || node.outs.iter().any(|v| needed[v.index()]);
            if live[n] {
                self.reads(func, n).for_each(|v| needed[v.index()] = true);
            }
        }
        live
    }

    /// Where the elements of `value` come from.
    pub(super) fn source(&self, value: ValueId) -> Source {
        self.sources[value.index()]
    }

    /// The value a kernel reads for operand `value`, unless that is a constant.
    pub(super) fn read_of(&self, value: ValueId) -> Option<ValueId> {
        match self.source(value) {
            Source::Memory(v) | Source::Repeat(v) => Some(v),
            Source::Const(_) => None,
        }
    }

    /// The value a native kernel reads for operand `value`: a view will do, another element type or a repetition will not.
    pub(super) fn stored(&self, value: ValueId) -> ValueId {
        self.stored[value.index()]
    }

    /// The values the kernel or node of node `n` reads.
    pub(super) fn reads<'a>(&'a self, func: &'a Func, n: usize) -> impl Iterator<Item = ValueId> + 'a {
        func.nodes[n].ins.iter().filter_map(move |&v| match &self.units[n] {
            Unit::Fragment(_) => self.read_of(v),
            Unit::Contract(_) | Unit::Native(_) => Some(self.stored(v)),
            Unit::Plain => Some(v),
        })
    }

    /// The source of a one-result fragment that computes nothing.
    fn passed_through(&self, func: &Func, fragment: &Fragment, ins: &[ValueId]) -> Option<Source> {
        let [(Out::Full, dtype, value)] = fragment.results[..] else { return None };
        match fragment.exprs[value.index()] {
            Expr::Const(bits) => Some(Source::Const(rounded(bits, dtype))),
            Expr::Load(k) => {
                let operand = ins[k as usize];
                let from = func.ty(operand).dtype;
                let same = from == dtype || (from, dtype) == (DType::Bf16, DType::F32);
                match (self.source(operand), fragment.inputs[k as usize].access) {
                    (Source::Const(bits), _) => Some(Source::Const(rounded(bits, dtype))),
                    (Source::Repeat(v), _) if same => Some(Source::Repeat(v)),
                    (Source::Memory(v), Access::Scalar) if same => Some(Source::Repeat(v)),
                    (Source::Memory(v), Access::Full) if same => Some(Source::Memory(v)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

fn rounded(bits: u32, dtype: DType) -> u32 {
    (dtype.round(f64::from(f32::from_bits(bits))) as f32).to_bits()
}
