//! Operators that cannot be captured, or that freeze what should change.

use crate::check::device::{Findings, sites};
use titan_ir::ascend::{Arg, Call, Element, Program};

/// Why an operator is not for captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// The shape of its result depends on data: the host reads it back.
    DynamicShape,
    /// Phase one copies data from the host.
    HostCopy,
    /// Lengths are an array of the host's.
    HostArray,
    /// A number that changes from step to step is an argument of the host's.
    HostScalar,
}

/// An operator, or those whose names start so when it ends in `*`; why; what to use.
type Rule = (&'static str, Why, &'static str);

const RULES: &[Rule] = &[
    ("aclnnNonzero*", Why::DynamicShape, "a mask and aclnnSWhere"),
    ("aclnnUnique*", Why::DynamicShape, "aclnnSort and a mask"),
    ("aclnnMaskedSelect*", Why::DynamicShape, "aclnnSWhere"),
    ("aclnnBincount", Why::DynamicShape, "aclnnOneHot and aclnnReduceSum"),
    ("aclnnIndexFill*", Why::HostCopy, "aclnnInplaceMaskedFillScalar"),
    ("aclnnAvgPool2d*", Why::HostCopy, "a reduction"),
    ("aclnnRfft*", Why::HostCopy, "products with a table"),
    ("aclnnStft*", Why::HostCopy, "products with a table"),
    ("aclnnConvertWeightToINT4Pack*", Why::HostCopy, "conversion before training"),
    (
        "aclnnFlashAttentionVarLenScore*",
        Why::HostArray,
        "aclnnFlashAttentionScoreV2 with sequences of one length",
    ),
    ("aclnnFlashAttentionUnpaddingScoreGrad*", Why::HostArray, "aclnnFlashAttentionScoreGradV2"),
    ("aclnnFusedInferAttention*", Why::HostArray, "aclnnFlashAttentionScoreV2"),
    ("aclnnGroupedMatmul", Why::HostArray, "aclnnGroupedMatmulV5, whose group list is a tensor"),
    ("aclnnGroupedMatmulV2", Why::HostArray, "aclnnGroupedMatmulV5, whose group list is a tensor"),
    ("aclnnApplyAdamWV2", Why::HostScalar, "aclnnApplyAdamW, whose learning rate is a tensor"),
    ("aclnnInplaceNormal", Why::HostScalar, "aclnnInplaceNormalTensor, whose seed is a tensor"),
    ("aclnnInplaceUniform", Why::HostScalar, "aclnnInplaceUniformTensor, whose seed is a tensor"),
    ("aclnnInplaceRandom", Why::HostScalar, "aclnnInplaceRandomTensor, whose seed is a tensor"),
    ("aclnnDropoutGenMask", Why::HostScalar, "aclnnDropoutGenMaskV2Tensor"),
    ("aclnnDropoutGenMaskV2", Why::HostScalar, "aclnnDropoutGenMaskV2Tensor"),
    ("aclnnDropout", Why::HostScalar, "aclnnDropoutGenMaskV2Tensor and aclnnDropoutDoMask"),
    ("aclnnDropoutV3", Why::HostScalar, "aclnnDropoutGenMaskV2Tensor and aclnnDropoutDoMask"),
];

impl Why {
    fn finding(self) -> (&'static str, &'static str) {
        match self {
            Self::DynamicShape => {
                ("T0557", "the shape of its result depends on data, which the host would have to read back")
            }
            Self::HostCopy => ("T0557", "its first phase copies data from the host, which a capture refuses"),
            Self::HostArray => {
                ("T0557", "its lengths are an array of the host's, which a replay cannot change")
            }
            Self::HostScalar => (
                "T0559",
                "the host gives it a number that should change from step to step, and a replay repeats it",
            ),
        }
    }
}

/// Checks a part.
pub(super) fn check(program: &Program, segment: usize, part: usize, findings: &mut Findings<'_>) {
    for site in sites(program, segment, part) {
        let Call::Operator { name, args } = &site.submission.call else { continue };
        if let Some((_, why, instead)) = RULES.iter().find(|(rule, ..)| is_match(rule, name)) {
            let (code, message) = why.finding();
            findings.at(&site, code, message, &format!("use {instead}"));
        }
        if name == "aclnnIndex" && args.iter().any(has_mask) {
            let (code, message) = Why::DynamicShape.finding();
            findings.at(&site, code, message, "use integer indices, or a mask and aclnnSWhere");
        }
        if !name.starts_with("aclnn") {
            let message = "only operators of two phases can be captured: others compile on the host";
            findings.at(&site, "T0557", message, "use the aclnn operator");
        }
    }
}

fn is_match(rule: &str, name: &str) -> bool {
    match rule.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == rule,
    }
}

/// Whether an argument selects by a mask.
fn has_mask(arg: &Arg) -> bool {
    matches!(arg, Arg::Tensors(tensors) if tensors.iter().any(|t| t.element == Element::Bool))
}
