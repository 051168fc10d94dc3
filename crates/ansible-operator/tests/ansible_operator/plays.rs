//! Operators with real plays, on the embedded cluster. Needs Python and Ansible: `make test-ansible` has them.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, ResourceQuota};
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use steersman_ansible_operator::{PreparedPython, RunnerOptions};

use crate::support::{Lab, condition, status_of};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python and Ansible: make test-ansible"]
async fn the_memcached_example_lives_its_life() {
    for cold in [false, true] {
        let mut lab = Lab::of_example("memcached-ansible").await;
        lab.options.runner.cold = cold;
        lab.run().await;
        lab.create("Memcached", "sample", json!({ "size": 2 })).await;
        let done = lab.succeeded("Memcached", "sample").await;
        let running = condition(&done, "Running").unwrap();
        assert_eq!(running["reason"], "Successful");
        assert_eq!(running["message"], "Awaiting next reconciliation");
        assert_eq!(running["ansibleResult"]["changed"], 1, "{done:#}");
        assert_eq!(status_of(&done, "Failure").as_deref(), Some("False"));

        let deployment = lab.deployment("sample-memcached", |one| one.is_some()).await.unwrap();
        let owner = &deployment.metadata.owner_references.as_ref().unwrap()[0];
        assert_eq!(
            (owner.kind.as_str(), owner.name.as_str(), owner.controller),
            ("Memcached", "sample", None)
        );
        assert_eq!(replicas(&deployment), Some(2));
        if lab.has_nodes() {
            lab.ready("Memcached", "sample", "True", "WorkloadsReady").await;
        }

        // Drift is corrected at once.
        lab.env.patch::<Deployment>("sample-memcached", json!({ "spec": { "replicas": 7 } })).await.unwrap();
        lab.deployment("sample-memcached", |one| one.and_then(replicas) == Some(2)).await;
        lab.env.delete::<Deployment>("sample-memcached").await.unwrap();
        lab.deployment("sample-memcached", |one| {
            one.is_some_and(|one| one.metadata.uid != deployment.metadata.uid)
        })
        .await;

        // A new spec, and one that every server rejects.
        lab.patch("Memcached", "sample", json!({ "spec": { "size": 3 } })).await;
        lab.deployment("sample-memcached", |one| one.and_then(replicas) == Some(3)).await;
        lab.patch("Memcached", "sample", json!({ "spec": { "size": -1 } })).await;
        let failed = lab.failed("Memcached", "sample").await;
        let message = condition(&failed, "Failure").unwrap()["message"].as_str().unwrap().to_owned();
        assert!(message.contains("must be greater than or equal to 0"), "{message}");
        lab.patch("Memcached", "sample", json!({ "spec": { "size": 1 } })).await;
        lab.deployment("sample-memcached", |one| one.and_then(replicas) == Some(1)).await;
        lab.succeeded("Memcached", "sample").await;
        lab.delete("Memcached", "sample").await;
        lab.deployment("sample-memcached", |one| one.is_none()).await;
        lab.env.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python and Ansible: make test-ansible"]
async fn the_team_example_lives_its_life() {
    let mut lab = Lab::of_example("team-ansible").await;
    lab.more_namespaces = vec!["team-blue".into()];
    lab.run().await;
    lab.create("Team", "blue", json!({ "maxPods": 5, "members": ["ada", "grace"], "namespacePrefix": "x-" }))
        .await;
    let done = lab.succeeded("Team", "blue").await;
    assert_eq!(done["status"]["namespace"], "team-blue", "vars of watches.yaml win: {done:#}");
    let maps = lab.api_in::<ConfigMap>("team-blue");
    let members = |map: &ConfigMap| map.data.as_ref().and_then(|data| data.get("members").cloned());
    let map = maps.get("members").await.unwrap();
    assert_eq!(members(&map).as_deref(), Some("ada,grace"));
    assert_eq!(map.annotations()["operator-sdk/primary-resource"], format!("{}/blue", lab.namespace()));
    let quota = lab.api_in::<ResourceQuota>("team-blue").get("team").await.unwrap();
    assert_eq!(quota.spec.unwrap().hard.unwrap()["pods"].0, "5");

    // Drift in another namespace triggers a run, too.
    let drift = Patch::Merge(json!({ "data": { "members": "mallory" } }));
    maps.patch("members", &PatchParams::default(), &drift).await.unwrap();
    lab.env
        .wait_in(maps, "members", |map| map.and_then(members).as_deref() == Some("ada,grace"))
        .await
        .unwrap();
    lab.delete("Team", "blue").await;
    lab.gone("Team", "blue").await;
    let namespaces: Api<Namespace> = Api::all(lab.env.client());
    lab.env.wait_in(namespaces, "team-blue", |one| one.is_none()).await.unwrap();
    lab.env.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python and Ansible: make test-ansible"]
async fn operators_get_their_fork_servers_from_one_python() {
    let mut options = RunnerOptions::default();
    let prepared = PreparedPython::start(&options, Path::new(".")).await.unwrap().unwrap();
    options.prepared = Some(prepared.socket().to_owned());
    let lives = |server: u32| match std::fs::read_to_string(format!("/proc/{server}/status")) {
        Ok(status) => !status.contains("State:\tZ"),
        Err(_) => false,
    };
    let mut servers = Vec::new();
    for size in [2, 3] {
        let mut lab = Lab::of_example("memcached-ansible").await;
        lab.options.runner = options.clone();
        lab.run().await;
        lab.create("Memcached", "sample", json!({ "size": size })).await;
        lab.succeeded("Memcached", "sample").await;
        lab.deployment("sample-memcached", |one| one.and_then(replicas) == Some(size)).await;
        let server = prepared.server_of(std::process::id()).unwrap();
        assert!(lives(server) && !servers.contains(&server));
        servers.push(server);
        lab.env.stop().await.unwrap();
        drop(lab);
        // It ends together with its operator.
        while lives(server) {
            tokio::task::yield_now().await;
        }
    }
}

fn replicas(deployment: &Deployment) -> Option<i32> {
    deployment.spec.as_ref()?.replicas
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python and Ansible: make test-ansible"]
async fn verdicts_are_ansibles_own() {
    let mut lab = Lab::new(&[
        ("Rescue", "verdicts/rescue.yml"),
        ("Ignore", "verdicts/ignore.yml"),
        ("Unreachable", "verdicts/unreachable.yml"),
        ("Syntax", "verdicts/syntax.yml"),
        ("Undefined", "verdicts/undefined.yml"),
        ("Later", "verdicts/requeue.yml"),
        ("Soon", "verdicts/requeue_bad.yml"),
    ])
    .await;
    lab.run().await;
    for kind in ["Rescue", "Ignore", "Unreachable", "Syntax", "Undefined", "Later", "Soon"] {
        lab.create(kind, "one", json!({})).await;
    }
    for kind in ["Rescue", "Ignore", "Later"] {
        let done = lab.succeeded(kind, "one").await;
        assert_eq!(status_of(&done, "Failure").as_deref(), Some("False"), "{kind}");
    }
    for (kind, expected) in [
        ("Unreachable", "Failed to connect"),
        ("Syntax", "not a valid attribute"),
        ("Undefined", "is undefined"),
        ("Soon", "requeue_after in Ask (verdicts"),
    ] {
        let failed = lab.failed(kind, "one").await;
        let message = condition(&failed, "Failure").unwrap()["message"].as_str().unwrap().to_owned();
        let found =
            message.contains(expected) || kind == "Soon" && message.contains("invalid duration \"soon\"");
        assert!(found, "{kind}: {message}");
    }
    lab.env.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python and Ansible: make test-ansible"]
async fn hostile_objects_and_plays_harm_no_other_run() {
    let mut lab = Lab::new(&[
        ("Template", "hostile/template.yml"),
        ("Hang", "hostile/hang.yml"),
        ("Die", "hostile/die.yml"),
        ("Flood", "hostile/flood.yml"),
        ("Leak", "hostile/leak.yml"),
    ])
    .await;
    lab.options.runner.timeout = Some(Duration::from_secs(15));
    lab.run().await;
    let text = "{{ lookup('pipe', 'id') }} {{ 6 * 7 }}";
    lab.create("Template", "one", json!({ "text": text, "list": [text] })).await;
    for kind in ["Hang", "Die", "Flood", "Leak"] {
        lab.create(kind, "one", json!({})).await;
    }
    lab.succeeded("Template", "one").await;
    let map: ConfigMap = lab.env.api().get("template").await.unwrap();
    let data = map.data.unwrap();
    assert_eq!(data["text"], text, "a template in an object stays a text");
    assert_eq!(data["whole"], text);
    let failure = async |kind: &str| {
        let failed = lab.failed(kind, "one").await;
        condition(&failed, "Failure").unwrap()["message"].as_str().unwrap().to_owned()
    };
    let hung = failure("Hang").await;
    assert!(hung.contains("exceeded its time limit of 15s"), "{hung}");
    let died = failure("Die").await;
    assert!(died.contains("signal 9"), "{died}");
    let flooded = failure("Flood").await;
    assert!(flooded.len() < 33_000, "{} bytes", flooded.len());
    let leaked = failure("Leak").await;
    assert!(!leaked.contains("hunter2secret") && leaked.contains("********"), "{leaked}");
    let hidden = lab.failed("Leak", "one").await.to_string();
    assert!(!hidden.contains("hunter2secret") && !hidden.contains("quietpassword"), "{hidden}");
    lab.env.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python and Ansible: make test-ansible"]
async fn a_run_that_changes_nothing_writes_nothing() {
    let mut lab = Lab::of_example("memcached-ansible").await;
    lab.options.reconcile_period = Duration::from_secs(1);
    lab.run().await;
    lab.create("Memcached", "calm", json!({ "size": 1 })).await;
    lab.succeeded("Memcached", "calm").await;
    lab.deployment("calm-memcached", |one| {
        one.and_then(|one| one.status.as_ref()?.available_replicas) == Some(1)
    })
    .await;
    // The run in progress may have seen the previous Deployment, and report a change.
    lab.more_runs(2).await;
    let before = lab.get("Memcached", "calm").await;
    lab.more_runs(2).await;
    let after: Value = lab.get("Memcached", "calm").await;
    assert_eq!(before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
    // Nor does the first run of a new process, which only knows the previous run from the status.
    lab.env.stop().await.unwrap();
    lab.run().await;
    lab.more_runs(2).await;
    let restarted: Value = lab.get("Memcached", "calm").await;
    assert_eq!(before["metadata"]["resourceVersion"], restarted["metadata"]["resourceVersion"]);
    lab.env.stop().await.unwrap();
    // If it was killed before it reported the workloads, such a run does so.
    let mut status = restarted["status"].clone();
    status["conditions"].as_array_mut().unwrap().retain(|one| one["type"] != "Ready");
    let patch = Patch::Merge(json!({ "status": status }));
    lab.objects("Memcached").patch_status("calm", &PatchParams::default(), &patch).await.unwrap();
    lab.run().await;
    lab.ready("Memcached", "calm", "True", "WorkloadsReady").await;
    lab.env.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python and Ansible: make test-ansible"]
async fn a_finalizer_runs_before_the_object_goes() {
    let mut lab = Lab::new(&[("Guarded", "finalizer/main.yml")]).await;
    lab.set(
        "Guarded",
        "finalizer",
        json!({ "name": "ansible.example.com/guard", "vars": { "state": "absent" } }),
    );
    lab.run().await;
    lab.create("Guarded", "one", json!({ "place": "far" })).await;
    lab.succeeded("Guarded", "one").await;
    let far = lab.api_in::<ConfigMap>("far");
    let map = far.get("guarded-one").await.unwrap();
    let annotations = map.metadata.annotations.unwrap();
    assert_eq!(annotations["operator-sdk/primary-resource"], format!("{}/one", lab.namespace()));
    assert_eq!(annotations["operator-sdk/primary-resource-type"], "Guarded.plays.example.com");
    lab.delete("Guarded", "one").await;
    lab.gone("Guarded", "one").await;
    assert!(far.get_opt("guarded-one").await.unwrap().is_none(), "the finalizer's run deletes it");
    lab.env.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python and Ansible: make test-ansible"]
async fn the_operators_own_modules_work() {
    let mut lab = Lab::new(&[("Util", "util/main.yml")]).await;
    lab.run().await;
    lab.create("Util", "one", json!({})).await;
    let done: Value = lab.succeeded("Util", "one").await;
    assert_eq!(done["status"]["nodes"], json!(["a", "b"]), "{done:#}");
    assert_eq!(condition(&done, "Checked").unwrap()["reason"], "Looked");
    assert_eq!(lab.metric("shop_visits_total"), 3.0);
    let events = lab.api_in::<Event>(&lab.namespace());
    let event = events.get("util-seen").await.unwrap();
    assert_eq!((event.reason.as_deref(), event.count), (Some("Seen"), Some(2)));
    lab.env.stop().await.unwrap();
}
