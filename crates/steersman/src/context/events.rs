//! Events about objects.
//!
//! Repeated events are counted in one series, and the events of an object are rate limited, with the same limits as
//! client-go's: a failing object must not flood the cluster.

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
    /// Reasons of events that every operator records, in addition to those of its reconcilers.
    pub const EVENTS = {
        /// Warning: the reconciler failed; the message is its error. It is retried with exponential backoff,
        /// or, if the error is terminal, after the next change.
        pub(crate) const RECONCILE_FAILED = "ReconcileFailed";
        /// Warning: an object that was removed from a set was not pruned, because it does not have this
        /// object as its owner.
        pub(crate) const NOT_PRUNED = "NotPruned";
    };
}

/// Maximum number of events waiting to be written. More are dropped: events are best-effort.
const WAITING: usize = 1024;
/// How long repetitions continue a series.
const SERIES: Duration = Duration::from_secs(360);
/// Rate limit per object: burst, and the time until one more event may be written.
const BURST: (f64, Duration) = (25.0, Duration::from_secs(300));

/// Content of an event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Message {
    pub(crate) object: Subject,
    pub(crate) warning: bool,
    pub(crate) reason: String,
    pub(crate) action: String,
    pub(crate) note: String,
}

/// The object that an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Subject {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// Records events. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    sender: mpsc::Sender<Message>,
}

