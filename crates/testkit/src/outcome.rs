//! The outcome of a run: verdicts, durations, and the details needed to fix a failure.

use std::time::{Duration, SystemTime};

use crate::subset::Mismatch;

/// A run of test suites.
#[derive(Debug)]
pub struct Outcome {
    /// The name of the run, from its `TestSuite`.
    pub name: String,
    /// How long it took.
    pub duration: Duration,
    /// The suites, in the order of their directories' names.
    pub suites: Vec<SuiteOutcome>,
}

impl Outcome {
    /// Whether every test case passed.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.cases().all(CaseOutcome::is_success)
    }

    /// All test cases.
    pub fn cases(&self) -> impl Iterator<Item = &CaseOutcome> {
        self.suites.iter().flat_map(|suite| &suite.cases)
    }
}

/// The test cases of one directory.
#[derive(Debug)]
pub struct SuiteOutcome {
    /// The directory, verbatim as configured.
    pub name: String,
    /// When its first test case began.
    pub started: SystemTime,
    /// The test cases, in the order of their names.
    pub cases: Vec<CaseOutcome>,
}

/// A test case.
#[derive(Clone, Debug)]
pub struct CaseOutcome {
    /// Its directory's name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// When it began.
    pub started: SystemTime,
    /// How long it took, including cleanup.
    pub duration: Duration,
    /// The number of its steps, run or not.
    pub total_steps: usize,
    /// What was run: setup, the steps up to the first failure, and cleanup if that failed.
    pub steps: Vec<StepOutcome>,
}

impl CaseOutcome {
    /// Whether no step failed.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.failed_step().is_none()
    }

    /// The step that failed.
    #[must_use]
    pub fn failed_step(&self) -> Option<&StepOutcome> {
        self.steps.iter().find(|step| !step.failures.is_empty())
    }
}

/// A step of a test case.
#[derive(Clone, Debug)]
pub struct StepOutcome {
    /// `setup`, `step 0-install` or `cleanup`.
    pub name: String,
    /// When it began.
    pub started: SystemTime,
    /// How long it took.
    pub duration: Duration,
    /// The number of assertions in the step.
    pub assertions: usize,
    /// Why it failed; empty if it did not.
    pub failures: Vec<Failure>,
}

/// One reason for a step to fail.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The reason in one or more lines.
    pub message: String,
    /// The mismatching object, if that is the reason.
    pub difference: Option<Box<Difference>>,
    pub(crate) timed_out: bool,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), difference: None, timed_out: false }
    }
}

/// An object that does not match an assertion.
#[derive(Clone, Debug)]
pub struct Difference {
    /// `Kind/name`.
    pub object: String,
    /// Where it differs.
    pub mismatch: Mismatch,
    /// The object's conditions, such as `Ready=False: ImagePullFailed`.
    pub conditions: Vec<String>,
    /// The object's latest events, oldest first.
    pub events: Vec<String>,
}
