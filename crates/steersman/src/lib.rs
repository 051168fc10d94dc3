//! The operator runtime: everything that a production Kubernetes operator needs around its reconciler.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use steersman::{Action, Context, Controller, Operator};
//!
//! async fn reconcile(map: Arc<ConfigMap>, ctx: Context) -> steersman::Result<Action> {
//!     ctx.event("Seen", format!("{} keys", map.data.as_ref().map_or(0, |data| data.len())));
//!     Ok(Action::await_change())
//! }
//!
//! #[tokio::main]
//! async fn main() -> steersman::Result<()> {
//!     Operator::new("map-watcher").controller(Controller::of_existing::<ConfigMap>(reconcile)).main().await
//! }
//! ```
//!
//! # What a reconciler may rely on
//! - **Level, not edge.** It is called with the whole object, says the whole desired state, and is called again when
//!   anything that concerns the object changes. No change is lost, many changes may come as one.
//! - **Alone.** One object is never with two workers.
//! - **It reads its own writes**, and is not called for them.
//! - **No write without a difference.** [`Context::apply`] and [`Context::update_status`] send nothing if nothing changes.
//! - **Cleanup is promised first.** [Finalizers](Controller::finalizer) are on the object before the reconciler sees it.
//! - **A slow, failing or panicking object never holds up another one.**

mod action;
mod cache;
mod conditions;
mod context;
mod controller;
mod door;
mod environment;
mod error;
mod http;
mod kind;
mod leader;
mod manifests;
mod metrics;
mod operator;
pub mod predicate;
mod privilege;
mod queue;
mod readiness;
mod shard;
#[cfg(feature = "testing")]
pub mod testing;
mod webhook;

pub use action::Action;
pub use cache::{Meta, Owner, Snapshot, Text};
pub use conditions::{Conditions, condition};
pub use context::{Context, Desired, Objects, SetProgress};
pub use controller::{Controller, Reconcile, Watch};
pub use environment::{Environment, SystemEnvironment};
pub use error::{BoxError, Error, Result};
pub use kind::{Key, Kind, Object};
pub use leader::LeaderElection;
pub use operator::{Finding, Operator};
pub use privilege::Requests;
pub use readiness::{Readiness, readiness};
pub use shard::Sharding;
pub use webhook::{Conversion, Denied, Operation, Review, Webhook};
