//! From a function to a program, in either style.

use crate::memory::Memory;
use crate::ranks::{self, Order};
use std::collections::BTreeMap;
use titan_ir::ascend::{Access, DeviceKernels, Element, Program, Soc, TensorArg};
use titan_ir::kernel::RowKernel;
use titan_ir::plan::{Plan, PlanTensor};
use titan_ir::{Mesh, Module, Stage};
use titan_passes::emit_plan::{KernelTable, emit};
use titan_passes::fuse::Fuse;
use titan_passes::pass::{Pass, PassCx};
use titan_passes::schedule::Schedule;
use titanc::codegen::ascend::{self, KernelStyle, Options};

pub(crate) const STYLES: [KernelStyle; 2] = [KernelStyle::Aclnn, KernelStyle::Fused];

/// A device.
pub(crate) fn soc() -> &'static Soc {
    Soc::of_name("Ascend910B3").unwrap()
}

/// How kernels are made for a style.
pub(crate) fn fuse(style: KernelStyle) -> Fuse {
    let max_operands = if style == KernelStyle::Aclnn { 0 } else { Fuse::default().max_operands };
    Fuse { max_operands, epilogues: false }
}

/// A lowered module of stage `Local`.
pub(crate) struct Lowered {
    pub(crate) plan: Plan,
    pub(crate) program: Program,
    pub(crate) kernels: DeviceKernels,
    soc: &'static Soc,
}

pub(crate) fn lower(mut module: Module, style: KernelStyle, soc: &'static Soc) -> Lowered {
    assert_eq!(module.stage, Stage::Local);
    let passes: [&dyn Pass; 2] = [&fuse(style), &Schedule];
    for pass in passes {
        pass.run(&mut module, &mut PassCx::default()).unwrap();
    }
    let mut kernels = KernelTable::default();
    let plan = emit(&module, &mut kernels).unwrap();
    let kernels: Vec<_> = kernels.kernels().cloned().collect();
    lower_plan(plan, &kernels, style, soc)
}

/// A plan and its kernels as a program.
pub(crate) fn lower_plan(
    plan: Plan,
    kernels: &[RowKernel],
    style: KernelStyle,
    soc: &'static Soc,
) -> Lowered {
    let options = Options { soc, style, workspace_bytes: None };
    let mut table = ascend::KernelTable::new();
    let program = ascend::lower(&plan, kernels, &options, &mut table).unwrap();
    Lowered { plan, program, kernels: table.into_kernels(), soc }
}

/// A module of one function on one rank.
pub(crate) fn module(func: titan_ir::Func) -> Module {
    Module { mesh: Mesh::default(), stage: Stage::Local, funcs: vec![func] }
}

impl Lowered {
    fn view(&self, tensor: &PlanTensor) -> TensorArg {
        let at = self.program.address(tensor.address);
        TensorArg::contiguous(Element::from(tensor.dtype), &tensor.local_dims, at, Access::Update)
    }

    /// Runs one step of one rank on these states and inputs; gives all named tensors after it.
    pub(crate) fn run(&self, values: &BTreeMap<String, Vec<f64>>) -> BTreeMap<String, Vec<f64>> {
        self.run_ranks(Order::Late, |tensor, _| values[&tensor.name].clone()).remove(0)
    }

    /// Runs one step on all ranks; gives all named tensors of each after it.
    pub(crate) fn run_ranks(
        &self,
        order: Order,
        value: impl Fn(&PlanTensor, u64) -> Vec<f64>,
    ) -> Vec<BTreeMap<String, Vec<f64>>> {
        let memory = |rank| {
            let mut memory = Memory::new(self.program.arena_bytes);
            for tensor in self.plan.tensors.iter().filter(|t| t.role.is_some()) {
                memory.write(&self.view(tensor), &value(tensor, rank));
            }
            memory
        };
        let mesh = &self.plan.mesh;
        let mut memories: Vec<Memory> = (0..mesh.num_ranks()).map(memory).collect();
        ranks::run(&self.program, &self.kernels, self.soc, mesh, order, &mut memories);
        let results = |memory: &Memory| {
            self.plan.tensors.iter().map(|t| (t.name.clone(), memory.read(&self.view(t)))).collect()
        };
        memories.iter().map(results).collect()
    }

    /// How often the program calls each operator.
    pub(crate) fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for submission in self.program.submissions() {
            if let titan_ir::ascend::Call::Operator { name, .. } = &submission.call {
                *counts.entry(name.clone()).or_insert(0) += 1;
            }
        }
        counts
    }
}
