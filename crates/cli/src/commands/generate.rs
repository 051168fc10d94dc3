//! `steer generate`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::{Args, Subcommand};
use steersman_scaffold::{
    BundleOptions, ChartOptions, Plugin, Project, generate_bundle, generate_chart, generate_crds,
    generate_rbac, to_yaml,
};

use super::deploy;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::scaffold::report;

/// Generate manifests, charts and bundles from a project's code, charts and config
#[derive(Args, Debug)]
pub(crate) struct Generate {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, Subcommand)]
enum Commands {
    Crds(Crds),
    Rbac(Rbac),
    Webhooks(Webhooks),
    Kustomize(Kustomize),
    Installer(Installer),
    Chart(ChartArgs),
    Bundle(BundleArgs),
}

const CRDS_EXAMPLES: &str = "\
Examples:
  steer generate crds
  steer generate crds --force";

const RBAC_EXAMPLES: &str = "\
Examples:
  steer generate rbac
  steer generate rbac ./shop --force";

const WEBHOOKS_EXAMPLES: &str = "\
Examples:
  steer generate webhooks";

const KUSTOMIZE_EXAMPLES: &str = "\
Equivalent to `kubectl kustomize`, for the fields that operator projects use.

Examples:
  steer generate kustomize
  steer generate kustomize --overlay config/crd
  steer generate kustomize --image registry.example.com/shop-operator:v1 | kubectl apply --server-side -f -";

const INSTALLER_EXAMPLES: &str = "\
Examples:
  steer generate installer --image registry.example.com/shop-operator:v1
  steer generate installer -o -";

const CHART_EXAMPLES: &str = "\
The chart installs the operator into the release's namespace. Its templates are regenerated each
time; an edited values.yaml is kept.

Examples:
  steer generate chart --image registry.example.com/shop-operator:v1
  steer generate chart --chart-version 1.2.0 && helm install shop-operator dist/chart -n shop --create-namespace";

const BUNDLE_EXAMPLES: &str = "\
The bundle is generated from config/manifests: a ClusterServiceVersion with descriptors from the
schemas, CRDs, metadata, and the scorecard config file. `steer bundle validate` validates it.

Examples:
  steer generate bundle --version 0.1.0 --image registry.example.com/shop-operator:v0.1.0
  steer generate bundle --version 1.0.0 --channels stable,candidate --default-channel stable";

/// Generate the CRDs of the project in config/crd/bases
#[derive(Args, Debug)]
#[command(after_help = CRDS_EXAMPLES)]
struct Crds {
    #[command(flatten)]
    project: ProjectArgs,

    /// Overwrite CRDs of chart kinds that differ, even if they were edited
    #[arg(long)]
    force: bool,
}

/// Generate the role that the operator needs in config/rbac
#[derive(Args, Debug)]
#[command(after_help = RBAC_EXAMPLES)]
struct Rbac {
    #[command(flatten)]
    project: ProjectArgs,

    /// Overwrite existing rules of chart kinds
    #[arg(long)]
    force: bool,
}

/// Generate the manifests for the operator's webhooks in config/webhook
#[derive(Args, Debug)]
#[command(after_help = WEBHOOKS_EXAMPLES)]
struct Webhooks {
    #[command(flatten)]
    project: ProjectArgs,
}

/// Print the rendered manifests of the project
#[derive(Args, Debug)]
#[command(after_help = KUSTOMIZE_EXAMPLES)]
struct Kustomize {
    #[command(flatten)]
    overlay: OverlayArgs,
}

/// Generate a single file with all manifests of the operator
#[derive(Args, Debug)]
#[command(after_help = INSTALLER_EXAMPLES)]
struct Installer {
    #[command(flatten)]
    overlay: OverlayArgs,

    /// File to write, relative to the project; - for standard output
    #[arg(short, long, value_name = "FILE", default_value = "dist/install.yaml")]
    output: PathBuf,
}

/// Generate a Helm chart that installs the operator
#[derive(Args, Debug)]
#[command(after_help = CHART_EXAMPLES)]
struct ChartArgs {
    #[command(flatten)]
    overlay: OverlayArgs,

    /// Version of the chart
    #[arg(long, value_name = "VERSION", default_value = "0.1.0")]
    chart_version: String,

    /// Version of the operator [default: the image's tag]
    #[arg(long, value_name = "VERSION")]
    app_version: Option<String>,

    /// Directory to write the chart to, relative to the project
    #[arg(long, value_name = "DIR", default_value = "dist/chart")]
    output_dir: String,

    /// Overwrite values.yaml even if it was edited
    #[arg(long)]
    force: bool,
}

/// Generate a bundle for the Operator Lifecycle Manager
#[derive(Args, Debug)]
#[command(after_help = BUNDLE_EXAMPLES)]
struct BundleArgs {
    #[command(flatten)]
    project: ProjectArgs,

    /// Directory of the manifests and samples, relative to the project
    #[arg(long, value_name = "DIR", default_value = "config/manifests")]
    kustomize_dir: PathBuf,

    /// Operator image [default: the image in the manifests]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,

    /// Semantic version of the bundle
    #[arg(short, long, value_name = "VERSION", default_value = "0.0.1")]
    version: String,

    /// Channels of the bundle, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "alpha")]
    channels: Vec<String>,

    /// Default channel of the bundle [default: the first channel]
    #[arg(long, value_name = "NAME")]
    default_channel: Option<String>,

