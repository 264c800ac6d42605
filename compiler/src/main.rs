//! The `titanc` command.

fn main() {}
