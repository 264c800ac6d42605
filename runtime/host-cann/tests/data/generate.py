"""Writes operators.json: calls of operators with what they must give, computed by PyTorch in float64.

Run with any Python that has torch. Inputs are drawn from a fixed seed and rounded to their type first; what is expected is the
float64 result of torch's own function for them, not rounded.
"""
import json
import math
import torch
import torch.nn.functional as F

torch.manual_seed(20)
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i32": torch.int32, "i64": torch.int64,
         "u8": torch.uint8, "bool": torch.bool}
cases = []


def numbers(x):
    x = x.detach().double() if x.is_floating_point() else x
    return [float(f"{v:.8g}") if isinstance(v, float) and math.isfinite(v) else (str(v) if isinstance(v, float) else int(v))
            for v in x.contiguous().flatten().tolist()]


def rounded(x, t):
    return x.to(TYPES[t])


def draw(*dims, t="f32", low=-2.0, high=2.0):
    return rounded(torch.rand(*dims, dtype=torch.float64) * (high - low) + low, t)


def name(x):
    return next(k for k, v in TYPES.items() if v == x.dtype)


def given(x):
    """A tensor that is read, with its strides."""
    return {"tensor": name(x), "dims": list(x.shape), "strides": list(x.stride()), "values": numbers(x)}


def wanted(x, t, tolerance=None):
    """A tensor that is written."""
    case = {"tensor": t, "dims": list(x.shape), "want": numbers(x)}
    return case | ({"tolerance": tolerance} if tolerance else {})


def updated(before, after):
    return given(before) | {"want": numbers(after)}


def empty(t):
    return {"tensor": t, "dims": [0], "want": []}


def listed(*tensors):
    return {"list": list(tensors)}


def scalar(value, t="f32"):
    return {"scalar": t, "value": value}


def call(op, *args):
    cases.append({"operator": op, "args": list(args)})


def d(x):
    return x.double()


I64, F64, U64, I8, I32, F32 = [lambda v, k=k: {k: v} for k in ("i64", "f64", "u64", "i8", "i32", "f32")]
BOOL, TEXT, INTS, TYPE, NULL = (lambda v: {"bool": v}), (lambda v: {"text": v}), (lambda v: {"ints": v}), (lambda v: {"type": v}), {"null": True}

# Products.
for t in ("f32", "bf16"):
    a, b = draw(5, 7, t=t), draw(7, 6, t=t)
    call("aclnnMm", given(a), given(b), wanted(d(a) @ d(b), t), I8(0))
    call("aclnnMm", given(a.t().contiguous().t()), given(b.t().contiguous().t()), wanted(d(a) @ d(b), t), I8(0))
a, b = draw(2, 1, 3, 4), draw(3, 4, 5)
call("aclnnMatmul", given(a), given(b), wanted(d(a) @ d(b), "f32"), I8(0))
a, b = draw(4), draw(2, 4, 3)
call("aclnnMatmul", given(a), given(b), wanted(d(a) @ d(b), "f32"), I8(0))
a, b = draw(3, 4), draw(4)
call("aclnnMatmul", given(a), given(b), wanted(d(a) @ d(b), "f32"), I8(0))
a, b, c = draw(3, 4, 5), draw(3, 5, 2), draw(4, 2)
call("aclnnBatchMatMul", given(a), given(b), wanted(d(a) @ d(b), "f32"), I8(0))
call("aclnnBaddbmm", given(c), given(a), given(b), scalar(0.5), scalar(2.0), wanted(0.5 * d(c) + 2 * (d(a) @ d(b)), "f32"), I8(0))
a, b, c = draw(3, 4), draw(4, 2), draw(3, 2)
call("aclnnInplaceAddmm", updated(c, d(c) + 2 * (d(a) @ d(b))), given(a), given(b), scalar(1.0), scalar(2.0), I8(0))
c = draw(2)
call("aclnnAddmm", given(c), given(a), given(b), scalar(1.0), scalar(1.0), wanted(d(c) + d(a) @ d(b), "f32"), I8(0))

