//! `steer image`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use steersman_registry::image::{
    Executable, Image, ImageFile, ImageSpec, Package, cargo_packages, files_of, shared_libraries,
};
use steersman_registry::{OciReference, push};
use steersman_scaffold::{Plugin, Project};

use crate::args::{AccessArgs, GlobalArgs};
use crate::cluster;
use crate::failure::{Failure, Result};
use crate::output::Output;

/// Build and push operator images, without a container engine
#[derive(Args, Debug)]
pub(crate) struct ImageCommand {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, Subcommand)]
enum Commands {
    Build(Build),
    Push(Push),
}

const BUILD_EXAMPLES: &str = "\
The image contains the binary, the shared libraries that it needs, if any, and an SPDX bill of
materials; it runs as user 65532. Builds are reproducible: the time of files is that of
SOURCE_DATE_EPOCH, or none. --binary takes a binary for another architecture; with several, the
image is multi-architecture.

Examples:
  steer image build --tag registry.example.com/shop-operator:v1
  steer image build --tag shop-operator:v1 --output dist/image.tar && docker load < dist/image.tar
  steer image build --tag registry.example.com/shop-operator:v1 --push
  steer image build --tag shop:v1 --binary amd64/manager --binary arm64/manager --output dist/layout";

const PUSH_EXAMPLES: &str = "\
Examples:
  steer image push dist/image.tar registry.example.com/shop-operator:v1
  steer image push dist/layout localhost:5000/shop-operator:v1";

/// Build the image of a project's operator
#[derive(Args, Debug)]
#[command(after_help = BUILD_EXAMPLES)]
struct Build {
    /// Directory of the project
    #[arg(value_name = "DIR", default_value = ".")]
    project: PathBuf,

    /// Name of the image
    #[arg(short, long, value_name = "IMAGE", default_value = "controller:latest")]
    tag: String,

    /// Binary for the image; may be repeated, one per architecture [default: steer, or the release build]
    #[arg(long, value_name = "FILE")]
    binary: Vec<PathBuf>,

    /// Tar file (ending with .tar) or directory to write the image to
    #[arg(short, long, value_name = "PATH", default_value = "dist/image.tar")]
    output: PathBuf,

    /// Push the image instead of writing it
    #[arg(long, conflicts_with = "output")]
    push: bool,

    /// Label of the image; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<String>,

    #[command(flatten)]
    access: AccessArgs,
}

/// Push an image stored as an OCI layout
#[derive(Args, Debug)]
#[command(after_help = PUSH_EXAMPLES)]
struct Push {
    /// Tar file or directory of the image
    #[arg(value_name = "PATH")]
    image: PathBuf,

    /// Reference to push to, such as registry.example.com/shop-operator:v1
    #[arg(value_name = "IMAGE")]
    reference: String,

    #[command(flatten)]
    access: AccessArgs,
}

impl ImageCommand {
    pub(crate) fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        match self.command {
            Commands::Build(build) => build.run(globals, output),
            Commands::Push(push) => {
                let image = Image::read(&push.image)?;
                send(&image, &push.reference, &push.access, globals, output)
            }
        }
    }
}

fn send(
    image: &Image,
    reference: &str,
    access: &AccessArgs,
    globals: &GlobalArgs,
    output: &mut Output,
) -> Result {
    let place = OciReference::parse(reference).map_err(|error| {
        Failure::from(error).help("name the registry too: registry.example.com/shop-operator:v1")
    })?;
    let (access, paths) = (access.access()?, globals.paths());
    cluster::run(async { Ok(push(image, &place, &access, &paths).await?) })?;
    output.line(format_args!("pushed {place}@{}", image.digest()));
    Ok(())
}

