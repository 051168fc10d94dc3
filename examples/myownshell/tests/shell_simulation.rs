//! The operator under simulation: every crash, lost answer and stale view.

use myownshell_operator::operator;
use serde_json::json;
use steersman_simulate::{Scenario, Simulation};

#[test]
fn shells_survive_every_fault() {
    let shell = json!({
        "apiVersion": "my-first-operator.jgato.io/v1alpha1", "kind": "MyOwnShell",
        "metadata": {"name": "sample"}, "spec": {"size": 2},
    });
    let scenario =
        Scenario::new().apply(shell.clone()).patch(&shell, json!({"spec": {"size": 3}})).delete(&shell);
    let report = Simulation::of(operator).scenario(scenario).run().unwrap();
    println!("{}", report.summary());
    report.assert_passed();
}
