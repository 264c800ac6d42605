//! Operators made ready: descriptors and phase one once, at load; phase two whenever the program says.

use super::arena::Arena;
use super::cann::Cann;
use super::context::Context;
use super::owned::Owned;
use ascend_rs_sys::types::*;
use ascend_rs_sys::{Error, Operator, Value};
use std::cell::Cell;
use std::ffi::{CString, c_char, c_void};
use std::ptr;
use std::rc::Rc;
use titan_ir::Diag;
use titan_ir::ascend::{Arg, Element, Region, TensorArg};

/// What an operator says that cannot be run twice.
const NOT_REPEATABLE: i32 = 561_000;

/// An operator with its arguments.
#[derive(Debug)]
pub(super) struct Prepared<'a> {
    operator: Operator<'static>,
    /// Runs again and again; none if this operator must be planned anew for every run.
    executor: Option<Owned<'a, *mut aclOpExecutor>>,
    size_bytes: Cell<u64>,
    workspace: *mut c_void,
    planned_bytes: u64,
    values: Vec<Value>,
    // What the values point to.
    _lists: Vec<Owned<'a, *const aclTensorList>>,
    _tensors: Vec<Owned<'a, *const aclTensor>>,
    _scalars: Vec<Owned<'a, *const aclScalar>>,
    _ints: Vec<Owned<'a, *const aclIntArray>>,
    _texts: Vec<CString>,
}

impl<'a> Prepared<'a> {
    /// Describes the arguments and plans the operator.
    ///
    /// # Errors
    /// T0741 and T0751 when there is no such operator, T0742 when it refuses its arguments, T0750 when they are not its.
    pub(super) fn new(
        context: &Rc<Context<'a>>,
        name: &str,
        args: &[Arg],
        arena: &Arena<'a>,
        workspace: Region,
    ) -> Result<Self, Diag> {
        let operator = context.check(context.cann.aclnn.operator(name))?;
        let mut prepared = Self {
            operator,
            executor: None,
            size_bytes: Cell::new(0),
            workspace: arena.at(workspace.at, workspace.size_bytes),
            planned_bytes: workspace.size_bytes,
            values: Vec::with_capacity(args.len()),
            _lists: Vec::new(),
            _tensors: Vec::new(),
            _scalars: Vec::new(),
            _ints: Vec::new(),
            _texts: Vec::new(),
        };
        for arg in args {
            let value = prepared.value(context, arg, arena)?;
            prepared.values.push(value);
        }
        let executor = prepared.plan(context)?;
        // SAFETY: see `Owned`.
        let destroy =
            |cann: &'static Cann, executor| unsafe { cann.nnopbase.aclDestroyAclOpExecutor(executor) };
        let executor = Owned::new(context, executor, destroy);
        // SAFETY: fresh from phase one.
        match unsafe { context.cann.nnopbase.aclSetAclOpExecutorRepeatable(executor.get()) } {
            Ok(()) => prepared.executor = Some(executor),
            Err(Error::Call { status: NOT_REPEATABLE, .. }) => {}
            Err(error) => return Err(context.explain(&error)),
        }
        Ok(prepared)
    }

    /// Bytes of workspace it demands.
    pub(super) fn demanded_bytes(&self) -> u64 {
        self.size_bytes.get()
    }

