//! The vendor's operators that programs call: one entry each.
//!
//! An entry states the parameters of phase one, without the last two, and a bound of the workspace phase two may ask for. The vendor documents no
//! formulas; the bounds are what an operator is known to keep beside its operands. The runtime compares them with what phase one asks for, and
//! `titan.ascend_workspace_mib` overrides them.
//!
//! | demand | bound, above 16 MiB every operator may ask for, and copies of operands that are not contiguous |
//! |---|---|
//! | pointwise | nothing |
//! | reduction | an input that is not f32, in f32 |
//! | product | operands whose rows are no multiple of 512 bytes or longer than 65535 elements, in the layout of the cube; a tile of 256 x 256 sums per cube core |
//! | rows | four f32 rows per vector core |
//! | scatter | the rows once more, and per id 64 bytes for sorting |
//! | attention | per cube core two blocks of 128 queries and at most 1024 keys, scores and probabilities in f32, and accumulators |
//! | attention gradient | twice that, and twice dq, dk, dv in f32 |

use titan_ir::ascend::{Access, Arg, Call, Element, Soc, TensorArg, contiguous_strides};
use titan_ir::ice;
use titan_ir::kernel::BinaryFn;

/// What every operator may ask for: room of the system's own kernels.
const SYSTEM_BYTES: u64 = 16 << 20;

/// A parameter of phase one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `const aclTensor*`.
    In,
    /// `const aclTensor*` that may be null.
    OptIn,
    /// `aclTensor*`, written.
    Out,
    /// `aclTensor*`, read and written.
    Update,
    /// `const aclScalar*`.
    Scalar,
    /// `const aclIntArray*`.
    Ints,
    /// `const aclIntArray*` that may be null.
    OptInts,
    /// `char*`.
    Text,
    /// `double`.
    F64,
    /// `int64_t`.
    I64,
    /// `uint64_t`.
    U64,
    /// `int8_t`.
    I8,
    /// `bool`.
    Bool,
    /// `aclDataType`.
    Type,
}

impl Kind {
    fn takes(self, arg: &Arg) -> bool {
        match arg {
            Arg::Tensor(_) => matches!(self, Self::In | Self::OptIn | Self::Out | Self::Update),
            Arg::Null => matches!(self, Self::OptIn | Self::OptInts),
            Arg::Scalar(..) => self == Self::Scalar,
            Arg::Ints(_) => matches!(self, Self::Ints | Self::OptInts),
            Arg::Text(_) => self == Self::Text,
            Arg::F64(_) => self == Self::F64,
            Arg::I64(_) => self == Self::I64,
            Arg::U64(_) => self == Self::U64,
            Arg::I8(_) => self == Self::I8,
            Arg::Bool(_) => self == Self::Bool,
            Arg::Type(_) => self == Self::Type,
            Arg::Tensors(_) | Arg::F32(_) => false,
        }
    }
}

/// What an operator keeps beside its operands: see the table above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Demand {
    Pointwise,
    Reduction,
    Product,
    Rows,
    Scatter,
    Attention,
    AttentionGrad,
}

/// An operator.
#[derive(Debug, Clone, Copy)]
pub struct Operator {
    /// Phase two's name.
    pub name: &'static str,
    /// Parameters of phase one, without the last two.
    pub kinds: &'static [Kind],
    demand: Demand,
}

const fn op(name: &'static str, kinds: &'static [Kind], demand: Demand) -> Operator {
    Operator { name, kinds, demand }
}

use Kind::{Bool, F64, I8, I64, In, Ints, OptIn, OptInts, Out, Scalar, Text, Type, U64, Update};