impl Recorder {
    /// Returns a recorder and the task that writes its events. The task ends when the last recorder is dropped.
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
            tracing::debug!("event dropped: the queue is full");
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
                tracing::debug!(error = describe(&error), "failed to write an event");
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
            // Written at powers of two only: less and less often.
            if !series.count.unsigned_abs().is_power_of_two() {
                return Ok(());
            }
            let patch = serde_json::json!({
                "series": EventSeries { count: series.count, last_observed_time: MicroTime(time) },
            });
            let name = series.name.clone();
            let patched = api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
            return match patched {
                // The event has expired, so a new series begins.
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

    /// Drops series that have ended, and full budgets.
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

/// Name of this instance: that of the pod, if there is one.
fn instance(reporter: &str) -> String {
    std::env::var("POD_NAME").or_else(|_| std::env::var("HOSTNAME")).unwrap_or_else(|_| reporter.to_owned())
}

#[cfg(test)]
#[cfg(feature = "testing")]
mod tests {
    use kube::api::ListParams;
    use steersman_cluster::{Cluster, User};

    use super::*;
    use crate::environment::SystemEnvironment;

    fn message(note: &str) -> Message {
        let object = Subject {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            namespace: Some("kube-public".into()),
            name: "one".into(),
            uid: "u".into(),
        };
        Message {
            object,
            warning: true,
            reason: "Broken".into(),
            action: "Reconcile".into(),
            note: note.into(),
        }
    }

    struct Fixture {
        writer: Writer,
        events: Api<Event>,
        cluster: Cluster,
    }

    impl Fixture {
        async fn new() -> Self {
            let cluster = Cluster::builder().workloads(false).seed(1).start().await.unwrap();
            let writer = Writer {
                client: cluster.client(),
                reporter: "operator".into(),
                environment: Arc::new(SystemEnvironment),
                series: HashMap::new(),
                budgets: HashMap::new(),
                swept: Instant::now(),
            };
            Self { writer, events: Api::namespaced(cluster.client(), "kube-public"), cluster }
        }

        async fn all(&self) -> Vec<Event> {
            self.events.list(&ListParams::default()).await.unwrap().items
        }

        /// Returns the series count of the only event.
        async fn count(&self) -> Option<i32> {
            let all = self.all().await;
            assert_eq!(all.len(), 1);
            all[0].series.as_ref().map(|series| series.count)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_patch_does_not_begin_another_series() {
        let mut fixture = Fixture::new().await;
        fixture.writer.write(message("a")).await.unwrap();
        let stranger = fixture.cluster.client_as(User::named("stranger", ["strangers"]));
        let client = std::mem::replace(&mut fixture.writer.client, stranger);
        assert!(fixture.writer.write(message("a")).await.is_err());
        fixture.writer.client = client;
        for _ in 3..=4 {
            fixture.writer.write(message("a")).await.unwrap();
        }
        assert_eq!(fixture.count().await, Some(4));
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_says_who_saw_what_and_when() {
        let mut fixture = Fixture::new().await;
        fixture.writer.write(message(&"x".repeat(2000))).await.unwrap();
        let event = fixture.all().await.remove(0);
        assert_eq!((event.type_.as_deref(), event.reason.as_deref()), (Some("Warning"), Some("Broken")));
        assert_eq!(
            (event.action.as_deref(), event.note.map(|note| note.len())),
            (Some("Reconcile"), Some(1024))
        );
        assert_eq!(event.reporting_controller.as_deref(), Some("operator"));
        assert!(event.event_time.is_some() && event.reporting_instance.is_some_and(|name| !name.is_empty()));
        let regarding = event.regarding.unwrap();
        assert_eq!((regarding.kind.as_deref(), regarding.name.as_deref()), (Some("ConfigMap"), Some("one")));
        assert_eq!((regarding.api_version.as_deref(), regarding.uid.as_deref()), (Some("v1"), Some("u")));
        assert_eq!(regarding.namespace.as_deref(), Some("kube-public"));
        assert!(event.metadata.name.unwrap().starts_with("one."));
        // An event about a cluster-scoped object is kept in the default namespace.
        let object = Subject { namespace: None, ..message("").object };
        let event = fixture.writer.event(
            &Message { object, warning: false, ..message("") },
            "name",
            Timestamp::now(),
        );
        assert_eq!(event.metadata.namespace.as_deref(), Some("default"));
        assert_eq!((event.type_.as_deref(), event.regarding.unwrap().namespace), (Some("Normal"), None));
    }

    #[tokio::test(start_paused = true)]
    async fn repetitions_are_counted_ever_more_rarely() {
        let mut fixture = Fixture::new().await;
        for (number, counted) in
            [None, Some(2), Some(2), Some(4), Some(4), Some(4), Some(4), Some(8)].iter().enumerate()
        {
            fixture.writer.write(message("again")).await.unwrap();
            assert_eq!(fixture.count().await, *counted, "after {}", number + 1);
        }
        // A different note makes a different event.
        fixture.writer.write(message("other")).await.unwrap();
        assert_eq!(fixture.all().await.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_series_ends_after_a_while() {
        let mut fixture = Fixture::new().await;
        fixture.writer.write(message("again")).await.unwrap();
        tokio::time::advance(SERIES - Duration::from_secs(1)).await;
        fixture.writer.write(message("again")).await.unwrap();
        assert_eq!(fixture.all().await.len(), 1);
        tokio::time::advance(SERIES - Duration::from_secs(1)).await;
        fixture.writer.write(message("again")).await.unwrap();
        assert_eq!(fixture.all().await.len(), 1, "it went on");
        tokio::time::advance(SERIES).await;
        fixture.writer.write(message("again")).await.unwrap();
        assert_eq!(fixture.all().await.len(), 2);
        // A repetition of a deleted event starts a new one.
        for event in fixture.all().await {
            fixture.events.delete(&event.metadata.name.unwrap(), &Default::default()).await.unwrap();
        }
        fixture.writer.write(message("again")).await.unwrap();
        assert_eq!(fixture.count().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_has_a_budget() {
        let mut fixture = Fixture::new().await;
        for number in 0..40 {
            fixture.writer.write(message(&number.to_string())).await.unwrap();
        }
        assert_eq!(fixture.all().await.len(), 25);
        let object = Subject { uid: "other".into(), ..message("").object };
        fixture.writer.write(Message { object, ..message("of another") }).await.unwrap();
        assert_eq!(fixture.all().await.len(), 26, "each has its own");
        tokio::time::advance(Duration::from_secs(299)).await;
        fixture.writer.write(message("too soon")).await.unwrap();
        assert_eq!(fixture.all().await.len(), 26);
        tokio::time::advance(Duration::from_secs(1)).await;
        fixture.writer.write(message("now")).await.unwrap();
        fixture.writer.write(message("and no more")).await.unwrap();
        assert_eq!(fixture.all().await.len(), 27);
        // The budget fills up again, up to the burst.
        let mut writer = fixture.writer;
        let later = Instant::now() + Duration::from_secs(300 * 1000);
        assert_eq!((0..40).filter(|_| writer.afford("u", later)).count(), 25);
        writer.sweep(later);
        assert_eq!(writer.budgets.len(), 1, "those that are full again are forgotten");
    }
}
