//! First values of parameters.

use super::cursor::Cursor;
use super::printer::real;
use crate::{Decay, DiagResult, Init, LrSchedule, RopeScaling};

const DECAYS: [(&str, Decay); 3] =
    [("linear", Decay::Linear), ("sqrt", Decay::Sqrt), ("cosine", Decay::Cosine)];

/// The text of a first value.
pub(super) fn print_init(init: &Init) -> String {
    match init {
        Init::Zeros => "zeros".to_owned(),
        Init::Ones => "ones".to_owned(),
        Init::Host => "host".to_owned(),
        Init::Normal { std } => format!("normal(std = {})", real(*std)),
        Init::TruncNormal { std, low, high } => {
            format!("trunc_normal(std = {}, low = {}, high = {})", real(*std), real(*low), real(*high))
        }
        Init::BiasCorrection { beta } => format!("bias_correction(beta = {})", real(*beta)),
        Init::Rope { theta, scaling, sin } => {
            let scaling = scaling.map_or(String::new(), |s| {
                let [factor, low, high, original] = [s.factor, s.low_freq, s.high_freq, s.original].map(real);
                format!(", factor = {factor}, low_freq = {low}, high_freq = {high}, original = {original}")
            });
            format!("rope(theta = {}, sin = {sin}{scaling})", real(*theta))
        }
        Init::LrSchedule(s) => {
            let kind = DECAYS.iter().find(|(_, kind)| *kind == s.kind).map_or("", |(word, _)| word);
            format!(
                "lr_schedule(lr = {}, warmup = {}, stable = {}, decay = {}, kind = {kind}, min_factor = {})",
                real(s.lr),
                s.warmup,
                s.stable,
                s.decay,
                real(s.min_factor)
            )
        }
    }
}

/// Reads a first value.
///
/// # Errors
/// T0001, T0002.
pub(super) fn parse_init(c: &mut Cursor<'_>) -> DiagResult<Init> {
    const KINDS: [&str; 8] =
        ["zeros", "ones", "host", "normal", "trunc_normal", "bias_correction", "rope", "lr_schedule"];
    let kind = c.choice("a first value", &KINDS.map(|kind| (kind, kind)))?;
    match kind {
        "zeros" => return Ok(Init::Zeros),
        "ones" => return Ok(Init::Ones),
        "host" => return Ok(Init::Host),
        _ => c.sign('(')?,
    }
    let mut first = true;
    let mut next = |c: &mut Cursor<'_>, name: &str| -> DiagResult<()> {
        if !std::mem::replace(&mut first, false) {
            c.sign(',')?;
        }
        c.field(name)
    };
    let mut number = |c: &mut Cursor<'_>, name: &str| next(c, name).and_then(|()| c.real());
    let init = match kind {
        "normal" => Init::Normal { std: number(c, "std")? },
        "trunc_normal" => {
            Init::TruncNormal { std: number(c, "std")?, low: number(c, "low")?, high: number(c, "high")? }
        }
        "bias_correction" => Init::BiasCorrection { beta: number(c, "beta")? },
        "rope" => {
            let theta = number(c, "theta")?;
            next(c, "sin")?;
            let sin = c.boolean()?;
            let scaling =
                if *c.peek() == super::lexer::Token::Sign(',') { Some(parse_scaling(c)?) } else { None };
            Init::Rope { theta, scaling, sin }
        }
        _ => {
            let lr = number(c, "lr")?;
            let mut count = |c: &mut Cursor<'_>, name: &str| next(c, name).and_then(|()| c.uint());
            let (warmup, stable, decay) = (count(c, "warmup")?, count(c, "stable")?, count(c, "decay")?);
            next(c, "kind")?;
            let kind = c.choice("a decay", &DECAYS)?;
            next(c, "min_factor")?;
            Init::LrSchedule(LrSchedule { lr, warmup, stable, decay, kind, min_factor: c.real()? })
        }
    };
    c.sign(')').map(|()| init)
}

/// Reads `, factor = .., low_freq = .., high_freq = .., original = ..`.
fn parse_scaling(c: &mut Cursor<'_>) -> DiagResult<RopeScaling> {
    let mut number = |name: &str| -> DiagResult<f64> {
        c.sign(',')?;
        c.field(name)?;
        c.real()
    };
    Ok(RopeScaling {
        factor: number("factor")?,
        low_freq: number("low_freq")?,
        high_freq: number("high_freq")?,
        original: number("original")?,
    })
}
