//! Scaffolds operator projects, and generates their definitions, roles, bundles and charts.
//!
//! [`init`] creates a project, [`create_api`] adds a kind to it, [`create_webhook`] adds webhooks for a kind, and [`edit`]
//! changes the project's configuration. [`update`] merges a newer scaffold into it. [`generate_crds`] and [`generate_rbac`]
//! regenerate definitions and rules from charts, [`kustomize`] renders a project's manifests, and [`generate_chart`] packages
//! them as a chart. The layout, the names and the PROJECT file are those of operator-sdk and kubebuilder.
//!
//! ```
//! use steersman_chart::{Chart, File};
//! use steersman_scaffold::{ApiOptions, InitOptions, Plugin, init};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let directory = directory.path();
//! let chart = Chart::from_files([
//!     File::new("Chart.yaml", "{apiVersion: v2, name: hello, version: 0.1.0}"),
//!     File::new("values.yaml", "greeting: hello"),
//! ])?;
//! let options = InitOptions {
//!     project_name: Some("hello-operator".into()),
//!     domain: "example.com".into(),
//!     ..InitOptions::new(Plugin::Helm)
//! };
//! let api = ApiOptions::default().of_chart(chart);
//! init(directory, &options, Some(&api))?;
//! assert!(directory.join("config/crd/bases/charts.example.com_hellos.yaml").exists());
//! # Ok(())
//! # }
//! ```
//!
//! **Invariant:** all changes of a command are planned before the first is made, and a file that was edited by hand is
//! left unchanged unless the command is run with `force`.
//!
//! **Invariant:** this crate runs no programs or operators, and fetches nothing.

mod ansible;
mod api;
mod bundle;
mod crd;
mod edit;
mod error;
mod files;
mod generate;
mod helm;
mod init;
mod kustomize;
mod layout;
mod learn;
mod names;
mod operator_chart;
mod project;
mod role;
mod rust;
mod sample;
mod schema;
mod templates;
mod update;
mod webhook;

pub use api::{ApiOptions, create_api};
pub use bundle::{
    BundleContent, BundleFinding, BundleOptions, ScorecardResult, ScorecardState, ScorecardTest,
    generate_bundle, scorecard_tests, validate_bundle,
};
pub use edit::{EditOptions, edit};
pub use error::{Error, Result};
pub use files::{Outcome, Written};
pub use generate::{generate_crds, generate_rbac};
pub use init::{DEFAULT_DOMAIN, InitOptions, License, init};
pub use kustomize::{Image, kustomize, to_yaml};
pub use learn::{LearnOptions, LearnedRole, ObservedRequest, learn_rbac};
pub use operator_chart::{ChartOptions, generate_chart};
pub use project::{Plugin, Project, Resource, SCAFFOLD_VERSION};
pub use update::{Update, update};
pub use webhook::{WebhookOptions, create_webhook};
