//! Calls keep to what the vendor documents of each parameter: element types, number of dimensions, strides.
//!
//! The documentation is read from `../shared` where that exists.

use crate::llama3;
use std::collections::BTreeMap;
use std::path::Path;
use titan_ir::ascend::{Arg, Call, Element, Program, TensorArg, contiguous_strides};

/// What is documented of a parameter.
struct Parameter {
    dtypes: String,
    ranks: String,
    is_strided: bool,
}

type Documented = BTreeMap<(String, String), Parameter>;

fn read() -> Option<Documented> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let text = std::fs::read_to_string(root.join("shared/facts/cann/aclnn_dtypes.tsv")).ok()?;
    let rows = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let cells: Vec<&str> = line.split('\t').collect();
        // A type may follow the name in parentheses.
        let name = cells[1].split(['（', '(']).next().unwrap().trim().to_lowercase();
        let parameter = Parameter {
            dtypes: cells[3].to_owned(),
            ranks: cells[5].to_owned(),
            is_strided: cells[6] == "√",
        };
        ((cells[0].to_owned(), name), parameter)
    });
    Some(rows.collect())
}

fn names(element: Element) -> &'static [&'static str] {
    match element {
        Element::F32 => &["FLOAT", "FLOAT32"],
        Element::Bf16 => &["BFLOAT16"],
        Element::I32 => &["INT32"],
        Element::I64 => &["INT64"],
        Element::U8 => &["UINT8"],
        Element::Bool => &["BOOL", "bool"],
    }
}

/// Whether a text like `2`, `1-8` or `0、3、4` allows a number of dimensions; other texts are prose.
fn allows_rank(text: &str, rank: usize) -> bool {
    let numbers: Option<Vec<usize>> = text.split(['-', '、']).map(|n| n.parse().ok()).collect();
    match numbers.as_deref() {
        Some([low, high]) if text.contains('-') => (*low..=*high).contains(&rank),
        Some(list) => list.contains(&rank),
        None => true,
    }
}

fn check(documented: &Documented, name: &str, parameter: &str, tensor: &TensorArg) {
    let Some(known) = documented.get(&(name.to_owned(), parameter.to_lowercase())) else { return };
    let is_prose = known.dtypes.contains('与') || known.dtypes == "-";
    let mut listed = known.dtypes.split('、').map(|d| d.split(['（', ' ']).next().unwrap().trim());
    let is_listed = is_prose || listed.any(|d| names(tensor.element).contains(&d));
    assert!(is_listed, "{name}: {parameter} is {}; documented: {}", tensor.element.name(), known.dtypes);
    if tensor.num_elements() > 0 {
        let ranks = &known.ranks;
        assert!(
            allows_rank(ranks, tensor.dims.len()),
            "{name}: {parameter} {:?}; documented: {ranks}",
            tensor.dims
        );
    }
    let dense = contiguous_strides(&tensor.dims);
    let is_dense = (0..tensor.dims.len()).all(|i| tensor.dims[i] == 1 || tensor.strides[i] == dense[i]);
    assert!(is_dense || known.is_strided, "{name}: {parameter} is strided {tensor:?}");
}

fn check_program(documented: &Documented, program: &Program, num_checked: &mut usize) {
    let table = ascend_rs_table::table().unwrap();
    for submission in program.submissions() {
        let Call::Operator { name, args } = &submission.call else { continue };
        let operator = table.operators.iter().find(|o| o.name == *name).unwrap();
        for (parameter, arg) in operator.parameters.iter().zip(args) {
            if let Arg::Tensor(tensor) = arg {
                check(documented, name, &parameter.name, tensor);
                *num_checked += 1;
            }
        }
    }
}

#[test]
fn calls_keep_to_what_is_documented_of_each_parameter() {
    let Some(documented) = read() else {
        eprintln!("skipped: no ../shared");
        return;
    };
    let mut num_checked = 0;
    for program in llama3::programs() {
        check_program(&documented, &program, &mut num_checked);
    }
    assert!(num_checked > 1000, "{num_checked} operands checked");
}