    /// The operator's name.
    pub(super) fn name(&self) -> &'static str {
        self.operator.name()
    }

    /// Whether it is planned anew for every run.
    pub(super) fn is_one_shot(&self) -> bool {
        self.executor.is_none()
    }

    /// Queues it.
    ///
    /// # Errors
    /// As [`Prepared::new`]; T0756 when it demands more workspace than was planned.
    pub(super) fn run(&self, context: &Context<'_>, stream: aclrtStream) -> Result<(), Diag> {
        let executor = match &self.executor {
            Some(executor) => executor.get(),
            None => self.plan(context)?,
        };
        if let Some(diag) = self.shortage(context) {
            if self.is_one_shot() {
                // SAFETY: fresh from phase one, and never run. The larger fault is told.
                let _ = unsafe { context.cann.nnopbase.aclDestroyAclOpExecutor(executor) };
            }
            return Err(diag);
        }
        let size = self.size_bytes.get();
        let workspace = if size == 0 { ptr::null_mut() } else { self.workspace };
        // SAFETY: the executor is this operator's; its workspace and operands are in the arena, which outlives all queued work.
        context.check(unsafe { self.operator.run(workspace, size, executor, stream) })
    }

    /// Phase one.
    fn plan(&self, context: &Context<'_>) -> Result<*mut aclOpExecutor, Diag> {
        // SAFETY: the values are null or point to what this owns.
        let (size, executor) = context.check(unsafe { self.operator.workspace_size(&self.values) })?;
        self.size_bytes.set(size);
        Ok(executor)
    }

    /// The finding that it demands more workspace than was planned, T0756, if it does.
    pub(super) fn shortage(&self, context: &Context<'_>) -> Option<Diag> {
        let (size, planned) = (self.size_bytes.get(), self.planned_bytes);
        let message =
            format!("{} demands {size} bytes of workspace, the artifact plans {planned}", self.name());
        let mib = size.div_ceil(1 << 20);
        (size > planned).then(|| {
            context
                .place_of(Diag::new("T0756", message))
                .help(format!("rebuild it with `--titan.ascend_workspace_mib {mib}`"))
        })
    }

    fn value(&mut self, context: &Rc<Context<'a>>, arg: &Arg, arena: &Arena<'a>) -> Result<Value, Diag> {
        Ok(match arg {
            Arg::Null => Value::Null,
            Arg::Tensor(tensor) => {
                let tensor = tensor_of(context, tensor, arena)?;
                // SAFETY: see `Owned`.
                self._tensors.push(Owned::new(context, tensor, |cann, tensor| unsafe {
                    cann.nnopbase.aclDestroyTensor(tensor)
                }));
                Value::Tensor(tensor)
            }
            Arg::Tensors(tensors) => Value::Tensors(self.list(context, tensors, arena)?),
            Arg::Scalar(element, value) => Value::Scalar(self.scalar(context, *element, *value)?),
            Arg::Ints(ints) => Value::Ints(self.ints(context, ints)?),
            Arg::Text(text) => {
                let text = CString::new(text.as_str()).expect("a text of the program has no zeros");
                let at: *const c_char = text.as_ptr();
                self._texts.push(text);
                Value::Text(at)
            }
            Arg::F64(v) => Value::F64(*v),
            Arg::F32(v) => Value::F32(*v),
            Arg::I64(v) => Value::I64(*v),
            Arg::U64(v) => Value::U64(*v),
            Arg::I8(v) => Value::I8(*v),
            Arg::Bool(v) => Value::Bool(*v),
            Arg::Type(element) => Value::Type(aclDataType(element.acl_code())),
        })
    }

    fn list(
        &mut self,
        context: &Rc<Context<'a>>,
        tensors: &[TensorArg],
        arena: &Arena<'a>,
    ) -> Result<*const aclTensorList, Diag> {
        let tensors = tensors.iter().map(|t| tensor_of(context, t, arena)).collect::<Result<Vec<_>, _>>()?;
        // SAFETY: the tensors live; the list takes them over.
        let list = context.check(unsafe {
            context.cann.nnopbase.aclCreateTensorList(tensors.as_ptr(), tensors.len() as u64)
        })?;
        let list = made(context, list, "aclCreateTensorList")?;
        // SAFETY: see `Owned`; its tensors go with it.
        self._lists.push(Owned::new(context, list, |cann, list| unsafe {
            cann.nnopbase.aclDestroyTensorList(list)
        }));
        Ok(list)
    }

    fn scalar(
        &mut self,
        context: &Rc<Context<'a>>,
        element: Element,
        value: f64,
    ) -> Result<*const aclScalar, Diag> {
        let mut bytes = scalar_bytes(element, value);
        // SAFETY: the value is as long as its type, and copied.
        let scalar = context.check(unsafe {
            context.cann.nnopbase.aclCreateScalar(bytes.as_mut_ptr().cast(), aclDataType(element.acl_code()))
        })?;
        let scalar = made(context, scalar, "aclCreateScalar")?;
        // SAFETY: see `Owned`.
        self._scalars.push(Owned::new(context, scalar, |cann, scalar| unsafe {
            cann.nnopbase.aclDestroyScalar(scalar)
        }));
        Ok(scalar)
    }

    fn ints(&mut self, context: &Rc<Context<'a>>, ints: &[i64]) -> Result<*const aclIntArray, Diag> {
        // SAFETY: as many values, copied.
        let array = context
            .check(unsafe { context.cann.nnopbase.aclCreateIntArray(ints.as_ptr(), ints.len() as u64) })?;
        let array = made(context, array, "aclCreateIntArray")?;
        // SAFETY: see `Owned`.
        self._ints.push(Owned::new(context, array, |cann, array| unsafe {
            cann.nnopbase.aclDestroyIntArray(array)
        }));
        Ok(array)
    }
}

