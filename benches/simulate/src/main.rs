//! Measures the simulated crashes of MyOwnShell per second, in process on a virtual clock. For comparison, the operator also runs
//! as a separate process that is killed and restarted, the usual way to crash operators. Then checks that many processes produce
//! the same timelines for one plan.

use std::num::NonZero;
use std::process::{Command as Child, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use myownshell_operator::operator;
use serde_json::{Value, json};
use steersman_simulate::{Command, Plan, Scenario, Simulation};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "\
usage: steersman-bench-simulate [--check] [--program PATH] [--seconds N] [--processes N]
--check     fail below 200 runs a second, or if one process has another timeline
--program   the operator's program [default: myownshell-operator beside this one]
--seconds   how long to simulate, in the process and with the program each [default: 10]
--processes how many make the run whose timelines are compared [default: 100]";

/// The required runs per second.
const PROMISED: f64 = 200.0;
/// Concurrent runs of the program per processor: they mostly wait.
const WAITING: usize = 4;
/// The plan that many processes run.
const PLAN: &str = "7/crash-after@2+watch-broken@4";
/// Set in the processes that run this plan, and print the hashes of its timelines.
const TRACE: &str = "STEERSMAN_BENCH_TRACE";

fn main() -> ExitCode {
    if let Ok(plan) = std::env::var(TRACE) {
        return steersman_bench::exit(trace(&plan).map(|()| true));
    }
    steersman_bench::exit(bench())
}

fn bench() -> Result<bool, String> {
    let (mut program, mut seconds, mut processes) = (None, 10, 100);
    let check = steersman_bench::arguments(USAGE, |name, value| {
        match name {
            "--program" => program = Some(value.into()),
            "--seconds" => seconds = value.parse()?,
            "--processes" => processes = value.parse()?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let program = program.map_or_else(|| steersman_bench::beside_me("myownshell-operator"), Ok)?;
    let budget = Duration::from_secs(seconds);
    let ours = rate(budget, &Simulation::of(operator).scenario(scenario(None)), 1)?;
    let definition = operator().crds().into_iter().next().ok_or("the operator defines nothing")?;
    let definition = serde_json::to_value(definition).map_err(|error| error.to_string())?;
    let command = Command::new(program).argument("run").argument("--metrics-bind-address=0");
    let command = command.argument("--health-probe-bind-address=0");
    let peer = rate(budget, &Simulation::of_command(command).scenario(scenario(Some(definition))), WAITING)?;
    steersman_bench::line("sim-crash-runs", ours, peer, "runs/s");
    let same = same_traces(processes)?;
    println!("sim-same-trace {same} of {processes} processes");
    Ok(!check || (ours >= PROMISED && same == processes))
}

fn scenario(definition: Option<Value>) -> Scenario {
    let shell = json!({
        "apiVersion": "my-first-operator.jgato.io/v1alpha1", "kind": "MyOwnShell",
        "metadata": {"name": "sample"}, "spec": {"size": 2},
    });
    let scenario = definition.into_iter().fold(Scenario::new(), Scenario::given);
    scenario.apply(shell.clone()).patch(&shell, json!({"spec": {"size": 3}})).delete(&shell)
}

/// Returns the runs per second in which the operator is killed. It is killed before and after each write, and while idle.
/// Fault-free runs are not counted, but their time is. Each processor has its own seeds, so that none waits for another one's
/// fault-free run.
fn rate(budget: Duration, simulation: &Simulation, at_once: usize) -> Result<f64, String> {
    let simulation = simulation
        .clone()
        .only(["crash-before", "crash-after", "restart"])
        .random(0)
        .pairs(false)
        .threads(at_once);
    let (begin, seed) = (Instant::now(), AtomicU64::new(1));
    let work = || {
        let mut runs = 0;
        while begin.elapsed() < budget {
            let simulation = simulation.clone().seed(seed.fetch_add(1, Relaxed));
            let report = simulation.run().map_err(|error| error.to_string())?;
            if !report.passed() {
                return Err(report.to_string());
            }
            runs += report.faults.values().map(|tried| tried.injected).sum::<usize>();
        }
        Ok(runs)
    };
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let runs = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..processors).map(|_| scope.spawn(work)).collect();
        let ends =
            workers.into_iter().map(|worker| worker.join().map_err(|_| "a run panicked".to_owned())?);
        ends.sum::<Result<usize, String>>()
    })?;
    let runs = u32::try_from(runs).unwrap_or(u32::MAX);
    Ok(f64::from(runs) / begin.elapsed().as_secs_f64())
}

fn trace(plan: &str) -> Result<(), String> {
    let plan: Plan = plan.parse().map_err(|error| format!("{error}"))?;
    let simulation = Simulation::of(operator).scenario(scenario(None)).replay(plan);
    let report = simulation.run().map_err(|error| error.to_string())?;
    println!("{} {}", report.hash, report.replayed.unwrap_or_default());
    Ok(())
}

/// Returns the number of processes that produce the same timelines as the first one.
fn same_traces(processes: usize) -> Result<usize, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut first = None;
    let mut same = 0;
    for _ in 0..processes {
        let output = Child::new(&program).env(TRACE, PLAN).output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        same += usize::from(*first.get_or_insert_with(|| output.stdout.clone()) == output.stdout);
    }
    Ok(same)
}
