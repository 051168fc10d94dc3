//! Durations of a run: as in production in virtual time, as short as operators tolerate in real time.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::command::ProcessHelper;

/// Quiet time of the fault-free runs from which the quiet time is learned.
const LEARNING: Duration = Duration::from_secs(5);
/// Minimum and maximum of the learned quiet time.
const LEARNED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(20));
/// The quiet time as a multiple of the longest fault-free pause: runs with faults share the machine.
const PAUSES: u32 = 3;
/// Grace period for an unexpected state: a multiple of the quiet time, and its maximum.
const GRACE: (u32, Duration) = (10, Duration::from_secs(30));

/// The durations of a run.
#[derive(Debug, Clone)]
pub(crate) struct Timing {
    /// Whether the run uses real time, as it must for an external program.
    pub(crate) is_real: bool,
    /// Latency of a request. It makes time pass for an operator that sends requests without pause.
    pub(crate) latency: Duration,
    /// Delay of a delayed write, and duration for which watches are held.
    pub(crate) delay: Duration,
    /// How long a restarted operator reads stale state.
    pub(crate) staleness: Duration,
    /// How long a replica is partitioned: longer than the lease duration.
    pub(crate) partition: Duration,
    /// How long a node is lost: longer than its pods tolerate, unless that takes too long.
    pub(crate) node_loss: Duration,
    /// Interval of polls for further changes: the first after a change, and the maximum.
    pub(crate) look: (Duration, Duration),
    /// Backoff before an exited process is restarted: initial and maximum.
    pub(crate) restart: (Duration, Duration),
    /// Timeout for a program to open its usual watches.
    pub(crate) startup: Duration,
    /// Quiet time: how long nothing must change until a step is over.
    pub(crate) quiet: Duration,
    /// Whether [`Timing::quiet`] is learned from fault-free runs.
    pub(crate) learns_quiet: bool,
    /// Timeout of a step.
    pub(crate) limit: Duration,
    /// CPU time limit of a run: one that never yields would otherwise block everything.
    pub(crate) patience: Duration,
}

impl Timing {
    /// Returns the durations for virtual time, on the paused clock of one thread.
    pub(crate) fn virtual_time() -> Self {
        Self {
            is_real: false,
            latency: Duration::from_millis(1),
            delay: Duration::from_secs(10),
            staleness: Duration::from_secs(5),
            partition: Duration::from_secs(30),
            node_loss: Duration::from_secs(400),
            look: (Duration::from_millis(500), Duration::from_secs(16)),
            restart: (Duration::from_secs(1), Duration::from_secs(60)),
            startup: Duration::ZERO,
            quiet: Duration::from_secs(90),
            learns_quiet: false,
            limit: Duration::from_secs(1800),
            patience: Duration::from_secs(60),
        }
    }

    /// Returns the durations for real time.
    pub(crate) fn real_time() -> Self {
        Self {
            is_real: true,
            delay: Duration::from_secs(2),
            staleness: Duration::from_secs(1),
            node_loss: Duration::from_secs(2),
            look: (Duration::from_millis(20), Duration::from_millis(20)),
            restart: (Duration::from_millis(100), Duration::from_secs(5)),
            startup: Duration::from_secs(20),
            quiet: LEARNING,
            learns_quiet: true,
            limit: Duration::from_secs(60),
            patience: Duration::from_secs(1200),
            ..Self::virtual_time()
        }
    }

    /// Derives the quiet time from the longest pause of fault-free runs.
    pub(crate) fn learn_quiet(&mut self, longest_pause: Duration) {
        if self.learns_quiet {
            self.quiet = (longest_pause * PAUSES).clamp(LEARNED.0, LEARNED.1);
        }
    }

    /// Returns how long an unexpected state may take to become the expected one, after the quiet time.
    pub(crate) fn grace(&self) -> Duration {
        (self.quiet * GRACE.0).min(GRACE.1)
    }
}

/// Measures a thread's CPU time if the system provides it, so that a busy machine makes no difference.
#[derive(Debug)]
pub(crate) struct ThreadClock {
    begin: Instant,
    /// The thread's schedstat on Linux, whose first number is nanoseconds of CPU time.
    account: Option<PathBuf>,
}

impl Default for ThreadClock {
    fn default() -> Self {
        Self { begin: Instant::now(), account: None }
    }
}

impl ThreadClock {
    /// Starts measuring the calling thread.
    pub(crate) fn of_this_thread() -> Self {
        // The link points to PID/task/TID, which other threads can read as well.
        let thread = std::fs::read_link("/proc/thread-self").ok();
        let account = thread.map(|thread| PathBuf::from("/proc").join(thread).join("schedstat"));
        Self { account, ..Self::default() }
    }

    /// Returns the time so far, as CPU or wall-clock time.
    pub(crate) fn spent(&self, by_wall: bool) -> Duration {
        let elapsed = self.begin.elapsed();
        if by_wall {
            return elapsed;
        }
        let text = self.account.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
        let spent = text.and_then(|text| text.split_whitespace().next()?.parse().ok());
        spent.map_or(elapsed, Duration::from_nanos)
    }
}

