//! Kernels by hand, and the command line.
#![expect(clippy::unwrap_used, reason = "tests")]

use host_bishengir::{Container, compile};
use std::process::Command;
use titan_ir::ascend::Soc;

const KERNEL: &str =
    "func.func @row_sums(%x: tensor<2x3xf32>, %b: tensor<3xbf16>) -> (tensor<2xf32>, tensor<2x3xbf16>)
attributes {hacc.entry, hacc.function_kind = #hacc.function_kind<DEVICE>} {
  %w = arith.extf %b : tensor<3xbf16> to tensor<3xf32>
  %e = tensor.empty() : tensor<2x3xf32>
  %f = linalg.broadcast ins(%w : tensor<3xf32>) outs(%e : tensor<2x3xf32>) dimensions = [0]
  %p = arith.mulf %x, %f : tensor<2x3xf32>
  %z = arith.constant 0.0 : f32
  %r = tensor.empty() : tensor<2xf32>
  %i = linalg.fill ins(%z : f32) outs(%r : tensor<2xf32>) -> tensor<2xf32>
  %s = linalg.reduce { arith.addf } ins(%p : tensor<2x3xf32>) outs(%i : tensor<2xf32>) dimensions = [1]
  %t = arith.truncf %p : tensor<2x3xf32> to tensor<2x3xbf16>
  return %s, %t : tensor<2xf32>, tensor<2x3xbf16>
}
";

fn soc() -> &'static Soc {
    Soc::of_name("Ascend910B3").unwrap()
}

#[test]
fn a_kernel_computes_what_its_text_says() {
    let container = Container::decode(&compile(KERNEL, soc(), 40).unwrap()).unwrap();
    assert_eq!(container.target, "Ascend910B3");
    let description = &container.description;
    assert_eq!((description.symbol.as_str(), description.num_blocks), ("row_sums", 40));
    let args: Vec<_> = description.args.iter().map(|a| (a.size_bytes, a.access.as_str())).collect();
    assert_eq!(args, [(24, "read"), (6, "read"), (8, "write"), (12, "write")]);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kernel.so");
    std::fs::write(&path, &container.library).unwrap();
    let x: [f32; 6] = [1.0, 2.0, 3.0, -4.0, 5.0, 1.0 + 1.0 / 256.0];
    let b: [u16; 3] = [0x3F80, 0x4000, 0x3F80];
    let (mut sums, mut products) = ([0.0_f32; 2], [0_u16; 6]);
    // SAFETY: the library defines that function, and the pointers are to memory of the sizes of its description.
    unsafe {
        let library = libloading::Library::new(&path).unwrap();
        let function = library.get::<unsafe extern "C" fn(*const *mut u8)>(b"row_sums").unwrap();
        let pointers = [
            x.as_ptr().cast_mut().cast::<u8>(),
            b.as_ptr().cast_mut().cast(),
            sums.as_mut_ptr().cast(),
            products.as_mut_ptr().cast(),
        ];
        function(pointers.as_ptr());
    }
    assert_eq!(sums, [8.0, 7.0 + 1.0 / 256.0]);
    assert_eq!(products, [0x3F80, 0x4080, 0x4040, 0xC080, 0x4120, 0x3F80]);
}

#[test]
fn what_the_vendors_compiler_refuses_is_refused() {
    let refused = |text: &str| compile(text, soc(), 1).unwrap_err();
    let body = "(%a: tensor<8xf32>) -> tensor<8xf32>";
    let end = "return %a : tensor<8xf32> }";
    assert!(refused("func.func @k(").contains("expected"));
    assert!(refused(&format!("func.func @k{body} {{ {end}")).contains("no attribute hacc.entry"));
    assert!(refused("").contains("one kernel"));
    let cbrt =
        format!("func.func @k{body} attributes {{hacc.entry}} {{ %b = math.cbrt %a : tensor<8xf32> {end}");
    assert_eq!(refused(&cbrt), "failed to legalize operation 'math.cbrt'");
    let wide = KERNEL.replace("f32", "f64");
    assert!(refused(&wide).contains("not supported"), "{}", refused(&wide));
    assert!(refused(&KERNEL.replace("[1]", "[0]")).contains("linalg.reduce"));
}

#[test]
fn the_command_line_is_the_vendors() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("k.mlir"), folder.path().join("k.o"));
    let run = |text: &str, flags: &[&str]| {
        std::fs::write(&input, text).unwrap();
        let _ = std::fs::remove_file(&output);
        let mut command = Command::new(env!("CARGO_BIN_EXE_host-bishengir"));
        let run = command.arg(&input).args(flags).arg("-o").arg(&output).output().unwrap();
        (run.status.code(), output.exists())
    };
    let flags = ["-enable-hfusion-compile=true", "--target=Ascend910B3", "-block-dim=40"];
    assert_eq!(run(KERNEL, &flags), (Some(0), true));
    assert_eq!(run(KERNEL, &flags[..1]), (Some(1), false));
    assert_eq!(run(KERNEL, &["--target=Ascend1"]), (Some(1), false));
    assert_eq!(run(KERNEL, &["--target=Ascend910B3", "--no-such-flag"]), (Some(1), false));
    assert_eq!(run("func.func @k(", &flags), (Some(1), false));
    assert_eq!(run(&"(".repeat(100_000), &flags), (Some(1), false));
    let version = Command::new(env!("CARGO_BIN_EXE_host-bishengir")).arg("--version").output().unwrap();
    assert!(version.status.success() && version.stdout.starts_with(b"host-bishengir "));
}

#[test]
fn containers_cut_short_are_no_containers() {
    let bytes = compile(KERNEL, soc(), 1).unwrap();
    let container = Container::decode(&bytes).unwrap();
    assert_eq!(container.encode(), bytes);
    let start = bytes.len() - container.library.len();
    assert!((0..start).all(|len| Container::decode(&bytes[..len]).is_none()));
}
