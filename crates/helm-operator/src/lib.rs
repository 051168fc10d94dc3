//! Chart operators: a Helm release for each object of a kind, kept in the state that its spec desires.
//!
//! [`WatchConfig`] reads operator-sdk's watches.yaml, and [`add_watches`] turns it into controllers. [`ReleaseController`]
//! is the same for operators that are partly written in Rust: with mapped values, and code before and after each phase.
//!
//! Deliberate differences from operator-sdk: the finalizer is set before anything is installed; an upgrade happens only if
//! an object or hook really changes; randomly generated values of templates are kept; `Ready` reflects the readiness of
//! the workloads; drift is detected by watches and corrected at once; nothing is rendered while nothing changes.
//!
//! # Trust model
//! The operator has more permissions than those who write the objects that it watches and the Secrets that store its
//! releases. So nothing that they write may achieve more than they could do themselves:
//!
//! - Release records are signed with a key in the operator's own namespace ([`KEY_SECRET`]). Of a record that does not
//!   verify, whether of the real `helm` or forged, only the list of objects is read. Hooks and values come from the chart
//!   and the object, rendered anew; the record is then rewritten and signed. It is never rolled back to.
//! - An object in the cluster is deleted only if it has the release's ownership metadata, whatever a record says.
//! - The status is written and never read for a decision.
//! - With [`ReleaseController::confined`] (`confined` in watches.yaml), objects, hooks and lookups stay in the release's
//!   namespace.
//! - The values of a chart's Secrets are redacted in the status, conditions, events and logs.

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
