//! Null for every pointer of every operator: refused by the name the table has for it, unless it may be left out.

use crate::call::plan;
use crate::numbers::{DATA, value};
use crate::support::*;
use ascend_rs_sys::Value;
use ascend_rs_sys::types::ACLNN_ERR_PARAM_NULLPTR;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// Parameters that may be null although their names do not say so.
const OPTIONAL: [&str; 11] = [
    "clipValueMin",
    "clipValueMax",
    "zlossOut",
    "lseForZlossOut",
    "softmaxOutOut",
    "dpseOut",
    "dsinkOut",
    "dcosOut",
    "dsinOut",
    "attenMask",
    "attenMaskOptional",
];

/// Parameters that may not, although theirs do.
const NEEDED: [&str; 3] = ["softmaxMaxOptional", "softmaxSumOptional", "attentionInOptional"];

/// Whether phase one may succeed or fail for another reason without it.
fn may_be_null(operator: &str, parameter: &str) -> bool {
    let by_name = parameter.ends_with("Optional") && !NEEDED.contains(&parameter);
    by_name || OPTIONAL.contains(&parameter) || (operator, parameter) == ("aclnnLinalgVectorNorm", "dims")
}

fn is_pointer(value: &Value) -> bool {
    matches!(value, Value::Tensor(_) | Value::Tensors(_) | Value::Scalar(_) | Value::Ints(_))
}

#[test]
fn null_is_refused_by_name() {
    let parameters: BTreeMap<String, Vec<String>> = ascend_rs_table::table()
        .unwrap()
        .operators
        .into_iter()
        .map(|o| (o.name, o.parameters.into_iter().map(|p| p.name).collect()))
        .collect();
    let cases: Vec<Json> = serde_json::from_str(DATA).unwrap();
    let (mut faults, mut seen, mut num_refused) = (Vec::new(), Vec::new(), 0);
    for case in &cases {
        let name = case["operator"].as_str().unwrap();
        if seen.contains(&name) {
            continue;
        }
        seen.push(name);
        let _session = session();
        let mut wanted = Vec::new();
        let args = case["args"].as_array().unwrap();
        let values: Vec<Value> = args.iter().map(|json| value(json, &mut wanted)).collect();
        for (place, parameter) in parameters[name].iter().enumerate().filter(|(i, _)| is_pointer(&values[*i]))
        {
            let mut broken = values.clone();
            broken[place] = Value::Null;
            let result = plan(name, &broken);
            let status = code(result.as_ref().map_err(Clone::clone));
            let told = text(result);
            let is_refused =
                status == ACLNN_ERR_PARAM_NULLPTR && told.contains(&format!("{parameter} is null"));
            num_refused += usize::from(is_refused);
            if is_refused == may_be_null(name, parameter) {
                faults.push(format!("{name}, {parameter}: {told}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(num_refused > 200, "only {num_refused} were refused");
}
