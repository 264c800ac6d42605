//! The order in which a sum is taken, where a device promises none.

/// What a launch adds in: ascending, or as it pleases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// From first to last.
    Fixed,
    /// From somewhere in the middle, up or down, around the end.
    Seeded(u64),
}

impl Order {
    /// The index that comes at place `i` of `n`.
    pub(crate) fn index(self, i: usize, n: usize) -> usize {
        match self {
            Self::Fixed => i,
            Self::Seeded(seed) => {
                let first = (seed >> 1) % n.max(1) as u64;
                let turned = (i + first as usize) % n.max(1);
                if seed & 1 == 0 { turned } else { n - 1 - turned }
            }
        }
    }

    /// All indices below `n`.
    pub(crate) fn indices(self, n: usize) -> impl Iterator<Item = usize> {
        (0..n).map(move |i| self.index(i, n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_index_comes_once() {
        for seed in 0..50 {
            for n in 1..9 {
                let seen: BTreeSet<usize> = Order::Seeded(seed * 7919).indices(n).collect();
                assert_eq!(seen, (0..n).collect());
            }
        }
    }
}
