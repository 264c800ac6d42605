//! What touches memory, and in which order.

use crate::sample::{
    CAST_IN, CAST_OUT, FORK, FORK_WAIT, JOIN_WAIT, REDUCE, SCRATCH, SIZE, SLOTS, STATE, STEP, TABLE, TAKE,
    WORKSPACE, ZERO, calls, cast, program, raced,
};
use titan_ir::ascend::{Call, Element, Part, Program, Region, Submission};

fn changed(change: impl FnOnce(&mut Program)) -> Vec<&'static str> {
    let mut program = program();
    change(&mut program);
    raced(&program)
}

fn with_call(index: usize, call: Call) -> Vec<&'static str> {
    changed(|program| calls(program)[index].call = call)
}

#[test]
fn a_sound_program_passes() {
    assert_eq!(changed(|_| {}), [""; 0]);
}

#[test]
fn accesses_of_two_streams_are_ordered() {
    for wait in [FORK_WAIT, JOIN_WAIT] {
        let codes = changed(|program| drop(calls(program).remove(wait)));
        assert!(codes.contains(&"T0560") && codes.iter().all(|code| *code == "T0560"), "{codes:?}");
    }
    assert!(changed(|program| drop(calls(program).remove(FORK))).contains(&"T0560"));
    // A record before the write it should stand behind.
    assert!(changed(|program| calls(program).swap(CAST_OUT, FORK)).contains(&"T0560"));
    assert_eq!(changed(|program| calls(program)[CAST_IN].stream = 1)[0], "T0560");
    // Only the second microbatch sees it: stream 0 overwrites what stream 1 still reads.
    let unjoined = changed(|program| drop(calls(program).drain(JOIN_WAIT..=TAKE)));
    assert!(unjoined.contains(&"T0560"), "{unjoined:?}");
}

#[test]
fn results_lie_apart_from_other_operands() {
    assert!(with_call(CAST_OUT, cast(SCRATCH, SCRATCH + 32)).contains(&"T0560"));
}

#[test]
fn addresses_lie_in_regions() {
    assert!(changed(|program| program.scratch.size_bytes = SIZE - 64).contains(&"T0561"));
    assert!(with_call(CAST_IN, cast(STATE, 100_000)).contains(&"T0561"));
    assert!(with_call(CAST_IN, cast(STATE + 2, SCRATCH)).contains(&"T0561"));
    assert!(changed(|program| program.scratch.at = STEP).contains(&"T0561"));
    assert!(changed(|program| program.arena_bytes = 6000).contains(&"T0563"));
    assert!(changed(|program| program.step.size_bytes = SIZE).contains(&"T0561"));
}

#[test]
fn tables_are_not_written() {
    assert!(with_call(CAST_OUT, cast(SCRATCH, TABLE)).contains(&"T0562"));
    assert_eq!(
        changed(|program| {
            let read = Submission { call: cast(TABLE, SCRATCH), stream: 0, source: 7 };
            calls(program).insert(ZERO, read);
        }),
        [""; 0]
    );
}

#[test]
fn workspaces_belong_to_one_stream() {
    assert!(changed(|program| program.workspaces.clear()).contains(&"T0563"));
    assert!(with_call(CAST_OUT, cast(SCRATCH, WORKSPACE)).contains(&"T0563"));
    let shared = changed(|program| program.workspaces[1] = Region { at: WORKSPACE + 512, size_bytes: 1024 });
    assert!(shared.contains(&"T0563"), "{shared:?}");
}

#[test]
fn bytes_are_written_before_they_are_read() {
    assert!(changed(|program| drop(calls(program).remove(CAST_IN))).contains(&"T0564"));
    assert!(changed(|program| calls(program).swap(CAST_IN, CAST_OUT)).contains(&"T0564"));
}

#[test]
fn calls_touch_what_their_instruction_touches() {
    // A result that went to the memory of another buffer.
    assert!(with_call(CAST_OUT, cast(SCRATCH, STEP + SIZE)).contains(&"T0565"));
    assert!(with_call(CAST_IN, cast(STATE + SIZE, SCRATCH)).contains(&"T0565"));
    // Scratch of the instruction before.
    let stale = changed(|program| {
        let late = Submission { call: cast(SCRATCH, SCRATCH), stream: 0, source: 7 };
        calls(program).insert(ZERO, late);
    });
    assert_eq!(stale, ["T0565", "T0565"]);
    // A slot may be read by later instructions of its part, and by no other part.
    let with_slot = |in_other_part: bool| {
        changed(|program| {
            program.slots = Region { at: SLOTS, size_bytes: SIZE };
            let make = Submission { call: cast(STATE, SLOTS), stream: 0, source: 0 };
            let take = Submission { call: cast(SLOTS, SCRATCH), stream: 0, source: 7 };
            calls(program).insert(CAST_IN, make);
            if in_other_part {
                program.segments[0].parts.push(Part { submissions: vec![take], guard: Vec::new() });
            } else {
                calls(program).push(take);
            }
        })
    };
    assert_eq!(with_slot(false), [""; 0]);
    assert_eq!(with_slot(true), ["T0565", "T0565"]);
}

#[test]
fn slots_are_computed_again_when_their_source_changes() {
    let with_slot = |changes: bool| {
        changed(|program| {
            program.slots = Region { at: SLOTS, size_bytes: SIZE };
            let submit = |call, source| Submission { call, stream: 0, source };
            let mut more = vec![submit(cast(STEP, SCRATCH), 0), submit(cast(SCRATCH, SLOTS), 0)];
            if changes {
                more.push(submit(cast(STATE, STEP), 0));
            }
            calls(program).push(submit(cast(SLOTS, SCRATCH), 7));
            calls(program).splice(FORK..FORK, more);
        })
    };
    assert_eq!(with_slot(false), [""; 0]);
    assert_eq!(with_slot(true), ["T0565", "T0565"]);
}

#[test]
fn the_program_does_what_the_plan_does() {
    assert!(changed(|program| drop(calls(program).remove(TAKE))).contains(&"T0566"));
    assert!(changed(|program| calls(program).swap(TAKE, ZERO)).contains(&"T0566"));
    assert!(changed(|program| program.segments[0].parts[0].guard.clear()).contains(&"T0566"));
    assert!(changed(|program| program.segments[0].repeat = 3).contains(&"T0566"));
    assert!(changed(|program| calls(program)[ZERO].source = 99).contains(&"T0566"));
    let other = changed(|program| {
        let Call::Collective { element, .. } = &mut calls(program)[REDUCE].call else {
            panic!("no collective")
        };
        *element = Element::I32;
    });
    assert!(other.contains(&"T0566"), "{other:?}");
}
