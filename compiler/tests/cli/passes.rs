//! Passes from the command line: `titanc opt`, and how build and check watch them.

use crate::support::{Folder, TINY};

#[test]
fn a_program_goes_through_passes_as_text() {
    let folder = Folder::with(TINY);
    let graph = folder.run("check a.toml --stop-after optimizer");
    assert_eq!(graph.code, 0, "{}", graph.stderr);
    assert!(graph.stdout.starts_with("stage = graph"), "{}", graph.stdout);
    folder.write("graph.titan", &graph.stdout);
    let same = folder.run("opt graph.titan");
    assert_eq!(same.stdout, graph.stdout, "printing what was parsed gives the text back");
    let local =
        folder.run("opt graph.titan -p simplify,propagate,insert-reshard,localize -o local.titan --timing");
    assert_eq!((local.code, local.stdout.as_str()), (0, ""), "{}", local.stderr);
    assert!(local.stderr.contains("localize") && local.stderr.contains("total"), "{}", local.stderr);
    let direct = folder.run("check a.toml --stop-after localize");
    assert_eq!(String::from_utf8(folder.read("local.titan")).unwrap(), direct.stdout);
}

#[test]
fn every_pass_is_listed() {
    let ran = Folder::new().run("opt --list");
    for pass in ["autodiff", "optimizer", "simplify", "propagate", "localize", "remat", "fuse", "emit-plan"] {
        let summary = ran.stdout.lines().find_map(|line| line.strip_prefix(pass)).unwrap_or_default();
        assert!(summary.trim().len() > 10, "{pass} in\n{}", ran.stdout);
    }
}

#[test]
fn wrong_passes_and_programs_are_refused() {
    let folder = Folder::with(TINY);
    folder.write("bad.titan", "stage = graph\nmesh = []\n\nfunc @step(\n) {\n  %0 = fly\n}\n");
    let code = |args: &str| {
        let ran = folder.run(args);
        assert_eq!(ran.code, 1, "{args}: {}", ran.stderr);
        ran.stderr.split(['[', ']']).nth(1).unwrap().to_owned()
    };
    assert_eq!(code("opt bad.titan -p fly"), "T0211");
    assert_eq!(code("opt bad.titan -p dce:fast"), "T0213");
    assert!(code("opt bad.titan -p dce").starts_with("T00"));
    assert_eq!(code("build a.toml --disable-pass fly"), "T0211");
    assert_eq!(code("build a.toml --disable-pass fuse"), "T0215");
    assert_eq!(folder.run("build a.toml --emit-ir").code, 0);
    folder.write("all.titan", folder.run("inspect a.titan --ir").stdout);
    assert_eq!(code("opt a.titan -p dce"), "T0008");
    assert_eq!(code("opt all.titan -p dce"), "T0008");
    folder.write("graph.titan", folder.run("check a.toml --stop-after optimizer").stdout);
    for pass in ["localize", "fuse", "emit-plan", "propagate,insert-reshard,fuse"] {
        assert_eq!(code(&format!("opt graph.titan -p {pass}")), "T0214");
    }
    folder.write("uncut.titan", folder.run("check a.toml --stop-after simplify --titan.world_size 2").stdout);
    assert_eq!(code("opt uncut.titan -p insert-reshard"), "T0216");
    folder.write("grads.titan", folder.run("check a.toml --stop-after autodiff").stdout);
    assert_eq!(code("opt grads.titan -p autodiff"), "T0207");
    assert_eq!(code("check a.toml --stop-after fly"), "T0211");
}

#[test]
fn programs_are_dumped_after_every_pass() {
    let folder = Folder::with(TINY);
    let ran = folder.run("check a.toml --dump-ir dump --disable-pass simplify --titan.world_size 2");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let dumps = std::fs::read_dir(folder.path.join("dump/ranks-2")).unwrap();
    let mut names: Vec<String> = dumps.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names[0], "01-autodiff.titan");
    assert!(!names.iter().any(|name| name.contains("simplify")), "{names:?}");
    assert!(names.iter().any(|name| name.contains("fuse")), "{names:?}");
}