impl Build {
    fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let project = Project::load(&self.project)?;
        let recipe = match project.plugin()? {
            Plugin::Helm => Recipe::of_charts(&self.project)?,
            Plugin::Rust => Recipe::of_code(&self.project, project.name()),
            Plugin::Ansible => {
                return Err(Failure::new("the image of an Ansible project has Python and Ansible in it")
                    .help("`make docker-build` builds it from the Dockerfile"));
            }
        };
        let binaries =
            if self.binary.is_empty() { vec![recipe.default_binary.clone()] } else { self.binary.clone() };
        let mut specs = Vec::new();
        for path in &binaries {
            specs.push(self.spec(&recipe, path)?);
        }
        specs.sort_by(|one, other| one.architecture.cmp(&other.architecture));
        if let Some(twice) = specs.windows(2).find(|pair| pair[0].architecture == pair[1].architecture) {
            return Err(Failure::new(format!("two binaries for {}", twice[0].architecture)));
        }
        let image = Image::build(project.name(), &specs)?;
        if self.push {
            return send(&image, &self.tag, &self.access, globals, output);
        }
        let path = self.project.join(&self.output);
        image.write(&path, &self.tag)?;
        let architectures: Vec<&str> = specs.iter().map(|spec| spec.architecture.as_str()).collect();
        output.line(format_args!("{} {} for {}", self.tag, image.digest(), architectures.join(", ")));
        output.line(format_args!("written to {}", path.display()));
        Ok(())
    }

    fn spec(&self, recipe: &Recipe, path: &Path) -> Result<ImageSpec> {
        let data = std::fs::read(path).map_err(|error| {
            let failure = Failure::new(format!("{}: {error}", path.display()));
            if self.binary.is_empty() {
                failure.help("`make build` builds it; --binary names another program")
            } else {
                failure
            }
        })?;
        let program = Executable::parse(&data)
            .map_err(|reason| Failure::new(format!("{}: {reason}", path.display())))?;
        let mut files = recipe.files.clone();
        files.extend(shared_libraries(&program)?);
        files.push(ImageFile::executable(recipe.program, data));
        let mut labels = BTreeMap::new();
        for label in &self.label {
            let Some((key, value)) = label.split_once('=') else {
                return Err(Failure::new(format!("--label {label:?} is not KEY=VALUE")));
            };
            labels.insert(key.to_owned(), value.to_owned());
        }
        Ok(ImageSpec {
            architecture: program.architecture.to_owned(),
            files,
            entrypoint: recipe.entrypoint.iter().map(|word| (*word).to_owned()).collect(),
            env: recipe.env.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            working_dir: recipe.working_dir.to_owned(),
            labels,
            packages: recipe.packages.clone(),
            created: created()?,
        })
    }
}

/// Returns the files' timestamp, from SOURCE_DATE_EPOCH as in reproducible builds.
fn created() -> Result<u64> {
    match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) if !text.is_empty() => text
            .parse()
            .map_err(|_| Failure::new(format!("SOURCE_DATE_EPOCH {text:?} is not a number of seconds"))),
        _ => Ok(0),
    }
}

/// The content of an operator's image besides the program.
struct Recipe {
    program: &'static str,
    default_binary: PathBuf,
    files: Vec<ImageFile>,
    entrypoint: Vec<&'static str>,
    env: Vec<(&'static str, &'static str)>,
    working_dir: &'static str,
    packages: Vec<Package>,
}

impl Recipe {
    /// Returns the equivalent of a chart project's Dockerfile.
    fn of_charts(root: &Path) -> Result<Self> {
        let watches = root.join("watches.yaml");
        let data = std::fs::read(&watches)
            .map_err(|error| Failure::new(format!("{}: {error}", watches.display())))?;
        let mut files = files_of(&root.join("helm-charts"), "opt/helm/helm-charts")?;
        files.push(ImageFile::new("opt/helm/watches.yaml", data));
        let version = env!("CARGO_PKG_VERSION");
        let steer = Package {
            name: "steer".into(),
            version: version.into(),
            purl: format!("pkg:cargo/steersman-cli@{version}"),
        };
        Ok(Self {
            program: "usr/local/bin/steer",
            default_binary: std::env::current_exe()
                .map_err(|error| Failure::new(format!("cannot find this program: {error}")))?,
            files,
            entrypoint: vec!["/usr/local/bin/steer", "run", "helm", "--watches-file=./watches.yaml"],
            env: vec![("HOME", "/opt/helm")],
            working_dir: "/opt/helm",
            packages: std::iter::once(steer).chain(charts(root)).collect(),
        })
    }

    /// Returns the equivalent of a Rust project's Dockerfile.
    fn of_code(root: &Path, name: &str) -> Self {
        let lock = std::fs::read_to_string(root.join("Cargo.lock")).unwrap_or_default();
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        Self {
            program: "manager",
            default_binary: target.join("release").join(name),
            files: Vec::new(),
            entrypoint: vec!["/manager"],
            env: Vec::new(),
            working_dir: "",
            packages: cargo_packages(&lock),
        }
    }
}

/// Returns the charts of a project, for the SBOM.
fn charts(root: &Path) -> Vec<Package> {
    let entries =
        std::fs::read_dir(root.join("helm-charts")).into_iter().flatten().filter_map(std::result::Result::ok);
    let mut charts: Vec<Package> = entries
        .filter_map(|entry| steersman_chart::Chart::load(entry.path()).ok())
        .map(|chart| {
            let (name, version) = (chart.name().to_owned(), chart.metadata().version.clone());
            let purl = format!("pkg:helm/{name}@{version}");
            Package { name, version, purl }
        })
        .collect();
    charts.sort();
    charts
}
