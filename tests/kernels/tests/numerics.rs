//! Generated kernels, compiled for the host, compute what they mean.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use titan_ir::ascend::Soc;
use titan_ir::kernel::{KernelSpec, RowKernel, text};
use titan_kernel_tests::{plans, random, run};
use titanc::codegen::ascend::kernel::{emit, split};

fn soc() -> &'static Soc {
    Soc::of_name("Ascend910B3").unwrap()
}

fn debug_model() -> Vec<(RowKernel, u64)> {
    let toml = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/llama3_debug.toml");
    plans::small(&plans::kernels(&toml, soc(), &[2]).unwrap().kernels.kernels)
}

#[test]
fn kernels_of_the_debug_model_compute_what_they_mean() {
    let mut num_fit = 0;
    for (kernel, rows) in debug_model() {
        let Ok(device) = emit(&kernel, rows, soc()) else { continue };
        num_fit += 1;
        if let Err(error) = run::on_host(&device, soc(), rows) {
            panic!("{error}\n{rows} rows of {}\n{}", text::print(&KernelSpec::Row(kernel)), device.mlir);
        }
    }
    assert!(num_fit >= 20, "only {num_fit} kernels were generated");
}

#[test]
fn random_kernels_compute_what_they_mean() {
    let mut num_fit = 0;
    for seed in 0..100 {
        let (kernel, rows) = random::generate(seed);
        for piece in split(&kernel) {
            let Ok(device) = emit(&piece.kernel, rows, soc()) else { continue };
            num_fit += 1;
            if let Err(error) = run::on_host(&device, soc(), seed) {
                panic!("seed {seed}: {error}\n{}", device.mlir);
            }
        }
    }
    assert!(num_fit >= 50, "only {num_fit} kernels were generated");
}

#[test]
fn a_wrong_operation_is_noticed() {
    let kernels = debug_model().into_iter().filter_map(|(kernel, rows)| {
        emit(&kernel, rows, soc()).ok().filter(|device| device.mlir.contains("arith.mulf"))
    });
    for mut device in kernels.take(6) {
        device.mlir = device.mlir.replacen("arith.mulf", "arith.addf", 1);
        assert!(run::on_host(&device, soc(), 1).is_err(), "{}", device.mlir);
    }
}
