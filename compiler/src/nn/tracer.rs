//! Tracing: model code appends nodes to one function.

use super::Tensor;
use std::cell::RefCell;
use std::rc::Rc;
use titan_ir::ops::{Add, Cast, Full, Max, Min, Reshard};
use titan_ir::{
    AxisId, DType, Diag, DiagResult, Dims, Func, Init, Layout, Mesh, Module, Op, Phase, Placement,
    ResultKind, Role, Stage, TensorType, ValueId,
};
use titan_passes::autodiff::{LOSS, NUM_TOKENS};

/// What a trace depends on besides the model.
#[derive(Debug, Clone)]
pub struct TraceOptions {
    /// Mesh with the axes `dp_replicate` and `dp_shard`; axes of size 1 are fine.
    pub mesh: Mesh,
    /// Sequences of one microbatch over all ranks.
    pub batch: u64,
    /// Tokens of a sequence.
    pub seq_len: u64,
    /// Element type of the compute.
    pub compute: DType,
}

impl TraceOptions {
    fn axes(&self, names: &[&str]) -> impl Iterator<Item = AxisId> {
        names.iter().filter_map(|name| self.mesh.axis(name))
    }

    /// Layout of the batch: cut along its first dimension over all data-parallel ranks.
    fn batch_layout(&self) -> Layout {
        let axes = self.axes(&["dp_replicate", "dp_shard"]);
        axes.fold(Layout::replicate(), |layout, axis| layout.with(axis, Placement::Shard(0)))
    }

    /// Layout in which weights and optimizer state are stored: cut along the first dimension over `dp_shard`.
    fn stored_layout(&self) -> Layout {
        self.axes(&["dp_shard"])
            .fold(Layout::replicate(), |layout, axis| layout.with(axis, Placement::Shard(0)))
    }
}

/// A traced model.
#[derive(Debug)]
pub struct Traced {
    /// The forward pass and its loss, at [`Stage::Graph`].
    pub module: Module,
    /// Elements of all weights.
    pub num_params: u64,
}

/// The state of a trace, shared by every tensor of it.
#[derive(Debug)]
pub(super) struct Tracer {
    pub(super) func: Func,
    pub(super) options: TraceOptions,
    pub(super) error: Option<Diag>,
}

pub(super) type SharedTracer = Rc<RefCell<Tracer>>;

/// A place in the model: the module path under which weights are named and nodes are located.
#[derive(Debug, Clone)]
pub struct Scope {
    pub(super) tracer: SharedTracer,
    path: String,
}

impl Scope {
    /// A child module.
    pub fn child(&self, name: impl std::fmt::Display) -> Self {
        let path = if self.path.is_empty() { name.to_string() } else { format!("{}.{name}", self.path) };
        Self { tracer: Rc::clone(&self.tracer), path }
    }

    /// The module path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Tokens of a sequence.
    pub fn seq_len(&self) -> u64 {
        self.tracer.borrow().options.seq_len
    }

    /// Runs model code whose nodes belong to this module.
    pub fn enter<T>(&self, body: impl FnOnce() -> T) -> T {
        let outer = {
            let mut tracer = self.tracer.borrow_mut();
            let loc = tracer.func.intern(&self.path);
            std::mem::replace(&mut tracer.func.loc, loc)
        };
        let result = body();
        self.tracer.borrow_mut().func.loc = outer;
        result
    }

    /// Declares a weight `<path>.<name>` of dimensions `dims`, stored in f32, and gives it back ready to compute with: in
    /// the compute type, whole on every rank.
    pub fn weight(&self, name: &str, dims: &[u64], init: Init) -> Tensor {
        self.enter(|| {
            let mut tracer = self.tracer.borrow_mut();
            let ty = TensorType::new(DType::F32, dims).with_layout(tracer.options.stored_layout());
            let fqn = self.child(name).path;
            let stored = tracer.func.add_param(&fqn, ty.clone(), Role::Param, init);
            let compute = tracer.options.compute;
            let mut value = Some(stored);
            if compute != DType::F32 {
                value = tracer.emit(Cast { to: compute }, &[value]);
            }
            if !ty.layout.is_replicate() {
                value = tracer.emit(Reshard { to: Layout::replicate(), reduce: None }, &[value]);
            }
            Tensor::new(&self.tracer, value)
        })
    }