/// Alignment of a tensor's memory.
const DATA_ALIGN_BYTES: u64 = 32;

fn tensor_of(context: &Context<'_>, tensor: &TensorArg, arena: &Arena<'_>) -> Result<*const aclTensor, Diag> {
    let signed = |numbers: &[u64]| numbers.iter().map(|&n| n as i64).collect::<Vec<i64>>();
    let (dims, strides) = (signed(&tensor.dims), signed(&tensor.strides));
    // A view may begin anywhere, but its memory begins where the library wants it.
    let start = tensor.at - tensor.at % DATA_ALIGN_BYTES;
    let size_bytes = tensor.at - start + tensor.extent_bytes();
    let offset = ((tensor.at - start) / tensor.element.size_bytes()) as i64;
    let storage = [(size_bytes / tensor.element.size_bytes()) as i64];
    let data = arena.at(start, size_bytes);
    // SAFETY: the arrays are as long as their counts, and copied; the data is in the arena.
    let made_tensor = context.check(unsafe {
        context.cann.nnopbase.aclCreateTensor(
            dims.as_ptr(),
            dims.len() as u64,
            aclDataType(tensor.element.acl_code()),
            strides.as_ptr(),
            offset,
            aclFormat::ACL_FORMAT_ND,
            storage.as_ptr(),
            1,
            data,
        )
    })?;
    made(context, made_tensor, "aclCreateTensor")
}

/// The bytes of a scalar in its own type, at the start.
fn scalar_bytes(element: Element, value: f64) -> [u8; 8] {
    let mut bytes = [0; 8];
    match element {
        Element::F32 => bytes[..4].copy_from_slice(&(value as f32).to_ne_bytes()),
        Element::Bf16 => bytes[..2].copy_from_slice(&half::bf16::from_f64(value).to_ne_bytes()),
        Element::I32 => bytes[..4].copy_from_slice(&(value as i32).to_ne_bytes()),
        Element::I64 => bytes.copy_from_slice(&(value as i64).to_ne_bytes()),
        Element::U8 => bytes[0] = value as u8,
        Element::Bool => bytes[0] = u8::from(value != 0.0),
    }
    bytes
}

/// What a function made, or a finding if that is nothing.
fn made<T>(context: &Context<'_>, object: *mut T, function: &str) -> Result<*const T, Diag> {
    if object.is_null() {
        return Err(context.place_of(Diag::new("T0742", format!("{function} made nothing"))));
    }
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_have_the_bytes_of_their_type() {
        assert_eq!(scalar_bytes(Element::F32, 1.5)[..4], 1.5f32.to_ne_bytes());
        assert_eq!(scalar_bytes(Element::Bf16, 1.0)[..2], 0x3f80u16.to_ne_bytes());
        assert_eq!(scalar_bytes(Element::I64, -2.0), (-2i64).to_ne_bytes());
        assert_eq!(scalar_bytes(Element::I32, 7.0)[..4], 7i32.to_ne_bytes());
        assert_eq!([scalar_bytes(Element::Bool, 3.0)[0], scalar_bytes(Element::U8, 3.0)[0]], [1, 3]);
    }
}
