//! What operators refuse: each rule broken once, on a device of the second generation.

use crate::call::{call, dtype, ints, number, plan, text_value};
use crate::support::*;
use crate::tensors::Tensor;
use ascend_rs_sys::Value;
use ascend_rs_sys::types::*;

fn tensor(dtype: &str, dims: &[i64]) -> Value {
    Value::Tensor(Tensor::full(dtype, dims, 0.0).handle)
}

fn strided(dtype: &str, dims: &[i64], strides: &[i64]) -> Value {
    Value::Tensor(Tensor::new(dtype, dims, strides).handle)
}

/// A call that works, by parameter.
fn valid(name: &str) -> Vec<Value> {
    let f = |dims: &[i64]| tensor("f32", dims);
    let none = Value::Null;
    match name {
        "aclnnMm" => vec![f(&[3, 4]), f(&[4, 5]), f(&[3, 5]), Value::I8(0)],
        "aclnnBatchMatMul" => vec![f(&[2, 3, 4]), f(&[2, 4, 5]), f(&[2, 3, 5]), Value::I8(0)],
        "aclnnAdd" => vec![f(&[3, 4]), f(&[4]), number("f32", 1.0), f(&[3, 4])],
        "aclnnCast" => vec![f(&[3]), dtype("bf16"), tensor("bf16", &[3])],
        "aclnnIsFinite" => vec![f(&[3]), tensor("bool", &[3])],
        "aclnnRmsNorm" => vec![f(&[3, 8]), f(&[8]), Value::F64(1e-5), f(&[3, 8]), f(&[3, 1])],
        "aclnnRmsNormGrad" => vec![f(&[3, 8]), f(&[3, 8]), f(&[3, 1]), f(&[8]), f(&[3, 8]), f(&[8])],
        "aclnnRotaryPositionEmbedding" => {
            vec![f(&[2, 6, 4, 8]), f(&[1, 6, 1, 8]), f(&[1, 6, 1, 8]), Value::I64(1), f(&[2, 6, 4, 8])]
        }
        "aclnnSwiGlu" => vec![f(&[3, 8]), Value::I64(1), f(&[3, 4])],
        "aclnnEmbedding" => vec![f(&[5, 4]), tensor("i32", &[3]), f(&[3, 4])],
        "aclnnEmbeddingDenseBackward" => {
            let (count, padding) = (Value::U64(5), Value::U64(u64::MAX));
            vec![f(&[3, 4]), tensor("i64", &[3]), count, padding, Value::Bool(false), f(&[5, 4])]
        }
        "aclnnReduceSum" => vec![f(&[3, 4]), ints(&[1]), Value::Bool(false), dtype("f32"), f(&[3])],
        "aclnnCat" | "aclnnForeachNorm" => Vec::new(),
        "aclnnCrossEntropyLoss" => {
            let (text, rest) = (text_value("mean"), [Value::I64(-100), Value::F64(0.0), Value::F64(0.0)]);
            let outs = [f(&[]), f(&[3, 7]), none, none];
            let head = [f(&[3, 7]), tensor("i32", &[3]), none, text];
            head.into_iter().chain(rest).chain([Value::Bool(false)]).chain(outs).collect()
        }
        "aclnnCrossEntropyLossGrad" => {
            let head = [f(&[1]), f(&[3, 7]), tensor("i64", &[3]), none, none, none, text_value("mean")];
            let rest = [Value::I64(-100), Value::F64(0.0), Value::F64(0.0), f(&[3, 7])];
            head.into_iter().chain(rest).collect()
        }
        "aclnnApplyAdamW" => {
            let state = [f(&[4]), f(&[4]), f(&[4])];
            let hyper = (0..7).map(|_| f(&[1]));
            let tail = [f(&[4]), none, Value::Bool(false), Value::Bool(false)];
            state.into_iter().chain(hyper).chain(tail).collect()
        }
        "aclnnFlashAttentionScoreV2" => {
            let head = [f(&[1, 6, 4, 16]), f(&[1, 6, 2, 16]), f(&[1, 6, 2, 16]), none, none, none];
            let mask = Value::Tensor(triangle().handle);
            let numbers = [Value::F64(0.25), Value::F64(1.0), Value::I64(99), Value::I64(99), Value::I64(4)];
            let modes = [text_value("BSND"), Value::I64(0), Value::I64(2), Value::I64(1)];
            let outs = [f(&[1, 4, 6, 8]), f(&[1, 4, 6, 8]), tensor("f32", &[0]), f(&[1, 6, 4, 16])];
            head.into_iter().chain([mask, none, none, none]).chain(numbers).chain(modes).chain(outs).collect()
        }
        _ => panic!("no valid call of {name}"),
    }
}

