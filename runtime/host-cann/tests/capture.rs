//! The capture state machine, against what the vendor's runtime returned for the same calls.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use ascend_rs_sys::Error;
use ascend_rs_sys::types::*;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_void};
use std::ptr;
use support::*;

const LEN: usize = 4096;
const SCENARIOS: &str = include_str!("data/capture.txt");

/// The objects of a scenario by name.
#[derive(Clone)]
struct World {
    streams: BTreeMap<&'static str, aclrtStream>,
    events: BTreeMap<&'static str, aclrtEvent>,
    memory: *mut c_void,
    pinned: *mut c_void,
    spare: *mut c_void,
    graph: aclmdlRI,
    group: aclrtTaskGrp,
}

// SAFETY: the addresses are only handed to the library, by one thread at a time.
unsafe impl Send for World {}

fn world() -> World {
    let acl = acl();
    let (mut default, mut old) = (aclrtStream::NULL, aclrtEvent::NULL);
    let (mut ext, mut plain) = (aclrtEvent::NULL, aclrtEvent::NULL);
    // SAFETY: the handles are written.
    unsafe {
        acl.aclrtCtxGetCurrentDefaultStream(&mut default).unwrap();
        acl.aclrtCreateEvent(&mut old).unwrap();
        acl.aclrtCreateEventWithFlag(&mut ext, ACL_EVENT_EXTERNAL).unwrap();
        acl.aclrtCreateEventExWithFlag(&mut plain, ACL_EVENT_TIME_LINE).unwrap();
    }
    let streams = [("s1", stream()), ("s2", stream()), ("default", default), ("null", aclrtStream::NULL)];
    let null = aclrtEvent::NULL;
    let events =
        [("e1", event()), ("e2", event()), ("old", old), ("ext", ext), ("plain", plain), ("null", null)];
    World {
        streams: streams.into(),
        events: events.into(),
        memory: device_memory(LEN),
        pinned: pinned_memory(LEN),
        spare: ptr::null_mut(),
        graph: aclmdlRI::NULL,
        group: aclrtTaskGrp::NULL,
    }
}

fn mode(name: &str) -> aclmdlRICaptureMode {
    let modes = ["global", "thread-local", "relaxed", "bad"];
    aclmdlRICaptureMode(modes.iter().position(|mode| *mode == name).unwrap() as i32)
}

unsafe extern "C" fn nothing(_: *mut c_void) {}

type Outcome = Result<String, Error>;

impl World {
    /// Ends a capture and keeps its graph.
    fn end(&mut self, stream: &str, keeps: bool) -> Outcome {
        let mut graph = aclmdlRI::NULL;
        // SAFETY: the graph is written.
        let ended = unsafe { acl().aclmdlRICaptureEnd(self.streams[stream], &mut graph) };
        assert_eq!(ended.is_ok(), !graph.is_null(), "a graph is given exactly on success");
        if keeps && ended.is_ok() {
            self.graph = graph;
        }
        ended.map(|()| "graph".to_owned())
    }

    fn info(&self, stream: &str) -> Result<(aclmdlRICaptureStatus, aclmdlRI), Error> {
        let (mut status, mut graph) = (aclmdlRICaptureStatus(9), aclmdlRI::NULL);
        // SAFETY: both are written.
        unsafe { acl().aclmdlRICaptureGetInfo(self.streams[stream], &mut status, &mut graph)? };
        Ok((status, graph))
    }

    /// Calls on captures, groups and graphs.
    fn capture(&mut self, words: &[&str]) -> Option<Outcome> {
        let acl = acl();
        let named = |stream: &str| self.streams[stream];
        let done = |result: Result<(), Error>| Some(result.map(|()| String::new()));
        // SAFETY: handles of the world, and places that are written.
        unsafe {
            match *words {
                ["begin", stream, name] => done(acl.aclmdlRICaptureBegin(named(stream), mode(name))),
                ["end", stream] => Some(self.end(stream, true)),
                ["end-other", stream] => Some(self.end(stream, false)),
                ["info", stream] => Some(
                    self.info(stream)
                        .map(|(status, _)| ["none", "active", "invalidated"][status.0 as usize].to_owned()),
                ),
                ["destroy-captured", stream] => done(acl.aclmdlRIDestroy(self.info(stream).unwrap().1)),
                ["destroy"] => done(acl.aclmdlRIDestroy(self.graph)),
                ["execute", stream] => done(acl.aclmdlRIExecuteAsync(self.graph, named(stream))),
                ["execute-null", stream] => done(acl.aclmdlRIExecuteAsync(aclmdlRI::NULL, named(stream))),
                ["exchange", name] => {
                    let mut exchanged = mode(name);
                    let result = acl.aclmdlRICaptureThreadExchangeMode(&mut exchanged);
                    Some(
                        result
                            .map(|()| ["global", "thread-local", "relaxed"][exchanged.0 as usize].to_owned()),
                    )
                }
                ["group-begin", stream] => done(acl.aclmdlRICaptureTaskGrpBegin(named(stream))),
                ["group-end", stream] => {
                    let stream = named(stream);
                    let mut group = self.group;
                    let result = acl.aclmdlRICaptureTaskGrpEnd(stream, &mut group);
                    self.group = group;
                    done(result)
                }
                ["update-begin", stream] => {
                    done(acl.aclmdlRICaptureTaskUpdateBegin(named(stream), self.group))
                }
                ["update-end", stream] => done(acl.aclmdlRICaptureTaskUpdateEnd(named(stream))),
                _ => None,
            }
        }
    }

