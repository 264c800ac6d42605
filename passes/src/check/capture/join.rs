//! Streams of a capture: forked from stream 0, joined to it.

use crate::check::device::{Findings, Site, sites};
use std::collections::{BTreeMap, BTreeSet};
use titan_ir::ascend::{Call, Program};

/// The last call of each stream that is known to be finished.
type Clock = Vec<u64>;

/// A point of a stream.
type Point = (usize, u64);

/// A capture under way.
struct Capture<'a> {
    program: &'a Program,
    clocks: Vec<Clock>,
    inside: Vec<bool>,
    /// What the latest record of each event marks.
    events: BTreeMap<u32, (Point, Clock)>,
    /// Records some stream has waited for.
    awaited: BTreeSet<Point>,
    /// The last call of each stream.
    last: Vec<Option<Site<'a>>>,
}

/// Checks a part.
pub(super) fn check(program: &Program, segment: usize, part: usize, findings: &mut Findings<'_>) {
    let num_streams = usize::from(program.num_streams).max(1);
    let mut capture = Capture {
        program,
        clocks: vec![vec![0; num_streams]; num_streams],
        inside: (0..num_streams).map(|stream| stream == 0).collect(),
        events: BTreeMap::new(),
        awaited: BTreeSet::new(),
        last: vec![None; num_streams],
    };
    for site in sites(program, segment, part) {
        capture.submit(site, findings);
    }
    capture.end(findings);
}

impl<'a> Capture<'a> {
    fn submit(&mut self, site: Site<'a>, findings: &mut Findings<'_>) {
        let stream = usize::from(site.submission.stream);
        if stream >= self.clocks.len() {
            let message = format!("stream {stream} of a program with {} streams", self.program.num_streams);
            return findings.at(&site, "T0550", &message, "submit to one of its streams");
        }
        if let Call::Record { event } | Call::Wait { event } = site.submission.call
            && event >= self.program.num_events
        {
            let message = format!("event {event} of a program with {} events", self.program.num_events);
            return findings.at(&site, "T0550", &message, "use one of its events");
        }
        if let Call::Wait { event } = site.submission.call {
            self.wait(stream, event, &site, findings);
        } else if !self.inside[stream] {
            let message = "its stream is not part of the capture: the work would run at once and never again";
            let help = "let the stream wait for an event recorded on stream 0 in this part first";
            findings.at(&site, "T0551", message, help);
            // Said once.
            self.inside[stream] = true;
        }
        self.clocks[stream][stream] += 1;
        self.last[stream] = Some(site);
        if let Call::Record { event } = site.submission.call {
            let clock = self.clocks[stream].clone();
            self.events.insert(event, ((stream, clock[stream]), clock));
        }
    }

    fn wait(&mut self, stream: usize, event: u32, site: &Site<'_>, findings: &mut Findings<'_>) {
        let Some((point, clock)) = self.events.get(&event) else {
            let message = "nothing in this part has recorded the event before (ACL error 107024)";
            let help = "record it in the same part, on a stream of the capture, before the wait is submitted";
            return findings.at(site, "T0552", message, help);
        };
        self.inside[stream] = true;
        self.awaited.insert(*point);
        for (known, &marked) in self.clocks[stream].iter_mut().zip(clock) {
            *known = (*known).max(marked);
        }
    }

    /// The end of the capture, which takes place on stream 0.
    fn end(&self, findings: &mut Findings<'_>) {
        for (stream, last) in self.last.iter().enumerate().skip(1) {
            let Some(site) = last else { continue };
            let time = self.clocks[stream][stream];
            let help = "end the stream's work with a record that stream 0 waits for in this part";
            let is_record = matches!(site.submission.call, Call::Record { .. });
            let message = if !is_record {
                "the last call of a side stream must be a record (ACL error 107025)"
            } else if !self.awaited.contains(&(stream, time)) {
                "no stream waits for the last record of this stream (ACL error 107025)"
            } else if self.clocks[0][stream] < time {
                "the last record of this stream does not reach stream 0 (ACL error 107025)"
            } else {
                continue;
            };
            findings.at(site, "T0553", message, help);
        }
    }
}
