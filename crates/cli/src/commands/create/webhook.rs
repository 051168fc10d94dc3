//! `steer create webhook`.

use std::path::Path;

use clap::Args;
use steersman_scaffold::WebhookOptions;

use crate::failure::Result;
use crate::flags;
use crate::output::Output;
use crate::scaffold::report;

const EXAMPLES: &str = "\
Examples:
  steer create webhook --kind Memcached --defaulting --programmatic-validation
  steer create webhook --version v1 --kind Memcached --conversion --spoke v1alpha1";

/// Add webhooks for a kind: defaults, checks, conversion between its versions
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Webhook {
    /// API group of the kind, without the project's domain [default: the only one that fits]
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,

    /// API version of the kind [default: the only one that fits]
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,

    /// The kind [default: the only one that fits]
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,

    /// Fill in what objects do not say
    #[arg(long)]
    defaulting: bool,

    /// Refuse objects that cannot work
    #[arg(long)]
    programmatic_validation: bool,

    /// Convert between this version, which is stored, and the others
    #[arg(long)]
    conversion: bool,

    /// Versions to convert, separated by commas [default: all others of the kind]
    #[arg(long, value_name = "VERSIONS", requires = "conversion")]
    spoke: Vec<String>,

    /// Replace files of webhooks that are there already
    #[arg(long)]
    force: bool,

    /// Accepted for operator-sdk's sake: PROJECT says what the project is made of
    #[arg(long, hide = true)]
    plugins: Option<String>,

    /// Accepted for operator-sdk's sake: `make manifests` is left to the person
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true)]
    make: Option<bool>,
}

impl Webhook {
    pub(super) fn run(self, output: &mut Output) -> Result {
        let options = WebhookOptions {
            group: self.group,
            version: self.version,
            kind: self.kind,
            defaulting: self.defaulting,
            validation: self.programmatic_validation,
            conversion: self.conversion,
            spokes: flags::split_list(&self.spoke),
            force: self.force,
        };
        let written = steersman_scaffold::create_webhook(Path::new("."), &options)?;
        report(&written, output);
        Ok(())
    }
}