/// All operators that programs call.
pub const OPERATORS: &[Operator] = &[
    // Elementwise; operands broadcast.
    op("aclnnAdd", &[In, In, Scalar, Out], Demand::Pointwise),
    op("aclnnAdds", &[In, Scalar, Scalar, Out], Demand::Pointwise),
    op("aclnnSub", &[In, In, Scalar, Out], Demand::Pointwise),
    op("aclnnMul", &[In, In, Out], Demand::Pointwise),
    op("aclnnMuls", &[In, Scalar, Out], Demand::Pointwise),
    op("aclnnDiv", &[In, In, Out], Demand::Pointwise),
    op("aclnnDivs", &[In, Scalar, Out], Demand::Pointwise),
    op("aclnnMaximum", &[In, In, Out], Demand::Pointwise),
    op("aclnnMinimum", &[In, In, Out], Demand::Pointwise),
    op("aclnnNeg", &[In, Out], Demand::Pointwise),
    op("aclnnExp", &[In, Out], Demand::Pointwise),
    op("aclnnLog", &[In, Out], Demand::Pointwise),
    op("aclnnSqrt", &[In, Out], Demand::Pointwise),
    op("aclnnRsqrt", &[In, Out], Demand::Pointwise),
    op("aclnnSigmoid", &[In, Out], Demand::Pointwise),
    op("aclnnSilu", &[In, Out], Demand::Pointwise),
    op("aclnnSiluBackward", &[In, In, Out], Demand::Pointwise),
    op("aclnnCast", &[In, Type, Out], Demand::Pointwise),
    op("aclnnEqTensor", &[In, In, Out], Demand::Pointwise),
    op("aclnnLtTensor", &[In, In, Out], Demand::Pointwise),
    op("aclnnSWhere", &[In, In, In, Out], Demand::Pointwise),
    // Moving.
    op("aclnnInplaceCopy", &[Update, In], Demand::Pointwise),
    op("aclnnInplaceFillScalar", &[Update, Scalar], Demand::Pointwise),
    // Reductions.
    op("aclnnReduceSum", &[In, Ints, Bool, Type, Out], Demand::Reduction),
    op("aclnnAmax", &[In, Ints, Bool, Out], Demand::Reduction),
    // Model.
    op("aclnnMm", &[In, In, Out, I8], Demand::Product),
    op("aclnnEmbedding", &[In, In, Out], Demand::Pointwise),
    op("aclnnEmbeddingDenseBackward", &[In, In, U64, U64, Bool, Out], Demand::Scatter),
    op("aclnnRmsNorm", &[In, In, F64, Out, Out], Demand::Rows),
    op("aclnnRmsNormGrad", &[In, In, In, In, Out, Out], Demand::Rows),
    op("aclnnRotaryPositionEmbedding", &[In, In, In, I64, Out], Demand::Rows),
    op(
        "aclnnFlashAttentionScoreV2",
        &[
            In, In, In, OptIn, OptIn, OptIn, OptIn, OptInts, OptInts, OptInts, F64, F64, I64, I64, I64, Text,
            I64, I64, I64, Out, Out, Out, Out,
        ],
        Demand::Attention,
    ),
    op(
        "aclnnFlashAttentionScoreGradV2",
        &[
            In, In, In, In, OptIn, OptIn, OptIn, OptIn, OptIn, OptIn, OptIn, OptIn, OptInts, OptInts,
            OptInts, F64, F64, I64, I64, I64, Text, I64, I64, I64, Out, Out, Out, Out,
        ],
        Demand::AttentionGrad,
    ),
    op(
        "aclnnCrossEntropyLoss",
        &[In, In, OptIn, Text, I64, F64, F64, Bool, Out, Out, Out, Out],
        Demand::Rows,
    ),
    op(
        "aclnnCrossEntropyLossGrad",
        &[In, In, In, OptIn, OptIn, OptIn, Text, I64, F64, F64, Out],
        Demand::Rows,
    ),
    // Training.
    op(
        "aclnnApplyAdamW",
        &[Update, Update, Update, In, In, In, In, In, In, In, In, OptIn, Bool, Bool],
        Demand::Pointwise,
    ),
];

