//! Limits on an execution (cost, memory, depth), and a way to end it from another thread.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::func::CallError;
use crate::str::Str;
use crate::value::Value;

/// Limits on an execution and on all executions that its functions start.
///
/// The defaults are far beyond what real templates need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Limit on the cost of all work. 200 million by default.
    ///
    /// A statement, a loop iteration and a call cost 1 each, some tens of nanoseconds. Functions charge extra for long
    /// work: see [`Budget::charge_cost`].
    pub cost: usize,
    /// Bytes of all strings, lists and maps that templates write and functions create. 256 MiB by default.
    ///
    /// Freed memory still counts, so an execution never holds more than this.
    pub memory: usize,
    /// Nesting depth of templates that call templates. 100,000 by default, as in Go.
    pub depth: usize,
    /// Nesting depth of executions that functions start from within another. 10,000 by default.
    pub executions: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { cost: 200_000_000, memory: 256 << 20, depth: 100_000, executions: 10_000 }
    }
}

/// The limit that ended an execution.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Exceeded {
    /// The work done exceeds [`Limits::cost`].
    #[error("exceeded the cost limit of {0}")]
    Cost(usize),
    /// The memory created or written exceeds [`Limits::memory`].
    #[error("exceeded the memory limit of {}", Bytes(*.0))]
    Memory(usize),
    /// Templates call each other deeper than [`Limits::depth`] or [`Limits::executions`] allow.
    #[error("exceeded maximum template depth ({0})")]
    Depth(usize),
    /// An [`Interrupt`] was raised, with this reason.
    #[error("{0}")]
    Interrupted(Arc<str>),
}

impl From<Exceeded> for CallError {
    fn from(exceeded: Exceeded) -> Self {
        Self::exceeding(exceeded)
    }
}

