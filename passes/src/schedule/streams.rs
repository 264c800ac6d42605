//! Streams and events: collectives run beside compute.
//!
//! A collective starts after all compute issued before it, and compute waits for it before the first use of its result.
//! Memory is reused by the same rule: what a collective touches is in use until compute has waited for it. Of the
//! collectives that reduce only one is in flight, since each holds a whole gradient.

use titan_ir::kernel::CollectiveKind;
use titan_ir::{Func, Lowering, Node, ResultKind, ValueId};

/// The stream that computes.
pub const COMPUTE: u8 = 0;
/// The stream that communicates.
pub const COMMUNICATE: u8 = 1;

/// One entry of a function's timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// Where it is issued.
    pub stream: u8,
    /// What.
    pub what: What,
}

/// What an entry does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Runs node `0` of the function.
    Run(u32),
    /// Marks this point of the stream.
    Record(u32),
    /// Waits for a mark.
    Wait(u32),
}

/// A function's timeline in issue order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeline {
    /// Entries.
    pub items: Vec<Item>,
    /// Per node the entry after which compute may reuse its memory: its own, or that of the wait. `None` if nothing runs.
    pub done: Vec<Option<u32>>,
    /// Per node the entry that runs it.
    pub issued: Vec<Option<u32>>,
}

impl Timeline {
    /// Number of entries.
    pub fn num_entries(&self) -> u32 {
        u32::try_from(self.items.len()).expect("fewer than 2^32 entries")
    }

    /// Number of events.
    pub fn num_events(&self) -> u32 {
        let marks = self.items.iter().filter(|i| matches!(i.what, What::Record(_))).count();
        u32::try_from(marks).expect("fewer than 2^32 events")
    }
}

/// How a per-rank node is computed.
pub(crate) fn lowering(func: &Func, node: &Node) -> Lowering {
    let types = |values: &[ValueId]| values.iter().map(|&v| func.ty(v)).collect::<Vec<_>>();
    node.op.rules().lower(&types(&node.ins), &types(&node.outs))
}

/// Lays out the nodes of `func`, whose stage is `Kernels`; events are numbered from `first_event`.
pub fn timeline(func: &Func, first_event: u32) -> Timeline {
    let mut builder = Builder {
        func,
        items: Vec::new(),
        done: vec![None; func.nodes.len()],
        issued: vec![None; func.nodes.len()],
        maker: vec![None; func.num_values()],
        root: (0..func.num_values()).map(ValueId::new).collect(),
        readers: vec![Vec::new(); func.num_values()],
        pending: Vec::new(),
        next_event: first_event,
        compute_mark: None,
    };
    let overwrites = overwrites(func);
    for (n, node) in func.nodes.iter().enumerate() {
        builder.node(u32::try_from(n).expect("fewer than 2^32 nodes"), node, &overwrites);
    }
    if let Some(&(last, _, _)) = builder.pending.last() {
        builder.wait_for(last);
    }
    builder.finish(first_event)
}

/// For every value the parameter whose next value it is.
fn overwrites(func: &Func) -> Vec<Option<ValueId>> {
    let mut overwrites = vec![None; func.num_values()];
    for result in &func.results {
        if let ResultKind::Update(param) = result.kind {
            overwrites[result.value.index()] = Some(func.params[param].value);
        }
    }
    overwrites
}

struct Builder<'a> {
    func: &'a Func,
    items: Vec<Item>,
    done: Vec<Option<u32>>,
    issued: Vec<Option<u32>>,
    /// The collective that makes each value, seen through views.
    maker: Vec<Option<u32>>,
    /// The value each one is a view of.
    root: Vec<ValueId>,
    /// The collectives that read each value, seen through views.
    readers: Vec<Vec<u32>>,
    /// Collectives compute has not waited for: node, event, whether it reduces.
    pending: Vec<(u32, u32, bool)>,
    next_event: u32,
    /// The mark communication has waited for, if compute has issued nothing since.
    compute_mark: Option<u32>,
}

