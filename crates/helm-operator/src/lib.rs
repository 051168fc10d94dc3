//! Chart operators: for each object of a kind a Helm release, made from the object's spec and kept as it should be.
//!
//! [`WatchConfig`] reads operator-sdk's watches.yaml and [`add_watches`] makes controllers of it. [`ReleaseController`] is
//! the same piece for operators that are partly written in Rust: with values mapped, and code before and after each phase.
//!
//! What differs from operator-sdk on purpose: the finalizer is there before anything is installed; an upgrade is made only
//! if an object really changes; values that templates draw at random stay; `Ready` follows the workloads; drift is
//! seen by watching and corrected at once; nothing is rendered while nothing changes.
//!
//! # What is trusted
//! The operator has more rights than those who write the objects it watches and the Secrets that hold its releases, so
//! that none of what they can write decides more than they could do themselves:
//!
//! - Records of releases are signed with a key in the operator's own namespace ([`KEY_SECRET`]). Of a record that does
//!   not verify, one of the real `helm` or a forged one, only the list of objects is read. Hooks and values come from the
//!   chart and the object, rendered anew; the record is then written again, and signed. Nothing is rolled back to it.
//! - An object of the cluster is deleted only if it carries the release's ownership, whatever a record says.
//! - The status is written and never asked.
//! - With [`ReleaseController::confined`] (`confined` in watches.yaml), objects, hooks and lookups stay in the release's
//!   namespace.
//! - What a chart renders into Secrets is left out of the status, conditions, events and logs.

mod chart;
mod controller;
mod dependents;
mod deploy;
mod error;
mod key;
mod operator;
mod overrides;
mod reconcile;
mod release_name;
#[cfg(feature = "registry")]
mod remote;
#[cfg(not(feature = "registry"))]
#[path = "without_remote.rs"]
mod remote;
mod retry;
mod settings;
mod status;
mod watches;

pub use controller::{FINALIZER, NamespacedName, Phase, Refusal, ReleaseController};
pub use error::{Error, Result};
pub use key::KEY_SECRET;
pub use operator::{Defaults, add_watches};
pub use overrides::expand;
pub use settings::ANNOTATIONS;
pub use status::{CONDITIONS, EVENTS, REASONS};
pub use steersman_watches::{Expression, LabelSelector, duration};
pub use watches::{Crds, Ignore, WatchConfig};