/// A number of bytes, displayed in the largest unit that divides it.
struct Bytes(usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes > 0 && bytes.is_multiple_of(1 << 20) => write!(f, "{} MiB", bytes >> 20),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

/// Ends executions from another thread, such as a timer. Clones share one state.
///
/// ```
/// use std::sync::Arc;
/// use steersman_gotemplate::{Budget, Exceeded, Funcs, Interrupt, Limits, Set, Value};
///
/// let interrupt = Interrupt::new();
/// let budget = Budget::new(Limits::default()).interrupted_by(interrupt.clone());
/// let mut set = Set::new(Arc::new(Funcs::new())).within(Arc::new(budget));
/// set.parse("long", b"{{ range 1000000 }}{{ end }}")?;
///
/// interrupt.raise("exceeded the time limit of 60s");
/// let error = set.execute(&mut (), "long", Value::Nil, &mut Vec::new()).unwrap_err();
/// assert!(matches!(error.exceeded, Some(Exceeded::Interrupted(_))));
/// assert!(error.message.ends_with("exceeded the time limit of 60s"));
/// # Ok::<(), steersman_gotemplate::ParseError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<OnceLock<Arc<str>>>);

impl Interrupt {
    /// Creates an interrupt that is not raised.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the executions that use it at their next step, with `reason` as the error message.
    ///
    /// Only the first reason counts.
    pub fn raise(&self, reason: impl Into<Arc<str>>) {
        let _ = self.0.set(reason.into());
    }

    /// Returns the reason it was raised with; `None` if it was not raised.
    pub fn reason(&self) -> Option<&Arc<str>> {
        self.0.get()
    }
}

/// Use of the [`Limits`] by executions so far, and the [`Interrupt`] that may end them.
///
/// One budget can be used by many executions in sequence: see [`crate::Set::within`]. Once a charge has failed, so does
/// every later one, even if a function ignored the error.
// Atomic only so that sets can be shared between threads; an execution uses one thread.
#[derive(Debug)]
pub struct Budget {
    limits: Limits,
    interrupt: Interrupt,
    cost: AtomicUsize,
    /// Cost at which limits and interrupt are checked next.
    checkpoint: AtomicUsize,
    memory: AtomicUsize,
    depth: AtomicUsize,
    executions: AtomicUsize,
}

/// Cost between two checks of the interrupt.
const INTERVAL: usize = 1024;

impl Budget {
    /// Creates an unused budget.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            interrupt: Interrupt::default(),
            cost: AtomicUsize::new(0),
            checkpoint: AtomicUsize::new(0),
            memory: AtomicUsize::new(0),
            depth: AtomicUsize::new(0),
            executions: AtomicUsize::new(0),
        }
    }

    /// Ends executions when `interrupt` is raised. No interrupt by default.
    #[must_use]
    pub fn interrupted_by(mut self, interrupt: Interrupt) -> Self {
        self.interrupt = interrupt;
        self
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns the cost charged so far.
    pub fn cost(&self) -> usize {
        self.cost.load(Ordering::Relaxed)
    }

    /// Returns the bytes charged so far.
    pub fn memory(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    /// Charges for work about to be done: 1 for some tens of nanoseconds.
    ///
    /// Every call is charged for the size of its string arguments; a function whose work is out of proportion to that
    /// charges the rest itself.
    ///
    /// # Errors
    /// If the limit is exceeded or the interrupt is raised.
    #[inline]
    pub fn charge_cost(&self, cost: usize) -> Result<(), Exceeded> {
        // Not one atomic addition, which would cost a lock; an occasional lost step does not matter.
        let total = self.cost.load(Ordering::Relaxed).saturating_add(cost);
        self.cost.store(total, Ordering::Relaxed);
        if total < self.checkpoint.load(Ordering::Relaxed) { Ok(()) } else { self.reached(total) }
    }

    /// Checks all limits and the interrupt, and sets the next checkpoint.
    #[cold]
    #[inline(never)]
    fn reached(&self, total: usize) -> Result<(), Exceeded> {
        self.check()?;
        let next = total.saturating_add(INTERVAL).min(self.limits.cost.saturating_add(1));
        self.checkpoint.store(next, Ordering::Relaxed);
        Ok(())
    }

    /// Charges for memory that is allocated and kept: strings, and the elements of lists and maps.
    ///
    /// # Errors
    /// If the limit is exceeded.
    #[inline]
    pub fn charge_memory(&self, bytes: usize) -> Result<(), Exceeded> {
        let total = self.memory.load(Ordering::Relaxed).saturating_add(bytes);
        self.memory.store(total, Ordering::Relaxed);
        if total <= self.limits.memory { Ok(()) } else { Err(Exceeded::Memory(self.limits.memory)) }
    }

    /// Charges for the elements of a list.
    ///
    /// # Errors
    /// If the limit is exceeded.
    pub fn charge_elements(&self, count: usize) -> Result<(), Exceeded> {
        self.charge_memory(count.saturating_mul(size_of::<Value>()))
    }

    /// Fails unless `bytes` are left. Call it before an allocation; nothing is charged.
    ///
    /// # Errors
    /// If the limit would be exceeded; the budget is exhausted from then on.
    pub fn ensure_memory(&self, bytes: usize) -> Result<(), Exceeded> {
        if bytes <= self.remaining_memory() { Ok(()) } else { self.charge_memory(usize::MAX) }
    }

    /// Returns the bytes left.
    pub fn remaining_memory(&self) -> usize {
        self.limits.memory.saturating_sub(self.memory())
    }

    /// Returns memory that was charged for and is freed.
    pub(crate) fn release_memory(&self, bytes: usize) {
        let total = self.memory();
        // An exhausted budget stays exhausted.
        if total <= self.limits.memory {
            self.memory.store(total.saturating_sub(bytes), Ordering::Relaxed);
        }
    }

    /// Fails if a limit is exceeded or the interrupt is raised. Call it from time to time during long work.
    ///
    /// # Errors
    /// If a limit is exceeded or the interrupt is raised.
    #[inline]
    pub fn check(&self) -> Result<(), Exceeded> {
        if self.cost() > self.limits.cost {
            return Err(Exceeded::Cost(self.limits.cost));
        }
        if self.memory() > self.limits.memory {
            return Err(Exceeded::Memory(self.limits.memory));
        }
        match self.interrupt.reason() {
            Some(reason) => Err(Exceeded::Interrupted(Arc::clone(reason))),
            None => Ok(()),
        }
    }

    /// Formats a value as `%v` does, and charges for the result.
    ///
    /// # Errors
    /// If a value contains itself or the limit is exceeded.
    pub fn print(&self, value: &Value) -> Result<Str, CallError> {
        if let Value::String(text) = value {
            return Ok(text.clone());
        }
        let mut out = Vec::new();
        self.append(&mut out, value)?;
        self.charge_memory(out.len())?;
        Ok(out.into())
    }

    /// Appends a value, formatted as `%v` does, to a buffer that is not charged for yet.
    ///
    /// # Errors
    /// If a value contains itself or the buffer exceeds what is left of the budget.
    pub fn append(&self, out: &mut Vec<u8>, value: &Value) -> Result<(), CallError> {
        let room = self.remaining_memory().saturating_sub(out.len());
        match value {
            Value::String(text) if text.len() <= room => out.extend_from_slice(text),
            Value::String(_) => self.charge_memory(usize::MAX)?,
            other => self.printed(crate::fmt::append_within(room, out, other))?,
        }
        Ok(())
    }

    /// Exhausts the budget if printing within [`Budget::remaining_memory`] exceeded it.
    pub(crate) fn printed<T>(&self, result: Result<T, CallError>) -> Result<T, CallError> {
        match result {
            Err(error) if error.is_oversized() => {
                self.charge_memory(usize::MAX)?;
                Err(error)
            }
            other => other,
        }
    }

    // Nesting.

    pub(crate) fn check_depth(&self) -> Result<(), Exceeded> {
        too_deep(&self.depth, self.limits.depth)
    }

    /// Records that a template call begins.
    pub(crate) fn enter(&self) {
        add(&self.depth, 1);
    }

    /// Records that a template call ends.
    pub(crate) fn leave(&self) {
        add(&self.depth, -1);
    }

    /// Records that an execution begins.
    pub(crate) fn start(&self) -> Result<(), Exceeded> {
        self.check_depth()?;
        too_deep(&self.executions, self.limits.executions)?;
        self.enter();
        add(&self.executions, 1);
        Ok(())
    }

    /// Records that an execution ends.
    pub(crate) fn finish(&self) {
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
