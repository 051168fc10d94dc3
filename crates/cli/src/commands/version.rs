//! `steer version`.

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  steer version
  steer version -o json";

/// Print the version of steer, and of the Helm that its rendering matches
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Version {
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,

    /// Print only the version number
    #[arg(long, conflicts_with = "output")]
    short: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Json,
    Yaml,
}

#[derive(Serialize)]
struct VersionInfo {
    version: &'static str,
    helm: &'static str,
}

impl Version {
    pub(crate) fn run(self, output: &mut Output) -> Result {
        let facts = VersionInfo { version: env!("CARGO_PKG_VERSION"), helm: steersman_chart::HELM_VERSION };
        let failed = |error: String| Failure::new(error);
        match self.output {
            None if self.short => output.line(facts.version),
            None => output.line(format_args!("steer {} (renders like Helm {})", facts.version, facts.helm)),
            Some(Format::Json) => {
                output.line(serde_json::to_string(&facts).map_err(|error| failed(error.to_string()))?);
            }
            Some(Format::Yaml) => {
                output.push(&steersman_yaml::to_string(&facts).map_err(|error| failed(error.to_string()))?);
            }
        }
        Ok(())
    }
}
