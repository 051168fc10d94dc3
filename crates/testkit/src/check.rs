//! Assertions: whether the cluster is as a step says.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::{Cluster, Place, is_not_found, label_selector, said, text};
use crate::command::Surroundings;
use crate::outcome::{Difference, Failure};
use crate::step::Step;
use crate::subset::{ListMatch, Mismatch, shown, subset};
use crate::types::{Command, ResourceRef};
use crate::wake::Wake;

/// Most events of an object that a failure shows.
const MAX_EVENTS: usize = 3;

/// Interval of checks that no watch event causes: commands have none.
pub(crate) const POLL: Duration = Duration::from_secs(1);
/// Interval of checks while a kind is not served.
const POLL_KINDS: Duration = Duration::from_millis(100);

/// What one object is asserted to be.
#[derive(Clone, Copy)]
pub(crate) enum Expectation<'a> {
    Present(&'a Value),
    Absent(&'a Value),
}

/// What a check looks at.
pub(crate) struct Checker<'a> {
    cluster: &'a Cluster,
    surroundings: &'a Surroundings,
    lists: ListMatch,
    wake: Wake,
    /// Whether what is looked at is watched: not for a first check, which may be all it takes.
    is_watching: bool,
    /// Whether a kind was not served: no watch tells when it is.
    is_kind_missing: bool,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(cluster: &'a Cluster, surroundings: &'a Surroundings, lists: ListMatch) -> Self {
        Self {
            cluster,
            surroundings,
            lists,
            wake: Wake::default(),
            is_watching: false,
            is_kind_missing: false,
        }
    }

    /// Checks everything that the step asserts, and watches it from now on.
    pub(crate) async fn step(
        &mut self,
        step: &Step,
        seconds: i64,
        log: &(dyn Fn(&str) + Sync),
    ) -> Vec<Failure> {
        self.is_kind_missing = false;
        let mut failures = Vec::new();
        for expected in &step.asserts {
            failures.extend(self.present(&expected.value).await);
        }
        if let Some(assert) = &step.assert {
            let commands: Vec<Command> = assert.commands.iter().map(Command::from).collect();
            let (_, ran) = self.surroundings.run_all(&commands, seconds.max(1), log).await;
            if let Err(error) = ran {
                let failure = Failure { timed_out: error.timed_out, ..Failure::new(error.message) };
                failures.push(failure);
            }
            failures.extend(self.expressions(step, &assert.resource_refs).await);
        }
        for unexpected in &step.errors {
            failures.extend(self.absent(&unexpected.value).await);
        }
        failures
    }

    /// Checks one expectation whenever something changes, until it holds or time is up.
    pub(crate) async fn until(&mut self, deadline: Instant, expectation: Expectation<'_>) -> Vec<Failure> {
        loop {
            self.is_kind_missing = false;
            let mut failures = match expectation {
                Expectation::Present(expected) => self.present(expected).await,
                Expectation::Absent(unexpected) => self.absent(unexpected).await.into_iter().collect(),
            };
            if failures.is_empty() || Instant::now() >= deadline {
                add_events(self.cluster, &self.surroundings.namespace, &mut failures).await;
                return failures;
            }
            self.changed(deadline).await;
        }
    }

    /// Waits until something that was looked at changed, it is time to look anyway, or the deadline comes.
    pub(crate) async fn changed(&mut self, deadline: Instant) {
        if !self.is_watching {
            self.is_watching = true;
            return;
        }
        let poll = if self.is_kind_missing { POLL_KINDS } else { POLL };
        let next = deadline.min(Instant::now() + poll);
        let _ = tokio::time::timeout_at(next, self.wake.changed()).await;
    }

    async fn place(&mut self, object: &Value) -> Result<Place, Failure> {
        let place = self.cluster.place(object, &self.surroundings.namespace).await;
        let place = place.map_err(|why| {
            self.is_kind_missing = true;
            Failure::new(why)
        })?;
        if self.is_watching {
            self.wake.watch(self.cluster, &place);
        }
        Ok(place)
    }

    /// Why no object is as expected.
    pub(crate) async fn present(&mut self, expected: &Value) -> Vec<Failure> {
        let place = match self.place(expected).await {
            Ok(place) => place,
            Err(failure) => return vec![failure],
        };
        let expected = &place.placed(expected);
        let found = if place.name.is_empty() {
            let labels = label_selector(expected);
            match self.cluster.list(&place, &labels, "").await {
                Ok(found) if found.is_empty() => {
                    let kind = place.kind();
                    return vec![Failure::new(format!("no resources matched of kind: {kind}"))];
                }
                found => found,
            }
        } else {
            self.cluster.get(&place).await.map(|object| vec![object])
        };
        let found = match found {
            Ok(found) => found,
            Err(error) => return vec![Failure::new(said(&error))],
        };
        let mut failures = Vec::new();
        for actual in &found {
            match subset(expected, actual, self.lists) {
                Ok(()) => return Vec::new(),
                Err(mismatch) => failures.push(Failure {
                    message: format!("resource {}: {mismatch}", place.id()),
                    difference: Some(Box::new(difference(&place, actual, mismatch))),
                    timed_out: false,
                }),
            }
        }
        failures
    }

    /// Why an object is there that must not be.
    pub(crate) async fn absent(&mut self, unexpected: &Value) -> Option<Failure> {
        let place = match self.place(unexpected).await {
            Ok(place) => place,
            Err(failure) => return Some(failure),
        };
        let unexpected = &place.placed(unexpected);
        let found = if place.name.is_empty() {
            self.cluster.list(&place, &label_selector(unexpected), "").await
        } else {
            match self.cluster.get(&place).await {
                Err(error) if is_not_found(&error) => return None,
                found => found.map(|object| vec![object]),
            }
        };
        let found = match found {
            Ok(found) => found,
            Err(error) => return Some(Failure::new(said(&error))),
        };
        let mut matching = found.iter().filter(|actual| subset(unexpected, actual, self.lists).is_ok());
        let first = text(matching.next()?, "/metadata/name");
        let others = match matching.count() {
            0 => String::new(),
            others => format!(" (and {others} other resources)"),
        };
        let kind = place.kind();
        Some(Failure::new(format!("resource {kind} {first}{others} matched error assertion")))
    }

    async fn expressions(&mut self, step: &Step, references: &[ResourceRef]) -> Vec<Failure> {
        let mut variables = Vec::new();
        for reference in references {
            let object = serde_json::json!({
                "apiVersion": reference.api_version,
                "kind": reference.kind,
                "metadata": { "name": reference.name, "namespace": reference.namespace },
            });
            let place = match self.place(&object).await {
                Ok(place) => place,
                Err(failure) => return vec![failure],
            };
            match self.cluster.get(&place).await {
                Ok(found) => variables.push((reference.variable.clone(), found)),
                Err(error) => {
                    let why = format!("failed to get referenced resource '{}': {}", place.id(), said(&error));
                    return vec![Failure::new(why)];
                }
            }
        }
        step.expressions.check(&variables).into_iter().map(Failure::new).collect()
    }
}

