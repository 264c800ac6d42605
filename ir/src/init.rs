//! How a state tensor gets its first value, computed at load from the seed and the element's global position.

use serde::{Deserialize, Serialize};

/// A first value. Positions are global, so every mesh draws the same numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Init {
    /// All zero.
    Zeros,
    /// All one.
    Ones,
    /// Normal with mean 0.
    Normal {
        /// Standard deviation.
        std: f64,
    },
    /// Normal with mean 0, cut at absolute bounds (torch's `trunc_normal_`: inverse error function of a uniform draw, clamped).
    TruncNormal {
        /// Standard deviation.
        std: f64,
        /// Lower bound.
        low: f64,
        /// Upper bound.
        high: f64,
    },
    /// Rotary table `[tokens, head_dim]`, interleaved pairs: cosines, each twice (`sin == false`), or sines, negated at even
    /// columns (`sin == true`), so that `rope(x) = x * cos + swap_pairs(x) * sin`. Angles are products of f32 values.
    Rope {
        /// Base of the frequencies.
        theta: f64,
        /// Llama 3.1 frequency rescale.
        scaling: Option<RopeScaling>,
        /// Sine table.
        sin: bool,
    },
    /// Learning rate of step `i + 1` at element `i`.
    LrSchedule(LrSchedule),
    /// `1 - beta^(i + 1)` at element `i`.
    BiasCorrection {
        /// Decay of a moment.
        beta: f64,
    },
    /// Supplied by the host before every step.
    Host,
}

/// Llama 3.1 rescale of low rotary frequencies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RopeScaling {
    /// Divisor of the lowest frequencies.
    pub factor: f64,
    /// Wavelengths above `original / low_freq` are divided.
    pub low_freq: f64,
    /// Wavelengths below `original / high_freq` stay.
    pub high_freq: f64,
    /// Context length of pre-training.
    pub original: f64,
}

/// Shape of the decay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decay {
    /// `1 - p`.
    Linear,
    /// `1 - sqrt(p)`.
    Sqrt,
    /// `(1 + cos(pi p)) / 2`.
    Cosine,
}

/// Warm-up, stable, decay.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LrSchedule {
    /// Peak learning rate.
    pub lr: f64,
    /// Steps of linear warm-up.
    pub warmup: u64,
    /// Steps at the peak.
    pub stable: u64,
    /// Steps of decay.
    pub decay: u64,
    /// Shape of the decay.
    pub kind: Decay,
    /// Lowest factor.
    pub min_factor: f64,
}

impl LrSchedule {
    /// The factor at 0-based step `k`. Source: torchtitan's warm-up-stable-decay schedule.
    pub fn factor(&self, k: u64) -> f64 {
        if k < self.warmup {
            return (k + 1) as f64 / self.warmup as f64;
        }
        if k < self.warmup + self.stable || self.decay == 0 {
            return 1.0;
        }
        let p = ((k + 1 - self.warmup - self.stable) as f64 / self.decay as f64).min(1.0);
        let f = match self.kind {
            Decay::Linear => 1.0 - p,
            Decay::Sqrt => 1.0 - p.sqrt(),
            Decay::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * p).cos()),
        };
        self.min_factor + (1.0 - self.min_factor) * f
    }
}
