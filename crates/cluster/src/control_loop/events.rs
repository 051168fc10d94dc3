//! Events about objects, with client-go's correlation.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
    core::Request,
};
use serde_json::json;

use super::ControlLoop;
use crate::options::Part;

/// Maximum number of distinct keys to correlate, as in client-go's recorder.
const MAX_KEYS: usize = 4096;
/// Number of events that differ only in their messages, from which on they are combined.
const SIMILAR: usize = 10;
/// Seconds without a similar event after which counting restarts.
const SIMILAR_INTERVAL: i64 = 600;
/// Maximum burst of events about one object by one component.
const BURST: f64 = 25.0;
/// Seconds until one more event is allowed after the burst.
const REFILL: f64 = 300.0;

/// Key of similar events: component, uid of the object, whether it is a warning, and the reason.
type SimilarKey = (&'static str, String, bool, String);
/// The same key with the message, which combined events lack.
type EventKey = (SimilarKey, Option<String>);

/// The messages of similar events.
#[derive(Debug, Clone)]
struct Similar {
    messages: BTreeSet<String>,
    last: Timestamp,
}

/// Token bucket that limits the events about an object.
#[derive(Debug, Clone)]
struct Tokens {
    left: f64,
    last: Timestamp,
}

/// Counts repeated events, combines similar ones and drops excess ones, as in client-go.
#[derive(Debug, Clone, Default)]
pub(super) struct EventCorrelator {
    /// Names and counts of the recorded events.
    seen: HashMap<EventKey, (String, i32)>,
    similar: HashMap<SimilarKey, Similar>,
    tokens: HashMap<(&'static str, String), Tokens>,
    last: i64,
}

impl EventCorrelator {
    /// Returns the key and the message of an event, or `None` if it exceeds the rate limit.
    fn correlate(&mut self, key: SimilarKey, message: &str, now: Timestamp) -> Option<(EventKey, String)> {
        if self.similar.len() >= MAX_KEYS {
            self.similar.clear();
        }
        let fresh = || Similar { messages: BTreeSet::new(), last: now };
        let similar = self.similar.entry(key.clone()).or_insert_with(fresh);
        if now.as_second() - similar.last.as_second() > SIMILAR_INTERVAL {
            *similar = fresh();
        }
        similar.last = now;
        similar.messages.insert(message.to_owned());
        let (component, object) = (key.0, key.1.clone());
        let correlated = if similar.messages.len() < SIMILAR {
            ((key, Some(message.to_owned())), message.to_owned())
        } else {
            // Only the number of messages matters from now on, not which ones they were.
            similar.messages.pop_first();
            ((key, None), format!("(combined from similar events): {message}"))
        };
        self.spend(component, object, now).then_some(correlated)
    }

    /// Takes a token. Returns false if the component has none left for this object.
    fn spend(&mut self, component: &'static str, object: String, now: Timestamp) -> bool {
        if self.tokens.len() >= MAX_KEYS {
            self.tokens.clear();
        }
        let tokens = self.tokens.entry((component, object)).or_insert(Tokens { left: BURST, last: now });
        let passed = now.duration_since(tokens.last).as_secs_f64().max(0.0);
        tokens.left = (tokens.left + passed / REFILL).min(BURST);
        tokens.last = now;
        let allowed = tokens.left >= 1.0;
        if allowed {
            tokens.left -= 1.0;
        }
        allowed
    }
}

/// An event to record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewEvent<'a> {
    /// The reporting component, such as `deployment-controller`.
    pub(crate) component: &'static str,
    /// Whether the type is `Warning` rather than `Normal`.
    pub(crate) warning: bool,
    /// Reason: one word in CamelCase.
    pub(crate) reason: &'a str,
    /// Message: a sentence.
    pub(crate) message: &'a str,
}

impl ControlLoop {
    /// Records an event about `object`. Failures are ignored: events are best effort.
    pub(crate) async fn record_event<K: Resource<DynamicType = ()>>(
        &mut self,
        object: &K,
        event: NewEvent<'_>,
    ) {
        if !self.options.has(Part::Events) {
            return;
        }
        let reference = ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            namespace: object.namespace(),
            name: object.meta().name.clone(),
            uid: object.uid(),
            resource_version: object.resource_version(),
            field_path: None,
        };
        self.record_event_of(reference, event).await;
    }

    /// Records an event about the object of any kind that `reference` names.
    async fn record_event_of(&mut self, reference: ObjectReference, event: NewEvent<'_>) {
        let namespace = reference.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let (now, precise) = (self.time(), self.now());
        let similar = (
            event.component,
            reference.uid.clone().unwrap_or_default(),
            event.warning,
            event.reason.to_owned(),
        );
        let Some((key, message)) = self.events.correlate(similar, event.message, precise) else { return };
        if let Some((name, count)) = self.events.seen.get_mut(&key) {
            *count += 1;
            let patch = Patch::Merge(json!({"count": count, "lastTimestamp": now, "message": message}));
            if api.patch(name, &PatchParams::default(), &patch).await.is_ok() {
                return;
            }
        }
        // The name ends in the time, made unique even if the clock does not advance.
        let nanoseconds = i64::try_from(precise.as_nanosecond()).unwrap_or(i64::MAX);
        self.events.last = nanoseconds.max(self.events.last.saturating_add(1));
        let name = format!("{}.{:x}", reference.name.as_deref().unwrap_or_default(), self.events.last);
        let event = Event {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(namespace),
                ..ObjectMeta::default()
            },
            involved_object: reference,
            reason: Some(event.reason.to_owned()),
            message: Some(message),
            type_: Some(if event.warning { "Warning" } else { "Normal" }.to_owned()),
            source: Some(EventSource { component: Some(event.component.to_owned()), host: None }),
            reporting_component: Some(event.component.to_owned()),
            reporting_instance: Some(String::new()),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            count: Some(1),
            ..Event::default()
        };
        // The response has no new information, so it is not parsed.
        let body = serde_json::to_vec(&event).unwrap_or_default();
        let Ok(request) = Request::new(api.resource_url()).create(&PostParams::default(), body) else {
            return;
        };
        if self.client.request_text(request).await.is_ok() {
            if self.events.seen.len() >= MAX_KEYS {
                self.events.seen.clear();
            }
            self.events.seen.insert(key, (name, 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn key(reason: &str) -> SimilarKey {
        ("kubelet", "uid".to_owned(), true, reason.to_owned())
    }

    #[test]
    fn similar_events_are_combined_from_the_tenth_on() {
        let mut events = EventCorrelator::default();
        for number in 1..10 {
            let (_, message) = events.correlate(key("Failed"), &format!("no {number}"), at(0)).unwrap();
            assert_eq!(message, format!("no {number}"));
        }
        let (tenth, message) = events.correlate(key("Failed"), "no 10", at(1)).unwrap();
        assert_eq!(message, "(combined from similar events): no 10");
        let (next, _) = events.correlate(key("Failed"), "no 11", at(2)).unwrap();
        assert_eq!((tenth.1.as_ref(), &tenth), (None, &next));
        // An event with another reason, or one that comes late, keeps its message.
        assert_eq!(events.correlate(key("Other"), "no 10", at(2)).unwrap().1, "no 10");
        assert_eq!(events.correlate(key("Failed"), "no 12", at(603)).unwrap().1, "no 12");
    }

    #[test]
    fn too_many_events_about_one_object_are_dropped() {
        let mut events = EventCorrelator::default();
        let mut record = |second| events.correlate(key("Failed"), "no", at(second)).is_some();
        assert!((0..25).all(|_| record(0)));
        assert!(!record(1) && !record(299));
        assert!(record(301) && !record(302));
    }
}
