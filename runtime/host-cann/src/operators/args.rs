//! The parameters of an operator, one after the other.

use super::check::invalid;
use super::compute::{DType, View};
use super::launch::{Launch, Role, Tensor};
use super::plan::{Outcome, Plan};
use crate::fault::Fault;
use crate::nnopbase::{self, Scalar};
use crate::query;
use crate::soc::{self, Family};
use crate::value::Value;
use ascend_rs_sys::types::*;
use std::sync::Arc;

/// Alignment the documentation asks of a tensor's memory.
const DATA_ALIGN_BYTES: usize = 32;

/// Bytes a piece of a workspace is rounded up to.
const WORKSPACE_ALIGNMENT: usize = 512;

/// Arguments that are taken in order; what is taken as a tensor becomes an operand of the plan.
pub(super) struct Args {
    name: &'static str,
    values: std::vec::IntoIter<Value>,
    operands: Vec<Tensor>,
    /// Numbers of the next tensor parameter, input and output.
    next: [usize; 3],
    in_place: bool,
    /// Whether `ACL_OPT_DETERMINISTIC` is set.
    deterministic: bool,
    /// The generation of the device.
    pub(super) family: Family,
}

/// One method for each type of plain value.
macro_rules! plain {
    ($($method:ident: $variant:ident $type:ty),* $(,)?) => {$(
        pub(super) fn $method(&mut self) -> $type {
            match self.values.next() {
                Some(Value::$variant(value)) => value,
                other => self.mistaken(stringify!($method), &other),
            }
        }
    )*};
}

impl Args {
    pub(super) fn new(name: &'static str, values: Vec<Value>) -> Result<Self, Fault> {
        Ok(Self {
            name,
            values: values.into_iter(),
            operands: Vec::new(),
            next: [0; 3],
            in_place: false,
            deterministic: query::parameter(aclSysParamOpt::ACL_OPT_DETERMINISTIC) != 0,
            family: soc::current().family,
        })
    }

    /// An operator that does not take its parameters as the table declares them is a fault of this library.
    fn mistaken(&self, expected: &str, found: &Option<Value>) -> ! {
        panic!("{} takes a {expected} where the table has {found:?}", self.name)
    }

    plain! {
        f64: F64 f64, f32: F32 f32, i64: I64 i64, u64: U64 u64, i32: I32 i32, i8: I8 i8, bool: Bool bool,
    }

    /// A type.
    pub(super) fn dtype(&mut self, name: &str) -> Result<DType, Fault> {
        match self.values.next() {
            Some(Value::Type(code)) => known_type(name, code),
            other => self.mistaken("type", &other),
        }
    }

    /// A text, none for null.
    pub(super) fn text(&mut self) -> Option<String> {
        match self.values.next() {
            Some(Value::Text(text)) => text,
            other => self.mistaken("text", &other),
        }
    }

    pub(super) fn optional_scalar(&mut self) -> Result<Option<Scalar>, Fault> {
        match self.values.next() {
            Some(Value::Scalar(scalar)) if scalar.is_null() => Ok(None),
            Some(Value::Scalar(scalar)) => nnopbase::scalar(scalar).map(Some),
            other => self.mistaken("scalar", &other),
        }
    }

    pub(super) fn scalar(&mut self, name: &str) -> Result<Scalar, Fault> {
        self.optional_scalar()?.ok_or_else(|| null(name))
    }

    pub(super) fn optional_ints(&mut self) -> Result<Option<Vec<i64>>, Fault> {
        match self.values.next() {
            Some(Value::Ints(array)) if array.is_null() => Ok(None),
            Some(Value::Ints(array)) => nnopbase::ints(array).map(Some),
            other => self.mistaken("array of integers", &other),
        }
    }

    pub(super) fn ints(&mut self, name: &str) -> Result<Vec<i64>, Fault> {
        self.optional_ints()?.ok_or_else(|| null(name))
    }

