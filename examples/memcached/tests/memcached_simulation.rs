//! The operator under simulation: every crash, lost response and stale read.

use memcached_operator::operator;
use serde_json::json;
use steersman_simulate::{Scenario, Simulation};

fn simulation() -> Simulation {
    let cache = json!({
        "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached", "metadata": {"name": "sample"},
        "spec": {"size": 3},
    });
    let scenario =
        Scenario::new().apply(cache.clone()).patch(&cache, json!({"spec": {"size": 1}})).delete(&cache);
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
    println!("Memcached: {}", report.summary());
    report.assert_passed();
    let is_replay = report.replayed.is_some();
    assert!(is_replay || report.faults["crash-after"].injected >= report.writes.max(1), "{report}");
}
