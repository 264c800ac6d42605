//! Contraction, attention and scatter.

use super::emitter::Emitter;
use titan_ir::ascend::{Access, Arg, Element, Family, TableFill, TensorArg};
use titan_ir::kernel::{Attention, Contract, ScatterAdd};
use titan_ir::{DType, ice};

/// Queries and keys of the compressed causal mask.
const MASK_TOKENS: u64 = 2048;

/// Copies of each row's maximum and sum that the attention operators keep.
const REPEATS: u64 = 8;

/// A dense operand.
pub(super) fn dense(element: impl Into<Element>, dims: &[u64], at: u64) -> TensorArg {
    TensorArg::contiguous(element.into(), dims, at, Access::Read)
}

/// Converts into a tensor of equal dimensions.
pub(super) fn cast(e: &mut Emitter<'_>, from: TensorArg, to: &TensorArg) {
    e.operator("aclnnCast", vec![Arg::Tensor(from), Arg::Type(to.element), Arg::Tensor(to.clone())]);
}

/// A matrix product. Transposed operands are views.
pub(super) fn contract(e: &mut Emitter<'_>, spec: &Contract, [a, b, c]: [u64; 3]) {
    let matrix = |rows, cols, transposed, at| {
        let mut view = dense(spec.dtype, &[rows, cols], at);
        if transposed {
            view.strides = vec![1, rows];
        }
        view
    };
    let a_mk = matrix(spec.m, spec.k, spec.trans_a, a);
    let b_kn = matrix(spec.k, spec.n, spec.trans_b, b);
    let c_mn = dense(spec.out, &[spec.m, spec.n], c);
    // The cube adds in f32, but of these devices only the last stores that for bf16 operands.
    let widens = spec.dtype == DType::Bf16 && spec.out == DType::F32 && e.soc().family != Family::A5;
    if widens {
        return wide_contract(e, spec, &a_mk, &b_kn, &c_mn);
    }
    mm(e, a_mk, b_kn, c_mn);
}

fn mm(e: &mut Emitter<'_>, a_mk: TensorArg, b_kn: TensorArg, c_mn: TensorArg) {
    e.operator("aclnnMm", vec![Arg::Tensor(a_mk), Arg::Tensor(b_kn), Arg::Tensor(c_mn), Arg::I8(0)]);
}

/// `count` rows of a matrix from row `first`.
fn rows(matrix: &TensorArg, first: u64, count: u64) -> TensorArg {
    let at = matrix.at + first * matrix.strides[0] * matrix.element.size_bytes();
    TensorArg { dims: vec![count, matrix.dims[1]], at, ..matrix.clone() }
}

/// A product of operands cast to f32, in blocks of rows of A; B is cast once.
fn wide_contract(e: &mut Emitter<'_>, spec: &Contract, a_mk: &TensorArg, b_kn: &TensorArg, c_mn: &TensorArg) {
    // A cast keeps the order in memory, so transposed operands stay views.
    let widened = |e: &mut Emitter<'_>, view: &TensorArg| {
        let is_transposed = view.strides[0] == 1 && view.dims[1] != 1;
        let (from, to) = if is_transposed {
            let flipped = |t: &TensorArg| TensorArg {
                dims: vec![t.dims[1], t.dims[0]],
                strides: vec![t.strides[1], t.strides[0]],
                ..t.clone()
            };
            let from = flipped(view);
            let to = e.temp(Element::F32, &from.dims);
            let view = flipped(&to);
            cast(e, from, &to);
            return view;
        } else {
            (view.clone(), e.temp(Element::F32, &view.dims))
        };
        cast(e, from, &to);
        to
    };
    let b_wide_kn = widened(e, b_kn);
    let row_bytes = spec.k * 4;
    let budget = e.budget_bytes().saturating_sub(spec.k * spec.n * 4).max(e.budget_bytes() / 4);
    let block = (budget / row_bytes / 16 * 16).clamp(16, spec.m.max(16));
    for first in (0..spec.m).step_by(usize::try_from(block).expect("a block is small")) {
        let count = block.min(spec.m - first);
        let a_wide_mk = widened(e, &rows(a_mk, first, count));
        mm(e, a_wide_mk.clone(), b_wide_kn.clone(), rows(c_mn, first, count));
        e.free(&a_wide_mk);
    }
    e.free(&b_wide_kn);
}

