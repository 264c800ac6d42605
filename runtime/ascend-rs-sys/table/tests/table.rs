//! The table by itself: what it must hold, and that nothing is lost in reading it.

use ascend_rs_table::model::{Library, join};
use ascend_rs_table::{FILES, layout, table};
use std::collections::BTreeSet;

#[test]
fn names_are_unique() {
    let table = table().unwrap();
    let functions = table.all_functions();
    let names: BTreeSet<&str> = functions.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names.len(), functions.len());
    let mut constants: Vec<&str> = table.constants.iter().map(|c| c.name.as_str()).collect();
    constants.extend(table.statuses.iter().map(|s| s.name.as_str()));
    let unique: BTreeSet<&str> = constants.iter().copied().collect();
    assert_eq!(unique.len(), constants.len());
}

#[test]
fn printing_what_was_read_gives_the_text() {
    let table = table().unwrap();
    let mut lines = BTreeSet::new();
    for function in &table.functions {
        lines.insert(format!("fn [{}] {function};", function.since.tag()));
    }
    for op in &table.operators {
        let parameters = join(&op.parameters, ", ");
        lines.insert(format!("op [{} {}] {}({parameters});", op.repository, op.source, op.name));
    }
    let text: BTreeSet<String> = FILES
        .iter()
        .flat_map(|(_, text)| text.lines())
        .filter(|line| line.starts_with("fn ") || line.starts_with("op "))
        .map(str::to_owned)
        .collect();
    assert_eq!(lines, text);
}

/// Parameters where a guess would be wrong: the type is passed in another register or width.
#[test]
fn numbers_by_value_have_the_types_of_the_headers() {
    let table = table().unwrap();
    let functions = table.functions_of(Library::Aclnn);
    for (operator, parameter, ty) in [
        ("ApplyAdamWV2", "lr", "float"),
        ("ApplyAdamWV2", "eps", "float"),
        ("InplaceNormal", "mean", "float"),
        ("RmsNorm", "epsilon", "double"),
        ("AddRmsNorm", "epsilon", "double"),
        ("FlashAttentionScoreV2", "scaleValue", "double"),
        ("FlashAttentionScoreV2", "inputLayout", "char*"),
        ("Mm", "cubeMathType", "int8_t"),
        ("Matmul", "cubeMathType", "int8_t"),
        ("EmbeddingDenseBackward", "numWeights", "uint64_t"),
        ("EmbeddingDenseBackward", "paddingIdx", "uint64_t"),
        ("SplitTensor", "splitSections", "uint64_t"),
        ("OneHot", "numClasses", "int"),
        ("CrossEntropyLoss", "labelSmoothing", "double"),
    ] {
        let name = format!("aclnn{operator}GetWorkspaceSize");
        let function = functions.iter().find(|f| f.name == name).unwrap();
        let found = function.parameters.iter().find(|p| p.name.eq_ignore_ascii_case(parameter));
        let found = found.unwrap_or_else(|| panic!("{function} has no {parameter}"));
        assert_eq!(found.ty.to_string().trim_start_matches("const "), ty, "{operator} {parameter}");
    }
}

/// Sizes measured with a C program on the vendor's headers.
#[test]
fn structs_have_the_sizes_measured_in_c() {
    let table = table().unwrap();
    for (name, size_bytes) in [
        ("aclrtPhysicalMemProp", 32),
        ("aclrtLaunchKernelAttr", 20),
        ("aclrtLaunchKernelAttrValue", 16),
        ("aclrtLaunchKernelCfg", 16),
        ("aclrtBinaryLoadOption", 20),
        ("aclrtBinaryLoadOptions", 16),
        ("aclrtPlaceHolderInfo", 8),
        ("aclrtMallocConfig", 16),
        ("aclrtMemAccessDesc", 24),
        ("aclrtPtrAttributes", 28),
        ("aclrtStreamAttrValue", 16),
        ("aclmdlRITaskParams", 200),
        ("aclmdlRIKernelTaskParams", 88),
        ("aclmdlRICondTaskParams", 24),
        ("aclCANNPackageVersion", 512),
        ("aclrtErrorInfo", 2576),
        ("HcclRootInfo", 4108),
        ("HcclCommConfig", 2240),
    ] {
        let kind = &table.find_type(name).unwrap().kind;
        assert_eq!(layout::of_kind(&table, kind).unwrap().size_bytes, size_bytes, "{name}");
    }
}
