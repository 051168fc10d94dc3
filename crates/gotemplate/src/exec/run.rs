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
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: 100_000_000, output: 256 << 20, depth: 100_000 }
    }
}

/// How much of its [`Limits`] an execution has used. Atomic only so that sets can be shared; one thread uses it.
pub(crate) struct Run {
    limits: Limits,
    steps: AtomicU64,
    depth: AtomicUsize,
}

impl Run {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, steps: AtomicU64::new(0), depth: AtomicUsize::new(0) }
    }

    pub(super) fn step(&self) -> Result<(), String> {
        // Not one atomic addition: that would cost a lock, and an occasional lost step would not matter.
        let steps = self.steps.load(Ordering::Relaxed) + 1;
        self.steps.store(steps, Ordering::Relaxed);
        if steps > self.limits.steps {
            return Err(format!("exceeded maximum number of steps ({})", self.limits.steps));
        }
        Ok(())
    }

    pub(super) fn check_output(&self, len: usize) -> Result<(), String> {
        if len > self.limits.output {
            return Err(format!("exceeded maximum output size ({} bytes)", self.limits.output));
        }
        Ok(())
    }

    pub(super) fn check_depth(&self) -> Result<(), String> {
        if self.depth.load(Ordering::Relaxed) > self.limits.depth {
            return Err(format!("exceeded maximum template depth ({})", self.limits.depth));
        }
        Ok(())
    }

    pub(super) fn enter(&self) {
        let depth = self.depth.load(Ordering::Relaxed);
        self.depth.store(depth + 1, Ordering::Relaxed);
    }

    pub(super) fn leave(&self) {
        let depth = self.depth.load(Ordering::Relaxed);
        self.depth.store(depth.saturating_sub(1), Ordering::Relaxed);
    }
}
