//! Assertions: checks the cluster against what a step expects.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::{Cluster, ObjectKey, is_not_found, label_selector, said, text};
use crate::command::CommandEnvironment;
use crate::outcome::{Difference, Failure};
use crate::step::Step;
use crate::subset::{ListMatch, Mismatch, shown, subset};
use crate::types::{Command, ResourceRef};
use crate::wake::Wake;

/// Maximum number of events of an object shown in a failure.
const MAX_EVENTS: usize = 3;

/// Interval of checks without a watch event: the results of commands are not watched.
pub(crate) const POLL: Duration = Duration::from_secs(1);
/// Interval of checks while a kind is not served.
const POLL_KINDS: Duration = Duration::from_millis(100);

/// An assertion about one object.
#[derive(Clone, Copy)]
pub(crate) enum Expectation<'a> {
    Present(&'a Value),
    Absent(&'a Value),
}

/// Checks assertions against a cluster.
pub(crate) struct Checker<'a> {
    cluster: &'a Cluster,
    command_environment: &'a CommandEnvironment,
    lists: ListMatch,
    wake: Wake,
    /// Whether the checked objects are watched: not during the first check, which often passes right away.
    is_watching: bool,
    /// Whether a kind was not served: no watch reports when it is, so it is polled.
    is_kind_missing: bool,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(
        cluster: &'a Cluster,
        command_environment: &'a CommandEnvironment,
        lists: ListMatch,
    ) -> Self {
        Self {
            cluster,
            command_environment,
            lists,
            wake: Wake::default(),
            is_watching: false,
            is_kind_missing: false,
        }
    }

    /// Checks all assertions of the step, and from the second check on watches their objects.
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
            let (_, ran) = self.command_environment.run_all(&commands, seconds.max(1), log).await;
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

    /// Checks one expectation on each change, until it is met or the deadline passes.
    pub(crate) async fn until(&mut self, deadline: Instant, expectation: Expectation<'_>) -> Vec<Failure> {
        loop {
            self.is_kind_missing = false;
            let mut failures = match expectation {
                Expectation::Present(expected) => self.present(expected).await,
                Expectation::Absent(unexpected) => self.absent(unexpected).await.into_iter().collect(),
            };
            if failures.is_empty() || Instant::now() >= deadline {
                add_events(self.cluster, &self.command_environment.namespace, &mut failures).await;
                return failures;
            }
            self.changed(deadline).await;
        }
    }

    /// Waits for a change to a checked object, the next poll, or the deadline, whichever is first.
    pub(crate) async fn changed(&mut self, deadline: Instant) {
        if !self.is_watching {
            self.is_watching = true;
            return;
        }
        let poll = if self.is_kind_missing { POLL_KINDS } else { POLL };
        let next = deadline.min(Instant::now() + poll);
        let _ = tokio::time::timeout_at(next, self.wake.changed()).await;
    }

    async fn place(&mut self, object: &Value) -> Result<ObjectKey, Failure> {
        let place = self.cluster.place(object, &self.command_environment.namespace).await;
        let place = place.map_err(|why| {
            self.is_kind_missing = true;
            Failure::new(why)
        })?;
        if self.is_watching {
            self.wake.watch(self.cluster, &place);
        }
        Ok(place)
    }

    /// Returns why no object matches; empty if one does.
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

    /// Returns a failure if an object matches that must not.
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

fn difference(place: &ObjectKey, actual: &Value, mismatch: Mismatch) -> Difference {
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

/// Adds the latest events of the mismatching objects to their failures.
pub(crate) async fn add_events(cluster: &Cluster, namespace: &str, failures: &mut [Failure]) {
    for difference in failures.iter_mut().filter_map(|failure| failure.difference.as_deref_mut()) {
        let Some((kind, name)) = difference.object.split_once('/') else { continue };
        let fields = format!("involvedObject.kind={kind},involvedObject.name={name}");
        let mut lines = event_lines(cluster, namespace, &fields).await;
        let older = lines.len().saturating_sub(MAX_EVENTS);
        difference.events = lines.split_off(older);
    }
}

/// Returns the events of a namespace, oldest first, one line each.
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
    /// The expected value, formatted for people.
    #[must_use]
    pub fn want(&self) -> String {
        shown(&self.mismatch.expected)
    }

    /// The actual value, formatted for people.
    #[must_use]
    pub fn have(&self) -> String {
        self.mismatch.actual.as_ref().map_or_else(|| "nothing".to_owned(), shown)
    }
}
