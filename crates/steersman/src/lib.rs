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
//! An [`Operator`] is a builder. It either becomes a program ([`Operator::main`]: `run`, `manifests`, `rbac`, `doctor` …)
//! or runs inside an existing one ([`Operator::run_until`]). It has [`Controller`]s, each for one kind; their [`Watch`]es
//! declare which other objects trigger a reconcile. Each kind is cached once per operator, by one watch per selector. A
//! change enqueues the objects that it affects in their controller's work queue, which holds each object at most once.
//! Workers take objects off the queue and call the reconciler with the cached object and a [`Context`].
//!
//! The context reads from the caches ([`Context::get`], [`Context::objects`]) and writes by server-side apply
//! ([`Context::apply`], [`Context::apply_set`], [`Context::update_status`]), with the operator's name as field manager. The
//! response to a write updates the cache at once. The reconciler returns an [`Action`] or an error, which decides when the
//! object is reconciled next: on a change, after an interval, or with exponential backoff after a failure.
//!
//! CRDs, roles, webhook configurations and the Deployment are generated from what the code declares, so they can't drift
//! from it. Several replicas either elect a leader ([`LeaderElection`]) or share the objects ([`Sharding`]); in both modes
//! a write is sent only while the replica may work on the object. [`Webhook`]s and [`Conversion`]s are typed functions,
//! served with a certificate that the operator issues and renews itself.
//!
//! With the feature `testing` the whole operator runs in a test, on an in-process cluster: see `testing::TestEnv`.
//!
//! # What a reconciler may rely on
//! - **Level-triggered.** It is called with the whole object, declares the whole desired state, and is called again when
//!   anything that concerns the object changes. No change is lost; several changes may be coalesced into one call.
//! - **One worker per object.** Two workers never reconcile the same object at the same time.
//! - **It reads its own writes**, and they do not trigger it again.
//! - **No write without a difference.** [`Context::apply`] and [`Context::update_status`] send nothing if nothing would
//!   change.
//! - **Finalizers come first.** [Finalizers](Controller::finalizer) are on the object before the reconciler is called.
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
