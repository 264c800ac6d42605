//! Terms of the e-graph, and their types.

use egg::{Analysis, DidMerge, EGraph, Id, Language, define_language};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use titan_ir::ops::{Add, Broadcast, Cast, Div, Full, Max, Min, Mul, Neg, Reshape, Reshard, Sub};
use titan_ir::{DType, Dims, Layout, Op, TensorType, ValueId, ice};

define_language! {
    /// An op on classes. Attributes are leaves, so that rules can match and build them.
    pub(super) enum Term {
        "add" = Add([Id; 2]),
        "sub" = Sub([Id; 2]),
        "mul" = Mul([Id; 2]),
        "div" = Div([Id; 2]),
        "min" = Min([Id; 2]),
        "max" = Max([Id; 2]),
        "neg" = Neg([Id; 1]),
        // Element type, operand.
        "cast" = Cast([Id; 2]),
        // Dimensions, operand.
        "reshape" = Reshape([Id; 2]),
        "broadcast" = Broadcast([Id; 2]),
        // Layout and element type of the reduction, operand.
        "reshard" = Reshard([Id; 2]),
        // Value, element type, dimensions.
        "full" = Full([Id; 3]),
        Number(Number),
        DType(TypeName),
        Attr(AttrRef),
        Value(ValueRef),
    }
}

/// A constant, by its bits: minus zero is not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Number(u64);

impl Number {
    pub(super) fn new(value: f64) -> Self {
        Self(value.to_bits())
    }

    pub(super) fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl FromStr for Number {
    type Err = std::num::ParseFloatError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self::new)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.get())
    }
}

/// An element type, as rules write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TypeName(pub(super) DType);

impl FromStr for TypeName {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        DType::from_name(text).map(Self).ok_or(())
    }
}

impl fmt::Display for TypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

