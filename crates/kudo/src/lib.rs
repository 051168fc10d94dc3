//! KUDO packages: operators as plans, phases and steps over templates.
//!
//! A [`Package`] is read from a directory or an archive and verified as a whole: every problem is reported, with file and line.
//! It becomes an [`Operator`], an [`OperatorVersion`] and an [`Instance`]. An instance has at most one scheduled plan
//! ([`admission`] decides which one), and [`plan::evaluate`] computes the tasks to run and the new statuses. [`task`] renders
//! what a task applies or deletes.
//!
//! ```
//! use std::collections::BTreeMap;
//! use steersman_kudo::{Package, plan};
//!
//! let package = Package::from_files([
//!     ("operator.yaml", "name: hello\noperatorVersion: 0.1.0\ntasks: [{name: wait, kind: Dummy, spec: {done: true}}]\n\
//!       plans: {deploy: {strategy: serial, phases: [{name: main, strategy: serial, steps: [{name: wait, tasks: [wait]}]}]}}"),
//!     ("params.yaml", "apiVersion: kudo.dev/v1beta1"),
//! ])?;
//! let version = package.operator_version("default")?;
//! let status = plan::scheduled("deploy", &version.spec.plans["deploy"], "an-uid");
//! let due = plan::evaluate(&version.spec.plans["deploy"], &status, &BTreeMap::new()).due;
//! assert_eq!(due[0].task, "wait");
//! # Ok::<(), steersman_kudo::Error>(())
//! ```
//!
//! **Invariant:** everything here is a function of its inputs: no cluster, no clock, no source of randomness except the
//! [`Environment`](steersman_chart::Environment) passed to templates.

pub mod admission;
mod api;
mod crds;
mod error;
mod hash;
mod health;
mod health_check;
pub mod package;
pub mod parameters;
pub mod pipe;
pub mod plan;
pub mod reason;
mod removed;
pub mod task;
mod template;
pub mod tree;

pub use api::{
    API_VERSION, AppliedResource, ExecutionStatus, FINALIZER, GROUP, HealthCheck, Instance, InstanceSpec,
    InstanceStatus, Maintainer, ObjectReference, Operator, OperatorSpec, OperatorVersion,
    OperatorVersionSpec, Parameter, ParameterType, Phase, PhaseStatus, PipeSpec, Plan, PlanExecution,
    PlanRun, PlanStatus, Step, StepStatus, Strategy, Task, TaskSpec, VERSION, annotation, label,
    operator_version_name,
};
pub use crds::{crds, webhook_configuration};
pub use error::{Error, Problem};
pub use hash::{Dependency, dependencies, dependencies_hash, set_dependencies_hash};
pub use health::{health, settled};
pub use package::Package;
pub use removed::{Mapped, map_removed_api};
pub use template::Renderer;
