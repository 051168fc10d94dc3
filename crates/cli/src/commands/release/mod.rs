//! The release commands, and what they share.

pub(super) mod diff;
pub(super) mod get;
pub(super) mod history;
pub(super) mod install;
pub(super) mod list;
pub(super) mod rollback;
mod show;
pub(super) mod status;
pub(super) mod test;
pub(super) mod uninstall;
pub(super) mod upgrade;
mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use steersman_release::{CrdPolicy, DryRun, Options, Releases, Timeout, WriteMode};

use crate::args::{ChartArgs, GlobalArgs, RenderArgs, ValuesArgs};
use crate::failure::{Failure, Result};
use crate::flags;
pub(super) use crate::flags::duration;
use crate::postrender::PostRenderer;
use crate::remote;

/// Flags of install and upgrade.
#[derive(Args, Debug)]
#[command(next_help_heading = "Release")]
pub(super) struct DeployArgs {
    /// Wait until all objects are ready
    #[arg(long)]
    wait: bool,

    /// With --wait, also wait until all Jobs have completed
    #[arg(long)]
    wait_for_jobs: bool,

    /// Time limit for each hook, and for waiting
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = duration)]
    timeout: Duration,

    /// On failure, uninstall a new release or roll back an upgrade; implies --wait
    #[arg(long)]
    atomic: bool,

    /// Simulate without writing anything; with `server`, templates can look up objects
    #[arg(long, value_name = "client|server", num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    dry_run: Option<String>,

    /// Do not run hooks
    #[arg(long)]
    no_hooks: bool,

    /// Replace objects instead of patching them
    #[arg(long)]
    force: bool,

    /// Use server-side apply; with false, Helm 3's three-way merge
    #[arg(long, value_name = "BOOL", default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    server_side: String,

    /// Adopt existing objects without ownership metadata or of another release
    #[arg(long)]
    take_ownership: bool,

    /// Do not install the CRDs in crds/
    #[arg(long)]
    skip_crds: bool,

    /// Policy for the CRDs in crds/ [default: Create on install, Skip on upgrade]
    #[arg(long, value_name = "Skip|Create|CreateReplace", ignore_case = true)]
    crds: Option<Crds>,

    /// Create the release namespace if not present
    #[arg(long)]
    create_namespace: bool,

    /// Description of the revision in the history
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// Labels to add to the release record: key=value,key=value; may be repeated
    #[arg(short, long, value_name = "KEY=VALUE")]
    labels: Vec<String>,

    /// Do not check values against values.schema.json
    #[arg(long)]
    skip_schema_validation: bool,

    /// Accepted for compatibility with Helm; the API server always validates objects
    #[arg(long, hide = true)]
    disable_openapi_validation: bool,

    /// Enable DNS lookups when rendering templates (getHostByName)
    #[arg(long)]
    enable_dns: bool,

    /// Render subchart notes along with the parent's
    #[arg(long)]
    render_subchart_notes: bool,

    /// Do not show notes
    #[arg(long)]
    hide_notes: bool,

    /// With --dry-run, hide Secrets
    #[arg(long)]
    hide_secret: bool,

    /// Fetch dependencies that are missing from charts/ first
    #[arg(long)]
    dependency_update: bool,

    /// Executable for post-rendering: reads manifests on stdin, writes the result to stdout
    #[arg(long, value_name = "PROGRAM")]
    post_renderer: Option<String>,

    /// Argument for the post-renderer; may be repeated
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    post_renderer_args: Vec<String>,

    #[command(flatten)]
    format: show::FormatArgs,

    #[command(flatten)]
    render: RenderArgs,
}

/// A policy for definitions, as Flux names them.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
#[value(rename_all = "PascalCase")]
enum Crds {
    Skip,
    Create,
    CreateReplace,
}

impl DeployArgs {
    fn options(&self, globals: &GlobalArgs) -> Result<Options> {
        let crds = self.crds.map(|crds| match crds {
            Crds::Skip => CrdPolicy::Skip,
            Crds::Create => CrdPolicy::Create,
            Crds::CreateReplace => CrdPolicy::CreateReplace,
        });
        let dry_run = match self.dry_run.as_deref() {
            None | Some("false" | "none") => None,
            Some("" | "true" | "client") => Some(DryRun::Client),
            Some("server") => Some(DryRun::Server),
            Some(_) => {
                return Err(Failure::new(
                    "Invalid dry-run flag. Flag must one of the following: false, true, none, client, server",
                ));
            }
        };
        if self.hide_secret && dry_run.is_none() {
            return Err(Failure::new("Hiding Kubernetes secrets requires a dry-run mode"));
        }
        let post_render = match self.post_renderer.as_deref().filter(|program| !program.is_empty()) {
            Some(program) => {
                let program = PostRenderer::find(program, &self.post_renderer_args)?;
                Some(Arc::new(move |manifest: &str| program.run(manifest)) as steersman_release::PostRender)
            }
            None => None,
        };
        Ok(Options {
            wait: self.wait,
            wait_for_jobs: self.wait_for_jobs,
            timeout: Timeout(self.timeout),
            atomic: self.atomic,
            disable_hooks: self.no_hooks,
            crds: if self.skip_crds { Some(CrdPolicy::Skip) } else { crds },
            create_namespace: self.create_namespace,
            take_ownership: self.take_ownership,
            description: self.description.clone().filter(|text| !text.is_empty()),
            labels: labels(&self.labels)?,
            dry_run,
            skip_schema_validation: self.skip_schema_validation,
            fetch_schema: Some(remote::schemas(globals)),
            enable_dns: self.enable_dns,
            render: self.render.limits(),
            sub_notes: self.render_subchart_notes,
            post_render,
            ..Options::default()
        })
    }

    fn releases(&self, releases: Releases) -> Result<Releases> {
        let server_side = flags::go_bool(&self.server_side).ok_or_else(|| {
            Failure::new(format!("--server-side must be true or false, not {:?}", self.server_side))
        })?;
        Ok(releases.write_mode(write_mode(self.force, server_side)).on_progress(waiting::display()))
    }
}

fn write_mode(force: bool, server_side: bool) -> WriteMode {
    match (force, server_side) {
        (true, _) => WriteMode::Replace,
        (false, true) => WriteMode::ServerSide,
        (false, false) => WriteMode::ThreeWay,
    }
}

/// A chart and values for a release.
#[derive(Args, Debug)]
pub(super) struct SourceArgs {
    #[command(flatten)]
    values: ValuesArgs,

    #[command(flatten)]
    chart: ChartArgs,
}

fn labels(words: &[String]) -> Result<BTreeMap<String, String>> {
    let pairs = flags::split_list(words);
    pairs
        .iter()
        .map(|pair| match pair.split_once('=') {
            Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
            None => Err(Failure::new(format!("{pair:?} must be formatted as key=value"))),
        })
        .collect()
}

/// Returns the default number of revisions to keep, from HELM_MAX_HISTORY or 10.
fn history_max() -> usize {
    std::env::var("HELM_MAX_HISTORY").ok().and_then(|text| text.parse().ok()).unwrap_or(10)
}