    /// Calls that look at graphs.
    fn look(&self, words: &[&str]) -> Option<Outcome> {
        let acl = acl();
        let (mut num, mut id, mut streams) = (8, 0, [aclrtStream::NULL; 8]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("graph.json");
        let c_path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: places that are written, with room for what is asked.
        unsafe {
            match *words {
                ["trace"] => Some(acl.aclmdlRIDebugJsonPrint(self.graph, c_path.as_ptr(), 1).map(|()| {
                    let text = std::fs::read_to_string(&path).unwrap();
                    assert!(text.contains("traceEvents") && text.contains("fill"), "{text}");
                    String::new()
                })),
                ["set-name"] => {
                    Some(acl.aclmdlRISetName(self.graph, c"name".as_ptr()).map(|()| String::new()))
                }
                ["get-id"] => Some(acl.aclmdlRIGetId(self.graph, &mut id).map(|()| String::new())),
                ["count-streams"] => Some(
                    acl.aclmdlRIGetStreams(self.graph, streams.as_mut_ptr(), &mut num)
                        .map(|()| num.to_string()),
                ),
                ["count-tasks"] => {
                    acl.aclmdlRIGetStreams(self.graph, streams.as_mut_ptr(), &mut num).unwrap();
                    let result = acl.aclmdlRIGetTasksByStream(streams[0], ptr::null_mut(), &mut num);
                    Some(result.map(|()| num.to_string()))
                }
                _ => None,
            }
        }
    }

    /// Calls on streams and events.
    fn event(&self, words: &[&str]) -> Option<Outcome> {
        let acl = acl();
        let (stream, event) = (|name: &str| self.streams[name], |name: &str| self.events[name]);
        let mut status = aclrtEventRecordedStatus(9);
        let (mut stream_status, mut ms) = (aclrtStreamStatus(9), 0.0);
        // SAFETY: handles of the world, and places that are written.
        let result = unsafe {
            match *words {
                ["record", e, s] => acl.aclrtRecordEvent(event(e), stream(s)),
                ["wait", s, e] => acl.aclrtStreamWaitEvent(stream(s), event(e)),
                ["record-external", e, s] => acl.aclrtRecordEventWithFlag(event(e), stream(s), 1),
                ["wait-external", s, e] => acl.aclrtStreamWaitEventWithFlag(stream(s), event(e), 0, 1),
                ["reset", e, s] => acl.aclrtResetEvent(event(e), stream(s)),
                ["destroy-event", e] => acl.aclrtDestroyEvent(event(e)),
                ["synchronize-event", e] => acl.aclrtSynchronizeEvent(event(e)),
                ["query-event", e] => {
                    let result = acl.aclrtQueryEventStatus(event(e), &mut status);
                    return Some(result.map(|()| ["not-ready", "complete"][status.0 as usize].to_owned()));
                }
                ["elapsed", a, b] => acl.aclrtEventElapsedTime(&mut ms, event(a), event(b)),
                ["synchronize", s] => acl.aclrtSynchronizeStream(stream(s)),
                ["query", s] => acl.aclrtStreamQuery(stream(s), &mut stream_status),
                ["destroy-stream", s] => acl.aclrtDestroyStream(stream(s)),
                ["host-function", s] => acl.aclrtLaunchHostFunc(stream(s), Some(nothing), ptr::null_mut()),
                ["synchronize-device"] => acl.aclrtSynchronizeDevice(),
                _ => return None,
            }
        };
        Some(result.map(|()| String::new()))
    }

    /// Calls on memory and devices.
    fn memory(&mut self, words: &[&str]) -> Option<Outcome> {
        let acl = acl();
        let policy = aclrtMemMallocPolicy::ACL_MEM_MALLOC_HUGE_FIRST;
        let kind = aclrtMemcpyKind::ACL_MEMCPY_HOST_TO_DEVICE;
        let pageable = vec![0_u8; LEN];
        let pageable = pageable.as_ptr().cast::<c_void>();
        let (memory, pinned) = (self.memory, self.pinned);
        // SAFETY: the world's memory, and places that are written.
        let result = unsafe {
            match *words {
                ["fill", s] => fill(memory, LEN, 0, self.streams[s]),
                ["fill-now"] => acl.aclrtMemset(memory, LEN, 0, LEN),
                ["fill-null"] => acl.aclrtMemset(ptr::null_mut(), LEN, 0, LEN),
                ["copy-now"] => {
                    acl.aclrtMemcpy(memory, LEN, memory, LEN, aclrtMemcpyKind::ACL_MEMCPY_DEVICE_TO_DEVICE)
                }
                ["copy-too-much"] => acl.aclrtMemcpy(memory, 1, pinned, 2, kind),
                ["upload-pageable", s] => {
                    acl.aclrtMemcpyAsync(memory, LEN, pageable, LEN, kind, self.streams[s])
                }
                ["upload-pinned", s] => acl.aclrtMemcpyAsync(memory, LEN, pinned, LEN, kind, self.streams[s]),
                ["malloc"] => acl.aclrtMalloc(&mut self.spare, LEN, policy),
                ["malloc-nothing"] => acl.aclrtMalloc(&mut self.spare, 0, policy),
                ["free"] => acl.aclrtFree(self.spare),
                ["free-null"] => acl.aclrtFree(ptr::null_mut()),
                ["init"] => acl.aclInit(ptr::null()),
                ["set-device", id] => acl.aclrtSetDevice(id.parse().unwrap()),
                ["reset-device"] => acl.aclrtResetDevice(0),
                ["last-message"] => {
                    let message = CStr::from_ptr(acl.aclGetRecentErrMsg().unwrap()).to_str().unwrap();
                    return Some(Ok(message.split(':').next().unwrap().to_owned()));
                }
                _ => return None,
            }
        };
        Some(result.map(|()| String::new()))
    }

    fn call(&mut self, words: &[&str]) -> Outcome {
        let outcome = match self.capture(words) {
            Some(outcome) => Some(outcome),
            None => self.event(words).or_else(|| self.look(words)),
        };
        let outcome = match outcome {
            Some(outcome) => Some(outcome),
            None => self.memory(words),
        };
        outcome.unwrap_or_else(|| panic!("no command {words:?}"))
    }

    /// As [`World::call`], on a thread of its own.
    fn call_elsewhere(&mut self, words: &[&str]) -> Outcome {
        let (mut world, words) =
            (self.clone(), words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let mut context = aclrtContext::NULL;
        // SAFETY: the context is written.
        unsafe { acl().aclrtGetCurrentContext(&mut context).unwrap() };
        let thread = std::thread::spawn(move || {
            // SAFETY: the context lives.
            unsafe { acl().aclrtSetCurrentContext(context).unwrap() };
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let outcome = world.call(&words);
            (world, outcome)
        });
        let (world, outcome) = thread.join().unwrap();
        *self = world;
        outcome
    }
}

/// The command and the status with what it gave; the reason is checked if the status is meant to differ.
fn parse(line: &str) -> (Vec<&str>, &str) {
    let (command, expected) = line.split_once(" = ").unwrap_or_else(|| panic!("no status: {line}"));
    let expected = match expected.split_once(" (observed ") {
        None => expected,
        Some((expected, note)) => {
            let (observed, reason) = note.split_once(": ").unwrap();
            assert!(observed.parse::<i32>().is_ok() && reason.len() > 10, "{line}");
            expected
        }
    };
    (command.split(' ').collect(), expected)
}

#[test]
fn every_call_returns_what_the_vendors_runtime_returned() {
    let (mut num_scenarios, mut num_calls) = (0, 0);
    for scenario in SCENARIOS.split("\n## ").skip(1) {
        let (name, calls) = scenario.split_once('\n').unwrap();
        let _session = session();
        let mut world = world();
        for line in calls.lines().filter(|line| !line.is_empty()) {
            let (words, expected) = parse(line);
            let outcome = match words[0] {
                "elsewhere" => world.call_elsewhere(&words[1..]),
                _ => world.call(&words),
            };
            let got = match &outcome {
                Ok(gave) => format!("0 {gave}").trim().to_owned(),
                Err(Error::Call { status, .. }) => status.to_string(),
                Err(error) => panic!("{error}"),
            };
            assert_eq!(got, expected, "{name}: {line}: {}", text(outcome));
            num_calls += 1;
        }
        num_scenarios += 1;
    }
    assert_eq!((num_scenarios, num_calls), (31, 206));
}
