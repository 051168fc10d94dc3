//! `steer kudo init | install | upgrade | update | uninstall`.

use clap::Args;
use steersman_kudo::crds;
use steersman_kudo_operator::Wait;

use super::show::{Format, print};
use super::source::{HomeArgs, PackageArgs, Repositories};
use super::{DryRunArgs, ParameterArgs, WaitArgs, kudo};
use crate::args::GlobalArgs;
use crate::failure::{Failure, Result};
use crate::namespace;
use crate::output::Output;

/// Install KUDO's CRDs into a cluster, and write the client's configuration
#[derive(Args, Debug)]
#[command(
    after_help = "The operator itself is `steer run kudo`. Flags of KUDO's own client for its image and certificate are accepted without effect.\n\nExamples:\n  steer kudo init\n  steer kudo init --dry-run -o yaml | kubectl apply -f -"
)]
pub(super) struct Init {
    /// Print the CRDs without installing them
    #[arg(long)]
    dry_run: bool,

    /// With --dry-run, the output format
    #[arg(short, long, value_name = "FORMAT", requires = "dry_run")]
    output: Option<Format>,

    /// Write only the client's configuration
    #[arg(short, long, conflicts_with = "crd_only")]
    client_only: bool,

    /// Install only the CRDs
    #[arg(long)]
    crd_only: bool,

    /// Upgrade the CRDs to this version, which is always done
    #[arg(long)]
    upgrade: bool,

    /// Check whether the CRDs are installed, without installing them
    #[arg(long, conflicts_with_all = ["dry_run", "client_only", "upgrade"])]
    verify: bool,

    /// Wait until the CRDs are served, which is always done
    #[arg(short, long)]
    wait: bool,

    #[arg(long, value_name = "SECONDS", hide = true)]
    wait_timeout: Option<u64>,
    #[arg(short = 'i', long, value_name = "IMAGE", hide = true)]
    kudo_image: Option<String>,
    #[arg(long, value_name = "POLICY", hide = true)]
    kudo_image_pull_policy: Option<String>,
    #[arg(long, value_name = "VERSION", hide = true)]
    version: Option<String>,
    #[arg(long, value_name = "NAME", hide = true)]
    service_account: Option<String>,
    #[arg(long, hide = true)]
    unsafe_self_signed_webhook_ca: bool,
}

impl Init {
    pub(super) async fn run(self, globals: &GlobalArgs, home: &HomeArgs, output: &mut Output) -> Result {
        if self.dry_run {
            for crd in crds() {
                if self.output == Some(Format::Json) {
                    print(&crd, Format::Json, output)?;
                    continue;
                }
                let text =
                    steersman_yaml::to_string(&crd).map_err(|error| Failure::new(error.to_string()))?;
                output.push(&format!("---\n{text}"));
            }
            return Ok(());
        }
        if self.verify {
            kudo(globals).await?.verify().await?;
            output.line("KUDO is installed");
            return Ok(());
        }
        if !self.crd_only {
            let path = home.repositories_file();
            if !path.exists() {
                Repositories::default().save(&path)?;
                output.line(format!("{} has been configured", path.display()));
            }
        }
        if !self.client_only {
            kudo(globals).await?.init().await?;
            output.line("✅ installed crds");
        }
        Ok(())
    }
}

/// Install a package: its operator, operator version and an instance
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  steer kudo install ./my-operator --wait\n  steer kudo install ./my-operator --instance dev -p NODES=3 -P dev.yaml"
)]
pub(super) struct Install {
    #[command(flatten)]
    package: PackageArgs,

    /// Name of the instance [default: the operator's name followed by -instance]
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,

    /// Do not create an instance
    #[arg(long, conflicts_with = "dry_run")]
    skip_instance: bool,

    /// Create the namespace, from the package's namespaceManifest if it has one
    #[arg(long)]
    create_namespace: bool,

    #[command(flatten)]
    parameters: ParameterArgs,

    #[command(flatten)]
    wait: WaitArgs,

    #[command(flatten)]
    dry: DryRunArgs,
}

impl Install {
    pub(super) async fn run(self, globals: &GlobalArgs, home: &HomeArgs, output: &mut Output) -> Result {
        let packages = self.package.read(globals, home).await?;
        let Some(package) = packages.first() else { return Ok(()) };
        let kudo = kudo(globals).await?;
        let values = self.parameters.values()?;
        let name = self.instance.unwrap_or_else(|| format!("{}-instance", package.operator.name));
        if self.dry.dry_run {
            return self.dry.print(kudo.preview_install(&packages, Some(&name), values).await?, output);
        }
        if self.create_namespace {
            kudo.create_namespace(package, &name, &values).await?;
        }
        if self.skip_instance {
            kudo.install_packages(&packages).await?.iter().for_each(|line| output.line(line));
            return Ok(());
        }
        let said = kudo.install(&packages, Some(&name), values).await?;
        said.iter().for_each(|line| output.line(line));
        self.wait.wait(&kudo, &name).await?;
        if self.wait.wait {
            output.line(format!("instance {}/{name} ready", namespace::resolve(globals)));
        }
        Ok(())
    }
}

/// Upgrade an instance to a newer version of its operator
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  steer kudo upgrade ./my-operator-2 --instance dev --wait")]
pub(super) struct Upgrade {
    #[command(flatten)]
    package: PackageArgs,

    /// Name of the instance
    #[arg(long, value_name = "NAME")]
    instance: String,

    #[command(flatten)]
    parameters: ParameterArgs,

    #[command(flatten)]
    wait: WaitArgs,

    #[command(flatten)]
    dry: DryRunArgs,
}

impl Upgrade {
    pub(super) async fn run(self, globals: &GlobalArgs, home: &HomeArgs, output: &mut Output) -> Result {
        let packages = self.package.read_for_upgrade(globals, home).await?;
        let kudo = kudo(globals).await?;
        if self.dry.dry_run {
            let values = self.parameters.values()?;
            return self.dry.print(kudo.preview_upgrade(&packages, &self.instance, values).await?, output);
        }
        let said = kudo.upgrade(&packages, &self.instance, self.parameters.values()?).await?;
        said.iter().for_each(|line| output.line(line));
        self.wait.wait(&kudo, &self.instance).await
    }
}

/// Update the parameters of an instance
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  steer kudo update --instance dev -p NODES=5 --wait\n  steer kudo update --instance dev -p NODES=5 --dry-run"
)]
pub(super) struct Update {
    /// Name of the instance
    #[arg(long, value_name = "NAME")]
    instance: String,

    #[command(flatten)]
    parameters: ParameterArgs,

    #[command(flatten)]
    wait: WaitArgs,

    #[command(flatten)]
    dry: DryRunArgs,
}

impl Update {
    pub(super) async fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let values = self.parameters.values()?;
        if values.is_empty() {
            return Err(Failure::new("need to specify at least one parameter to override via -p or -P"));
        }
        let kudo = kudo(globals).await?;
        if self.dry.dry_run {
            return self.dry.print(kudo.preview_update(&self.instance, values).await?, output);
        }
        kudo.update(&self.instance, values).await?;
        output.line(format!("Instance {} was updated.", self.instance));
        self.wait.wait(&kudo, &self.instance).await
    }
}

/// Delete an instance after running its cleanup plan
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