/// Sums of rows by id.
pub(super) fn scatter_add(e: &mut Emitter<'_>, spec: &ScatterAdd, [ids, rows, out]: [u64; 3]) {
    if spec.out != DType::F32 {
        ice!("rows are added in f32");
    }
    let mut rows_tc = dense(spec.dtype, &[spec.tokens, spec.cols], rows);
    if spec.dtype != DType::F32 {
        let wide_tc = e.temp(Element::F32, &rows_tc.dims);
        cast(e, rows_tc, &wide_tc);
        rows_tc = wide_tc;
    }
    let ids_t = dense(DType::I32, &[spec.tokens], ids);
    let out_vc = dense(spec.out, &[spec.num, spec.cols], out);
    let no_padding = Arg::U64(u64::MAX);
    let args = vec![
        Arg::Tensor(rows_tc.clone()),
        Arg::Tensor(ids_t),
        Arg::U64(spec.num),
        no_padding,
        Arg::Bool(false),
        Arg::Tensor(out_vc),
    ];
    e.operator("aclnnEmbeddingDenseBackward", args);
    e.free(&rows_tc);
}

/// The tensors of an attention, and the arguments forward and backward share.
struct Heads {
    q_bshe: Vec<u64>,
    k_btge: Vec<u64>,
    /// Rows of scores: batch, heads and queries.
    num_rows: u64,
    softmax_bhsr: Vec<u64>,
}

impl Heads {
    fn new(spec: &Attention) -> Self {
        Self {
            q_bshe: vec![spec.batch, spec.q_tokens, spec.heads, spec.head_dim],
            k_btge: vec![spec.batch, spec.kv_tokens, spec.kv_heads, spec.head_dim],
            num_rows: spec.batch * spec.heads * spec.q_tokens,
            softmax_bhsr: vec![spec.batch, spec.heads, spec.q_tokens, REPEATS],
        }
    }
}

/// The mask: none, or what a query may not see.
fn mask(e: &mut Emitter<'_>, spec: &Attention) -> Arg {
    if !spec.causal {
        return Arg::Null;
    }
    let at = e.table(TableFill::UpperTriangle { rows: MASK_TOKENS, cols: MASK_TOKENS });
    Arg::Tensor(dense(Element::U8, &[MASK_TOKENS, MASK_TOKENS], at))
}

/// Prefix and start indices, scale, dropout, window, heads, layout, precision, mask mode, position shift.
fn settings(spec: &Attention) -> Vec<Arg> {
    let everything = i64::from(i32::MAX);
    let left_up_causal = 2;
    vec![
        Arg::Null,
        Arg::Null,
        Arg::Null,
        Arg::F64(f64::from(f32::from_bits(spec.scale_bits))),
        Arg::F64(1.0),
        Arg::I64(everything),
        Arg::I64(everything),
        Arg::I64(i64::try_from(spec.heads).expect("few heads")),
        Arg::Text("BSND".to_owned()),
        Arg::I64(0),
        Arg::I64(if spec.causal { left_up_causal } else { 0 }),
        Arg::I64(1),
    ]
}

/// A tensor without elements, where an optional result is not wanted.
fn nothing(spec: &Attention) -> Arg {
    Arg::Tensor(dense(spec.dtype, &[0], 0))
}

