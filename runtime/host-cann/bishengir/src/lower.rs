//! From a tensor function to an object file: loops over buffers, LLVM IR, machine code.

use super::container::Description;
use super::entry;
use inkwell::OptimizationLevel;
use inkwell::context::Context as Llvm;
use inkwell::module::{Linkage, Module as LlvmModule};
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{CodeModel, FileType, InitializationConfig, RelocMode, Target, TargetMachine};
use melior::Context;
use melior::dialect::DialectRegistry;
use melior::ir::Module;
use melior::ir::attribute::{ArrayAttribute, Attribute};
use melior::ir::block::BlockLike;
use melior::ir::operation::OperationMutLike;
use melior::pass::PassManager;
use melior::utility;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Once;

/// From tensors to buffers.
///
/// Results are written to their arguments only at the end, so that an output may share memory with an input whatever the order of the loops.
const TO_BUFFERS: &str = "builtin.module(\
func.func(convert-elementwise-to-linalg,linalg-generalize-named-ops,linalg-fuse-elementwise-ops),\
canonicalize,cse,eliminate-empty-tensors,empty-tensor-to-alloc-tensor,\
one-shot-bufferize{bufferize-function-boundaries=true function-boundary-type-conversion=identity-layout-map},\
buffer-results-to-out-params{modify-public-functions=true},\
ownership-based-buffer-deallocation,canonicalize,buffer-deallocation-simplification,bufferization-lower-deallocations,cse,canonicalize)";

/// From buffers to the LLVM dialect. Elements of bf16 are converted by shifts: the system's libraries need not have the functions LLVM
/// would call.
const TO_LLVM: &str = "builtin.module(\
func.func(convert-linalg-to-loops),expand-strided-metadata,lower-affine,convert-scf-to-cf,\
convert-math-to-llvm,arith-expand{include-bf16=true},finalize-memref-to-llvm,\
convert-func-to-llvm{use-bare-ptr-memref-call-conv=true},convert-arith-to-llvm,convert-index-to-llvm,convert-cf-to-llvm,\
reconcile-unrealized-casts)";

/// An ELF relocatable object that defines the kernel, and how it is called.
pub(super) fn lower(text: &str, num_blocks: u32) -> Result<(Vec<u8>, Description), String> {
    static REGISTER: Once = Once::new();
    REGISTER.call_once(utility::register_all_passes);
    let registry = DialectRegistry::new();
    utility::register_all_dialects(&registry);
    let context = Context::new_with_registry(&registry, false);
    context.load_all_available_dialects();
    context.set_allow_unregistered_dialects(true);
    utility::register_all_llvm_translations(&context);
    let findings = Rc::new(RefCell::new(Vec::new()));
    let sink = Rc::clone(&findings);
    context.attach_diagnostic_handler(move |finding| {
        sink.borrow_mut().push(format!("{}: {finding}", finding.location()));
        true
    });
    let failure = |what: &str| {
        let found = findings.borrow().join("\n");
        if found.is_empty() { what.to_owned() } else { found }
    };
    let run = |module: &mut Module<'_>, pipeline: &str| {
        let passes = PassManager::new(&context);
        utility::parse_pass_pipeline(passes.as_operation_pass_manager(), pipeline)
            .map_err(|e| e.to_string())?;
        passes.run(module).map_err(|_| failure("the module cannot be lowered"))
    };
    let text = sums_in_lanes(text);
    let mut module = Module::parse(&context, &text).ok_or_else(|| failure("the module does not parse"))?;
    let description = entry::find(&module, num_blocks)?;
    prepare(&context, &module, &description)?;
    run(&mut module, TO_BUFFERS)?;
    let text = strided_copies_as_loops(&module.as_operation().to_string());
    let mut module = Module::parse(&context, &text).ok_or_else(|| failure("the buffers do not parse"))?;
    run(&mut module, TO_LLVM)?;
    let llvm = Llvm::create();
    let translated = translate(&llvm, &module)?;
    add_entry(&llvm, &translated, &description)?;
    Ok((machine_code(&translated)?, description))
}

/// Lets sums be added in lanes, as the device's vector units add them: one after the other, long sums would lose digits no device loses.
fn sums_in_lanes(text: &str) -> String {
    text.replace(
        "linalg.reduce { arith.addf }",
        "linalg.reduce { arith.addf {fastmath = #arith.fastmath<reassoc>} }",
    )
}

