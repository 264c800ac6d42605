//! From a kernel's MLIR to an object file: to the LLVM dialect, to LLVM IR, optimised, to machine code.

use super::emit;
use super::level::CpuLevel;
use inkwell::OptimizationLevel;
use inkwell::attributes::AttributeLoc;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{
    CodeModel, FileType, InitializationConfig, RelocMode, Target, TargetMachine, TargetTriple,
};
use melior::Context;
use melior::dialect::DialectRegistry;
use melior::ir::Module;
use melior::ir::operation::OperationLike;
use melior::pass::{self, PassManager};
use std::sync::Once;
use titan_ir::ice;
use titan_ir::kernel::RowKernel;

/// The optimiser's passes: those a kernel's loops profit from. No vectoriser, no loop idioms (a kernel calls nothing, not even memset).
const LLVM_PASSES: &str = "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,\
loop-mssa(loop-simplifycfg,licm),gvn,instcombine<no-verify-fixpoint>,simplifycfg,loop(loop-deletion),dce)";

/// Every kernel image is for this system, whatever the machine of the compiler.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// What one thread needs to compile kernels; costly to make, so made once per thread.
pub(super) struct Lowering {
    mlir: Context,
    llvm: inkwell::context::Context,
    machine: TargetMachine,
    level: CpuLevel,
}

impl Lowering {
    pub(super) fn new(level: CpuLevel) -> Self {
        let registry = DialectRegistry::new();
        let mlir = Context::new_with_registry(&registry, false);
        load_dialects(&mlir);
        static TARGET: Once = Once::new();
        TARGET.call_once(|| Target::initialize_x86(&InitializationConfig::default()));
        let triple = TargetTriple::create(TRIPLE);
        let machine = Target::from_triple(&triple)
            .unwrap_or_else(|e| ice!("LLVM has no x86: {e}"))
            .create_target_machine(
                &triple,
                level.name(),
                "",
                OptimizationLevel::Default,
                RelocMode::PIC,
                CodeModel::Small,
            )
            .unwrap_or_else(|| ice!("LLVM does not know {level}"));
        Self { mlir, llvm: inkwell::context::Context::create(), machine, level }
    }

    /// The kernel before lowering.
    pub(super) fn mlir_text(&self, kernel: &RowKernel) -> String {
        self.module(kernel).as_operation().to_string()
    }

    fn module(&self, kernel: &RowKernel) -> Module<'_> {
        let module = emit::module(&self.mlir, kernel, self.level);
        if !module.as_operation().verify() {
            ice!("generated MLIR is invalid:\n{}", module.as_operation());
        }
        module
    }

    /// An ELF relocatable object that defines [`FUNCTION`](super::builder::FUNCTION).
    pub(super) fn object(&self, kernel: &RowKernel) -> Vec<u8> {
        let mut module = self.module(kernel);
        let passes = PassManager::new(&self.mlir);
        passes.enable_verifier(false);
        passes.add_pass(pass::conversion::create_scf_to_control_flow());
        passes.add_pass(pass::conversion::create_vector_to_llvm());
        passes.add_pass(pass::conversion::create_math_to_llvm());
        passes.add_pass(pass::conversion::create_arith_to_llvm());
        passes.add_pass(pass::conversion::create_control_flow_to_llvm());
        passes.add_pass(pass::conversion::create_func_to_llvm());
        passes.add_pass(pass::conversion::create_reconcile_unrealized_casts());
        if let Err(e) = passes.run(&mut module) {
            ice!("lowering to LLVM failed: {e}\n{}", module.as_operation());
        }
        self.machine_code(&self.translate(&module))
    }

    fn translate<'l>(&'l self, module: &Module<'_>) -> inkwell::module::Module<'l> {
        // SAFETY: the module is valid and in the LLVM dialect; the LLVM context outlives the result, which owns the new LLVM module.
        unsafe {
            let llvm =
                mlir_sys::mlirTranslateModuleToLLVMIR(module.as_operation().to_raw(), self.llvm.raw().cast());
            if llvm.is_null() {
                ice!("translation to LLVM IR failed:\n{}", module.as_operation());
            }
            inkwell::module::Module::new(llvm.cast())
        }
    }

    fn machine_code(&self, module: &inkwell::module::Module<'_>) -> Vec<u8> {
        module.set_triple(&self.machine.get_triple());
        module.set_data_layout(&self.machine.get_target_data().get_data_layout());
        let width = (self.level.lanes() * 32).to_string();
        for function in module.get_functions() {
            for (key, value) in [
                ("target-cpu", self.level.name()),
                ("prefer-vector-width", width.as_str()),
                ("no-builtins", ""),
            ] {
                let attribute = self.llvm.create_string_attribute(key, value);
                function.add_attribute(AttributeLoc::Function, attribute);
            }
            let nounwind = inkwell::attributes::Attribute::get_named_enum_kind_id("nounwind");
            function.add_attribute(AttributeLoc::Function, self.llvm.create_enum_attribute(nounwind, 0));
        }
        if let Err(e) = module.run_passes(LLVM_PASSES, &self.machine, PassBuilderOptions::create()) {
            ice!("optimising failed: {e}");
        }
        match self.machine.write_to_memory_buffer(module, FileType::Object) {
            Ok(object) => object.as_slice().to_vec(),
            Err(e) => ice!("code generation failed: {e}"),
        }
    }
}

/// Loads the dialects of kernels and what translates the LLVM dialect.
fn load_dialects(context: &Context) {
    use mlir_sys::{
        mlirDialectHandleLoadDialect, mlirGetDialectHandle__arith__, mlirGetDialectHandle__func__,
        mlirGetDialectHandle__llvm__, mlirGetDialectHandle__math__, mlirGetDialectHandle__scf__,
        mlirGetDialectHandle__vector__, mlirRegisterAllLLVMTranslations,
    };
    // SAFETY: handles are constants of the library; the context is alive.
    unsafe {
        for handle in [
            mlirGetDialectHandle__arith__(),
            mlirGetDialectHandle__func__(),
            mlirGetDialectHandle__llvm__(),
            mlirGetDialectHandle__math__(),
            mlirGetDialectHandle__scf__(),
            mlirGetDialectHandle__vector__(),
        ] {
            mlirDialectHandleLoadDialect(handle, context.to_raw());
        }
        mlirRegisterAllLLVMTranslations(context.to_raw());
    }
}
