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
Inject crashes and faults into an operator, and check that it recovers

Runs the project's operator on an embedded cluster, where samples are applied, changed, and finally deleted. This is \
repeated with a different fault each time: a crash before or after each write, a lost response, a stale \
cache, a broken watch. Each run must end in the same state as the one without faults. A failure is reported with a timeline and a plan to replay it.

Chart operators run in this process, in virtual time. Rust operators are built by cargo and run as programs, in real time, as is \
any COMMAND, in whatever language: it is started with KUBECONFIG set, killed, and restarted.";

const EXAMPLES: &str = "\
Examples:
  steer sim examples/minimart --crashes
  steer sim . --random 200 --seed 7
  steer sim . --replay 1/crash-after@3
  steer sim . --junit report.xml --html timeline.html --record trace.json
  steer sim . -- ./bin/manager --metrics-bind-address=0
  steer sim --crd crds/ --sample shop.yaml --invariant 'Shop: object.status.ready <= object.spec.size' -- python operator.py
  steer sim . --properties";

/// Inject crashes and faults into an operator, and check that it recovers
#[derive(Args, Debug)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub(crate) struct Sim {
    /// Directory of the project, with its CRDs, roles and samples in config/
    #[arg(default_value = ".")]
    project: PathBuf,

    /// Command to run as the operator, instead of the project's own
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,

    /// Name of the operator's binary, if a Rust package has several
    #[arg(long, value_name = "NAME")]
    bin: Option<String>,

    /// File or directory with CRDs and other objects to create first; may be repeated
    #[arg(long, value_name = "PATH")]
    crd: Vec<PathBuf>,

    /// File or directory with samples, instead of config/samples; may be repeated
    #[arg(long, value_name = "PATH")]
    sample: Vec<PathBuf>,

    /// Seed for all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Number of random fault combinations to run, after each fault alone
    #[arg(long, value_name = "PLANS", default_value_t = 50)]
    random: usize,

    /// Inject only crashes, before and after each write
    #[arg(long)]
    crashes: bool,

    /// Kind of faults to skip, such as clock-jump for a time-dependent operator; may be repeated
    #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(Fault::KINDS), hide_possible_values = true)]
    without: Vec<String>,

    /// Change each property of the samples individually, as its schema allows, and revert it
    #[arg(long)]
    properties: bool,

    /// Run only this plan, as printed with a failure
    #[arg(long, value_name = "PLAN")]
    replay: Option<Plan>,

    /// Stop at the first failure
    #[arg(long)]
    fail_fast: bool,

    /// Time after which no new run is started
    #[arg(long, value_name = "DURATION", value_parser = flags::duration)]
    budget: Option<Duration>,

    /// Time without changes that ends a step [default: 90s, virtual; for a program, from fault-free runs]
    #[arg(long, value_name = "DURATION", value_parser = flags::duration)]
    quiet: Option<Duration>,

    /// Number of parallel runs [default: one per processor, four for a program]
    #[arg(long, value_name = "RUNS")]
    jobs: Option<usize>,

    /// Run time of pods that are meant to complete, unless their command sets it [default: 100ms]
    #[arg(long, value_name = "DURATION", value_parser = flags::duration)]
    pod_run_time: Option<Duration>,

    #[command(flatten)]
    rules: RuleArgs,

    /// File to write all results to, with timelines, as JSON
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// File to write the timelines to, as an HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// File to write a JUnit report to
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

impl Sim {
    pub(crate) fn run(self, output: &mut Output) -> Result {
        let interrupt = Interrupt::default();
        // Kill the programs on interrupt, since they are in separate process groups.
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
        .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
}
