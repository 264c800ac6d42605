//! Mutated files and arguments never panic, and every finding points into its text.

use super::presets;
use crate::config::{KEYS, parse};

/// xorshift64*: small, seeded, the same on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n
    }

    fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.below(items.len())]
    }
}

const FRAGMENTS: &[&str] = &[
    "=",
    "[",
    "]",
    "\"",
    "'''",
    "\n",
    ".",
    ",",
    "{",
    "}",
    "#",
    "true",
    "-1",
    "1e999",
    "nan",
    "0x_f",
    "é",
    "\t",
    "\r\n",
    "99999999999999999999",
    "1979-05-27",
    "[[training]]",
    "training",
    "seq_len = ",
    "a.b.c = 1",
    "\\u0000",
    "_",
    "[]",
];

/// A character boundary of `text`.
fn boundary(text: &str, random: &mut Random) -> usize {
    let mut at = random.below(text.len() + 1);
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn mutate(text: &mut String, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let (a, b) = (boundary(text, random), boundary(text, random));
        let (from, to) = (a.min(b), a.max(b).min(a.min(b) + 40));
        match random.below(4) {
            0 => text.insert_str(a, random.pick(FRAGMENTS)),
            1 if text.is_char_boundary(to) => text.replace_range(from..to, ""),
            2 if text.is_char_boundary(to) => text.replace_range(from..to, random.pick(FRAGMENTS)),
            _ => {
                let key = &KEYS[random.below(KEYS.len())];
                let value = random.pick(FRAGMENTS);
                text.push_str(&format!("\n{} = {value}\n", key.path));
            }
        }
    }
}

/// Replaces one digit, which often leaves the file acceptable.
fn change_digit(text: &mut String, random: &mut Random) {
    let places: Vec<usize> = text.match_indices(|c: char| c.is_ascii_digit()).map(|(at, _)| at).collect();
    let at = places[random.below(places.len())];
    text.replace_range(at..=at, &random.below(10).to_string());
}

#[test]
fn mutated_files_never_panic() {
    let mut random = Random(0x7174_616e);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..4000 {
        let mut text = random.pick(presets::ALL).to_string();
        match random.below(2) {
            0 => mutate(&mut text, &mut random),
            _ => change_digit(&mut text, &mut random),
        }
        let diags = match parse("fuzz.toml", &text, &[]) {
            Ok((config, warnings)) => {
                accepted += 1;
                let _ = config.planned_dims();
                let schedule = config.lr_schedule();
                assert!(
                    (0.0..=1.0)
                        .contains(&schedule.factor(schedule.warmup + schedule.stable + schedule.decay - 1))
                );
                warnings
            }
            Err(diags) => {
                refused += 1;
                diags
            }
        };
        for diag in &diags.0 {
            let span = diag.span.as_ref().unwrap_or_else(|| panic!("no place: {diag}\n{text}"));
            assert!((span.line as usize) <= text.split('\n').count(), "{diag}\n{text}");
        }
        assert!(!diags.to_string().contains("internal error"));
    }
    assert!(
        accepted > 100 && refused > 100,
        "{accepted} accepted, {refused} refused: the mutations test nothing"
    );
}

#[test]
fn mutated_overrides_never_panic() {
    let mut random = Random(0x6172_6773);
    for _ in 0..4000 {
        let args: Vec<String> = (0..random.below(6))
            .map(|_| {
                let key = KEYS[random.below(KEYS.len())].path;
                let value = random.pick(FRAGMENTS);
                match random.below(5) {
                    0 => format!("--{key}"),
                    1 => format!("--{key}={value}"),
                    2 => value.to_string(),
                    3 => format!("--{}", key.replace('_', value)),
                    _ => format!("--{}no_{key}", random.pick(FRAGMENTS)),
                }
            })
            .collect();
        let _ = parse("none", "", &args);
    }
}
