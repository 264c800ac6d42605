//! The learning-rate schedule: linear warm-up, a stable phase, then a decay.
//! Source: torchtitan v0.2.2 `lr_scheduler.py`; warm-up, stable, decay after Hu et al. 2024, arXiv:2404.06395.

use super::Config;
use super::choices::DecayType;
use super::values::Values;

/// The schedule. Units: steps, except the factors and the rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LrSchedule {
    /// Steps of warm-up: step k has the factor (k + 1) / warmup.
    pub warmup: u64,
    /// Steps at factor 1 after warm-up. One of them lies past the end of training, so that the last step learns.
    pub stable: u64,
    /// Steps of decay.
    pub decay: u64,
    /// The curve of the decay.
    pub decay_type: DecayType,
    /// The factor at the end of the decay.
    pub min_lr_factor: f64,
    /// The rate at factor 1.
    pub base_lr: f64,
    /// Steps of the whole schedule.
    pub total: u64,
}

impl Config {
    /// The learning-rate schedule.
    pub fn lr_schedule(&self) -> LrSchedule {
        LrSchedule::of_values(self.values())
    }
}

impl LrSchedule {
    /// The factor of the 0-based step `k`: the step printed as `k + 1`. Past the end it stays at `min_lr_factor`.
    #[expect(clippy::cast_precision_loss, reason = "step numbers are far below 2^53")]
    pub fn factor(&self, k: u64) -> f64 {
        if k < self.warmup {
            return (k + 1) as f64 / self.warmup as f64;
        }
        if k < self.warmup + self.stable {
            return 1.0;
        }
        let past_stable = k + 1 - self.warmup - self.stable;
        let progress = if past_stable < self.decay { past_stable as f64 / self.decay as f64 } else { 1.0 };
        let curve = match self.decay_type {
            DecayType::Linear => 1.0 - progress,
            DecayType::Sqrt => 1.0 - progress.sqrt(),
            DecayType::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * progress).cos()),
        };
        self.min_lr_factor + (1.0 - self.min_lr_factor) * curve
    }

    /// The learning rate of the 0-based step `k`.
    pub fn lr(&self, k: u64) -> f64 {
        self.base_lr * self.factor(k)
    }

    pub(super) fn of_values(values: &Values) -> Self {
        let steps: u64 = values.read("training.steps");
        let total = values.read::<Option<u64>>("lr_scheduler.total_steps").unwrap_or(steps);
        let warmup = values.read::<u64>("lr_scheduler.warmup_steps").min(total);
        let mut schedule = Self {
            warmup,
            stable: 1,
            decay: total - warmup,
            decay_type: values.read("lr_scheduler.decay_type"),
            min_lr_factor: values.read("lr_scheduler.min_lr_factor"),
            base_lr: values.read("optimizer.lr"),
            total,
        };
        if let Some(wanted) = schedule.wanted_decay(values) {
            schedule.decay = schedule.decay.min(wanted);
            schedule.stable = total + 1 - warmup - schedule.decay;
        }
        schedule
    }

    /// The steps of decay `lr_scheduler.decay_ratio` asks for, rounded half to even as Python does.
    #[expect(clippy::cast_precision_loss, reason = "step numbers are far below 2^53")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the ratio is from 0 to 1")]
    pub(super) fn wanted_decay(&self, values: &Values) -> Option<u64> {
        let ratio: Option<f64> = values.read("lr_scheduler.decay_ratio");
        ratio.map(|ratio| (self.total as f64 * ratio).round_ties_even() as u64)
    }
}

#[cfg(test)]
mod tests {
    use crate::config::parse;

    /// All factors of the schedule in `text`.
    fn factors(text: &str) -> Vec<f64> {
        let (config, _) = parse("t.toml", text, &[]).unwrap();
        let schedule = config.lr_schedule();
        (0..schedule.total).map(|k| schedule.factor(k)).collect()
    }

    fn assert_close(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (k, (f, e)) in found.iter().zip(expected).enumerate() {
            assert!((f - e).abs() <= 1e-15, "step {k}: {f} instead of {e}");
        }
    }

    const DEBUG: &str = "training.steps = 10\nlr_scheduler.warmup_steps = 2\n";

    #[test]
    fn debug_model_rates_are_those_measured_in_torchtitan() {
        let (config, _) = parse("t.toml", &format!("{DEBUG}lr_scheduler.decay_ratio = 0.8"), &[]).unwrap();
        let schedule = config.lr_schedule();
        assert_eq!((schedule.warmup, schedule.stable, schedule.decay), (2, 1, 8));
        let rates: Vec<f64> = (0..10).map(|k| schedule.lr(k)).collect();
        assert_close(&rates, &[4e-4, 8e-4, 8e-4, 7e-4, 6e-4, 5e-4, 4e-4, 3e-4, 2e-4, 1e-4]);
    }

    #[test]
    fn without_a_ratio_decay_follows_warm_up() {
        let e = |n: f64| n / 8.0;
        assert_close(&factors(DEBUG), &[0.5, 1., 1., e(7.), e(6.), e(5.), e(4.), e(3.), e(2.), e(1.)]);
    }

    #[test]
    fn decay_rounds_half_to_even() {
        let decay = |ratio: f64| {
            let text = format!("{DEBUG}lr_scheduler.decay_ratio = {ratio}");
            parse("t.toml", &text, &[]).unwrap().0.lr_schedule().decay
        };
        assert_eq!((decay(0.25), decay(0.35), decay(0.45), decay(0.0)), (2, 4, 4, 0));
    }

    #[test]
    fn curves_end_at_the_floor() {
        let at = |kind: &str| {
            let text = format!(
                "training.steps = 4\n[lr_scheduler]\nwarmup_steps = 0\ndecay_type = '{kind}'\nmin_lr_factor = 0.1"
            );
            let (config, _) = parse("t.toml", &text, &[]).unwrap();
            let schedule = config.lr_schedule();
            (0..6).map(|k| schedule.factor(k)).collect::<Vec<_>>()
        };
        assert_close(&at("linear"), &[1.0, 0.775, 0.55, 0.325, 0.1, 0.1]);
        assert_close(&at("sqrt")[..3], &[1.0, 0.55, 0.1 + 0.9 * (1.0 - 0.5_f64.sqrt())]);
        assert_close(&at("cosine")[2..], &[0.55, 0.1 + 0.45 * (1.0 - 0.5_f64.sqrt()), 0.1, 0.1]);
    }

    #[test]
    fn total_steps_replaces_the_number_of_steps() {
        let text = format!("{DEBUG}lr_scheduler.total_steps = 18");
        let (config, warnings) = parse("t.toml", &text, &[]).unwrap();
        assert!(warnings.0.is_empty());
        assert_eq!(config.lr_schedule().decay, 16);
    }
}