# One operand.
for t in ("f32", "bf16"):
    x, p = draw(3, 5, t=t), draw(3, 5, t=t, low=0.1, high=4.0)
    for op, f, v in [("Neg", torch.neg, x), ("Abs", torch.abs, x), ("Square", torch.square, x), ("Exp", torch.exp, x), ("Log", torch.log, p),
                     ("Sqrt", torch.sqrt, p), ("Rsqrt", torch.rsqrt, p), ("Reciprocal", torch.reciprocal, p), ("Sin", torch.sin, x),
                     ("Cos", torch.cos, x), ("Tanh", torch.tanh, x), ("Sigmoid", torch.sigmoid, x), ("Silu", F.silu, x)]:
        call("aclnn" + op, given(v), wanted(f(d(v)), t))
    g = draw(3, 5, t=t)
    y = d(x).requires_grad_()
    F.silu(y).backward(d(g))
    call("aclnnSiluBackward", given(g), given(x), wanted(y.grad, t))
    y = d(x).requires_grad_()
    s = torch.sigmoid(y)
    s.backward(d(g))
    if t == "f32":
        call("aclnnSigmoidBackward", given(g), given(s.detach().float()), wanted(y.grad, t))
x = torch.tensor([[1, -2], [3, 4]], dtype=torch.int32)
call("aclnnNeg", given(x), wanted(-x, "i32"))
call("aclnnSqrt", given(x.abs()), wanted(d(x.abs()).sqrt(), "f32"))
x = torch.tensor([1.0, math.inf, -math.inf, math.nan, -0.0])
call("aclnnIsFinite", given(x), wanted(torch.isfinite(x), "bool"))
call("aclnnLogicalNot", given(x), wanted(torch.logical_not(x), "bool"))

# Two operands.
for t in ("f32", "bf16"):
    a, b = draw(4, 6, t=t), draw(6, t=t, low=0.5, high=2.0)
    call("aclnnAdd", given(a), given(b), scalar(0.5), wanted(d(a) + 0.5 * d(b), t))
    call("aclnnSub", given(a), given(b), scalar(1.0), wanted(d(a) - d(b), t))
    call("aclnnMul", given(a), given(b), wanted(d(a) * d(b), t))
    call("aclnnDiv", given(a), given(b), wanted(d(a) / d(b), t))
    call("aclnnMaximum", given(a), given(b), wanted(torch.maximum(d(a), d(b)), t))
    call("aclnnMinimum", given(a), given(b), wanted(torch.minimum(d(a), d(b)), t))
    call("aclnnAdds", given(a), scalar(1.5), scalar(2.0), wanted(d(a) + 3.0, t))
    call("aclnnSubs", given(a), scalar(1.5), scalar(1.0), wanted(d(a) - 1.5, t))
    call("aclnnRsubs", given(a), scalar(1.5), scalar(2.0), wanted(1.5 - 2 * d(a), t))
    call("aclnnMuls", given(a), scalar(0.75), wanted(d(a) * 0.75, t))
    call("aclnnDivs", given(a), scalar(4.0), wanted(d(a) / 4, t))
    call("aclnnInplaceAdd", updated(a, d(a) + 2 * d(b)), given(b), scalar(2.0))
    call("aclnnInplaceMul", updated(a, d(a) * d(b)), given(b))
    call("aclnnInplaceMuls", updated(a, d(a) * 3), scalar(3.0))
