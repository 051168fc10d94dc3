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

/// Write what follows from a project's code, charts and manifests
#[derive(Args, Debug)]
pub(crate) struct Generate {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
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
What `kubectl kustomize` prints, for the fields that operator projects use.

Examples:
  steer generate kustomize
  steer generate kustomize --overlay config/crd
  steer generate kustomize --image registry.example.com/shop-operator:v1 | kubectl apply --server-side -f -";

const INSTALLER_EXAMPLES: &str = "\
Examples:
  steer generate installer --image registry.example.com/shop-operator:v1
  steer generate installer -o -";

const CHART_EXAMPLES: &str = "\
The chart installs the operator into the release's namespace. Its templates are written anew each
time, values.yaml stays once it was edited.

Examples:
  steer generate chart --image registry.example.com/shop-operator:v1
  steer generate chart --chart-version 1.2.0 && helm install shop-operator dist/chart -n shop --create-namespace";

const BUNDLE_EXAMPLES: &str = "\
The bundle is made of config/manifests: a ClusterServiceVersion with descriptors from the schemas,
definitions, metadata, and the scorecard's configuration. `steer bundle validate` checks it.

Examples:
  steer generate bundle --version 0.1.0 --image registry.example.com/shop-operator:v0.1.0
  steer generate bundle --version 1.0.0 --channels stable,candidate --default-channel stable";

/// Write the definitions of the project's kinds to config/crd/bases
#[derive(Args, Debug)]
#[command(after_help = CRDS_EXAMPLES)]
struct Crds {
    #[command(flatten)]
    project: ProjectArgs,

    /// Replace definitions of chart kinds that differ; they may have been edited
    #[arg(long)]
    force: bool,
}

/// Write the role that the operator needs to config/rbac
#[derive(Args, Debug)]
#[command(after_help = RBAC_EXAMPLES)]
struct Rbac {
    #[command(flatten)]
    project: ProjectArgs,

    /// Replace rules of chart kinds that are there already
    #[arg(long)]
    force: bool,
}

/// Write what the operator's webhooks need to config/webhook
#[derive(Args, Debug)]
#[command(after_help = WEBHOOKS_EXAMPLES)]
struct Webhooks {
    #[command(flatten)]
    project: ProjectArgs,
}

/// Print the project's manifests, rendered
#[derive(Args, Debug)]
#[command(after_help = KUSTOMIZE_EXAMPLES)]
struct Kustomize {
    #[command(flatten)]
    overlay: OverlayArgs,
}

/// Write everything that the operator needs into one file
#[derive(Args, Debug)]
#[command(after_help = INSTALLER_EXAMPLES)]
struct Installer {
    #[command(flatten)]
    overlay: OverlayArgs,

    /// File to write, within the project; - for standard output
    #[arg(short, long, value_name = "FILE", default_value = "dist/install.yaml")]
    output: PathBuf,
}

/// Write a chart with which Helm installs the operator itself
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

    /// Directory to write the chart to, within the project
    #[arg(long, value_name = "DIR", default_value = "dist/chart")]
    output_dir: String,

    /// Replace values.yaml if it was edited
    #[arg(long)]
    force: bool,
}

/// Write a bundle for the Operator Lifecycle Manager
#[derive(Args, Debug)]
#[command(after_help = BUNDLE_EXAMPLES)]
struct BundleArgs {
    #[command(flatten)]
    project: ProjectArgs,

    /// Directory of the manifests and samples, within the project
    #[arg(long, value_name = "DIR", default_value = "config/manifests")]
    kustomize_dir: PathBuf,

    /// Image of the operator [default: the one that the manifests name]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,

    /// Semantic version of the bundle
    #[arg(short, long, value_name = "VERSION", default_value = "0.0.1")]
    version: String,

    /// Channels that it is published in
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "alpha")]
    channels: Vec<String>,

    /// Channel that is subscribed to by default [default: the first]
    #[arg(long, value_name = "NAME")]
    default_channel: Option<String>,

    /// Name of the package [default: the project's]
    #[arg(long, value_name = "NAME")]
    package: Option<String>,

    /// Directory to write the bundle to, within the project
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

    /// Directory of the kustomize overlay, within the project
    #[arg(long, value_name = "DIR", default_value = "config/default")]
    overlay: PathBuf,

    /// Image of the operator [default: the one that the manifests name]
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
        match self.what {
            What::Crds(crds) => {
                let root = &crds.project.directory;
                match Project::load(root)?.plugin()? {
                    Plugin::Helm | Plugin::Ansible => drop(report(&generate_crds(root, crds.force)?, output)),
                    Plugin::Rust => from_code(root, "crds", output)?,
                }
            }
            What::Rbac(rbac) => {
                let root = &rbac.project.directory;
                match Project::load(root)?.plugin()? {
                    Plugin::Helm | Plugin::Ansible => drop(report(&generate_rbac(root, rbac.force)?, output)),
                    Plugin::Rust => from_code(root, "rbac", output)?,
                }
            }
            What::Webhooks(webhooks) => {
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
            What::Kustomize(kustomize) => output.push(&to_yaml(&kustomize.overlay.render()?)?),
            What::Installer(installer) => installer.run(output)?,
            What::Chart(chart) => chart.run(output)?,
            What::Bundle(bundle) => bundle.run(output)?,
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

/// Writes what the operator's own program prints to where the project's manifests name it.
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
        Failure::new(format!("cargo cannot be started: {error}")).help("https://rustup.rs installs it")
    })?;
    if !run.status.success() {
        return Err(Failure::new(format!("`cargo run -- {what}` failed")));
    }
    let text = String::from_utf8(run.stdout)
        .map_err(|_| Failure::new(format!("`cargo run -- {what}` did not print text")))?;
    write(&root.join(path), &text, output)
}

/// Writes a file, and tells whether it changed.
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
