//! The threads of one rank: they take the tasks of one job after another.
//!
//! A job is a closure and a number of tasks. Workers claim tasks by counting `remaining` down, so a claim is valid for
//! whichever job is published at that moment, and a thread the system has put aside delays a job only when it holds
//! one of its tasks. A job allocates nothing. Stages that depend on each other are successive [`Pool::run`] calls: the end
//! of a run is a barrier, and starting one costs a cache line while the workers spin.

use std::cell::UnsafeCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// A closure that runs task `task` on worker `worker`.
pub type Task<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// Spins before a thread sleeps: some 20 microseconds, the longest gap between the kernels of a step.
const NUM_SPINS: usize = 2_000;

/// Threads that run jobs together with the thread that owns the pool.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// A pool of `num_threads` threads, the calling thread (worker 0) among them. With `cpus`, worker `w` is bound to
    /// `cpus[w % cpus.len()]`; the calling thread too.
    ///
    /// # Panics
    /// When the system refuses to start a thread.
    pub fn new(num_threads: usize, cpus: Option<&[usize]>) -> Self {
        let shared = Arc::new(Shared::default());
        let cpu_of = |worker: usize| cpus.filter(|c| !c.is_empty()).map(|c| c[worker % c.len()]);
        if let Some(cpu) = cpu_of(0) {
            bind_to(cpu);
        }
        let spawn = |worker: usize| {
            let shared = Arc::clone(&shared);
            let cpu = cpu_of(worker);
            let body = move || {
                if let Some(cpu) = cpu {
                    bind_to(cpu);
                }
                shared.work(worker);
            };
            let thread = std::thread::Builder::new().name(format!("titan-worker-{worker}")).spawn(body);
            thread.expect("the system starts a thread")
        };
        let threads = (1..num_threads).map(spawn).collect();
        Self { shared, threads }
    }

    /// Threads, the owner's included; workers are numbered below this.
    pub fn num_threads(&self) -> usize {
        self.threads.len() + 1
    }

    /// Runs `f(task, worker)` for every task in `0..num_tasks` and returns when all have finished. Tasks start in rising
    /// order; a worker runs one at a time.
    ///
    /// # Panics
    /// When a task panicked, after all have finished; when called from inside a task.
    pub fn run(&self, num_tasks: usize, f: &Task<'_>) {
        if self.threads.is_empty() || num_tasks <= 1 {
            (0..num_tasks).for_each(|task| f(task, 0));
            return;
        }
        let was_busy = self.shared.busy.swap(true, Ordering::Acquire);
        assert!(!was_busy, "a pool runs one job at a time");
        self.shared.publish(num_tasks, f);
        while self.shared.run_one(0) {}
        self.shared.wait();
        let panicked = self.shared.panicked.swap(false, Ordering::Relaxed);
        self.shared.busy.store(false, Ordering::Release);
        assert!(!panicked, "a task of the pool panicked");
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.shutdown.store(true, Ordering::SeqCst);
        self.shared.wake_sleepers();
        for thread in self.threads.drain(..) {
            thread.join().expect("workers catch the panics of their tasks");
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("num_threads", &self.num_threads()).finish()
    }
}

/// The published job. Its closure outlives it: `run` returns after the last task.
#[derive(Clone, Copy)]
struct Job {
    f: *const Task<'static>,
    num_tasks: usize,
}

/// A counter alone on its cache line.
#[repr(align(128))]
#[derive(Default)]
struct Padded(AtomicUsize);

#[derive(Default)]
struct Shared {
    /// Tasks nobody has claimed.
    remaining: Padded,
    /// Tasks that have not finished.
    pending: Padded,
    job: UnsafeCell<Option<Job>>,
    busy: AtomicBool,
    panicked: AtomicBool,
    shutdown: AtomicBool,
    num_sleepers: AtomicUsize,
    owner_sleeps: AtomicBool,
    gate: Mutex<()>,
    wake: Condvar,
    done: Condvar,
}

// SAFETY: `job` is written only by the owner while no task is claimed or unclaimed, and read only by holders of a claim; the
// release of `remaining` orders the two.
unsafe impl Sync for Shared {}
// SAFETY: the pointer in `job` refers to a `Sync` closure.
unsafe impl Send for Shared {}

impl Shared {
    fn publish(&self, num_tasks: usize, f: &Task<'_>) {
        // SAFETY: only the lifetime changes; `run` does not return before the last task has finished.
        let f: *const Task<'static> = unsafe { std::mem::transmute(std::ptr::from_ref(f)) };
        // SAFETY: `remaining` and `pending` are zero, so no other thread reads the job.
        unsafe { *self.job.get() = Some(Job { f, num_tasks }) };
        self.pending.0.store(num_tasks, Ordering::Relaxed);
        self.remaining.0.store(num_tasks, Ordering::SeqCst);
        if self.num_sleepers.load(Ordering::SeqCst) > 0 {
            self.wake_sleepers();
        }
    }

