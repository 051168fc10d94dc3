//! What an execution may use: cost, memory and depth, and a way to end it from another thread.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::func::CallError;
use crate::str::Str;
use crate::value::Value;

/// Bounds on an execution and on all executions that functions start from within it.
///
/// The defaults are far beyond what real templates need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Cost of everything that is executed. 200 million by default.
    ///
    /// A statement, a turn of a loop and a call cost 1 each, some tens of nanoseconds. Functions add the cost of long
    /// work: see [`Budget::charge_cost`].
    pub cost: usize,
    /// Bytes of all text, lists and maps that templates write and functions make. 256 MiB by default.
    ///
    /// What was freed in the meantime counts too, so that an execution never holds more than this.
    pub memory: usize,
    /// Nesting of templates that call templates. 100,000 by default, as in Go.
    pub depth: usize,
    /// Executions under way at once, functions having started each from within another. 10,000 by default.
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
    /// More was executed than [`Limits::cost`] allows.
    #[error("exceeded the cost limit of {0}")]
    Cost(usize),
    /// More was made or written than [`Limits::memory`] allows.
    #[error("exceeded the memory limit of {}", Bytes(*.0))]
    Memory(usize),
    /// Templates call each other deeper than [`Limits::depth`] or [`Limits::executions`] allow.
    #[error("exceeded maximum template depth ({0})")]
    Depth(usize),
    /// An [`Interrupt`] was raised, for this reason.
    #[error("{0}")]
    Interrupted(Arc<str>),
}

impl From<Exceeded> for CallError {
    fn from(exceeded: Exceeded) -> Self {
        Self::exceeding(exceeded)
    }
}

/// A number of bytes, in the largest unit that it is a multiple of.
struct Bytes(usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes > 0 && bytes.is_multiple_of(1 << 20) => write!(f, "{} MiB", bytes >> 20),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

/// Ends executions from another thread, such as one that watches the time. Clones share one state.
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
    /// One that is not raised.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the executions that it belongs to, at their next step, with an error of this text. Only the first reason
    /// counts.
    pub fn raise(&self, reason: impl Into<Arc<str>>) {
        let _ = self.0.set(reason.into());
    }

    /// The reason it was raised for; `None` if it was not.
    pub fn reason(&self) -> Option<&Arc<str>> {
        self.0.get()
    }
}

/// What executions have used of their [`Limits`], and the [`Interrupt`] that may end them.
///
/// One budget can serve many executions, one after the other: [`crate::Set::within`]. Used up stays used up: once a charge
/// has failed, so does every later one, even if a function made nothing of the error.
// Atomic only so that sets can be shared between threads; an execution has one thread.
#[derive(Debug)]
pub struct Budget {
    limits: Limits,
    interrupt: Interrupt,
    cost: AtomicUsize,
    /// The cost at which limits and interrupt are looked at next.
    checkpoint: AtomicUsize,
    memory: AtomicUsize,
    depth: AtomicUsize,
    executions: AtomicUsize,
}

/// How much is executed between two looks at the interrupt.
const INTERVAL: usize = 1024;

impl Budget {
    /// A budget of which nothing is used.
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

    /// Ends executions when `interrupt` is raised. None ends them by default.
    #[must_use]
    pub fn interrupted_by(mut self, interrupt: Interrupt) -> Self {
        self.interrupt = interrupt;
        self
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The cost of everything so far.
    pub fn cost(&self) -> usize {
        self.cost.load(Ordering::Relaxed)
    }

    /// The bytes charged so far.
    pub fn memory(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    /// Charges for work about to be done: 1 for what takes some tens of nanoseconds.
    ///
    /// The size of text arguments is charged for every call; functions whose work is out of proportion to it charge the
    /// rest.
    ///
    /// # Errors
    /// If the limit is exceeded or the interrupt raised.
    #[inline]
    pub fn charge_cost(&self, cost: usize) -> Result<(), Exceeded> {
        // Not one atomic addition: that would cost a lock, and an occasional lost step would not matter.
        let total = self.cost.load(Ordering::Relaxed).saturating_add(cost);
        self.cost.store(total, Ordering::Relaxed);
        if total < self.checkpoint.load(Ordering::Relaxed) { Ok(()) } else { self.reached(total) }
    }

    /// Looks at everything, and says when to look again.
    #[cold]
    #[inline(never)]
    fn reached(&self, total: usize) -> Result<(), Exceeded> {
        self.check()?;
        let next = total.saturating_add(INTERVAL).min(self.limits.cost.saturating_add(1));
        self.checkpoint.store(next, Ordering::Relaxed);
        Ok(())
    }

    /// Charges for bytes that are made and kept: text, and the elements of lists and maps.
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

    /// Fails unless so many bytes are left, to be asked before they are made. It charges nothing.
    ///
    /// # Errors
    /// If the limit would be exceeded: then the budget is used up.
    pub fn ensure_memory(&self, bytes: usize) -> Result<(), Exceeded> {
        if bytes <= self.remaining_memory() { Ok(()) } else { self.charge_memory(usize::MAX) }
    }

    /// The bytes that are left.
    pub fn remaining_memory(&self) -> usize {
        self.limits.memory.saturating_sub(self.memory())
    }

    /// Gives back what was charged for something that is gone.
    pub(crate) fn release_memory(&self, bytes: usize) {
        let total = self.memory();
        // What is used up stays used up.
        if total <= self.limits.memory {
            self.memory.store(total.saturating_sub(bytes), Ordering::Relaxed);
        }
    }

    /// Fails if anything is used up or the interrupt is raised, for long work to ask now and then.
    ///
    /// # Errors
    /// If a limit is exceeded or the interrupt raised.
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

    /// What `%v` prints of a value, charged for.
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

    /// Appends what `%v` prints of a value to a text that is not charged for yet.
    ///
    /// # Errors
    /// If a value contains itself or the text outgrows what is left of the budget.
    pub fn append(&self, out: &mut Vec<u8>, value: &Value) -> Result<(), CallError> {
        let room = self.remaining_memory().saturating_sub(out.len());
        match value {
            Value::String(text) if text.len() <= room => out.extend_from_slice(text),
            Value::String(_) => self.charge_memory(usize::MAX)?,
            other => self.printed(crate::fmt::append_within(room, out, other))?,
        }
        Ok(())
    }

    /// The result of printing within [`Budget::remaining_memory`]: text that outgrew it has used the budget up.
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

    /// Notes that a template is called.
    pub(crate) fn enter(&self) {
        add(&self.depth, 1);
    }

    /// Notes that a template is done.
    pub(crate) fn leave(&self) {
        add(&self.depth, -1);
    }

    /// Notes that an execution starts.
    pub(crate) fn start(&self) -> Result<(), Exceeded> {
        self.check_depth()?;
        too_deep(&self.executions, self.limits.executions)?;
        self.enter();
        add(&self.executions, 1);
        Ok(())
    }

    /// Notes that an execution is done.
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
