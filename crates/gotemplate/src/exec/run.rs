//! What bounds an execution and all that it starts.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Bounds on one call of [`crate::Set::execute`] and on all executions that functions start from within it.
/// The defaults are far beyond what any real template needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many statements, loop turns and calls are executed. 100 million by default.
    pub steps: u64,
    /// How many bytes one execution may write, and how long a string that a function returns may be.
    /// 256 MiB by default.
    pub output: usize,
    /// How deeply templates may call templates. 100,000 by default, as in Go.
    pub depth: usize,
    /// How many executions may be under way at once, functions having started each from within another.
    /// 10,000 by default.
    pub executions: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: 100_000_000, output: 256 << 20, depth: 100_000, executions: 10_000 }
    }
}

/// Which limit was met.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(super) enum Exceeded {
    #[error("exceeded maximum number of steps ({0})")]
    Steps(u64),
    #[error("exceeded maximum output size ({0} bytes)")]
    Output(usize),
    #[error("exceeded maximum template depth ({0})")]
    Depth(usize),
}

/// How much of its [`Limits`] an execution has used. Atomic only so that sets can be shared; one thread uses it.
pub(crate) struct Run {
    limits: Limits,
    steps: AtomicU64,
    depth: AtomicUsize,
    executions: AtomicUsize,
}

impl Run {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, steps: AtomicU64::new(0), depth: AtomicUsize::new(0), executions: AtomicUsize::new(0) }
    }

    #[inline]
    pub(super) fn step(&self) -> Result<(), Exceeded> {
        // Not one atomic addition: that would cost a lock, and an occasional lost step would not matter.
        let steps = self.steps.load(Ordering::Relaxed) + 1;
        self.steps.store(steps, Ordering::Relaxed);
        if steps > self.limits.steps { Err(Exceeded::Steps(self.limits.steps)) } else { Ok(()) }
    }

    /// How much may be printed at once.
    pub(super) fn output(&self) -> usize {
        self.limits.output
    }

    #[inline]
    pub(super) fn check_output(&self, len: usize) -> Result<(), Exceeded> {
        if len > self.limits.output { Err(Exceeded::Output(self.limits.output)) } else { Ok(()) }
    }

    pub(super) fn check_depth(&self) -> Result<(), Exceeded> {
        too_deep(&self.depth, self.limits.depth)
    }

    /// Notes that a template is called.
    pub(super) fn enter(&self) {
        add(&self.depth, 1);
    }

    /// Notes that a template is done.
    pub(super) fn leave(&self) {
        add(&self.depth, -1);
    }

    /// Notes that an execution starts.
    pub(super) fn start(&self) -> Result<(), Exceeded> {
        self.check_depth()?;
        too_deep(&self.executions, self.limits.executions)?;
        self.enter();
        add(&self.executions, 1);
        Ok(())
    }

    /// Notes that an execution is done.
    pub(super) fn finish(&self) {
        self.leave();
        add(&self.executions, -1);
    }
}

fn too_deep(counter: &AtomicUsize, limit: usize) -> Result<(), Exceeded> {
    if counter.load(Ordering::Relaxed) > limit { Err(Exceeded::Depth(limit)) } else { Ok(()) }
}

fn add(counter: &AtomicUsize, change: isize) {
    let count = counter.load(Ordering::Relaxed);
    counter.store(count.saturating_add_signed(change), Ordering::Relaxed);
}
