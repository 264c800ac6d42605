//! One communicator as its hub sees it: who is there, and what has met.

use super::arithmetic::reduce;
use super::types::computed;
use super::wire::{Collective, Group, Kind, Reply, Terms, Transfer};
use crate::operators::compute::Order;
use std::collections::BTreeMap;

/// A rank's part in an operation.
type Part = (Collective, Vec<u8>);

/// Something for a rank.
pub(super) type Letter = (u32, Reply, Vec<u8>);

/// One side of a transfer: elements, type, and what is sent.
type Side = (u64, i32, Vec<u8>);

/// A communicator.
#[derive(Debug)]
pub(super) struct Channel {
    group: Group,
    /// By rank in the group: what it joined with.
    joined: Vec<Option<Terms>>,
    left: Vec<bool>,
    meetings: BTreeMap<u64, Vec<Option<Part>>>,
    transfers: BTreeMap<Transfer, [Option<Side>; 2]>,
    /// Why it is of no more use.
    broken: Option<(String, bool)>,
    /// Drawn anew for operations without a promised order.
    seed: u64,
}

impl Channel {
    pub(super) fn new(group: Group, seed: u64) -> Self {
        let size = group.ranks.len();
        Self {
            group,
            joined: vec![None; size],
            left: vec![false; size],
            meetings: BTreeMap::new(),
            transfers: BTreeMap::new(),
            broken: None,
            seed,
        }
    }

    fn size(&self) -> usize {
        self.joined.len()
    }

    /// Whether all have joined.
    pub(super) fn is_complete(&self) -> bool {
        self.joined.iter().all(Option::is_some)
    }

    /// Whether all have left.
    pub(super) fn is_over(&self) -> bool {
        self.left.iter().all(|&left| left)
    }

    /// Tells every rank that the communicator is of no more use.
    pub(super) fn break_up(&mut self, why: String, timed_out: bool) -> Vec<Letter> {
        let (why, timed_out) = self.broken.get_or_insert((why, timed_out)).clone();
        let reply = |rank| {
            (rank, Reply::Broken { group: self.group.clone(), why: why.clone(), timed_out }, Vec::new())
        };
        (0..self.size() as u32).map(reply).collect()
    }

    pub(super) fn join(&mut self, rank: u32, terms: Terms) -> Vec<Letter> {
        if let Some((other, theirs)) =
            self.joined.iter().enumerate().find_map(|(i, t)| Some((i, t.as_ref()?)))
            && *theirs != terms
        {
            let why = format!("rank {other} joins with {theirs:?} and rank {rank} with {terms:?}");
            return self.break_up(why, false);
        }
        if self.joined[rank as usize].is_some() {
            return self.break_up(format!("rank {rank} joins twice"), false);
        }
        self.joined[rank as usize] = Some(terms);
        if self.broken.is_some() {
            return self.break_up(String::new(), false);
        }
        if !self.is_complete() {
            return Vec::new();
        }
        let reply = |rank| (rank, Reply::Joined { group: self.group.clone() }, Vec::new());
        (0..self.size() as u32).map(reply).collect()
    }

    pub(super) fn leave(&mut self, rank: u32) -> Vec<Letter> {
        self.left[rank as usize] = true;
        let waits = self.meetings.keys().copied().collect::<Vec<_>>();
        match waits.first() {
            Some(number) => {
                let why = format!("rank {rank} destroyed the communicator while {}", self.scene(*number));
                self.break_up(why, false)
            }
            None => Vec::new(),
        }
    }

    /// A rank is gone without having left.
    pub(super) fn lose(&mut self, rank: u32) -> Vec<Letter> {
        if std::mem::replace(&mut self.left[rank as usize], true) {
            return Vec::new();
        }
        self.break_up(format!("rank {rank} has ended without destroying the communicator"), false)
    }

    /// Which ranks are in operation `number`, and which are not.
    fn scene(&self, number: u64) -> String {
        let parts = &self.meetings[&number];
        let there = parts.iter().enumerate().filter_map(|(i, part)| Some((i, &part.as_ref()?.0)));
        let there: Vec<String> =
            there.map(|(i, collective)| format!("rank {i} is in {collective}")).collect();
        let away: Vec<String> =
            parts.iter().enumerate().filter(|(_, p)| p.is_none()).map(|(i, _)| i.to_string()).collect();
        format!("operation {number}: {}; not there: {}", there.join(", "), away.join(", "))
    }

    /// A rank waited too long for `what`.
    pub(super) fn give_up(&mut self, rank: u32, what: &str) -> Vec<Letter> {
        let mut scenes: Vec<String> = self.meetings.keys().map(|&number| self.scene(number)).collect();
        let missing = (0..self.size()).filter(|&rank| self.joined[rank].is_none());
        scenes.extend(missing.map(|rank| format!("rank {rank} has not come")));
        scenes.extend(self.transfers.iter().map(|(transfer, sides)| {
            let Transfer { from, to, number } = transfer;
            match &sides[0] {
                Some(_) => {
                    format!("transfer {number}: rank {from} sends to rank {to}, which does not receive")
                }
                None => {
                    format!("transfer {number}: rank {to} receives from rank {from}, which does not send")
                }
            }
        }));
        let why = format!("time-out: rank {rank} waits in {what}; {}", scenes.join("; "));
        self.break_up(why, true)
    }

