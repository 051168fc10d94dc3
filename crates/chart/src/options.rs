//! How a chart is rendered.

use steersman_gotemplate::{Interrupt, Limits};

use crate::capabilities::Capabilities;
use crate::values::FetchSchema;

/// The contents of `.Release`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The release's name. `release-name` by default, as in `helm template`.
    pub name: String,
    /// Namespace of the release. `default` by default.
    pub namespace: String,
    /// Release revision: 1 for an install, increased by each upgrade and rollback. 1 by default.
    pub revision: i64,
    /// Whether this is an upgrade or a rollback rather than an install. False by default.
    pub is_upgrade: bool,
}

impl Default for Release {
    fn default() -> Self {
        Self { name: "release-name".into(), namespace: "default".into(), revision: 1, is_upgrade: false }
    }
}

/// Options of a render.
#[derive(Clone, Debug, Default)]
pub struct RenderOptions {
    /// Contents of `.Release`.
    pub release: Release,
    /// Contents of `.Capabilities`. By default those that Helm assumes without a cluster.
    pub capabilities: Capabilities,
    /// Whether a missing key fails the render. False by default: it then evaluates to nothing.
    pub strict: bool,
    /// Whether `required` and `fail` do not fail, and `lookup` finds nothing. False by default.
    pub lint: bool,
    /// Whether to skip values.schema.json. False by default.
    pub skip_schema_validation: bool,
    /// Fetches schemas that a values.schema.json refers to by URL; the chart caches them.
    ///
    /// `None` by default: such a reference fails.
    pub fetch_schema: Option<FetchSchema>,
    /// Whether to include the notes of subcharts. False by default.
    pub sub_notes: bool,
    /// Limits for all templates of a render together. By default a cost of 200 million and 256 MiB of memory.
    ///
    /// Keys and password hashes are charged by the time they take: the default suffices for 20 RSA keys of 4096 bits,
    /// or 100 certificates or `htpasswd` entries.
    pub limits: Limits,
    /// Ends the render from another thread, such as a timer: a render has no clock. Never raised by default.
    pub interrupt: Interrupt,
}