/// Measures how long the threads of a program and its children were runnable.
///
/// That is the time running or waiting for a CPU. Zero if the system does not provide it.
#[derive(Default)]
pub(crate) struct ProgramClock {
    pid: Option<u32>,
    helper: Option<ProcessHelper>,
    /// The last reading of each thread.
    seen: BTreeMap<OsString, Duration>,
    busy: Duration,
}

impl ProgramClock {
    pub(crate) fn of(pid: u32, helper: Option<ProcessHelper>) -> Self {
        Self { pid: Some(pid), helper, ..Self::default() }
    }

    /// Returns the time so far, summed over all threads.
    pub(crate) fn busy(&mut self) -> Duration {
        let helper = self.pid.zip(self.helper.as_ref()).and_then(|(pid, helper)| helper(pid));
        let mut processes: Vec<String> =
            self.pid.into_iter().chain(helper).map(|pid| pid.to_string()).collect();
        while let Some(pid) = processes.pop() {
            let threads = std::fs::read_dir(Path::new("/proc").join(pid).join("task"));
            for thread in threads.into_iter().flatten().flatten() {
                let read = |name| std::fs::read_to_string(thread.path().join(name)).unwrap_or_default();
                // Time running and time waiting for a CPU, in nanoseconds.
                let text = read("schedstat");
                let times = text.split_whitespace().take(2).filter_map(|time| time.parse().ok());
                let now: Duration = times.map(Duration::from_nanos).sum();
                let last = self.seen.insert(thread.file_name(), now).unwrap_or_default();
                self.busy += now.saturating_sub(last);
                processes.extend(read("children").split_whitespace().map(str::to_owned));
            }
        }
        self.busy
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_that_waits_takes_no_time() {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let waiting = std::thread::spawn(move || {
            tell.send(ThreadClock::of_this_thread()).unwrap();
            let _ = ended.recv();
        });
        let clock = told.recv().unwrap();
        // This thread works until enough wall-clock time has passed.
        while clock.spent(true) < Duration::from_millis(200) {
            std::hint::spin_loop();
        }
        assert!(clock.spent(false) < clock.spent(true) / 2, "{clock:?}");
        drop(end);
        waiting.join().unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_program_is_busy_while_one_of_its_threads_is() {
        let mut clock = ProgramClock::of(std::process::id(), None);
        let before = clock.busy();
        let begin = Instant::now();
        std::thread::spawn(move || {
            while begin.elapsed() < Duration::from_millis(200) {
                std::hint::spin_loop();
            }
        })
        .join()
        .unwrap();
        // The time of an exited thread is not subtracted.
        let after = clock.busy();
        assert!(after >= before);
        std::thread::scope(|scope| {
            let (tell, told) = std::sync::mpsc::channel();
            scope.spawn(move || {
                let begin = Instant::now();
                while begin.elapsed() < Duration::from_millis(200) {
                    std::hint::spin_loop();
                }
                tell.send(()).unwrap();
                std::thread::park_timeout(Duration::from_secs(5));
            });
            told.recv().unwrap();
            assert!(clock.busy() - after >= Duration::from_millis(150));
        });
        assert_eq!(ProgramClock::default().busy(), Duration::ZERO);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_program_is_busy_while_one_that_it_started_is() {
        let mut program = std::process::Command::new("sh");
        // The shell waits for another one that works, and exits on its own even if this test fails.
        let work = "i=0; while [ $i -lt 3000000 ]; do i=$((i + 1)); done";
        let mut program = program.args(["-c", &format!("sh -c '{work}'; true")]).spawn().unwrap();
        let mut clock = ProgramClock::of(program.id(), None);
        let begin = Instant::now();
        while clock.busy() < Duration::from_millis(200) {
            assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", clock.busy());
            std::thread::yield_now();
        }
        program.wait().unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_program_is_busy_while_its_helper_is() {
        // The helper is this process, which is not a child of the measured program.
        let helper: ProcessHelper = Arc::new(|pid| (pid == 1).then(std::process::id));
        let busy = |pid, helper| {
            let mut clock = ProgramClock::of(pid, helper);
            let before = clock.busy();
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(200) {
                std::hint::spin_loop();
            }
            clock.busy() - before
        };
        // The process does not exist.
        assert_eq!(busy(u32::MAX, Some(Arc::clone(&helper))), Duration::ZERO);
        assert!(busy(1, Some(helper)) >= Duration::from_millis(150));
    }

    #[test]
    fn the_quiet_time_is_learned_within_bounds() {
        let learned = |pause| {
            let mut timing = Timing::real_time();
            timing.learn_quiet(Duration::from_millis(pause));
            timing.quiet
        };
        assert_eq!(learned(100), LEARNED.0);
        assert_eq!(learned(800), Duration::from_millis(2400));
        assert_eq!(learned(60_000), LEARNED.1);
        // A quiet time set by the user is kept.
        let mut given =
            Timing { quiet: Duration::from_millis(500), learns_quiet: false, ..Timing::real_time() };
        given.learn_quiet(Duration::from_secs(9));
        assert_eq!(given.quiet, Duration::from_millis(500));
        assert_eq!(given.grace(), Duration::from_secs(5));
    }
}
