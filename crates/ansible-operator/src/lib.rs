//! Ansible operators: a role or playbook that runs for each object of a kind, by the user's own ansible-core.
//!
//! [`Watches`] reads operator-sdk's watches.yaml and [`add_watches`] adds controllers for it. Plays run in forks of a single
//! Python process that has imported Ansible, or each in a process of its own.
//!
//! Intended differences from operator-sdk: a rescued task is not a failure, but an unreachable host and a playbook that does not
//! parse are; objects created by server-side apply get an owner reference, too; a run for an unchanged resource that changes
//! nothing writes nothing; values that a run reads from Secrets are kept out of logs, conditions and events.
//!
//! # What is trusted
//! Roles and playbooks belong to the operator, and run with its permissions. Objects are written by others: without `markUnsafe`,
//! which is operator-sdk's default, templates in their strings are evaluated, so a warning is logged at startup for each such
//! watch. A run accesses the cluster through a server on the loopback interface, with a random token that is only in the run's
//! own files.
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
