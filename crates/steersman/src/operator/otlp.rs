//! Export of spans by OTLP: what a reconcile did and how long it took.
//!
//! OTLP's JSON over HTTP, written by hand: the OpenTelemetry crates bring protobuf, a second HTTP client and threads of
//! their own for a single kind of span. The collector is reached over plain HTTP, as a sidecar or a Service of the cluster.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use http::{Request, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use tokio::{net::TcpStream, sync::mpsc, task::JoinHandle};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

use crate::error::{Error, Result};

/// Maximum number of spans waiting to be sent. More are dropped: spans are best-effort.
const WAITING: usize = 4096;
/// Maximum size of a batch, and how long its first span waits at most.
const BATCH: usize = 512;
const PATIENCE: Duration = Duration::from_secs(2);
/// Timeout of a request to the collector.
const ANSWER: Duration = Duration::from_secs(10);
/// Maximum number of events per span, OpenTelemetry's own limit. Further ones are only counted.
const EVENTS: usize = 128;

/// Address of the collector.
#[derive(Debug, Clone)]
pub(super) struct Collector {
    host: String,
    port: u16,
    path: String,
}

impl Collector {
    /// Parses an endpoint in the form of `OTEL_EXPORTER_OTLP_ENDPOINT`: `http://collector:4318`.
    pub(super) fn read(endpoint: &str) -> Result<Self> {
        let wrong =
            || Error::Config(format!("{endpoint} is not a collector address, such as http://collector:4318"));
        let uri: Uri = endpoint.parse().map_err(|_| wrong())?;
        if uri.scheme_str() != Some("http") {
            return Err(wrong());
        }
        let host = uri.host().ok_or_else(wrong)?.to_owned();
        let path = format!("{}/v1/traces", uri.path().trim_end_matches('/'));
        Ok(Self { host, port: uri.port_u16().unwrap_or(4318), path })
    }

    /// Returns a layer that collects spans, and the task that sends them. The task ends with the layer, or when
    /// flushed.
    pub(super) fn layer(self, service: &str) -> (Spans, impl Future<Output = ()> + Send + use<>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Spans { sender }, send(self, Arc::from(service), receiver))
    }

    async fn post(&self, body: String) -> Result<()> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(Error::other)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(Error::other)?;
        let request = Request::post(&self.path)
            .header(header::HOST, format!("{}:{}", self.host, self.port))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::CONNECTION, "close")
            .body(Full::new(Bytes::from(body)))
            .map_err(Error::other)?;
        let exchange = async {
            let answer = sender.send_request(request).await.map_err(Error::other)?;
            let status = answer.status();
            answer.into_body().collect().await.map_err(Error::other)?;
            if status.is_success() {
                Ok(())
            } else {
                Err(Error::other(format!("the collector answered {status}")))
            }
        };
        let (result, _) = futures::future::join(exchange, connection).await;
        result
    }
}

/// Sends spans until it receives `None`, which flushes the waiting ones before the process ends.
async fn send(collector: Collector, service: Arc<str>, mut spans: mpsc::Receiver<Option<Value>>) {
    let mut batch = Vec::new();
    let mut ended = false;
    while !ended && let Some(Some(first)) = spans.recv().await {
        batch.push(first);
        let fill = async {
            while batch.len() < BATCH && !ended {
                match spans.recv().await.flatten() {
                    Some(span) => batch.push(span),
                    None => ended = true,
                }
            }
        };
        // Either the batch is full, or its first span has waited long enough.
        let _ = tokio::time::timeout(PATIENCE, fill).await;
        let body = json!({"resourceSpans": [{
            "resource": {"attributes": [attribute("service.name", &Value::from(&*service))]},
            "scopeSpans": [{"scope": {"name": "steersman"}, "spans": std::mem::take(&mut batch)}],
        }]});
        match tokio::time::timeout(ANSWER, collector.post(body.to_string())).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "spans were not sent"),
            Err(_) => tracing::debug!("spans were not sent in time"),
        }
    }
}

/// Layer that collects spans.
pub(super) struct Spans {
    sender: mpsc::Sender<Option<Value>>,
}

impl Spans {
    /// Flushes the waiting spans and ends the sending task. A collector that is slow or down does not block for long.
    pub(super) fn flush(&self, work: JoinHandle<()>) -> impl Future<Output = ()> + Send + use<> {
        let sender = self.sender.clone();
        async move {
            let end = async {
                let _ = sender.send(None).await;
                let _ = work.await;
            };
            let _ = tokio::time::timeout(PATIENCE, end).await;
        }
    }
}

/// Data of an open span.
struct Open {
    trace: u128,
    id: u64,
    parent: Option<u64>,
    start: SystemTime,
    attributes: Map<String, Value>,
    events: Vec<Value>,
    dropped: usize,
    failed: Option<String>,
}

