//! Values share buffers: views, kernels that write over an operand, state updated in place.

use super::{CopyBack, Home, Interval, State, aligned};
use crate::schedule::streams::{Timeline, lowering};
use titan_ir::kernel::{Access, Input, KernelSpec, Native, RowKernel, Store};
use titan_ir::{Diag, DiagResult, Func, Lowering, Module, Node, ResultKind, Role, ValueId};

/// Buffers of a module.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// Per function and value.
    pub(super) homes: Vec<Vec<Option<Home>>>,
    /// The step arena.
    pub(super) step: Vec<Interval>,
    /// After the last entry of their functions.
    pub(super) copies: Vec<CopyBack>,
}

/// Decides which values share memory, and when each buffer is in use.
///
/// # Errors
/// T0502 when a state takes the value of another that is updated too.
pub(super) fn buffers(module: &Module, timelines: &[Timeline], states: &[State]) -> DiagResult<Buffers> {
    let mut builder = Builder {
        states,
        last_entry: timelines.iter().map(Timeline::num_entries).sum::<u32>().saturating_sub(1),
        first_entry: 0,
        inputs: Vec::new(),
        buffers: Buffers::default(),
    };
    for (f, (func, timeline)) in (0u32..).zip(module.funcs.iter().zip(timelines)) {
        builder.func(f, func, timeline)?;
        builder.first_entry += timeline.num_entries();
    }
    Ok(builder.buffers)
}

struct Builder<'a> {
    states: &'a [State],
    /// Last entry of all timelines, and first of the current one.
    last_entry: u32,
    first_entry: u32,
    inputs: Vec<(&'a str, Home)>,
    buffers: Buffers,
}

impl<'a> Builder<'a> {
    fn func(&mut self, f: u32, func: &'a Func, timeline: &Timeline) -> DiagResult<()> {
        let mut shares = Shares::of(func, timeline);
        let copies = shares.update_in_place();
        shares.write_over_operands();
        let mut homes: Vec<Option<Home>> = vec![None; func.num_values()];
        for param in &func.params {
            homes[param.value.index()] = Some(self.param(f, func, param));
        }
        for v in 0..func.num_values() {
            let root = shares.root(v);
            if homes[root].is_none()
                && let Some((start, end)) = shares.span[root]
            {
                let value = ValueId::new(root);
                let end = if shares.kept[root] { self.last_entry } else { self.first_entry + end };
                let size_bytes = aligned(func.ty(value).size_bytes());
                let start = self.first_entry + start;
                homes[root] = Some(self.step(Interval { func: f, value, start, end, size_bytes }));
            }
            homes[v] = homes[root];
        }
        for (value, param) in copies {
            self.copy(f, func, &homes, value, param)?;
        }
        self.buffers.homes.push(homes);
        Ok(())
    }

    fn param(&mut self, f: u32, func: &Func, param: &'a titan_ir::Param) -> Home {
        if param.role != Role::Input {
            return self.state(&param.name);
        }
        if let Some(&(_, home)) = self.inputs.iter().find(|(name, _)| *name == param.name) {
            return home;
        }
        let size_bytes = aligned(func.ty(param.value).size_bytes());
        let whole_step = Interval { func: f, value: param.value, start: 0, end: self.last_entry, size_bytes };
        let home = self.step(whole_step);
        self.inputs.push((&param.name, home));
        home
    }

    fn state(&self, name: &str) -> Home {
        let at = self.states.iter().position(|s| s.name == name).expect("every state is listed");
        Home::State(u32::try_from(at).expect("fewer than 2^32 states"))
    }

    fn step(&mut self, interval: Interval) -> Home {
        self.buffers.step.push(interval);
        Home::Step(u32::try_from(self.buffers.step.len() - 1).expect("fewer than 2^32 buffers"))
    }

    fn copy(
        &mut self,
        f: u32,
        func: &Func,
        homes: &[Option<Home>],
        value: ValueId,
        param: usize,
    ) -> DiagResult<()> {
        let src = homes[value.index()].expect("results are in memory");
        let dst = self.state(&func.params[param].name);
        let changes = |home: Home| {
            let updates = func.results.iter().filter_map(|r| match r.kind {
                ResultKind::Update(p) => Some(&func.params[p]),
                ResultKind::Output(_) => None,
            });
            updates.into_iter().any(|p| homes[p.value.index()] == Some(home))
        };
        if matches!(src, Home::State(_)) && changes(src) {
            let name = &func.params[param].name;
            let message = format!("`{name}` takes the value of a state that is updated in the same step");
            return Err(Diag::new("T0502", message).at(name.clone()));
        }
        self.buffers.copies.push(CopyBack { func: f, src, dst, size_bytes: func.ty(value).size_bytes() });
        Ok(())
    }
}

/// Which values of a function share a buffer, and its use.
struct Shares<'a> {
    func: &'a Func,
    timeline: &'a Timeline,
    /// The value whose buffer each one is in, perhaps through others.
    parent: Vec<u32>,
    /// Per root the first and last entry that use it.
    span: Vec<Option<(u32, u32)>>,
    /// Per root whether it is needed after the last entry.
    kept: Vec<bool>,
    is_param: Vec<bool>,
    defs: Vec<Option<u32>>,
}

