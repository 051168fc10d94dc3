//! Waiting for objects to become ready or to go away.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::object::Object;
use crate::progress::{Progress, Reporter};
use crate::write::Writer;
use crate::{Readiness, readiness};

/// How often the cluster is asked: soon at first, and less often the longer it takes.
const FIRST_POLL: Duration = Duration::from_millis(50);
const LAST_POLL: Duration = Duration::from_secs(1);
/// How many objects are asked for at once.
const READS: usize = 8;

/// Growing pauses between polls of the cluster.
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

/// Waits until `check` finds all objects ready, and reports which it waits for.
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
        None => Readiness::Waiting("it is not there".into()),
    })
}

/// What comes from the cluster may leave out its kind.
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
            let what = still.iter().map(|object| format!("{} is still there", object.id)).collect();
            return Err(Error::Timeout { what });
        }
        left = still;
        backoff.wait().await;
    }
}

/// Waits until the jobs and pods of a hook have ended well. Other kinds are done as soon as they are there.
pub(crate) async fn until_done(writer: &Writer, objects: &[Object], timeout: Duration) -> Result<()> {
    let deadline = Instant::now() + timeout;
    for object in objects.iter().filter(|object| matches!(object.id.kind.as_str(), "Job" | "Pod")) {
        let mut backoff = Backoff::new();
        // One that is deleted meanwhile counts as done, as it does for Helm.
        while let Some(live) = writer.live(object).await? {
            if done(&json!(live), object)? {
                break;
            }
            if Instant::now() >= deadline {
                return Err(Error::Timeout { what: vec![format!("{} did not end", object.id)] });
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
