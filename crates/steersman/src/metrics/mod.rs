//! Metrics under controller-runtime's names, so that its dashboards and alerts work. Some more are about the caches.

mod dashboard;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak, atomic::AtomicU64},
    time::Duration,
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use tokio::time::Instant;

pub(crate) use self::dashboard::dashboard;
use crate::{context::Shared, controller::Engine};

/// Buckets of controller-runtime's reconcile time histogram.
const RECONCILE_TIME: [f64; 32] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 10.0, 30.0, 60.0,
];
/// Buckets of controller-runtime's queue time histogram.
const QUEUE_TIME: [f64; 11] = [1e-6, 1e-5, 1e-4, 1e-3, 5e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0];

/// Buckets of controller-runtime's webhook latency histogram.
const REVIEW_TIME: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    controller: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    controller: String,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Waiting {
    name: String,
    controller: String,
    priority: i32,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueOf {
    name: String,
    controller: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    code: String,
    method: String,
    host: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CacheOf {
    kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LeaseOf {
    name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WebhookOf {
    webhook: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reviewed {
    webhook: String,
    code: u16,
}

type Float = Gauge<f64, AtomicU64>;

/// All metrics of an operator.
#[derive(Clone)]
pub(crate) struct Metrics {
    /// The API server's host.
    host: Arc<str>,
    registry: Arc<Registry>,
    reconciles: Family<Outcome, Counter>,
    errors: Family<Of, Counter>,
    terminal: Family<Of, Counter>,
    panics: Family<Of, Counter>,
    timeouts: Family<Of, Counter>,
    time: Family<Of, Histogram>,
    concurrency: Family<Of, Gauge>,
    active: Family<Of, Gauge>,
    depth: Family<Waiting, Gauge>,
    adds: Family<QueueOf, Counter>,
    retries: Family<QueueOf, Counter>,
    queue_time: Family<QueueOf, Histogram>,
    work_time: Family<QueueOf, Histogram>,
    unfinished: Family<QueueOf, Float>,
    longest: Family<QueueOf, Float>,
    requests: Family<RequestLabels, Counter>,
    leader: Family<LeaseOf, Gauge>,
    cache_objects: Family<CacheOf, Gauge>,
    cache_bytes: Family<CacheOf, Gauge>,
    cache_synced: Family<CacheOf, Gauge>,
    cache_silence: Family<CacheOf, Float>,
    slots: Gauge,
    reviews: Family<Reviewed, Counter>,
    review_time: Family<WebhookOf, Histogram>,
    reviews_in_flight: Family<WebhookOf, Gauge>,
    review_panics: Counter,
    certificates: Counter,
    certificate_errors: Counter,
    sources: Arc<Mutex<Sources>>,
}

/// Sources that are collected on a scrape.
#[derive(Default)]
struct Sources {
    engines: Vec<Weak<Engine>>,
    shared: Option<Weak<Shared>>,
    texts: Vec<TextSource>,
}

/// Metrics of the user: OpenMetrics text without the end mark.
pub(crate) type TextSource = Arc<dyn Fn() -> String + Send + Sync>;

/// The end mark of OpenMetrics text.
const END: &str = "# EOF\n";

/// How a reconcile ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Success,
    RequeueAfter,
    Error,
    Terminal,
    Panic,
    Timeout,
    /// A conflict or the like: retried, and not an error.
    Requeue,
}

impl Metrics {
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Self::of_host("unknown")
    }

    pub(crate) fn of_host(host: &str) -> Self {
        let mut registry = Registry::default();
        let r = &mut registry;
        let reconcile_time = || Histogram::new(RECONCILE_TIME);
        let queue_time = || Histogram::new(QUEUE_TIME);
        let review_time = || Histogram::new(REVIEW_TIME);
        let mut metrics = Self {
            host: Arc::from(host),
            registry: Arc::default(),
            reconciles: family(r, "controller_runtime_reconcile", "Reconciles by result"),
            errors: family(r, "controller_runtime_reconcile_errors", "Failed reconciles"),
            terminal: family(
                r,
                "controller_runtime_terminal_reconcile_errors",
                "Reconciles that ended with a terminal error",
            ),
            panics: family(
                r,
                "controller_runtime_reconcile_panics",
                "Panics in reconcilers, mappers, predicates and indexes",
            ),
            timeouts: family(
                r,
                "controller_runtime_reconcile_timeouts",
                "Reconciles that exceeded their time limit",
            ),
            time: Family::new_with_constructor(reconcile_time),
            concurrency: family(
                r,
                "controller_runtime_max_concurrent_reconciles",
                "Maximum number of concurrent reconciles",
            ),
            active: family(r, "controller_runtime_active_workers", "Workers that are reconciling an object"),
            depth: family(r, "workqueue_depth", "Current depth of the queue"),
            adds: family(r, "workqueue_adds", "Objects added to the queue"),
            retries: family(r, "workqueue_retries", "Objects added again after a failure"),
            queue_time: Family::new_with_constructor(queue_time),
            work_time: Family::new_with_constructor(queue_time),
            unfinished: family(
                r,
                "workqueue_unfinished_work_seconds",
                "Seconds of work in progress, summed over the workers",
            ),
            longest: family(
                r,
                "workqueue_longest_running_processor_seconds",
                "Seconds that the longest running reconcile has taken so far",
            ),
            requests: family(r, "rest_client_requests", "Requests to the API server"),
            leader: family(r, "leader_election_master_status", "Whether this replica is the leader"),
            cache_objects: family(r, "steersman_cache_objects", "Objects in a kind's caches"),
            cache_bytes: family(
                r,
                "steersman_cache_bytes",
                "Estimated memory of the objects in a kind's caches",
            ),
            cache_synced: family(
                r,
                "steersman_cache_synced",
                "Whether a kind's caches are synced and their watches alive",
            ),
            cache_silence: family(
                r,
                "steersman_cache_silence_seconds",
                "Seconds since the last event of a kind's quietest watch",
            ),
            slots: family(r, "steersman_shard_slots", "Shard slots held by this replica"),
            reviews: family(
                r,
                "controller_runtime_webhook_requests",
                "Admission requests by webhook and HTTP status code",
            ),
            review_time: Family::new_with_constructor(review_time),
            reviews_in_flight: family(
                r,
                "controller_runtime_webhook_requests_in_flight",
                "Admission requests in progress",
            ),
            review_panics: family(r, "controller_runtime_webhook_panics", "Panics in webhooks"),
            certificates: family(r, "certwatcher_read_certificate", "Reads of the webhooks' certificate"),
            certificate_errors: family(
                r,
                "certwatcher_read_certificate_errors",
                "Failed reads of the webhooks' certificate",
            ),
            sources: Arc::default(),
        };
        r.register(
            "controller_runtime_webhook_latency_seconds",
            "Duration of admission requests",
            metrics.review_time.clone(),
        );
        r.register(
            "controller_runtime_reconcile_time_seconds",
            "Duration of reconciles",
            metrics.time.clone(),
        );
        r.register(
            "workqueue_queue_duration_seconds",
            "Time that an object waits in the queue",
            metrics.queue_time.clone(),
        );
        r.register(
            "workqueue_work_duration_seconds",
            "Time that a worker takes for an object",
            metrics.work_time.clone(),
        );
        metrics.registry = Arc::new(registry);
        metrics
    }

    /// Creates a sample in every family, since a family without one is not rendered. All fields are named, so that the
    /// compiler rejects this function if a new metric is missing from it.
    fn sample_all(&self) {
        let Self {
            host: _,
            registry: _,
            reconciles,
            errors,
            terminal,
            panics,
            timeouts,
            time,
            concurrency,
            active,
            depth,
            adds,
            retries,
            queue_time,
            work_time,
            unfinished,
            longest,
            requests: _,
            leader: _,
            cache_objects,
            cache_bytes,
            cache_synced,
            cache_silence,
            slots: _,
            reviews: _,
            review_time: _,
            reviews_in_flight: _,
            review_panics: _,
            certificates: _,
            certificate_errors: _,
            sources: _,
        } = self;
        let (name, controller) = (String::new(), String::new());
        let (of, cache) = (Of { controller: controller.clone() }, CacheOf { kind: String::new() });
        let queue = QueueOf { name: name.clone(), controller: controller.clone() };
        drop(reconciles.get_or_create(&Outcome { controller: controller.clone(), result: "" }));
        for counters in [errors, terminal, panics, timeouts] {
            drop(counters.get_or_create(&of));
        }
        drop(time.get_or_create(&of));
        for gauges in [concurrency, active] {
            drop(gauges.get_or_create(&of));
        }
        drop(depth.get_or_create(&Waiting { name, controller, priority: 0 }));
        for counters in [adds, retries] {
            drop(counters.get_or_create(&queue));
        }
        for times in [queue_time, work_time] {
            drop(times.get_or_create(&queue));
        }
        for gauges in [unfinished, longest] {
            drop(gauges.get_or_create(&queue));
        }
        for gauges in [cache_objects, cache_bytes, cache_synced] {
            drop(gauges.get_or_create(&cache));
        }
        drop(cache_silence.get_or_create(&cache));
        self.record_request(&http::Method::GET, Some(200));
        self.leads("", true);
        self.review("").ended(200, false);
    }

    /// Registers the queues and caches of an operator for collection.
    pub(crate) fn observe(&self, engines: &[Arc<Engine>], shared: &Arc<Shared>) {
        for engine in engines {
            let workers = i64::try_from(engine.options.concurrency).unwrap_or(i64::MAX);
            self.concurrency.get_or_create(&of(engine)).set(workers);
        }
        let mut sources = self.sources();
        sources.engines = engines.iter().map(Arc::downgrade).collect();
        sources.shared = Some(Arc::downgrade(shared));
    }

    fn sources(&self) -> std::sync::MutexGuard<'_, Sources> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn reconciled(&self, engine: &Engine, ended: Ended, waited: Duration, took: Duration) {
        let result = match ended {
            Ended::Success => "success",
            Ended::RequeueAfter => "requeue_after",
            Ended::Requeue => "requeue",
            Ended::Error | Ended::Terminal | Ended::Panic | Ended::Timeout => "error",
        };
        let controller = of(engine);
        let queue = queue_of(engine);
        let outcome = Outcome { controller: engine.name.to_string(), result };
        self.reconciles.get_or_create(&outcome).inc();
        if result == "error" {
            self.errors.get_or_create(&controller).inc();
        }
        match ended {
            Ended::Terminal => drop(self.terminal.get_or_create(&controller).inc()),
            Ended::Panic => drop(self.panics.get_or_create(&controller).inc()),
            Ended::Timeout => drop(self.timeouts.get_or_create(&controller).inc()),
            _ => {}
        }
        if matches!(ended, Ended::Error | Ended::Panic | Ended::Timeout | Ended::Requeue) {
            self.retries.get_or_create(&queue).inc();
        }
        self.adds.get_or_create(&queue).inc();
        self.time.get_or_create(&controller).observe(took.as_secs_f64());
        self.queue_time.get_or_create(&queue).observe(waited.as_secs_f64());
        self.work_time.get_or_create(&queue).observe(took.as_secs_f64());
    }

    /// Returns the panic counter of a controller.
    pub(crate) fn panics_of(&self, controller: &str) -> Counter {
        self.panics.get_or_create(&Of { controller: controller.to_owned() }).clone()
    }

    pub(crate) fn record_request(&self, method: &http::Method, code: Option<u16>) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        let asked = RequestLabels { code, method: method.to_string(), host: self.host.to_string() };
        self.requests.get_or_create(&asked).inc();
    }

    /// Counts the start of a review; the returned guard counts the rest.
    pub(crate) fn review(&self, webhook: &str) -> Reviewing {
        let webhook = WebhookOf { webhook: webhook.to_owned() };
        self.reviews_in_flight.get_or_create(&webhook).inc();
        Reviewing { metrics: self.clone(), webhook, start: Instant::now() }
    }

    /// Counts an attempt to read the webhooks' certificate.
    pub(crate) fn certificate(&self, read: bool) {
        self.certificates.inc();
        if !read {
            self.certificate_errors.inc();
        }
    }

    pub(crate) fn leads(&self, lease: &str, leads: bool) {
        self.leader.get_or_create(&LeaseOf { name: lease.to_owned() }).set(leads.into());
    }

    /// Renders all metrics in the OpenMetrics text format.
    pub(crate) fn render(&self) -> String {
        self.refresh();
        let mut text = String::new();
        // Writing to a string never fails.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        let texts = self.sources().texts.clone();
        if !texts.is_empty() {
            text.truncate(text.len() - if text.ends_with(END) { END.len() } else { 0 });
            text.extend(texts.iter().map(|source| source()));
            text.push_str(END);
        }
        text
    }

    /// Adds metrics to the operator's own.
    pub(crate) fn add_texts(&self, texts: Vec<TextSource>) {
        self.sources().texts.extend(texts);
    }

    fn refresh(&self) {
        let sources = self.sources();
        for engine in sources.engines.iter().filter_map(Weak::upgrade) {
            let depth = engine.queue.depth();
            let (name, controller) = (engine.name.to_string(), engine.name.to_string());
            for (priority, count) in
                [(crate::queue::NORMAL, depth.ready), (crate::queue::LISTED, depth.listed)]
            {
                let waiting = Waiting { name: name.clone(), controller: controller.clone(), priority };
                self.depth.get_or_create(&waiting).set(int(count));
            }
            self.active.get_or_create(&of(&engine)).set(int(depth.running));
            self.unfinished.get_or_create(&queue_of(&engine)).set(depth.unfinished.as_secs_f64());
            self.longest.get_or_create(&queue_of(&engine)).set(depth.longest.as_secs_f64());
        }
        let Some(shared) = sources.shared.as_ref().and_then(Weak::upgrade) else { return };
        let slots = shared.shards.as_ref().map_or(0, |shards| shards.held());
        self.slots.set(int(slots));
        // A kind may have several caches: of some labels, or of the metadata alone.
        let mut kinds: BTreeMap<String, Held> = BTreeMap::new();
        for store in shared.caches.all() {
            let (objects, bytes) = store.size();
            let progress = store.progress.borrow().clone();
            let held = kinds.entry(store.kind.to_string()).or_default();
            held.objects += objects;
            held.bytes += bytes;
            held.unsynced |= !progress.synced || progress.error.is_some();
            held.silence = held.silence.max(store.silence());
        }
        for (kind, held) in kinds {
            let cache = CacheOf { kind };
            self.cache_objects.get_or_create(&cache).set(int(held.objects));
            self.cache_bytes.get_or_create(&cache).set(int(held.bytes));
            self.cache_synced.get_or_create(&cache).set((!held.unsynced).into());
            self.cache_silence.get_or_create(&cache).set(held.silence.as_secs_f64());
        }
    }
}

/// Returns the metrics of every operator, with one sample each, as OpenMetrics text.
#[must_use]
pub fn reference() -> String {
    let metrics = Metrics::of_host("example");
    metrics.sample_all();
    metrics.render()
}

/// Totals of the caches of one kind.
#[derive(Default)]
struct Held {
    objects: usize,
    bytes: usize,
    /// Whether one of them has not synced, or its watch fails.
    unsynced: bool,
    /// The longest silence of one of them.
    silence: Duration,
}

/// A review in progress.
pub(crate) struct Reviewing {
    metrics: Metrics,
    webhook: WebhookOf,
    start: Instant,
}

impl Reviewing {
    pub(crate) fn ended(self, code: u16, panicked: bool) {
        let reviewed = Reviewed { webhook: self.webhook.webhook.clone(), code };
        self.metrics.reviews.get_or_create(&reviewed).inc();
        self.metrics.review_time.get_or_create(&self.webhook).observe(self.start.elapsed().as_secs_f64());
        if panicked {
            self.metrics.review_panics.inc();
        }
    }
}

impl Drop for Reviewing {
    fn drop(&mut self) {
        self.metrics.reviews_in_flight.get_or_create(&self.webhook).dec();
    }
}

fn family<M>(registry: &mut Registry, name: &str, help: &str) -> M
where
    M: prometheus_client::registry::Metric + Clone + Default,
{
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

fn of(engine: &Engine) -> Of {
    Of { controller: engine.name.to_string() }
}

fn queue_of(engine: &Engine) -> QueueOf {
    QueueOf { name: engine.name.to_string(), controller: engine.name.to_string() }
}

fn int(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