impl<'a> Shares<'a> {
    /// Only views share.
    fn of(func: &'a Func, timeline: &'a Timeline) -> Self {
        let num = func.num_values();
        let mut shares = Self {
            func,
            timeline,
            parent: (0..u32::try_from(num).expect("fewer than 2^32 values")).collect(),
            span: vec![None; num],
            kept: vec![false; num],
            is_param: vec![false; num],
            defs: func.defs(),
        };
        func.params.iter().for_each(|p| shares.is_param[p.value.index()] = true);
        for (n, node) in func.nodes.iter().enumerate() {
            let is_view = matches!(lowering(func, node), Lowering::View | Lowering::Guard);
            if is_view {
                shares.parent[node.outs[0].index()] = node.ins[0].0;
            }
            if let (Some(start), Some(end)) = (timeline.issued[n], timeline.done[n]) {
                let outs = node.outs.iter().filter(|_| !is_view);
                for v in node.ins.iter().chain(outs) {
                    let root = shares.root(v.index());
                    shares.extend(root, (start, end));
                }
            }
        }
        for result in func.results.iter().filter(|r| matches!(r.kind, ResultKind::Output(_))) {
            let root = shares.root(result.value.index());
            shares.kept[root] = true;
        }
        shares
    }

    fn root(&self, value: usize) -> usize {
        let mut v = value;
        while self.parent[v] as usize != v {
            v = self.parent[v] as usize;
        }
        v
    }

    fn extend(&mut self, root: usize, (start, end): (u32, u32)) {
        let span = self.span[root].get_or_insert((start, end));
        *span = (span.0.min(start), span.1.max(end));
    }

    /// Puts root `from` into the buffer of root `into`.
    fn join(&mut self, from: usize, into: usize) {
        self.parent[from] = u32::try_from(into).expect("a value");
        if let Some(span) = self.span[from] {
            self.extend(into, span);
        }
        self.kept[into] |= self.kept[from];
    }

    fn size_bytes(&self, value: usize) -> u64 {
        self.func.ty(ValueId::new(value)).size_bytes()
    }

    /// Makes next values of states where the states are; the updates for which that is impossible come back and are kept.
    fn update_in_place(&mut self) -> Vec<(ValueId, usize)> {
        let mut copies = Vec::new();
        for result in &self.func.results {
            let ResultKind::Update(param) = result.kind else { continue };
            let (state, made) = (self.func.params[param].value.index(), self.root(result.value.index()));
            if made == state {
                continue;
            }
            if self.may_replace(made, state) {
                self.join(made, state);
            } else {
                self.kept[made] = true;
                copies.push((result.value, param));
            }
        }
        copies
    }

    /// Whether value `made` may be written where `state` is.
    fn may_replace(&self, made: usize, state: usize) -> bool {
        let Some(n) = self.defs[made] else { return false };
        let Some(at) = self.timeline.issued[n as usize] else { return false };
        if self.is_param[made] || self.kept[state] || self.size_bytes(made) != self.size_bytes(state) {
            return false;
        }
        match self.span[state] {
            None => true,
            Some((_, last)) if last < at => true,
            Some((_, last)) => last == at && self.may_write_over(&self.func.nodes[n as usize], made, state),
        }
    }

    /// Lets kernels write over operands that die there.
    fn write_over_operands(&mut self) {
        // The entry at which a root was last written over: at most one result may.
        let mut written_at: Vec<Option<u32>> = vec![None; self.parent.len()];
        for (n, node) in self.func.nodes.iter().enumerate() {
            let (Some(at), true) =
                (self.timeline.issued[n], self.timeline.issued[n] == self.timeline.done[n])
            else {
                continue;
            };
            for out in &node.outs {
                let out = out.index();
                if self.root(out) != out || self.is_param[out] {
                    continue;
                }
                let dying = node.ins.iter().map(|v| self.root(v.index())).find(|&r| {
                    !self.is_param[r]
                        && !self.kept[r]
                        && self.span[r].is_some_and(|(start, end)| start < at && end == at)
                        && written_at[r] != Some(at)
                        && aligned(self.size_bytes(r)) == aligned(self.size_bytes(out))
                        && self.may_write_over(node, out, r)
                });
                if let Some(root) = dying {
                    written_at[root] = Some(at);
                    self.join(out, root);
                }
            }
        }
    }

    /// Whether `node` reads the buffer of `root` only element by element, each before it writes that element of `out`.
    fn may_write_over(&self, node: &Node, out: usize, root: usize) -> bool {
        let Lowering::Launch(spec) = lowering(self.func, node) else { return false };
        let (kernel, whole, inputs): (&RowKernel, usize, &[Input]) = match &*spec {
            KernelSpec::Row(kernel) => (kernel, 0, &kernel.inputs),
            KernelSpec::Native(Native::Contract(c)) => match &c.epilogue {
                Some(kernel) => (kernel, 2, &kernel.inputs[1..]),
                None => return false,
            },
            KernelSpec::Native(_) => return false,
        };
        let Some(at) = node.outs.iter().position(|v| v.index() == out) else { return false };
        let output = &kernel.outputs[at];
        let in_root = |v: &ValueId| self.root(v.index()) == root;
        output.store == Store::Full
            && !node.ins[..whole].iter().any(in_root)
            && node.ins[whole..].iter().zip(inputs).filter(|(v, _)| in_root(v)).all(|(_, input)| {
                input.access == Access::Full && input.dtype.size_bytes() == output.dtype.size_bytes()
            })
    }
}
