//! A topological order of a graph whose vertices are merged one pair at a time.
//!
//! Source: Pearce and Kelly, "A dynamic topological sort algorithm for directed acyclic graphs", 2006; contraction of a pair
//! is the insertion of edges both ways, and only vertices between the two are looked at.

use std::collections::BTreeSet;

/// Vertices a merge may look at; more and it is refused. Bounds the time of all merges; far pairs are rarely worth one.
const MAX_VISITS: usize = 400;

/// The graph and its order.
#[derive(Debug)]
pub(super) struct Order {
    /// Representative of each vertex.
    parent: Vec<u32>,
    /// Position of each representative.
    position: Vec<u32>,
    succs: Vec<Vec<u32>>,
    preds: Vec<Vec<u32>>,
    /// Visit stamp of each vertex, and the current one.
    stamp: Vec<u32>,
    clock: u32,
}

impl Order {
    /// Vertices `0..n` in their order; every edge goes up.
    pub(super) fn new(num_vertices: usize, edges: impl Iterator<Item = (u32, u32)>) -> Self {
        let n = u32::try_from(num_vertices).expect("fewer than 2^32 vertices");
        let mut order = Self {
            parent: (0..n).collect(),
            position: (0..n).collect(),
            succs: vec![Vec::new(); num_vertices],
            preds: vec![Vec::new(); num_vertices],
            stamp: vec![0; num_vertices],
            clock: 0,
        };
        for (from, to) in edges {
            debug_assert!(from < to, "edges follow program order");
            if order.succs[from as usize].last() != Some(&to) {
                order.succs[from as usize].push(to);
                order.preds[to as usize].push(from);
            }
        }
        order
    }

    /// The vertex that stands for `v`.
    pub(super) fn find(&self, v: u32) -> u32 {
        let mut v = v;
        while self.parent[v as usize] != v {
            v = self.parent[v as usize];
        }
        v
    }

    /// Merges two representatives, unless a path between them passes through a third (or is too long to know).
    /// The earlier one stands for both.
    pub(super) fn merge(&mut self, a: u32, b: u32) -> bool {
        let (lo, hi) = if self.position[a as usize] < self.position[b as usize] { (a, b) } else { (b, a) };
        let Some(mut above) = self.reach(lo, hi, true) else { return false };
        let Some(mut below) = self.reach(hi, lo, false) else { return false };
        let by_position = |list: &mut Vec<u32>, position: &[u32]| list.sort_by_key(|&v| position[v as usize]);
        by_position(&mut above, &self.position);
        by_position(&mut below, &self.position);
        let mut free: Vec<u32> =
            below.iter().chain([&lo, &hi]).chain(&above).map(|&v| self.position[v as usize]).collect();
        free.sort_unstable();
        // One position stays unused: the pair needs one.
        for (&v, &p) in below.iter().chain([&lo]).chain(&above).zip(&free) {
            self.position[v as usize] = p;
        }
        self.parent[hi as usize] = lo;
        let (succs, preds) =
            (std::mem::take(&mut self.succs[hi as usize]), std::mem::take(&mut self.preds[hi as usize]));
        self.succs[lo as usize].extend(succs);
        self.preds[lo as usize].extend(preds);
        true
    }

    /// What is reached from `from` and lies before `to` in that direction; `None` if `to` is reached through another vertex.
    fn reach(&mut self, from: u32, to: u32, up: bool) -> Option<Vec<u32>> {
        self.clock += 1;
        let (clock, limit) = (self.clock, self.position[to as usize]);
        let mut found = Vec::new();
        let mut next = 0;
        let mut at = from;
        loop {
            let neighbours = if up { &self.succs[at as usize] } else { &self.preds[at as usize] };
            for &v in neighbours {
                let v = self.find(v);
                if v == from || self.stamp[v as usize] == clock {
                    continue;
                }
                if v == to {
                    if at == from {
                        continue;
                    }
                    return None;
                }
                let position = self.position[v as usize];
                if if up { position < limit } else { position > limit } {
                    self.stamp[v as usize] = clock;
                    found.push(v);
                }
            }
            if found.len() > MAX_VISITS {
                return None;
            }
            match found.get(next) {
                Some(&v) => (at, next) = (v, next + 1),
                None => return Some(found),
            }
        }
    }
}

