//! Simulation testing: runs an operator on an embedded cluster many times, with other faults each time.
//!
//! A [`Scenario`] is a sequence of user actions. Fault-free runs determine its end state, the operator's writes on the way, and
//! the fields that differ between runs without significance. Then each [`Fault`] is tried at each of those writes, followed by
//! crashes during recovery and by random combinations. Whatever fails, a run must end in the state of the fault-free one; the
//! [`Oracle`]s define what that means. A failure includes a timeline and a [`Plan`] that replays it: the same plan results in
//! the same timeline, in any process.
//!
//! An operator in this process runs on a paused clock, in virtual time. [`Simulation::of_command`] runs any external program over
//! HTTP, in real time.
//!
//! ```no_run
//! # fn operator() -> steersman::Operator { steersman::Operator::new("shells") }
//! use serde_json::json;
//! use steersman_simulate::{Scenario, Simulation};
//!
//! let shell = json!({"apiVersion": "example.com/v1", "kind": "Shell", "metadata": {"name": "one"}, "spec": {"size": 1}});
//! let report = Simulation::of(operator).scenario(Scenario::lifecycle(&shell)).run().unwrap();
//! report.assert_passed();
//! ```
//!
//! # Limitations
//! The operator's webhooks are not served: definitions with a conversion webhook get no new version.

mod command;
mod definition;
mod derived;
mod edit;
mod fault;
mod invariant;
mod network;
mod oracle;
mod panics;
mod properties;
mod query;
mod report;
mod run;
mod scenario;
mod simulation;
mod state;
mod target;
mod timeline;
mod timing;
mod user;

pub use command::Command;
pub use fault::{Fault, ParsePlanError, Plan};
pub use oracle::{Finding, Objects, Oracle};
pub use report::{Failure, FaultCounts, Report};
pub use run::Interrupt;
pub use scenario::{Scenario, Step};
pub use simulation::{Progress, RANDOM, REPLAY, Simulation};
pub use timeline::{Actor, Entry};

/// An error of setting up a simulation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The cluster, the scenario's initial objects or the operator's declarations could not be set up.
    #[error("cannot set up the simulation: {0}")]
    Setup(String),
    /// An invariant does not compile: the expression and the reason.
    #[error("invalid invariant {0:?}: {1}")]
    Invariant(String, String),
    /// The environment variable for random plans is not a number.
    #[error("{RANDOM} is {0:?}: expected a number of random plans, such as 1000")]
    Random(String),
    /// The plan to replay cannot be parsed.
    #[error(transparent)]
    Plan(#[from] ParsePlanError),
}
