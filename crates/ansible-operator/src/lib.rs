//! Ansible operators: a role or playbook that runs for each object of a kind, by the user's own ansible-core.
//!
//! [`Watches`] reads operator-sdk's watches.yaml and [`add_watches`] makes controllers of it. Plays run in forks of one Python
//! that has Ansible imported already, or each in a process of its own.
//!
//! What differs from operator-sdk on purpose: a rescued failure is none, an unreachable host is one, and so is a playbook that does
//! not parse; objects that are created by server-side apply get their owner, too; a run whose resource was not changed, and
//! that changes nothing, writes nothing; what a run reads from Secrets stays out of logs, conditions and events.
//!
//! # What is trusted
//! Roles and playbooks are the operator's own, and run with its rights. Objects are written by others: without `markUnsafe`,
//! operator-sdk's default, templates in their strings are evaluated; each such watch is warned of at the start.
//! A run reaches the cluster by a server on the loopback interface, with a random token that only the run's files have.
#![cfg(unix)]

mod error;
mod metrics;
mod operator;
mod outcome;
mod progress;
mod proxy;
mod ready;
mod reconcile;
mod redact;
mod resources;
mod runner;
mod runs;
mod settings;
mod snake_case;
mod status;
mod variables;
mod watches;

pub use error::{Error, Result};
pub use metrics::reference as metrics_reference;
pub use operator::{Defaults, LogEvents, add_watches, list_objects};
pub use progress::{Observer, Progress, Step};
pub use runner::{PreparedPython, RunnerOptions, TESTED_ANSIBLE};
pub use settings::ANNOTATIONS;
pub use status::{CONDITIONS, EVENTS, REASONS};
pub use watches::{Content, FinalizerConfig, GroupVersionKind, Watch, WatchConfig, Watches};
