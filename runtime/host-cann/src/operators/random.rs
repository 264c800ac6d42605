//! Random numbers as a function of a seed and a place: Philox 4x32 with 10 rounds.
//!
//! **Source**: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. The streams of the vendor's
//! operators are not documented, so that numbers differ from a device's.

use super::args::Args;
use super::check::{ALL_FLOATS, ensure};
use super::compute::{DType, map_indexed};
use super::launch::Tensor;
use super::plan::Plan;
use super::{Operator, Table};
use crate::fault::Fault;
use std::f64::consts::TAU;

pub(super) const OPERATORS: Table = &[
    ("aclnnInplaceNormal", (|args| normal(args, false)) as Operator),
    ("aclnnInplaceNormalTensor", |args| normal(args, true)),
    ("aclnnInplaceUniform", |args| uniform(args, false)),
    ("aclnnInplaceUniformTensor", |args| uniform(args, true)),
];

/// Four random words for a seed and a counter.
fn philox(seed: u64, counter: u64) -> [u32; 4] {
    let (mut key, mut c) =
        ([seed as u32, (seed >> 32) as u32], [counter as u32, (counter >> 32) as u32, 0, 0]);
    for _ in 0..10 {
        let (a, b) = (u64::from(c[0]) * 0xD251_1F53, u64::from(c[2]) * 0xCD9E_8D57);
        c = [(b >> 32) as u32 ^ c[1] ^ key[0], b as u32, (a >> 32) as u32 ^ c[3] ^ key[1], a as u32];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    c
}

/// A number in [0, 1) of 53 bits.
fn unit(high: u32, low: u32) -> f64 {
    ((u64::from(high) << 21) ^ u64::from(low >> 11)) as f64 / (1u64 << 53) as f64
}

/// Where the seed comes from: the host, which freezes it, or device memory.
#[derive(Debug, Clone)]
struct Seed {
    host: [u64; 2],
    device: Option<[Tensor; 2]>,
}

impl Seed {
    fn take(args: &mut Args, in_tensors: bool, word: fn(&mut Args) -> u64) -> Result<Self, Fault> {
        if !in_tensors {
            return Ok(Self { host: [word(args), word(args)], device: None });
        }
        let device = [args.input("seedTensor")?, args.input("offsetTensor")?];
        for tensor in &device {
            tensor.is_of(&[DType::I64])?;
            ensure(tensor.view.num_elements() == 1, || format!("{} has more than one element", tensor.name))?;
        }
        Ok(Self { host: [0, word(args)], device: Some(device) })
    }

    /// Seed and offset at the launch.
    fn read(&self, launch: &super::launch::Launch<'_>) -> [u64; 2] {
        let word = |i: usize| {
            let device = self.device.as_ref().map_or(0, |tensors| launch[&tensors[i]].get::<i64>(0) as u64);
            self.host[i].wrapping_add(device)
        };
        [word(0), word(1)]
    }
}

fn normal(args: &mut Args, in_tensors: bool) -> Result<Plan, Fault> {
    let (out, mean, deviation) = (args.output("selfRef")?, f64::from(args.f32()), f64::from(args.f32()));
    let seed = Seed::take(args, in_tensors, |args| args.i64() as u64)?;
    out.is_of(ALL_FLOATS)?;
    ensure(deviation >= 0.0, || format!("std is {deviation}"))?;
    args.plan(0, move |launch| {
        let [seed, offset] = seed.read(launch);
        map_indexed::<f64>(&launch[&out], |i| {
            let [a, b, c, d] = philox(seed, offset.wrapping_add(i as u64));
            let radius = (-2.0 * (1.0 - unit(a, b)).ln()).sqrt();
            mean + deviation * radius * (TAU * unit(c, d)).cos()
        });
    })
}

fn uniform(args: &mut Args, in_tensors: bool) -> Result<Plan, Fault> {
    let (out, low, high) = (args.output("selfRef")?, args.f64(), args.f64());
    let seed = Seed::take(args, in_tensors, Args::u64)?;
    out.is_of(ALL_FLOATS)?;
    ensure(low <= high, || format!("from is {low} and to is {high}"))?;
    args.plan(0, move |launch| {
        let [seed, offset] = seed.read(launch);
        map_indexed::<f64>(&launch[&out], |i| {
            let [a, b, ..] = philox(seed, offset.wrapping_add(i as u64));
            low + (high - low) * unit(a, b)
        });
    })
}

#[cfg(test)]
mod tests {
    use super::philox;

    #[test]
    fn philox_gives_the_published_words() {
        // The known answer for key 0 and counter 0 of the authors' Random123 library.
        assert_eq!(philox(0, 0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    }
}
