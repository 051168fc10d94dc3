//! The operator on a cluster, with a clock that the tests control. The cluster is the embedded one, or that of
//! STEERSMAN_TEST_KUBECONFIG.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use cronjob_operator::{CronJob, SCHEDULED_AT, operator, v2};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{batch::v1::Job, events::v1::Event},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
};
use serde_json::json;
use steersman::{
    Environment, Error, Result,
    testing::{TestEnv, convert, object, review},
};

/// A clock that only advances when the test says so.
#[derive(Debug, Clone)]
struct Clock(Arc<Mutex<Timestamp>>);

impl Clock {
    fn advance(&self, minutes: i64) {
        let mut now = self.0.lock().unwrap();
        *now = now.checked_add(SignedDuration::from_mins(minutes)).unwrap();
    }
}

impl Environment for Clock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    fn random(&self) -> u64 {
        4
    }
}

async fn start() -> Result<(TestEnv, Clock)> {
    let mut env = TestEnv::start().await?;
    let clock = Clock(Arc::new(Mutex::new(Timestamp::now())));
    env.deploy(operator().environment(clock.clone())).await?;
    Ok((env, clock))
}

fn cron(more: serde_json::Value) -> CronJob {
    let mut json = json!({
        "apiVersion": "batch.tutorial.kubebuilder.io/v1", "kind": "CronJob",
        "metadata": {"name": "hello"},
        "spec": {
            "schedule": "*/10 * * * *",
            "jobTemplate": {"spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "hello", "image": "busybox"}],
            }}}},
        },
    });
    if let (Some(spec), serde_json::Value::Object(more)) = (json["spec"].as_object_mut(), more) {
        spec.extend(more);
    }
    object(json)
}

/// Advances the clock, and triggers a reconcile by changing the resource.
async fn pass(env: &TestEnv, clock: &Clock, minutes: i64) -> Result<Vec<Job>> {
    clock.advance(minutes);
    let stamp = clock.now().to_string();
    env.patch::<CronJob>("hello", json!({"metadata": {"annotations": {"now": stamp}}})).await?;
    env.quiet().await;
    let mut jobs = env.api::<Job>().list(&ListParams::default()).await?.items;
    jobs.sort_by_key(ResourceExt::name_any);
    Ok(jobs)
}

/// A job that never completes, since no node can run its pod.
fn endless() -> serde_json::Value {
    json!({"jobTemplate": {"spec": {"template": {"spec": {
        "restartPolicy": "Never", "nodeSelector": {"example.com/nobody": "has-it"},
        "containers": [{"name": "hello", "image": "busybox"}],
    }}}}})
}

fn with(mut one: serde_json::Value, name: &str, value: serde_json::Value) -> serde_json::Value {
    one[name] = value;
    one
}

