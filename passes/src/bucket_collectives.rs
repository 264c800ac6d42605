//! One collective per transformer block instead of one per weight, placed where it costs least.
//!
//! * The gathers of a block's weights become one `all_gather`, right before the first use of any of them.
//! * The reductions of a block's gradients become one `reduce_scatter` (or `all_reduce`), as soon as the last of them is known, wherever
//!   the optimizer wrote them; what only prepares them (casts, padding) moves along.
//!
//! A block is what shares a module path up to the first number; collectives outside blocks join their neighbours. Forward and
//! backward gathers (recomputed ones) stay apart. Memory grows by one block's weights and gradients at most. Merging never makes
//! a cycle: a bucket that would is taken apart again.

use crate::collectives::{block_of, collective, from_params, is_carried};
use crate::pass::{Changed, NumericsClass, Pass, PassCx};
use titan_ir::kernel::CollectiveKind;
use titan_ir::{
    AxisId, DType, DiagResult, Func, LocId, Module, Node, Op, Phase, ResultKind, Role, ValueId, ice,
};

/// The pass.
#[derive(Debug, Clone)]
pub struct BucketCollectives {
    /// Merge the collectives of a block; otherwise each is only placed.
    pub by_block: bool,
    /// Most bytes of the larger side of one bucket; a tensor that is larger has a bucket of its own.
    pub max_bytes: u64,
}

impl Default for BucketCollectives {
    fn default() -> Self {
        Self { by_block: true, max_bytes: u64::MAX }
    }
}

impl Pass for BucketCollectives {
    fn name(&self) -> &'static str {
        "bucket-collectives"
    }

    fn summary(&self) -> &'static str {
        "merge the collectives of a block and place them where they cost least"
    }

    fn numerics(&self) -> NumericsClass {
        NumericsClass::Exact
    }

    fn run(&self, module: &mut Module, _cx: &mut PassCx) -> DiagResult<Changed> {
        for func in &mut module.funcs {
            let mut buckets = self.buckets(func);
            let order = loop {
                match Emitter::new(func, &buckets).run() {
                    Ok(order) => break order,
                    Err(bucket) => split(&mut buckets, bucket),
                }
            };
            rebuild(func, &buckets, order);
        }
        Ok(Changed::Yes)
    }
}

/// What the members of a bucket have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    kind: CollectiveKind,
    axis: AxisId,
    dtype: DType,
    phase: Phase,
    block: Option<String>,
}

/// Nodes merged into one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Bucket {
    key: Key,
    /// In the order of the merged operands.
    members: Vec<usize>,
    bytes: u64,
}

impl BucketCollectives {
    /// All collectives that may move, grouped.
    fn buckets(&self, func: &Func) -> Vec<Bucket> {
        let anytime = from_params(func);
        let ready = ready_positions(func);
        let is_movable = |&i: &usize| match collective(&func.nodes[i].op) {
            Some((CollectiveKind::AllGather, _)) => anytime[i],
            kind => kind.is_some(),
        };
        let mut nodes: Vec<usize> = (0..func.nodes.len()).filter(is_movable).collect();
        nodes.sort_by_key(|&i| if anytime[i] { i } else { ready[i] });
        let mut buckets: Vec<Bucket> = Vec::new();
        // The bucket that still grows, per kind, axis and element type: a handful.
        let mut open: Vec<usize> = Vec::new();
        for i in nodes {
            let key = key(func, i);
            let bytes = bytes(func, &func.nodes[i]);
            let slot = open.iter().position(|&b| {
                let k = &buckets[b].key;
                (k.kind, k.axis, k.dtype) == (key.kind, key.axis, key.dtype)
            });
            if let Some(slot) = slot {
                let bucket = &mut buckets[open[slot]];
                if self.by_block && bucket.key == key && bucket.bytes + bytes <= self.max_bytes {
                    bucket.members.push(i);
                    bucket.bytes += bytes;
                    continue;
                }
                open.remove(slot);
            }
            open.push(buckets.len());
            buckets.push(Bucket { key, members: vec![i], bytes });
        }
        buckets
    }
}

fn key(func: &Func, i: usize) -> Key {
    let node = &func.nodes[i];
    let (kind, axis) = collective(&node.op).expect("only collectives are bucketed");
    let block = block_of(func.path(node.loc)).map(str::to_owned);
    Key { kind, axis, dtype: func.ty(node.ins[0]).dtype, phase: node.phase, block }
}

fn bytes(func: &Func, node: &Node) -> u64 {
    let of = |values: &[ValueId]| values.iter().map(|&v| func.ty(v).size_bytes()).sum::<u64>();
    of(&node.ins).max(of(&node.outs))
}

/// For every node the position of the last node it waits for, where what only prepares a collective, and collectives, take no time.
fn ready_positions(func: &Func) -> Vec<usize> {
    let defs = func.defs();
    let mut ready = vec![0; func.nodes.len()];
    for (i, node) in func.nodes.iter().enumerate() {
        let moves = is_carried(node) || collective(&node.op).is_some();
        let operands =
            || node.ins.iter().filter_map(|v| defs[v.index()]).map(|def| ready[def as usize]).max();
        ready[i] = if moves { operands().unwrap_or(0) } else { i };
    }
    ready
}

fn split(buckets: &mut Vec<Bucket>, at: usize) {
    let bucket = buckets.remove(at);
    for (k, &member) in bucket.members.iter().enumerate() {
        buckets.insert(at + k, Bucket { members: vec![member], ..bucket.clone() });
    }
}

/// One node or one bucket of the new program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Item {
    Node(usize),
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

    /// The new order.
    ///
    /// # Errors
    /// A bucket that waits for itself.
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
        let mut queue = std::collections::VecDeque::from([item]);
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

fn rebuild(func: &mut Func, buckets: &[Bucket], order: Vec<Item>) {
    let locs: Vec<LocId> = buckets.iter().map(|bucket| loc(func, bucket)).collect();
    let mut old: Vec<Option<Node>> = std::mem::take(&mut func.nodes).into_iter().map(Some).collect();
    let mut take = |i: usize| old[i].take().expect("each node is emitted once");
    for item in order {
        let node = match item {
            Item::Node(i) => take(i),
            Item::Bucket(b) => {
                let mut members = buckets[b].members.iter().map(|&member| take(member));
                let mut merged = members.next().expect("a bucket has members");
                for node in members {
                    merged.ins.extend(node.ins);
                    merged.outs.extend(node.outs);
                }
                Node { loc: locs[b], ..merged }
            }
        };
        func.nodes.push(node);
    }
}

/// The path of a bucket: the block's, or outside blocks that of the largest tensor.
fn loc(func: &mut Func, bucket: &Bucket) -> LocId {
    let node = |i: usize| &func.nodes[i];
    match &bucket.key.block {
        Some(block) if bucket.members.len() > 1 => func.intern(block),
        _ => {
            let largest = bucket.members.iter().rev().max_by_key(|&&i| bytes(func, node(i)));
            node(*largest.expect("a bucket has members")).loc
        }
    }
}