a, b = draw(3, 4), draw(4, low=0.5, high=2.0)
call("aclnnClampMin", given(a), scalar(0.25), wanted(d(a).clamp(min=0.25), "f32"))
call("aclnnClampMax", given(a), scalar(0.25), wanted(d(a).clamp(max=0.25), "f32"))
call("aclnnInplaceAdds", updated(a, d(a) + 3), scalar(1.5), scalar(2.0))
call("aclnnInplaceSub", updated(a, d(a) - 2 * d(b)), given(b), scalar(2.0))
call("aclnnInplaceDiv", updated(a, d(a) / d(b)), given(b))
call("aclnnInplaceDivs", updated(a, d(a) / 4), scalar(4.0))
y, g = torch.tanh(a), draw(3, 4)
call("aclnnTanhBackward", given(g), given(y), wanted(d(g) * (1 - d(y) ** 2), "f32"))
a, b = draw(3, 4), draw(3, 4, t="bf16")
call("aclnnAdd", given(a), given(b), scalar(1.0), wanted(d(a) + d(b), "f32"))
call("aclnnMul", given(a.t()), given(b.t()), wanted((d(a) * d(b)).t(), "f32"))
x, y = torch.tensor([7, -3, 2], dtype=torch.int64), torch.tensor([2, 2, 2], dtype=torch.int64)
call("aclnnMul", given(x), given(y), wanted(x * y, "i64"))
call("aclnnAdd", given(x), given(y), scalar(3, "i64"), wanted(x + 3 * y, "i64"))
call("aclnnDiv", given(x), given(y), wanted(d(x) / d(y), "f32"))
p = draw(3, 4, low=0.1, high=3.0)
call("aclnnPowTensorScalar", given(p), scalar(1.5), wanted(d(p) ** 1.5, "f32"))
call("aclnnPowTensorScalar", given(a), scalar(2.0), wanted(d(a) ** 2, "f32"))
a, b = draw(3, 4).round(), draw(3, 4).round()
for op, f in [("Eq", torch.eq), ("Ne", torch.ne), ("Lt", torch.lt), ("Le", torch.le), ("Gt", torch.gt), ("Ge", torch.ge)]:
    call(f"aclnn{op}Tensor", given(a), given(b), wanted(f(a, b), "bool"))
    call(f"aclnn{op}Scalar", given(a), scalar(1.0), wanted(f(a, 1.0), "bool"))
call("aclnnLtTensor", given(a), given(b), wanted(torch.lt(a, b).double(), "f32"))
call("aclnnLogicalAnd", given(a), given(b), wanted(torch.logical_and(a, b), "bool"))
call("aclnnLogicalOr", given(a), given(b), wanted(torch.logical_or(a, b), "bool"))
n = torch.tensor([math.nan, 1.0, 2.0])
call("aclnnMaximum", given(n), given(torch.ones(3)), wanted(torch.maximum(n, torch.ones(3)), "f32"))

# Three operands.
a, b, c = draw(3, 4), draw(3, 4), draw(4, low=0.5, high=2.0)
call("aclnnClamp", given(a), scalar(-0.5), scalar(0.75), wanted(d(a).clamp(-0.5, 0.75), "f32"))
call("aclnnClamp", given(a), NULL, scalar(0.75), wanted(d(a).clamp(max=0.75), "f32"))
call("aclnnSWhere", given(a > 0), given(a), given(c), wanted(torch.where(a > 0, d(a), d(c)), "f32"))
call("aclnnAddcmul", given(a), given(b), given(c), scalar(0.5), wanted(torch.addcmul(d(a), d(b), d(c), value=0.5), "f32"))
call("aclnnAddcdiv", given(a), given(b), given(c), scalar(0.5), wanted(torch.addcdiv(d(a), d(b), d(c), value=0.5), "f32"))
call("aclnnLerp", given(a), given(b), given(c), wanted(torch.lerp(d(a), d(b), d(c)), "f32"))
call("aclnnLerps", given(a), given(b), scalar(0.25), wanted(torch.lerp(d(a), d(b), 0.25), "f32"))

# Copies.
call("aclnnCast", given(a), TYPE("bf16"), wanted(d(a), "bf16"))
call("aclnnCast", given(a), TYPE("i64"), wanted(a.long(), "i64"))
call("aclnnCast", given(b.bfloat16().t()), TYPE("f32"), wanted(d(b.bfloat16()).t(), "f32"))
call("aclnnInplaceCopy", updated(torch.zeros(3, 4), d(a[:, :1]).expand(3, 4)), given(a[:, :1]))
call("aclnnInplaceZero", updated(a, torch.zeros(3, 4)))
call("aclnnInplaceOne", updated(a, torch.ones(3, 4)))
call("aclnnInplaceFillScalar", updated(a.bfloat16(), torch.full((3, 4), 2.5)), scalar(2.5))

