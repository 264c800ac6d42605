//! Functions: straight-line SSA over dense arenas.

use crate::id::{LocId, ValueId};
use crate::{DiagResult, Init, Mesh, Op, TensorType};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Operands or results of a node.
pub type Values = SmallVec<[ValueId; 4]>;

/// The part of the step a node belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// The model and its loss.
    Forward,
    /// Gradients.
    Backward,
    /// Clipping and optimizer.
    Update,
}

/// What a parameter of a function is to the training run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Role {
    /// A trained weight, kept between steps.
    Param,
    /// Optimizer state, kept between steps.
    Optimizer,
    /// A gradient accumulated over microbatches: zero at the start of a step.
    GradAccum,
    /// A constant table computed at load.
    Buffer,
    /// Supplied by the host before every microbatch.
    Input,
}

/// A parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Param {
    /// The value it defines.
    pub value: ValueId,
    /// State name: the weight's FQN, `<fqn>.exp_avg`, `tokens`, `labels`, `step`. Functions share state by name.
    pub name: String,
    /// What it is.
    pub role: Role,
    /// Its first value.
    pub init: Init,
    /// Global dimensions, when those of the value are per rank.
    pub global_dims: crate::Dims,
    /// Layout of the stored state, when that of the value was erased by localisation.
    pub layout: crate::Layout,
}

/// What becomes of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultKind {
    /// The next value of the parameter with this index.
    Update(usize),
    /// Shown to the host under this name: `loss`, `grad_norm`, `lr`.
    Output(String),
}

/// A result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FuncResult {
    /// The value.
    pub value: ValueId,
    /// What becomes of it.
    pub kind: ResultKind,
}

/// One operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The operation.
    pub op: Op,
    /// Operands.
    pub ins: Values,
    /// Results.
    pub outs: Values,
    /// Module path in the user's model.
    pub loc: LocId,
    /// Part of the step.
    pub phase: Phase,
}

/// A function.
#[derive(Debug, Clone, PartialEq)]
pub struct Func {
    /// `step`; with gradient accumulation `micro` and `update`.
    pub name: String,
    /// How often a step runs it: the microbatches for `micro`.
    pub repeat: u64,
    /// Parameters.
    pub params: Vec<Param>,
    /// Operations in program order.
    pub nodes: Vec<Node>,
    /// Types of all values.
    pub types: Vec<TensorType>,
    /// Interned module paths.
    pub locs: Vec<String>,
    /// Results.
    pub results: Vec<FuncResult>,
    /// Location given to new nodes.
    pub loc: LocId,
    /// Phase given to new nodes.
    pub phase: Phase,
}