fn succeeded(job: Option<&Job>) -> bool {
    let conditions = job.and_then(|job| job.status.as_ref()?.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Complete" && one.status == "True"))
}

#[tokio::test]
async fn a_due_run_is_started_once() -> Result<()> {
    let (env, clock) = start().await?;
    env.create(&cron(json!({}))).await?;
    let jobs = pass(&env, &clock, 10).await?;
    assert_eq!(jobs.len(), 1);
    assert!(jobs[0].annotations().contains_key(SCHEDULED_AT));
    assert_eq!(jobs[0].owner_references()[0].kind, "CronJob");
    let found: CronJob = env.api().get("hello").await?;
    assert!(found.status.is_some_and(|status| status.last_schedule_time.is_some()));
    // Several missed runs are made up for by a single one.
    assert_eq!(pass(&env, &clock, 30).await?.len(), 2);
    Ok(())
}

#[tokio::test]
async fn a_run_whose_job_was_deleted_is_not_made_up_for() -> Result<()> {
    let (env, clock) = start().await?;
    env.create(&cron(json!({}))).await?;
    let jobs = pass(&env, &clock, 10).await?;
    env.api::<Job>().delete(&jobs[0].name_any(), &DeleteParams::background()).await?;
    for _ in 0..3 {
        assert!(pass(&env, &clock, 0).await?.is_empty());
        let found: CronJob = env.api().get("hello").await?;
        assert!(found.status.is_some_and(|status| status.last_schedule_time.is_some()));
    }
    Ok(())
}

#[tokio::test]
async fn the_policy_says_what_happens_to_a_run_under_way() -> Result<()> {
    for (policy, expected) in [("Allow", 2), ("Forbid", 1), ("Replace", 1)] {
        let (env, clock) = start().await?;
        env.create(&cron(with(endless(), "concurrencyPolicy", json!(policy)))).await?;
        pass(&env, &clock, 10).await?;
        // A real cluster may become quiet before it has started the run.
        let running = |found: Option<&CronJob>| {
            found.and_then(|found| found.status.as_ref()).is_some_and(|status| status.active.len() == 1)
        };
        env.wait("hello", running).await?;
        let first = env.api::<Job>().list(&ListParams::default()).await?.items;
        let second = pass(&env, &clock, 10).await?;
        assert_eq!((first.len(), second.len()), (1, expected), "{policy}");
        assert_eq!(
            second.last().map(ResourceExt::name_any) != first.last().map(ResourceExt::name_any),
            policy != "Forbid"
        );
        let found: CronJob = env.api().get("hello").await?;
        assert_eq!(found.status.map_or(0, |status| status.active.len()), expected, "{policy}");
    }
    Ok(())
}

#[tokio::test]
async fn suspended_and_late_runs_are_not_started() -> Result<()> {
    let (env, clock) = start().await?;
    env.create(&cron(json!({"suspend": true}))).await?;
    assert_eq!(pass(&env, &clock, 30).await?.len(), 0);
    env.patch::<CronJob>("hello", json!({"spec": {"suspend": false, "startingDeadlineSeconds": 1}})).await?;
    env.quiet().await;
    let missed = env.api::<Job>().list(&ListParams::default()).await?.items.len();
    assert!(missed <= 1, "only a run of this very second may start");
    Ok(())
}

#[tokio::test]
async fn history_is_kept_within_its_limits() -> Result<()> {
    let (env, clock) = start().await?;
    env.create(&cron(json!({"successfulJobsHistoryLimit": 2}))).await?;
    for run in 1..=4 {
        let jobs = pass(&env, &clock, 10).await?;
        let name = jobs.last().map(ResourceExt::name_any).unwrap_or_default();
        env.wait(&name, succeeded).await?;
        env.quiet().await;
        let jobs = env.api::<Job>().list(&ListParams::default()).await?.items;
        assert_eq!(jobs.len(), run.min(2));
        assert!(jobs.iter().any(|job| job.name_any() == name), "the newest are kept");
    }
    Ok(())
}

#[tokio::test]
async fn an_impossible_schedule_is_told() -> Result<()> {
    let (env, _) = start().await?;
    env.create(&cron(json!({"schedule": "sometimes"}))).await?;
    env.quiet().await;
    let events = env.api::<Event>().list(&ListParams::default()).await?.items;
    assert!(events.iter().any(|event| event.note.as_deref().is_some_and(|note| note.contains("5 fields"))));
    Ok(())
}

#[test]
fn webhooks_fill_in_defaults_and_refuse_nonsense() {
    let defaulted = review(&operator(), "mutate", None, Some(&cron(json!({})))).unwrap();
    let common = &defaulted.spec.common;
    assert_eq!((common.successful_jobs_history_limit, common.failed_jobs_history_limit), (Some(3), Some(1)));
    assert_eq!(common.suspend, Some(false));
    let mut bad = cron(json!({"schedule": "* * * *"}));
    bad.metadata.name = Some("x".repeat(53));
    let message = review(&operator(), "validate", None, Some(&bad)).unwrap_err();
    assert!(message.contains("52 characters") && message.contains("5 fields"), "{message}");
}

#[test]
fn versions_become_each_other_without_loss() {
    let old = cron(json!({"schedule": "*/10 2 * * mon", "suspend": true}));
    let new: v2::CronJob = convert(&operator(), &old).unwrap();
    assert_eq!(new.spec.schedule.minute.as_deref(), Some("*/10"));
    assert_eq!(new.spec.schedule.day_of_month, None);
    assert_eq!(new.spec.common.suspend, Some(true));
    let back: CronJob = convert(&operator(), &new).unwrap();
    assert_eq!(back.spec, old.spec);
    assert_eq!(back.name_any(), "hello");
    let broken = cron(json!({"schedule": "never"}));
    assert!(convert::<_, v2::CronJob>(&operator(), &broken).is_err());
}

#[tokio::test]
async fn the_api_server_converts_by_the_operator() -> Result<()> {
    let mut env = TestEnv::start().await?;
    let address = std::net::TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr());
    let address = address.map_err(Error::other)?;
    let url = format!("https://localhost:{}", address.port());
    env.deploy(operator().webhook_address(address).webhook_url(&url)).await?;
    let crds: Api<CustomResourceDefinition> = Api::all(env.client());
    env.wait_in(crds, "cronjobs.batch.tutorial.kubebuilder.io", |crd: Option<&CustomResourceDefinition>| {
        let conversion = crd.and_then(|crd| crd.spec.conversion.as_ref()?.webhook.as_ref());
        conversion
            .and_then(|webhook| webhook.client_config.as_ref()?.url.as_ref()?.strip_prefix(&url))
            .is_some()
    })
    .await?;
    env.create(&cron(json!({"schedule": "*/5 1 * * mon"}))).await?;
    // The API server takes a moment to pick up the webhook.
    let api = env.api::<v2::CronJob>();
    let mut found = api.get("hello").await;
    for _ in 0..100 {
        if found.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        found = api.get("hello").await;
    }
    let schedule = found?.spec.schedule;
    assert_eq!((schedule.minute.as_deref(), schedule.hour.as_deref()), (Some("*/5"), Some("1")));
    assert_eq!(schedule.day_of_week.as_deref(), Some("mon"));
    // And converted back.
    let patch = kube::api::Patch::Merge(json!({"spec": {"schedule": {"minute": "7"}}}));
    api.patch("hello", &Default::default(), &patch).await?;
    let old: CronJob = env.api().get("hello").await?;
    assert_eq!(old.spec.schedule, "7 1 * * mon");
    // The webhook validates updates as well.
    let refused = env.patch::<CronJob>("hello", json!({"spec": {"schedule": "sometimes"}})).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("5 fields")));
    Ok(())
}

#[test]
fn the_manifests_are_current() -> Result<()> {
    steersman::testing::manifests_match(
        &operator(),
        concat!(env!("CARGO_MANIFEST_DIR"), "/config/manifests.yaml"),
    )
}
