//! Which write the module means each read to see.

use std::collections::{BTreeMap, VecDeque};
use titan_ir::plan::Action;
use titan_ir::{Func, Lowering, Module, Node, ResultKind, Role};

/// A write: of a node in one round, or of the host.
pub(super) type Origin = u32;

/// The fill that clears accumulators.
const ZEROS: Origin = 0;

/// What an instruction must read and write.
#[derive(Debug, Default)]
pub(super) struct Expected {
    reads: VecDeque<Origin>,
    writes: VecDeque<Origin>,
    /// Whether it copies: what it writes is what it has read.
    copies: bool,
    /// Whether the module has nothing left to run.
    pub(super) surplus: bool,
}

impl Expected {
    /// What the next read must see.
    pub(super) fn read(&mut self) -> Option<Origin> {
        self.reads.pop_front()
    }

    /// Tells what a read has seen.
    pub(super) fn seen(&mut self, origins: &[Origin]) {
        if let (true, [origin]) = (self.copies, origins) {
            self.writes.push_back(*origin);
        }
    }

    /// What the next write is.
    pub(super) fn write(&mut self) -> Option<Origin> {
        self.writes.pop_front()
    }
}

/// The module, walked along with the plan.
#[derive(Debug)]
pub(super) struct Origins<'a> {
    module: &'a Module,
    /// What each origin is called.
    names: Vec<String>,
    /// The origin each state has now.
    states: BTreeMap<&'a str, Origin>,
    outputs: BTreeMap<&'a str, Origin>,
    func: Option<&'a Func>,
    /// Nodes of `func` that have run, and the origin of each of its values.
    num_done: usize,
    values: Vec<Origin>,
    /// The write that completes a padding.
    padding: Option<Origin>,
}

impl<'a> Origins<'a> {
    /// Before the first instruction.
    pub(super) fn new(module: &'a Module) -> Self {
        let mut this = Self {
            module,
            names: vec!["zeros".to_owned()],
            states: BTreeMap::new(),
            outputs: BTreeMap::new(),
            func: None,
            num_done: 0,
            values: Vec::new(),
            padding: None,
        };
        for param in module.funcs.iter().flat_map(|f| &f.params) {
            let origin = match param.role {
                Role::GradAccum => ZEROS,
                _ => this.name(format!("`{}`", param.name)),
            };
            this.states.entry(&param.name).or_insert(origin);
        }
        this
    }

    fn name(&mut self, name: String) -> Origin {
        self.names.push(name);
        u32::try_from(self.names.len() - 1).expect("fewer than 2^32 writes")
    }

    /// The origin of a state or input now.
    pub(super) fn state(&self, name: &str) -> Origin {
        self.states.get(name).copied().unwrap_or(ZEROS)
    }

    /// What an origin is called.
    pub(super) fn describe(&self, origin: Origin) -> &str {
        &self.names[origin as usize]
    }

    /// Begins a segment.
    pub(super) fn enter(&mut self, segment: &str) {
        self.func = self.module.funcs.iter().find(|f| f.name == segment);
        self.num_done = 0;
        self.values = self.func.map_or_else(Vec::new, |f| vec![ZEROS; f.num_values()]);
        for param in self.func.into_iter().flat_map(|f| &f.params) {
            self.values[param.value.index()] = self.state(&param.name);
        }
    }

    /// What the next instruction is to the module.
    pub(super) fn next(&mut self, action: &Action) -> Expected {
        if let Some(origin) = self.padding.take() {
            return Expected { writes: VecDeque::from([origin]), ..Expected::default() };
        }
        let Some(func) = self.func else {
            return Expected { writes: VecDeque::from([ZEROS]), ..Expected::default() };
        };
        while let Some(node) = func.nodes.get(self.num_done) {
            self.num_done += 1;
            if let Some(expected) = self.node(func, node) {
                return expected;
            }
        }
        let copies = matches!(action, Action::Copy { .. });
        Expected { copies, surplus: !copies, ..Expected::default() }
    }

    /// What a node reads and writes; `None` if nothing runs.
    fn node(&mut self, func: &Func, node: &Node) -> Option<Expected> {
        let types = |values: &[titan_ir::ValueId]| values.iter().map(|&v| func.ty(v)).collect::<Vec<_>>();
        let (ins, outs) = (types(&node.ins), types(&node.outs));
        let lowering = node.op.rules().lower(&ins, &outs);
        let reads = node.ins.iter().map(|v| self.values[v.index()]).collect();
        if matches!(lowering, Lowering::View | Lowering::Guard) {
            self.values[node.outs[0].index()] = self.values[node.ins[0].index()];
            return matches!(lowering, Lowering::Guard).then(|| Expected { reads, ..Expected::default() });
        }
        let mut expected = Expected { reads, ..Expected::default() };
        for &out in &node.outs {
            let origin = self.name(format!("{} {out:?} of {}", node.op.rules().name(), func.path(node.loc)));
            self.values[out.index()] = origin;
            expected.writes.push_back(origin);
        }
        if matches!(lowering, Lowering::Pad) && outs[0].size_bytes() > ins[0].size_bytes() {
            self.padding = expected.writes.front().copied();
        }
        Some(expected)
    }

    /// Ends a segment: the states it updates, with their new values; `None` if nodes are left.
    pub(super) fn leave(&mut self) -> Option<Vec<(&'a str, Origin)>> {
        let mut updated = Vec::new();
        let Some(func) = self.func else { return Some(updated) };
        while let Some(node) = func.nodes.get(self.num_done) {
            self.num_done += 1;
            if self.node(func, node).is_some() {
                return None;
            }
        }
        for result in &func.results {
            let origin = self.values[result.value.index()];
            match &result.kind {
                ResultKind::Update(param) => updated.push((func.params[*param].name.as_str(), origin)),
                ResultKind::Output(name) => drop(self.outputs.insert(name, origin)),
            }
        }
        self.states.extend(updated.iter().copied());
        Some(updated)
    }

    /// The outputs of the step.
    pub(super) fn outputs(&self) -> Vec<(&'a str, Origin)> {
        self.outputs.iter().map(|(&name, &origin)| (name, origin)).collect()
    }
}
