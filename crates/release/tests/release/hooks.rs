//! Hooks: their order, their objects, their logs, and tests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use steersman_chart::{Chart, Values};
use steersman_release::{Error, Options, Releases, Status, TestOptions, Timeout};

use crate::support::{chart, cluster, create_map, has_map, log_of, maps, quick, recorded, values};

/// A Job as a hook, with annotations of its own and of its pods.
fn job(name: &str, annotations: &str, pod: &str) -> String {
    format!(
        "---\napiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}, annotations: {{{annotations}}}}}\nspec:\n  \
         backoffLimit: 0\n  template:\n    metadata: {{annotations: {{{pod}}}}}\n    \
         spec: {{restartPolicy: Never, containers: [{{name: c, image: c}}]}}\n"
    )
}

fn map(name: &str, annotations: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, annotations: {{{annotations}}}}}}}\n"
    )
}

fn reporting(releases: Releases) -> (Releases, Arc<Mutex<Vec<String>>>) {
    let steps = Arc::default();
    (releases.on_progress(log_of(&steps)), steps)
}

fn taken(steps: &Mutex<Vec<String>>) -> Vec<String> {
    std::mem::take(&mut *steps.lock().unwrap())
}

#[tokio::test]
async fn hooks_run_by_weight_and_name() {
    let (_cluster, _client, releases) = cluster().await;
    let (releases, steps) = reporting(releases);
    let chart = chart(
        &[
            map("b", "helm.sh/hook: pre-install"),
            map("a", "helm.sh/hook: pre-install"),
            map("last", "helm.sh/hook: pre-install, helm.sh/hook-weight: '3'"),
            map("first", "helm.sh/hook: 'pre-install,pre-upgrade', helm.sh/hook-weight: '-3'"),
            map("after", "helm.sh/hook: post-install, helm.sh/hook-weight: '-9'"),
            map("object", ""),
        ]
        .concat(),
    );
    let release = releases.install("shop", &chart, &Values::new(), &quick()).await.unwrap();
    let hook = |event: &str, name: &str| format!("hook {event} ConfigMap/{name}");
    let mut expected: Vec<String> = ["first", "a", "b", "last"].map(|name| hook("pre-install", name)).into();
    expected.push("written ConfigMap/object Created".into());
    expected.push(hook("post-install", "after"));
    assert_eq!(taken(&steps), expected);
    for hook in &release.hooks {
        assert_eq!(hook.last_run.phase, "Succeeded", "{}", hook.name);
        assert!(hook.last_run.started_at <= hook.last_run.completed_at && hook.last_run.started_at.is_some());
    }
    // A hook without a delete policy is deleted before it is created again.
    let second = releases.upgrade("shop", &chart, &Values::new(), &quick()).await.unwrap();
    assert_eq!(
        taken(&steps),
        [hook("pre-upgrade", "first"), "written ConfigMap/object Unchanged".to_owned()]
    );
    let phases: Vec<_> = second.hooks.iter().map(|hook| hook.last_run.phase.as_str()).collect();
    assert_eq!(phases.iter().filter(|phase| !phase.is_empty()).count(), 1);
}

#[tokio::test]
async fn hooks_are_deleted_as_they_say() {
    let (_cluster, client, releases) = cluster().await;
    let policy = |name: &str, policy: &str, weight: i64| {
        map(
            name,
            &format!(
                "helm.sh/hook: pre-install, helm.sh/hook-delete-policy: '{policy}', helm.sh/hook-weight: '{weight}'"
            ),
        )
    };
    let all = [
        policy("stays", "", 0),
        policy("before", "before-hook-creation", 0),
        policy("succeeded", "hook-succeeded", 0),
        policy("failed", "hook-failed", 0),
    ]
    .concat();
    releases.install("shop", &chart(&all), &Values::new(), &quick()).await.unwrap();
    let there = || async {
        let mut there = Vec::new();
        for name in ["stays", "before", "succeeded", "failed"] {
            if has_map(&client, name).await {
                there.push(name);
            }
        }
        there
    };
    assert_eq!(there().await, ["stays", "before", "failed"]);

    // An existing object conflicts with a hook that is not deleted before creation.
    let error = releases.install("other", &chart(&all), &Values::new(), &quick()).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with(
            "failed pre-install: warning: Hook pre-install shop/templates/all.yaml failed: ConfigMap/failed"
        ),
        "{text}"
    );
    assert!(text.contains("already exists"), "{text}");
    assert_eq!(there().await, ["stays", "before"], "it failed");
    assert_eq!(releases.get("other", None).await.unwrap().info.status, Status::Failed);
}

