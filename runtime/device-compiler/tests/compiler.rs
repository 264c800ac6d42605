//! Every way a device compiler can end, with programs that end so.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tempfile::TempDir;
use titan_device_compiler::DeviceCompiler;
use titan_ir::ascend::{DeviceKernel, Soc};
use titan_ir::kernel::{Cols, RowKernel};

const VERSIONED: &str = "if [ \"$1\" = --version ]; then echo; echo 'test 1.0'; exit 0; fi\n";
/// Finds the value of `-o`.
const OUT: &str = "while [ \"$1\" != -o ]; do shift; done; out=$2\n";

/// A program that is being written cannot be run, and a process started meanwhile keeps it open: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn program(folder: &TempDir, body: &str) -> PathBuf {
    let path = folder.path().join("bishengir-compile");
    fs::write(&path, format!("#!/bin/sh\n{VERSIONED}{body}")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn kernel(mlir: &str) -> DeviceKernel {
    let kernel = RowKernel { cols: Cols::Static(8), inputs: vec![], exprs: vec![], outputs: vec![] };
    DeviceKernel {
        symbol: "k".to_owned(),
        kernel,
        rows: 1,
        mlir: mlir.to_owned(),
        args: vec![],
        tables: vec![],
        num_blocks: 1,
        object: vec![],
    }
}

/// What compiling with a program of that body gives.
fn compile(body: &str) -> Result<Vec<u8>, titan_ir::Diag> {
    let folder = TempDir::new().unwrap();
    let compiler = DeviceCompiler::at(&program(&folder, body)).unwrap();
    let soc = Soc::of_name("Ascend910B3").unwrap();
    compiler.with_limit(Duration::from_millis(500)).compile(&kernel("func"), soc)
}

#[test]
fn the_result_is_what_the_program_writes() {
    let _alone = alone();
    let bytes = compile(&format!("args=\"$(cat \"$1\") $*\"\n{OUT}echo \"$args\" > \"$out\"")).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.starts_with("func "), "{text}");
    for flag in ["kernel.mlir ", "--target=Ascend910B3", "-block-dim=40", "-enable-hfusion-compile=true"] {
        assert!(text.contains(flag), "{flag} is not in {text}");
    }
}

#[test]
fn each_failure_has_its_code() {
    let _alone = alone();
    let code = |body: &str| compile(body).unwrap_err().code;
    assert_eq!(code("echo 'error: ub overflow'; exit 1"), "T0541");
    assert_eq!(code("kill -SEGV $$"), "T0542");
    assert_eq!(code("exit 134"), "T0542");
    assert_eq!(code("exec sleep 60"), "T0543");
    assert_eq!(code("exit 0"), "T0544");
    assert_eq!(code(&format!("{OUT}: > \"$out\"")), "T0544");
    assert_eq!(code("echo 'error: External hivmc run fails' >&2; exit 1"), "T0545");
    let refused = compile("echo note; echo 'error: ub overflow'; exit 1").unwrap_err();
    assert_eq!(refused.notes, ["error: ub overflow"]);
}

#[test]
fn tiles_get_smaller_until_they_fit() {
    let _alone = alone();
    let fits_at = |buffers: &str| {
        format!(
            "case \"$*\" in *tuning={buffers}*) {OUT}echo ok > \"$out\";; *) echo 'error: ub overflow'; exit 1;; esac"
        )
    };
    assert_eq!(compile(&fits_at("24")).unwrap(), b"ok\n");
    assert_eq!(compile(&fits_at("never")).unwrap_err().code, "T0541");
}

#[test]
fn a_program_that_cannot_be_run_is_refused_at_once() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let code = |path: PathBuf| DeviceCompiler::at(&path).unwrap_err().code;
    assert_eq!(code(folder.path().to_path_buf()), "T0540");
    assert_eq!(code(folder.path().join("absent")), "T0540");
    let path = program(&folder, "");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(code(path.clone()), "T0540");
    fs::write(&path, "#!/bin/sh\nexit 3").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(code(path.clone()), "T0540");
    fs::write(&path, "#!/no/such/program\n").unwrap();
    assert_eq!(code(path), "T0540");
}

#[test]
fn the_key_depends_on_source_device_and_compiler() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let compiler = DeviceCompiler::at(&program(&folder, "")).unwrap();
    assert_eq!(compiler.version(), "test 1.0");
    let soc = |name| Soc::of_name(name).unwrap();
    let key = compiler.key(&kernel("a"), soc("Ascend910B3"));
    assert_eq!(key, compiler.key(&kernel("a"), soc("Ascend910B3")));
    assert_ne!(key, compiler.key(&kernel("b"), soc("Ascend910B3")));
    assert_ne!(key, compiler.key(&kernel("a"), soc("Ascend910B1")));
    let path = folder.path().join("bishengir-compile");
    fs::write(&path, "#!/bin/sh\necho test 2.0").unwrap();
    assert_ne!(key, DeviceCompiler::at(&path).unwrap().key(&kernel("a"), soc("Ascend910B3")));
}
