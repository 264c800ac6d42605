//! The new order of a program: where buckets go, and what moves with them.

use super::Bucket;
use crate::collectives::is_carried;
use std::collections::VecDeque;
use titan_ir::kernel::CollectiveKind;
use titan_ir::{Func, Op, ResultKind, Role, ice};

/// The new order.
///
/// # Errors
/// A bucket that waits for itself.
pub(super) fn order(func: &Func, buckets: &[Bucket]) -> Result<Vec<Item>, usize> {
    Emitter::new(func, buckets).run()
}

/// One node or one bucket of the new program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    /// A node, by its place in the old program.
    Node(usize),
    /// A bucket.
    Bucket(usize),
}

/// When an item is emitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// At its place in the old program, or as soon after as its operands are there.
    InOrder,
    /// As soon as its operands are there.
    Eager,
    /// When first asked for.
    Lazy,
}

/// Finds the new order. Items are numbered: nodes by position, then buckets.
struct Emitter<'a> {
    func: &'a Func,
    buckets: &'a [Bucket],
    /// The item of each node.
    item_of: Vec<usize>,
    when: Vec<When>,
    defs: Vec<Option<u32>>,
    users: Vec<Vec<usize>>,
    /// Operands not yet defined, per item.
    num_missing: Vec<usize>,
    emitted: Vec<bool>,
    /// In-order items whose place has passed.
    overdue: Vec<bool>,
    order: Vec<Item>,
}

impl<'a> Emitter<'a> {
    fn new(func: &'a Func, buckets: &'a [Bucket]) -> Self {
        let num_nodes = func.nodes.len();
        let num_items = num_nodes + buckets.len();
        let mut item_of: Vec<usize> = (0..num_nodes).collect();
        for (b, bucket) in buckets.iter().enumerate() {
            for &member in &bucket.members {
                item_of[member] = num_nodes + b;
            }
        }
        let defs = func.defs();
        let mut users = vec![Vec::new(); func.num_values()];
        let mut num_missing = vec![0; num_items];
        for (i, node) in func.nodes.iter().enumerate() {
            for &operand in node.ins.iter().filter(|v| defs[v.index()].is_some()) {
                users[operand.index()].push(item_of[i]);
                num_missing[item_of[i]] += 1;
            }
        }
        let when = times(func, buckets, &item_of, &users);
        let (emitted, overdue) = (vec![false; num_items], vec![false; num_items]);
        Self { func, buckets, item_of, when, defs, users, num_missing, emitted, overdue, order: Vec::new() }
    }

    fn run(mut self) -> Result<Vec<Item>, usize> {
        for i in 0..self.func.nodes.len() {
            match self.when[self.item_of[i]] {
                When::InOrder => self.demand(self.item_of[i]),
                When::Eager => self.demand_gathers(i),
                When::Lazy => {}
            }
        }
        let num_nodes = self.func.nodes.len();
        let waits = |&b: &usize| self.when[num_nodes + b] != When::Lazy && !self.emitted[num_nodes + b];
        let stuck: Vec<usize> = (0..self.buckets.len()).filter(waits).collect();
        match stuck.iter().find(|&&b| self.buckets[b].members.len() > 1) {
            Some(&bucket) => Err(bucket),
            None if !stuck.is_empty() => ice!("bucket-collectives: `{}` has a cycle", self.func.name),
            None => Ok(self.order),
        }
    }

    /// Emits an item if it can be, together with lazy items it needs; otherwise notes that it is overdue.
    fn demand(&mut self, item: usize) {
        if self.emitted[item] || self.overdue[item] {
            return;
        }
        for node in self.nodes_of(item) {
            for &operand in &self.func.nodes[node].ins {
                if let Some(def) = self.defs[operand.index()] {
                    let dep = self.item_of[def as usize];
                    // Later nodes are asked for by gathers only, whose operands depend on nothing but parameters.
                    if self.when[dep] != When::Eager {
                        self.demand(dep);
                    }
                }
            }
        }
        if self.num_missing[item] > 0 {
            self.overdue[item] = true;
            return;
        }
        self.emit(item);
    }

    /// Emits the gathers an eager node waits for, and its item if that waits for nothing.
    fn demand_gathers(&mut self, node: usize) {
        for &operand in &self.func.nodes[node].ins {
            if let Some(def) = self.defs[operand.index()] {
                let dep = self.item_of[def as usize];
                if self.when[dep] == When::Lazy {
                    self.demand(dep);
                }
            }
        }
        let item = self.item_of[node];
        if self.num_missing[item] == 0 && !self.emitted[item] {
            self.emit(item);
        }
    }

    /// Emits an item and all that only waited for it.
    fn emit(&mut self, item: usize) {
        let mut queue = VecDeque::from([item]);
        while let Some(item) = queue.pop_front() {
            if std::mem::replace(&mut self.emitted[item], true) {
                continue;
            }
            let num_nodes = self.func.nodes.len();
            self.order.push(if item < num_nodes { Item::Node(item) } else { Item::Bucket(item - num_nodes) });
            for node in self.nodes_of(item) {
                for &out in &self.func.nodes[node].outs {
                    for &user in &self.users[out.index()] {
                        self.num_missing[user] -= 1;
                        let waits = self.when[user] == When::Eager || self.overdue[user];
                        if self.num_missing[user] == 0 && waits {
                            queue.push_back(user);
                        }
                    }
                }
            }
        }
    }

    fn nodes_of(&self, item: usize) -> Vec<usize> {
        let num_nodes = self.func.nodes.len();
        if item < num_nodes { vec![item] } else { self.buckets[item - num_nodes].members.clone() }
    }
}

/// When each item is emitted.
fn times(func: &Func, buckets: &[Bucket], item_of: &[usize], users: &[Vec<usize>]) -> Vec<When> {
    let num_nodes = func.nodes.len();
    let mut when = vec![When::InOrder; num_nodes + buckets.len()];
    for (b, bucket) in buckets.iter().enumerate() {
        let is_gather = bucket.key.kind == CollectiveKind::AllGather;
        when[num_nodes + b] = if is_gather { When::Lazy } else { When::Eager };
    }
    let mut is_result = vec![false; func.num_values()];
    let mut is_accumulator = vec![false; func.num_values()];
    for result in &func.results {
        is_result[result.value.index()] = true;
        if let ResultKind::Update(param) = result.kind {
            is_accumulator[result.value.index()] = func.params[param].role == Role::GradAccum;
        }
    }
    for (i, node) in func.nodes.iter().enumerate().rev().filter(|(i, _)| item_of[*i] == *i) {
        // An accumulated gradient is added at once, so that it does not live to the end.
        let accumulates =
            matches!(node.op, Op::Add(_)) && node.outs.iter().all(|v| is_accumulator[v.index()]);
        let only_prepares = || {
            let mut all = node.outs.iter().flat_map(|v| &users[v.index()]).peekable();
            all.peek().is_some() && all.all(|&user| when[user] == When::Eager)
        };
        let is_used_outside = node.outs.iter().any(|v| is_result[v.index()]);
        if accumulates || (is_carried(node) && !is_used_outside && only_prepares()) {
            when[i] = When::Eager;
        }
    }
    when
}
