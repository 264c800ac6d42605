//! Which instructions the kernels use.

use std::sync::OnceLock;
use titan_ir::DType;

/// A level of instructions, in rising order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// Plain Rust.
    Portable,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, BW, VL, DQ.
    Avx512,
    /// The same with the bf16 dot product.
    Avx512Bf16,
}

impl Isa {
    /// Every level.
    pub const ALL: [Self; 4] = [Self::Portable, Self::Avx2, Self::Avx512, Self::Avx512Bf16];

    /// The best level of this machine, asked once.
    pub fn native() -> Self {
        static NATIVE: OnceLock<Isa> = OnceLock::new();
        let best = || Self::ALL.into_iter().rfind(|isa| isa.is_available()).unwrap_or(Self::Portable);
        *NATIVE.get_or_init(best)
    }

    /// Whether this machine has the level.
    pub fn is_available(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = || is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            let avx512 = || {
                avx2()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
            };
            match self {
                Self::Portable => true,
                Self::Avx2 => avx2(),
                Self::Avx512 => avx512(),
                Self::Avx512Bf16 => avx512() && is_x86_feature_detected!("avx512bf16"),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            self == Self::Portable
        }
    }

    /// The code that handles operands of `dtype`.
    pub(crate) fn engine(self, dtype: DType) -> Engine {
        match (self, dtype) {
            (Self::Portable, _) => Engine::Portable,
            (Self::Avx2, _) => Engine::Avx2,
            (Self::Avx512Bf16, DType::Bf16) => Engine::Avx512Pairs,
            (Self::Avx512 | Self::Avx512Bf16, _) => Engine::Avx512,
        }
    }
}

/// An implementation of [`Simd`](super::simd::Simd).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Portable,
    Avx2,
    Avx512,
    Avx512Pairs,
}

impl Engine {
    /// Elements of the contracted dimension in one 32-bit unit.
    pub(crate) fn elems_per_unit(self) -> usize {
        if self == Self::Avx512Pairs { 2 } else { 1 }
    }
}

/// Defines `unsafe fn name(engine, args)`: the generic `body::<S>` compiled once per engine, with that engine's instructions.
/// `body` and everything it calls must be `#[inline(always)]`.
macro_rules! per_engine {
    ($(#[$meta:meta])* $vis:vis unsafe fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:ident) => {
        $(#[$meta])*
        $vis unsafe fn $name(engine: $crate::kernels::isa::Engine, $($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
            unsafe fn avx512_pairs($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the caller's.
                unsafe { $body::<$crate::kernels::simd::Avx512<true>>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512dq")]
            unsafe fn avx512($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the caller's.
                unsafe { $body::<$crate::kernels::simd::Avx512<false>>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            unsafe fn avx2($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the caller's.
                unsafe { $body::<$crate::kernels::simd::Avx2>($($arg),*) }
            }
            // SAFETY: an engine other than the portable one is only made for an available level; the rest is the caller's.
            unsafe {
                match engine {
                    #[cfg(target_arch = "x86_64")]
                    $crate::kernels::isa::Engine::Avx512Pairs => avx512_pairs($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    $crate::kernels::isa::Engine::Avx512 => avx512($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    $crate::kernels::isa::Engine::Avx2 => avx2($($arg),*),
                    _ => $body::<$crate::kernels::simd::Portable>($($arg),*),
                }
            }
        }
    };
}
pub(crate) use per_engine;
