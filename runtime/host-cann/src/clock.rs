//! Vector clocks: what is known to have happened before.

/// The clock component of the host. Its threads count as one: how they wait for each other is not seen here.
pub(crate) const HOST: u32 = 0;

/// The last moment of every component that is known to be past. Components are the host, streams and lanes of graphs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Clock(Vec<(u32, u64)>);

impl Clock {
    /// Nothing is past.
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// The last moment of `component` that is past.
    pub(crate) fn get(&self, component: u32) -> u64 {
        self.0.binary_search_by_key(&component, |entry| entry.0).map_or(0, |i| self.0[i].1)
    }

    /// Begins the next moment of `component`.
    pub(crate) fn tick(&mut self, component: u32) -> u64 {
        match self.0.binary_search_by_key(&component, |entry| entry.0) {
            Ok(i) => {
                self.0[i].1 += 1;
                self.0[i].1
            }
            Err(i) => {
                self.0.insert(i, (component, 1));
                1
            }
        }
    }

    /// Makes what is past for `other` past here too.
    pub(crate) fn join(&mut self, other: &Self) {
        for &(component, time) in &other.0 {
            match self.0.binary_search_by_key(&component, |entry| entry.0) {
                Ok(i) => self.0[i].1 = self.0[i].1.max(time),
                Err(i) => self.0.insert(i, (component, time)),
            }
        }
    }

    /// Whether all that is past for `other` is past here.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        other.0.iter().all(|&(component, time)| self.get(component) >= time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_clocks_cover_their_parts() {
        let (mut a, mut b) = (Clock::default(), Clock::default());
        assert_eq!((a.tick(3), a.tick(3), b.tick(1)), (1, 2, 1));
        assert!(!a.covers(&b) && !b.covers(&a));
        b.join(&a);
        assert!(b.covers(&a) && !a.covers(&b));
        assert_eq!((b.get(3), b.get(1), b.get(2)), (2, 1, 0));
    }
}
