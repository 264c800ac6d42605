//! `emit-plan`: the module becomes a [`Plan`], its generated kernels entries of a table several plans may share.

mod actions;
mod report;

use crate::pass::{Changed, NumericsClass, Pass, PassCx};
use crate::place::{Home, Placement, place};
use indexmap::{IndexMap, IndexSet};
use titan_ir::kernel::{KernelSpec, Native, RowKernel, Workspace, workspace};
use titan_ir::plan::{Plan, PlanTensor, Segment};
use titan_ir::{DiagResult, Func, Init, Layout, Lowering, Module, ResultKind, Role, Stage};

/// Name of the segment that clears gradient accumulators.
const CLEAR: &str = "clear";

/// Generated kernels, each once, in the order first met.
#[derive(Debug, Clone, Default)]
pub struct KernelTable {
    kernels: IndexSet<RowKernel>,
}

impl KernelTable {
    /// The index of `kernel`, which is added if it is new.
    pub fn index_of(&mut self, kernel: &RowKernel) -> u32 {
        let at = match self.kernels.get_index_of(kernel) {
            Some(at) => at,
            None => self.kernels.insert_full(kernel.clone()).0,
        };
        u32::try_from(at).expect("fewer than 2^32 kernels")
    }

    /// The kernel of an index.
    pub fn get(&self, index: u32) -> Option<&RowKernel> {
        self.kernels.get_index(index as usize)
    }

    /// The kernels by index.
    pub fn kernels(&self) -> impl ExactSizeIterator<Item = &RowKernel> {
        self.kernels.iter()
    }
}

/// The pass: leaves the plan and its kernels in the context.
#[derive(Debug, Clone, Copy, Default)]
pub struct EmitPlan;

impl Pass for EmitPlan {
    fn name(&self) -> &'static str {
        "emit-plan"
    }

    fn summary(&self) -> &'static str {
        "give every value an address and list what a device does"
    }

    fn numerics(&self) -> NumericsClass {
        NumericsClass::Exact
    }

    fn stages(&self) -> &'static [Stage] {
        &[Stage::Kernels]
    }

    fn run(&self, module: &mut Module, cx: &mut PassCx) -> DiagResult<Changed> {
        cx.plan = Some(emit(module, &mut cx.kernels)?);
        Ok(Changed::No)
    }
}

/// The plan of a module of stage `Kernels`.
///
/// # Errors
/// T0502 as [`place`].
pub fn emit(module: &Module, kernels: &mut KernelTable) -> DiagResult<Plan> {
    let placement = place(module)?;
    let mut locs = IndexMap::new();
    let mut segments = Vec::new();
    segments.extend(actions::clear(&placement, &mut locs));
    for (f, func) in module.funcs.iter().enumerate() {
        let mut emitter = actions::Emitter { func, f, placement: &placement, kernels, locs: &mut locs };
        segments.push(Segment { name: func.name.clone(), repeat: func.repeat, instrs: emitter.instrs() });
    }
    let workspace = module.funcs.iter().map(scratch).fold(Workspace::default(), Workspace::max);
    let (memory, largest) = report::report(module, &placement, workspace);
    Ok(Plan {
        mesh: module.mesh.clone(),
        state_bytes: placement.state_bytes,
        step_bytes: placement.step_bytes,
        workspace,
        tensors: tensors(module, &placement),
        segments,
        locs: locs.into_keys().collect(),
        num_events: placement.num_events,
        memory,
        largest,
    })
}

/// Scratch that any native kernel of `func` needs.
fn scratch(func: &Func) -> Workspace {
    let of_node = |node| match crate::schedule::streams::lowering(func, node) {
        Lowering::Launch(spec) => match &*spec {
            KernelSpec::Native(Native::Contract(spec)) => workspace::contract(spec),
            KernelSpec::Native(Native::Attention(spec)) => workspace::attention(spec),
            KernelSpec::Native(Native::AttentionGrad(spec)) => workspace::attention_grad(spec),
            KernelSpec::Native(Native::ScatterAdd(_)) | KernelSpec::Row(_) => Workspace::default(),
        },
        _ => Workspace::default(),
    };
    func.nodes.iter().map(of_node).fold(Workspace::default(), Workspace::max)
}

/// State in arena order, inputs, outputs.
fn tensors(module: &Module, placement: &Placement) -> Vec<PlanTensor> {
    let param = |f: usize, p: usize, home: Home| {
        let func = &module.funcs[f];
        let param = &func.params[p];
        let ty = func.ty(param.value);
        PlanTensor {
            name: param.name.clone(),
            role: Some(param.role),
            dtype: ty.dtype,
            global_dims: param.global_dims.clone(),
            local_dims: ty.dims.clone(),
            layout: param.layout.clone(),
            init: param.init.clone(),
            address: placement.address(home),
            size_bytes: ty.size_bytes(),
        }
    };
    let states = (0u32..).zip(&placement.states);
    let mut tensors: Vec<PlanTensor> = states
        .map(|(s, state)| param(state.first.0 as usize, state.first.1 as usize, Home::State(s)))
        .collect();
    let num_states = tensors.len();
    for (f, func) in module.funcs.iter().enumerate() {
        for (p, input) in func.params.iter().enumerate().filter(|(_, p)| p.role == Role::Input) {
            let known = tensors[num_states..].iter().any(|t| t.name == input.name);
            if let (false, Some(home)) = (known, placement.homes[f][input.value.index()]) {
                tensors.push(param(f, p, home));
            }
        }
    }
    for (f, func) in module.funcs.iter().enumerate() {
        for result in &func.results {
            let ResultKind::Output(name) = &result.kind else { continue };
            let ty = func.ty(result.value);
            tensors.push(PlanTensor {
                name: name.clone(),
                role: None,
                dtype: ty.dtype,
                global_dims: ty.dims.clone(),
                local_dims: ty.dims.clone(),
                layout: Layout::replicate(),
                init: Init::Zeros,
                address: placement.address_of(f, result.value),
                size_bytes: ty.size_bytes(),
            });
        }
    }
    tensors
}