/// Attention: q, k, v, o, lse.
pub(super) fn attention(e: &mut Emitter<'_>, spec: &Attention, [q, k, v, o, lse]: [u64; 5]) {
    let heads = Heads::new(spec);
    let max_bhsr = e.temp(Element::F32, &heads.softmax_bhsr);
    let sum_bhsr = e.temp(Element::F32, &heads.softmax_bhsr);
    let mut args = vec![
        Arg::Tensor(dense(spec.dtype, &heads.q_bshe, q)),
        Arg::Tensor(dense(spec.dtype, &heads.k_btge, k)),
        Arg::Tensor(dense(spec.dtype, &heads.k_btge, v)),
        Arg::Null,
        Arg::Null,
        Arg::Null,
        mask(e, spec),
    ];
    args.extend(settings(spec));
    args.extend([
        Arg::Tensor(max_bhsr.clone()),
        Arg::Tensor(sum_bhsr.clone()),
        nothing(spec),
        Arg::Tensor(dense(spec.dtype, &heads.q_bshe, o)),
    ]);
    e.operator("aclnnFlashAttentionScoreV2", args);
    // lse = max + log(sum); one of the repetitions of each.
    let first = |t: &TensorArg| TensorArg { dims: vec![heads.num_rows], strides: vec![REPEATS], ..t.clone() };
    let log_n = e.temp(Element::F32, &[heads.num_rows]);
    e.operator("aclnnLog", vec![Arg::Tensor(first(&sum_bhsr)), Arg::Tensor(log_n.clone())]);
    let lse_n = dense(Element::F32, &[heads.num_rows], lse);
    let one = Arg::Scalar(Element::F32, 1.0);
    e.operator(
        "aclnnAdd",
        vec![Arg::Tensor(first(&max_bhsr)), Arg::Tensor(log_n.clone()), one, Arg::Tensor(lse_n)],
    );
    [max_bhsr, sum_bhsr, log_n].iter().for_each(|t| e.free(t));
}

/// Gradient of attention: q, k, v, o, lse, d_o, d_q, d_k, d_v.
pub(super) fn attention_grad(e: &mut Emitter<'_>, spec: &Attention, args: [u64; 9]) {
    let [q, k, v, o, lse, d_o, d_q, d_k, d_v] = args;
    let heads = Heads::new(spec);
    // The probabilities exp(s - max) / sum are the same for max = lse and sum = 1.
    let max_bhsr = e.temp(Element::F32, &heads.softmax_bhsr);
    let rows_nr = TensorArg::contiguous(Element::F32, &[heads.num_rows, REPEATS], max_bhsr.at, Access::Write);
    let lse_n1 = dense(Element::F32, &[heads.num_rows, 1], lse);
    e.operator("aclnnInplaceCopy", vec![Arg::Tensor(rows_nr), Arg::Tensor(lse_n1)]);
    let ones = TableFill::Constant { bits: 1f32.to_bits(), len: heads.num_rows * REPEATS };
    let sum_bhsr = dense(Element::F32, &heads.softmax_bhsr, e.table(ones));
    let mut args = vec![
        Arg::Tensor(dense(spec.dtype, &heads.q_bshe, q)),
        Arg::Tensor(dense(spec.dtype, &heads.k_btge, k)),
        Arg::Tensor(dense(spec.dtype, &heads.k_btge, v)),
        Arg::Tensor(dense(spec.dtype, &heads.q_bshe, d_o)),
        Arg::Null,
        Arg::Null,
        Arg::Null,
        mask(e, spec),
        Arg::Tensor(max_bhsr.clone()),
        Arg::Tensor(sum_bhsr),
        Arg::Null,
        Arg::Tensor(dense(spec.dtype, &heads.q_bshe, o)),
    ];
    args.extend(settings(spec));
    args.extend([
        Arg::Tensor(dense(spec.dtype, &heads.q_bshe, d_q)),
        Arg::Tensor(dense(spec.dtype, &heads.k_btge, d_k)),
        Arg::Tensor(dense(spec.dtype, &heads.k_btge, d_v)),
        nothing(spec),
    ]);
    e.operator("aclnnFlashAttentionScoreGradV2", args);
    e.free(&max_bhsr);
}