fn triangle() -> Tensor {
    let n = 2048;
    Tensor::of("u8", &[n, n], &(0..n * n).map(|i| f64::from(i32::from(i % n > i / n))).collect::<Vec<_>>())
}

/// Operator, parameter to replace, by what, status, part of the text.
type Case = (&'static str, usize, fn() -> Value, i32, &'static str);

const NULL: i32 = ACLNN_ERR_PARAM_NULLPTR;
const INVALID: i32 = ACLNN_ERR_PARAM_INVALID;

const CASES: &[Case] = &[
    ("aclnnMm", 0, || Value::Null, NULL, "self is null"),
    (
        "aclnnMm",
        0,
        || tensor("i32", &[3, 4]),
        INVALID,
        "self has type INT32; allowed: FLOAT, FLOAT16, BFLOAT16",
    ),
    ("aclnnMm", 1, || tensor("bf16", &[4, 5]), INVALID, "mat2 has type BFLOAT16 and self has FLOAT"),
    ("aclnnMm", 1, || tensor("f32", &[3, 5]), INVALID, "4 and 3 differ"),
    ("aclnnMm", 1, || tensor("f32", &[1, 4, 5]), INVALID, "mat2 has 3 dimensions"),
    ("aclnnMm", 2, || tensor("f32", &[5, 3]), INVALID, "out has shape [5, 3]; that of the product is [3, 5]"),
    ("aclnnMm", 2, || strided("f32", &[3, 5], &[1, 3]), INVALID, "out must be contiguous"),
    ("aclnnMm", 3, || Value::I8(2), INVALID, "cubeMathType is 2"),
    ("aclnnBatchMatMul", 1, || tensor("f32", &[3, 4, 5]), INVALID, "cannot be broadcast"),
    ("aclnnAdd", 1, || tensor("f32", &[3]), INVALID, "shapes cannot be broadcast: self [3, 4], other [3]"),
    ("aclnnAdd", 1, || tensor("u64", &[4]), INVALID, "other has type UINT64"),
    ("aclnnAdd", 2, || Value::Null, NULL, "alpha is null"),
    ("aclnnAdd", 3, || tensor("f32", &[4]), INVALID, "out has shape [4]"),
    ("aclnnAdd", 3, || tensor("i32", &[3, 4]), INVALID, "cannot hold the result's FLOAT"),
    ("aclnnAdd", 3, || strided("f32", &[3, 4], &[0, 1]), INVALID, "elements of it share memory"),
    ("aclnnCast", 1, || dtype("i32"), INVALID, "out has type BFLOAT16 and dtype is INT32"),
    ("aclnnIsFinite", 1, || tensor("f32", &[3]), INVALID, "allowed: BOOL"),
    ("aclnnRmsNorm", 1, || tensor("bf16", &[8]), INVALID, "gamma has type BFLOAT16 and x has FLOAT"),
    ("aclnnRmsNorm", 1, || tensor("f32", &[4]), INVALID, "gamma has shape [4], which is not the end of x's"),
    ("aclnnRmsNorm", 4, || tensor("bf16", &[3, 1]), INVALID, "rstdOut has type BFLOAT16"),
    ("aclnnRmsNorm", 4, || tensor("f32", &[3, 8]), INVALID, "one value per row of x"),
    ("aclnnRmsNormGrad", 5, || tensor("bf16", &[8]), INVALID, "dgammaOut has type BFLOAT16; allowed: FLOAT"),
    ("aclnnRotaryPositionEmbedding", 1, || tensor("f32", &[2, 6, 1, 8]), INVALID, "sin has shape"),
    ("aclnnRotaryPositionEmbedding", 3, || Value::I64(4), INVALID, "mode is 4"),
    (
        "aclnnRotaryPositionEmbedding",
        4,
        || strided("f32", &[2, 6, 4, 8], &[192, 8, 48, 1]),
        INVALID,
        "out must be contiguous",
    ),
    ("aclnnSwiGlu", 0, || strided("f32", &[3, 8], &[1, 3]), INVALID, "x must be contiguous"),
    ("aclnnSwiGlu", 0, || tensor("f32", &[3, 7]), INVALID, "an odd number"),
    ("aclnnSwiGlu", 1, || Value::I64(2), INVALID, "dim is 2; allowed: -2 to 1"),
    ("aclnnEmbedding", 1, || tensor("f32", &[3]), INVALID, "indices has type FLOAT; allowed: INT64, INT32"),
    ("aclnnEmbedding", 2, || tensor("bf16", &[3, 4]), INVALID, "must agree"),
    ("aclnnEmbeddingDenseBackward", 2, || Value::U64(6), INVALID, "that of numWeights rows is [6, 4]"),
    ("aclnnReduceSum", 1, || ints(&[1, -1]), INVALID, "lists a dimension twice"),
    ("aclnnReduceSum", 2, || Value::Bool(true), INVALID, "that of self reduced is [3, 1]"),
    ("aclnnReduceSum", 3, || dtype("bf16"), INVALID, "out has type FLOAT and dtype is BFLOAT16"),
    ("aclnnCrossEntropyLoss", 1, || tensor("u8", &[3]), INVALID, "target has type UINT8"),
    ("aclnnCrossEntropyLoss", 3, || text_value("average"), INVALID, "allowed: none, mean, sum"),
    ("aclnnCrossEntropyLoss", 5, || Value::F64(1.0), INVALID, "labelSmoothing is 1"),
    ("aclnnCrossEntropyLoss", 8, || tensor("f32", &[3]), INVALID, "lossOut has shape [3]"),
    (
        "aclnnCrossEntropyLossGrad",
        2,
        || tensor("i32", &[3]),
        INVALID,
        "target has type INT32; allowed: INT64",
    ),
    ("aclnnApplyAdamW", 3, || tensor("f32", &[2]), INVALID, "beta1Power has shape [2]"),
    ("aclnnApplyAdamW", 5, || tensor("bf16", &[1]), INVALID, "lr has type BFLOAT16 and varRef has FLOAT"),
    ("aclnnApplyAdamW", 10, || tensor("f32", &[5]), INVALID, "grad has shape [5]"),
    ("aclnnApplyAdamW", 12, || Value::Bool(true), NULL, "maxGradNormOptional, with amsgrad, is null"),
    (
        "aclnnFlashAttentionScoreV2",
        0,
        || tensor("f32", &[1, 6, 3, 16]),
        INVALID,
        "headNum is 4 and query has 3",
    ),
    ("aclnnFlashAttentionScoreV2", 1, || tensor("f32", &[1, 6, 3, 16]), INVALID, "value has shape"),
    (
        "aclnnFlashAttentionScoreV2",
        6,
        || tensor("u8", &[6, 6]),
        INVALID,
        "the mask of sparseMode 2 is [2048, 2048]",
    ),
    ("aclnnFlashAttentionScoreV2", 6, || Value::Null, INVALID, "sparseMode 2 needs one"),
    ("aclnnFlashAttentionScoreV2", 11, || Value::F64(0.9), INVALID, "keepProb is 0.9"),
    ("aclnnFlashAttentionScoreV2", 15, || text_value("TND"), INVALID, "allowed: BSH, SBH, BSND, BNSD"),
    ("aclnnFlashAttentionScoreV2", 17, || Value::I64(7), INVALID, "sparseMode is 7"),
    ("aclnnFlashAttentionScoreV2", 17, || Value::I64(0), INVALID, "allowed with sparseMode 0: [6, 6]"),
    ("aclnnFlashAttentionScoreV2", 19, || tensor("f32", &[1, 4, 6]), INVALID, "batch, heads, queries, 8"),
];