#[tokio::test]
async fn a_failed_hook_ends_the_others() {
    let (_cluster, client, releases) = cluster().await;
    let (releases, steps) = reporting(releases);
    let failing = |name: &str, policy: &str, weight: i64| {
        let annotations = format!(
            "helm.sh/hook: pre-install, helm.sh/hook-delete-policy: '{policy}', helm.sh/hook-weight: '{weight}', \
             helm.sh/hook-output-log-policy: hook-failed"
        );
        job(
            name,
            &annotations,
            "cluster.steersman.dev/exit-code: '1', cluster.steersman.dev/logs: out of luck",
        )
    };
    let done = "helm.sh/hook: pre-install, helm.sh/hook-delete-policy: hook-succeeded, helm.sh/hook-weight: '-1', \
                helm.sh/hook-output-log-policy: hook-succeeded";
    let kept = "helm.sh/hook: pre-install, helm.sh/hook-weight: '-1'";
    let after = "helm.sh/hook: pre-install, helm.sh/hook-weight: '9'";
    for (policy, is_there) in [("hook-failed", false), ("before-hook-creation", true)] {
        let templates =
            [map("done", done), map("kept", kept), failing("fails", policy, 0), map("after", after)];
        let options = Options { replace: true, ..quick() };
        let error = releases
            .install("shop", &chart(&templates.concat()), &Values::new(), &options)
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), "failed pre-install: job fails failed: BackoffLimitExceeded");
        let jobs: Api<Job> = Api::namespaced(client.clone(), "default");
        assert_eq!(jobs.get_opt("fails").await.unwrap().is_some(), is_there, "{policy}");
        assert!(!has_map(&client, "done").await && has_map(&client, "kept").await);
        assert!(!has_map(&client, "after").await);
        let steps = taken(&steps);
        assert_eq!(steps.len(), 4, "{steps:?}");
        assert!(steps[3].starts_with("log fails-") && steps[3].ends_with("/c out of luck"), "{steps:?}");
        let Error::Failed { release, .. } = error else { panic!() };
        let phases: Vec<_> =
            release.hooks.iter().map(|hook| (hook.name.as_str(), hook.last_run.phase.as_str())).collect();
        for expected in [("done", "Succeeded"), ("kept", "Succeeded"), ("fails", "Failed"), ("after", "")] {
            assert!(phases.contains(&expected), "{phases:?}");
        }
    }
}

#[tokio::test]
async fn logs_are_shown_as_hooks_say() {
    let (_cluster, _client, releases) = cluster().await;
    let (releases, steps) = reporting(releases);
    let pod = |name: &str, annotations: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, annotations: {{helm.sh/hook: pre-install, \
             cluster.steersman.dev/logs: of {name}{annotations}}}}}\nspec: {{restartPolicy: Never, containers: \
             [{{name: one, image: c}}, {{name: two, image: c}}]}}\n"
        )
    };
    let shown = "helm.sh/hook-output-log-policy: 'hook-succeeded,hook-failed'";
    let templates = [
        pod("shown", &format!(", {shown}")),
        pod("silent", ""),
        pod("only-failed", ", helm.sh/hook-output-log-policy: hook-failed"),
        job("job", &format!("helm.sh/hook: pre-install, {shown}"), "cluster.steersman.dev/logs: of job"),
        map("map", &format!("helm.sh/hook: pre-install, {shown}")),
    ];
    releases.install("shop", &chart(&templates.concat()), &Values::new(), &quick()).await.unwrap();
    let mut logs: Vec<String> = taken(&steps).into_iter().filter(|step| step.starts_with("log ")).collect();
    logs.sort();
    assert_eq!(logs.len(), 3, "{logs:?}");
    assert!(logs[0].starts_with("log job-") && logs[0].ends_with("/c of job"), "{logs:?}");
    assert_eq!(logs[1..], ["log shown/one of shown", "log shown/two of shown"]);
}

#[tokio::test]
async fn a_definition_that_is_a_hook_is_never_deleted() {
    let (_cluster, client, releases) = cluster().await;
    let definition = "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: \
        widgets.example.com\n  annotations: {helm.sh/hook: pre-install, helm.sh/hook-delete-policy: \
        'before-hook-creation,hook-succeeded'}\nspec:\n  group: example.com\n  scope: Namespaced\n  names: {kind: Widget, \
        plural: widgets}\n  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]\n";
    releases.install("shop", &chart(definition), &Values::new(), &quick()).await.unwrap();
    let definitions: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = Api::all(client);
    assert!(definitions.get_opt("widgets.example.com").await.unwrap().is_some());
    let error = releases.install("other", &chart(definition), &Values::new(), &quick()).await.unwrap_err();
    assert!(error.to_string().contains("already exists"), "{error}");
    assert!(definitions.get_opt("widgets.example.com").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn pods_and_jobs_that_do_not_end_time_out() {
    let (_cluster, _client, releases) = cluster().await;
    let short = Options { timeout: Timeout(Duration::from_secs(5)), replace: true, ..Options::default() };
    let endless = "cluster.steersman.dev/run-for: forever";
    let pod = format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: endless, annotations: {{helm.sh/hook: pre-install, {endless}}}}}\n\
         spec: {{restartPolicy: Never, containers: [{{name: c, image: c}}]}}\n"
    );
    for (kind, template) in [("Job", job("endless", "helm.sh/hook: pre-install", endless)), ("Pod", pod)] {
        let started = tokio::time::Instant::now();
        let error = releases.install("shop", &chart(&template), &Values::new(), &short).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "failed pre-install: timed out waiting for objects: {kind}/endless in namespace default \
                 did not complete"
            )
        );
        let took = started.elapsed();
        assert!(took >= Duration::from_secs(5) && took < Duration::from_secs(10), "{took:?}");
    }
    let failing = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: failing, annotations: {helm.sh/hook: pre-install, \
        cluster.steersman.dev/exit-code: '1'}}\nspec: {restartPolicy: Never, containers: [{name: c, image: c}]}\n";
    let error = releases.install("shop", &chart(failing), &Values::new(), &short).await.unwrap_err();
    assert_eq!(error.to_string(), "failed pre-install: pod failing failed");
}

