//! `steer sim`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use kube::Client;
use steersman::{BoxError, Operator};
use steersman_helm_operator::{Defaults, KEY_SECRET, add_watches};
use steersman_simulate::{Plan, Scenario, Simulation};

use super::dev::project::{Given, NAMESPACE, Project};
use crate::failure::{Failure, Result};
use crate::output::Output;

const ABOUT: &str = "\
Crash and break a project's operator in every way, and see whether it recovers

Runs the project's operator on an embedded cluster in virtual time: it applies the samples, and deletes them in the end. Then it
does so again and again, and each time something else goes wrong: a crash around each write, an answer that is lost, a stale
view, a broken watch. Each run must end as the one without faults did. A failure comes with a timeline and a plan to replay it.";

const EXAMPLES: &str = "\
Examples:
  steer sim examples/minimart --crashes
  steer sim . --random 200 --seed 7
  steer sim . --replay 1/crash-after@3
  steer sim . --junit report.xml --html timeline.html --record trace.json";

/// Crash and break a project's operator in every way, and see whether it recovers
#[derive(Args, Debug)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub(crate) struct Sim {
    /// Directory with watches.yaml and config/
    #[arg(default_value = ".")]
    project: PathBuf,

    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Random combinations of faults, after each was tried alone
    #[arg(long, value_name = "PLANS", default_value_t = 50)]
    random: usize,

    /// Crash before and after each write, and try nothing else
    #[arg(long)]
    crashes: bool,

    /// Make the run of one plan alone, as a failure names it
    #[arg(long, value_name = "PLAN")]
    replay: Option<Plan>,

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
        let project = Project::load(&self.project)?;
        let Given { objects: given, account } = project.given()?;
        let samples = project.samples()?;
        if samples.is_empty() {
            let place = self.project.join("config/samples");
            return Err(Failure::new(format!("there is nothing to simulate: {} is empty", place.display()))
                .help("put a sample of each kind there: the simulation applies and deletes them"));
        }
        let scenario = given.into_iter().fold(Scenario::new(), Scenario::given);
        let scenario = samples.iter().cloned().fold(scenario, Scenario::apply);
        let scenario = samples.iter().rev().fold(scenario, Scenario::delete);
        let charts = project.charts()?.to_vec();
        let (watches, is_namespaced) = (charts.clone(), project.is_namespaced);
        let prepare = move |client: Client| {
            let watches = watches.clone();
            async move {
                let mut operator = Operator::new("helm-operator");
                if is_namespaced {
                    operator = operator.namespaces([NAMESPACE]);
                }
                let defaults = Defaults { kind_timeout: Duration::from_secs(30), ..Defaults::default() };
                add_watches(operator, &watches, &defaults, &client).await.map_err(BoxError::from)
            }
        };
        let mut simulation =
            Simulation::of_prepared(prepare).scenario(scenario).seed(self.seed).random(self.random);
        // All releases share the key that signs their records.
        simulation = simulation.keeps(format!("secrets/{NAMESPACE}/{KEY_SECRET}"));
        // A crash in the middle of an install leaves a failed revision, and the next one has another number, as with Helm.
        simulation = simulation.ignores("secrets/*/sh.helm.release.v1.*");
        for watch in &charts {
            simulation = simulation.ignores_field(&watch.kind, ".status.history");
        }
        if self.crashes {
            simulation = simulation.only(["crash-before", "crash-after"]).random(0);
        }
        if let Some((namespace, name)) = account {
            simulation = simulation.account(namespace, name);
        }
        if let Some(plan) = self.replay {
            simulation = simulation.replay(plan);
        }
        let report = simulation.run().map_err(|error| Failure::new(error.to_string()))?;
        let name = self.project.display().to_string();
        write(self.record.as_deref(), || format!("{:#}\n", report.json()))?;
        write(self.html.as_deref(), || report.html(&name))?;
        write(self.junit.as_deref(), || report.junit(&name))?;
        output.push(&report.to_string());
        if report.passed() {
            return Ok(());
        }
        let plan = report.failures.first().map(|failure| failure.plan.to_string()).unwrap_or_default();
        Err(Failure::new(format!("the simulation of {name} failed"))
            .help(format!("replay the first failure: steer sim {name} --replay '{plan}'")))
    }
}

fn write(path: Option<&Path>, text: impl FnOnce() -> String) -> Result {
    let Some(path) = path else { return Ok(()) };
    std::fs::write(path, text())
        .map_err(|error| Failure::new(format!("{} can't be written: {error}", path.display())))
}
