//! Events about objects, counted when they repeat.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::ControlLoop;
use crate::options::Part;

/// More distinct events than this are not correlated.
const MAX_EVENTS: usize = 4096;

/// The events recorded so far, for counting repetitions.
#[derive(Debug, Default)]
pub(super) struct EventCorrelator {
    seen: HashMap<(String, String, String), (String, i32)>,
    last: i64,
}

/// An event to record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewEvent<'a> {
    /// The reporting component, such as `deployment-controller`.
    pub(crate) component: &'static str,
    /// Whether something is wrong.
    pub(crate) warning: bool,
    /// One word.
    pub(crate) reason: &'a str,
    /// A sentence.
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
        let namespace = object.namespace().unwrap_or_else(|| "default".to_owned());
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let (now, precise) = (self.time(), self.now());
        let key = (object.uid().unwrap_or_default(), event.reason.to_owned(), event.message.to_owned());
        if let Some((name, count)) = self.events.seen.get_mut(&key) {
            *count += 1;
            let patch = Patch::Merge(json!({"count": count, "lastTimestamp": now}));
            if api.patch(name, &PatchParams::default(), &patch).await.is_ok() {
                return;
            }
        }
        // Names end in the time, which must not repeat even if the clock stands still.
        let nanoseconds = i64::try_from(precise.as_nanosecond()).unwrap_or(i64::MAX);
        self.events.last = nanoseconds.max(self.events.last.saturating_add(1));
        let name = format!("{}.{:x}", object.name_any(), self.events.last);
        let event = Event {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(namespace),
                ..ObjectMeta::default()
            },
            involved_object: reference,
            reason: Some(event.reason.to_owned()),
            message: Some(event.message.to_owned()),
            type_: Some(if event.warning { "Warning" } else { "Normal" }.to_owned()),
            source: Some(EventSource { component: Some(event.component.to_owned()), host: None }),
            reporting_component: Some(event.component.to_owned()),
            reporting_instance: Some(String::new()),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            count: Some(1),
            ..Event::default()
        };
        if api.create(&PostParams::default(), &event).await.is_ok() {
            if self.events.seen.len() >= MAX_EVENTS {
                self.events.seen.clear();
            }
            self.events.seen.insert(key, (name, 1));
        }
    }
}
