//! Helpers for the tests of releases.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use serde_json::{Value, json};
use steersman_chart::{Chart, File, Values};
use steersman_cluster::Cluster;
use steersman_release::{Options, Progress, Releases, Timeout};

/// A request to the cluster.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    /// The path with its query.
    pub(crate) path: String,
    pub(crate) body: Value,
}

impl Seen {
    pub(crate) fn is(&self, method: Method, part: &str) -> bool {
        self.method == method && self.path.contains(part)
    }
}

type Judge = Arc<dyn Fn(&Seen) -> Option<u16> + Send + Sync>;

/// Observes every request, and may respond in place of the cluster.
#[derive(Clone)]
struct Tap {
    inner: Client,
    judge: Judge,
}

impl tower_service::Service<Request<Body>> for Tap {
    type Response = Response<Body>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { inner, judge } = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect_bytes().await.map_err(std::io::Error::other)?;
            let seen = Seen {
                method: parts.method.clone(),
                path: parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
                body: serde_json::from_slice(&bytes).unwrap_or_default(),
            };
            if let Some(code) = judge(&seen) {
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
                    "message": format!("the test answers with {code}"), "reason": "Test",
                });
                let body = Body::from(status.to_string().into_bytes());
                return Response::builder().status(code).body(body).map_err(std::io::Error::other);
            }
            inner
                .send(Request::from_parts(parts, Body::from(bytes.to_vec())))
                .await
                .map_err(std::io::Error::other)
        })
    }
}

/// Returns a client for the same cluster. `judge` may make a request fail, with an error code.
pub(crate) fn judged(
    client: &Client,
    judge: impl Fn(&Seen) -> Option<u16> + Send + Sync + 'static,
) -> Client {
    Client::new(Tap { inner: client.clone(), judge: Arc::new(judge) }, "default")
}

/// Returns a client that records its requests.
pub(crate) fn recorded(client: &Client) -> (Client, Arc<Mutex<Vec<Seen>>>) {
    let log = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&log);
    let client = judged(client, move |seen| {
        noted.lock().unwrap().push(seen.clone());
        None
    });
    (client, log)
}

pub(crate) async fn cluster() -> (Cluster, Client, Releases) {
    let cluster = Cluster::start().await.unwrap();
    let client = cluster.client();
    let releases = Releases::new(client.clone(), "default");
    (cluster, client, releases)
}

/// Returns a chart with these templates.
pub(crate) fn chart(templates: &str) -> Chart {
    chart_with(templates, [])
}

/// Returns a chart with these templates and further files.
pub(crate) fn chart_with<const N: usize>(templates: &str, files: [File; N]) -> Chart {
    let own = [
        File::new("Chart.yaml", "{apiVersion: v2, name: shop, version: 1.2.3, appVersion: '4.5'}"),
        File::new("templates/all.yaml", templates.to_owned()),
    ];
    Chart::from_files(own.into_iter().chain(files)).unwrap()
}

/// Returns values that are strings.
pub(crate) fn values(expressions: &[&str]) -> Values {
    let mut values = Values::new();
    for expression in expressions {
        values.set_string(expression).unwrap();
    }
    values
}

pub(crate) fn quick() -> Options {
    Options { timeout: Timeout(Duration::from_secs(20)), ..Options::default() }
}

pub(crate) fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

/// Creates a ConfigMap that belongs to no release.
pub(crate) async fn create_map(client: &Client, name: &str) -> ConfigMap {
    let map = ConfigMap {
        metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    maps(client).create(&PostParams::default(), &map).await.unwrap()
}

/// Whether a ConfigMap exists.
pub(crate) async fn has_map(client: &Client, name: &str) -> bool {
    maps(client).get_opt(name).await.unwrap().is_some()
}

/// Logs the reported steps, one line each.
pub(crate) fn log_of(steps: &Arc<Mutex<Vec<String>>>) -> impl Fn(&Progress) + Send + Sync + 'static {
    let steps = Arc::clone(steps);
    move |step| {
        let line = match step {
            Progress::Definition { name, outcome } => format!("definition {name} {outcome:?}"),
            Progress::Hook { event, hook } => format!("hook {event} {hook}"),
            Progress::Log { pod, container, text } => format!("log {pod}/{container} {}", text.trim_end()),
            Progress::Written { id, outcome } => format!("written {}/{} {outcome:?}", id.kind, id.name),
            Progress::Deleted { id } => format!("deleted {}/{}", id.kind, id.name),
            Progress::Recovering { what } => format!("recovering {what}"),
            _ => return,
        };
        steps.lock().unwrap().push(line);
    }
}
