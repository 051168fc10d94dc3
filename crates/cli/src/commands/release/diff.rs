//! `steer diff`.

use clap::{Args, Subcommand};
use steersman_release::{Change, Diff as Differences, FieldChange};

use super::upgrade::ValuesFrom;
use super::{DeployArgs, SourceArgs};
use crate::args::GlobalArgs;
use crate::charts::{self, Located};
use crate::cluster;
#[cfg(all(unix, feature = "ansible"))]
use crate::commands::run::ansible::diff::DiffAnsible;
use crate::failure::{Failure, Result};
use crate::output::Output;

const EXAMPLES: &str = "\
Objects are compared with those in the cluster by server-side dry runs. Nothing is written.

Examples:
  steer diff shop ./chart -f prod.yaml
  steer diff shop ./chart --reuse-values --set image.tag=1.6
  steer diff ansible";

/// Show the changes that an install, an upgrade or a run of plays would make
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Diff {
    #[command(subcommand)]
    command: Option<Commands>,

    /// Name of the release
    #[arg(required = true)]
    name: Option<String>,

    /// Chart: a directory, archive, URL, oci:// reference, or repository/chart
    #[arg(required = true)]
    chart: Option<String>,

    /// Show the contents of Secrets
    #[arg(long)]
    show_secrets: bool,

    #[command(flatten)]
    values_from: ValuesFrom,

    #[command(flatten)]
    deploy: DeployArgs,

    #[command(flatten)]
    source: SourceArgs,
}

#[derive(Debug, Subcommand)]
enum Commands {
    #[cfg(all(unix, feature = "ansible"))]
    Ansible(Box<DiffAnsible>),
}

impl Diff {
    pub(crate) fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        if let Some(what) = self.command {
            match what {
                #[cfg(all(unix, feature = "ansible"))]
                Commands::Ansible(diff) => return diff.run(globals, output),
            }
        }
        let (Some(name), Some(chart)) = (&self.name, &self.chart) else {
            return Err(Failure::new("release name and chart are required"));
        };
        let options = self.values_from.apply(self.deploy.options(globals)?);
        let located = Located::find(chart, &self.source.chart, globals)?;
        let values = charts::values(&self.source.values, globals)?;
        let chart = located.load_installable(self.deploy.dependency_update, &self.source.chart, globals)?;
        let found = cluster::run(async {
            let releases = self.deploy.releases(cluster::releases(globals).await?)?;
            Ok(releases.diff(name, &chart, &values, &options).await?)
        })?;
        self.show(&found, output);
        Ok(())
    }

    fn show(&self, found: &Differences, output: &mut Output) {
        let (mut added, mut changed, mut deleted, mut same) = (0, 0, 0, 0);
        for object in &found.objects {
            let title = format!("{}/{}", object.id.kind, object.id.name);
            match &object.change {
                Change::Added => {
                    added += 1;
                    output.line(format_args!("+ {title}  created"));
                }
                Change::Deleted => {
                    deleted += 1;
                    output.line(format_args!("- {title}  deleted"));
                }
                Change::Kept => {
                    same += 1;
                    output.line(format_args!("  {title}  no longer part of the release, kept"));
                }
                Change::Same => same += 1,
                Change::Changed(fields) => {
                    changed += 1;
                    let width =
                        fields.iter().map(|field| field.path.chars().count()).max().unwrap_or(0).min(50);
                    for (index, field) in fields.iter().enumerate() {
                        let title =
                            if index == 0 { title.clone() } else { " ".repeat(title.chars().count()) };
                        let text = if object.id.kind == "Secret" && !self.show_secrets {
                            hidden(field).to_owned()
                        } else {
                            field.to_string()
                        };
                        output.line(format_args!("{title}  {:<width$}  {text}", field.path));
                    }
                }
            }
        }
        let counts = [(added, "created"), (changed, "changed"), (deleted, "deleted"), (same, "the same")];
        let counts: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        output.line(format_args!("{}. Nothing was written.", counts.join(", ")));
    }
}

/// Describes a change in a Secret without its values.
fn hidden(field: &FieldChange) -> &'static str {
    let inside = field.path.starts_with("data") || field.path.starts_with("stringData");
    match (inside, &field.before, &field.after) {
        (_, None, _) => "(added)",
        (_, _, None) => "(removed)",
        _ => "(changed)",
    }
}