# Other places.
a = draw(2, 3, 4)
call("aclnnPermute", given(a), INTS([2, 0, 1]), wanted(d(a).permute(2, 0, 1), "f32"))
call("aclnnSlice", given(a), I64(2), I64(1), I64(4), I64(2), wanted(d(a)[:, :, 1:4:2], "f32"))
call("aclnnExpand", given(a[:, :1]), INTS([2, 3, -1]), wanted(d(a[:, :1]).expand(2, 3, 4), "f32"))
call("aclnnRepeat", given(a[0]), INTS([2, 1, 2]), wanted(d(a[0]).repeat(2, 1, 2), "f32"))
call("aclnnFlip", given(a), INTS([0, 2]), wanted(d(a).flip(0, 2), "f32"))
call("aclnnCat", listed(given(a), given(a[:, :2])), I64(1), wanted(torch.cat([d(a), d(a[:, :2])], 1), "f32"))
call("aclnnStack", listed(given(a), given(a * 2)), I64(-1), wanted(torch.stack([d(a), d(a * 2)], -1), "f32"))
call("aclnnSplitWithSize", given(a), INTS([1, 3]), I64(2), listed(*[wanted(p, "f32") for p in d(a).split([1, 3], 2)]))
call("aclnnSplitTensor", given(a), U64(2), I64(1), listed(*[wanted(p, "f32") for p in d(a).split(2, 1)]))
call("aclnnArange", scalar(1, "i64"), scalar(8, "i64"), scalar(3, "i64"), wanted(torch.arange(1, 8, 3), "i64"))
call("aclnnArange", scalar(0.0), scalar(1.0), scalar(0.25), wanted(torch.arange(0, 1, 0.25), "f32"))
ids = torch.tensor([2, 0, 1], dtype=torch.int32)
call("aclnnOneHot", given(ids), I32(4), given(torch.ones(1)), given(torch.zeros(1)), I64(-1), wanted(F.one_hot(ids.long(), 4).double(), "f32"))
m = draw(3, 5)
for diagonal in (-1, 0, 2):
    call("aclnnTril", given(m), I64(diagonal), wanted(d(m).tril(diagonal), "f32"))
    call("aclnnTriu", given(m), I64(diagonal), wanted(d(m).triu(diagonal), "f32"))

# Indices.
w = draw(6, 4, t="bf16")
ids = torch.tensor([[5, 0, 5], [2, 1, 0]])
call("aclnnEmbedding", given(w), given(ids.int()), wanted(d(w)[ids], "bf16"))
call("aclnnGatherV2", given(w), I64(1), given(torch.tensor([3, 1])), wanted(d(w)[:, [3, 1]], "bf16"))
call("aclnnIndexSelect", given(w), I64(0), given(torch.tensor([3, 1])), wanted(d(w)[[3, 1]], "bf16"))
pick = torch.tensor([[0, 3], [1, 1]])
call("aclnnGather", given(w), I64(1), given(pick), wanted(d(w).gather(1, pick), "bf16"))
s, src = draw(3, 4), draw(2, 4)
at = torch.tensor([[0, 1, 2, 0], [0, 1, 1, 2]])
call("aclnnScatterAdd", given(s), I64(0), given(at), given(src), wanted(d(s).scatter_add(0, at, d(src)), "f32"))
g = draw(2, 3, 4)
for padding, by_frequency in ((2**64 - 1, False), (5, False), (2**64 - 1, True)):
    z = torch.zeros(6, 4, dtype=torch.float64, requires_grad=True)
    F.embedding(ids, z, padding_idx=padding if padding < 6 else None, scale_grad_by_freq=by_frequency).backward(d(g))
    call("aclnnEmbeddingDenseBackward", given(g), given(ids), U64(6), U64(padding), BOOL(by_frequency), wanted(z.grad, "f32"))

