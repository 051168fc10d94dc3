//! The operator under simulation: every crash, lost response and stale read.

use ptemplate_operator::operator;
use serde_json::json;
use steersman_simulate::{Scenario, Simulation};

fn simulation() -> Simulation {
    // A minimal replacement for the CustomResourceDefinition of Kernel Module Management.
    let module = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "modules.kmm.sigs.x-k8s.io"},
        "spec": {
            "group": "kmm.sigs.x-k8s.io", "scope": "Namespaced",
            "names": {"kind": "Module", "plural": "modules", "singular": "module"},
            "versions": [{"name": "v1beta1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    let template = json!({
        "apiVersion": "pt.example.com/v1alpha1", "kind": "Ptemplate", "metadata": {"name": "sample"},
        "spec": {"maxdev": 2, "defaultmsg": "hello", "consumerimage": "consumer:1", "requiredDevices": 2},
    });
    let change = json!({"spec": {"maxdev": 3, "consumerimage": "consumer:2"}});
    let scenario =
        Scenario::new().given(module).apply(template.clone()).patch(&template, change).delete(&template);
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
    println!("Ptemplate: {}", report.summary());
    report.assert_passed();
    let is_replay = report.replayed.is_some();
    assert!(is_replay || report.faults["crash-after"].injected >= report.writes.max(1), "{report}");
}
