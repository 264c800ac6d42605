//! Help, versions, lists and the command line itself.

use crate::support::{Folder, TINY};

#[test]
fn help_of_every_command() {
    let folder = Folder::new();
    let commands = ["--help", "build --help", "check --help", "inspect --help", "opt --help"];
    insta::assert_snapshot!(commands.map(|args| folder.show(args)).join("\n"));
}

#[test]
fn the_version_names_format_and_llvm() {
    let ran = Folder::new().run("--version");
    assert_eq!(ran.code, 0);
    assert!(ran.stdout.starts_with("titanc 0.") && ran.stdout.contains("LLVM 22."), "{}", ran.stdout);
}

#[test]
fn codes_and_keys_are_explained() {
    let folder = Folder::new();
    let commands = ["explain t0402", "explain T9999", "keys clip", "keys lr_scheduler", "keys n_layers"];
    insta::assert_snapshot!(commands.map(|args| folder.show(args)).join("\n"));
}

#[test]
fn mistakes_on_the_command_line() {
    let folder = Folder::with(TINY);
    let commands = [
        "bild a.toml",
        "build a.toml --outptu b",
        "build a.toml --training.stepz 3",
        "build a.toml --training.steps",
        "keys --training.steps 3",
        "explain",
        "opt",
    ];
    insta::assert_snapshot!(commands.map(|args| folder.show(args)).join("\n"));
    assert_eq!(folder.files(), ["a.toml"]);
}

#[test]
fn the_resolved_configuration_can_be_printed() {
    let ran = Folder::with(TINY).run("check a.toml --job.print_config");
    let json = &ran.stdout[..ran.stdout.find("\n}\n").unwrap() + 3];
    assert!(json.contains("\"seq_len\": 16") && json.contains("\"vocab_size\": 64"), "{json}");
}
