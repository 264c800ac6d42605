//! Random kernels: the same bits as their meaning, at every level, however the work is split.

use super::generate::generate;
use super::image::{Mapped, Split};
use titan_ir::DType;
use titan_ir::kernel::RowKernel;
use titanc::codegen::cpu::{CpuLevel, compile, mlir_text};

/// Distance in representable numbers of the type; infinite if one is not a number.
fn ulps(dtype: DType, a: f64, b: f64) -> f64 {
    if a == b || (a.is_nan() && b.is_nan()) {
        return 0.0;
    }
    if !(a - b).is_finite() {
        return f64::INFINITY;
    }
    let digits = if dtype == DType::Bf16 { 8 } else { 24 };
    let exponent = a.abs().max(b.abs()).max(f64::from(f32::MIN_POSITIVE)).log2().floor() as i32;
    (a - b).abs() / 2.0_f64.powi(exponent - digits + 1)
}

fn check(level: CpuLevel, seeds: std::ops::Range<u64>) {
    let generated: Vec<_> = seeds.clone().map(generate).collect();
    let kernels: Vec<RowKernel> = generated.iter().map(|g| g.case.kernel.clone()).collect();
    let mapped = Mapped::new(compile(&kernels, level));
    let splits = [Split::NONE, Split { rows: 1, cols: 16 }, Split { rows: 3, cols: 48 }];
    for (k, (generated, seed)) in generated.iter().zip(seeds).enumerate() {
        let case = &generated.case;
        let expected = case.expected();
        for split in splits {
            let actual = case.run(&mapped, k, split);
            for (o, (expected, actual)) in expected.iter().zip(&actual).enumerate() {
                // Two ulp of the polynomial; an f32 that close may round to the next bf16.
                let allowed = if generated.is_loose[o] { 3.0 } else { 0.0 };
                let dtype = case.kernel.outputs[o].dtype;
                let wrong = (0..expected.len()).find(|&e| ulps(dtype, expected[e], actual[e]) > allowed);
                assert_eq!(expected.len(), actual.len());
                if let Some(e) = wrong {
                    panic!(
                        "seed {seed} {level} {split:?}: output {o} element {e} is {} not {}\n{:?}\n{}",
                        actual[e],
                        expected[e],
                        case.kernel,
                        mlir_text(&case.kernel, level),
                    );
                }
            }
        }
    }
}

/// Each level that this processor has.
#[test]
fn random_kernels_compute_what_they_mean() {
    let host = CpuLevel::host().unwrap();
    for level in CpuLevel::ALL.into_iter().filter(|&level| level <= host) {
        check(level, 0..60);
    }
}
