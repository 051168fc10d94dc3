//! `steer bundle`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use serde_json::json;
use steersman_cluster::Cluster;
use steersman_scaffold::{BundleContent, BundleFinding, validate_bundle};

use crate::failure::{Failure, Result};
use crate::output::Output;

/// Work with Operator Lifecycle Manager bundles
#[derive(Args, Debug)]
pub(crate) struct Bundle {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, Subcommand)]
enum Commands {
    Validate(Validate),
}

const EXAMPLES: &str = "\
Examples:
  steer bundle validate
  steer bundle validate ./bundle -o json-alpha1";

/// Validate a bundle against the rules of the Operator Lifecycle Manager
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
struct Validate {
    /// Directory of the bundle
    #[arg(value_name = "DIR", default_value = "bundle")]
    directory: PathBuf,

    /// Output format of the report
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
        let Commands::Validate(validate) = self.command;
        let helped = |error| Failure::from(error).help("`steer generate bundle` makes one");
        let mut findings = validate_bundle(&validate.directory).map_err(helped)?;
        if !findings.iter().any(|finding| finding.is_error) {
            let content = BundleContent::load(&validate.directory).map_err(helped)?;
            findings
                .extend(crate::runtime::multi_thread()?.block_on(refused(&validate.directory, &content))?);
        }
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

/// Returns the API server's errors about the definitions.
///
/// It validates them more strictly than the rules of bundles.
async fn refused(directory: &Path, content: &BundleContent) -> Result<Vec<BundleFinding>> {
    let cluster = Cluster::builder().workloads(false).start().await;
    let cluster = cluster.map_err(|error| Failure::new(error.to_string()))?;
    let resource = ApiResource::erase::<CustomResourceDefinition>(&());
    let api: Api<DynamicObject> = Api::all_with(cluster.client(), &resource);
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let mut findings = Vec::new();
    for (path, definition) in &content.definitions {
        let file = path.strip_prefix(directory).unwrap_or(path).display().to_string();
        let mut find = |field: &str, problem: String| {
            let (file, field) = (file.clone(), field.to_owned());
            findings.push(BundleFinding { is_error: true, file, field, problem });
        };
        let definition = match serde_json::from_value(definition.clone()) {
            Ok(definition) => definition,
            Err(error) => {
                find("", error.to_string());
                continue;
            }
        };
        match api.create(&params, &definition).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) => {
                match status.details.as_ref().filter(|one| !one.causes.is_empty()) {
                    Some(details) => {
                        details.causes.iter().for_each(|cause| find(&cause.field, cause.message.clone()));
                    }
                    None => find("", status.message.clone()),
                }
            }
            Err(error) => return Err(Failure::of_kube(&error)),
        }
    }
    Ok(findings)
}