/// Removes what only the vendor's compiler reads, and forbids writing over inputs.
fn prepare(context: &Context, module: &Module<'_>, description: &Description) -> Result<(), String> {
    let missing = || "the module has no function".to_owned();
    let mut function = module.body().first_operation_mut().ok_or_else(missing)?;
    for attribute in entry::ATTRIBUTES {
        function.remove_attribute(attribute).map_err(|e| e.to_string())?;
    }
    let constant = Attribute::parse(context, "{bufferization.writable = false}").ok_or_else(missing)?;
    let num_inputs = description.args.iter().filter(|arg| arg.access == "read").count();
    let attributes = vec![constant; num_inputs];
    function.set_attribute("arg_attrs", ArrayAttribute::new(context, &attributes).into());
    Ok(())
}

/// A copy between strided buffers would be a call of a library that kernels do not have.
fn strided_copies_as_loops(text: &str) -> String {
    let copy = |line: &str| {
        let (operands, types) = line.trim().strip_prefix("memref.copy ")?.split_once(" : ")?;
        let ((from, to), (from_type, to_type)) = (operands.split_once(", ")?, types.split_once(" to ")?);
        let is_strided = types.contains("strided<");
        is_strided.then(|| format!("linalg.copy ins({from} : {from_type}) outs({to} : {to_type})\n"))
    };
    text.lines().map(|line| copy(line).unwrap_or_else(|| format!("{line}\n"))).collect()
}

fn translate<'l>(llvm: &'l Llvm, module: &Module<'_>) -> Result<LlvmModule<'l>, String> {
    // SAFETY: the module is valid and in the LLVM dialect; the LLVM context outlives the result, which owns the new LLVM module.
    unsafe {
        let translated =
            mlir_sys::mlirTranslateModuleToLLVMIR(module.as_operation().to_raw(), llvm.raw().cast());
        if translated.is_null() {
            return Err("the module has no translation to LLVM IR".to_owned());
        }
        Ok(LlvmModule::new(translated.cast()))
    }
}

/// The function takes its pointers one by one; what is called takes an array of them.
fn add_entry<'l>(llvm: &'l Llvm, module: &LlvmModule<'l>, description: &Description) -> Result<(), String> {
    let symbol = description.symbol.as_str();
    let body = module.get_function(symbol).ok_or_else(|| format!("@{symbol} got lost"))?;
    if body.count_params() as usize != description.args.len() {
        return Err(format!("@{symbol} takes {} pointers", body.count_params()));
    }
    body.as_global_value().set_name(&format!("{symbol}.body"));
    body.set_linkage(Linkage::Internal);
    let pointer = llvm.ptr_type(inkwell::AddressSpace::default());
    let entry = module.add_function(symbol, llvm.void_type().fn_type(&[pointer.into()], false), None);
    let builder = llvm.create_builder();
    builder.position_at_end(llvm.append_basic_block(entry, ""));
    let array = entry.get_nth_param(0).ok_or("no parameter")?.into_pointer_value();
    let mut args = Vec::new();
    for i in 0..description.args.len() as u64 {
        let index = llvm.i64_type().const_int(i, false);
        // SAFETY: the caller gives an array of as many pointers as the kernel has arguments.
        let slot = unsafe { builder.build_gep(pointer, array, &[index], "") };
        let slot = slot.map_err(|e| e.to_string())?;
        args.push(builder.build_load(pointer, slot, "").map_err(|e| e.to_string())?.into());
    }
    builder.build_call(body, &args, "").map_err(|e| e.to_string())?;
    builder.build_return(None).map_err(|e| e.to_string())?;
    Ok(())
}

/// Machine code for this machine.
fn machine_code(module: &LlvmModule<'_>) -> Result<Vec<u8>, String> {
    static TARGET: Once = Once::new();
    TARGET.call_once(|| Target::initialize_x86(&InitializationConfig::default()));
    let triple = TargetMachine::get_default_triple();
    let (cpu, features) = (TargetMachine::get_host_cpu_name(), TargetMachine::get_host_cpu_features());
    let machine = Target::from_triple(&triple)
        .map_err(|e| e.to_string())?
        .create_target_machine(
            &triple,
            cpu.to_str().unwrap_or(""),
            features.to_str().unwrap_or(""),
            OptimizationLevel::Default,
            RelocMode::PIC,
            CodeModel::Small,
        )
        .ok_or("LLVM does not know this machine")?;
    module.set_triple(&triple);
    module.set_data_layout(&machine.get_target_data().get_data_layout());
    module
        .run_passes("default<O2>", &machine, PassBuilderOptions::create())
        .map_err(|e| format!("optimising failed: {e}"))?;
    let object = machine.write_to_memory_buffer(module, FileType::Object);
    Ok(object.map_err(|e| format!("code generation failed: {e}"))?.as_slice().to_vec())
}
