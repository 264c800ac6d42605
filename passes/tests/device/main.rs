//! Checkers of device programs, on programs written by hand: a sound one passes, and every rule finds what breaks it.
#![expect(clippy::unwrap_used, reason = "tests")]

mod capture;
mod races;
mod sample;
