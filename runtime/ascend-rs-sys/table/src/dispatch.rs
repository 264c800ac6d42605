//! Writes what calls an operator by its name: a list of the operators, and one arm per distinct C signature.
//!
//! A pointer is passed alike whatever it points to, so a signature is a string of classes: `p` pointer, `d` double, `f` float,
//! `b` int8_t, `w` int32_t, `q` int64_t, `z` bool. Parameters have finer kinds, by which arguments are checked.

use crate::c_type::CType;
use crate::model::{Library, Operator, Table};
use std::collections::BTreeSet;
use std::fmt::Write;

/// C types of phase one's parameters without their `const`: the variant of `Kind`, and the class.
const KINDS: [(&str, &str, char); 18] = [
    ("aclTensor*", "Tensor", 'p'),
    ("aclTensorList*", "Tensors", 'p'),
    ("aclScalar*", "Scalar", 'p'),
    ("aclScalarList*", "Scalars", 'p'),
    ("aclIntArray*", "Ints", 'p'),
    ("aclFloatArray*", "Floats", 'p'),
    ("aclBoolArray*", "Bools", 'p'),
    ("char*", "Text", 'p'),
    ("double", "F64", 'd'),
    ("float", "F32", 'f'),
    ("int8_t", "I8", 'b'),
    ("int", "I32", 'w'),
    ("int32_t", "I32", 'w'),
    ("aclDataType", "Type", 'w'),
    ("int64_t", "I64", 'q'),
    ("uint64_t", "U64", 'q'),
    ("size_t", "U64", 'q'),
    ("bool", "Bool", 'z'),
];

fn kind(ty: &CType) -> (&'static str, char) {
    let text = format!("{}{}", ty.base, "*".repeat(ty.pointers.len()));
    let found = KINDS.iter().find(|(c, ..)| *c == text);
    let (_, kind, class) = found.unwrap_or_else(|| panic!("`{ty}` has no kind: add it to KINDS"));
    (kind, *class)
}

/// The classes of phase one's parameters, without the last two.
fn signature(operator: &Operator) -> String {
    operator.parameters.iter().map(|p| kind(&p.ty).1).collect()
}

/// The list of operators, sorted by name, and the function that calls phase one.
///
/// # Panics
/// If a parameter has a type without a kind.
pub fn operators(table: &Table) -> String {
    let signatures: Vec<String> =
        table.operators.iter().map(signature).collect::<BTreeSet<_>>().into_iter().collect();
    // Operators come after the library's plain functions, two symbols each.
    let first = table.functions.iter().filter(|f| f.library == Library::Aclnn).count();
    let mut sorted: Vec<(usize, &Operator)> = table.operators.iter().enumerate().collect();
    sorted.sort_by_key(|(_, operator)| &operator.name);
    let mut out = String::from("pub(crate) static OPERATORS: &[Entry] = &[\n");
    for (i, operator) in sorted {
        let kinds: Vec<String> =
            operator.parameters.iter().map(|p| format!("Kind::{}", kind(&p.ty).0)).collect();
        let place = signatures.binary_search(&signature(operator)).expect("it is among them");
        let _ = writeln!(
            out,
            "    Entry {{ name: \"{}\", symbol: {}, signature: {place}, kinds: &[{}] }},",
            operator.name,
            first + 2 * i,
            kinds.join(", ")
        );
    }
    let longest = signatures.iter().map(String::len).max().unwrap_or(0);
    let _ = write!(
        out,
        "];\n\n/// Most parameters of an operator.\npub(crate) const MAX_PARAMETERS: usize = {longest};\n\n\
         /// Calls `function` with the arguments its signature has.\n///\n/// # Safety\n/// `function` is phase one of \
         an operator of this signature; the arguments are as its documentation says.\npub(crate) unsafe fn call(\n    \
         signature: u16,\n    function: *mut c_void,\n    w: &Words,\n    size: *mut u64,\n    \
         executor: *mut *mut aclOpExecutor,\n) -> i32 {{\n    // SAFETY (all arms): the caller's.\n    \
         match signature {{\n"
    );
    for (place, classes) in signatures.iter().enumerate() {
        emit_arm(&mut out, place, classes);
    }
    out.push_str("        _ => unreachable!(\"a signature of the table\"),\n    }\n}\n");
    out
}

fn emit_arm(out: &mut String, place: usize, classes: &str) {
    let (mut types, mut values) = (String::new(), String::new());
    for (i, class) in classes.chars().enumerate() {
        let (ty, value) = match class {
            'p' => ("P", "pointer"),
            'd' => ("f64", "f64"),
            'f' => ("f32", "f32"),
            'b' => ("i8", "i8"),
            'w' => ("i32", "i32"),
            'q' => ("i64", "i64"),
            _ => ("bool", "bool"),
        };
        let _ = write!(types, "{ty}, ");
        let _ = write!(values, "w.{value}({i}), ");
    }
    let _ = write!(
        out,
        "        {place} => {{\n            type F = unsafe extern \"C\" fn({types}*mut u64, *mut *mut aclOpExecutor) -> i32;\n            \
         // SAFETY: see above.\n            unsafe {{ transmute::<*mut c_void, F>(function)({values}size, executor) }}\n        }}\n"
    );
}
