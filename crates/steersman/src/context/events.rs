//! Events about objects.
//!
//! Repetitions are counted in one event rather than written anew, and events of one object are rate limited, with
//! the same limits as client-go's: a failing object must not flood the cluster.

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        core::v1::ObjectReference,
        events::v1::{Event, EventSeries},
    },
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use tokio::{sync::mpsc, time::Instant};

use crate::{environment::Environment, error::describe};

steersman_core::vocabulary! {
    /// Reasons of events that every operator records, beside those of its own reconcilers.
    pub const EVENTS = {
        /// Warning: the reconciler failed; the message is its error. It is tried again, later each time, or when something changes
        /// if the error is terminal.
        pub(crate) const RECONCILE_FAILED = "ReconcileFailed";
        /// Warning: an object that a set no longer has was left alone, because its owner is another one.
        pub(crate) const NOT_PRUNED = "NotPruned";
    };
}

/// How many events may wait to be written. More are dropped: events are a courtesy.
const WAITING: usize = 1024;
/// How long an event is continued by its repetitions.
const SERIES: Duration = Duration::from_secs(360);
/// How many events an object may write at once, and how long until it may write another one.
const BURST: (f64, Duration) = (25.0, Duration::from_secs(300));

/// What an event says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Message {
    pub(crate) object: Subject,
    pub(crate) warning: bool,
    pub(crate) reason: String,
    pub(crate) action: String,
    pub(crate) note: String,
}

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Subject {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// Takes events. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    sender: mpsc::Sender<Message>,
}

impl Recorder {
    /// Makes a recorder and the work that writes its events, which ends when the last recorder is dropped.
    pub(crate) fn new(
        client: Client,
        reporter: Arc<str>,
        environment: Arc<dyn Environment>,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (sender, receiver) = mpsc::channel(WAITING);
        let writer = Writer {
            client,
            reporter,
            environment,
            series: HashMap::new(),
            budgets: HashMap::new(),
            swept: Instant::now(),
        };
        (Self { sender }, writer.run(receiver))
    }

    pub(crate) fn record(&self, message: Message) {
        if self.sender.try_send(message).is_err() {
            tracing::debug!("an event was dropped: too many wait to be written");
        }
    }
}

struct Writer {
    client: Client,
    reporter: Arc<str>,
    environment: Arc<dyn Environment>,
    series: HashMap<Message, Series>,
    budgets: HashMap<String, Budget>,
    swept: Instant,
}

struct Series {
    name: String,
    count: i32,
    last: Instant,
}

struct Budget {
    tokens: f64,
    at: Instant,
}

impl Writer {
    async fn run(mut self, mut messages: mpsc::Receiver<Message>) {
        while let Some(message) = messages.recv().await {
            if let Err(error) = self.write(message).await {
                tracing::debug!(error = describe(&error), "an event was not written");
            }
        }
    }

    async fn write(&mut self, message: Message) -> Result<(), kube::Error> {
        let now = Instant::now();
        self.sweep(now);
        let api: Api<Event> =
            Api::namespaced(self.client.clone(), message.object.namespace.as_deref().unwrap_or("default"));
        let time = self.environment.now();
        if let Some(series) = self.series.get_mut(&message) {
            series.count = series.count.saturating_add(1);
            series.last = now;
            // The first repetitions are written, then ever fewer.
            if !series.count.unsigned_abs().is_power_of_two() {
                return Ok(());
            }
            let patch = serde_json::json!({
                "series": EventSeries { count: series.count, last_observed_time: MicroTime(time) },
            });
            let name = series.name.clone();
            let patched = api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
            return match patched {
                // It has expired, so the story starts anew.
                Err(kube::Error::Api(status)) if status.is_not_found() => {
                    self.series.remove(&message);
                    self.create(&api, message, time, now).await
                }
                other => other.map(drop),
            };
        }
        self.create(&api, message, time, now).await
    }

    async fn create(
        &mut self,
        api: &Api<Event>,
        message: Message,
        time: Timestamp,
        now: Instant,
    ) -> Result<(), kube::Error> {
        if !self.afford(&message.object.uid, now) {
            return Ok(());
        }
        let name = format!("{}.{:016x}", message.object.name, self.environment.random());
        let event = self.event(&message, &name, time);
        api.create(&PostParams::default(), &event).await?;
        self.series.insert(message, Series { name, count: 1, last: now });
        Ok(())
    }

    fn event(&self, message: &Message, name: &str, time: Timestamp) -> Event {
        let Subject { api_version, kind, namespace, name: object, uid } = message.object.clone();
        let cut = |text: &str, limit: usize| text.chars().take(limit).collect::<String>();
        Event {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace.clone().unwrap_or_else(|| "default".into())),
                ..ObjectMeta::default()
            },
            type_: Some(if message.warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(cut(&message.reason, 128)),
            action: Some(cut(&message.action, 128)),
            note: Some(cut(&message.note, 1024)),
            event_time: Some(MicroTime(time)),
            reporting_controller: Some(self.reporter.to_string()),
            reporting_instance: Some(instance(&self.reporter)),
            regarding: Some(ObjectReference {
                api_version: Some(api_version),
                kind: Some(kind),
                namespace,
                name: Some(object),
                uid: Some(uid),
                ..ObjectReference::default()
            }),
            ..Event::default()
        }
    }

    fn afford(&mut self, uid: &str, now: Instant) -> bool {
        let (burst, refill) = BURST;
        let budget = self.budgets.entry(uid.to_owned()).or_insert(Budget { tokens: burst, at: now });
        let gained = now.duration_since(budget.at).as_secs_f64() / refill.as_secs_f64();
        budget.tokens = (budget.tokens + gained).min(burst);
        budget.at = now;
        let affordable = budget.tokens >= 1.0;
        if affordable {
            budget.tokens -= 1.0;
        }
        affordable
    }

    /// Forgets what is over.
    fn sweep(&mut self, now: Instant) {
        if now.duration_since(self.swept) < SERIES {
            return;
        }
        self.swept = now;
        self.series.retain(|_, series| now.duration_since(series.last) < SERIES);
        let (_, refill) = BURST;
        self.budgets.retain(|_, budget| now.duration_since(budget.at) < refill * 25);
    }
}

/// This replica: the pod's name where there is one.
fn instance(reporter: &str) -> String {
    std::env::var("POD_NAME").or_else(|_| std::env::var("HOSTNAME")).unwrap_or_else(|_| reporter.to_owned())
}