    pub(super) fn meet(&mut self, rank: u32, number: u64, part: Part) -> Vec<Letter> {
        if self.broken.is_some() {
            return self.break_up(String::new(), false);
        }
        let size = self.size();
        let parts = self.meetings.entry(number).or_insert_with(|| (0..size).map(|_| None).collect());
        if let Some((other, (theirs, _))) = parts.iter().enumerate().find_map(|(i, p)| Some((i, p.as_ref()?)))
            && !agree(theirs, &part.0)
        {
            let why =
                format!("operation {number}: rank {other} is in {theirs}; rank {rank} is in {}", part.0);
            return self.break_up(why, false);
        }
        parts[rank as usize] = Some(part);
        if let Some(gone) = self.left.iter().position(|&left| left) {
            let why = format!("rank {gone} has destroyed the communicator; {}", self.scene(number));
            return self.break_up(why, false);
        }
        if !self.meetings[&number].iter().all(Option::is_some) {
            return Vec::new();
        }
        let parts: Vec<Part> =
            self.meetings.remove(&number).expect("it is there").into_iter().flatten().collect();
        let fixed = self.joined[0].as_ref().is_some_and(|terms| terms.deterministic != 0);
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let order = if fixed { Order::Fixed } else { Order::Seeded(self.seed >> 16) };
        match results(&parts, order) {
            Ok(results) => {
                let letter =
                    |(rank, bytes)| (rank as u32, Reply::Met { group: self.group.clone(), number }, bytes);
                results.into_iter().enumerate().map(letter).collect()
            }
            Err(why) => self.break_up(format!("operation {number}: {why}"), false),
        }
    }

    /// One side of a transfer: `side` 0 sends, 1 receives.
    pub(super) fn transfer(&mut self, transfer: Transfer, side: usize, what: Side) -> Vec<Letter> {
        if self.broken.is_some() {
            return self.break_up(String::new(), false);
        }
        let sides = self.transfers.entry(transfer.clone()).or_default();
        sides[side] = Some(what);
        let [Some(sent), Some(received)] = sides else { return Vec::new() };
        let ((sent_count, sent_type, bytes), (count, dtype, _)) = (sent, received);
        let Transfer { from, to, number } = transfer;
        if (*sent_count, *sent_type) != (*count, *dtype) {
            let name = |dtype: i32| super::types::name(ascend_rs_sys::types::HcclDataType(dtype));
            let why = format!(
                "transfer {number}: rank {from} sends {sent_count} {} and rank {to} receives {count} {}",
                name(*sent_type),
                name(*dtype)
            );
            return self.break_up(why, false);
        }
        let bytes = std::mem::take(bytes);
        self.transfers.remove(&transfer);
        let group = self.group.clone();
        vec![
            (from, Reply::Sent { group: group.clone(), transfer: transfer.clone() }, Vec::new()),
            (to, Reply::Received { group, transfer }, bytes),
        ]
    }
}

/// Whether two ranks are in the same operation. How much each sends each of the others is looked at once all are there.
fn agree(a: &Collective, b: &Collective) -> bool {
    Collective { counts: None, ..a.clone() } == Collective { counts: None, ..b.clone() }
}

/// What each rank gets.
fn results(parts: &[Part], order: Order) -> Result<Vec<Vec<u8>>, String> {
    let size = parts.len();
    let (first, _) = &parts[0];
    let bytes: Vec<&[u8]> = parts.iter().map(|(_, bytes)| &bytes[..]).collect();
    let root = first.root.unwrap_or(0) as usize;
    let reduced = || {
        let dtype = computed(first.dtype).expect("each rank checked that its type can be reduced");
        reduce(dtype, first.reduce.expect("reductions have one"), &bytes, order)
    };
    let only_root = |result: Vec<u8>| {
        let mut results = vec![Vec::new(); size];
        results[root] = result;
        results
    };
    let piece_bytes = first.count as usize * first.size_bytes;
    let piece = |all: &[u8], rank: usize| all[rank * piece_bytes..(rank + 1) * piece_bytes].to_vec();
    Ok(match first.kind {
        Kind::AllReduce => vec![reduced(); size],
        Kind::AllGather => vec![bytes.concat(); size],
        Kind::Broadcast => vec![bytes[root].to_vec(); size],
        Kind::Reduce => only_root(reduced()),
        Kind::Barrier => vec![Vec::new(); size],
        Kind::ReduceScatter => {
            let all = reduced();
            (0..size).map(|rank| piece(&all, rank)).collect()
        }
        Kind::Scatter => (0..size).map(|rank| piece(bytes[root], rank)).collect(),
        Kind::AlltoAll => {
            (0..size).map(|rank| bytes.iter().flat_map(|all| piece(all, rank)).collect()).collect()
        }
        Kind::AlltoAllV => return exchange_varied(parts),
    })
}

/// All-to-all of pieces of different lengths: every piece must be as long as its receiver expects.
fn exchange_varied(parts: &[Part]) -> Result<Vec<Vec<u8>>, String> {
    let counts = |rank: usize| parts[rank].0.counts.as_ref().expect("each rank gives counts");
    let mut results = Vec::with_capacity(parts.len());
    for to in 0..parts.len() {
        let mut result = Vec::new();
        for (from, (collective, bytes)) in parts.iter().enumerate() {
            let (sent, expected) = (counts(from)[0][to], counts(to)[1][from]);
            if sent != expected {
                return Err(format!(
                    "rank {from} sends {sent} elements to rank {to}, which expects {expected}"
                ));
            }
            let size = collective.size_bytes;
            let start = counts(from)[0][..to].iter().sum::<u64>() as usize * size;
            result.extend_from_slice(&bytes[start..start + sent as usize * size]);
        }
        results.push(result);
    }
    Ok(results)
}