# Reductions.
a = draw(3, 4, 5)
for dims, keep in (([1], False), ([0, 2], True), ([2], False), ([0], False)):
    call("aclnnReduceSum", given(a), INTS(dims), BOOL(keep), TYPE("f32"), wanted(d(a).sum(dims, keep), "f32"))
    call("aclnnMean", given(a), INTS(dims), BOOL(keep), TYPE("f32"), wanted(d(a).mean(dims, keep), "f32"))
    call("aclnnAmax", given(a), INTS(dims), BOOL(keep), wanted(d(a).amax(dims, keep), "f32"))
    call("aclnnLogSumExp", given(a), INTS(dims), BOOL(keep), wanted(d(a).logsumexp(dims, keep), "f32"))
    call("aclnnLinalgVectorNorm", given(a), scalar(2.0), INTS(dims), BOOL(keep), TYPE("f32"),
         wanted(torch.linalg.vector_norm(d(a), 2, dims, keep), "f32"))
call("aclnnReduceSum", given(a.bfloat16()), INTS([]), BOOL(False), TYPE("f32"), wanted(d(a.bfloat16()).sum(), "f32"))
call("aclnnReduceSum", given(a > 0), INTS([1]), BOOL(False), TYPE("i64"), wanted((a > 0).sum(1), "i64"))
call("aclnnAmin", given(a), INTS([1]), BOOL(False), wanted(d(a).amin(1), "f32"))
call("aclnnMax", given(a), wanted(d(a).max(), "f32"))
call("aclnnMin", given(a), wanted(d(a).min(), "f32"))
call("aclnnArgMax", given(a), I64(1), BOOL(True), wanted(d(a).argmax(1, True), "i64"))
call("aclnnAny", given(a > 1.5), INTS([1]), BOOL(False), wanted((a > 1.5).any(1), "bool"))
call("aclnnAll", given(a > -1.5), INTS([1]), BOOL(False), wanted((a > -1.5).all(1), "bool"))
b = draw(7)
call("aclnnForeachNorm", listed(given(a), given(b)), scalar(2.0), listed(wanted(d(a).norm(), "f32"), wanted(d(b).norm(), "f32")))

# Normalisation.
for t, gamma_t in (("f32", "f32"), ("bf16", "bf16"), ("bf16", "f32")):
    x, gamma, dy = draw(2, 3, 8, t=t), draw(8, t=gamma_t, low=0.5, high=1.5), draw(2, 3, 8, t=t)
    xr, gr = d(x).requires_grad_(), d(gamma).requires_grad_()
    rstd = (xr.square().mean(-1, True) + 1e-5).rsqrt()
    y = xr * rstd * gr
    y.backward(d(dy))
    call("aclnnRmsNorm", given(x), given(gamma), F64(1e-5), wanted(y, t), wanted(rstd, "f32"))
    call("aclnnRmsNormGrad", given(dy), given(x), given(rstd.detach().float()), given(gamma), wanted(xr.grad, t), wanted(gr.grad, "f32"))
x1, x2, gamma = draw(3, 8), draw(3, 8), draw(8)
total = d(x1) + d(x2)
rstd = (total.square().mean(-1, True) + 1e-5).rsqrt()
call("aclnnAddRmsNorm", given(x1), given(x2), given(gamma), F64(1e-5), wanted(total * rstd * d(gamma), "f32"), wanted(rstd, "f32"), wanted(total, "f32"))
call("aclnnInplaceAddRmsNorm", updated(x1, total * rstd * d(gamma)), updated(x2, total), given(gamma), F64(1e-5), wanted(rstd, "f32"))

# Rotary embedding; x is batch, tokens, heads, width.
def rotate(x, mode):
    if mode == 1:
        return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    if mode == 3:
        x = torch.cat((x[..., ::2], x[..., 1::2]), -1)
    if mode == 2:
        a, b, c, e = x.chunk(4, -1)
        return torch.cat((-b, a, -e, c), -1)
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def embed(x, cos, sin, mode):
    straight = torch.cat((x[..., ::2], x[..., 1::2]), -1) if mode == 3 else x
    return straight * cos + rotate(x, mode) * sin


