//! `steer kudo init | install | upgrade | update | uninstall`.

use std::path::PathBuf;

use clap::Args;
use steersman_kudo::crds;
use steersman_kudo_operator::Wait;

use super::{ParameterArgs, WaitArgs, kudo, read};
use crate::args::GlobalArgs;
use crate::failure::{Failure, Result};
use crate::namespace;
use crate::output::Output;

/// Install KUDO's definitions into a cluster
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  steer kudo init\n  steer kudo init --dry-run | kubectl apply -f -")]
pub(super) struct Init {
    /// Print the definitions instead
    #[arg(long)]
    dry_run: bool,
}

impl Init {
    pub(super) async fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        if self.dry_run {
            for crd in crds() {
                let text =
                    steersman_yaml::to_string(&crd).map_err(|error| Failure::new(error.to_string()))?;
                output.push(&format!("---\n{text}"));
            }
            return Ok(());
        }
        kudo(globals).await?.init().await?;
        output.line("✅ installed crds");
        Ok(())
    }
}

/// Install a package: its operator, operator version and an instance
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  steer kudo install ./my-operator --wait\n  steer kudo install ./my-operator --instance dev -p NODES=3 -P dev.yaml"
)]
pub(super) struct Install {
    /// Directory or archive of the package
    package: PathBuf,

    /// Name of the instance [default: the operator's and -instance]
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,

    /// Install no instance
    #[arg(long)]
    skip_instance: bool,

    /// Make the namespace, by the package's namespaceManifest if it has one
    #[arg(long)]
    create_namespace: bool,

    #[command(flatten)]
    parameters: ParameterArgs,

    #[command(flatten)]
    wait: WaitArgs,
}

impl Install {
    pub(super) async fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let packages = read(&self.package)?;
        let kudo = kudo(globals).await?;
        if let Some(package) = packages.first().filter(|_| self.create_namespace) {
            kudo.create_namespace(package).await?;
        }
        if self.skip_instance {
            kudo.install_packages(&packages).await?.iter().for_each(|line| output.line(line));
            return Ok(());
        }
        let said = kudo.install(&packages, self.instance.as_deref(), self.parameters.values()?).await?;
        said.iter().for_each(|line| output.line(line));
        let default = packages.first().map(|package| format!("{}-instance", package.operator.name));
        let name = self.instance.or(default).unwrap_or_default();
        self.wait.wait(&kudo, &name).await?;
        if self.wait.wait {
            output.line(format!("instance {}/{name} ready", namespace::resolve(globals)));
        }
        Ok(())
    }
}

/// Bring an instance to a newer version of its operator
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  steer kudo upgrade ./my-operator-2 --instance dev --wait")]
pub(super) struct Upgrade {
    /// Directory or archive of the package
    package: PathBuf,

    /// Name of the instance
    #[arg(long, value_name = "NAME")]
    instance: String,

    #[command(flatten)]
    parameters: ParameterArgs,

    #[command(flatten)]
    wait: WaitArgs,
}

impl Upgrade {
    pub(super) async fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let packages = read(&self.package)?;
        let kudo = kudo(globals).await?;
        let said = kudo.upgrade(&packages, &self.instance, self.parameters.values()?).await?;
        said.iter().for_each(|line| output.line(line));
        self.wait.wait(&kudo, &self.instance).await
    }
}

/// Change parameters of an instance
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  steer kudo update --instance dev -p NODES=5 --wait")]
pub(super) struct Update {
    /// Name of the instance
    #[arg(long, value_name = "NAME")]
    instance: String,

    #[command(flatten)]
    parameters: ParameterArgs,

    #[command(flatten)]
    wait: WaitArgs,
}

impl Update {
    pub(super) async fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let values = self.parameters.values()?;
        if values.is_empty() {
            return Err(Failure::new("need to specify at least one parameter to override via -p or -P"));
        }
        let kudo = kudo(globals).await?;
        kudo.update(&self.instance, values).await?;
        output.line(format!("Instance {} was updated.", self.instance));
        self.wait.wait(&kudo, &self.instance).await
    }
}

/// Delete an instance, after its cleanup plan
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  steer kudo uninstall --instance dev --wait")]
pub(super) struct Uninstall {
    /// Name of the instance
    #[arg(long, value_name = "NAME")]
    instance: String,

    #[command(flatten)]
    wait: WaitArgs,
}

impl Uninstall {
    pub(super) async fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let wait = if self.wait.wait { Wait::For(self.wait.limit()) } else { Wait::No };
        kudo(globals).await?.uninstall(&self.instance, wait).await?;
        output.line(format!("instance.kudo.dev/v1beta1/{} deleted", self.instance));
        Ok(())
    }
}
