//! `steer kudo plan`.

use clap::{Args, Subcommand};
use steersman_kudo::{plan, tree};

use super::show::{Format, print};
use super::{DryRunArgs, ParameterArgs, WaitArgs, kudo};
use crate::args::GlobalArgs;
use crate::failure::Result;
use crate::namespace;
use crate::output::Output;

/// See and start the plans of an instance
#[derive(Args, Debug)]
pub(super) struct PlanCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Status(Status),
    History(History),
    Trigger(Trigger),
    Wait(Wait),
    Abort(Abort),
    Retry(Retry),
}

impl PlanCommand {
    pub(super) async fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        match self.what {
            What::Status(status) => status.run(globals, output).await,
            What::History(history) => history.run(globals, output).await,
            What::Trigger(trigger) => trigger.run(globals, output).await,
            What::Wait(wait) => wait.run(globals, output).await,
            What::Abort(abort) => abort.run(globals, output).await,
            What::Retry(retry) => retry.run(globals, output).await,
        }
    }
}

/// Show all plans of an instance, and how far the last one is
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  steer kudo plan status --instance dev\n  steer kudo plan status --instance dev -o yaml"
)]
struct Status {
    /// Name of the instance
    #[arg(long, value_name = "NAME")]
    instance: String,

    /// Print the instance's status in this format
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,

    #[command(flatten)]
    wait: WaitArgs,
}

impl Status {
    async fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let kudo = kudo(globals).await?;
        let ended = self.wait.wait(&kudo, &self.instance).await;
        let instance = kudo.instance(&self.instance).await?;
        match self.output {
            Some(format) => print(&instance.status, format, output)?,
            None => {
                let version = kudo.version_of(&instance).await?;
                output.push(&tree::plan_status(&instance, &version.spec));
                output.push("\n");
            }
        }
        ended
    }
}

/// Show the last run of each plan of an instance
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  steer kudo plan history --instance dev\n  steer kudo plan history --instance dev --all"
)]
struct History {
    /// Name of the instance
    #[arg(long, value_name = "NAME")]
    instance: String,

    /// Show every run that is kept, the last first
    #[arg(long)]
    all: bool,
}

impl History {
    async fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let instance = kudo(globals).await?.instance(&self.instance).await?;
        if self.all {
            output.push(&tree::run_history(&instance));
            return Ok(());
        }
        output.push(&tree::plan_history(&instance));
        output.push("\n");
        Ok(())
    }
}

/// Start a plan
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  steer kudo plan trigger --instance dev --name backup --wait")]
struct Trigger {
    /// Name of the instance
    #[arg(long, value_name = "NAME")]
    instance: String,

    /// Name of the plan
    #[arg(long, value_name = "PLAN")]
    name: String,

    /// Values of parameters for this run alone
    #[command(flatten)]
    parameters: ParameterArgs,

    #[command(flatten)]
    wait: WaitArgs,

    #[command(flatten)]
    dry: DryRunArgs,
}

impl Trigger {
    async fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let kudo = kudo(globals).await?;
        if self.dry.dry_run {
            let values = self.parameters.values()?;
            return self.dry.print(kudo.preview_trigger(&self.instance, &self.name, values).await?, output);
        }
        kudo.trigger(&self.instance, &self.name, self.parameters.values()?).await?;
        output.line(format!(
            "Triggered {} plan for {}/{} instance",
            self.name,
            namespace::resolve(globals),
            self.instance
        ));
        self.wait.wait(&kudo, &self.instance).await
    }
}

/// Wait until no plan of an instance runs; fails if the last one did
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  steer kudo plan wait --instance dev --wait-time 60")]
struct Wait {
    /// Name of the instance
    #[arg(long, value_name = "NAME")]
    instance: String,

    /// How long to wait, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    wait_time: u64,
}

impl Wait {
    async fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let wait = WaitArgs { wait: true, wait_time: self.wait_time };
        let status = kudo(globals).await?.wait(&self.instance, wait.limit()).await?;
        output.line(format!(
            "plan {} is {} ({} %)",
            status.name,
            status.status.as_str(),
            plan::progress(&status)
        ));
        Ok(())
    }
}

/// Give up the plan that is running: it ends as failed
#[derive(Args, Debug)]
#[command(
    after_help = "Objects that the plan applied stay. Of the cleanup plan, the instance is deleted then.\n\nExamples:\n  steer kudo plan abort --instance dev"
)]
struct Abort {
    /// Name of the instance
    #[arg(long, value_name = "NAME")]
    instance: String,
}

impl Abort {
    async fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let plan = kudo(globals).await?.abort(&self.instance).await?;
        output.line(format!("plan {plan} of instance {} is given up", self.instance));
        Ok(())
    }
}

/// Let a plan that failed go on with the step at which it failed
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  steer kudo plan retry --instance dev --wait")]
struct Retry {
    /// Name of the instance
    #[arg(long, value_name = "NAME")]
    instance: String,

    #[command(flatten)]
    wait: WaitArgs,
}

impl Retry {
    async fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let kudo = kudo(globals).await?;
        let plan = kudo.retry(&self.instance).await?;
        output.line(format!("plan {plan} of instance {} goes on", self.instance));
        self.wait.wait(&kudo, &self.instance).await
    }
}
