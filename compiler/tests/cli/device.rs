//! Targets by name.

use crate::support::{Folder, TINY};

#[test]
fn short_options_are_keys() {
    let folder = Folder::with(TINY);
    let bytes = |args: &str| {
        let ran = folder.run(&format!("build a.toml {args}"));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        folder.read("a.titan")
    };
    assert_eq!(bytes("--target cpu-avx2"), bytes("--titan.target CPU-AVX2"));
    assert_ne!(bytes("--target cpu-avx2"), bytes(""));
}

#[test]
fn an_unknown_target_is_a_typing_error_away() {
    let ran = Folder::with(TINY).run("build a.toml --target ascend910c3");
    assert_eq!(ran.code, 1);
    for part in ["error[T0405]", "\"Ascend910_9391\"", "did you mean \"Ascend910B3\"?"] {
        assert!(ran.stderr.contains(part), "no {part} in {}", ran.stderr);
    }
}

#[test]
fn keys_of_another_device_are_said_to_have_no_effect() {
    let folder = Folder::with(TINY);
    let with = folder.run("build a.toml --ascend-kernels=aclnn --titan.ascend_workspace_mib 64");
    assert_eq!((with.code, with.stderr.matches("warning[T0414]").count()), (0, 2), "{}", with.stderr);
    assert_eq!(folder.run("build a.toml --ascend-kernels fast").code, 1);
}
