//! Declarative tests of operators: suites in kuttl's file format, on any cluster.
//!
//! A suite is a directory; each subdirectory is a test case with its own namespace, and its files with the same number are a
//! step: objects to apply, objects that must match (`NN-assert.yaml`), and objects that must not (`NN-errors.yaml`). Verdicts are
//! kuttl's. Only their timing differs: assertions are checked again on each watch event of their objects, not every second.
//!
//! ```no_run
//! # async fn example(client: kube::Client) -> Result<(), steersman_testkit::Error> {
//! use std::sync::Arc;
//! use steersman_testkit::{Options, Silent, TestSuite};
//!
//! let suite = TestSuite { test_dirs: vec!["tests/e2e".into()], ..TestSuite::default() };
//! let options = Options { suite, ..Options::default() };
//! let outcome = steersman_testkit::run(client, &options, Arc::new(Silent)).await?;
//! assert!(outcome.is_success());
//! # Ok(())
//! # }
//! ```

mod actions;
mod case;
mod check;
mod cluster;
mod command;
mod error;
mod expression;
mod files;
mod harness;
mod html;
mod load;
mod name;
mod names;
mod observe;
mod outcome;
mod pattern;
mod report;
mod shell;
mod step;
mod subset;
mod template;
mod types;
mod wake;

pub use actions::{Action, ActionStep, Changed, Controls, Fault, Lists, OperatorChange, Wait};
pub use error::{Error, LoadError};
pub use files::{FileAssertion, check_files};
pub use harness::{Options, load_suite, run, run_with};
pub use html::html_report;
pub use observe::{Event, Observer, Silent};
pub use outcome::{CaseOutcome, Difference, Failure, Outcome, StepOutcome, SuiteOutcome};
pub use report::write_report;
pub use subset::{ListMatch, Mismatch, subset};
pub use types::{
    AssertCommand, Assertion, Collector, Command, LabelRequirement, LabelSelector, Metadata, ObjectReference,
    ResourceRef, TestAssert, TestFile, TestStep, TestSuite,
};
