//! Runs KUDO packages: a controller for their instances, the admission of instances, and a client.
//!
//! ```no_run
//! # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use std::path::Path;
//! use steersman_kudo_operator::{Kudo, operator};
//!
//! let packages = steersman_kudo::package::with_dependencies(Path::new("./my-operator"))?;
//! let kudo = Kudo::new(client.clone(), "default");
//! kudo.init().await?;
//! tokio::spawn(operator().run_until(client, std::future::pending()));
//! kudo.install(&packages, None, Default::default()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What a crash leaves
//! The status of a plan is stored before the plan is unscheduled, and tasks are idempotent: objects are compared before
//! they are written, and a Pipe task does not replace what the same run has stored. After whichever write the operator
//! crashes, its successor completes the plan with the same result.

mod admission;
mod apply;
mod client;
mod controller;
mod error;
mod execute;
mod files;
mod helm;
mod inventory;
mod overlay;
mod preview;
mod readiness;
mod repair;

pub use admission::{Admission, SERVICE, WEBHOOK_PATH};
pub use client::{Kudo, Wait};
pub use controller::{KudoOperator, operator};
pub use error::{Error, Result};
pub use files::{ExecFiles, FileError, PodFiles, SimulatedFiles};
pub use preview::{ObjectPreview, Preview, PreviewedChange, StepPreview};
