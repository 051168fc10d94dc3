//! The operator under simulation: every crash, lost answer and stale view.

use myownshell_operator::operator;
use serde_json::json;
use steersman_simulate::{Scenario, Simulation};

fn simulation() -> Simulation {
    let shell = json!({
        "apiVersion": "my-first-operator.jgato.io/v1alpha1", "kind": "MyOwnShell",
        "metadata": {"name": "sample"}, "spec": {"size": 2},
    });
    let scenario =
        Scenario::new().apply(shell.clone()).patch(&shell, json!({"spec": {"size": 3}})).delete(&shell);
    Simulation::of(operator).scenario(scenario)
}

/// After the deployment is made, and before the status says so.
#[test]
fn a_shell_survives_a_crash() {
    let report = simulation().replay("1/crash-after@2".parse().unwrap()).run().unwrap();
    report.assert_passed();
    assert_eq!(report.faults["crash-after"].injected, 1);
}

#[test]
#[ignore = "seconds for each run, as pods are simulated too: make sim"]
fn shells_survive_every_crash() {
    let report = simulation().only(["crash-before", "crash-after"]).random(0).run().unwrap();
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