/// The lock of an operation is renewed while a hook runs for long.
#[tokio::test(start_paused = true)]
async fn the_lock_is_renewed_meanwhile() {
    let (_cluster, client, _) = cluster().await;
    let (tapped, log) = recorded(&client);
    let releases = Releases::new(tapped, "default");
    let slow = job("slow", "helm.sh/hook: pre-install", "cluster.steersman.dev/run-for: 35s");
    let options = Options { timeout: Timeout(Duration::from_secs(60)), ..Options::default() };
    releases.install("shop", &chart(&slow), &Values::new(), &options).await.unwrap();
    let log = log.lock().unwrap();
    let renewals: Vec<_> = log
        .iter()
        .filter(|seen| seen.is(http::Method::PATCH, "secrets/sh.helm.release.v1.shop.v1"))
        .filter(|seen| {
            let metadata = &seen.body["metadata"];
            seen.body.get("data").is_none()
                && metadata["annotations"]["release.steersman.dev/alive-until"].is_string()
        })
        .collect();
    assert_eq!(renewals.len(), 3);
}

fn tested() -> Chart {
    let pod = |name: &str, event: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, annotations: {{helm.sh/hook: {event}, \
             cluster.steersman.dev/logs: of {name}, cluster.steersman.dev/exit-code: '{{{{ .Values.exit | default 0 }}}}'}}}}\n\
             spec: {{restartPolicy: Never, containers: [{{name: c, image: c}}]}}\n"
        )
    };
    chart(&[pod("one", "test"), pod("two", "test-success"), pod("other", "pre-delete")].concat())
}

#[tokio::test]
async fn tests_are_chosen_by_name() {
    let (_cluster, _client, releases) = cluster().await;
    let (releases, steps) = reporting(releases);
    releases.install("shop", &tested(), &Values::new(), &quick()).await.unwrap();
    taken(&steps);
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    for (only, skip, expected) in [
        (&[][..], &[][..], &["one", "two"][..]),
        (&["one"], &[], &["one"]),
        (&[], &["one"], &["two"]),
        (&["one"], &["one"], &[]),
        (&["other"], &[], &[]),
    ] {
        for logs in [false, true] {
            let options =
                TestOptions { only: names(only), skip: names(skip), logs, timeout: Timeout::default() };
            let (release, failure) = releases.test("shop", &options).await.unwrap();
            assert!(failure.is_none() && release.name == "shop", "{failure:?}");
            let mut lines: Vec<String> =
                expected.iter().map(|name| format!("hook test Pod/{name}")).collect();
            if logs {
                lines.extend(expected.iter().map(|name| format!("log {name}/c of {name}")));
            }
            assert_eq!(taken(&steps), lines, "{only:?} {skip:?} {logs}");
        }
    }
    let read = releases.get("shop", None).await.unwrap();
    let phase = |name: &str| {
        read.hooks.iter().find(|hook| hook.name == name).map(|hook| hook.last_run.phase.clone()).unwrap()
    };
    assert_eq!((phase("one").as_str(), phase("other").as_str()), ("Succeeded", ""), "that is recorded");
}

#[tokio::test]
async fn a_test_that_fails_is_given_back_with_its_release() {
    let (_cluster, _client, releases) = cluster().await;
    releases.install("shop", &tested(), &values(&["exit=1"]), &quick()).await.unwrap();
    let (release, failure) = releases.test("shop", &TestOptions::default()).await.unwrap();
    assert_eq!(failure.map(|failure| failure.to_string()).as_deref(), Some("pod one failed"));
    let phases: Vec<_> = release.hooks.iter().map(|hook| hook.last_run.phase.as_str()).collect();
    assert!(phases.contains(&"Failed"), "{phases:?}");
    assert_eq!(release.info.status, Status::Deployed);
    let missing = releases.test("never", &TestOptions::default()).await.unwrap_err();
    assert!(matches!(missing, Error::NotFound { .. }), "{missing}");
}

/// An existing object makes the hook of a new run fail, and is not deleted. Only a recovering run deletes leftovers.
#[tokio::test]
async fn a_hook_does_not_replace_what_is_not_its_own() {
    let (_cluster, client, releases) = cluster().await;
    let before = create_map(&client, "taken").await.metadata.uid;
    let chart = chart(&map("taken", "helm.sh/hook: pre-install, helm.sh/hook-delete-policy: hook-succeeded"));
    releases.install("shop", &chart, &Values::new(), &quick()).await.unwrap_err();
    assert_eq!(maps(&client).get("taken").await.unwrap().metadata.uid, before);
}
