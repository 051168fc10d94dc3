//! The operator under simulation: every crash, lost response and stale read.
#![allow(clippy::disallowed_names, reason = "the kind is named so")]

use foo_operator::operator;
use serde_json::json;
use steersman_simulate::{Scenario, Simulation};

fn simulation() -> Simulation {
    let foo = json!({
        "apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo", "metadata": {"name": "example"},
        "spec": {"deploymentName": "web", "replicas": 1},
    });
    let scenario =
        Scenario::new().apply(foo.clone()).patch(&foo, json!({"spec": {"replicas": 3}})).delete(&foo);
    Simulation::of(operator).scenario(scenario)
}

/// A crash after the object is created, and before the status is updated.
#[test]
fn it_survives_a_crash() {
    let report = simulation().replay("1/crash-after@1".parse().unwrap()).run().unwrap();
    report.assert_passed();
    assert_eq!(report.faults["crash-after"].injected, 1);
}

#[test]
#[ignore = "hundreds of runs: make sim"]
fn it_survives_every_fault() {
    let report = simulation().run().unwrap();
    println!("Foo: {}", report.summary());
    report.assert_passed();
    let is_replay = report.replayed.is_some();
    assert!(is_replay || report.faults["crash-after"].injected >= report.writes.max(1), "{report}");
}
