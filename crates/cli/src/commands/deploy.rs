//! `steer deploy` and `steer undeploy`.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use steersman_release::{ApplySet, Outcome, Progress};
use steersman_scaffold::{Image, Project, kustomize, to_yaml};

use crate::args::GlobalArgs;
use crate::cluster;
use crate::failure::{Failure, Result};
use crate::output::Output;

/// The placeholder image in the manifests of projects.
const IMAGE: &str = "controller";

const DEPLOY_EXAMPLES: &str = "\
Objects are applied with server-side apply, including CRDs of any size. Objects of an earlier
deployment that the project no longer contains are pruned.

Examples:
  steer deploy --image registry.example.com/shop-operator:v1
  steer deploy --crds-only
  steer deploy ./shop --dry-run";

const UNDEPLOY_EXAMPLES: &str = "\
CRDs are deleted first, with all their objects, while the operator still runs and can handle the
finalizers. --keep-crds keeps the CRDs and their objects.

Examples:
  steer undeploy
  steer undeploy --keep-crds
  steer undeploy --timeout 30s";

/// Flags that say what is deployed.
#[derive(Args, Debug)]
pub(crate) struct OverlayArgs {
    /// Directory of the project
    #[arg(value_name = "DIR", default_value = ".")]
    project: PathBuf,

    /// Directory of the kustomize overlay, relative to the project
    #[arg(long, value_name = "DIR", default_value = "config/default")]
    overlay: PathBuf,

    /// Use only the project's CRDs, in config/crd
    #[arg(long, conflicts_with = "overlay")]
    crds_only: bool,
}

impl OverlayArgs {
    /// Renders the overlay.
    pub(crate) fn render(&self, image: Option<&str>) -> Result<Vec<Value>> {
        let overlay = if self.crds_only { Path::new("config/crd") } else { &self.overlay };
        render(&self.project, overlay, image)
    }

    /// Returns the name of the ApplySet of the objects.
    fn set(&self) -> Result<String> {
        Ok(Project::load(&self.project)?.name().to_owned())
    }
}

/// Renders an overlay of a project, with the operator's image set.
pub(crate) fn render(project: &Path, overlay: &Path, image: Option<&str>) -> Result<Vec<Value>> {
    let images: Vec<Image> = image.iter().map(|image| Image::replace(IMAGE, image)).collect();
    let directory = project.join(overlay);
    if !directory.is_dir() {
        return Err(Failure::new(format!("{} is not a directory", directory.display()))
            .help("run it in a project's directory, or name one: steer deploy ./shop"));
    }
    kustomize(&directory, &images).map_err(|error| match &error {
        steersman_scaffold::Error::Io { .. } => {
            Failure::from(error).help("`make manifests` generates the files that kustomization.yaml names")
        }
        _ => error.into(),
    })
}

/// Returns the main namespace of the objects: that of the first workload.
fn namespace(objects: &[Value], globals: &GlobalArgs) -> String {
    let place = |object: &Value| object.pointer("/metadata/namespace")?.as_str().map(str::to_owned);
    let workload = objects.iter().find(|object| object["kind"] == "Deployment").and_then(place);
    workload
        .or_else(|| objects.iter().find_map(place))
        .or_else(|| globals.namespace.clone())
        .unwrap_or_else(|| "default".into())
}

/// Apply a project's manifests to a cluster, prune removed objects, and wait until ready
#[derive(Args, Debug)]
#[command(after_help = DEPLOY_EXAMPLES)]
pub(crate) struct Deploy {
    #[command(flatten)]
    overlay: OverlayArgs,

    /// Operator image [default: the image in the manifests]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,

    /// Take over fields owned by other field managers
    #[arg(long)]
    force_conflicts: bool,

    /// Do not wait until all objects are ready
    #[arg(long)]
    no_wait: bool,

    /// Time to wait until all objects are ready
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = crate::flags::duration)]
    timeout: Duration,

    /// Print the manifests without applying them
    #[arg(long)]
    dry_run: bool,
}

impl Deploy {
    pub(crate) fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let objects = self.overlay.render(self.image.as_deref())?;
        if self.dry_run {
            output.push(&to_yaml(&objects)?);
            return Ok(());
        }
        let namespace = namespace(&objects, globals);
        let name = self.overlay.set()?;
        cluster::run(async {
            let client = cluster::client(globals).await?;
            let set = ApplySet::new(client, &name, &namespace)
                .force_conflicts(self.force_conflicts)
                .on_progress(display());
            let total = objects.len();
            let applied =
                if self.overlay.crds_only { set.apply_only(objects).await } else { set.apply(objects).await };
            let applied = applied.map_err(conflict)?;
            if !self.no_wait {
                set.until_ready(&applied, self.timeout).await?;
            }
            drop(set);
            let state = if self.no_wait { "applied" } else { "ready" };
            if self.overlay.crds_only {
                output.line(format_args!("{total} definitions {state}"));
            } else {
                output.line(format_args!("{name}: {total} objects {state} in namespace {namespace}"));
            }
            Ok(())
        })
    }
}

