//! Chart operators: for each object of a kind a Helm release, made from the object's spec and kept as it should be.
//!
//! [`WatchConfig`] reads operator-sdk's watches.yaml and [`add_watches`] makes controllers of it. [`ReleaseController`] is
//! the same piece for operators that are partly written in Rust: with values mapped, and code before and after each phase.
//!
//! What differs from operator-sdk on purpose: the finalizer is there before anything is installed; an upgrade is made only
//! if an object really changes; values that templates draw at random stay; `Ready` follows the workloads; drift is
//! seen by watching and corrected at once; nothing is rendered while nothing changes.

mod bring_about;
mod chart;
mod controller;
mod dependents;
mod error;
mod operator;
mod overrides;
mod reconcile;
mod settings;
mod status;
mod watches;

pub use controller::{FINALIZER, Phase, Place, Refusal, ReleaseController};
pub use error::{Error, Result};
pub use operator::{Defaults, add_watches};
pub use overrides::expand;
pub use watches::{Crds, Expression, Ignore, LabelSelector, WatchConfig};