fn difference(place: &Place, actual: &Value, mismatch: Mismatch) -> Difference {
    let conditions = actual.pointer("/status/conditions").and_then(Value::as_array);
    let condition = |condition: &Value| {
        let (kind, status) = (text(condition, "/type"), text(condition, "/status"));
        let why = [text(condition, "/reason"), text(condition, "/message")];
        let why: Vec<&str> = why.into_iter().filter(|part| !part.is_empty()).collect();
        if why.is_empty() {
            format!("{kind}={status}")
        } else {
            format!("{kind}={status} {}", why.join(": "))
        }
    };
    Difference {
        object: format!("{}/{}", place.kind(), text(actual, "/metadata/name")),
        mismatch,
        conditions: conditions.into_iter().flatten().map(condition).collect(),
        events: Vec::new(),
    }
}

/// Adds the latest events of differing objects to failures.
pub(crate) async fn add_events(cluster: &Cluster, namespace: &str, failures: &mut [Failure]) {
    for difference in failures.iter_mut().filter_map(|failure| failure.difference.as_deref_mut()) {
        let Some((kind, name)) = difference.object.split_once('/') else { continue };
        let fields = format!("involvedObject.kind={kind},involvedObject.name={name}");
        let mut lines = event_lines(cluster, namespace, &fields).await;
        let older = lines.len().saturating_sub(MAX_EVENTS);
        difference.events = lines.split_off(older);
    }
}

/// The events of a namespace, oldest first, a line for each.
pub(crate) async fn event_lines(cluster: &Cluster, namespace: &str, fields: &str) -> Vec<String> {
    let event = serde_json::json!({"apiVersion": "v1", "kind": "Event"});
    let Ok(place) = cluster.place(&event, namespace).await else { return Vec::new() };
    let mut events = cluster.list(&place, "", fields).await.unwrap_or_default();
    let time = |event: &Value| {
        let times = ["/lastTimestamp", "/eventTime", "/firstTimestamp", "/metadata/creationTimestamp"];
        times
            .iter()
            .map(|pointer| text(event, pointer))
            .find(|time| !time.is_empty())
            .unwrap_or_default()
            .to_owned()
    };
    events.sort_by_key(time);
    let line = |event: &Value| {
        format!(
            "{} {} {}/{}: {}",
            text(event, "/type"),
            text(event, "/reason"),
            text(event, "/involvedObject/kind"),
            text(event, "/involvedObject/name"),
            text(event, "/message"),
        )
    };
    events.iter().map(line).collect()
}

impl Difference {
    /// What the assertion asks for, as a person reads it.
    #[must_use]
    pub fn want(&self) -> String {
        shown(&self.mismatch.expected)
    }

    /// What the object has, as a person reads it.
    #[must_use]
    pub fn have(&self) -> String {
        self.mismatch.actual.as_ref().map_or_else(|| "nothing".to_owned(), shown)
    }
}
