//! Sums whose order a device does not promise: they differ from run to run, unless determinism is asked for.

use crate::call::{call, dtype, ints, number, text_value};
use crate::support::*;
use crate::tensors::Tensor;
use ascend_rs_sys::Value;
use ascend_rs_sys::types::*;
use std::collections::BTreeSet;

/// Numbers of very different sizes, so that rounding depends on the order of a sum.
fn uneven(len: usize) -> Vec<f64> {
    let value = |i: usize| {
        let x = (i as u32).wrapping_mul(2_654_435_761) >> 8;
        (f64::from(x) / f64::from(1 << 24) - 0.5) * 10f64.powi((i % 5) as i32)
    };
    (0..len).map(value).collect()
}

/// A run of an operator.
type Once = fn() -> Vec<f64>;

/// How many different results ten runs give.
fn num_results(deterministic: bool, once: impl Fn() -> Vec<f64>) -> usize {
    // SAFETY: no pointers.
    unsafe {
        acl().aclrtSetSysParamOpt(aclSysParamOpt::ACL_OPT_DETERMINISTIC, i64::from(deterministic)).unwrap()
    };
    let bits = |values: Vec<f64>| values.into_iter().map(f64::to_bits).collect::<Vec<_>>();
    (0..10).map(|_| bits(once())).collect::<BTreeSet<_>>().len()
}

fn t(tensor: &Tensor) -> Value {
    Value::Tensor(tensor.handle)
}

fn rms_norm_grad() -> Vec<f64> {
    let x = Tensor::of("f32", &[64, 8], &uneven(512));
    let (rstd, gamma) = (Tensor::full("f32", &[64, 1], 0.5), Tensor::full("f32", &[8], 1.0));
    let (dx, dgamma) = (Tensor::new("f32", &[64, 8], &[8, 1]), Tensor::new("f32", &[8], &[1]));
    call("aclnnRmsNormGrad", &[t(&x), t(&x), t(&rstd), t(&gamma), t(&dx), t(&dgamma)]).unwrap();
    dgamma.values()
}

fn embedding_dense_backward() -> Vec<f64> {
    let (grad, ids) = (Tensor::of("f32", &[64, 8], &uneven(512)), Tensor::full("i64", &[64], 1.0));
    let out = Tensor::new("f32", &[2, 8], &[8, 1]);
    let values = [t(&grad), t(&ids), Value::U64(2), Value::U64(u64::MAX), Value::Bool(false), t(&out)];
    call("aclnnEmbeddingDenseBackward", &values).unwrap();
    out.values()
}

fn scatter_add() -> Vec<f64> {
    let (x, ids) = (Tensor::full("f32", &[2, 8], 0.0), Tensor::full("i64", &[64, 8], 1.0));
    let (src, out) = (Tensor::of("f32", &[64, 8], &uneven(512)), Tensor::new("f32", &[2, 8], &[8, 1]));
    call("aclnnScatterAdd", &[t(&x), Value::I64(0), t(&ids), t(&src), t(&out)]).unwrap();
    out.values()
}

fn vector_norm() -> Vec<f64> {
    let (x, out) = (Tensor::of("f32", &[512], &uneven(512)), Tensor::new("f32", &[], &[]));
    let values = [t(&x), number("f32", 2.0), ints(&[]), Value::Bool(false), dtype("f32"), t(&out)];
    call("aclnnLinalgVectorNorm", &values).unwrap();
    out.values()
}

fn attention_grad() -> Vec<f64> {
    let (dims, num) = ([1, 300, 2, 4], 2400);
    let q = Tensor::of("f32", &dims, &uneven(num).iter().map(|x| x * 1e-4).collect::<Vec<_>>());
    let (dy, max, sum) = (
        Tensor::of("f32", &dims, &uneven(num)),
        Tensor::full("f32", &[1, 2, 300, 8], 0.0),
        Tensor::full("f32", &[1, 2, 300, 8], 300.0),
    );
    let outs = [(); 3].map(|()| Tensor::new("f32", &dims, &[2400, 8, 4, 1]));
    let none = Value::Null;
    let mut values = vec![t(&q), t(&q), t(&q), t(&dy), none, none, none, none, t(&max), t(&sum), none, t(&q)];
    values.extend([
        none,
        none,
        none,
        Value::F64(1.0),
        Value::F64(1.0),
        Value::I64(0),
        Value::I64(0),
        Value::I64(2),
    ]);
    values.extend([text_value("BSND"), Value::I64(0), Value::I64(0), Value::I64(1)]);
    values.extend(outs.iter().map(t).chain([none]));
    call("aclnnFlashAttentionScoreGradV2", &values).unwrap();
    outs[2].values()
}

#[test]
fn sums_without_a_promised_order_differ_and_deterministic_ones_do_not() {
    let cases: [(&str, Once); 5] = [
        ("RmsNormGrad", rms_norm_grad),
        ("EmbeddingDenseBackward", embedding_dense_backward),
        ("ScatterAdd", scatter_add),
        ("LinalgVectorNorm", vector_norm),
        ("FlashAttentionScoreGradV2", attention_grad),
    ];
    for (name, once) in cases {
        let _session = session();
        assert!(num_results(false, once) > 1, "{name} keeps an order it does not promise");
        assert_eq!(num_results(true, once), 1, "{name}");
    }
}

#[test]
fn random_numbers_depend_on_seed_and_offset_alone() {
    let _session = session();
    let draw = |seed: i64, offset: i64| {
        let x = Tensor::full("f32", &[4000], 0.0);
        let values = [t(&x), Value::F32(1.0), Value::F32(2.0), Value::I64(seed), Value::I64(offset)];
        call("aclnnInplaceNormal", &values).unwrap();
        x.values()
    };
    let first = draw(7, 0);
    assert_eq!(first, draw(7, 0));
    assert_ne!(first, draw(8, 0));
    assert_eq!(first[10..], draw(7, 10)[..3990]);
    let mean = first.iter().sum::<f64>() / 4000.0;
    let deviation = (first.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 4000.0).sqrt();
    // Five standard errors of each.
    assert!((mean - 1.0).abs() < 5.0 * 2.0 / 4000f64.sqrt(), "{mean}");
    assert!((deviation - 2.0).abs() < 5.0 * 2.0 / 8000f64.sqrt(), "{deviation}");
    let (seed, offset) = (Tensor::full("i64", &[1], 7.0), Tensor::full("i64", &[1], 3.0));
    let x = Tensor::full("f32", &[4000], 0.0);
    let values = [t(&x), Value::F64(-1.0), Value::F64(3.0), t(&seed), t(&offset), Value::U64(0)];
    call("aclnnInplaceUniformTensor", &values).unwrap();
    let uniform = x.values();
    assert!(uniform.iter().all(|x| (-1.0..3.0).contains(x)));
    let mean = uniform.iter().sum::<f64>() / 4000.0;
    assert!((mean - 1.0).abs() < 5.0 * 4.0 / 12f64.sqrt() / 4000f64.sqrt(), "{mean}");
}