    /// Claims and runs a task; false when there was none.
    fn run_one(&self, worker: usize) -> bool {
        let mut left = self.remaining.0.load(Ordering::Relaxed);
        loop {
            if left == 0 {
                return false;
            }
            match self.remaining.0.compare_exchange_weak(left, left - 1, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(now) => left = now,
            }
        }
        // SAFETY: the claim keeps the job published until `pending` counts it as finished.
        let job = unsafe { (*self.job.get()).expect("a claim implies a job") };
        let run = || {
            // SAFETY: the closure lives until the job's last task has finished, and this task has not.
            unsafe { (*job.f)(job.num_tasks - left, worker) }
        };
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            self.panicked.store(true, Ordering::Relaxed);
        }
        if self.pending.0.fetch_sub(1, Ordering::SeqCst) == 1 && self.owner_sleeps.load(Ordering::SeqCst) {
            let _gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
            self.done.notify_one();
        }
        true
    }

    /// A worker's life.
    fn work(&self, worker: usize) {
        let idle = || self.remaining.0.load(Ordering::SeqCst) == 0 && !self.shutdown.load(Ordering::SeqCst);
        loop {
            while self.run_one(worker) {}
            if spin_while(idle) {
                sleep_while(&self.gate, &self.wake, &self.num_sleepers, idle);
            }
            if self.shutdown.load(Ordering::SeqCst) {
                return;
            }
        }
    }

    /// Until the last task has finished.
    fn wait(&self) {
        let unfinished = || self.pending.0.load(Ordering::SeqCst) > 0;
        if !spin_while(unfinished) {
            return;
        }
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        self.owner_sleeps.store(true, Ordering::SeqCst);
        while unfinished() {
            gate = self.done.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
        self.owner_sleeps.store(false, Ordering::SeqCst);
    }

    fn wake_sleepers(&self) {
        let _gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        self.wake.notify_all();
    }
}

/// Spins while `condition` holds, for a bounded time; whether it still holds.
fn spin_while(condition: impl Fn() -> bool) -> bool {
    for _ in 0..NUM_SPINS {
        if !condition() {
            return false;
        }
        std::hint::spin_loop();
    }
    condition()
}

/// Sleeps while `idle` holds. The count of sleepers rises before the last look, so a publisher either is seen or sees it.
fn sleep_while(gate: &Mutex<()>, wake: &Condvar, num_sleepers: &AtomicUsize, idle: impl Fn() -> bool) {
    let mut guard = gate.lock().unwrap_or_else(PoisonError::into_inner);
    num_sleepers.fetch_add(1, Ordering::SeqCst);
    while idle() {
        guard = wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
    }
    num_sleepers.fetch_sub(1, Ordering::SeqCst);
}

/// Binds the calling thread to a processor. Best effort: a processor the process may not use leaves it free.
#[cfg(target_os = "linux")]
fn bind_to(cpu: usize) {
    if cpu >= libc::CPU_SETSIZE as usize {
        return;
    }
    // SAFETY: an all-zero `cpu_set_t` is the empty set, `cpu` is within it, and 0 names the calling thread.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

#[cfg(not(target_os = "linux"))]
fn bind_to(_cpu: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_once() {
        for num_threads in [1, 2, 5] {
            let pool = Pool::new(num_threads, None);
            for num_tasks in [0, 1, 2, 3, 100, 1000] {
                let counts: Vec<AtomicUsize> = (0..num_tasks).map(|_| AtomicUsize::new(0)).collect();
                pool.run(num_tasks, &|task, worker| {
                    assert!(worker < num_threads);
                    counts[task].fetch_add(1, Ordering::Relaxed);
                });
                assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn the_end_of_a_run_is_a_barrier() {
        let pool = Pool::new(3, None);
        let mut values = vec![1u64; 64];
        for _ in 0..500 {
            let sums: Vec<AtomicUsize> = (0..64).map(|_| AtomicUsize::new(0)).collect();
            pool.run(64, &|task, _| {
                sums[task].store((values[task] + values[63 - task]) as usize, Ordering::Relaxed)
            });
            for (value, sum) in values.iter_mut().zip(&sums) {
                *value = sum.load(Ordering::Relaxed) as u64 % 1000;
            }
        }
        let mut expected = vec![1u64; 64];
        for _ in 0..500 {
            expected = (0..64).map(|i| (expected[i] + expected[63 - i]) % 1000).collect();
        }
        assert_eq!(values, expected);
    }

    #[test]
    fn sleeping_workers_wake() {
        let pool = Pool::new(2, Some(&[0]));
        for _ in 0..3 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            let count = AtomicUsize::new(0);
            pool.run(8, &|_, _| {
                count.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(count.load(Ordering::Relaxed), 8);
        }
    }

    #[test]
    fn a_panic_reaches_the_owner_and_leaves_the_pool_usable() {
        let pool = Pool::new(2, None);
        let count = AtomicUsize::new(0);
        let run = || {
            pool.run(10, &|task, _| {
                count.fetch_add(1, Ordering::Relaxed);
                assert_ne!(task, 3, "expected by the test");
            });
        };
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
        assert_eq!(count.load(Ordering::Relaxed), 10);
        pool.run(4, &|_, _| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.load(Ordering::Relaxed), 14);
    }

    #[test]
    fn pools_coexist() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let pool = Pool::new(2, None);
                    let sum = AtomicUsize::new(0);
                    for _ in 0..100 {
                        pool.run(10, &|task, _| {
                            sum.fetch_add(task, Ordering::Relaxed);
                        });
                    }
                    assert_eq!(sum.load(Ordering::Relaxed), 4500);
                });
            }
        });
    }
}
