//! `steer kudo plan`.

use clap::{Args, Subcommand};
use steersman_kudo::{plan, tree};

use super::show::{Format, print};
use super::{DryRunArgs, ParameterArgs, WaitArgs, kudo};
use crate::args::GlobalArgs;
use crate::failure::Result;
use crate::namespace;
use crate::output::Output;

/// Show, trigger, abort and retry the plans of an instance
#[derive(Args, Debug)]
pub(super) struct PlanCommand {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, Subcommand)]
enum Commands {
    Status(Status),
    History(History),
    Trigger(Trigger),
    Wait(Wait),
    Abort(Abort),
    Retry(Retry),
}

impl PlanCommand {
    pub(super) async fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        match self.command {
            Commands::Status(status) => status.run(globals, output).await,
            Commands::History(history) => history.run(globals, output).await,
            Commands::Trigger(trigger) => trigger.run(globals, output).await,
            Commands::Wait(wait) => wait.run(globals, output).await,
            Commands::Abort(abort) => abort.run(globals, output).await,
            Commands::Retry(retry) => retry.run(globals, output).await,
        }
    }
}

/// Show the status of all plans of an instance, with the progress of the last one
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  steer kudo plan status --instance dev\n  steer kudo plan status --instance dev -o yaml"
)]
struct Status {
    /// Name of the instance
    #[arg(long, value_name = "NAME")]
    instance: String,

    /// Output format of the instance's status
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

    /// Show all retained runs, latest first
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

/// Trigger a plan of an instance
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  steer kudo plan trigger --instance dev --name backup --wait")]
struct Trigger {
    /// Name of the instance
    #[arg(long, value_name = "NAME")]
    instance: String,

    /// Name of the plan
    #[arg(long, value_name = "PLAN")]
    name: String,

    /// Parameter values for this run only
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

/// Wait until no plan of an instance is running; fail if the last plan failed
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  steer kudo plan wait --instance dev --wait-time 60")]
struct Wait {
    /// Name of the instance
    #[arg(long, value_name = "NAME")]
    instance: String,

    /// Time to wait, in seconds
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

/// Abort the running plan of an instance, which then counts as failed
#[derive(Args, Debug)]
#[command(
    after_help = "Objects that the plan applied are kept. If the cleanup plan is aborted, the instance is deleted.\n\nExamples:\n  steer kudo plan abort --instance dev"
)]
struct Abort {
    /// Name of the instance
    #[arg(long, value_name = "NAME")]
    instance: String,
}

impl Abort {
    async fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let plan = kudo(globals).await?.abort(&self.instance).await?;
        output.line(format!("plan {plan} of instance {} is aborted", self.instance));
        Ok(())
    }
}

/// Retry a failed plan from the step at which it failed
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
        output.line(format!("plan {plan} of instance {} is retried", self.instance));
        self.wait.wait(&kudo, &self.instance).await
    }
}