impl Builder<'_> {
    fn push(&mut self, stream: u8, what: What) -> u32 {
        self.items.push(Item { stream, what });
        u32::try_from(self.items.len() - 1).expect("fewer than 2^32 entries")
    }

    fn node(&mut self, n: u32, node: &Node, overwrites: &[Option<ValueId>]) {
        match lowering(self.func, node) {
            Lowering::Collective(kind, _) => self.collective(n, node, kind),
            Lowering::View => self.view(node),
            other => {
                let makers = node.ins.iter().filter_map(|v| self.maker[v.index()]);
                let overwritten = node.outs.iter().filter_map(|v| overwrites[v.index()]);
                let readers = overwritten.flat_map(|p| self.readers[p.index()].iter().copied());
                if let Some(last) = makers.chain(readers).max() {
                    self.wait_for(last);
                }
                if matches!(other, Lowering::Guard) {
                    self.view(node);
                }
                let at = self.push(COMPUTE, What::Run(n));
                self.issued[n as usize] = Some(at);
                self.done[n as usize] = Some(at);
                self.compute_mark = None;
            }
        }
    }

    fn collective(&mut self, n: u32, node: &Node, kind: CollectiveKind) {
        let reduces = matches!(kind, CollectiveKind::ReduceScatter(_) | CollectiveKind::AllReduce(_));
        // The second of two that follow each other holds what the first gave, no gradient more.
        let follows = |n: u32| node.ins.iter().any(|v| self.maker[v.index()] == Some(n));
        let before = self.pending.iter().rev().find(|p| p.2).map(|p| p.0).filter(|&n| !follows(n));
        if let (true, Some(before)) = (reduces, before) {
            self.wait_for(before);
        }
        if self.compute_mark.is_none() {
            let event = self.event();
            self.push(COMPUTE, What::Record(event));
            self.push(COMMUNICATE, What::Wait(event));
            self.compute_mark = Some(event);
        }
        let at = self.push(COMMUNICATE, What::Run(n));
        self.issued[n as usize] = Some(at);
        let event = self.event();
        self.push(COMMUNICATE, What::Record(event));
        self.pending.push((n, event, reduces));
        node.outs.iter().for_each(|v| self.maker[v.index()] = Some(n));
        for v in &node.ins {
            let root = self.root[v.index()];
            self.readers[root.index()].push(n);
        }
    }

    fn view(&mut self, node: &Node) {
        let (to, from) = (node.outs[0].index(), node.ins[0].index());
        self.maker[to] = self.maker[from];
        self.root[to] = self.root[from];
    }

    fn event(&mut self) -> u32 {
        self.next_event += 1;
        self.next_event - 1
    }

    /// Makes compute wait for collective `n` and so for all before it.
    fn wait_for(&mut self, n: u32) {
        let Some(upto) = self.pending.iter().position(|p| p.0 == n) else { return };
        let at = self.push(COMPUTE, What::Wait(self.pending[upto].1));
        for (n, _, _) in self.pending.drain(..=upto) {
            self.done[n as usize] = Some(at);
        }
    }

    /// Drops marks nobody waits for and numbers the others densely.
    fn finish(self, first_event: u32) -> Timeline {
        let num = (self.next_event - first_event) as usize;
        let mut number = vec![None; num];
        let mut next = first_event;
        for item in &self.items {
            if let What::Wait(event) = item.what
                && number[(event - first_event) as usize].is_none()
            {
                number[(event - first_event) as usize] = Some(next);
                next += 1;
            }
        }
        let mut moved = Vec::with_capacity(self.items.len());
        let mut items = Vec::new();
        for item in &self.items {
            moved.push(u32::try_from(items.len()).expect("fewer than 2^32 entries"));
            let renumber = |event: u32| number[(event - first_event) as usize];
            let what = match item.what {
                What::Run(n) => Some(What::Run(n)),
                What::Record(event) => renumber(event).map(What::Record),
                What::Wait(event) => renumber(event).map(What::Wait),
            };
            items.extend(what.map(|what| Item { what, ..*item }));
        }
        let follow = |at: Option<u32>| at.map(|at| moved[at as usize]);
        let done = self.done.into_iter().map(follow).collect();
        Timeline { items, done, issued: self.issued.into_iter().map(follow).collect() }
    }
}
