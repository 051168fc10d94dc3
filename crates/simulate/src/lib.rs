//! Simulation: an operator on an embedded cluster, run again and again while something else breaks each time.
//!
//! A [`Scenario`] says what users do. Fault-free runs say how it ends, what the operator writes on the way, and which fields differ
//! between runs without meaning anything. Then each [`Fault`] is tried at each of those writes, after them crashes in the middle of
//! recoveries, and then combinations at random. Whatever breaks, a run must end as the fault-free one did; the [`Oracle`]s say what that means. A failure comes with a
//! timeline and with a [`Plan`], which replays it: the same plan gives the same timeline, in any process.
//!
//! An operator in this process runs on a paused clock, in virtual time. [`Simulation::of_command`] runs any program over HTTP and in
//! real time.
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
//! # What is not served
//! The operator's webhooks: definitions that need one for their conversion get no new version.

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
pub use report::{Failure, Report, Tried};
pub use run::Interrupt;
pub use scenario::{Scenario, Step};
pub use simulation::{Progress, RANDOM, REPLAY, Simulation};
pub use timeline::{Actor, Entry};

/// Why a simulation could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The cluster, the scenario's given objects or the operator's declarations could not be set up.
    #[error("the simulation can't be set up: {0}")]
    Setup(String),
    /// An invariant does not compile: its text, and why.
    #[error("the invariant {0:?} is wrong: {1}")]
    Invariant(String, String),
    /// The number of random plans is none.
    #[error("{RANDOM} is {0:?}: give a number of random plans, 1000 for instance")]
    Random(String),
    /// The plan to replay is not one.
    #[error(transparent)]
    Plan(#[from] ParsePlanError),
}
