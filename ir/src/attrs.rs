//! Attributes of ops, as the text form sees them.

use crate::id::AxisId;
use crate::kernel::{KernelSpec, ReduceKind};
use crate::{DType, Diag, DiagResult, Dims, Layout, TensorType};
use std::sync::Arc;

/// One attribute value.
#[derive(Debug, Clone, PartialEq)]
pub enum Attr {
    /// A whole number.
    Int(i64),
    /// A real number; printed so that it parses back to the same bits.
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
    /// A quoted string.
    Str(String),
    /// A list of whole numbers in brackets.
    Dims(Dims),
    /// An element type.
    DType(DType),
    /// `sum` or `max`.
    Reduce(ReduceKind),
    /// A mesh axis, by name.
    Axis(AxisId),
    /// A layout in brackets, axes by name.
    Layout(Layout),
    /// A kernel.
    Kernel(Arc<KernelSpec>),
    /// A list of types in parentheses.
    Types(Vec<TensorType>),
}

/// Attributes in printing order.
pub type Attrs = Vec<(&'static str, Attr)>;

/// Attributes as parsed, taken one by one by an op's constructor.
#[derive(Debug)]
pub struct AttrReader<'a> {
    op: &'a str,
    attrs: Vec<(String, Attr)>,
}

impl<'a> AttrReader<'a> {
    /// The attributes of op `op`.
    pub fn new(op: &'a str, attrs: Vec<(String, Attr)>) -> Self {
        Self { op, attrs }
    }

    /// Takes the attribute `name`, if it is there.
    pub fn take(&mut self, name: &str) -> Option<Attr> {
        let at = self.attrs.iter().position(|(n, _)| n == name)?;
        Some(self.attrs.remove(at).1)
    }

    /// Whether the attribute `name` is there.
    pub fn has(&self, name: &str) -> bool {
        self.attrs.iter().any(|(n, _)| n == name)
    }

    /// Checks that nothing is left.
    ///
    /// # Errors
    /// T0004 naming the first attribute the op does not have.
    pub fn finish(&self) -> DiagResult<()> {
        match self.attrs.first() {
            None => Ok(()),
            Some((name, _)) => Err(Diag::new("T0004", format!("`{}` has no attribute `{name}`", self.op))),
        }
    }

    fn expect<T>(&mut self, name: &str, kind: &str, get: impl FnOnce(&Attr) -> Option<T>) -> DiagResult<T> {
        let attr = self.take(name).ok_or_else(|| {
            Diag::new("T0004", format!("`{}` needs the attribute `{name}` ({kind})", self.op))
        })?;
        get(&attr).ok_or_else(|| {
            Diag::new("T0004", format!("attribute `{name}` of `{}` is not {kind}: {attr:?}", self.op))
        })
    }

    /// A non-negative whole number.
    ///
    /// # Errors
    /// T0004.
    pub fn uint(&mut self, name: &str) -> DiagResult<u64> {
        self.expect(name, "a whole number", |a| match a {
            Attr::Int(i) => u64::try_from(*i).ok(),
            _ => None,
        })
    }

    /// A real number.
    ///
    /// # Errors
    /// T0004.
    pub fn float(&mut self, name: &str) -> DiagResult<f64> {
        self.expect(name, "a number", |a| match a {
            Attr::Float(x) => Some(*x),
            Attr::Int(i) => Some(*i as f64),
            _ => None,
        })
    }

    /// A truth value.
    ///
    /// # Errors
    /// T0004.
    pub fn bool(&mut self, name: &str) -> DiagResult<bool> {
        self.expect(name, "true or false", |a| if let Attr::Bool(b) = a { Some(*b) } else { None })
    }

    /// A string.
    ///
    /// # Errors
    /// T0004.
    pub fn str(&mut self, name: &str) -> DiagResult<String> {
        self.expect(name, "a string", |a| if let Attr::Str(s) = a { Some(s.clone()) } else { None })
    }

    /// Dimensions.
    ///
    /// # Errors
    /// T0004.
    pub fn dims(&mut self, name: &str) -> DiagResult<Dims> {
        self.expect(
            name,
            "a list of dimensions",
            |a| if let Attr::Dims(d) = a { Some(d.clone()) } else { None },
        )
    }

    /// An element type.
    ///
    /// # Errors
    /// T0004.
    pub fn dtype(&mut self, name: &str) -> DiagResult<DType> {
        self.expect(name, "an element type", |a| if let Attr::DType(d) = a { Some(*d) } else { None })
    }

    /// A reduction.
    ///
    /// # Errors
    /// T0004.
    pub fn reduce(&mut self, name: &str) -> DiagResult<ReduceKind> {
        self.expect(name, "sum or max", |a| if let Attr::Reduce(r) = a { Some(*r) } else { None })
    }

    /// A mesh axis.
    ///
    /// # Errors
    /// T0004.
    pub fn axis(&mut self, name: &str) -> DiagResult<AxisId> {
        self.expect(name, "a mesh axis", |a| if let Attr::Axis(x) = a { Some(*x) } else { None })
    }

    /// A layout.
    ///
    /// # Errors
    /// T0004.
    pub fn layout(&mut self, name: &str) -> DiagResult<Layout> {
        self.expect(name, "a layout", |a| if let Attr::Layout(l) = a { Some(l.clone()) } else { None })
    }

    /// A kernel.
    ///
    /// # Errors
    /// T0004.
    pub fn kernel(&mut self, name: &str) -> DiagResult<Arc<KernelSpec>> {
        self.expect(name, "a kernel", |a| if let Attr::Kernel(k) = a { Some(k.clone()) } else { None })
    }

    /// A list of types.
    ///
    /// # Errors
    /// T0004.
    pub fn types(&mut self, name: &str) -> DiagResult<Vec<TensorType>> {
        self.expect(name, "a list of types", |a| if let Attr::Types(t) = a { Some(t.clone()) } else { None })
    }
}
