//! `schedule`: the order of kernels, and what runs beside what.
//!
//! Program order is kept but for kernels that hold memory where they stand: one that makes more bytes than die with it sinks to
//! its first reader, one that frees more than it makes rises to the last of its operands. Nothing leaves its phase or moves far,
//! collectives stay where they were placed, and a reader of a reduced gradient rises no farther than the next reduction,
//! where compute waits anyway. Each of the two moves is kept only if it lowers the peak, or at equal peak the bytes held over time.
//!
//! [`streams`] then puts collectives beside compute.

pub mod streams;

use crate::pass::{Changed, NumericsClass, Pass, PassCx};
use crate::place::held_bytes;
use crate::schedule::streams::lowering;
use titan_ir::kernel::CollectiveKind;
use titan_ir::{DiagResult, Func, Lowering, Module, Node, Phase, Stage, ValueId};

/// Most nodes a kernel may pass.
const MAX_DISTANCE: usize = 256;

/// The pass.
#[derive(Debug, Clone, Copy, Default)]
pub struct Schedule;

impl Pass for Schedule {
    fn name(&self) -> &'static str {
        "schedule"
    }

    fn summary(&self) -> &'static str {
        "move kernels to where they hold less memory"
    }

    fn numerics(&self) -> NumericsClass {
        NumericsClass::Exact
    }

    fn stages(&self) -> &'static [Stage] {
        &[Stage::Kernels]
    }

    fn run(&self, module: &mut Module, _cx: &mut PassCx) -> DiagResult<Changed> {
        // Best so far: peak, then bytes times time.
        let mut least = held_bytes(module)?;
        let mut changed = Changed::No;
        for moves in [Facts::sink, Facts::rise] {
            let mut moved = module.clone();
            moved.funcs.iter_mut().for_each(|func| reorder(func, moves));
            let held = held_bytes(&moved)?;
            if held < least {
                (*module, least, changed) = (moved, held, Changed::Yes);
            }
        }
        Ok(changed)
    }
}

/// Sorts nodes by their new places; among equals program order stays.
fn reorder(func: &mut Func, moves: fn(&Facts, &Func) -> Vec<usize>) {
    let places = moves(&Facts::of(func), func);
    let mut nodes: Vec<_> = places.into_iter().zip(std::mem::take(&mut func.nodes)).collect();
    nodes.sort_by_key(|(place, _)| *place);
    func.nodes = nodes.into_iter().map(|(_, node)| node).collect();
}

/// What a node is to its neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// May move.
    Kernel,
    /// Costs nothing.
    View,
    /// Stays; a reduction of gradients.
    Reduction,
    /// Stays.
    Fixed,
}

/// Facts about the nodes of a function in its present order.
#[derive(Debug)]
struct Facts {
    kinds: Vec<Kind>,
    defs: Vec<Option<u32>>,
    /// The value each one is a view of.
    root: Vec<ValueId>,
    /// Per node bytes it makes, less those that die with it.
    grows_bytes: Vec<i64>,
}

impl Facts {
    fn of(func: &Func) -> Self {
        let kinds: Vec<Kind> = func.nodes.iter().map(|node| kind(func, node)).collect();
        // Values that never die, seen through views.
        let mut root: Vec<ValueId> = (0..func.num_values()).map(ValueId::new).collect();
        let mut stays = vec![false; func.num_values()];
        func.params.iter().for_each(|p| stays[p.value.index()] = true);
        let mut last_reader = vec![usize::MAX; func.num_values()];
        for (n, node) in func.nodes.iter().enumerate() {
            if kinds[n] == Kind::View {
                root[node.outs[0].index()] = root[node.ins[0].index()];
            } else {
                node.ins.iter().for_each(|v| last_reader[root[v.index()].index()] = n);
            }
        }
        func.results.iter().for_each(|r| stays[root[r.value.index()].index()] = true);
        let grows = |(n, node): (usize, &Node)| {
            let bytes =
                |v: ValueId| i64::try_from(func.ty(v).size_bytes()).expect("a buffer is below 2^63 bytes");
            let mut dying: Vec<ValueId> = node.ins.iter().map(|v| root[v.index()]).collect();
            dying.sort_unstable();
            dying.dedup();
            dying.retain(|r| !stays[r.index()] && last_reader[r.index()] == n);
            let made: i64 = node.outs.iter().filter(|v| !stays[v.index()]).map(|&v| bytes(v)).sum();
            made - dying.into_iter().map(bytes).sum::<i64>()
        };
        let grows_bytes = func.nodes.iter().enumerate().map(grows).collect();
        Self { kinds, defs: func.defs(), root, grows_bytes }
    }

    /// Places of all nodes once those that grow memory stand before their first reader.
    fn sink(&self, func: &Func) -> Vec<usize> {
        let mut places: Vec<usize> = (0..func.nodes.len()).collect();
        let mut first_read = vec![usize::MAX; func.num_values()];
        for (n, node) in func.nodes.iter().enumerate().rev() {
            let first = node.outs.iter().map(|v| first_read[v.index()]).min().unwrap_or(usize::MAX);
            let near = |reader: &Node| first - n <= MAX_DISTANCE && reader.phase == node.phase;
            let reader = func.nodes.get(first);
            let sinks = match self.kinds[n] {
                Kind::View => reader.is_some(),
                Kind::Kernel => self.grows_bytes[n] > 0 && reader.is_some_and(near),
                Kind::Reduction | Kind::Fixed => false,
            };
            if sinks {
                places[n] = first;
            }
            node.ins.iter().for_each(|v| first_read[v.index()] = first_read[v.index()].min(places[n]));
        }
        places
    }

    /// Places of all nodes once those that shrink memory stand behind their last operand.
    fn rise(&self, func: &Func) -> Vec<usize> {
        let reductions: Vec<usize> =
            (0..func.nodes.len()).filter(|&n| self.kinds[n] == Kind::Reduction).collect();
        let mut places: Vec<usize> = (0..func.nodes.len()).collect();
        for (n, node) in func.nodes.iter().enumerate() {
            let made = |v: &ValueId| self.defs[v.index()].map(|def| def as usize);
            let source = |v: &ValueId| made(&self.root[v.index()]);
            let ready = node.ins.iter().filter_map(|v| {
                let place = places[made(v)?];
                // Compute waits for a reduction when the next one is issued.
                let wait = source(v).filter(|&def| self.kinds[def] == Kind::Reduction).and_then(|def| {
                    let next = reductions.partition_point(|&r| r <= def);
                    reductions.get(next).copied()
                });
                Some(wait.unwrap_or(place).max(place))
            });
            let ready = ready.max().unwrap_or(n);
            let after_fixed = node.ins.iter().filter_map(source).any(|def| self.kinds[def] == Kind::Fixed);
            let rises = match self.kinds[n] {
                Kind::View => true,
                Kind::Kernel => self.grows_bytes[n] < 0 && !after_fixed,
                Kind::Reduction | Kind::Fixed => false,
            };
            if rises && ready < n {
                places[n] = ready;
            }
        }
        places
    }
}

fn kind(func: &Func, node: &Node) -> Kind {
    match lowering(func, node) {
        Lowering::View => Kind::View,
        Lowering::Collective(CollectiveKind::ReduceScatter(_) | CollectiveKind::AllReduce(_), _) => {
            Kind::Reduction
        }
        Lowering::Launch(_) if node.phase != Phase::Update => Kind::Kernel,
        _ => Kind::Fixed,
    }
}
