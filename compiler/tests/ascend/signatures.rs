//! The operators we call have the parameters the vendor gives them.

use titanc::codegen::ascend::operators::{Kind, OPERATORS};

/// The C type of a parameter, without `const`.
fn c_type(kind: Kind) -> &'static str {
    match kind {
        Kind::In | Kind::OptIn | Kind::Out | Kind::Update => "aclTensor*",
        Kind::Scalar => "aclScalar*",
        Kind::Ints | Kind::OptInts => "aclIntArray*",
        Kind::Text => "char*",
        Kind::F64 => "double",
        Kind::I64 => "int64_t",
        Kind::U64 => "uint64_t",
        Kind::I8 => "int8_t",
        Kind::Bool => "bool",
        Kind::Type => "aclDataType",
    }
}

#[test]
fn every_operator_has_the_parameters_of_the_vendors_prototype() {
    let table = ascend_rs_table::table().unwrap();
    for operator in OPERATORS {
        let known = table.operators.iter().find(|o| o.name == operator.name);
        let known = known.unwrap_or_else(|| panic!("{} is not in the table", operator.name));
        let theirs: Vec<String> = known
            .parameters
            .iter()
            .map(|p| format!("{}{}", p.ty.base, "*".repeat(p.ty.pointers.len())))
            .collect();
        let ours: Vec<&str> = operator.kinds.iter().map(|&kind| c_type(kind)).collect();
        assert_eq!(ours, theirs, "{}", operator.name);
        for (parameter, kind) in known.parameters.iter().zip(operator.kinds) {
            let name = parameter.name.to_lowercase();
            if name.ends_with("optional") {
                let optional = matches!(kind, Kind::OptIn | Kind::OptInts | Kind::Text);
                assert!(optional, "{}: {name} may be null", operator.name);
            }
            if name.ends_with("ref") {
                assert_eq!(*kind, Kind::Update, "{}: {name} is updated", operator.name);
            }
            let is_tensor = c_type(*kind) == "aclTensor*";
            if is_tensor && (name.ends_with("out") || name == "gradinput") {
                assert_eq!(*kind, Kind::Out, "{}: {name} is written", operator.name);
            }
        }
    }
}