    /// Declares a constant table, computed at load.
    pub fn buffer(&self, name: &str, dims: &[u64], init: Init) -> Tensor {
        let mut tracer = self.tracer.borrow_mut();
        let ty = TensorType::new(DType::F32, dims);
        let value = tracer.func.add_param(&self.child(name).path, ty, Role::Buffer, init);
        drop(tracer);
        Tensor::new(&self.tracer, Some(value))
    }
}

impl Tracer {
    /// Appends a node with one result. After an error nothing is appended: every later tensor is empty, so that model code
    /// needs no error handling of its own.
    pub(super) fn emit(&mut self, op: impl Into<Op>, ins: &[Option<ValueId>]) -> Option<ValueId> {
        self.emit_many(op, ins).map(|outs| outs[0])
    }

    /// Appends a node.
    pub(super) fn emit_many(
        &mut self,
        op: impl Into<Op>,
        ins: &[Option<ValueId>],
    ) -> Option<titan_ir::Values> {
        let ins: Option<Vec<ValueId>> = ins.iter().copied().collect();
        if self.error.is_some() {
            return None;
        }
        self.func.emit(op, &ins?).map_err(|diag| self.error = Some(diag)).ok()
    }

    fn input(&mut self, name: &str, dims: &[u64], layout: Layout) -> ValueId {
        let ty = TensorType { dtype: DType::I32, dims: Dims::from_slice(dims), layout };
        self.func.add_param(name, ty, Role::Input, Init::Host)
    }
}

/// Traces `forward`, which maps token ids `[batch, seq_len]` to logits `[batch, seq_len, vocabulary]`, and appends the loss: the
/// cross entropy of the labels, summed over tokens, and the number of labels that count, by whose total over a step the optimizer
/// divides.
///
/// # Errors
/// What the first op that does not fit finds, with its module path.
pub fn trace(options: TraceOptions, forward: impl FnOnce(&Scope, &Tensor) -> Tensor) -> DiagResult<Traced> {
    let (batch_layout, dims) = (options.batch_layout(), [options.batch, options.seq_len]);
    let mesh = options.mesh.clone();
    let mut tracer = Tracer { func: Func::new("step"), options, error: None };
    tracer.func.phase = Phase::Forward;
    let tokens = tracer.input("tokens", &dims, batch_layout.clone());
    let labels = tracer.input("labels", &dims, batch_layout);
    let tracer = Rc::new(RefCell::new(tracer));
    let root = Scope { tracer: Rc::clone(&tracer), path: String::new() };

    let logits = forward(&root, &Tensor::new(&tracer, Some(tokens)));
    let loss_scope = root.child("loss");
    let (loss, num_tokens) = loss_scope.enter(|| {
        let labels = Tensor::new(&tracer, Some(labels));
        (super::cross_entropy(&logits, &labels).sum().value(), num_labels(&tracer, &labels).value())
    });
    let mut tracer = tracer.borrow_mut();
    if let Some(error) = tracer.error.take() {
        return Err(error);
    }
    let (Some(loss), Some(num_tokens)) = (loss, num_tokens) else {
        titan_ir::ice!("a trace without an error has no loss")
    };
    let mut func = std::mem::replace(&mut tracer.func, Func::new(""));
    func.add_result(loss, ResultKind::Output(LOSS.to_owned()));
    func.add_result(num_tokens, ResultKind::Output(NUM_TOKENS.to_owned()));
    let weights = func.params.iter().filter(|p| p.role == Role::Param);
    let num_params = weights.map(|p| p.global_dims.iter().product::<u64>()).sum();
    Ok(Traced { module: Module { stage: Stage::Graph, mesh, funcs: vec![func] }, num_params })
}

/// The number of labels that count: those that are not -100, which no token id is.
fn num_labels(tracer: &SharedTracer, labels: &Tensor) -> Tensor {
    let scalar = |value: f64| Tensor::new(tracer, tracer.borrow_mut().emit(Full::scalar(value), &[]));
    let clamped = labels.cast(DType::F32).apply(Max, &[&scalar(-1.0)]).apply(Min, &[&scalar(0.0)]);
    clamped.apply(Add, &[&scalar(1.0)]).sum()
}
