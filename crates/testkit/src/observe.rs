//! Progress events of a run, and their observer.

use crate::outcome::{CaseOutcome, StepOutcome};

/// A progress event of a run.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A line of the log: of the run, of a test case, or of one of its steps (`case/0-install`).
    Log {
        /// The test case or step; empty for the run.
        source: &'a str,
        /// The line.
        line: &'a str,
    },
    /// A test case begins.
    CaseStarted {
        /// The test case.
        case: &'a str,
        /// The number of its steps.
        steps: usize,
    },
    /// A step ended.
    StepFinished {
        /// The test case.
        case: &'a str,
        /// The outcome of the step.
        step: &'a StepOutcome,
    },
    /// A test case ended.
    CaseFinished(&'a CaseOutcome),
}

/// Receives the events of a run, from several threads.
pub trait Observer: Send + Sync {
    /// Called for each event.
    fn notify(&self, event: &Event<'_>);
}

/// An observer that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn notify(&self, _: &Event<'_>) {}
}
