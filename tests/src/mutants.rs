//! Artifacts that are wrong in one place: tests of the tests.

use std::path::Path;
use titan_ir::artifact::{Artifact, encode, program_section};
use titan_ir::ascend::{Call, Part, Program};

/// Rewrites the Ascend program for `world_size` ranks of the artifact at `path`; all hashes agree again.
///
/// # Panics
/// When the file is no Ascend artifact.
pub fn rewrite(path: &Path, world_size: u64, change: impl FnOnce(&mut Program)) {
    let bytes = std::fs::read(path).expect("an artifact");
    let artifact = Artifact::parse(&bytes).unwrap_or_else(|e| panic!("{e}"));
    let mut program = artifact.program(world_size).unwrap_or_else(|e| panic!("{e}"));
    change(&mut program);
    let name = program_section(world_size);
    let section = |(section, _): (&str, usize)| {
        let bytes = if section == name {
            postcard::to_allocvec(&program).expect("a program encodes")
        } else {
            artifact.section(section).expect("a section that is listed").to_vec()
        };
        (section.to_owned(), bytes)
    };
    let sections: Vec<_> = artifact.sections().map(section).collect();
    std::fs::write(path, encode(&sections)).expect("a folder that can be written");
}

/// The part with most collectives.
///
/// # Panics
/// When there is none.
pub fn busiest(program: &mut Program) -> &mut Part {
    let parts = program.segments.iter_mut().flat_map(|s| &mut s.parts);
    parts.max_by_key(|part| collectives(part).len()).expect("a program has parts")
}

/// Where the collectives of a part are.
pub fn collectives(part: &Part) -> Vec<usize> {
    positions(part, |call| matches!(call, Call::Collective { .. }))
}

/// Where the calls of a part are that `wanted` accepts.
pub fn positions(part: &Part, wanted: impl Fn(&Call) -> bool) -> Vec<usize> {
    (0..part.submissions.len()).filter(|&i| wanted(&part.submissions[i].call)).collect()
}