/// A call of an operator; says of every tensor what the operator does with it.
pub(super) fn call(name: &str, mut args: Vec<Arg>) -> Call {
    let operator = find(name);
    let fits = args.len() == operator.kinds.len()
        && operator.kinds.iter().zip(&args).all(|(kind, arg)| kind.takes(arg));
    if !fits {
        ice!("{name} takes {:?}, not {args:?}", operator.kinds);
    }
    for (kind, arg) in operator.kinds.iter().zip(&mut args) {
        if let Arg::Tensor(tensor) = arg {
            tensor.access = match kind {
                Kind::Out => Access::Write,
                Kind::Update => Access::Update,
                _ => Access::Read,
            };
        }
    }
    // What a copy or a fill updates it does not read.
    if matches!(name, "aclnnInplaceCopy" | "aclnnInplaceFillScalar")
        && let Arg::Tensor(tensor) = &mut args[0]
    {
        tensor.access = Access::Write;
    }
    Call::Operator { name: operator.name.to_owned(), args }
}

/// The operator of a function of two values.
pub(super) fn binary(f: BinaryFn) -> &'static str {
    match f {
        BinaryFn::Add => "aclnnAdd",
        BinaryFn::Sub => "aclnnSub",
        BinaryFn::Mul => "aclnnMul",
        BinaryFn::Div => "aclnnDiv",
        BinaryFn::Max => "aclnnMaximum",
        BinaryFn::Min => "aclnnMinimum",
    }
}

fn find(name: &str) -> &'static Operator {
    OPERATORS.iter().find(|o| o.name == name).unwrap_or_else(|| ice!("no operator {name}"))
}

/// The bound of the workspace of a call.
pub(super) fn workspace_bytes(name: &str, args: &[Arg], soc: &Soc) -> u64 {
    let tensors: Vec<&TensorArg> = args
        .iter()
        .filter_map(|arg| match arg {
            Arg::Tensor(tensor) => Some(tensor),
            _ => None,
        })
        .collect();
    let copies: u64 = tensors.iter().filter(|t| !is_contiguous(t)).map(|t| dense_bytes(t)).sum();
    let cores = |count: u32| u64::from(count);
    let in_f32 = |t: &TensorArg| t.num_elements() * 4;
    let own = match find(name).demand {
        Demand::Pointwise => 0,
        Demand::Reduction if tensors[0].element == Element::F32 => 0,
        Demand::Reduction => in_f32(tensors[0]),
        Demand::Product => {
            let laid_out: u64 = tensors[..2].iter().filter(|t| needs_layout(t)).map(|t| dense_bytes(t)).sum();
            // Transposed operands are views the operator reads as they are.
            return SYSTEM_BYTES + laid_out + cores(soc.cube_cores) * 256 * 256 * 4;
        }
        Demand::Rows => cores(soc.vector_cores) * tensors[0].dims.last().unwrap_or(&1) * 4 * 4,
        Demand::Scatter => in_f32(tensors[0]) + tensors[1].num_elements() * 64,
        Demand::Attention => attention_bytes(&tensors[0].dims, soc),
        Demand::AttentionGrad => {
            let gradients: u64 = tensors.iter().rev().skip(1).take(3).map(|t| in_f32(t)).sum();
            2 * attention_bytes(&tensors[0].dims, soc) + 2 * gradients
        }
    };
    SYSTEM_BYTES + own + copies
}

/// Whether a matrix is brought into the layout of the cube before the product.
fn needs_layout(matrix: &TensorArg) -> bool {
    let row = if matrix.strides[1] == 1 { matrix.dims[1] } else { matrix.dims[0] };
    row > 65535 || !(row * matrix.element.size_bytes()).is_multiple_of(512)
}

fn attention_bytes(q_bshe: &[u64], soc: &Soc) -> u64 {
    let (tokens, head_dim) = (q_bshe.get(1).copied().unwrap_or(1), q_bshe.get(3).copied().unwrap_or(1));
    let keys = tokens.next_multiple_of(128).min(1024);
    let head_dim = head_dim.next_multiple_of(16);
    u64::from(soc.cube_cores) * 128 * (keys + head_dim) * 4 * 4
}

fn dense_bytes(tensor: &TensorArg) -> u64 {
    tensor.num_elements() * tensor.element.size_bytes()
}

fn is_contiguous(tensor: &TensorArg) -> bool {
    let strides = contiguous_strides(&tensor.dims);
    tensor.dims.iter().zip(&tensor.strides).zip(strides).all(|((&dim, &have), want)| dim == 1 || have == want)
}
