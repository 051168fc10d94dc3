//! The operator on the embedded cluster, with a clock that the tests move.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use cronjob_operator::{CronJob, SCHEDULED_AT, crd, operator, v2};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{batch::v1::Job, events::v1::Event};
use kube::{ResourceExt, api::ListParams};
use serde_json::json;
use steersman::{
    Environment, Error, Result,
    testing::{TestEnv, convert, object, review},
};

/// A clock that stands still until it is moved.
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
    env.install(&crd().map_err(Error::other)?).await?;
    let clock = Clock(Arc::new(Mutex::new(Timestamp::now())));
    env.run(operator().environment(clock.clone()));
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

/// Moves the clock, and lets the operator look: any change of the resource does.
async fn pass(env: &TestEnv, clock: &Clock, minutes: i64) -> Result<Vec<Job>> {
    clock.advance(minutes);
    let stamp = clock.now().to_string();
    env.patch::<CronJob>("hello", json!({"metadata": {"annotations": {"now": stamp}}})).await?;
    env.quiet().await;
    let mut jobs = env.api::<Job>().list(&ListParams::default()).await?.items;
    jobs.sort_by_key(ResourceExt::name_any);
    Ok(jobs)
}

/// A job that does not end by itself.
fn endless() -> serde_json::Value {
    json!({"jobTemplate": {"spec": {"template": {
        "metadata": {"annotations": {"cluster.steersman.dev/run-for": "forever"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "hello", "image": "busybox"}]},
    }}}})
}

fn with(mut one: serde_json::Value, name: &str, value: serde_json::Value) -> serde_json::Value {
    one[name] = value;
    one
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
    // Several runs that were missed are made up for by one.
    assert_eq!(pass(&env, &clock, 30).await?.len(), 2);
    Ok(())
}

#[tokio::test]
async fn the_policy_says_what_happens_to_a_run_under_way() -> Result<()> {
    for (policy, expected) in [("Allow", 2), ("Forbid", 1), ("Replace", 1)] {
        let (env, clock) = start().await?;
        env.create(&cron(with(endless(), "concurrencyPolicy", json!(policy)))).await?;
        let first = pass(&env, &clock, 10).await?;
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
    for _ in 0..4 {
        pass(&env, &clock, 10).await?;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    env.quiet().await;
    let jobs = env.api::<Job>().list(&ListParams::default()).await?.items;
    assert!(jobs.len() <= 3, "two that succeeded, and one that may be under way: {}", jobs.len());
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

#[test]
fn the_manifests_are_current() -> Result<()> {
    steersman::testing::manifests_match(
        &operator(),
        concat!(env!("CARGO_MANIFEST_DIR"), "/config/manifests.yaml"),
    )
}
