//! What the vendor's operators compute, from their documentation.

use crate::machine::Operands;
use titan_ir::DType;
use titan_ir::ascend::{Arg, TensorArg};

fn f32_of(x: f64) -> f64 {
    DType::F32.round(x)
}

/// Runs one operator.
pub(crate) fn run(name: &str, o: &mut Operands<'_>) {
    match name {
        "aclnnAdd" => o.broadcast2(3, |alpha| move |x, y| f32_of(x + f32_of(alpha * y))),
        "aclnnSub" => o.broadcast2(3, |alpha| move |x, y| f32_of(x - f32_of(alpha * y))),
        "aclnnMul" => o.broadcast2(2, |_| |x, y| x * y),
        "aclnnDiv" => o.broadcast2(2, |_| |x, y| x / y),
        "aclnnMaximum" => o.broadcast2(2, |_| {
            |x: f64, y: f64| {
                if x.is_nan() || y.is_nan() {
                    f64::NAN
                } else if x > y {
                    x
                } else {
                    y
                }
            }
        }),
        "aclnnMinimum" => o.broadcast2(2, |_| {
            |x: f64, y: f64| {
                if x.is_nan() || y.is_nan() {
                    f64::NAN
                } else if x < y {
                    x
                } else {
                    y
                }
            }
        }),
        "aclnnEqTensor" => o.broadcast2(2, |_| |x, y| f64::from(u8::from(x == y))),
        "aclnnLtTensor" => o.broadcast2(2, |_| |x, y| f64::from(u8::from(x < y))),
        "aclnnAdds" => {
            let (s, alpha) = (o.scalar(1), o.scalar(2));
            o.map(0, 3, |x| x + s * alpha);
        }
        "aclnnMuls" => {
            let s = o.scalar(1);
            o.map(0, 2, |x| x * s);
        }
        "aclnnDivs" => {
            let s = o.scalar(1);
            o.map(0, 2, |x| x / s);
        }
        "aclnnNeg" => o.map(0, 1, |x| -x),
        "aclnnExp" => o.map(0, 1, f64::exp),
        "aclnnLog" => o.map(0, 1, f64::ln),
        "aclnnSqrt" => o.map(0, 1, f64::sqrt),
        "aclnnRsqrt" => o.map(0, 1, |x| 1.0 / f32_of(x.sqrt())),
        "aclnnSigmoid" => o.map(0, 1, sigmoid),
        "aclnnSilu" => o.map(0, 1, |x| x * sigmoid(x)),
        "aclnnSiluBackward" => {
            o.broadcast2(2, |_| |dy, x| dy * sigmoid(x) * (1.0 + x * (1.0 - sigmoid(x))));
        }
        "aclnnCast" => {
            let Arg::Type(to) = o.args[1] else { panic!("a cast without a type") };
            assert_eq!(to, o.tensor(2).element);
            o.map(0, 2, |x| x);
        }
        "aclnnSWhere" => where_(o),
        "aclnnInplaceCopy" => {
            let values = o.expanded(1, &o.tensor(0).dims.clone());
            o.write(0, &values);
        }
        "aclnnInplaceFillScalar" => {
            let values = vec![o.scalar(1); o.tensor(0).num_elements() as usize];
            o.write(0, &values);
        }
        "aclnnReduceSum" => reduce(o, 4, 0.0, |sum, x| sum + x),
        "aclnnAmax" => {
            reduce(
                o,
                3,
                f64::NEG_INFINITY,
                |m, x| if m.is_nan() || x.is_nan() { f64::NAN } else { m.max(x) },
            );
        }
        "aclnnMm" => mm(o),
        "aclnnEmbedding" => embedding(o),
        "aclnnEmbeddingDenseBackward" => embedding_grad(o),
        "aclnnRmsNorm" => rms_norm(o),
        "aclnnRmsNormGrad" => rms_norm_grad(o),
        "aclnnRotaryPositionEmbedding" => rotary(o),
        "aclnnCrossEntropyLoss" => cross_entropy(o),
        "aclnnCrossEntropyLossGrad" => cross_entropy_grad(o),
        "aclnnApplyAdamW" => adamw(o),
        "aclnnFlashAttentionScoreV2" => crate::machine::attention(o),
        "aclnnFlashAttentionScoreGradV2" => crate::machine::attention_grad(o),
        _ => panic!("{name} is not interpreted"),
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn where_(o: &mut Operands<'_>) {
    let dims = o.tensor(3).dims.clone();
    let [c, x, y] = [0, 1, 2].map(|k| o.expanded(k, &dims));
    let values: Vec<f64> = (0..c.len()).map(|i| if c[i] == 0.0 { y[i] } else { x[i] }).collect();
    o.write(3, &values);
}

/// Over the one dimension of argument 1.
fn reduce(o: &mut Operands<'_>, out: usize, first: f64, f: impl Fn(f64, f64) -> f64) {
    let (Arg::Ints(over), Arg::Bool(keep)) = (&o.args[1], &o.args[2]) else { panic!("{:?}", o.args) };
    let [over] = over[..] else { panic!("one dimension is reduced") };
    let dims = o.tensor(0).dims.clone();
    let over = over as usize;
    let mut wanted = dims.clone();
    if *keep {
        wanted[over] = 1;
    } else {
        wanted.remove(over);
    }
    assert_eq!(o.tensor(out).dims, wanted, "dimensions of a reduction");
    let (before, n, after) =
        (dims[..over].iter().product::<u64>(), dims[over], dims[over + 1..].iter().product::<u64>());
    let x = o.read(0);
    let at = |b: u64, i: u64, a: u64| x[((b * n + i) * after + a) as usize];
    let values: Vec<f64> = (0..before)
        .flat_map(|b| (0..after).map(move |a| (b, a)))
        .map(|(b, a)| (0..n).fold(first, |sum, i| f(sum, at(b, i, a))))
        .collect();
    o.write(out, &values);
}

fn mm(o: &mut Operands<'_>) {
    let (a, b) = (o.tensor(0).clone(), o.tensor(1).clone());
    let (m, k, n) = (a.dims[0] as usize, a.dims[1] as usize, b.dims[1] as usize);
    assert_eq!(b.dims[0] as usize, k);
    assert_eq!(a.element, b.element, "a product of mixed types");
    let out = o.tensor(2).element;
    assert!(
        a.element == out || (o.stores_f32 && out == titan_ir::ascend::Element::F32),
        "bf16 products in {out:?}"
    );
    let (x, y) = (o.read(0), o.read(1));
    let mut c = vec![0.0; m * n];
    for i in 0..m {
        for l in 0..k {
            let factor = x[i * k + l];
            for j in 0..n {
                c[i * n + j] += factor * y[l * n + j];
            }
        }
    }
    c.iter_mut().for_each(|x| *x = f32_of(*x));
    o.write(2, &c);
}

fn embedding(o: &mut Operands<'_>) {
    let (num, width) = (o.tensor(0).dims[0] as usize, o.tensor(0).dims[1] as usize);
    let (table, ids) = (o.read(0), o.read(1));
    let row = |&id: &f64| if id >= 0.0 && (id as usize) < num { id as usize } else { 0 };
    let values: Vec<f64> = ids.iter().flat_map(|id| table[row(id) * width..][..width].to_vec()).collect();
    o.write(2, &values);
}

fn embedding_grad(o: &mut Operands<'_>) {
    let out = o.tensor(5).clone();
    assert_eq!(out.element, o.tensor(0).element, "the gradient has the type of the rows");
    let width = out.dims[1] as usize;
    let (rows, ids) = (o.read(0), o.read(1));
    let mut sums = vec![0.0; out.num_elements() as usize];
    for (row, &id) in rows.chunks(width).zip(&ids) {
        row.iter().enumerate().for_each(|(j, x)| sums[id as usize * width + j] += x);
    }
    o.write(5, &sums);
}

fn rms_norm(o: &mut Operands<'_>) {
    let width = o.tensor(1).num_elements() as usize;
    let Arg::F64(eps) = o.args[2] else { panic!("eps") };
    let (x, g) = (o.read(0), o.read(1));
    let mut y = Vec::new();
    let mut rstds = Vec::new();
    for row in x.chunks(width) {
        let rstd = 1.0 / (row.iter().map(|x| x * x).sum::<f64>() / width as f64 + eps).sqrt();
        y.extend(row.iter().zip(&g).map(|(x, g)| x * rstd * g));
        rstds.push(rstd);
    }
    o.write(3, &y);
    o.write(4, &rstds);
}

fn rms_norm_grad(o: &mut Operands<'_>) {
    let width = o.tensor(3).num_elements() as usize;
    assert_eq!(o.tensor(5).num_elements() as usize, width);
    let [dy, x, rstd, g] = [0, 1, 2, 3].map(|k| o.read(k));
    let (mut dx, mut dg) = (Vec::new(), vec![0.0; width]);
    for (i, row) in x.chunks(width).enumerate() {
        let (r, dy) = (rstd[i], &dy[i * width..][..width]);
        let mean = (0..width).map(|j| dy[j] * g[j] * row[j] * r).sum::<f64>() / width as f64;
        dx.extend((0..width).map(|j| r * (dy[j] * g[j] - row[j] * r * mean)));
        (0..width).for_each(|j| dg[j] += dy[j] * row[j] * r);
    }
    o.write(4, &dx);
    o.write(5, &dg);
}

/// `x cos + rotated(x) sin` with the interleaved rotation `(-x1, x0, -x3, x2, ..)`.
fn rotary(o: &mut Operands<'_>) {
    let Arg::I64(1) = o.args[3] else { panic!("only the interleaved mode is interpreted") };
    let dims = o.tensor(0).dims.clone();
    let (element, cos, sin) = (o.tensor(0).element, o.tensor(1), o.tensor(2));
    assert!([cos.element, sin.element, o.tensor(4).element].iter().all(|&e| e == element));
    let [cos, sin] = [1, 2].map(|k| o.expanded(k, &dims));
    let x = o.read(0);
    let turned = |i: usize| if i.is_multiple_of(2) { -x[i + 1] } else { x[i - 1] };
    let values: Vec<f64> = (0..x.len()).map(|i| x[i] * cos[i] + turned(i) * sin[i]).collect();
    o.write(4, &values);
}

fn cross_entropy(o: &mut Operands<'_>) {
    let Arg::I64(ignored) = o.args[4] else { panic!("ignoreIndex") };
    assert_eq!(o.args[3], Arg::Text("none".to_owned()));
    let width = o.tensor(0).dims[1] as usize;
    let (x, labels) = (o.read(0), o.read(1));
    let (mut losses, mut log_probs) = (Vec::new(), Vec::new());
    for (row, &label) in x.chunks(width).zip(&labels) {
        let max = row.iter().fold(f64::NEG_INFINITY, |m, &x| m.max(x));
        let lse = max + row.iter().map(|x| (x - max).exp()).sum::<f64>().ln();
        losses.push(if label == ignored as f64 { 0.0 } else { lse - row[label as usize] });
        log_probs.extend(row.iter().map(|x| x - lse));
    }
    o.write(8, &losses);
    o.write(9, &log_probs);
}

fn cross_entropy_grad(o: &mut Operands<'_>) {
    let Arg::I64(ignored) = o.args[7] else { panic!("ignoreIndex") };
    let width = o.tensor(1).dims[1] as usize;
    let [dloss, log_prob, labels] = [0, 1, 2].map(|k| o.read(k));
    assert_eq!(o.tensor(2).element, titan_ir::ascend::Element::I64, "labels of the gradient");
    let values: Vec<f64> = (0..log_prob.len())
        .map(|at| {
            let (i, j) = (at / width, at % width);
            let hot = f64::from(u8::from(labels[i] == j as f64));
            if labels[i] == ignored as f64 { 0.0 } else { (log_prob[at].exp() - hot) * dloss[i] }
        })
        .collect();
    o.write(10, &values);
}

fn adamw(o: &mut Operands<'_>) {
    assert!(o.args[12] == Arg::Bool(false) && o.args[13] == Arg::Bool(false));
    let [p, m, v] = [0, 1, 2].map(|k| o.read(k));
    let [power1, power2, lr, decay, beta1, beta2, eps] = [3, 4, 5, 6, 7, 8, 9].map(|k| o.read(k)[0]);
    let g = o.read(10);
    let mut next: [Vec<f64>; 3] = Default::default();
    for i in 0..p.len() {
        let m = beta1 * m[i] + (1.0 - beta1) * g[i];
        let v = beta2 * v[i] + (1.0 - beta2) * g[i] * g[i];
        let (m_hat, v_hat) = (m / (1.0 - power1 * beta1), v / (1.0 - power2 * beta2));
        let p = p[i] - lr * m_hat / (v_hat.sqrt() + eps) - lr * decay * p[i];
        next.iter_mut().zip([p, m, v]).for_each(|(next, x)| next.push(x));
    }
    (0..3).for_each(|k| o.write(k, &next[k]));
}

/// The elements of a view.
pub(crate) fn size(tensor: &TensorArg) -> (u64, u64) {
    (tensor.at, tensor.at + tensor.extent_bytes())
}
