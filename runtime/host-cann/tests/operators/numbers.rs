//! Every operator against numbers that torch computed in float64: see `data/generate.py`.

use crate::call::{aclnn, call, dtype, ints, number, text_value};
use crate::support::*;
use crate::tensors::{Tensor, nnopbase, row_major};
use ascend_rs_sys::Value;
use serde_json::Value as Json;
use std::collections::BTreeSet;

pub(crate) const DATA: &str = include_str!("../data/operators.json");

/// What a tensor must hold after the call.
pub(crate) struct Wanted {
    tensor: Tensor,
    values: Vec<f64>,
    tolerance: f64,
    /// Whether errors count against the largest value of the tensor, as of sums over cancelling terms they must.
    is_sum: bool,
}

fn floats(json: &Json) -> Vec<f64> {
    let float = |value: &Json| match value.as_str() {
        Some("inf") => f64::INFINITY,
        Some("-inf") => f64::NEG_INFINITY,
        Some(_) => f64::NAN,
        None => value.as_f64().unwrap(),
    };
    json.as_array().unwrap().iter().map(float).collect()
}

fn integers(json: &Json) -> Vec<i64> {
    json.as_array().unwrap().iter().map(|value| value.as_i64().unwrap()).collect()
}

/// Error that one rounding to the type may make, with room for f32 arithmetic before it.
fn tolerance_of(dtype: &str) -> f64 {
    match dtype {
        "f32" => 3e-6,
        "bf16" => 0.00392,
        _ => 0.0,
    }
}

fn tensor(json: &Json, wanted: &mut Vec<Wanted>) -> Tensor {
    let (dtype, dims) = (json["tensor"].as_str().unwrap(), integers(&json["dims"]));
    let strides = if json["strides"].is_null() { row_major(&dims) } else { integers(&json["strides"]) };
    let tensor = Tensor::new(dtype, &dims, &strides);
    if !json["values"].is_null() {
        tensor.write(&floats(&json["values"]));
    }
    if !json["want"].is_null() {
        let given = json["tolerance"].as_f64();
        wanted.push(Wanted {
            tensor: tensor.clone(),
            values: floats(&json["want"]),
            tolerance: given.unwrap_or(tolerance_of(dtype)),
            is_sum: dtype == "f32" || given.is_some(),
        });
    }
    tensor
}

pub(crate) fn value(json: &Json, wanted: &mut Vec<Wanted>) -> Value {
    let (key, inner) = json.as_object().unwrap().iter().next().unwrap();
    match key.as_str() {
        "null" => Value::Null,
        "list" => {
            let tensors =
                inner.as_array().unwrap().iter().map(|json| tensor(json, wanted).handle.cast_const());
            let tensors: Vec<_> = tensors.collect();
            // SAFETY: the array has that length.
            Value::Tensors(unsafe {
                nnopbase().aclCreateTensorList(tensors.as_ptr(), tensors.len() as u64).unwrap()
            })
        }
        "triangle" => {
            let n = inner.as_i64().unwrap();
            let values: Vec<f64> = (0..n * n).map(|i| if i % n > i / n { 1.0 } else { 0.0 }).collect();
            Value::Tensor(Tensor::of("u8", &[n, n], &values).handle)
        }
        "i64" => Value::I64(inner.as_i64().unwrap()),
        "u64" => Value::U64(inner.as_u64().unwrap()),
        "i32" => Value::I32(inner.as_i64().unwrap() as i32),
        "i8" => Value::I8(inner.as_i64().unwrap() as i8),
        "f64" => Value::F64(inner.as_f64().unwrap()),
        "f32" => Value::F32(inner.as_f64().unwrap() as f32),
        "bool" => Value::Bool(inner.as_bool().unwrap()),
        "text" => text_value(inner.as_str().unwrap()),
        "ints" => ints(&integers(inner)),
        "type" => dtype(inner.as_str().unwrap()),
        _ if !json["scalar"].is_null() => {
            number(json["scalar"].as_str().unwrap(), json["value"].as_f64().unwrap())
        }
        _ => Value::Tensor(tensor(json, wanted).handle),
    }
}

/// What is wrong with the first value that is off.
fn fault(wanted: &Wanted) -> Option<String> {
    let got = wanted.tensor.values();
    let largest = wanted.values.iter().filter(|x| x.is_finite()).fold(0.0f64, |max, x| max.max(x.abs()));
    let scale = if wanted.is_sum { largest } else { 0.0 };
    let is_off = |(got, want): (&f64, &f64)| {
        let same = got == want || (got.is_nan() && want.is_nan());
        let bound = wanted.tolerance * want.abs().max(scale).max(1e-6);
        let is_near = (got - want).abs() <= bound;
        !same && !is_near
    };
    let at = got.iter().zip(&wanted.values).position(is_off)?;
    Some(format!("{} element {at}: {} for {}", wanted.tensor.dtype, got[at], wanted.values[at]))
}

#[test]
fn every_operator_gives_torch_s_numbers() {
    let cases: Vec<Json> = serde_json::from_str(DATA).unwrap();
    let (mut faults, mut seen) = (Vec::new(), BTreeSet::new());
    for (index, case) in cases.iter().enumerate() {
        let _session = session();
        let name = case["operator"].as_str().unwrap();
        seen.insert(name.to_owned());
        let mut wanted = Vec::new();
        let values: Vec<Value> =
            case["args"].as_array().unwrap().iter().map(|json| value(json, &mut wanted)).collect();
        if let Err(error) = call(name, &values) {
            faults.push(format!("case {index}, {name}: {error}"));
            continue;
        }
        assert!(!wanted.is_empty(), "case {index} wants nothing");
        faults.extend(wanted.iter().filter_map(fault).map(|fault| format!("case {index}, {name}: {fault}")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let untested: Vec<String> = implemented().into_iter().filter(|name| !seen.contains(name)).collect();
    assert!(untested.is_empty(), "operators without a case: {untested:?}");
}

/// Operators the library has, but those whose numbers are their own.
fn implemented() -> Vec<String> {
    let own = ["aclnnInplaceNormal", "aclnnInplaceUniform"];
    let names = ascend_rs_table::table().unwrap().operators.into_iter().map(|operator| operator.name);
    let has = |name: &String| aclnn().operator(name).is_ok() && !own.iter().any(|own| name.starts_with(own));
    names.filter(has).collect()
}