    fn tensor(&mut self, name: &str, role: Role) -> Result<Option<Tensor>, Fault> {
        let handle = match self.values.next() {
            Some(Value::Tensor(handle)) => handle,
            other => self.mistaken("tensor", &other),
        };
        let tensor = match handle.is_null() {
            true => None,
            false => Some(self.operand(name, handle, role, 0)?),
        };
        self.count(role);
        Ok(tensor)
    }

    fn tensors(&mut self, name: &str, role: Role) -> Result<Vec<Tensor>, Fault> {
        let list = match self.values.next() {
            Some(Value::Tensors(list)) => list,
            other => self.mistaken("list of tensors", &other),
        };
        if list.is_null() {
            return Err(null(name));
        }
        let handles = nnopbase::elements(list)?.into_iter().enumerate();
        let tensors =
            handles.map(|(i, handle)| self.operand(&format!("{name}[{i}]"), handle, role, i)).collect();
        self.count(role);
        tensors
    }

    fn count(&mut self, role: Role) {
        self.next[0] += 1;
        self.next[1] += usize::from(role != Role::Output);
        self.next[2] += usize::from(role != Role::Input);
    }

    fn operand(
        &mut self,
        name: &str,
        handle: *const aclTensor,
        role: Role,
        element: usize,
    ) -> Result<Tensor, Fault> {
        let described = nnopbase::descriptor(handle)
            .map_err(|fault| Fault { message: format!("{name}: {}", fault.message), ..fault })?;
        let (view, offset_bytes) = view(name, &described)?;
        if role != Role::Input && view.dims.iter().zip(&view.strides).any(|(&d, &s)| d > 1 && s == 0) {
            return Err(invalid(format!("{name} is written, and elements of it share memory")));
        }
        let [any, input, output] = self.next;
        let tensor = Tensor {
            name: name.to_owned(),
            handle: handle as usize,
            view,
            offset_bytes,
            role,
            at: self.operands.len(),
            places: [any, input, output, element],
        };
        self.operands.push(tensor.clone());
        Ok(tensor)
    }

    /// A tensor that is read.
    pub(super) fn input(&mut self, name: &str) -> Result<Tensor, Fault> {
        self.tensor(name, Role::Input)?.ok_or_else(|| null(name))
    }

    /// A tensor that is read, unless null.
    pub(super) fn optional_input(&mut self, name: &str) -> Result<Option<Tensor>, Fault> {
        self.tensor(name, Role::Input)
    }

    /// A tensor that is written.
    pub(super) fn output(&mut self, name: &str) -> Result<Tensor, Fault> {
        self.tensor(name, Role::Output)?.ok_or_else(|| null(name))
    }

    /// A tensor that is written, unless null.
    pub(super) fn optional_output(&mut self, name: &str) -> Result<Option<Tensor>, Fault> {
        self.tensor(name, Role::Output)
    }

    /// A tensor that is read and written.
    pub(super) fn updated(&mut self, name: &str) -> Result<Tensor, Fault> {
        self.tensor(name, Role::Updated)?.ok_or_else(|| null(name))
    }

    /// As [`Args::updated`], unless null.
    pub(super) fn optional_updated(&mut self, name: &str) -> Result<Option<Tensor>, Fault> {
        self.tensor(name, Role::Updated)
    }

    /// Tensors that are read.
    pub(super) fn inputs(&mut self, name: &str) -> Result<Vec<Tensor>, Fault> {
        self.tensors(name, Role::Input)
    }

    /// Tensors that are written.
    pub(super) fn outputs(&mut self, name: &str) -> Result<Vec<Tensor>, Fault> {
        self.tensors(name, Role::Output)
    }

    /// A tensor this host computes only without.
    pub(super) fn absent(&mut self, name: &str) -> Result<(), Fault> {
        match self.tensor(name, Role::Input)? {
            Some(tensor) if tensor.view.num_elements() > 0 => {
                let text = format!("{name} is not implemented on this host; pass null");
                Err(Fault::new(ACLNN_ERR_INNER_FIND_KERNEL_ERROR, text))
            }
            _ => Ok(()),
        }
    }

