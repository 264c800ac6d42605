//! Computing first values.

use crate::init::{Init, LrSchedule, RopeScaling};
use crate::random::{Stream, normal_cdf, normal_quantile};

impl Init {
    /// Writes the elements from global row-major position `first` on. `name` is the tensor's, `dims` are its global dimensions.
    pub fn fill(&self, seed: u64, name: &str, dims: &[u64], first: u64, out: &mut [f32]) {
        match self {
            Self::Zeros | Self::Host => out.fill(0.0),
            Self::Ones => out.fill(1.0),
            Self::Normal { std } => fill_by_uniform(seed, name, first, out, |u| std * normal_quantile(u)),
            Self::TruncNormal { std, low, high } => {
                let (from, to) = (normal_cdf(low / std), normal_cdf(high / std));
                let draw = |u: f64| (std * normal_quantile(from + u * (to - from))).clamp(*low, *high);
                fill_by_uniform(seed, name, first, out, draw);
            }
            Self::Rope { theta, scaling, sin } => fill_rope(*theta, scaling.as_ref(), *sin, dims, first, out),
            Self::LrSchedule(schedule) => fill_with(first, out, |k| schedule_lr(schedule, k)),
            Self::BiasCorrection { beta } => fill_with(first, out, |k| 1.0 - beta.powf((k + 1) as f64)),
        }
    }
}

fn schedule_lr(schedule: &LrSchedule, k: u64) -> f64 {
    schedule.lr * schedule.factor(k)
}

fn fill_with(first: u64, out: &mut [f32], value: impl Fn(u64) -> f64) {
    for (i, out) in out.iter_mut().enumerate() {
        *out = value(first + i as u64) as f32;
    }
}

fn fill_by_uniform(seed: u64, name: &str, first: u64, out: &mut [f32], draw: impl Fn(f64) -> f64) {
    let stream = Stream::new(seed, name);
    let mut next = first;
    let end = first + out.len() as u64;
    while next < end {
        let pair = stream.uniform_pair(next / 2);
        while next < end {
            out[(next - first) as usize] = draw(pair[(next % 2) as usize]) as f32;
            next += 1;
            if next.is_multiple_of(2) {
                break;
            }
        }
    }
}

/// Frequencies in f32 as torchtitan computes them, one per pair of columns.
fn rope_frequencies(theta: f64, scaling: Option<&RopeScaling>, head_dim: u64) -> Vec<f32> {
    let frequency = |pair: u64| {
        let exponent = (2 * pair) as f32 / head_dim as f32;
        let f = 1.0 / theta.powf(f64::from(exponent)) as f32;
        scaling.map_or(f, |s| rescale(f, s))
    };
    (0..head_dim / 2).map(frequency).collect()
}

/// Source: Llama 3.1 reference code: long wavelengths are divided, short ones stay, those between are interpolated.
fn rescale(f: f32, scaling: &RopeScaling) -> f32 {
    let wavelength = std::f32::consts::TAU / f;
    let (low, high, factor) = (scaling.low_freq as f32, scaling.high_freq as f32, scaling.factor as f32);
    let original = scaling.original as f32;
    if wavelength > original / low {
        f / factor
    } else if wavelength < original / high {
        f
    } else {
        let smooth = (original / wavelength - low) / (high - low);
        (1.0 - smooth) * f / factor + smooth * f
    }
}

