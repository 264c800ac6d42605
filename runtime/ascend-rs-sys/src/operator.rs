//! Operators called by name, with values whose types are known only at run time.

use crate::error::Error;
use crate::library::Library;
use crate::types::*;
use std::ffi::{c_char, c_void};
use std::mem::transmute;
use std::ptr;

include!(concat!(env!("OUT_DIR"), "/operators.rs"));

/// What a parameter of phase one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `aclTensor*`.
    Tensor,
    /// `aclTensorList*`.
    Tensors,
    /// `aclScalar*`.
    Scalar,
    /// `aclScalarList*`.
    Scalars,
    /// `aclIntArray*`.
    Ints,
    /// `aclFloatArray*`.
    Floats,
    /// `aclBoolArray*`.
    Bools,
    /// `char*`.
    Text,
    /// `double`.
    F64,
    /// `float`.
    F32,
    /// `int8_t`.
    I8,
    /// `int32_t` or `int`.
    I32,
    /// `int64_t`.
    I64,
    /// `uint64_t`.
    U64,
    /// `bool`.
    Bool,
    /// `aclDataType`.
    Type,
}

/// An argument of phase one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A null pointer, for any parameter that is one.
    Null,
    /// A tensor.
    Tensor(*const aclTensor),
    /// A list of tensors.
    Tensors(*const aclTensorList),
    /// A scalar.
    Scalar(*const aclScalar),
    /// A list of scalars.
    Scalars(*const aclScalarList),
    /// Integers.
    Ints(*const aclIntArray),
    /// Floats.
    Floats(*const aclFloatArray),
    /// Booleans.
    Bools(*const aclBoolArray),
    /// A text that ends with 0; no operator writes to it.
    Text(*const c_char),
    /// A double.
    F64(f64),
    /// A float.
    F32(f32),
    /// 8 bits.
    I8(i8),
    /// 32 bits.
    I32(i32),
    /// 64 bits.
    I64(i64),
    /// 64 bits without a sign.
    U64(u64),
    /// A boolean.
    Bool(bool),
    /// An element type.
    Type(aclDataType),
}

impl Value {
    /// The kind of parameter it is for; none for null.
    pub fn kind(self) -> Option<Kind> {
        Some(match self {
            Self::Null => return None,
            Self::Tensor(_) => Kind::Tensor,
            Self::Tensors(_) => Kind::Tensors,
            Self::Scalar(_) => Kind::Scalar,
            Self::Scalars(_) => Kind::Scalars,
            Self::Ints(_) => Kind::Ints,
            Self::Floats(_) => Kind::Floats,
            Self::Bools(_) => Kind::Bools,
            Self::Text(_) => Kind::Text,
            Self::F64(_) => Kind::F64,
            Self::F32(_) => Kind::F32,
            Self::I8(_) => Kind::I8,
            Self::I32(_) => Kind::I32,
            Self::I64(_) => Kind::I64,
            Self::U64(_) => Kind::U64,
            Self::Bool(_) => Kind::Bool,
            Self::Type(_) => Kind::Type,
        })
    }

    /// The bits, in the low end of a word.
    fn word(self) -> u64 {
        match self {
            Self::Null => 0,
            Self::Tensor(p) => p as u64,
            Self::Tensors(p) => p as u64,
            Self::Scalar(p) => p as u64,
            Self::Scalars(p) => p as u64,
            Self::Ints(p) => p as u64,
            Self::Floats(p) => p as u64,
            Self::Bools(p) => p as u64,
            Self::Text(p) => p as u64,
            Self::F64(v) => v.to_bits(),
            Self::F32(v) => u64::from(v.to_bits()),
            Self::I8(v) => v as u64,
            Self::I32(v) => v as u64,
            Self::I64(v) => v as u64,
            Self::U64(v) => v,
            Self::Bool(v) => u64::from(v),
            Self::Type(v) => v.0 as u64,
        }
    }
}

impl Kind {
    fn is_pointer(self) -> bool {
        self <= Self::Text
    }
}

/// An operator of the table.
#[derive(Debug)]
pub(crate) struct Entry {
    name: &'static str,
    /// Place of phase one among the library's symbols; phase two comes after it.
    symbol: u16,
    /// Which arm of [`call`].
    signature: u16,
    kinds: &'static [Kind],
}

/// A pointer of any type.
type P = *const c_void;

