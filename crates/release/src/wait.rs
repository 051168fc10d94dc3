//! Waits for objects to become ready or to be deleted.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::object::Object;
use crate::progress::{Progress, Reporter};
use crate::write::Writer;
use crate::{Readiness, readiness};

/// Poll interval: short at first, and growing.
const FIRST_POLL: Duration = Duration::from_millis(50);
const LAST_POLL: Duration = Duration::from_secs(1);
/// Maximum number of concurrent reads.
const READS: usize = 8;

/// Growing delays between polls of the cluster.
pub(crate) struct Backoff(Duration);

impl Backoff {
    pub(crate) fn new() -> Self {
        Self(FIRST_POLL)
    }

    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 3 / 2).min(LAST_POLL);
    }
}

/// Waits until all objects are ready.
pub(crate) async fn until_ready(
    writer: &Writer,
    objects: &[Object],
    jobs: bool,
    timeout: Duration,
    reporter: &Reporter,
) -> Result<()> {
    until(objects, timeout, reporter, |object| check(writer, object, jobs)).await
}

/// Waits until `check` finds all objects ready, and reports those that it waits for.
pub(crate) async fn until<'a, F>(
    objects: &'a [Object],
    timeout: Duration,
    reporter: &Reporter,
    check: impl Fn(&'a Object) -> F,
) -> Result<()>
where
    F: Future<Output = Result<Readiness>>,
{
    let deadline = Instant::now() + timeout;
    let mut backoff = Backoff::new();
    let mut left: Vec<&Object> = objects.iter().collect();
    loop {
        let asked: Vec<_> = left.iter().map(|object| check(object)).collect();
        let answers: Vec<Readiness> = stream::iter(asked).buffered(READS).try_collect().await?;
        let mut waiting = Vec::new();
        let asked = std::mem::take(&mut left);
        for (object, readiness) in asked.into_iter().zip(answers) {
            match readiness {
                Readiness::Ready => {}
                Readiness::Waiting(what) => {
                    waiting.push(format!("{}: {what}", object.id));
                    left.push(object);
                }
                Readiness::Failed(why) => return Err(Error::Workload(format!("{}: {why}", object.id))),
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(Error::Timeout { what: waiting });
        }
        reporter.report(&Progress::Waiting { left: waiting, total: objects.len() });
        backoff.wait().await;
    }
}

async fn check(writer: &Writer, object: &Object, jobs: bool) -> Result<Readiness> {
    Ok(match writer.live(object).await? {
        Some(live) => readiness(&typed(json!(live), object), jobs),
        None => Readiness::Waiting("not found".into()),
    })
}

/// Sets the API version and kind, which an object read from the cluster may lack.
pub(crate) fn typed(mut content: Value, object: &Object) -> Value {
    if let Some(map) = content.as_object_mut() {
        map.entry("apiVersion").or_insert_with(|| json!(object.kind.resource.api_version));
        map.entry("kind").or_insert_with(|| json!(object.id.kind));
    }
    content
}

/// Waits until all objects are gone.
pub(crate) async fn until_gone(writer: &Writer, objects: &[Object], timeout: Duration) -> Result<()> {
    let deadline = Instant::now() + timeout;
    let mut backoff = Backoff::new();
    let mut left: Vec<&Object> = objects.iter().collect();
    loop {
        let mut still = Vec::new();
        for object in left {
            if writer.live(object).await?.is_some() {
                still.push(object);
            }
        }
        if still.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let what = still.iter().map(|object| format!("{} still exists", object.id)).collect();
            return Err(Error::Timeout { what });
        }
        left = still;
        backoff.wait().await;
    }
}

/// Waits until the Jobs and Pods of a hook have succeeded. Other kinds are done once they exist.
pub(crate) async fn until_done(writer: &Writer, objects: &[Object], timeout: Duration) -> Result<()> {
    let deadline = Instant::now() + timeout;
    for object in objects.iter().filter(|object| matches!(object.id.kind.as_str(), "Job" | "Pod")) {
        let mut backoff = Backoff::new();
        // One that is deleted in the meantime counts as done, as in Helm.
        while let Some(live) = writer.live(object).await? {
            if done(&json!(live), object)? {
                break;
            }
            if Instant::now() >= deadline {
                return Err(Error::Timeout { what: vec![format!("{} did not complete", object.id)] });
            }
            backoff.wait().await;
        }
    }
    Ok(())
}

