//! Element types and reductions.

use super::fault;
use crate::fault::Fault;
use crate::operators::compute::DType;
use ascend_rs_sys::types::{HcclDataType, HcclReduceOp, HcclResult};
use serde::{Deserialize, Serialize};

/// Type of HCCL, its bytes, the type that is computed with if it can be reduced.
const TYPES: [(HcclDataType, usize, Option<DType>); 15] = [
    (HcclDataType::HCCL_DATA_TYPE_INT8, 1, Some(DType::I8)),
    (HcclDataType::HCCL_DATA_TYPE_INT16, 2, Some(DType::I16)),
    (HcclDataType::HCCL_DATA_TYPE_INT32, 4, Some(DType::I32)),
    (HcclDataType::HCCL_DATA_TYPE_FP16, 2, Some(DType::F16)),
    (HcclDataType::HCCL_DATA_TYPE_FP32, 4, Some(DType::F32)),
    (HcclDataType::HCCL_DATA_TYPE_INT64, 8, Some(DType::I64)),
    (HcclDataType::HCCL_DATA_TYPE_UINT64, 8, None),
    (HcclDataType::HCCL_DATA_TYPE_UINT8, 1, None),
    (HcclDataType::HCCL_DATA_TYPE_UINT16, 2, None),
    (HcclDataType::HCCL_DATA_TYPE_UINT32, 4, None),
    (HcclDataType::HCCL_DATA_TYPE_FP64, 8, None),
    (HcclDataType::HCCL_DATA_TYPE_BFP16, 2, Some(DType::Bf16)),
    (HcclDataType::HCCL_DATA_TYPE_INT128, 16, None),
    (HcclDataType::HCCL_DATA_TYPE_HIF8, 1, None),
    (HcclDataType::HCCL_DATA_TYPE_FP8E8M0, 1, None),
];

/// How contributions of ranks are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reduce {
    Sum,
    Prod,
    Max,
    Min,
}

impl Reduce {
    /// Checks that elements of `dtype` can be reduced so.
    pub(super) fn of(op: HcclReduceOp, dtype: HcclDataType) -> Result<Self, Fault> {
        let reduce = match op {
            HcclReduceOp::HCCL_REDUCE_SUM => Self::Sum,
            HcclReduceOp::HCCL_REDUCE_PROD => Self::Prod,
            HcclReduceOp::HCCL_REDUCE_MAX => Self::Max,
            HcclReduceOp::HCCL_REDUCE_MIN => Self::Min,
            other => return Err(fault(HcclResult::HCCL_E_PARA, format!("op is {}, no reduction", other.0))),
        };
        let refused =
            |what: &str| fault(HcclResult::HCCL_E_NOT_SUPPORT, format!("{what} of {}", name(dtype)));
        let computed = computed(dtype.0).ok_or_else(|| refused("a reduction"))?;
        if reduce == Self::Prod && matches!(computed, DType::I16 | DType::Bf16) {
            return Err(refused("a product"));
        }
        Ok(reduce)
    }
}

/// Bytes of an element.
///
/// # Errors
/// There is no such type.
pub(super) fn size_bytes(dtype: HcclDataType) -> Result<usize, Fault> {
    let row = TYPES.iter().find(|row| row.0 == dtype);
    row.map(|row| row.1).ok_or_else(|| fault(HcclResult::HCCL_E_PARA, format!("no data type {}", dtype.0)))
}

/// The type that reductions of this type compute with.
pub(super) fn computed(dtype: i32) -> Option<DType> {
    TYPES.iter().find(|row| row.0.0 == dtype).and_then(|row| row.2)
}

/// What messages call a type.
pub(super) fn name(dtype: HcclDataType) -> String {
    let name = dtype.name().unwrap_or("an unknown type");
    name.trim_start_matches("HCCL_DATA_TYPE_").to_owned()
}