    /// Package name of the bundle [default: the project's name]
    #[arg(long, value_name = "NAME")]
    package: Option<String>,

    /// Directory to write the bundle to, relative to the project
    #[arg(long, value_name = "DIR", default_value = "bundle")]
    output_dir: String,
}

#[derive(Args, Debug)]
struct ProjectArgs {
    /// Directory of the project
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
}

#[derive(Args, Debug)]
struct OverlayArgs {
    #[command(flatten)]
    project: ProjectArgs,

    /// Directory of the kustomize overlay, relative to the project
    #[arg(long, value_name = "DIR", default_value = "config/default")]
    overlay: PathBuf,

    /// Operator image [default: the image in the manifests]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
}

impl OverlayArgs {
    fn render(&self) -> Result<Vec<serde_json::Value>> {
        deploy::render(&self.project.directory, &self.overlay, self.image.as_deref())
    }
}

impl Generate {
    pub(crate) fn run(self, output: &mut Output) -> Result {
        match self.command {
            Commands::Crds(crds) => {
                let root = &crds.project.directory;
                match Project::load(root)?.plugin()? {
                    Plugin::Helm | Plugin::Ansible => drop(report(&generate_crds(root, crds.force)?, output)),
                    Plugin::Rust => from_code(root, "crds", output)?,
                }
            }
            Commands::Rbac(rbac) => {
                let root = &rbac.project.directory;
                match Project::load(root)?.plugin()? {
                    Plugin::Helm | Plugin::Ansible => drop(report(&generate_rbac(root, rbac.force)?, output)),
                    Plugin::Rust => from_code(root, "rbac", output)?,
                }
            }
            Commands::Webhooks(webhooks) => {
                let root = &webhooks.project.directory;
                match Project::load(root)?.plugin()? {
                    plugin @ (Plugin::Helm | Plugin::Ansible) => {
                        let name = if plugin == Plugin::Helm { "a Helm" } else { "an Ansible" };
                        return Err(Failure::new(format!("{name} project has no webhooks"))
                            .help("the definition's schema fills in defaults and refuses objects"));
                    }
                    Plugin::Rust => from_code(root, "webhooks", output)?,
                }
            }
            Commands::Kustomize(kustomize) => output.push(&to_yaml(&kustomize.overlay.render()?)?),
            Commands::Installer(installer) => installer.run(output)?,
            Commands::Chart(chart) => chart.run(output)?,
            Commands::Bundle(bundle) => bundle.run(output)?,
        }
        Ok(())
    }
}

impl Installer {
    fn run(self, output: &mut Output) -> Result {
        let text = to_yaml(&self.overlay.render()?)?;
        if self.output == Path::new("-") {
            output.push(&text);
            return Ok(());
        }
        write(&self.overlay.project.directory.join(&self.output), &text, output)
    }
}

impl ChartArgs {
    fn run(self, output: &mut Output) -> Result {
        let objects = self.overlay.render()?;
        let tag = self.overlay.image.as_deref().and_then(|image| image.rsplit_once(':'));
        let tag = tag.map(|(_, tag)| tag).filter(|tag| !tag.contains('/'));
        let options = ChartOptions {
            version: self.chart_version,
            app_version: self
                .app_version
                .or_else(|| tag.map(str::to_owned))
                .unwrap_or_else(|| "latest".into()),
            directory: self.output_dir,
            force: self.force,
        };
        report(&generate_chart(&self.overlay.project.directory, &objects, &options)?, output);
        Ok(())
    }
}

impl BundleArgs {
    fn run(self, output: &mut Output) -> Result {
        let root = &self.project.directory;
        let objects = deploy::render(root, &self.kustomize_dir, self.image.as_deref())?;
        let options = BundleOptions {
            version: self.version,
            package: self.package,
            channels: self.channels,
            default_channel: self.default_channel.filter(|name| !name.is_empty()),
            directory: self.output_dir,
        };
        report(&generate_bundle(root, &objects, &options)?, output);
        Ok(())
    }
}

/// Writes the manifests printed by the operator's program to the files that the project refers to.
fn from_code(root: &Path, what: &str, output: &mut Output) -> Result {
    let project = Project::load(root)?;
    let namespace = format!("{}-system", project.name());
    let path = match what {
        "crds" => format!("config/crd/bases/{}.yaml", project.name()),
        "rbac" => "config/rbac/role.yaml".to_owned(),
        _ => "config/webhook/manifests.yaml".to_owned(),
    };
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["run", "--quiet", "--", what, "--namespace", &namespace]).current_dir(root);
    let run = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().map_err(|error| {
        Failure::new(format!("cannot run cargo: {error}")).help("install Rust from https://rustup.rs")
    })?;
    if !run.status.success() {
        return Err(Failure::new(format!("`cargo run -- {what}` failed")));
    }
    let text = String::from_utf8(run.stdout)
        .map_err(|_| Failure::new(format!("`cargo run -- {what}` did not print valid UTF-8")))?;
    write(&root.join(path), &text, output)
}

/// Writes a file, and reports whether it changed.
fn write(path: &Path, text: &str, output: &mut Output) -> Result {
    let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
    let said = match std::fs::read_to_string(path) {
        Ok(known) if known == text => "unchanged",
        Ok(_) => "updated",
        Err(_) => "created",
    };
    if said != "unchanged" {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        std::fs::write(path, text).map_err(failed)?;
    }
    output.line(format_args!("{said:<8} {}", path.display()));
    Ok(())
}
