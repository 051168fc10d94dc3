//! The operator under simulation: every crash, lost response and stale read.

use std::time::Duration;

use myownshell_operator::operator;
use serde_json::json;
use steersman_simulate::{Command, Scenario, Simulation};

fn scenario() -> Scenario {
    let shell = json!({
        "apiVersion": "my-first-operator.jgato.io/v1alpha1", "kind": "MyOwnShell",
        "metadata": {"name": "sample"}, "spec": {"size": 2},
    });
    Scenario::new().apply(shell.clone()).patch(&shell, json!({"spec": {"size": 3}})).delete(&shell)
}

fn simulation() -> Simulation {
    Simulation::of(operator).scenario(scenario())
}

/// A crash after the Deployment is created, and before the status is updated.
#[test]
fn a_shell_survives_a_crash() {
    let report = simulation().replay("1/crash-after@2".parse().unwrap()).run().unwrap();
    report.assert_passed();
    assert_eq!(report.faults["crash-after"].injected, 1);
}

/// The same with the operator as a separate process, over HTTP and in real time.
#[test]
fn the_program_survives_a_crash() {
    let program = Command::new(env!("CARGO_BIN_EXE_myownshell-operator")).argument("run");
    let program = program.argument("--metrics-bind-address=0").argument("--health-probe-bind-address=0");
    let definitions = operator().crds().into_iter().map(|crd| serde_json::to_value(crd).unwrap());
    let scenario = definitions.fold(scenario(), Scenario::given);
    let simulation = Simulation::of_command(program).scenario(scenario).quiet(Duration::from_millis(500));
    let report = simulation.replay("1/crash-after@2".parse().unwrap()).run().unwrap();
    report.assert_passed();
    assert_eq!(report.faults["crash-after"].injected, 1);
}

#[test]
#[ignore = "seconds for each run, as pods are simulated too: make sim"]
fn shells_survive_every_crash() {
    let report = simulation().only(["crash-before", "crash-after"]).random(0).pairs(false).run().unwrap();
    report.assert_passed();
    let crashes = report.faults["crash-after"];
    assert!(crashes.planned > 0 && crashes.planned == crashes.injected, "{report}");
    assert_eq!(report.runs, crashes.injected * 2);
}

#[test]
#[ignore = "hundreds of runs: make sim"]
fn shells_survive_every_fault() {
    let report = simulation().run().unwrap();
    println!("{}", report.summary());
    report.assert_passed();
}