/// Groups in an order that respects dependencies and otherwise goes by first members. `reps` names the group of each
/// node, `depends` the nodes a node needs.
pub(super) fn by_first_member<G>(reps: &[u32], groups: Vec<G>, depends: impl Fn(u32) -> Vec<u32>) -> Vec<G> {
    let n = groups.len();
    let mut first = vec![u32::MAX; n];
    let mut waits = vec![0u32; n];
    let mut wakes: Vec<Vec<u32>> = vec![Vec::new(); n];
    for (node, &rep) in (0u32..).zip(reps) {
        first[rep as usize] = first[rep as usize].min(node);
        for rep_before in depends(node).into_iter().map(|d| reps[d as usize]).filter(|&before| before != rep)
        {
            wakes[rep_before as usize].push(rep);
            waits[rep as usize] += 1;
        }
    }
    let is_rep = |v: u32| reps[v as usize] == v;
    let mut ready: BTreeSet<(u32, u32)> = (0u32..)
        .take(n)
        .filter(|&v| is_rep(v) && waits[v as usize] == 0)
        .map(|v| (first[v as usize], v))
        .collect();
    let mut groups: Vec<Option<G>> = groups.into_iter().map(Some).collect();
    let mut sorted = Vec::new();
    while let Some((_, rep)) = ready.pop_first() {
        sorted.extend(groups[rep as usize].take());
        for &next in &wakes[rep as usize] {
            waits[next as usize] -= 1;
            if waits[next as usize] == 0 {
                ready.insert((first[next as usize], next));
            }
        }
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_a_merge_around_a_third_vertex() {
        // 0 -> 1 -> 2 and 0 -> 2.
        let mut order = Order::new(3, [(0, 1), (1, 2), (0, 2)].into_iter());
        assert!(!order.merge(0, 2));
        assert!(order.merge(0, 1));
        assert!(order.merge(order.find(1), 2));
        assert_eq!(order.find(2), 0);
    }

    #[test]
    fn merging_independent_vertices_orders_their_neighbours() {
        // 0 -> 1, 2 -> 3; {0, 3} merged makes 2 -> {0, 3} -> 1, so {1, 2} may not merge.
        let mut order = Order::new(4, [(0, 1), (2, 3)].into_iter());
        assert!(order.merge(0, 3));
        assert!(order.position[2] < order.position[0] && order.position[0] < order.position[1]);
        assert!(!order.merge(1, 2));
    }

    /// Random graphs: every refused merge is a real cycle, every accepted one leaves an acyclic quotient in order.
    #[test]
    fn agrees_with_a_search_of_the_quotient_graph() {
        let mut seed = 7u64;
        let mut next = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        for _ in 0..200 {
            let n = 12;
            let edges: Vec<(u32, u32)> = (0..16)
                .map(|_| (next(n) as u32, next(n) as u32))
                .filter(|(a, b)| a != b)
                .map(|(a, b)| (a.min(b), a.max(b)))
                .collect();
            let mut order = Order::new(n as usize, edges.iter().copied());
            for _ in 0..10 {
                let (a, b) = (order.find(next(n) as u32), order.find(next(n) as u32));
                if a == b {
                    continue;
                }
                let quotient: Vec<(u32, u32)> = edges
                    .iter()
                    .map(|&(x, y)| (order.find(x), order.find(y)))
                    .map(|(x, y)| (if x == b { a } else { x }, if y == b { a } else { y }))
                    .filter(|(x, y)| x != y)
                    .collect();
                assert_eq!(order.merge(a, b), is_acyclic(n as u32, &quotient));
                for &(x, y) in &edges {
                    let (x, y) = (order.find(x), order.find(y));
                    assert!(x == y || order.position[x as usize] < order.position[y as usize]);
                }
            }
        }
    }

    fn is_acyclic(n: u32, edges: &[(u32, u32)]) -> bool {
        let mut left: Vec<u32> = (0..n).collect();
        loop {
            let sources: Vec<u32> = left
                .iter()
                .copied()
                .filter(|v| !edges.iter().any(|(x, y)| y == v && left.contains(x)))
                .collect();
            if sources.is_empty() {
                return left.is_empty();
            }
            left.retain(|v| !sources.contains(v));
        }
    }
}
