//! `steer bundle`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use steersman_scaffold::validate_bundle;

use crate::failure::{Failure, Result};
use crate::output::Output;

/// Work with bundles for the Operator Lifecycle Manager
#[derive(Args, Debug)]
pub(crate) struct Bundle {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Validate(Validate),
}

const EXAMPLES: &str = "\
Examples:
  steer bundle validate
  steer bundle validate ./bundle -o json-alpha1";

/// Check a bundle against the rules of the Operator Lifecycle Manager
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
struct Validate {
    /// Directory of the bundle
    #[arg(value_name = "DIR", default_value = "bundle")]
    directory: PathBuf,

    /// The form of the report
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    JsonAlpha1,
}

impl Bundle {
    pub(crate) fn run(self, output: &mut Output) -> Result {
        let What::Validate(validate) = self.what;
        let findings = validate_bundle(&validate.directory)
            .map_err(|error| Failure::from(error).help("`steer generate bundle` makes one"))?;
        let errors = findings.iter().filter(|finding| finding.is_error).count();
        match validate.output {
            Format::JsonAlpha1 => {
                let outputs: Vec<_> = findings
                    .iter()
                    .map(|finding| {
                        let level = if finding.is_error { "error" } else { "warning" };
                        json!({"type": level, "message": finding.to_string()})
                    })
                    .collect();
                output.line(format_args!("{:#}", json!({"passed": errors == 0, "outputs": outputs})));
            }
            Format::Text => {
                for finding in &findings {
                    output.line(format_args!(
                        "{} {finding}",
                        if finding.is_error { "error:  " } else { "warning:" }
                    ));
                }
                if errors == 0 {
                    output.line("All validation tests have completed successfully");
                }
            }
        }
        match errors {
            0 => Ok(()),
            1 => Err(Failure::new("the bundle has 1 error")),
            many => Err(Failure::new(format!("the bundle has {many} errors"))),
        }
    }
}
