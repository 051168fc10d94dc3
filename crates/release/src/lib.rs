//! Helm releases: install, upgrade, roll back, uninstall, test and compare. They are stored as Helm stores them, so that
//! the real `helm` and this crate can take turns on one release.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use steersman_chart::{Chart, File, Values};
//! use steersman_release::{Options, Releases, Status};
//!
//! let chart = Chart::from_files([
//!     File::new("Chart.yaml", "{apiVersion: v2, name: hello, version: 0.1.0}"),
//!     File::new(
//!         "templates/config.yaml",
//!         "{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ .Release.Name }}}, data: {text: {{ .Values.text }}}}",
//!     ),
//! ])?;
//! let cluster = steersman_cluster::Cluster::start().await?;
//! let releases = Releases::new(cluster.client(), "default");
//! let mut values = Values::new();
//! values.set("text=ahoy")?;
//! let release = releases.install("greeting", &chart, &values, &Options::default()).await?;
//! assert_eq!(release.info.status, Status::Deployed);
//! # Ok(())
//! # }
//! ```
//!
//! **Invariant:** a revision is recorded before any of its objects is written. An operation that is interrupted at
//! any write is recovered by the next one: no release stays pending.

mod adopt;
mod apply_set;
mod compare;
mod confinement;
mod deploy;
mod diff;
mod encoding;
mod error;
mod hooks;
mod install;
mod kinds;
mod merge;
mod object;
mod ownership;
mod progress;
mod prune;
mod random;
mod record;
mod redact;
mod releases;
mod render;
mod rollback;
mod signature;
mod storage;
mod test;
mod uninstall;
mod upgrade;
mod wait;
mod write;

pub use apply_set::ApplySet;
pub use compare::covers;
pub use confinement::Confinement;
pub use diff::{Change, Diff, FieldChange, ObjectChange, changes};
pub use error::{Error, Result};
pub use kinds::{Kind, Kinds};
pub use merge::{is_built_in, three_way, two_way};
pub use object::{Object, ObjectId, documents, parse, parse_known, resolve, set_metadata};
pub use ownership::is_owned;
pub use progress::Progress;
pub use record::{ChartRecord, Hook, HookExecution, Info, Release, Status, Undeleted};
pub use redact::Redactor;
pub use releases::{
    CrdPolicy, DryRun, HistoryMax, Options, PostRender, Recover, Releases, Timeout, ValuesPolicy,
};
pub use render::RenderLimits;
pub use rollback::RollbackOptions;
pub use signature::RecordKey;
pub use steersman_core::readiness::{
    Readiness,
    helm::{pod_failure, readiness},
};
pub use storage::{Revision, StorageKind, read_record};
pub use test::TestOptions;
pub use uninstall::{Cascade, UninstallOptions, Uninstalled};
pub use write::{Outcome, WriteMode};
