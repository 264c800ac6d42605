//! What a run says: torchtitan's lines on the console, and every step's numbers in a file.

use serde::Serialize;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Prints an information line as torchtitan's logger does.
pub fn info(message: &str) {
    log("INFO", message);
}

/// Prints a warning line.
pub fn warning(message: &str) {
    log("WARNING", message);
}

fn log(level: &str, message: &str) {
    let mut out = io::stdout().lock();
    // A closed pipe ends the reader's interest, not the training.
    let _ = writeln!(out, "[titan] {} - root - {level} - {message}", utc());
    let _ = out.flush();
}

/// The time as log lines have it, in UTC.
pub(crate) fn utc() -> String {
    timestamp(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// `YYYY-MM-DD HH:MM:SS,mmm` in UTC. Source of the date: Howard Hinnant, "chrono-compatible low-level date algorithms".
fn timestamp(since_epoch: Duration) -> String {
    let seconds = since_epoch.as_secs();
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02},{:03}",
        seconds / 3600 % 24,
        seconds / 60 % 60,
        seconds % 60,
        since_epoch.subsec_millis()
    )
}

/// The numbers of one step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StepMetrics {
    /// Step, from 1.
    pub step: u64,
    /// Mean loss over the tokens of the step.
    pub loss: f32,
    /// Norm of all gradients before clipping.
    pub grad_norm: f32,
    /// Learning rate.
    pub lr: f32,
    /// Tokens per second of one rank since the last line.
    pub tps: f64,
    /// Model TFLOP/s of one rank since the last line.
    pub tflops: f64,
    /// Share of a rank's peak, in percent.
    pub mfu_percent: f64,
    /// Bytes a rank maps for tensors.
    pub memory_bytes: u64,
}

/// What turns steps into lines.
#[derive(Debug)]
pub struct Reporter {
    /// Print the first step and every multiple of this.
    pub log_freq: u64,
    /// Colours.
    pub color: bool,
    /// Tokens of one rank and step.
    pub tokens_per_step: u64,
    /// Model operations per token.
    pub flops_per_token: u64,
    /// Operations per second one rank can do.
    pub peak_flops: f64,
    /// Bytes a rank maps.
    pub memory_bytes: u64,
    /// Bytes a rank can have.
    pub capacity_bytes: u64,
    /// Per-step values go to this file, which appears with the first of them.
    pub json_path: Option<PathBuf>,
    json: Option<BufWriter<File>>,
    last: Instant,
    steps_since: u64,
    json_last: Instant,
}

impl Reporter {
    /// A reporter; times count from now.
    pub fn new(log_freq: u64, color: bool) -> Self {
        let now = Instant::now();
        Self {
            log_freq: log_freq.max(1),
            color,
            tokens_per_step: 0,
            flops_per_token: 0,
            peak_flops: 1.0,
            memory_bytes: 0,
            capacity_bytes: 1,
            json_path: None,
            json: None,
            last: now,
            steps_since: 0,
            json_last: now,
        }
    }

    /// Counts time from now.
    pub fn start(&mut self) {
        self.last = Instant::now();
        self.json_last = self.last;
    }

    /// Reports a finished step.
    ///
    /// # Errors
    /// When the file of per-step values cannot be written.
    pub fn step(&mut self, step: u64, loss: f32, grad_norm: f32, lr: f32) -> io::Result<()> {
        self.steps_since += 1;
        let now = Instant::now();
        if let Some(path) = &self.json_path {
            let metrics = self.metrics(step, [loss, grad_norm, lr], 1, now - self.json_last);
            self.json_last = now;
            let json = match &mut self.json {
                Some(json) => json,
                none => none.insert(BufWriter::new(File::create(path)?)),
            };
            // One write per line: a run that is killed leaves whole lines.
            serde_json::to_writer(&mut *json, &metrics)?;
            json.write_all(b"\n")?;
            json.flush()?;
        }
        if step == 1 || step.is_multiple_of(self.log_freq) {
            let metrics = self.metrics(step, [loss, grad_norm, lr], self.steps_since, now - self.last);
            info(&self.line(&metrics));
            self.last = now;
            self.steps_since = 0;
        }
        Ok(())
    }

    fn metrics(&self, step: u64, [loss, grad_norm, lr]: [f32; 3], steps: u64, time: Duration) -> StepMetrics {
        let tps = (self.tokens_per_step * steps) as f64 / time.as_secs_f64().max(1e-9);
        let flops = self.flops_per_token as f64 * tps;
        StepMetrics {
            step,
            loss,
            grad_norm,
            lr,
            tps,
            tflops: flops / 1e12,
            mfu_percent: 100.0 * flops / self.peak_flops,
            memory_bytes: self.memory_bytes,
        }
    }

    fn line(&self, m: &StepMetrics) -> String {
        let gib = m.memory_bytes as f64 / f64::from(1 << 30);
        let percent = 100.0 * m.memory_bytes as f64 / self.capacity_bytes as f64;
        let fields = [
            ("31", format!("step: {:2}", m.step)),
            ("32", format!("loss: {:8.5}", m.loss)),
            ("38;2;180;60;0", format!("grad_norm: {:7.4}", m.grad_norm)),
            ("38;2;54;234;195", format!("memory: {gib:5.2}GiB({percent:.2}%)")),
            ("34", format!("tps: {}", with_commas(m.tps.round() as u64))),
            ("36", format!("tflops: {:.2}", m.tflops)),
            ("35", format!("mfu: {:.2}%", m.mfu_percent)),
        ];
        let paint = |(color, text): &(&str, String)| {
            if self.color { format!("\x1b[{color}m{text}") } else { text.clone() }
        };
        let line = fields.iter().map(paint).collect::<Vec<_>>().join("  ");
        if self.color { line + "\x1b[39m" } else { line }
    }
}

/// Whether the reader of standard output sees colours: a terminal does, unless `NO_COLOR` is set.
pub fn wants_color() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// `1234567` as `1,234,567`.
pub fn with_commas(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds| timestamp(Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01 00:00:00,000");
        assert_eq!(at(951_782_400), "2000-02-29 00:00:00,000");
        assert_eq!(timestamp(Duration::from_millis(1_766_743_200_123)), "2025-12-26 10:00:00,123");
    }

    #[test]
    fn the_step_line_is_torchtitans() {
        let mut reporter = Reporter::new(1, false);
        reporter.capacity_bytes = 4 << 30;
        let metrics = StepMetrics {
            step: 1,
            loss: 8.137_56,
            grad_norm: 1.5,
            lr: 4e-4,
            tps: 12_345.6,
            tflops: 0.5,
            mfu_percent: 12.345,
            memory_bytes: 1 << 30,
        };
        let expected = "step:  1  loss:  8.13756  grad_norm:  1.5000  memory:  1.00GiB(25.00%)  \
                        tps: 12,346  tflops: 0.50  mfu: 12.35%";
        assert_eq!(reporter.line(&metrics), expected);
        reporter.color = true;
        assert!(reporter.line(&metrics).starts_with("\x1b[31mstep:  1  \x1b[32mloss:  8.13756"));
    }
}
