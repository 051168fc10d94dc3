//! Helm charts: load, dependencies, values, schema, templates, functions, render and sort, as in Helm.
//!
//! ```
//! use std::time::SystemTime;
//! use steersman_chart::{Chart, File, OutputOptions, RenderOptions, Seeded, Values};
//!
//! # fn main() -> Result<(), steersman_chart::Error> {
//! let chart = Chart::from_files([
//!     File::new("Chart.yaml", "{apiVersion: v2, name: hello, version: 0.1.0}"),
//!     File::new("values.yaml", "greeting: hello"),
//!     File::new("templates/config.yaml", "kind: ConfigMap\ndata: {text: {{ .Values.greeting | upper }}}"),
//! ])?;
//! let mut values = Values::new();
//! values.set("greeting=ahoy")?;
//! let environment = Seeded::new(1, SystemTime::UNIX_EPOCH);
//! let rendered = chart.render(&values, &RenderOptions::default(), environment)?;
//! assert_eq!(
//!     rendered.output(&OutputOptions::default(), None)?,
//!     "---\n# Source: hello/templates/config.yaml\nkind: ConfigMap\ndata: {text: AHOY}\n"
//! );
//! # Ok(())
//! # }
//! ```
//!
//! Without the feature `crypto`, which is on by default, calls of key, certificate and password functions fail.
//!
//! A [`Chart`] is loaded once and can be rendered many times, concurrently too; it caches what was parsed.
//!
//! **Invariant:** a render has no access to a cluster, clock or random source except through its [`Environment`].

mod capabilities;
mod chart;
mod dependencies;
mod engine;
mod environment;
mod error;
mod functions;
mod gofmt;
mod lint;
mod load;
mod manifest;
mod metadata;
mod options;
mod output;
mod parallel;
mod prepare;
mod render;
mod rendered_files;
pub mod semver;
pub mod sprig;
mod values;
mod version;
mod yaml;

pub use capabilities::{Capabilities, HELM_VERSION, HelmVersion, KubeVersion};
pub use chart::{Chart, Crd, File};
pub use engine::template_name;
pub use environment::{Environment, Seeded, System};
pub use error::{Diagnostic, Error, Location, TemplateError};
pub use functions::{Host as FunctionHost, register as register_functions};
pub use lint::{LintMessage, LintOptions, Severity, lint};
pub use load::{Links, LoadOptions, archive_files};
pub use manifest::{Hook, HookEvent, INSTALL_ORDER, Manifest, UNINSTALL_ORDER, sort_by_kind, split};
pub use metadata::{Dependency, ImportValue, Lock, Maintainer, Metadata};
pub use options::{Release, RenderOptions};
pub use output::{OutputFile, OutputOptions, PostRenderer, debug_output};
pub use render::Rendered;
pub use rendered_files::RenderedFiles;
pub use steersman_gotemplate::{Exceeded, Interrupt, Limits, Str};
pub use values::{Data, FetchSchema, ReadFile, Table, ValueOptions, Values};