/// Adds a help text to conflicts, with the flag that resolves them.
fn conflict(error: steersman_release::Error) -> Failure {
    let is_conflict = error.status_code() == Some(409);
    let failure = Failure::from(error);
    if is_conflict { failure.help("--force-conflicts takes ownership of the fields") } else { failure }
}

/// Delete the objects applied by `steer deploy`, and wait until they are gone
#[derive(Args, Debug)]
#[command(after_help = UNDEPLOY_EXAMPLES)]
pub(crate) struct Undeploy {
    #[command(flatten)]
    overlay: OverlayArgs,

    /// Keep the CRDs, and with them all objects of the project's kinds
    #[arg(long, conflicts_with = "crds_only")]
    keep_crds: bool,

    /// Time to wait until all objects are deleted
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = crate::flags::duration)]
    timeout: Duration,
}

impl Undeploy {
    pub(crate) fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let objects = self.overlay.render(None)?;
        let namespace = namespace(&objects, globals);
        let name = self.overlay.set()?;
        // The set's members are found through its parent object. Definitions alone have no set, hence the unused name.
        let set_name = if self.overlay.crds_only { format!("{name}-crds") } else { name.clone() };
        cluster::run(async {
            let client = cluster::client(globals).await?;
            let set = ApplySet::new(client, &set_name, &namespace).on_progress(display());
            let deleted = set.delete_all(objects, self.keep_crds, self.timeout).await.map_err(|error| {
                let is_held = matches!(&error, steersman_release::Error::Timeout { what }
                    if what.iter().any(|one| one.contains("finalizer")));
                let failure = Failure::from(error);
                if is_held {
                    failure.help("start the operator that sets the finalizers, or remove them: kubectl patch KIND NAME --type=merge -p '{\"metadata\":{\"finalizers\":null}}'")
                } else {
                    failure
                }
            })?;
            drop(set);
            output.line(format_args!("{name}: {deleted} objects deleted"));
            Ok(())
        })
    }
}

/// Returns a progress display of objects being written or deleted, and of what is being waited for.
fn display() -> impl Fn(&Progress) + Send + Sync + 'static {
    let display = Display { is_terminal: std::io::stderr().is_terminal(), waiting: Mutex::default() };
    move |progress: &Progress| display.show(progress)
}

/// Progress on standard error: permanent lines, and on a terminal one status line.
struct Display {
    is_terminal: bool,
    /// The last status line.
    waiting: Mutex<String>,
}

impl Display {
    fn show(&self, progress: &Progress) {
        let mut waiting = self.waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match progress {
            Progress::Written { id, outcome } => {
                let outcome = match outcome {
                    Outcome::Created => "created",
                    Outcome::Changed => "changed",
                    Outcome::Unchanged => "unchanged",
                };
                self.line(&mut waiting, &format!("{outcome:<9} {id}"));
            }
            Progress::Deleted { id } => self.line(&mut waiting, &format!("{:<9} {id}", "deleted")),
            Progress::Waiting { left, total } => {
                let ready = total.saturating_sub(left.len());
                let line = format!("{ready} of {total}, waiting for {}", left.join("; "));
                if *waiting == line {
                    return;
                }
                if self.is_terminal {
                    let start: String = line.chars().take(WIDTH).collect();
                    let _ = write!(std::io::stderr(), "{CLEAR} {start}");
                } else {
                    let _ = writeln!(std::io::stderr(), " {line}");
                }
                *waiting = line;
            }
            _ => {}
        }
    }

    /// Prints a permanent line, replacing the status line.
    fn line(&self, waiting: &mut String, line: &str) {
        let clear = if self.is_terminal && !waiting.is_empty() { CLEAR } else { "" };
        waiting.clear();
        let _ = writeln!(std::io::stderr(), "{clear} {line}");
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        let waiting = self.waiting.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        if self.is_terminal && !waiting.is_empty() {
            let _ = write!(std::io::stderr(), "{CLEAR}");
        }
    }
}

/// Escape sequence that clears the current line.
const CLEAR: &str = "\r\x1b[2K";
/// Maximum width of the status line.
const WIDTH: usize = 100;