#[test]
fn every_rule_is_kept() {
    let mut faults = Vec::new();
    for (name, place, broken, status, part) in CASES {
        let _session = session();
        let mut values = valid(name);
        if let Err(error) = plan(name, &values) {
            faults.push(format!("{name} is valid: {error}"));
            continue;
        }
        values[*place] = broken();
        let result = plan(name, &values);
        if result.is_ok() || code(result.as_ref().map_err(Clone::clone)) != *status {
            faults.push(format!("{name}, parameter {place}: {}", text(result)));
        } else if let Err(error) = result
            && !error.to_string().contains(part)
        {
            faults.push(format!("{name}, parameter {place}: `{error}` does not say `{part}`"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn products_of_bf16_stay_bf16_on_this_device() {
    let _session = session();
    let b = |dims: &[i64]| tensor("bf16", dims);
    let values = [b(&[3, 4]), b(&[4, 5]), tensor("f32", &[3, 5]), Value::I8(0)];
    assert!(text(plan("aclnnMm", &values)).contains("out has type FLOAT and self has BFLOAT16"));
    let f32s_math = [b(&[3, 4]), b(&[4, 5]), b(&[3, 5]), Value::I8(3)];
    assert!(text(plan("aclnnMm", &f32s_math)).contains("for BFLOAT16 allowed: [0, 1]"));
}

#[test]
fn rotary_limits_are_those_of_the_mode() {
    let _session = session();
    let f = |dims: &[i64]| tensor("f32", dims);
    let rotary = |x: &[i64], cos: &[i64], mode| {
        text(plan("aclnnRotaryPositionEmbedding", &[f(x), f(cos), f(cos), Value::I64(mode), f(x)]))
    };
    assert_eq!(rotary(&[2, 3, 40, 8], &[2, 3, 1, 8], 0), "no error");
    assert!(rotary(&[2, 3, 40, 8], &[2, 3, 1, 8], 1).contains("in mode 1 it varies along one"));
    assert!(rotary(&[25, 3, 40, 8], &[1, 3, 1, 8], 1).contains("1000 times over batch and heads"));
    assert_eq!(rotary(&[25, 3, 40, 8], &[1, 3, 1, 8], 0), "no error");
    assert!(rotary(&[1, 2, 1, 896], &[1, 2, 1, 896], 0).contains("less than 896"));
    assert!(rotary(&[1, 2, 1, 6], &[1, 2, 1, 6], 2).contains("no multiple of 4"));
}

#[test]
fn what_only_the_device_sees_fails_when_it_runs() {
    let _session = session();
    let (weight, ids) = (tensor("f32", &[5, 4]), Value::Tensor(Tensor::full("i64", &[2], 5.0).handle));
    let outside = call("aclnnEmbedding", &[weight, ids, tensor("f32", &[2, 4])]);
    assert!(text(outside).contains("has 5; allowed: 0 to 4"));
    let mut values = valid("aclnnFlashAttentionScoreV2");
    values[6] = tensor("u8", &[2048, 2048]);
    assert!(
        text(call("aclnnFlashAttentionScoreV2", &values)).contains("attenMask is not 1 above the diagonal")
    );
}

/// Which device a child of this program is.
const SOC: &str = "HOST_CANN_SOC";

#[test]
fn child_of_the_950() {
    if std::env::var(SOC).is_ok_and(|soc| soc == "Ascend950PR_9599") {
        let _session = session();
        let b = |dims: &[i64]| Value::Tensor(Tensor::full("bf16", dims, 1.5).handle);
        let out = Tensor::new("f32", &[3, 5], &[5, 1]);
        let mixed = [b(&[3, 4]), b(&[4, 5]), Value::Tensor(out.handle), Value::I8(0)];
        call("aclnnMm", &mixed).unwrap();
        assert_eq!(out.values(), [9.0; 15]);
        let wide =
            [tensor("f32", &[1, 2, 1, 896]), tensor("f32", &[1, 2, 1, 896]), tensor("f32", &[1, 2, 1, 896])];
        let [x, cos, sin] = wide;
        let out = tensor("f32", &[1, 2, 1, 896]);
        plan("aclnnRotaryPositionEmbedding", &[x, cos, sin, Value::I64(0), out]).unwrap();
        println!("the 950 takes it");
    }
}

#[test]
fn the_950_takes_what_others_refuse() {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "refusals::child_of_the_950", "--nocapture"]).env(SOC, "Ascend950PR_9599");
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("the 950 takes it"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn hf32_products_lose_what_it_does_not_hold() {
    let _session = session();
    let product = |code| {
        let (a, b) = (Tensor::full("f32", &[1, 1], 1.0 + 1.0 / 8192.0), Tensor::full("f32", &[1, 1], 1.0));
        let out = Tensor::new("f32", &[1, 1], &[1, 1]);
        let t = |tensor: &Tensor| Value::Tensor(tensor.handle);
        call("aclnnMm", &[t(&a), t(&b), t(&out), Value::I8(code)]).unwrap();
        out.values()[0]
    };
    assert_eq!([product(0), product(1), product(3)], [1.0 + 1.0 / 8192.0, 1.0, 1.0]);
}
