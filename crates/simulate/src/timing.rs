//! How long things take: in virtual time as long as in production, in real time as briefly as operators bear.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::command::Helper;

/// Quiet time of the fault-free runs that it is learned from.
const LEARNING: Duration = Duration::from_secs(5);
/// The shortest quiet time that is learned, and the longest.
const LEARNED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(20));
/// How many times the longest pause of fault-free runs is the quiet time: runs with faults share the machine with each other.
const PAUSES: u32 = 3;
/// How many quiet times an unexpected state has to become the expected one, and how long that is at most.
const GRACE: (u32, Duration) = (10, Duration::from_secs(30));

/// The durations of a run.
#[derive(Debug, Clone)]
pub(crate) struct Timing {
    /// Whether time is the machine's own, as it must be for a program outside of this process.
    pub(crate) is_real: bool,
    /// Time that a request takes. It makes time pass for an operator that asks without end.
    pub(crate) latency: Duration,
    /// How late a delayed write is, and how long watches are held.
    pub(crate) delay: Duration,
    /// How far behind the API server is that an operator is restarted onto.
    pub(crate) staleness: Duration,
    /// How long a replica is cut off: longer than leases last.
    pub(crate) partition: Duration,
    /// How long a node is lost: longer than pods bear it, unless that takes too long.
    pub(crate) node_loss: Duration,
    /// Pause between two looks at whether something still changes: the first after a change, and the longest.
    pub(crate) look: (Duration, Duration),
    /// Pause until a process that has ended is started again: the first, and the longest.
    pub(crate) restart: (Duration, Duration),
    /// How long a program may take to open the watches that it usually has.
    pub(crate) startup: Duration,
    /// How long nothing must change until a step is over.
    pub(crate) quiet: Duration,
    /// Whether [`Timing::quiet`] is learned from fault-free runs.
    pub(crate) learns_quiet: bool,
    /// How long a step may take.
    pub(crate) limit: Duration,
    /// How long a run may take of the machine's time: one that never yields would otherwise hold up everything.
    pub(crate) patience: Duration,
}

impl Timing {
    /// On the paused clock of one thread.
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

    /// On the machine's clock.
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

    /// Sets the quiet time by the longest pause of fault-free runs.
    pub(crate) fn learn_quiet(&mut self, longest_pause: Duration) {
        if self.learns_quiet {
            self.quiet = (longest_pause * PAUSES).clamp(LEARNED.0, LEARNED.1);
        }
    }

    /// How long an unexpected state may take to become the expected one, after the quiet time.
    pub(crate) fn grace(&self) -> Duration {
        (self.quiet * GRACE.0).min(GRACE.1)
    }
}

/// The time that a thread takes: of a processor where the system tells, so that a busy machine makes no difference.
#[derive(Debug)]
pub(crate) struct ThreadClock {
    begin: Instant,
    /// Linux's account of the thread, whose first number is nanoseconds on a processor.
    account: Option<PathBuf>,
}

impl Default for ThreadClock {
    fn default() -> Self {
        Self { begin: Instant::now(), account: None }
    }
}

impl ThreadClock {
    /// Begins to count for the thread that calls this.
    pub(crate) fn of_this_thread() -> Self {
        // The link is to PID/task/TID, which other threads can read as well.
        let thread = std::fs::read_link("/proc/thread-self").ok();
        let account = thread.map(|thread| PathBuf::from("/proc").join(thread).join("schedstat"));
        Self { account, ..Self::default() }
    }

    /// The time so far: on a processor, or by the clock on the wall.
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

/// The time in which a program and those that it started worked, or would have if the machine had had a processor for them. Zero
/// where the system does not tell.
#[derive(Default)]
pub(crate) struct ProgramClock {
    pid: Option<u32>,
    helper: Option<Helper>,
    /// What each thread had last.
    seen: BTreeMap<OsString, Duration>,
    busy: Duration,
}

impl ProgramClock {
    pub(crate) fn of(pid: u32, helper: Option<Helper>) -> Self {
        Self { pid: Some(pid), helper, ..Self::default() }
    }

    /// The time so far, of all threads.
    pub(crate) fn busy(&mut self) -> Duration {
        let helper = self.pid.zip(self.helper.as_ref()).and_then(|(pid, helper)| helper(pid));
        let mut processes: Vec<String> =
            self.pid.into_iter().chain(helper).map(|pid| pid.to_string()).collect();
        while let Some(pid) = processes.pop() {
            let threads = std::fs::read_dir(Path::new("/proc").join(pid).join("task"));
            for thread in threads.into_iter().flatten().flatten() {
                let read = |name| std::fs::read_to_string(thread.path().join(name)).unwrap_or_default();
                // On a processor, and ready for one, in nanoseconds.
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
        // This thread works until the clock on the wall has moved well on.
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
        // A thread that is gone takes nothing back.
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
        // The shell waits for another one that works, and ends by itself whatever becomes of this test.
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
        // Not one that this process has started, but this process: a program with another parent.
        let helper: Helper = Arc::new(|pid| (pid == 1).then(std::process::id));
        let busy = |pid, helper| {
            let mut clock = ProgramClock::of(pid, helper);
            let before = clock.busy();
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(200) {
                std::hint::spin_loop();
            }
            clock.busy() - before
        };
        // There is no such process.
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
        // What the user gives stays.
        let mut given =
            Timing { quiet: Duration::from_millis(500), learns_quiet: false, ..Timing::real_time() };
        given.learn_quiet(Duration::from_secs(9));
        assert_eq!(given.quiet, Duration::from_millis(500));
        assert_eq!(given.grace(), Duration::from_secs(5));
    }
}
