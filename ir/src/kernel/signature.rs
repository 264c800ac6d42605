//! What a kernel takes and gives: element types and numbers of elements, for checks and for buffers.

use super::{Access, Attention, Cols, Contract, KernelSpec, Native, RowKernel, Store};
use crate::DType;

/// Element type and number of elements.
pub type Buffer = (DType, u64);

/// The buffers of a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Operands.
    pub ins: Vec<Buffer>,
    /// Results.
    pub outs: Vec<Buffer>,
}

impl KernelSpec {
    /// The buffers of a launch over `rows` rows, or over `len` elements of a flat kernel. Native kernels know their sizes.
    pub fn signature(&self, rows: u64, len: Option<u64>) -> Signature {
        match self {
            Self::Row(kernel) => kernel.signature(rows, len),
            Self::Native(Native::Contract(spec)) => contract(spec),
            Self::Native(Native::Attention(spec)) => {
                let [q, k, lse] = attention(spec);
                Signature { ins: vec![q, k, k], outs: vec![q, lse] }
            }
            Self::Native(Native::AttentionGrad(spec)) => {
                let [q, k, lse] = attention(spec);
                Signature { ins: vec![q, k, k, q, lse, q], outs: vec![q, k, k] }
            }
            Self::Native(Native::ScatterAdd(spec)) => Signature {
                ins: vec![(DType::I32, spec.tokens), (spec.dtype, spec.tokens * spec.cols)],
                outs: vec![(spec.out, spec.num * spec.cols)],
            },
        }
    }
}

impl RowKernel {
    /// See [`KernelSpec::signature`].
    pub fn signature(&self, rows: u64, len: Option<u64>) -> Signature {
        let (rows, cols, all) = match self.cols {
            Cols::Static(cols) => (rows, cols, rows * cols),
            Cols::Flat { chunk } => {
                let len = len.unwrap_or(0);
                (len.div_ceil(chunk.max(1)), len, len)
            }
        };
        let input = |access: Access| match access {
            Access::Full | Access::Tile => all,
            Access::Row => rows,
            Access::Col => cols,
            Access::Scalar => 1,
            Access::Table { row_mod, width, .. } => row_mod * width,
            Access::Gather { num, .. } => num * cols,
        };
        let output = |store: Store| match store {
            Store::Full => all,
            Store::Row => rows,
            Store::ColSum { block_rows } => rows.div_ceil(block_rows.max(1)) * cols,
        };
        Signature {
            ins: self.inputs.iter().map(|i| (i.dtype, input(i.access))).collect(),
            outs: self.outputs.iter().map(|o| (o.dtype, output(o.store))).collect(),
        }
    }
}

fn contract(spec: &Contract) -> Signature {
    let mut ins = vec![(spec.dtype, spec.m * spec.k), (spec.dtype, spec.k * spec.n)];
    let Some(epilogue) = &spec.epilogue else {
        return Signature { ins, outs: vec![(spec.out, spec.m * spec.n)] };
    };
    let epilogue = epilogue.signature(spec.m, None);
    ins.extend(epilogue.ins.into_iter().skip(1));
    Signature { ins, outs: epilogue.outs }
}

/// q, k and lse.
fn attention(spec: &Attention) -> [Buffer; 3] {
    let queries = spec.batch * spec.q_tokens * spec.heads;
    let keys = spec.batch * spec.kv_tokens * spec.kv_heads;
    [(spec.dtype, queries * spec.head_dim), (spec.dtype, keys * spec.head_dim), (DType::F32, queries)]
}