macro_rules! references {
    ($($(#[$doc:meta])* $name:ident, $prefix:literal;)*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(super) struct $name(pub(super) u32);

        impl FromStr for $name {
            type Err = ();
            fn from_str(text: &str) -> Result<Self, ()> {
                text.strip_prefix($prefix).and_then(|n| n.parse().ok()).map(Self).ok_or(())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    )* };
}

references! {
    /// An entry of [`Context::attrs`]; `@0` is no dimensions, those of a scalar.
    AttrRef, "@";
    /// A value of the function.
    ValueRef, "%";
}

/// A structured attribute.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AttrValue {
    Dims(Dims),
    Reshard(Layout, Option<DType>),
}

/// What terms refer to.
#[derive(Debug)]
pub(super) struct Context {
    /// Types of the function's values.
    pub(super) types: Vec<TensorType>,
    attrs: Vec<AttrValue>,
    interned: BTreeMap<AttrValue, AttrRef>,
}

impl Default for Context {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Context {
    pub(super) fn new(types: Vec<TensorType>) -> Self {
        let mut context = Self { types, attrs: Vec::new(), interned: BTreeMap::new() };
        context.intern(AttrValue::Dims(Dims::new()));
        context
    }

    fn intern(&mut self, attr: AttrValue) -> AttrRef {
        if let Some(&found) = self.interned.get(&attr) {
            return found;
        }
        let new = AttrRef(u32::try_from(self.attrs.len()).expect("few attributes"));
        self.attrs.push(attr.clone());
        self.interned.insert(attr, new);
        new
    }
}

/// What is known of a class.
#[derive(Debug, Clone)]
pub(super) enum Fact {
    Tensor(TensorType),
    Number(f64),
    DType(DType),
    Attr(AttrRef),
}

impl Fact {
    /// The type, if the class is a tensor.
    pub(super) fn tensor(&self) -> Option<&TensorType> {
        if let Self::Tensor(ty) = self { Some(ty) } else { None }
    }
}

impl Analysis<Term> for Context {
    type Data = Fact;

    fn make(egraph: &mut EGraph<Term, Self>, term: &Term, _: Id) -> Fact {
        match term {
            Term::Number(n) => Fact::Number(n.get()),
            Term::DType(t) => Fact::DType(t.0),
            Term::Attr(a) => Fact::Attr(*a),
            Term::Value(v) => Fact::Tensor(egraph.analysis.types[v.0 as usize].clone()),
            op => {
                let (op, ins) = op.op(egraph);
                let types: Vec<&TensorType> = ins.iter().map(|&id| tensor(egraph, id)).collect();
                match op.rules().infer(&types) {
                    Ok(mut outs) => Fact::Tensor(outs.swap_remove(0)),
                    Err(diag) => ice!("a rule of simplify made an ill-typed term: {diag}"),
                }
            }
        }
    }

    fn merge(&mut self, a: &mut Fact, b: Fact) -> DidMerge {
        if let (Some(x), Some(y)) = (a.tensor(), b.tensor())
            && !x.same_tensor(y)
        {
            ice!("a rule of simplify changed a type from {x:?} to {y:?}");
        }
        DidMerge(false, false)
    }
}

/// The type of a class of tensors.
pub(super) fn tensor(egraph: &EGraph<Term, Context>, id: Id) -> &TensorType {
    egraph[id].data.tensor().expect("a tensor")
}

impl Term {
    /// The term of a value the e-graph does not look into.
    pub(super) fn leaf(value: ValueId) -> Self {
        Self::Value(ValueRef(value.0))
    }

    /// The term of an op, `None` for one the rules do not know.
    pub(super) fn of(op: &Op, ins: &[Id], egraph: &mut EGraph<Self, Context>) -> Option<Self> {
        let dims = |egraph: &mut EGraph<Self, Context>, dims: &Dims| {
            let attr = egraph.analysis.intern(AttrValue::Dims(dims.clone()));
            egraph.add(Self::Attr(attr))
        };
        Some(match op {
            Op::Add(_) => Self::Add([ins[0], ins[1]]),
            Op::Sub(_) => Self::Sub([ins[0], ins[1]]),
            Op::Mul(_) => Self::Mul([ins[0], ins[1]]),
            Op::Div(_) => Self::Div([ins[0], ins[1]]),
            Op::Min(_) => Self::Min([ins[0], ins[1]]),
            Op::Max(_) => Self::Max([ins[0], ins[1]]),
            Op::Neg(_) => Self::Neg([ins[0]]),
            Op::Cast(cast) => Self::Cast([egraph.add(Self::DType(TypeName(cast.to))), ins[0]]),
            Op::Reshape(reshape) => Self::Reshape([dims(egraph, &reshape.dims), ins[0]]),
            Op::Broadcast(broadcast) => Self::Broadcast([dims(egraph, &broadcast.dims), ins[0]]),
            Op::Reshard(reshard) => {
                let attr = egraph.analysis.intern(AttrValue::Reshard(reshard.to.clone(), reshard.reduce));
                Self::Reshard([egraph.add(Self::Attr(attr)), ins[0]])
            }
            Op::Full(full) => Self::Full([
                egraph.add(Self::Number(Number::new(full.value))),
                egraph.add(Self::DType(TypeName(full.dtype))),
                dims(egraph, &full.dims),
            ]),
            _ => return None,
        })
    }

    /// The op of a term that is not a leaf, and its operands.
    pub(super) fn op(&self, egraph: &EGraph<Self, Context>) -> (Op, Vec<Id>) {
        let fact = |id: Id| &egraph[id].data;
        let attr = |id: Id| match fact(id) {
            Fact::Attr(attr) => &egraph.analysis.attrs[attr.0 as usize],
            other => ice!("expected an attribute, found {other:?}"),
        };
        let dims = |id: Id| match attr(id) {
            AttrValue::Dims(dims) => dims.clone(),
            other => ice!("expected dimensions, found {other:?}"),
        };
        let dtype =
            |id: Id| if let Fact::DType(t) = fact(id) { *t } else { ice!("expected an element type") };
        let op: Op = match self {
            Self::Add(_) => Add.into(),
            Self::Sub(_) => Sub.into(),
            Self::Mul(_) => Mul.into(),
            Self::Div(_) => Div.into(),
            Self::Min(_) => Min.into(),
            Self::Max(_) => Max.into(),
            Self::Neg(_) => Neg.into(),
            Self::Cast([to, _]) => Cast { to: dtype(*to) }.into(),
            Self::Reshape([to, _]) => Reshape { dims: dims(*to) }.into(),
            Self::Broadcast([to, _]) => Broadcast { dims: dims(*to) }.into(),
            Self::Reshard([to, _]) => match attr(*to) {
                AttrValue::Reshard(to, reduce) => Reshard { to: to.clone(), reduce: *reduce }.into(),
                other => ice!("expected a layout, found {other:?}"),
            },
            Self::Full([value, ty, to]) => {
                let Fact::Number(value) = fact(*value) else { ice!("expected a number") };
                Full { value: *value, dtype: dtype(*ty), dims: dims(*to) }.into()
            }
            Self::Number(_) | Self::DType(_) | Self::Attr(_) | Self::Value(_) => {
                ice!("`{self}` is not an op")
            }
        };
        let ins = match self {
            Self::Full(_) => Vec::new(),
            Self::Cast(_) | Self::Reshape(_) | Self::Broadcast(_) | Self::Reshard(_) => {
                vec![self.children()[1]]
            }
            _ => self.children().to_vec(),
        };
        (op, ins)
    }
}
