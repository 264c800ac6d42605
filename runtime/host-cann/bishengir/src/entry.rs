//! What of a module is a kernel, and whether the vendor's compiler would take it.

use super::container::{Arg, Description};
use melior::ir::attribute::{StringAttribute, TypeAttribute};
use melior::ir::block::BlockLike;
use melior::ir::operation::{OperationLike, OperationRef, WalkOrder, WalkResult};
use melior::ir::r#type::{DimSize, FunctionType, RankedTensorType, ShapedTypeLike};
use melior::ir::{Module, Type};

/// Operations the vendor's compiler takes on tensors.
///
/// **Source**: kernels of one operation each, given to `bishengir-compile` 1.2.0.
const ACCEPTED: &[&str] = &[
    "builtin.module",
    "func.func",
    "func.return",
    "arith.addf",
    "arith.addi",
    "arith.cmpf",
    "arith.cmpi",
    "arith.constant",
    "arith.divf",
    "arith.extf",
    "arith.maximumf",
    "arith.maxnumf",
    "arith.minimumf",
    "arith.mulf",
    "arith.negf",
    "arith.select",
    "arith.sitofp",
    "arith.subf",
    "arith.truncf",
    "linalg.broadcast",
    "linalg.copy",
    "linalg.fill",
    "linalg.reduce",
    "linalg.transpose",
    "linalg.yield",
    "math.absf",
    "math.ceil",
    "math.exp",
    "math.floor",
    "math.fma",
    "math.log",
    "math.sqrt",
    "tensor.collapse_shape",
    "tensor.concat",
    "tensor.empty",
    "tensor.expand_shape",
    "tensor.extract_slice",
    "tensor.insert_slice",
];

/// The attributes of a kernel.
pub(super) const ATTRIBUTES: [&str; 2] = ["hacc.entry", "hacc.function_kind"];

/// Finds the one kernel of a module.
pub(super) fn find(module: &Module<'_>, num_blocks: u32) -> Result<Description, String> {
    let mut refused = Vec::new();
    module.as_operation().walk(WalkOrder::PreOrder, |operation| {
        let name = operation.name();
        let name = name.as_string_ref().as_str().unwrap_or("?").to_owned();
        if !ACCEPTED.contains(&name.as_str()) {
            refused.push(format!("failed to legalize operation '{name}'"));
        }
        WalkResult::Advance
    });
    if !refused.is_empty() {
        return Err(refused.join("\n"));
    }
    let mut kernels = Vec::new();
    let mut operation = module.body().first_operation();
    while let Some(current) = operation {
        kernels.push(describe(current, num_blocks)?);
        operation = current.next_in_block();
    }
    match <[Description; 1]>::try_from(kernels) {
        Ok([kernel]) => Ok(kernel),
        Err(kernels) => Err(format!("one kernel is expected, {} are here", kernels.len())),
    }
}

fn describe(function: OperationRef<'_, '_>, num_blocks: u32) -> Result<Description, String> {
    let symbol = function
        .attribute("sym_name")
        .and_then(StringAttribute::try_from)
        .map_err(|_| "an operation beside the kernel".to_owned())?
        .value()
        .to_owned();
    for attribute in ATTRIBUTES {
        if !function.has_attribute(attribute) {
            return Err(format!("@{symbol} has no attribute {attribute}"));
        }
    }
    let ty = function
        .attribute("function_type")
        .and_then(TypeAttribute::try_from)
        .and_then(|ty| FunctionType::try_from(ty.value()))
        .map_err(|e| format!("@{symbol}: {e}"))?;
    let mut args = Vec::new();
    for i in 0..ty.input_count() {
        args.push(arg(ty.input(i).map_err(|e| e.to_string())?, "read")?);
    }
    for i in 0..ty.result_count() {
        args.push(arg(ty.result(i).map_err(|e| e.to_string())?, "write")?);
    }
    Ok(Description { symbol, args, num_blocks })
}

/// The pointer for a tensor of that type.
fn arg(ty: Type<'_>, access: &str) -> Result<Arg, String> {
    let unknown = || format!("{ty} is no tensor of a static shape");
    let tensor = RankedTensorType::try_from(ty).map_err(|_| unknown())?;
    let element = tensor.element();
    let mut size_bytes: u64 = match element.to_string().as_str() {
        "f32" | "i32" => 4,
        "bf16" | "f16" => 2,
        _ => return Err(format!("elements of type {element} are not supported")),
    };
    for axis in 0..tensor.rank() {
        let Ok(DimSize::Static(dim)) = tensor.dim_size(axis) else { return Err(unknown()) };
        size_bytes = size_bytes.checked_mul(dim).ok_or_else(|| format!("{ty} is too large"))?;
    }
    Ok(Arg { size_bytes, access: access.to_owned() })
}
