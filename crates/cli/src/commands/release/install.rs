//! `steer install`.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use steersman_chart::System;
use steersman_release::Options;

use super::show::{self, Shown};
use super::{DeployArgs, SourceArgs};
use crate::args::GlobalArgs;
use crate::charts::{self, Located};
use crate::cluster;
use crate::failure::{Failure, Result};
use crate::output::Output;

const EXAMPLES: &str = "\
The release is stored in Helm's format, so that helm and steer can both manage it. An interrupted
install of the same name is recovered.

Examples:
  steer install shop ./chart -f prod.yaml --set image.tag=1.5 --wait
  steer install shop oci://registry.example.com/charts/shop -n shop --create-namespace
  steer install shop ./chart --atomic --timeout 2m
  steer install shop ./chart --dry-run=server";

/// Install a chart into a cluster
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Install {
    /// [NAME] of the release, and CHART: a directory, archive, URL, oci:// reference, or repository/chart
    #[arg(value_name = "[NAME] CHART", required = true)]
    words: Vec<String>,

    /// Generate the name from the chart's name and the time
    #[arg(short, long)]
    generate_name: bool,

    /// Template for the release name
    #[arg(long, value_name = "TEMPLATE")]
    name_template: Option<String>,

    /// Reuse the name of a failed release, or of an uninstalled one that remains in the history
    #[arg(long)]
    replace: bool,

    #[command(flatten)]
    deploy: DeployArgs,

    #[command(flatten)]
    source: SourceArgs,
}

impl Install {
    pub(crate) fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let failed = |failure: Failure| failure.within("INSTALLATION FAILED");
        let options = Options { replace: self.replace, ..self.deploy.options(globals)? };
        let (name, place) = self.name_and_chart()?;
        let located = Located::find(place, &self.source.chart, globals)?;
        let values = charts::values(&self.source.values, globals)?;
        let chart = located.load_installable(self.deploy.dependency_update, &self.source.chart, globals)?;
        let release = cluster::run(async {
            let releases = self.deploy.releases(cluster::releases(globals).await?)?;
            Ok(releases.install(&name, &chart, &values, &options).await?)
        })
        .map_err(failed)?;
        if show::data(self.deploy.format.output, &release, output)? {
            return Ok(());
        }
        let shown = Shown {
            all: globals.debug(),
            hide_notes: self.deploy.hide_notes,
            hide_secrets: self.deploy.hide_secret,
            ..Shown::default()
        };
        show::release(&release, shown, output)
    }

    fn name_and_chart(&self) -> Result<(String, &str)> {
        let template = self.name_template.as_deref().filter(|template| !template.is_empty());
        match self.words.as_slice() {
            [_, _] if self.generate_name => {
                Err(Failure::new("cannot set --generate-name and also specify a name"))
            }
            [_, _] if template.is_some() => {
                Err(Failure::new("cannot set --name-template and also specify a name"))
            }
            [name, chart] => Ok((name.clone(), chart)),
            [chart] => match template {
                Some(template) => Ok((steersman_chart::template_name(template, System::default())?, chart)),
                None if self.generate_name => Ok((generated_name(chart), chart)),
                None => Err(Failure::new("must either provide a name or specify --generate-name")),
            },
            [_, _, rest @ ..] => Err(Failure::new(format!(
                "expected at most two arguments, unexpected arguments: {}",
                rest.join(", ")
            ))),
            [] => Err(Failure::new("steer install requires at least 1 argument")),
        }
    }
}

fn generated_name(chart: &str) -> String {
    let base = Path::new(chart).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let base = base.split('.').next().filter(|base| !base.is_empty()).unwrap_or("chart");
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    format!("{base}-{seconds}")
}
