//! `steer kudo plan`.

use clap::{Args, Subcommand};
use steersman_kudo::{plan, tree};

use super::show::{Format, print};
use super::{WaitArgs, kudo};
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
}

impl PlanCommand {
    pub(super) async fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        match self.what {
            What::Status(status) => status.run(globals, output).await,
            What::History(history) => history.run(globals, output).await,
            What::Trigger(trigger) => trigger.run(globals, output).await,
            What::Wait(wait) => wait.run(globals, output).await,
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
#[command(after_help = "Examples:\n  steer kudo plan history --instance dev")]
struct History {
    /// Name of the instance
    #[arg(long, value_name = "NAME")]
    instance: String,
}

impl History {
    async fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let instance = kudo(globals).await?.instance(&self.instance).await?;
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

    #[command(flatten)]
    wait: WaitArgs,
}

impl Trigger {
    async fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let kudo = kudo(globals).await?;
        kudo.trigger(&self.instance, &self.name).await?;
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
