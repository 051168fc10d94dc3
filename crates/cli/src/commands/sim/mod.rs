//! `steer sim`.

mod display;
#[cfg(all(unix, feature = "ansible"))]
mod plays;
mod rules;
mod subject;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use steersman_simulate::{Fault, Interrupt, Plan};

use self::display::Display;
use self::rules::RuleArgs;
use crate::commands::cluster::interrupted;
use crate::failure::{Failure, Result};
use crate::flags;
use crate::output::Output;

const ABOUT: &str = "\
Crash and break an operator in every way, and see whether it recovers

Runs the project's operator on an embedded cluster: it applies the samples, changes them, and deletes them in the end. Then it \
does so again and again, and each time something else goes wrong: a crash around each write, an answer that is lost, a stale \
view, a broken watch. Each run must end as the one without faults did. A failure comes with a timeline and a plan to replay it.

Operators of charts run in this process, in virtual time. Those in Rust are built by cargo and run as programs, in real time, as is \
any COMMAND, in whatever language: it gets a KUBECONFIG, and is killed and started again.";

const EXAMPLES: &str = "\
Examples:
  steer sim examples/minimart --crashes
  steer sim . --random 200 --seed 7
  steer sim . --replay 1/crash-after@3
  steer sim . --junit report.xml --html timeline.html --record trace.json
  steer sim . -- ./bin/manager --metrics-bind-address=0
  steer sim --crd crds/ --sample shop.yaml --invariant 'Shop: object.status.ready <= object.spec.size' -- python operator.py
  steer sim . --properties";

/// Crash and break an operator in every way, and see whether it recovers
#[derive(Args, Debug)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub(crate) struct Sim {
    /// Directory of the project: its definitions, roles and samples are in config/
    #[arg(default_value = ".")]
    project: PathBuf,

    /// Program to run as the operator, with its arguments, instead of the project's own
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,

    /// Name of the operator's program, if a package in Rust has several
    #[arg(long, value_name = "NAME")]
    bin: Option<String>,

    /// File or directory with definitions and other objects that are there from the beginning; may be repeated
    #[arg(long, value_name = "PATH")]
    crd: Vec<PathBuf>,

    /// File or directory with samples, instead of those in config/samples; may be repeated
    #[arg(long, value_name = "PATH")]
    sample: Vec<PathBuf>,

    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Random combinations of faults, after each was tried alone
    #[arg(long, value_name = "PLANS", default_value_t = 50)]
    random: usize,

    /// Crash before and after each write, and try nothing else
    #[arg(long)]
    crashes: bool,

    /// Kind of faults to leave out, clock-jump for an operator that acts by the time; may be repeated
    #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(Fault::KINDS), hide_possible_values = true)]
    without: Vec<String>,

    /// Change each property of the samples by itself, as its definition allows, and back
    #[arg(long)]
    properties: bool,

    /// Make the run of one plan alone, as a failure names it
    #[arg(long, value_name = "PLAN")]
    replay: Option<Plan>,

    /// End at the first failure
    #[arg(long)]
    fail_fast: bool,

    /// Begin no run after this time
    #[arg(long, value_name = "DURATION", value_parser = flags::duration)]
    budget: Option<Duration>,

    /// Time without a change after which a step is over [default: 90s of virtual time, learned from the fault-free runs of a program]
    #[arg(long, value_name = "DURATION", value_parser = flags::duration)]
    quiet: Option<Duration>,

    /// Runs at the same time [default: one for each processor, four for a program]
    #[arg(long, value_name = "RUNS")]
    jobs: Option<usize>,

    /// How long pods run that are meant to end, unless their program says it, as sleep does [default: 100ms]
    #[arg(long, value_name = "DURATION", value_parser = flags::duration)]
    pod_run_time: Option<Duration>,

    #[command(flatten)]
    rules: RuleArgs,

    /// Write all that was found, with timelines, as JSON
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Write the timelines as a page of HTML
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write a report in the form of JUnit
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

impl Sim {
    pub(crate) fn run(self, output: &mut Output) -> Result {
        let interrupt = Interrupt::default();
        // Programs are killed when this one is interrupted: they are in process groups of their own.
        let runtime = crate::runtime::multi_thread()?;
        let raised = interrupt.clone();
        runtime.spawn(async move {
            if interrupted().await.is_ok() {
                raised.raise();
            }
        });
        let simulation = runtime.block_on(self.simulation())?;
        let simulation = self.rules.apply(simulation)?;
        let mut simulation = simulation
            .interrupt(interrupt.clone())
            .seed(self.seed)
            .random(self.random)
            .properties(self.properties)
            .stop_early(self.fail_fast);
        if self.crashes {
            simulation = simulation.only(["crash-before", "crash-after"]).random(0).pairs(false);
        }
        let is_left_out = |kind: &&&str| self.without.iter().any(|without| without == **kind);
        for kind in Fault::KINDS.iter().filter(is_left_out) {
            simulation = simulation.without(kind);
        }
        if let Some(plan) = &self.replay {
            simulation = simulation.replay(plan.clone());
        }
        if let Some(time) = self.quiet {
            simulation = simulation.quiet(time);
        }
        if let Some(time) = self.budget {
            simulation = simulation.budget(time);
        }
        if let Some(time) = self.pod_run_time {
            simulation = simulation.pod_run_time(time);
        }
        if let Some(jobs) = self.jobs {
            simulation = simulation.threads(jobs);
        }
        let display = Display::default();
        let shown = display.clone();
        let simulation = simulation.on_progress(move |progress| shown.show(progress));
        let report = simulation.run();
        display.erase();
        let report = report.map_err(|error| Failure::new(error.to_string()))?;
        let name = self.project.display().to_string();
        write(self.record.as_deref(), || format!("{:#}\n", report.json()))?;
        write(self.html.as_deref(), || report.html(&name))?;
        write(self.junit.as_deref(), || report.junit(&name))?;
        output.push(&report.to_string());
        if interrupt.is_raised() {
            return Err(Failure::new("interrupted"));
        }
        if report.passed() {
            return Ok(());
        }
        let plan = report.failures.first().map(|failure| failure.plan.to_string()).unwrap_or_default();
        let same = if self.command.is_empty() { "" } else { ", with the same arguments" };
        Err(Failure::new(format!("the simulation of {name} failed"))
            .help(format!("replay the first failure: steer sim {name} --replay '{plan}'{same}")))
    }
}

fn write(path: Option<&Path>, text: impl FnOnce() -> String) -> Result {
    let Some(path) = path else { return Ok(()) };
    std::fs::write(path, text())
        .map_err(|error| Failure::new(format!("{} can't be written: {error}", path.display())))
}