fn done(live: &Value, object: &Object) -> Result<bool> {
    let name = &object.id.name;
    if object.id.kind == "Pod" {
        return match live.pointer("/status/phase").and_then(Value::as_str) {
            Some("Succeeded") => Ok(true),
            Some("Failed") => Err(Error::Hook(format!("pod {name} failed"))),
            _ => Ok(false),
        };
    }
    let conditions = live.pointer("/status/conditions").and_then(Value::as_array);
    for condition in conditions.into_iter().flatten() {
        let text = |key: &str| condition.get(key).and_then(Value::as_str).unwrap_or_default();
        match (text("type"), text("status")) {
            ("Complete", "True") => return Ok(true),
            ("Failed", "True") => return Err(Error::Hook(format!("job {name} failed: {}", text("reason")))),
            _ => {}
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Kind;
    use crate::object::ObjectId;

    fn object(kind: &str, name: &str) -> Object {
        let resource = kube::api::ApiResource {
            group: "batch".into(),
            version: "v1".into(),
            api_version: "batch/v1".into(),
            kind: kind.into(),
            plural: "jobs".into(),
        };
        let id =
            ObjectId { group: "batch".into(), kind: kind.into(), namespace: "lab".into(), name: name.into() };
        Object { kind: Kind { resource, namespaced: true }, id, content: json!({}) }
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_to_a_second() {
        let mut backoff = Backoff::new();
        let mut pauses = Vec::new();
        for _ in 0..12 {
            let before = Instant::now();
            backoff.wait().await;
            pauses.push(before.elapsed().as_millis());
        }
        assert_eq!(pauses[..3], [50, 75, 113]);
        assert!(pauses.windows(2).all(|pair| pair[0] <= pair[1]), "{pauses:?}");
        assert_eq!(pauses.last(), Some(&1000));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_ready_is_not_asked_for_again() {
        let objects = [object("Job", "a"), object("Job", "b")];
        let asked = std::cell::RefCell::new(Vec::new());
        let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let log = std::sync::Arc::clone(&seen);
        let reporter = Reporter::new(move |step| log.lock().unwrap().push(step.clone()));
        let check = |object: &Object| {
            let mut asked = asked.borrow_mut();
            asked.push(object.id.name.clone());
            let is_ready = object.id.name == "a" || asked.len() > 3;
            async move { Ok(if is_ready { Readiness::Ready } else { Readiness::Waiting("not yet".into()) }) }
        };
        until(&objects, Duration::from_secs(5), &reporter, check).await.unwrap();
        assert_eq!(asked.into_inner(), ["a", "b", "b", "b"]);
        let waiting = Progress::Waiting { left: vec!["Job/b in namespace lab: not yet".into()], total: 2 };
        assert_eq!(*seen.lock().unwrap(), [waiting.clone(), waiting]);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_with_its_time_or_a_failure() {
        let objects = [object("Job", "a")];
        let waiting = |_: &Object| async { Ok(Readiness::Waiting("not yet".into())) };
        let started = Instant::now();
        let error = until(&objects, Duration::from_secs(5), &Reporter::default(), waiting).await.unwrap_err();
        assert_eq!(error.to_string(), "timed out waiting for objects: Job/a in namespace lab: not yet");
        assert!((5..8).contains(&started.elapsed().as_secs()), "{:?}", started.elapsed());
        let failing = |_: &Object| async { Ok(Readiness::Failed("broken".into())) };
        let error = until(&objects, Duration::from_secs(5), &Reporter::default(), failing).await.unwrap_err();
        assert_eq!(error.to_string(), "Job/a in namespace lab: broken");
    }

    #[test]
    fn jobs_end_by_their_conditions() {
        let job = object("Job", "a");
        let ended = |kind: &str, status: &str| {
            let condition = json!({ "type": kind, "status": status, "reason": "Why" });
            done(
                &json!({ "status": { "conditions": [{ "type": "Other", "status": "True" }, condition] } }),
                &job,
            )
            .map_err(|error| error.to_string())
        };
        assert_eq!(ended("Complete", "True"), Ok(true));
        assert_eq!(ended("Complete", "False"), Ok(false));
        assert_eq!(ended("Failed", "True"), Err("job a failed: Why".into()));
        assert_eq!(ended("Failed", "False"), Ok(false));
        assert!(!done(&json!({ "status": { "phase": "Succeeded" } }), &job).unwrap());
        assert!(!done(&json!({}), &job).unwrap());
    }

    #[test]
    fn pods_end_by_their_phase() {
        let pod = object("Pod", "a");
        let ended = |phase: &str| {
            done(&json!({ "status": { "phase": phase } }), &pod).map_err(|error| error.to_string())
        };
        assert_eq!(ended("Succeeded"), Ok(true));
        assert_eq!(ended("Running"), Ok(false));
        assert_eq!(ended("Failed"), Err("pod a failed".into()));
        assert!(!done(&json!({}), &pod).unwrap());
    }

    #[test]
    fn what_leaves_out_its_type_is_given_it() {
        let job = object("Job", "a");
        assert_eq!(
            typed(json!({ "x": 1 }), &job),
            json!({ "apiVersion": "batch/v1", "kind": "Job", "x": 1 })
        );
        let own = json!({ "apiVersion": "v1", "kind": "Pod" });
        assert_eq!(typed(own.clone(), &job), own);
    }
}