for mode in range(4):
    x, dy, cos, sin = draw(2, 3, 2, 8), draw(2, 3, 2, 8), draw(1, 3, 1, 8), draw(1, 3, 1, 8)
    xr, cr, sr = [d(v).requires_grad_() for v in (x, cos, sin)]
    y = embed(xr, cr, sr, mode)
    y.backward(d(dy))
    call("aclnnRotaryPositionEmbedding", given(x), given(cos), given(sin), I64(mode), wanted(y, "f32"))
    call("aclnnRotaryPositionEmbeddingGrad", given(dy), given(cos), given(sin), given(x), I64(mode), wanted(xr.grad, "f32"),
         wanted(cr.grad, "f32"), wanted(sr.grad, "f32"))

# Activation with a gate.
x, dy = draw(3, 8), draw(3, 4)
xr = d(x).requires_grad_()
y = F.silu(xr[:, :4]) * xr[:, 4:]
y.backward(d(dy))
call("aclnnSwiGlu", given(x), I64(-1), wanted(y, "f32"))
call("aclnnSwiGluGrad", given(dy), given(x), I64(1), wanted(xr.grad, "f32"))

# Softmax.
x, dy = draw(3, 5), draw(3, 5)
for op, f in (("Softmax", torch.softmax), ("LogSoftmax", torch.log_softmax)):
    for dim in (0, 1):
        xr = d(x).requires_grad_()
        y = f(xr, dim)
        y.backward(d(dy))
        call("aclnn" + op, given(x), I64(dim), wanted(y, "f32"))
        call(f"aclnn{op}Backward", given(dy), given(y.detach().float()), I64(dim), wanted(xr.grad, "f32"))

# Cross entropy.
for reduction, smoothing, weighted in (("mean", 0.0, False), ("sum", 0.0, True), ("none", 0.1, False), ("mean", 0.1, True)):
    x, target, weight = draw(5, 7), torch.tensor([3, -100, 0, 6, 2]), draw(7, low=0.5, high=2.0) if weighted else None
    xr = d(x).requires_grad_()
    logp = torch.log_softmax(xr, 1)
    loss = F.cross_entropy(xr, target, d(weight) if weighted else None, reduction=reduction, label_smoothing=smoothing)
    grad = torch.ones_like(loss) * 1.5
    loss.backward(grad)
    w = given(weight) if weighted else NULL
    attributes = [TEXT(reduction), I64(-100), F64(smoothing), F64(0.0)]
    call("aclnnCrossEntropyLoss", given(x), given(target), w, *attributes, BOOL(False), wanted(loss, "f32"), wanted(logp, "f32"), NULL, NULL)
    call("aclnnCrossEntropyLossGrad", given(grad.float()), given(logp.detach().float()), given(target), w, NULL, NULL, *attributes, wanted(xr.grad, "f32"))