impl<S> Layer<S> for Spans
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let (trace, parent) = match span.parent() {
            Some(parent) => {
                let extensions = parent.extensions();
                extensions
                    .get::<Open>()
                    .map_or((fastrand::u128(1..), None), |open| (open.trace, Some(open.id)))
            }
            None => (fastrand::u128(1..), None),
        };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(Open {
            trace,
            id: fastrand::u64(1..),
            parent,
            start: SystemTime::now(),
            attributes: fields.0,
            events: Vec::new(),
            dropped: 0,
            failed: None,
        });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<Open>() {
            let mut fields = Fields(std::mem::take(&mut open.attributes));
            values.record(&mut fields);
            open.attributes = fields.0;
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let Some(span) = context.event_span(event) else { return };
        let mut extensions = span.extensions_mut();
        let Some(open) = extensions.get_mut::<Open>() else { return };
        let mut fields = Fields::default();
        event.record(&mut fields);
        let name = fields.0.remove("message").unwrap_or_else(|| event.metadata().name().into());
        if *event.metadata().level() == Level::ERROR {
            let why = fields.0.get("error").unwrap_or(&name);
            open.failed = Some(why.as_str().map_or_else(|| why.to_string(), str::to_owned));
        }
        if open.events.len() == EVENTS {
            open.dropped += 1;
            return;
        }
        open.events.push(json!({
            "timeUnixNano": nanos(SystemTime::now()), "name": name, "attributes": attributes(&fields.0),
        }));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(open) = span.extensions_mut().remove::<Open>() else { return };
        let mut value = json!({
            "traceId": format!("{:032x}", open.trace), "spanId": format!("{:016x}", open.id),
            "name": span.name(), "kind": 1,
            "startTimeUnixNano": nanos(open.start), "endTimeUnixNano": nanos(SystemTime::now()),
            "attributes": attributes(&open.attributes), "events": open.events,
            "droppedEventsCount": open.dropped,
            "status": open.failed.map_or_else(|| json!({"code": 1}), |why| json!({"code": 2, "message": why})),
        });
        if let Some(parent) = open.parent {
            value["parentSpanId"] = format!("{parent:016x}").into();
        }
        // The channel is full: the collector is slow or down.
        let _ = self.sender.try_send(Some(value));
    }
}

/// 64-bit integers are strings in OTLP's JSON.
fn nanos(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

fn attributes(fields: &Map<String, Value>) -> Vec<Value> {
    fields.iter().map(|(name, value)| attribute(name, value)).collect()
}

fn attribute(name: &str, value: &Value) -> Value {
    let value = match value {
        Value::Bool(yes) => json!({"boolValue": yes}),
        Value::Number(number) if number.is_f64() => json!({"doubleValue": number}),
        Value::Number(number) => json!({"intValue": number.to_string()}),
        Value::String(text) => json!({"stringValue": text}),
        other => json!({"stringValue": other.to_string()}),
    };
    json!({"key": name, "value": value})
}

/// Fields of a span or an event.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn set(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.set(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use hyper::service::service_fn;
    use tokio::net::TcpListener;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[test]
    fn endpoints_read_as_the_environment_has_them() {
        let collector = Collector::read("http://collector.observe:4318/").unwrap();
        assert_eq!(
            (collector.host.as_str(), collector.port, &*collector.path),
            ("collector.observe", 4318, "/v1/traces")
        );
        assert!(Collector::read("https://collector").is_err());
        assert!(Collector::read("nonsense").is_err());
    }

    #[tokio::test]
    async fn spans_reach_the_collector() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (told, mut heard) = mpsc::channel(1);
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                let told = told.clone();
                async move {
                    let path = request.uri().path().to_owned();
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    told.send((path, serde_json::from_slice::<Value>(&body).unwrap())).await.unwrap();
                    Ok::<_, std::convert::Infallible>(http::Response::new(Full::<Bytes>::default()))
                }
            });
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await
        });
        let (layer, sending) = Collector::read(&endpoint).unwrap().layer("test-operator");
        let flush = layer.flush(tokio::spawn(sending));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let outer = tracing::info_span!("reconcile", controller = "widget", name = "one").entered();
            tracing::info_span!("apply", attempt = 1).in_scope(|| {});
            tracing::error!(error = "it broke", "reconcile failed");
            for number in 0..200 {
                tracing::info!(number, "going on");
            }
            drop(outer);
        });
        flush.await;
        let (path, body) = heard.recv().await.unwrap();
        assert_eq!(path, "/v1/traces");
        let resource = &body["resourceSpans"][0];
        assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "test-operator");
        let spans = resource["scopeSpans"][0]["spans"].as_array().unwrap();
        let [inner, outer] = &spans[..] else { panic!("two spans, not {spans:?}") };
        assert_eq!((&inner["name"], &outer["name"]), (&json!("apply"), &json!("reconcile")));
        assert_eq!(inner["parentSpanId"], outer["spanId"]);
        assert_eq!(inner["traceId"], outer["traceId"]);
        assert_eq!(inner["attributes"][0], json!({"key": "attempt", "value": {"intValue": "1"}}));
        assert_eq!(outer["status"], json!({"code": 2, "message": "it broke"}));
        assert_eq!(outer["events"][0]["name"], "reconcile failed");
        assert_eq!(outer["events"].as_array().unwrap().len(), EVENTS);
        assert_eq!(outer["droppedEventsCount"], 201 - EVENTS);
    }
}
