//! Values for the parameters of a function.

use crate::run::State;
use titan_ir::eval::Tensor;
use titan_ir::{Func, Init, LrSchedule, Role};

/// A small generator, so that tests draw the same numbers everywhere.
#[derive(Debug)]
pub struct Draw(u64);

impl Draw {
    /// Numbers that depend on `name` only.
    pub fn new(name: &str) -> Self {
        Self(
            name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)),
        )
    }

    /// Uniform in `[-1, 1)`.
    pub fn number(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    /// Uniform in `0..n`.
    pub fn index(&mut self, n: u64) -> u64 {
        ((self.number() + 1.0) / 2.0 * n as f64) as u64
    }
}

/// A value for every parameter: weights of order one half, gains near one, ids below `vocab`, a label that does not count, tables by
/// their definition, zero for everything else. Values are rounded to the parameter's type.
pub fn sample_state(func: &Func, vocab: u64) -> State {
    let mut state = State::new();
    for param in &func.params {
        let ty = func.ty(param.value);
        let mut draw = Draw::new(&param.name);
        let is_gain = ty.rank() == 1;
        let mut element = |i: u64| match (&param.role, &param.init) {
            (Role::Param, _) if is_gain => 1.0 + draw.number() / 4.0,
            (Role::Param, _) => draw.number() / 2.0,
            (Role::Input, _) if param.name == "labels" && i == 1 => -100.0,
            (Role::Input, _) if ty.rank() > 0 => draw.index(vocab) as f64,
            (_, Init::Rope { theta, sin, .. }) => rope(*theta, *sin, i, ty.cols()),
            (_, Init::LrSchedule(schedule)) => schedule.lr * LrSchedule::factor(schedule, i),
            (_, Init::BiasCorrection { beta }) => 1.0 - beta.powf(i as f64 + 1.0),
            _ => 0.0,
        };
        let data = (0..ty.num_elements()).map(|i| ty.dtype.round(element(i))).collect();
        state.insert(param.name.clone(), Tensor { dims: ty.dims.clone(), data });
    }
    state
}

/// Element `i` of a rotary table, unscaled.
fn rope(theta: f64, sin: bool, i: u64, cols: u64) -> f64 {
    let (token, col) = (i / cols, i % cols);
    let angle = token as f64 * theta.powf(-((col / 2 * 2) as f64) / cols as f64);
    match (sin, col % 2) {
        (false, _) => angle.cos(),
        (true, 0) => -angle.sin(),
        (true, _) => angle.sin(),
    }
}
