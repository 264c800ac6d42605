//! The learning-rate schedule of a configuration: how many steps warm up, stay and decay. What the rate then is, the schedule says itself.
//! Source: torchtitan v0.2.2 `lr_scheduler.py`; warm-up, stable, decay after Hu et al. 2024, arXiv:2404.06395.

use super::Config;
use super::choices::DecayType;
use super::values::Values;
use titan_ir::{Decay, LrSchedule};

impl Config {
    /// The learning-rate schedule.
    pub fn lr_schedule(&self) -> LrSchedule {
        lr_schedule(self.values())
    }
}

/// The schedule of resolved values.
pub(super) fn lr_schedule(values: &Values) -> LrSchedule {
    let total = total_steps(values);
    let warmup = values.read::<u64>("lr_scheduler.warmup_steps").min(total);
    // One stable step lies past the end of training, so that the last step learns.
    let decay = wanted_decay(values).map_or(total - warmup, |wanted| wanted.min(total - warmup));
    LrSchedule {
        lr: values.read("optimizer.lr"),
        warmup,
        stable: total + 1 - warmup - decay,
        decay,
        kind: match values.read("lr_scheduler.decay_type") {
            DecayType::Linear => Decay::Linear,
            DecayType::Sqrt => Decay::Sqrt,
            DecayType::Cosine => Decay::Cosine,
        },
        min_factor: values.read("lr_scheduler.min_lr_factor"),
    }
}

/// Steps of the whole schedule.
pub(super) fn total_steps(values: &Values) -> u64 {
    values.read::<Option<u64>>("lr_scheduler.total_steps").unwrap_or_else(|| values.read("training.steps"))
}

/// The steps of decay `lr_scheduler.decay_ratio` asks for, rounded half to even as Python does.
#[expect(clippy::cast_precision_loss, reason = "step numbers are far below 2^53")]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the ratio is from 0 to 1")]
pub(super) fn wanted_decay(values: &Values) -> Option<u64> {
    let ratio: Option<f64> = values.read("lr_scheduler.decay_ratio");
    ratio.map(|ratio| (total_steps(values) as f64 * ratio).round_ties_even() as u64)
}

#[cfg(test)]
mod tests {
    use crate::config::parse;

    /// All factors of the schedule in `text`.
    fn factors(text: &str) -> Vec<f64> {
        let (config, _) = parse("t.toml", text, &[]).unwrap();
        let schedule = config.lr_schedule();
        (0..config.training.steps).map(|k| schedule.factor(k)).collect()
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
        let rates: Vec<f64> = (0..10).map(|k| schedule.lr * schedule.factor(k)).collect();
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