    /// Outputs may be the very same views as inputs.
    pub(super) fn allow_in_place(&mut self) {
        self.in_place = true;
    }

    /// The plan, with a workspace of `own_bytes` and a contiguous copy of every strided operand.
    pub(super) fn plan<R: Outcome>(
        &mut self,
        own_bytes: usize,
        compute: impl Fn(&Launch<'_>) -> R + Send + Sync + 'static,
    ) -> Result<Plan, Fault> {
        let strided = self.operands.iter().filter(|tensor| !tensor.view.is_contiguous());
        let copies = strided.map(|t| {
            (t.view.num_elements() * t.view.dtype.size_bytes()).next_multiple_of(WORKSPACE_ALIGNMENT)
        });
        let workspace_bytes = own_bytes.next_multiple_of(WORKSPACE_ALIGNMENT) + copies.sum::<usize>();
        self.plan_as_is(workspace_bytes, compute)
    }

    /// The plan, with a workspace of that many bytes: strides are no matter.
    pub(super) fn plan_as_is<R: Outcome>(
        &mut self,
        workspace_bytes: usize,
        compute: impl Fn(&Launch<'_>) -> R + Send + Sync + 'static,
    ) -> Result<Plan, Fault> {
        if let Some(value) = self.values.next() {
            self.mistaken("nothing more", &Some(value));
        }
        Ok(Plan {
            operands: std::mem::take(&mut self.operands),
            workspace_bytes,
            in_place: self.in_place,
            deterministic: self.deterministic,
            compute: Arc::new(move |launch| compute(launch).outcome()),
        })
    }
}

/// 161001: `name` is null.
pub(super) fn null(name: &str) -> Fault {
    Fault::new(ACLNN_ERR_PARAM_NULLPTR, format!("{name} is null"))
}

fn known_type(name: &str, code: aclDataType) -> Result<DType, Fault> {
    DType::of_acl(code.0).ok_or_else(|| {
        let text = code.name().map_or_else(|| format!("{}", code.0), str::to_owned);
        invalid(format!("{name} has type {text}, which no operator of this host takes"))
    })
}

/// The view a descriptor describes, and the bytes before its first element.
fn view(name: &str, described: &nnopbase::Descriptor) -> Result<(View, usize), Fault> {
    let dtype = known_type(name, described.dtype)?;
    let sizes = |values: &[i64], what: &str| {
        let sizes: Option<Vec<usize>> = values.iter().map(|&v| usize::try_from(v).ok()).collect();
        sizes.ok_or_else(|| invalid(format!("{name} has a negative {what}: {values:?}")))
    };
    let (dims, strides) = (sizes(&described.dims, "dimension")?, sizes(&described.strides, "stride")?);
    let offset = sizes(&[described.offset], "offset")?[0];
    let storage: usize = sizes(&described.storage, "storage dimension")?.iter().product();
    let offset_bytes = offset * dtype.size_bytes();
    let view = View { dtype, dims, strides, address: described.data.wrapping_add(offset_bytes) };
    if view.rank() > 8 {
        return Err(invalid(format!("{name} has {} dimensions; at most 8 are allowed", view.rank())));
    }
    if view.num_elements() > 0 {
        let end = offset + view.extent();
        if end > storage {
            return Err(invalid(format!("{name} reaches element {end} of a storage of {storage}")));
        }
        if described.data == 0 {
            return Err(null(&format!("the address of {name}")));
        }
        if !described.data.is_multiple_of(DATA_ALIGN_BYTES) {
            let message = format!("{name} is at {:#x}, not a multiple of {DATA_ALIGN_BYTES}", described.data);
            return Err(invalid(format!("{message}: a view that begins elsewhere has an offset")));
        }
    }
    Ok((view, offset_bytes))
}
