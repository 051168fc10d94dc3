//! How a chart is rendered.

use steersman_gotemplate::{Interrupt, Limits};

use crate::capabilities::Capabilities;
use crate::values::FetchSchema;

/// What `.Release` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The release's name. `release-name` by default, as in `helm template`.
    pub name: String,
    /// The namespace it goes to. `default` by default.
    pub namespace: String,
    /// How many times it was installed or upgraded, this time included. 1 by default.
    pub revision: i64,
    /// Whether this is an upgrade or a rollback, and not an install. False by default.
    pub is_upgrade: bool,
}

impl Default for Release {
    fn default() -> Self {
        Self { name: "release-name".into(), namespace: "default".into(), revision: 1, is_upgrade: false }
    }
}

/// How to render.
#[derive(Clone, Debug, Default)]
pub struct RenderOptions {
    /// What `.Release` says.
    pub release: Release,
    /// What `.Capabilities` says. By default what Helm assumes without a cluster.
    pub capabilities: Capabilities,
    /// Whether a missing key ends the render. False by default: it then is nothing.
    pub strict: bool,
    /// Whether `required` and `fail` let the render go on, and `lookup` finds nothing. False by default.
    pub lint: bool,
    /// Whether values.schema.json is not looked at. False by default.
    pub skip_schema_validation: bool,
    /// How schemas that a values.schema.json refers to by URL are fetched; what was fetched is kept with the chart.
    /// `None` by default: such a reference fails.
    pub fetch_schema: Option<FetchSchema>,
    /// Whether the notes of subcharts come with those of the chart. False by default.
    pub sub_notes: bool,
    /// What the templates of one render may use together. By default a cost of 200 million and 256 MiB of memory.
    ///
    /// Keys and hashes of passwords are priced by the time that they take: the default is enough for 20 RSA keys of 4096
    /// bits, or 100 certificates or `htpasswd` entries.
    pub limits: Limits,
    /// Ends the render from another thread, such as one that watches the time: a render knows no clock. Never raised by
    /// default.
    pub interrupt: Interrupt,
}
