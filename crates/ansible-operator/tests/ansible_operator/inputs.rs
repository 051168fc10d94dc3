//! Errors in a project, an object or on the machine are reported where they can be fixed. Needs Python and Ansible:
//! `make test-ansible` has them.

use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use serde_json::json;
use steersman::Operator;
use steersman_ansible_operator::{Defaults, Watches, add_watches};

use crate::support::{Lab, condition};

/// Waits for an event about an object with a string in its message.
async fn event(lab: &Lab, reason: &str, text: &str) -> String {
    let events = lab.api_in::<Event>(&lab.namespace());
    loop {
        for event in events.list(&ListParams::default()).await.unwrap() {
            let note = event.note.unwrap_or_default();
            if event.reason.as_deref() == Some(reason) && note.contains(text) {
                return note;
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python and Ansible: make test-ansible"]
async fn odd_objects_are_told_in_events_and_conditions() {
    let mut lab = Lab::new(&[("Odd", "verdicts/ignore.yml"), ("Broken", "verdicts/undefined.yml")]).await;
    lab.set("Odd", "vars", json!({ "size": 3 }));
    lab.run().await;
    let period = "ansible.sdk.operatorframework.io/reconcile-period";
    lab.create("Odd", "period", json!({})).await;
    lab.succeeded("Odd", "period").await;
    lab.patch("Odd", "period", json!({ "metadata": { "annotations": { period: "soon" } } })).await;
    let failed = lab.failed("Odd", "period").await;
    let message = condition(&failed, "Failure").unwrap()["message"].as_str().unwrap().to_owned();
    assert_eq!(message, format!("annotation {period}: invalid duration \"soon\""));
    event(&lab, "InvalidAnnotation", "invalid duration \"soon\"").await;
    // It waits for the annotation to be edited, and then follows it.
    lab.patch("Odd", "period", json!({ "metadata": { "annotations": { period: "1h" } } })).await;
    lab.succeeded("Odd", "period").await;

    lab.create("Odd", "hidden", json!({ "size": 1, "maxSize": 1, "max_size": 2 })).await;
    event(&lab, "VariableHidden", "spec.size has no effect").await;
    event(&lab, "VariableHidden", "spec.maxSize and spec.max_size both set the variable max_size").await;

    lab.create("Broken", "one", json!({})).await;
    lab.failed("Broken", "one").await;
    let note = event(&lab, "TaskFailed", "is undefined").await;
    assert!(note.contains("verdicts/undefined.yml:4"), "the event names file and line: {note}");
    lab.env.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python and Ansible: make test-ansible"]
async fn a_project_that_cannot_run_says_why() {
    let lab = Lab::new(&[]).await;
    let client = lab.env.client();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("watches.yaml");
    let playbook = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plays/verdicts/ignore.yml");
    let text = format!(
        "- version: v1\n  group: nowhere.example.com\n  kind: Absent\n  playbook: {playbook}\n  markUnsafe: true\n  vars: {{place: \"${{NOT_SET}}\"}}\n"
    );
    std::fs::write(&file, &text).unwrap();
    let watches = Watches::load(&file, &[], |_| None).unwrap();
    assert_eq!(watches.warnings.len(), 1, "{:?}", watches.warnings);
    assert!(watches.warnings[0].contains("NOT_SET"), "{:?}", watches.warnings);
    let refused = async |defaults: Defaults| {
        add_watches(Operator::new("x"), &watches, &defaults, &client).await.err().unwrap().to_string()
    };
    let absent = refused(Defaults::default()).await;
    assert!(absent.contains("nowhere.example.com/v1 Absent") && absent.contains("definition"), "{absent}");

    // A Python without libraries, and a program that is not Python.
    let bare = directory.path().join("python3");
    let script = "#!/bin/sh\necho '{\"python\": \"3.12.1\", \"ansible-core\": null, \"kubernetes\": null}'\n";
    std::fs::write(&bare, script).unwrap();
    std::process::Command::new("chmod").arg("755").arg(&bare).status().unwrap();
    for (program, expected) in
        [(bare.clone(), "Python 3.12.1 without ansible-core"), (directory.path().join("no"), "No such file")]
    {
        let mut defaults = Defaults::default();
        defaults.runner.python = Some(program.clone());
        let told = refused(defaults).await;
        assert!(told.contains(expected), "{told}");
        assert!(
            told.contains(&format!("{} -m pip install ansible-core kubernetes", program.display())),
            "{told}"
        );
    }

    std::fs::write(&file, text.replace(playbook, "nowhere.yml")).unwrap();
    let told = Watches::load(&file, &[], |_| None).err().unwrap().to_string();
    assert!(told.contains(":1: ") && told.contains("nowhere.yml"), "{told}");
}
