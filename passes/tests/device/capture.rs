//! What can be captured.

use crate::sample::{
    CAST_OUT, FORK, FORK_WAIT, JOIN, JOIN_WAIT, REDUCE, calls, captured, cast, plan, program, soc,
};
use titan_ir::ascend::{Access, Arg, Call, Element, Part, Program, Submission, TensorArg};
use titan_passes::check::capture::collectives::Expansion;
use titan_passes::check::capture::{check, check_with};

fn changed(change: impl FnOnce(&mut Vec<Submission>)) -> Vec<&'static str> {
    let mut program = program();
    change(calls(&mut program));
    captured(&program)
}

#[test]
fn a_sound_program_can_be_captured_everywhere() {
    for name in ["Ascend910B1", "Ascend910B4", "Ascend910_9391", "Ascend950PR_9599"] {
        assert_eq!(check(&plan(), &program(), soc(name)), Ok(()));
    }
}

#[test]
fn streams_and_events_exist() {
    assert_eq!(changed(|calls| calls[CAST_OUT].stream = 7)[0], "T0550");
    assert_eq!(changed(|calls| calls[JOIN].call = Call::Record { event: 2 })[0], "T0550");
}

#[test]
fn a_side_stream_enters_by_an_event() {
    assert_eq!(changed(|calls| drop(calls.remove(FORK_WAIT))), ["T0551"]);
    assert_eq!(changed(|calls| calls.swap(FORK_WAIT, REDUCE)), ["T0551"]);
}

#[test]
fn only_what_was_recorded_in_the_part_is_waited_for() {
    assert_eq!(changed(|calls| drop(calls.remove(FORK)))[0], "T0552");
    assert_eq!(changed(|calls| calls.swap(FORK, FORK_WAIT)), ["T0552", "T0551"]);
    // Recorded, but in the part before.
    let mut program = program();
    let rest = calls(&mut program).split_off(FORK_WAIT);
    program.segments[0].parts.push(Part { submissions: rest, guard: Vec::new() });
    assert_eq!(captured(&program)[0], "T0552");
}

#[test]
fn every_side_stream_is_joined() {
    assert_eq!(changed(|calls| drop(calls.remove(JOIN_WAIT))), ["T0553"]);
    assert_eq!(changed(|calls| drop(calls.drain(JOIN..=JOIN_WAIT))), ["T0553"]);
    // Work behind the last record.
    let more = |calls: &mut Vec<Submission>| {
        let more = Submission { call: cast(0, 0), stream: 1, source: 5 };
        calls.push(more);
    };
    assert_eq!(changed(more), ["T0553"]);
    // A record that another side stream waits for, which does not come back itself.
    let mut program = program();
    program.num_streams = 3;
    calls(&mut program)[JOIN_WAIT].stream = 2;
    let record = Submission { call: Call::Record { event: 0 }, stream: 2, source: 5 };
    calls(&mut program).push(record.clone());
    assert_eq!(captured(&program), ["T0553", "T0553"]);
    let back = Submission { call: Call::Wait { event: 0 }, stream: 0, source: 5 };
    calls(&mut program).push(back);
    assert_eq!(captured(&program), [""; 0]);
}

#[test]
fn operators_that_need_the_host_are_refused() {
    let named = |name: &str| {
        changed(|calls| calls[CAST_OUT].call = Call::Operator { name: name.to_owned(), args: Vec::new() })
    };
    for name in
        ["aclnnNonzeroV2", "aclnnMaskedSelect", "aclnnIndexFillTensor", "aclnnGroupedMatmulV2", "aclopCast"]
    {
        assert_eq!(named(name), ["T0557"], "{name}");
    }
    for name in ["aclnnApplyAdamWV2", "aclnnInplaceNormal", "aclnnDropout"] {
        assert_eq!(named(name), ["T0559"], "{name}");
    }
    for name in ["aclnnApplyAdamW", "aclnnInplaceNormalTensor", "aclnnGroupedMatmulV5", "aclnnIndex"] {
        assert_eq!(named(name), [""; 0], "{name}");
    }
    let mask = TensorArg::contiguous(Element::Bool, &[4], 0, Access::Read);
    let index = Call::Operator { name: "aclnnIndex".to_owned(), args: vec![Arg::Tensors(vec![mask])] };
    assert_eq!(changed(|calls| calls[CAST_OUT].call = index), ["T0557"]);
}

#[test]
fn collectives_depend_on_what_unfolds_them() {
    let codes = |name: &str, expansion| {
        let found = check_with(&plan(), &program(), soc(name), expansion);
        found.err().map_or(Vec::new(), |diags| diags.0.iter().map(|d| d.code).collect::<Vec<_>>())
    };
    assert_eq!(codes("Ascend910B3", Expansion::Host), [""; 0]);
    assert_eq!(codes("Ascend910B3", Expansion::Aiv), [""; 0]);
    assert_eq!(codes("Ascend910B3", Expansion::AiCpu), ["T0558"]);
    assert_eq!(codes("Ascend910_9391", Expansion::Aiv), [""; 0]);
    assert_eq!(codes("Ascend950PR_9599", Expansion::Aiv), ["T0558"]);
    let mut silent = program();
    silent.comm_axes.clear();
    assert_eq!(captured(&silent), ["T0558"]);
}

/// Repeats the only part.
fn repeated(num_parts: usize) -> Program {
    let mut program = program();
    let part = program.segments[0].parts[0].clone();
    program.segments[0].parts = vec![part; num_parts];
    program
}

#[test]
fn graphs_streams_and_events_are_bounded() {
    let codes = |name: &str, program: &Program| {
        let found = check(&plan(), program, soc(name));
        found.err().map_or(Vec::new(), |diags| diags.0.iter().map(|d| d.code).collect::<Vec<_>>())
    };
    assert_eq!(codes("Ascend910_9391", &repeated(6)), [""; 0]);
    assert_eq!(codes("Ascend910_9391", &repeated(7)), ["T0556"]);
    assert_eq!(codes("Ascend910B3", &repeated(400)), [""; 0]);
    assert_eq!(codes("Ascend910B3", &repeated(500)), ["T0554"]);
    let mut long = program();
    let work = calls(&mut long)[CAST_OUT].clone();
    calls(&mut long).splice(0..0, std::iter::repeat_n(work, 1 << 20));
    assert_eq!(codes("Ascend910B3", &long), ["T0554"]);
    let mut eventful = program();
    eventful.num_events = 70_000;
    assert_eq!(codes("Ascend910B3", &eventful), ["T0555"]);
}

#[test]
fn a_finding_names_module_place_and_remedy() {
    let mut program = program();
    calls(&mut program).remove(FORK_WAIT);
    let found = check(&plan(), &program, soc("Ascend910B3")).unwrap_err().to_string();
    assert_eq!(
        found,
        "error[T0551]: collective AllReduce(Sum): its stream is not part of the capture: the work would run at once and never again\n  \
         at: layers.0.reduce\n  \
         note: submission 3 of part 0 of `step`, stream 1\n  \
         help: let the stream wait for an event recorded on stream 0 in this part first"
    );
}