/// Arguments as bits; each class of parameter takes them its way.
pub(crate) struct Words([u64; MAX_PARAMETERS]);

impl Words {
    fn pointer(&self, i: usize) -> P {
        ptr::with_exposed_provenance(self.0[i] as usize)
    }

    fn f64(&self, i: usize) -> f64 {
        f64::from_bits(self.0[i])
    }

    fn f32(&self, i: usize) -> f32 {
        f32::from_bits(self.0[i] as u32)
    }

    fn i8(&self, i: usize) -> i8 {
        self.0[i] as i8
    }

    fn i32(&self, i: usize) -> i32 {
        self.0[i] as i32
    }

    fn i64(&self, i: usize) -> i64 {
        self.0[i] as i64
    }

    fn bool(&self, i: usize) -> bool {
        self.0[i] != 0
    }
}

/// An operator of two phases in an opened library.
#[derive(Debug, Clone, Copy)]
pub struct Operator<'a> {
    library: &'a Library,
    entry: &'static Entry,
}

impl<'a> Operator<'a> {
    pub(crate) fn find(library: &'a Library, name: &str) -> Result<Self, Error> {
        let place = OPERATORS.binary_search_by(|entry| entry.name.cmp(name));
        let entry = &OPERATORS[place.map_err(|_| Error::UnknownOperator(name.to_owned()))?];
        let operator = Self { library, entry };
        library.address(operator.symbol())?;
        library.address(operator.symbol() + 1)?;
        Ok(operator)
    }

    /// Its name, which is phase two's.
    pub fn name(&self) -> &'static str {
        self.entry.name
    }

    /// Parameters of phase one, without the last two.
    pub fn parameters(&self) -> &'static [Kind] {
        self.entry.kinds
    }

    /// Phase one: checks the arguments, and plans. Gives the bytes of workspace that phase two needs, and what to run.
    ///
    /// # Errors
    /// T0750 if the values are not of the kinds of the parameters, T0742 if the operator refuses them.
    ///
    /// # Safety
    /// Pointers are null or to living objects; texts end with 0; a device is set on this thread.
    pub unsafe fn workspace_size(&self, values: &[Value]) -> Result<(u64, *mut aclOpExecutor), Error> {
        self.check(values)?;
        let mut words = Words([0; MAX_PARAMETERS]);
        for (word, value) in words.0.iter_mut().zip(values) {
            *word = value.word();
        }
        let (mut size, mut executor) = (0, ptr::null_mut());
        let address = self.library.address(self.symbol())?;
        // SAFETY: the symbol has this signature by the table; the caller vouches for the arguments.
        let status = unsafe { call(self.entry.signature, address, &words, &mut size, &mut executor) };
        self.library.check(self.symbol(), status)?;
        Ok((size, executor))
    }

    /// Phase two: queues the operator on `stream`.
    ///
    /// # Errors
    /// T0742 if it cannot be queued.
    ///
    /// # Safety
    /// `executor` is of this operator and not used up; `workspace` is device memory of `size` bytes until the operator is done.
    pub unsafe fn run(
        &self,
        workspace: *mut c_void,
        size: u64,
        executor: *mut aclOpExecutor,
        stream: aclrtStream,
    ) -> Result<(), Error> {
        type Run = unsafe extern "C" fn(*mut c_void, u64, *mut aclOpExecutor, aclrtStream) -> i32;
        // SAFETY: phase two of every operator has this type.
        let function = unsafe { self.library.function::<Run>(self.symbol() + 1)? };
        // SAFETY: the caller's.
        self.library.check(self.symbol() + 1, unsafe { function(workspace, size, executor, stream) })
    }

    fn symbol(&self) -> usize {
        usize::from(self.entry.symbol)
    }

    fn check(&self, values: &[Value]) -> Result<(), Error> {
        let fault = |fault: String| Err(Error::Arguments { operator: self.entry.name, fault });
        let kinds = self.entry.kinds;
        if values.len() != kinds.len() {
            return fault(format!("takes {} arguments, not {}", kinds.len(), values.len()));
        }
        let fits = |kind: Kind, value: Value| value.kind().map_or(kind.is_pointer(), |given| given == kind);
        match kinds.iter().zip(values).position(|(&kind, &value)| !fits(kind, value)) {
            Some(i) => fault(format!("takes {:?} as argument {}, not {:?}", kinds[i], i + 1, values[i])),
            None => Ok(()),
        }
    }
}
