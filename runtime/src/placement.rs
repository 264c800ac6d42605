//! Which CPUs a rank's threads run on.

/// CPUs this process may use, in rising order.
#[cfg(target_os = "linux")]
pub fn allowed_cpus() -> Vec<usize> {
    // SAFETY: the set is plain data, filled by the system.
    let (set, result) = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let result = libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
        (set, result)
    };
    if result != 0 {
        return Vec::new();
    }
    // SAFETY: the index is below the size of the set.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// CPUs this process may use; unknown here.
#[cfg(not(target_os = "linux"))]
pub fn allowed_cpus() -> Vec<usize> {
    Vec::new()
}

/// How `num_ranks` ranks share the CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Threads of each rank.
    pub threads_per_rank: usize,
    /// CPUs of each rank, when there is one for every thread.
    cpus: Option<Vec<usize>>,
}

impl Placement {
    /// Divides `threads` (or the CPUs) among ranks, at least one thread each; threads are bound only if none shares a CPU.
    pub fn new(num_ranks: usize, threads: Option<usize>, cpus: &[usize]) -> Self {
        let available = threads.unwrap_or_else(|| cpus.len().max(1));
        let threads_per_rank = (available / num_ranks).max(1);
        let fits = threads_per_rank * num_ranks <= cpus.len();
        Self { threads_per_rank, cpus: fits.then(|| cpus.to_vec()) }
    }

    /// The CPUs of a rank.
    pub fn cpus_of(&self, rank: usize) -> Option<&[usize]> {
        let n = self.threads_per_rank;
        self.cpus.as_ref().map(|cpus| &cpus[rank * n..(rank + 1) * n])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_get_cpus_of_their_own_or_none_is_bound() {
        let two = Placement::new(2, None, &[0, 1, 4, 5]);
        assert_eq!((two.threads_per_rank, two.cpus_of(1)), (2, Some(&[4, 5][..])));
        let crowded = Placement::new(4, None, &[0, 1]);
        assert_eq!((crowded.threads_per_rank, crowded.cpus_of(0)), (1, None));
        let fewer = Placement::new(1, Some(1), &[0, 1]);
        assert_eq!((fewer.threads_per_rank, fewer.cpus_of(0)), (1, Some(&[0][..])));
    }
}
