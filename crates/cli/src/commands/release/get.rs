//! `steer get`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use steersman_release::Release;

use super::show::{self, Format, FormatArgs, Shown};
use crate::args::GlobalArgs;
use crate::cluster;
use crate::failure::Result;
use crate::output::Output;

/// Show recorded information about a release
#[derive(Args, Debug)]
pub(crate) struct Get {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, Subcommand)]
enum Commands {
    /// Show all recorded information
    #[command(after_help = "Examples:\n  steer get all shop")]
    All(ReleaseArg),
    /// Show the user-supplied values
    #[command(after_help = "Examples:\n  steer get values shop --all -o json")]
    Values(ValuesArgs),
    /// Show the manifest of the objects
    #[command(after_help = "Examples:\n  steer get manifest shop --revision 2")]
    Manifest(ReleaseArg),
    /// Show the hooks
    #[command(after_help = "Examples:\n  steer get hooks shop")]
    Hooks(ReleaseArg),
    /// Show the notes
    #[command(after_help = "Examples:\n  steer get notes shop")]
    Notes(ReleaseArg),
    /// Show the chart, its version and the time of deployment
    #[command(after_help = "Examples:\n  steer get metadata shop -o yaml")]
    Metadata(MetadataArgs),
}

#[derive(Args, Debug)]
struct ReleaseArg {
    /// Name of the release
    name: String,

    /// Revision number [default: the latest]
    #[arg(long, value_name = "NUMBER")]
    revision: Option<i64>,
}

#[derive(Args, Debug)]
struct ValuesArgs {
    #[command(flatten)]
    which: ReleaseArg,

    /// Show all computed values, including the chart's
    #[arg(short, long)]
    all: bool,

    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Args, Debug)]
struct MetadataArgs {
    #[command(flatten)]
    which: ReleaseArg,

    #[command(flatten)]
    format: FormatArgs,
}

impl ReleaseArg {
    fn find(&self, globals: &GlobalArgs) -> Result<Release> {
        cluster::run(async { Ok(cluster::releases(globals).await?.get(&self.name, self.revision).await?) })
    }
}

impl Get {
    pub(crate) fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        match self.command {
            Commands::All(which) => {
                let shown = Shown { all: true, metadata: true, ..Shown::default() };
                show::release(&which.find(globals)?, shown, output)?;
            }
            Commands::Values(args) => values(&args, &args.which.find(globals)?, output)?,
            Commands::Manifest(which) => output.line(which.find(globals)?.manifest),
            Commands::Hooks(which) => {
                which.find(globals)?.hooks.iter().for_each(|hook| output.push(&show::hook_text(hook)));
            }
            Commands::Notes(which) => {
                let notes = which.find(globals)?.info.notes;
                if !notes.is_empty() {
                    output.line(format_args!("NOTES:\n{notes}"));
                }
            }
            Commands::Metadata(args) => metadata(&args, &args.which.find(globals)?, output)?,
        }
        Ok(())
    }
}

fn values(args: &ValuesArgs, release: &Release, output: &mut Output) -> Result {
    let values = if args.all { release.computed_values() } else { release.config.clone() };
    let values = Value::Object(values);
    if args.format.output == Format::Table {
        output.line(if args.all { "COMPUTED VALUES:" } else { "USER-SUPPLIED VALUES:" });
        let text = if args.all { show::yaml(&values)? } else { show::given(release)? };
        output.push(&text);
        return Ok(());
    }
    show::data(args.format.output, &values, output).map(|_| ())
}

fn metadata(args: &MetadataArgs, release: &Release, output: &mut Output) -> Result {
    let deployed = release.info.last_deployed.map(|time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let rows = [
        ("NAME", "name", json!(release.name)),
        ("CHART", "chart", json!(release.chart.name())),
        ("VERSION", "version", json!(release.chart.version())),
        ("APP_VERSION", "appVersion", json!(release.chart.app_version())),
        ("NAMESPACE", "namespace", json!(release.namespace)),
        ("REVISION", "revision", json!(release.version)),
        ("STATUS", "status", json!(release.info.status)),
        ("DEPLOYED_AT", "deployedAt", json!(deployed.unwrap_or_default())),
    ];
    if args.format.output == Format::Table {
        for (title, _, value) in rows {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            output.line(format_args!("{title}: {text}"));
        }
        return Ok(());
    }
    let map: serde_json::Map<String, Value> =
        rows.into_iter().map(|(_, key, value)| (key.to_owned(), value)).collect();
    show::data(args.format.output, &map, output).map(|_| ())
}
