//! Pairs of nodes worth a common kernel, best first.

use super::unit::{Source, Unit, Units};
use titan_ir::kernel::Access;
use titan_ir::{Func, Phase, ValueId};

/// Farther apart in program order than this, nodes that share only a read are left alone: one of them would wait
/// for the other, and with it all that they hold.
const MAX_DISTANCE: u32 = 64;

/// The same for nodes of different phases: what backward recomputes must not be kept from forward after all.
const MAX_PHASE_DISTANCE: u32 = 16;

/// Two nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    /// The producer, or the earlier sibling.
    pub(super) a: u32,
    /// The consumer, or the later sibling.
    pub(super) b: u32,
}

/// Why two nodes may share a kernel; at equal savings the first kind goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A fragment feeds a fragment.
    Feeds,
    /// A contraction feeds a fragment.
    Epilogue,
    /// Both read the same tensor.
    Siblings,
}

/// All pairs, in the order to try them: most saved bytes first. A value nobody else reads is neither written nor
/// read, any other is not read once more. Of equal pairs the earlier goes first, but the last of several contractions
/// takes the epilogue, because its operands are the last to be known.
pub(super) fn pairs(func: &Func, units: &Units) -> Vec<Pair> {
    let readers = readers(func, units);
    let mut pairs = Vec::new();
    for (v, readers) in readers.iter().enumerate() {
        let value = ValueId::new(v);
        let bytes = func.ty(value).size_bytes();
        let fragments: Vec<u32> = readers
            .nodes
            .iter()
            .copied()
            .filter(|&n| matches!(units.units[n as usize], Unit::Fragment(_)))
            .collect();
        if let Some(def) = units.defs[v] {
            let kind = match units.units[def as usize] {
                Unit::Fragment(_) => Some(Kind::Feeds),
                Unit::Contract(_) => Some(Kind::Epilogue),
                Unit::Native(_) | Unit::Plain => None,
            };
            if let Some(kind) = kind {
                let only = readers.nodes.len() == 1 && !readers.is_result;
                let saved = if only { 2 * bytes } else { bytes };
                let near = fragments.iter().filter(|&&b| near(func, def, b, only));
                pairs.extend(near.map(|&b| (saved, kind, Pair { a: def, b })));
            }
        }
        let full: Vec<u32> = fragments.into_iter().filter(|&n| reads_fully(func, units, n, value)).collect();
        let siblings = full.windows(2).filter(|w| near(func, w[0], w[1], false));
        pairs.extend(siblings.map(|w| (bytes, Kind::Siblings, Pair { a: w[0], b: w[1] })));
    }
    pairs.sort_by_key(|&(saved, kind, Pair { a, b })| {
        let (a, b) = (i64::from(a), i64::from(b));
        (std::cmp::Reverse(saved), kind, if kind == Kind::Epilogue { (-a, -b) } else { (a, b) })
    });
    pairs.into_iter().map(|(_, _, pair)| pair).collect()
}

/// Whether running nodes `a < b` together delays little; `only` says that `b` alone reads what `a` makes.
fn near(func: &Func, a: u32, b: u32, only: bool) -> bool {
    let [a_phase, b_phase] = [a, b].map(|n| func.nodes[n as usize].phase);
    let apart = (a_phase == Phase::Forward) != (b_phase == Phase::Forward);
    b - a <= MAX_PHASE_DISTANCE || (!apart && only) || (a_phase == b_phase && b - a <= MAX_DISTANCE)
}

#[derive(Debug, Clone, Default)]
struct Readers {
    /// In program order, each once.
    nodes: Vec<u32>,
    is_result: bool,
}

/// Who reads each value, seen through views.
fn readers(func: &Func, units: &Units) -> Vec<Readers> {
    let mut readers = vec![Readers::default(); func.num_values()];
    for n in (0..func.nodes.len()).filter(|&n| units.live[n]) {
        for v in units.reads(func, n) {
            let node = u32::try_from(n).expect("fewer than 2^32 nodes");
            let list = &mut readers[v.index()].nodes;
            if list.last() != Some(&node) {
                list.push(node);
            }
        }
    }
    for result in &func.results {
        readers[units.stored(result.value).index()].is_result = true;
    }
    readers
}

/// Whether fragment `n` reads `value` element by element.
fn reads_fully(func: &Func, units: &Units, n: u32, value: ValueId) -> bool {
    let Unit::Fragment(fragment) = &units.units[n as usize] else { return false };
    let operands = func.nodes[n as usize].ins.iter().zip(&fragment.inputs);
    operands.into_iter().any(|(&v, i)| i.access == Access::Full && units.source(v) == Source::Memory(value))
}