# Attention: two heads of width 8 over one of keys; once with 140 queries and keys, more than a block.
def attention_case(t, layout, sparse, version):
    b, n, kv, s, e = (1, 2, 1, 140, 8) if sparse == 2 and t == "f32" else (2, 2, 1, 9, 8)
    q, k, v, dy = draw(b, s, n, e, t=t), draw(b, s, kv, e, t=t), draw(b, s, kv, e, t=t), draw(b, s, n, e, t=t)
    qr, kr, vr = [d(x).requires_grad_() for x in (q, k, v)]
    keys, values = [x.repeat_interleave(n // kv, 2) for x in (kr, vr)]
    scores = torch.einsum("bsne,btne->bnst", qr, keys) * 0.25
    hidden = torch.ones(s, s, dtype=torch.bool).triu(1)
    if sparse is not None:
        scores = scores.masked_fill(hidden, -math.inf)
    top = scores.amax(-1, True)
    sums = (scores - top).exp().sum(-1, True)
    out = torch.einsum("bnst,btne->bsne", torch.softmax(scores, -1), values)
    out.backward(d(dy))
    mask = {None: NULL, 0: given(hidden), 1: given(hidden), 2: {"triangle": 2048}, 3: {"triangle": 2048}}[sparse]
    shape = {"BSND": lambda x: x, "BSH": lambda x: x.flatten(2), "BNSD": lambda x: x.transpose(1, 2).contiguous(),
             "SBH": lambda x: x.flatten(2).transpose(0, 1).contiguous()}[layout]
    tail = [NULL] + ([NULL, NULL] if version > 1 else []) + [F64(0.25), F64(1.0), I64(2147483647), I64(0 if sparse == 0 else 2147483647), I64(n), TEXT(layout), I64(0), I64(sparse or 0)] + ([I64(1)] if version > 1 else [])
    suffix = {1: "", 2: "V2", 3: "V3"}[version]
    sink = [NULL] if version == 3 else []
    top8, sums8 = top.expand(-1, -1, -1, 8), sums.expand(-1, -1, -1, 8)
    rough = 1e-2 if t == "bf16" else None
    call("aclnnFlashAttentionScore" + suffix, *[given(shape(x)) for x in (q, k, v)], NULL, NULL, NULL, mask, *sink, *tail,
         wanted(top8, "f32"), wanted(sums8, "f32", rough), empty(t), wanted(shape(out), t, rough))
    kept = [given(x.detach().float().contiguous()) for x in (top8, sums8)]
    call("aclnnFlashAttentionScoreGrad" + suffix, *[given(shape(x)) for x in (q, k, v, dy)], NULL, NULL, NULL, mask, *kept, NULL,
         given(rounded(shape(out.detach()), t)), *sink, *tail, *[wanted(shape(x.grad), t, rough) for x in (qr, kr, vr)], empty(t), *([NULL] if version == 3 else []))


attention_case("f32", "BSND", 2, 2)
attention_case("bf16", "BSND", 2, 2)
attention_case("f32", "BSH", 0, 1)
attention_case("f32", "BNSD", 1, 2)
attention_case("f32", "SBH", 3, 3)
attention_case("f32", "BSND", None, 2)

# The optimizer, third step.
for maximize in (False, True):
    for t in ("f32", "bf16"):
        var, m, v, g = draw(4, 3, t=t), draw(4, 3, t=t), draw(4, 3, t=t, low=0.0, high=1.0), draw(4, 3, t=t)
        hyper = [rounded(torch.tensor([x], dtype=torch.float64), t) for x in (0.81, 0.998001, 0.01, 0.1, 0.9, 0.999, 1e-8)]
        p1, p2, lr, wd, b1, b2, eps = [float(d(x)) for x in hyper]
        gr = -d(g) if maximize else d(g)
        m1, v1 = d(m) * b1 + (1 - b1) * gr, d(v) * b2 + (1 - b2) * gr * gr
        var1 = d(var) * (1 - lr * wd) - lr * (m1 / (1 - p1 * b1)) / ((v1 / (1 - p2 * b2)).sqrt() + eps)
        if t == "f32":
            call("aclnnApplyAdamW", updated(var, var1), updated(m, m1), updated(v, v1), *map(given, hyper), given(g), NULL, BOOL(False), BOOL(maximize))
        if not maximize:
            b1, b2 = 0.9, 0.999
            m1, v1 = d(m) * b1 + (1 - b1) * gr, d(v) * b2 + (1 - b2) * gr * gr
            var1 = d(var) * (1 - 0.01 * 0.1) - 0.01 * (m1 / (1 - b1**3)) / ((v1 / (1 - b2**3)).sqrt() + 1e-8)
            call("aclnnApplyAdamWV2", updated(var, var1), updated(m, m1), updated(v, v1), NULL, given(g), given(torch.tensor([3])),
                 F32(0.01), F32(0.9), F32(0.999), F32(0.1), F32(1e-8), BOOL(False), BOOL(False))

with open("operators.json", "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]\n")
print(len(cases), "cases")
