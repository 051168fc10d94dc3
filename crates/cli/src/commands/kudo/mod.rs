//! `steer kudo`, also as `kubectl kudo`.

mod diagnostics;
mod instance;
mod package;
mod plan;
mod repo;
pub(super) mod run;
mod scaffold;
mod show;
mod source;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use steersman_kudo::{Package, package as packages, parameters};
use steersman_kudo_operator::{Kudo, Preview};

use crate::args::GlobalArgs;
use crate::failure::{self, Failure, Result};
use crate::output::Output;
use crate::{cluster, namespace};

/// Install and manage KUDO packages: operators defined by plans
#[derive(Args, Debug)]
pub(crate) struct KudoCommand {
    #[command(flatten)]
    home: source::HomeArgs,

    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, Subcommand)]
enum Commands {
    Init(instance::Init),
    Install(instance::Install),
    Upgrade(instance::Upgrade),
    Update(instance::Update),
    Uninstall(instance::Uninstall),
    Plan(plan::PlanCommand),
    Get(show::Get),
    Package(package::PackageCommand),
    Repo(repo::RepoCommand),
    Search(repo::Search),
    Diagnostics(diagnostics::DiagnosticsCommand),
}

impl KudoCommand {
    pub(crate) fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let home = &self.home;
        match self.command {
            Commands::Init(init) => cluster::run(init.run(globals, home, output)),
            Commands::Install(install) => cluster::run(install.run(globals, home, output)),
            Commands::Upgrade(upgrade) => cluster::run(upgrade.run(globals, home, output)),
            Commands::Update(update) => cluster::run(update.run(globals, output)),
            Commands::Uninstall(uninstall) => cluster::run(uninstall.run(globals, output)),
            Commands::Plan(plan) => cluster::run(plan.run(globals, output)),
            Commands::Get(get) => cluster::run(get.run(globals, output)),
            Commands::Package(package) => package.run(globals, home, output),
            Commands::Repo(repo) => cluster::run(repo.run(globals, home, output)),
            Commands::Search(search) => cluster::run(search.run(globals, home, output)),
            Commands::Diagnostics(diagnostics) => cluster::run(diagnostics.run(globals, output)),
        }
    }
}

impl From<steersman_kudo::Error> for Failure {
    fn from(error: steersman_kudo::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<steersman_kudo_operator::Error> for Failure {
    fn from(error: steersman_kudo_operator::Error) -> Self {
        let help =
            (error.code() == Some(404)).then(|| "`steer kudo init` installs KUDO's definitions".to_owned());
        match help {
            Some(help) => Self::new(error.to_string()).help(help),
            None => Self::new(error.to_string()),
        }
    }
}

/// Returns a client for the namespace selected by flags and environment.
async fn kudo(globals: &GlobalArgs) -> Result<Kudo> {
    Ok(Kudo::new(cluster::client(globals).await?, namespace::resolve(globals)))
}

/// Reads a package with its dependencies, and prints warnings.
pub(super) fn read(path: &Path) -> Result<Vec<Package>> {
    let found = packages::with_dependencies(path)
        .map_err(|error| Failure::from(error).within(&path.display().to_string()))?;
    for warning in found.iter().flat_map(|package| &package.warnings) {
        failure::warn(&warning.to_string());
    }
    Ok(found)
}

/// Flags with values of parameters.
#[derive(Args, Debug, Default)]
struct ParameterArgs {
    /// Parameter value, which overrides those in files; may be repeated
    #[arg(short = 'p', long = "parameter", value_name = "NAME=VALUE", allow_hyphen_values = true)]
    parameters: Vec<String>,

    /// YAML file with parameter values; may be repeated
    #[arg(short = 'P', long = "parameter-file", value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl ParameterArgs {
    fn values(&self) -> Result<BTreeMap<String, String>> {
        let mut values = BTreeMap::new();
        for path in &self.files {
            let name = path.display().to_string();
            let text = std::fs::read(path).map_err(|error| Failure::new(format!("{name}: {error}")))?;
            values.extend(parameters::from_file(&name, &text)?);
        }
        for word in &self.parameters {
            match word.split_once('=') {
                Some((name, value)) if !name.is_empty() && !value.is_empty() => {
                    values.insert(name.to_owned(), value.to_owned());
                }
                _ => {
                    return Err(Failure::new(format!(
                        "could not parse parameters: {word:?} is not NAME=VALUE"
                    )));
                }
            }
        }
        Ok(values)
    }
}

/// Flag that asks what would be done.
#[derive(Args, Debug, Default)]
struct DryRunArgs {
    /// Show what each step of the plan would create, change and delete, without writing anything
    #[arg(long, conflicts_with = "wait")]
    dry_run: bool,
}

impl DryRunArgs {
    /// Prints what a plan would do. Fails if the plan would fail.
    fn print(&self, preview: Preview, output: &mut Output) -> Result {
        output.push(&preview.to_string());
        match preview.failure {
            Some(_) => Err(Failure::new(format!("plan {} would fail", preview.plan))),
            None => Ok(()),
        }
    }
}

/// Flags that say whether to wait.
#[derive(Args, Debug, Default)]
struct WaitArgs {
    /// Wait until the plan has finished
    #[arg(long)]
    wait: bool,

    /// Time to wait, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    wait_time: u64,
}

impl WaitArgs {
    fn limit(&self) -> Duration {
        Duration::from_secs(self.wait_time)
    }

    /// Waits for the plan of an instance, if `--wait` is set.
    async fn wait(&self, kudo: &Kudo, instance: &str) -> Result {
        if self.wait {
            kudo.wait(instance, self.limit()).await?;
        }
        Ok(())
    }
}
