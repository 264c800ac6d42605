//! Levels of the x86-64 instruction set a kernel image is built for.

use std::fmt;

/// What the processor must have. Levels are ordered: a processor runs images of its level and of every lower one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CpuLevel {
    /// SSE4.2: any x86-64 processor since 2009.
    V2,
    /// AVX2 and FMA.
    V3,
    /// AVX-512 (F, BW, CD, DQ, VL).
    V4,
}

impl CpuLevel {
    /// Every level, lowest first.
    pub const ALL: [Self; 3] = [Self::V2, Self::V3, Self::V4];

    /// The name of the level in the x86-64 psABI; LLVM takes it as a processor name.
    ///
    /// Source: System V ABI, AMD64 supplement, section 3.1.1.
    pub fn name(self) -> &'static str {
        match self {
            Self::V2 => "x86-64-v2",
            Self::V3 => "x86-64-v3",
            Self::V4 => "x86-64-v4",
        }
    }

    /// The level of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }

    /// f32 lanes of a vector register.
    pub fn lanes(self) -> u32 {
        match self {
            Self::V2 => 4,
            Self::V3 => 8,
            Self::V4 => 16,
        }
    }

    /// Whether `a * b + c` with one rounding is an instruction.
    pub fn has_fma(self) -> bool {
        self >= Self::V3
    }

    /// The highest level this processor runs, if it runs any.
    pub fn host() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        {
            let v2 = is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("popcnt");
            let v3 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("f16c")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("movbe");
            let v4 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512cd")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            match (v2, v3, v4) {
                (true, true, true) => Some(Self::V4),
                (true, true, false) => Some(Self::V3),
                (true, false, _) => Some(Self::V2),
                (false, ..) => None,
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        None
    }
}

impl fmt::Display for CpuLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
