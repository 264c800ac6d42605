//! Keys that take one of a few words, as enums.

use super::value::{KeyType, Kind, Value};
use titan_ir::DType;

/// Defines an enum whose variants are words of the configuration.
macro_rules! choice {
    ($(#[$meta:meta])* $Enum:ident { $($(#[$vmeta:meta])* $Variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $Enum { $($(#[$vmeta])* $Variant,)* }

        impl $Enum {
            /// The word of the configuration file.
            pub fn word(self) -> &'static str {
                match self { $(Self::$Variant => $word,)* }
            }
        }

        impl KeyType for $Enum {
            const KIND: Kind = Kind::Choice(&[$($word),*]);
            fn read(value: &Value) -> Option<Self> {
                match value {
                    $(Value::Str(word) if word == $word => Some(Self::$Variant),)*
                    _ => None,
                }
            }
        }
    };
}

choice! {
    /// `optimizer.name`.
    OptimizerName {
        /// Weight decay is added to the gradient (L2).
        Adam = "Adam",
        /// Weight decay is decoupled from the gradient.
        AdamW = "AdamW",
    }
}

choice! {
    /// `lr_scheduler.decay_type`: the curve from 1 to 0 over the decay.
    DecayType {
        /// `1 - p`.
        Linear = "linear",
        /// `1 - sqrt(p)`.
        Sqrt = "sqrt",
        /// `(1 + cos(pi p)) / 2`.
        Cosine = "cosine",
    }
}

choice! {
    /// A floating-point precision.
    Precision {
        /// 16 bits, 8 of them mantissa.
        BFloat16 = "bfloat16",
        /// 32 bits.
        Float32 = "float32",
    }
}

impl Precision {
    /// The element type.
    pub fn dtype(self) -> DType {
        match self {
            Self::BFloat16 => DType::Bf16,
            Self::Float32 => DType::F32,
        }
    }
}

choice! {
    /// `training.mixed_precision_reduce`.
    ReducePrecision {
        /// 32 bits, the only choice.
        Float32 = "float32",
    }
}

choice! {
    /// `parallelism.fsdp_reshard_after_forward`: whether gathered parameters are dropped after the forward pass and gathered
    /// again for the backward pass.
    ReshardPolicy {
        /// As `Always` without pipeline parallelism, as `Never` with it. The root unit (norm and output) stays gathered.
        Default = "default",
        /// Every unit is gathered twice.
        Always = "always",
        /// Every unit is gathered once.
        Never = "never",
    }
}

choice! {
    /// `titan.ascend_kernels`.
    AscendKernels {
        /// Operators of the vendor's library, one op at a time.
        Aclnn = "aclnn",
        /// Generated kernels for what fuses, operators for the rest.
        Fused = "fused",
    }
}

choice! {
    /// `activation_checkpoint.mode`.
    AcMode {
        /// Nothing is recomputed.
        None = "none",
        /// Every transformer block is recomputed from its input.
        Full = "full",
        /// As `activation_checkpoint.selective_ac_option` says.
        Selective = "selective",
        /// What fits a share of the memory of running without recomputation is kept.
        MemoryBudget = "memory_budget",
    }
}

/// `activation_checkpoint.selective_ac_option`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectiveAc {
    /// Recompute inside every block, by a policy per operator.
    Op,
    /// Recompute every n-th block: those whose 1-based number is a multiple of n. Zero means every block.
    EveryNth(u64),
}

impl SelectiveAc {
    /// Whether the block with this 0-based index is recomputed as a whole.
    pub fn recomputes_block(self, index: u64) -> bool {
        match self {
            Self::Op => false,
            Self::EveryNth(0) => true,
            Self::EveryNth(n) => (index + 1).is_multiple_of(n),
        }
    }

    /// The option `text` names.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "op" => Some(Self::Op),
            digits if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse().ok().map(Self::EveryNth),
            _ => None,
        }
    }
}

impl KeyType for SelectiveAc {
    const KIND: Kind = Kind::Str;
    fn read(value: &Value) -> Option<Self> {
        if let Value::Str(text) = value { Self::parse(text) } else { None }
    }
}