fn fill_rope(
    theta: f64,
    scaling: Option<&RopeScaling>,
    sin: bool,
    dims: &[u64],
    first: u64,
    out: &mut [f32],
) {
    let head_dim = dims.last().copied().unwrap_or(1);
    let frequencies = rope_frequencies(theta, scaling, head_dim);
    fill_with(first, out, |i| {
        let (token, column) = (i / head_dim, i % head_dim);
        let angle = f64::from(token as f32 * frequencies[(column / 2) as usize]);
        match (sin, column.is_multiple_of(2)) {
            (false, _) => angle.cos(),
            (true, true) => -angle.sin(),
            (true, false) => angle.sin(),
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Decay;

    #[test]
    fn a_part_of_a_tensor_is_that_part_of_the_whole() {
        let init = Init::TruncNormal { std: 0.02, low: -2.0, high: 2.0 };
        let mut whole = vec![0.0; 1001];
        init.fill(7, "w", &[1001], 0, &mut whole);
        for (first, len) in [(0, 1), (1, 3), (500, 501), (333, 334)] {
            let mut part = vec![0.0; len];
            init.fill(7, "w", &[1001], first as u64, &mut part);
            assert_eq!(part, whole[first..first + len]);
        }
        let mut other = vec![0.0; 1001];
        init.fill(8, "w", &[1001], 0, &mut other);
        assert_ne!(other, whole);
    }

    #[test]
    fn draws_have_the_moments_of_their_distribution() {
        let mut x = vec![0.0; 200_000];
        let moments = |x: &[f32]| {
            let mean = x.iter().map(|&v| f64::from(v)).sum::<f64>() / x.len() as f64;
            let var = x.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / x.len() as f64;
            (mean, var.sqrt())
        };
        Init::Normal { std: 1.0 }.fill(1, "a", &[200_000], 0, &mut x);
        let (mean, std) = moments(&x);
        assert!(mean.abs() < 0.01 && (std - 1.0).abs() < 0.01, "{mean} {std}");
        Init::TruncNormal { std: 0.5, low: -0.5, high: 0.5 }.fill(1, "a", &[200_000], 0, &mut x);
        let (mean, std) = moments(&x);
        // The standard deviation of a normal cut at one sigma is 0.5396 sigma.
        assert!(mean.abs() < 0.005 && (std - 0.5 * 0.5396).abs() < 0.002, "{mean} {std}");
        assert!(x.iter().all(|v| v.abs() <= 0.5));
    }

    #[test]
    fn the_schedule_is_torchtitans() {
        let schedule =
            LrSchedule { lr: 8e-4, warmup: 2, stable: 1, decay: 8, kind: Decay::Linear, min_factor: 0.0 };
        let mut lr = vec![0.0; 10];
        Init::LrSchedule(schedule).fill(0, "lr", &[10], 0, &mut lr);
        let expected = [4e-4, 8e-4, 8e-4, 7e-4, 6e-4, 5e-4, 4e-4, 3e-4, 2e-4, 1e-4];
        assert!(
            lr.iter().zip(expected).all(|(a, b): (&f32, f64)| (f64::from(*a) - b).abs() < 1e-10),
            "{lr:?}"
        );
    }

    #[test]
    fn wavelengths_of_the_debug_model_are_the_known_ones() {
        let scaling = RopeScaling { factor: 8.0, low_freq: 1.0, high_freq: 4.0, original: 8192.0 };
        let plain = rope_frequencies(5e5, None, 16);
        let wavelengths: Vec<f32> = plain.iter().map(|f| std::f32::consts::TAU / f).collect();
        assert!(
            (wavelengths[1] - 32.4).abs() < 0.1 && (wavelengths[2] - 167.1).abs() < 0.1,
            "{wavelengths:?}"
        );
        let scaled = rope_frequencies(5e5, Some(&scaling), 16);
        assert_eq!(scaled[..4], plain[..4]);
        assert!(scaled[4] < plain[4] && scaled[4] > plain[4] / 8.0);
        assert!((5..8).all(|i| scaled[i] == plain[i] / 8.0));
    }

    #[test]
    fn rope_tables_rotate_interleaved_pairs() {
        let fill = |sin, first, len| {
            let mut table = vec![0.0; len];
            Init::Rope { theta: 5e5, scaling: None, sin }.fill(0, "rope", &[40, 16], first, &mut table);
            table
        };
        let (cos, sin) = (fill(false, 0, 640), fill(true, 0, 640));
        for (at, (cos, sin)) in cos.iter().zip(&sin).enumerate() {
            let (token, column) = (at / 16, at % 16);
            let angle = token as f64 * 5e5_f64.powf(-((column / 2 * 2) as f64) / 16.0);
            let sign = if column % 2 == 0 { -1.0 } else { 1.0 };
            // The angle is a product of f32 values: off by two roundings.
            let tolerance = 1e-7 * (1.0 + 2.0 * angle);
            assert!((f64::from(*cos) - angle.cos()).abs() < tolerance, "{at}");
            assert!((f64::from(*sin) - sign * angle.sin()).abs() < tolerance, "{at}");
        }
        assert_eq!(fill(true, 37, 100), sin[37..137]);
    }

    #[test]
    fn bias_corrections_are_of_the_step_counted_from_one() {
        let mut table = [0.0; 3];
        Init::BiasCorrection { beta: 0.95 }.fill(0, "bc2", &[3], 0, &mut table);
        assert_eq!(table, [0.05, 0.0975, 0.142_625]);
    }
}
