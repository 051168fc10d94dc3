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
//! # The model
//! An [`Operator`] is described, and then either becomes a program ([`Operator::main`]: `run`, `manifests`, `rbac`,
//! `doctor` …) or runs inside of one ([`Operator::run_until`]). It has [`Controller`]s, each with one kind of objects, and with
//! the [`Watch`]es that say which other objects concern them. Each kind is cached once for the whole operator, by one
//! watch per selection. A change makes the objects that it concerns wait in their controller's queue, where each is at
//! most once. Workers take them out and call the reconciler with the object as the cache has it, and with a [`Context`].
//!
//! The context reads from the caches ([`Context::get`], [`Context::objects`]) and writes by server-side apply
//! ([`Context::apply`], [`Context::apply_set`], [`Context::update_status`]), with the operator's name as the field manager. The
//! answer to a write goes into the cache at once. What the reconciler returns, an [`Action`] or an error, decides when
//! the object is reconciled next: when something changes, after some time, or after a delay that doubles with each failure.
//!
//! Definitions, roles, webhook configurations and the Deployment follow from what is declared, so they can't drift from the
//! code. Several replicas either elect a leader ([`LeaderElection`]) or share the objects ([`Sharding`]); either way a write is
//! sent only while its sender may work on the object. [`Webhook`]s and [`Conversion`]s are typed functions, served
//! with a certificate that the operator makes and renews itself.
//!
//! With the feature `testing` all of it runs in a test, on a cluster in the process: see `testing::TestEnv`.
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
mod certificate;
mod conditions;
mod context;
mod controller;
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
mod shard;
#[cfg(feature = "testing")]
pub mod testing;
mod webhook;
mod write_guard;

pub(crate) use steersman_core::environment;

pub use action::Action;
pub use cache::{Meta, Owner, Snapshot, Text};
pub use conditions::{Conditions, condition};
pub use context::{ANNOTATIONS, Context, Desired, EVENTS, Objects, SetProgress};
pub use controller::{Controller, Reconcile, Watch};
pub use error::{BoxError, Error, Result};
pub use kind::{Key, Kind, Object};
pub use leader::LeaderElection;
pub use metrics::reference as metrics_reference;
pub use operator::{Finding, Operator, command_line};
pub use privilege::Requests;
pub use shard::Sharding;
pub use steersman_core::{
    environment::{Environment, SystemEnvironment},
    readiness::{Readiness, readiness},
};
pub use webhook::{Conversion, Denied, Operation, Review, Webhook};
