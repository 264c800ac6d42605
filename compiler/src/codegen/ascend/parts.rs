//! Parts: what is captured as one graph.
//!
//! A part ends at a guard, starts and ends on stream 0 and leaves no other stream running. So a mark of an earlier part is
//! always reached: waits for it are dropped. Other streams enter by waiting for a mark of stream 0 and are waited for at the end.

use std::collections::{BTreeMap, BTreeSet};
use titan_ir::ascend::{Call, Part, Submission};

/// A submission of a segment, or a guard between them.
#[derive(Debug)]
pub(super) enum Step {
    /// Submit.
    Call(Submission),
    /// Read these f32 scalars.
    Guard(Vec<(String, u64)>),
}

/// Cuts the steps of a segment. Events of the parts are numbered from `num_events`, which grows.
pub(super) fn cut(steps: Vec<Step>, num_events: &mut u32) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut pending = Vec::new();
    for step in steps {
        match step {
            Step::Call(submission) => pending.push(submission),
            Step::Guard(guard) => {
                let submissions = close(std::mem::take(&mut pending), num_events);
                parts.push(Part { submissions, guard });
            }
        }
    }
    if !pending.is_empty() {
        let submissions = close(pending, num_events);
        parts.push(Part { submissions, guard: Vec::new() });
    }
    parts
}

/// A part under construction.
struct Closer<'a> {
    submissions: Vec<Submission>,
    num_events: &'a mut u32,
    /// By event of the plan: the part's event, and how much its stream had been given.
    marks: BTreeMap<u32, (u32, u8, u64)>,
    /// By stream other than 0: what it was given, and how much of that stream 0 has waited for.
    streams: BTreeMap<u8, (u64, u64)>,
}

/// A part of these submissions, forked and joined.
fn close(submissions: Vec<Submission>, num_events: &mut u32) -> Vec<Submission> {
    let waited = waited(&submissions);
    let mut closer =
        Closer { submissions: Vec::new(), num_events, marks: BTreeMap::new(), streams: BTreeMap::new() };
    for submission in submissions {
        closer.submission(submission, &waited);
    }
    closer.join();
    closer.submissions
}

/// Events that are recorded here and then waited for here.
fn waited(submissions: &[Submission]) -> BTreeSet<u32> {
    let mut recorded = BTreeSet::new();
    let mut waited = BTreeSet::new();
    for submission in submissions {
        match submission.call {
            Call::Record { event } => _ = recorded.insert(event),
            Call::Wait { event } if recorded.contains(&event) => _ = waited.insert(event),
            _ => {}
        }
    }
    waited
}

impl Closer<'_> {
    fn submission(&mut self, submission: Submission, waited: &BTreeSet<u32>) {
        let Submission { stream, source, .. } = submission;
        match submission.call {
            Call::Record { event } if waited.contains(&event) => {
                self.enter(stream, source);
                let mark = self.event();
                self.push(Call::Record { event: mark }, stream, source);
                let given = self.streams.get(&stream).map_or(0, |s| s.0);
                self.marks.insert(event, (mark, stream, given));
            }
            Call::Record { .. } => {}
            Call::Wait { event } => {
                let Some(&(mark, from, given)) = self.marks.get(&event) else { return };
                self.push(Call::Wait { event: mark }, stream, source);
                if stream == 0
                    && let Some(state) = self.streams.get_mut(&from)
                {
                    state.1 = state.1.max(given);
                }
            }
            call => {
                self.enter(stream, source);
                self.push(call, stream, source);
            }
        }
    }

    fn push(&mut self, call: Call, stream: u8, source: u32) {
        if stream != 0 {
            self.streams.entry(stream).or_insert((0, 0)).0 += 1;
        }
        self.submissions.push(Submission { call, stream, source });
    }

    fn event(&mut self) -> u32 {
        *self.num_events += 1;
        *self.num_events - 1
    }

    /// Lets a stream that was given nothing yet start after what stream 0 was given.
    fn enter(&mut self, stream: u8, source: u32) {
        if stream != 0 && !self.streams.contains_key(&stream) {
            let event = self.event();
            self.push(Call::Record { event }, 0, source);
            self.push(Call::Wait { event }, stream, source);
        }
    }

    /// Lets stream 0 wait for all that other streams were given.
    fn join(&mut self) {
        let running: Vec<u8> = self
            .streams
            .iter()
            .filter(|(_, (given, done))| done < given)
            .map(|(&stream, _)| stream)
            .collect();
        let source = self.submissions.last().map_or(0, |s| s.source);
        for stream in running {
            let event = self.event();
            self.push(Call::Record { event }, stream, source);
            self.push(Call::Wait { event }, 0, source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(stream: u8, call: Call) -> Step {
        Step::Call(Submission { call, stream, source: 0 })
    }

    fn zero(dst: u64) -> Call {
        Call::Zero { dst, size_bytes: 4 }
    }

    fn listing(part: &Part) -> Vec<String> {
        let line = |s: &Submission| match s.call {
            Call::Record { event } => format!("{}: record {event}", s.stream),
            Call::Wait { event } => format!("{}: wait {event}", s.stream),
            Call::Zero { dst, .. } => format!("{}: zero {dst}", s.stream),
            _ => "other".to_owned(),
        };
        part.submissions.iter().map(line).collect()
    }

    #[test]
    fn a_guard_joins_and_the_next_part_forks_anew() {
        let steps = vec![
            step(0, zero(1)),
            step(0, Call::Record { event: 0 }),
            step(1, Call::Wait { event: 0 }),
            step(1, zero(2)),
            step(1, Call::Record { event: 1 }),
            step(1, zero(3)),
            step(1, Call::Record { event: 2 }),
            step(0, Call::Wait { event: 1 }),
            Step::Guard(vec![("loss".to_owned(), 64)]),
            step(1, zero(4)),
            step(1, Call::Record { event: 3 }),
            step(0, Call::Wait { event: 2 }),
            step(0, zero(5)),
            step(0, Call::Wait { event: 3 }),
        ];
        let mut num_events = 5;
        let parts = cut(steps, &mut num_events);
        let first = [
            "0: zero 1",
            "0: record 5",
            "1: wait 5",
            "1: zero 2",
            "1: record 6",
            "1: zero 3",
            "0: wait 6",
            "1: record 7",
            "0: wait 7",
        ];
        assert_eq!(listing(&parts[0]), first);
        let second = ["0: record 8", "1: wait 8", "1: zero 4", "1: record 9", "0: zero 5", "0: wait 9"];
        assert_eq!(listing(&parts[1]), second);
        assert_eq!((parts[0].guard.len(), parts[1].guard.len(), num_events), (1, 0, 10));
    }
}
