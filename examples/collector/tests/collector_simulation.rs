//! The operator under simulation: every crash, lost response and stale read.

use std::path::Path;

use serde_json::{Value, json};
use steersman::Operator;
use steersman_chart::Chart;
use steersman_helm_operator::KEY_SECRET;
use steersman_simulate::{Scenario, Simulation};

fn read(file: &str) -> Value {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    steersman_yaml::from_str(&text).unwrap()
}

fn simulation() -> Simulation {
    let collector = read("config/samples/telemetry_v1alpha1_collector.yaml");
    let update = json!({"spec": {"collector": {"version": "0.101.0"}}});
    let scenario = Scenario::new()
        .given(read("config/crd/bases/telemetry.example.com_collectors.yaml"))
        .apply(collector.clone())
        .patch(&collector, update)
        .delete(&collector);
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("helm-charts/collector");
    Simulation::of_prepared(move |_| {
        let chart = chart.clone();
        async move {
            let controller = collector_operator::controller(Chart::load(&chart)?);
            Ok(Operator::new("collector-operator").controller(controller.controller()))
        }
    })
    .scenario(scenario)
    .rolls_back(true)
    // All releases share the key that signs their records.
    .keeps(format!("secrets/default/{KEY_SECRET}"))
    .ignores(format!("secrets/default/{KEY_SECRET}"))
    // A crash during an install leaves a failed revision, so the next one has a different number.
    .ignores("secrets/*/sh.helm.release.v1.*")
    .ignores_field("Collector", ".status.history")
    // It depends on the timing of crashes whether the last revision was an install or an upgrade.
    .ignores_field("Collector", ".status.conditions[0].reason")
}

/// A crash during the install.
#[test]
fn it_survives_a_crash() {
    let report = simulation().replay("1/crash-after@3".parse().unwrap()).run().unwrap();
    report.assert_passed();
    assert_eq!(report.faults["crash-after"].injected, 1);
}

/// After the upgrade, the operator's own step fails, and the status update about both is rejected.
#[test]
fn it_tells_later_what_was_refused() {
    let report = simulation().replay("2944/read-failed@20+refused-503@19".parse().unwrap()).run().unwrap();
    report.assert_passed();
    assert_eq!(
        (report.faults["read-failed"].injected, report.faults["refused"].injected),
        (1, 1),
        "{report}"
    );
}

/// The key is created again at the next start, and signs the records.
#[test]
fn a_deleted_key_is_made_anew_at_the_next_start() {
    let plan = format!("1/deleted-outside@1:secrets/default/{KEY_SECRET}+restart@2");
    let report = simulation().replay(plan.parse().unwrap()).run().unwrap();
    report.assert_passed();
    assert_eq!(
        (report.faults["deleted-outside"].injected, report.faults["restart"].injected),
        (1, 1),
        "{report}"
    );
}

/// The namespace that it would have created does not exist at the end.
#[test]
fn it_may_see_a_resource_only_when_it_is_deleted() {
    let report = simulation().replay("1/dead-after@1+blind@2".parse().unwrap()).run().unwrap();
    report.assert_passed();
    assert_eq!((report.faults["dead-after"].injected, report.faults["blind"].injected), (1, 1), "{report}");
}

#[test]
#[ignore = "hundreds of runs: make sim"]
fn it_survives_every_fault() {
    let report = simulation().run().unwrap();
    println!("Collector: {}", report.summary());
    report.assert_passed();
    let is_replay = report.replayed.is_some();
    assert!(is_replay || report.faults["crash-after"].injected >= report.writes.max(1), "{report}");
}
