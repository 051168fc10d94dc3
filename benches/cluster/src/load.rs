//! The requests, and their throughput and latency.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::objects;

/// An error, which ends the measurement.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The number of concurrent requests.
const IN_FLIGHT: usize = 16;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// A kind of write.
#[derive(Clone, Copy)]
pub(crate) enum Load {
    /// Creates ConfigMaps, which are small.
    CreateConfigMaps,
    /// Creates pods, with extensive defaulting and validation.
    CreatePods,
    /// Server-side apply of a Deployment, new in the first round and changed in later ones.
    Apply,
}

impl Load {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::CreateConfigMaps => "create-configmap",
            Self::CreatePods => "create-pod",
            Self::Apply => "apply",
        }
    }

    fn request(self, round: usize, number: usize) -> Result<Request<Vec<u8>>, Failure> {
        let name = format!("r{round}-{number}");
        match self {
            Self::CreateConfigMaps => post(CONFIG_MAPS, &objects::config_map(&name)),
            Self::CreatePods => post(PODS, &objects::pod(&name)),
            Self::Apply => {
                let name = format!("d-{number}");
                let path = format!("{DEPLOYMENTS}/{name}?fieldManager=bench&force=true");
                let body = serde_json::to_vec(&objects::deployment(&name, round))?;
                let request = Request::builder().method(Method::PATCH).uri(path);
                Ok(request.header("content-type", "application/apply-patch+yaml").body(body)?)
            }
        }
    }

    /// Measures writes per second.
    pub(crate) async fn rate(self, client: &Client, round: usize, count: usize) -> Result<f64, Failure> {
        // The requests are built before the clock starts.
        let requests: Result<Vec<_>, _> = (0..count).map(|number| self.request(round, number)).collect();
        let spent = all(client, requests?).await?;
        #[expect(clippy::cast_precision_loss, reason = "counts are far from 2^53")]
        Ok(count as f64 / spent.as_secs_f64())
    }
}

fn post(path: &str, object: &Value) -> Result<Request<Vec<u8>>, Failure> {
    let body = serde_json::to_vec(object)?;
    let request =
        Request::builder().method(Method::POST).uri(path).header("content-type", "application/json");
    Ok(request.body(body)?)
}

/// Sends all requests with limited concurrency.
async fn all(client: &Client, requests: Vec<Request<Vec<u8>>>) -> Result<Duration, Failure> {
    let (requests, next) = (Arc::new(requests), Arc::new(AtomicUsize::new(0)));
    let start = Instant::now();
    let mut workers = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let (client, requests, next) = (client.clone(), Arc::clone(&requests), Arc::clone(&next));
        workers.spawn(async move {
            while let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
                write(&client, request.clone()).await?;
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(ended) = workers.join_next().await {
        ended??;
    }
    Ok(start.elapsed())
}

/// Sends a write and reads the complete response.
async fn write(client: &Client, request: Request<Vec<u8>>) -> Result<(), Failure> {
    send(client, request, |status| status.is_success()).await
}

/// Sends a write, and accepts that the object already exists.
async fn ensure(client: &Client, request: Request<Vec<u8>>) -> Result<(), Failure> {
    send(client, request, |status| status.is_success() || status == StatusCode::CONFLICT).await
}

async fn send(
    client: &Client,
    request: Request<Vec<u8>>,
    good: fn(StatusCode) -> bool,
) -> Result<(), Failure> {
    let response = client.send(request.map(Body::from)).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    if good(status) {
        return Ok(());
    }
    Err(format!("{status}: {}", String::from_utf8_lossy(&body)).into())
}

/// Sends the first write to a server that may not be ready yet.
pub(crate) async fn first_write(client: &Client) -> Result<(), Failure> {
    ensure(client, post(CONFIG_MAPS, &objects::config_map("first"))?).await
}

/// Creates what pods need, in the absence of controllers.
pub(crate) async fn prepare(client: &Client) -> Result<(), Failure> {
    let account =
        serde_json::json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    ensure(client, post("/api/v1/namespaces/default/serviceaccounts", &account)?).await
}

/// Creates numbered pods.
pub(crate) async fn create_pods(client: &Client, numbers: Range<usize>) -> Result<(), Failure> {
    let requests: Result<Vec<_>, _> =
        numbers.map(|number| post(PODS, &objects::pod(&format!("pod-{number}")))).collect();
    all(client, requests?).await.map(drop)
}

/// Measures the microseconds from sending a create to receiving its watch event, one at a time.
pub(crate) async fn watch_latency(client: &Client, round: usize, count: usize) -> Result<Vec<f64>, Failure> {
    // Starts at the current resourceVersion, so that no history is sent.
    let list = Request::get(format!("{CONFIG_MAPS}?limit=1")).body(Vec::new())?;
    let list: Value = client.request(list).await?;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let watch =
        Request::get(format!("{CONFIG_MAPS}?watch=1&resourceVersion={version}")).body(Body::empty())?;
    let mut events = client.send(watch).await?.into_body();
    let sent: Arc<Mutex<HashMap<String, Instant>>> = Arc::default();
    let (done, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let begun = Arc::clone(&sent);
    let reader = tokio::spawn(async move {
        let mut buffer = Vec::new();
        while let Some(Ok(frame)) = events.frame().await {
            let Some(data) = frame.data_ref() else { continue };
            let now = Instant::now();
            buffer.extend_from_slice(data);
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                let event: Value = serde_json::from_slice(&line).unwrap_or_default();
                let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
                let start = begun.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
                if let Some(start) = start
                    && done.send(now.duration_since(start)).is_err()
                {
                    return;
                }
            }
        }
    });
    let mut times = Vec::with_capacity(count);
    for number in 0..count {
        let name = format!("w{round}-{number}");
        let request = post(CONFIG_MAPS, &objects::config_map(&name))?;
        sent.lock().unwrap_or_else(PoisonError::into_inner).insert(name, Instant::now());
        write(client, request).await?;
        let waited = tokio::time::timeout(Duration::from_secs(10), seen.recv()).await?;
        times.push(waited.ok_or("the watch ended")?.as_secs_f64() * 1e6);
    }
    reader.abort();
    Ok(times)
}
