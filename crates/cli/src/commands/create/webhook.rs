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

/// Scaffold webhooks for a kind: defaulting, validation, conversion between versions
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Webhook {
    /// API group of the kind, without the project's domain [default: the only match]
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,

    /// API version of the kind [default: the only match]
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,

    /// Resource kind [default: the only match]
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,

    /// Scaffold the defaulting webhook
    #[arg(long)]
    defaulting: bool,

    /// Scaffold the validating webhook
    #[arg(long)]
    programmatic_validation: bool,

    /// Scaffold the conversion webhook, with this version as the hub (storage version)
    #[arg(long)]
    conversion: bool,

    /// Spoke versions to convert, separated by commas [default: all other versions of the kind]
    #[arg(long, value_name = "VERSIONS", requires = "conversion")]
    spoke: Vec<String>,

    /// Overwrite existing webhook files
    #[arg(long)]
    force: bool,

    /// Accepted for compatibility with operator-sdk; the PROJECT file names the plugin
    #[arg(long, hide = true)]
    plugins: Option<String>,

    /// Accepted for compatibility with operator-sdk; `make manifests` is not run
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