impl Func {
    /// An empty function that runs once.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            repeat: 1,
            params: Vec::new(),
            nodes: Vec::new(),
            types: Vec::new(),
            locs: vec![String::new()],
            results: Vec::new(),
            loc: LocId(0),
            phase: Phase::Forward,
        }
    }

    /// The type of a value.
    pub fn ty(&self, value: ValueId) -> &TensorType {
        &self.types[value.index()]
    }

    /// Number of values ever made.
    pub fn num_values(&self) -> usize {
        self.types.len()
    }

    /// The module path of an id.
    pub fn path(&self, loc: LocId) -> &str {
        &self.locs[loc.index()]
    }

    /// Interns a module path. Linear in the distance to its last use, which is short in program order.
    pub fn intern(&mut self, path: &str) -> LocId {
        let found = self.locs.iter().rposition(|p| p == path);
        LocId::new(found.unwrap_or_else(|| {
            self.locs.push(path.to_owned());
            self.locs.len() - 1
        }))
    }

    /// A new value without a definition; the caller adds a node or parameter that defines it.
    pub fn new_value(&mut self, ty: TensorType) -> ValueId {
        self.types.push(ty);
        ValueId::new(self.types.len() - 1)
    }

    /// Adds a parameter.
    pub fn add_param(&mut self, name: &str, ty: TensorType, role: Role, init: Init) -> ValueId {
        let (global_dims, layout) = (ty.dims.clone(), ty.layout.clone());
        let value = self.new_value(ty);
        self.params.push(Param { value, name: name.to_owned(), role, init, global_dims, layout });
        value
    }

    /// Makes a node at the cursor without appending it: its results are new values typed by the op's shape rule.
    ///
    /// # Errors
    /// What the shape rule finds, with the module path.
    pub fn make(&mut self, op: impl Into<Op>, ins: &[ValueId]) -> DiagResult<Node> {
        let op = op.into();
        let types: SmallVec<[&TensorType; 4]> = ins.iter().map(|&v| self.ty(v)).collect();
        let inferred = op.rules().infer(&types);
        drop(types);
        let outs = inferred.map_err(|diag| {
            if diag.path.is_some() {
                diag
            } else {
                diag.at(format!("{} ({})", self.path(self.loc), op.rules().name()))
            }
        })?;
        let outs = outs.into_iter().map(|ty| self.new_value(ty)).collect();
        Ok(Node { op, ins: ins.into(), outs, loc: self.loc, phase: self.phase })
    }

    /// Appends a node and gives its results.
    ///
    /// # Errors
    /// What the shape rule finds, with the module path.
    pub fn emit(&mut self, op: impl Into<Op>, ins: &[ValueId]) -> DiagResult<Values> {
        let node = self.make(op, ins)?;
        let outs = node.outs.clone();
        self.nodes.push(node);
        Ok(outs)
    }

    /// Appends a node with one result.
    ///
    /// # Errors
    /// What the shape rule finds, with the module path.
    pub fn emit1(&mut self, op: impl Into<Op>, ins: &[ValueId]) -> DiagResult<ValueId> {
        Ok(self.emit(op, ins)?[0])
    }

    /// Adds a result.
    pub fn add_result(&mut self, value: ValueId, kind: ResultKind) {
        self.results.push(FuncResult { value, kind });
    }

    /// Values in the order they are defined: parameters, then the results of nodes.
    pub fn definitions(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.params.iter().map(|p| p.value).chain(self.nodes.iter().flat_map(|n| n.outs.iter().copied()))
    }

    /// The same function with values numbered in the order of definition, values without definition gone, and module paths
    /// interned in the order of use: equal functions become equal values.
    ///
    /// Operands must be defined.
    pub fn canonical(&self) -> Self {
        let mut func = Self { repeat: self.repeat, ..Self::new(&self.name) };
        let mut map = vec![None; self.num_values()];
        for value in self.definitions() {
            map[value.index()] = Some(func.new_value(self.ty(value).clone()));
        }
        let to = |value: ValueId| map[value.index()].expect("operands are defined");
        func.params = self.params.iter().map(|p| Param { value: to(p.value), ..p.clone() }).collect();
        for node in &self.nodes {
            let loc = func.intern(self.path(node.loc));
            let (ins, outs) = (node.ins.iter().map(|&v| to(v)), node.outs.iter().map(|&v| to(v)));
            func.nodes.push(Node {
                op: node.op.clone(),
                ins: ins.collect(),
                outs: outs.collect(),
                loc,
                phase: node.phase,
            });
        }
        func.results =
            self.results.iter().map(|r| FuncResult { value: to(r.value), kind: r.kind.clone() }).collect();
        func
    }

    /// For every value the index of the node that defines it; `None` for parameters.
    pub fn defs(&self) -> Vec<Option<u32>> {
        let mut defs = vec![None; self.num_values()];
        for (i, node) in self.nodes.iter().enumerate() {
            for out in &node.outs {
                defs[out.index()] = Some(u32::try_from(i).expect("fewer than 2^32 nodes"));
            }
        }
        defs
    }

    /// For every value the number of nodes and results that read it.
    pub fn num_uses(&self) -> Vec<u32> {
        let mut uses = vec![0; self.num_values()];
        let operands = self.nodes.iter().flat_map(|n| n.ins.iter());
        for value in operands.chain(self.results.iter().map(|r| &r.value)) {
            uses[value.index()] += 1;
        }
        uses
    }
}

/// How far a module has come down the pipeline; each stage has a specification the verifier checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Global shapes; layouts on parameters and explicit reshards only.
    Graph,
    /// Every value has a layout and every op's rule accepts its operands'.
    Sharded,
    /// Per-rank shapes, collectives explicit.
    Local,
    /// Only launches, collectives, views and copies.
    Kernels,
}

impl Stage {
    /// All stages, in the order of the pipeline.
    pub const ALL: [Self; 4] = [Self::Graph, Self::Sharded, Self::Local, Self::Kernels];
}

/// A program: one function, or two with gradient accumulation, on a mesh.
#[derive(Debug, Clone, PartialEq)]
pub struct Module {
    /// Stage reached.
    pub stage: Stage,
    /// The ranks.
    pub mesh: Mesh,
    /// In the order a step runs them.
    pub funcs: Vec<Func>,
}

impl Module {
    /// The same module with every function [`Func::canonical`]: what parsing its text gives.
    pub fn canonical(&self) -> Self {
        Self { funcs: self.funcs.iter().map(Func::canonical).collect(), mesh: self.mesh.clone(), ..*self }
    }
}
