//! A faulty network: loses, delays and merges traffic.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt as _, future::BoxFuture, stream};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use kube::{Client, client::Body};
use tokio::sync::watch;
use tower_service::Service;

/// Fault of the next request, or of the next part of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No fault.
    None,
    /// A delay, in milliseconds.
    Late(u16),
    /// The connection ends. Of a watch the rest is lost; of a write, the response.
    Lost,
    /// A watch gets 410 Gone, so that later changes arrive as one list.
    Expired,
}

/// Faults for the traffic of one operator. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Faults {
    plan: Arc<Mutex<Plan>>,
    on: Arc<AtomicBool>,
    writes: Arc<AtomicU64>,
    held: watch::Sender<Option<&'static str>>,
}

struct Plan {
    faults: Vec<Fault>,
    next: usize,
}

impl Faults {
    /// Repeats a plan forever, while switched on.
    pub(crate) fn new(faults: Vec<Fault>) -> Self {
        Self {
            plan: Arc::new(Mutex::new(Plan { faults, next: 0 })),
            on: Arc::new(AtomicBool::new(true)),
            writes: Arc::default(),
            held: watch::Sender::default(),
        }
    }

    /// Holds back the events of a resource's watches, until called with `None`.
    pub(crate) fn hold(&self, resource: Option<&'static str>) {
        self.held.send_replace(resource);
    }

    /// Switches the faults on or off.
    pub(crate) fn switch(&self, on: bool) {
        self.on.store(on, SeqCst);
    }

    /// Number of writes that passed.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(SeqCst)
    }

    /// Returns a client with faults in its traffic.
    pub(crate) fn put_into(&self, client: Client) -> Client {
        Client::new(Faulty { client, faults: self.clone() }, "default")
    }

    fn next(&self) -> Fault {
        let mut plan = self.plan.lock().unwrap();
        if !self.on.load(SeqCst) || plan.faults.is_empty() {
            return Fault::None;
        }
        plan.next += 1;
        plan.faults[plan.next % plan.faults.len()]
    }
}

#[derive(Clone)]
struct Faulty {
    client: Client,
    faults: Faults,
}

type Answer = Response<UnsyncBoxBody<Bytes, kube::Error>>;

impl Service<Request<Body>> for Faulty {
    type Response = Answer;
    type Error = kube::Error;
    type Future = BoxFuture<'static, Result<Answer, kube::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (client, faults) = (self.client.clone(), self.faults.clone());
        Box::pin(async move {
            if request.method() != Method::GET {
                return write(&client, &faults, request).await;
            }
            if !request.uri().query().is_some_and(|query| query.contains("watch=")) {
                return Ok(client.send(request).await?.map(BodyExt::boxed_unsync));
            }
            let initial = request.uri().query().is_some_and(|query| query.contains("sendInitialEvents"));
            if faults.next() == Fault::Expired && !initial {
                return Ok(expired());
            }
            let path = request.uri().path().to_owned();
            Ok(client.send(request).await?.map(|body| suffer(body, path, faults)))
        })
    }
}

async fn write(client: &Client, faults: &Faults, request: Request<Body>) -> Result<Answer, kube::Error> {
    faults.writes.fetch_add(1, SeqCst);
    let fault = faults.next();
    if let Fault::Late(time) = fault {
        tokio::time::sleep(Duration::from_millis(time.into())).await;
    }
    let answer = client.send(request).await?;
    if fault == Fault::Lost {
        return Err(kube::Error::Service("the connection was reset".into()));
    }
    Ok(answer.map(BodyExt::boxed_unsync))
}

fn expired() -> Answer {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410,
        "message": "too old resource version",
    });
    let body = http_body_util::Full::new(Bytes::from(status.to_string()));
    let mut answer = Response::new(body.map_err(|never| match never {}).boxed_unsync());
    *answer.status_mut() = StatusCode::GONE;
    answer
}

/// Delays or drops the parts of a watch.
fn suffer(body: Body, path: String, faults: Faults) -> UnsyncBoxBody<Bytes, kube::Error> {
    let frames = stream::unfold((body, path, faults), |(mut body, path, faults)| async move {
        let frame = body.frame().await?;
        let is_free = |held: &Option<&str>| held.is_none_or(|held| !path.ends_with(held));
        faults.held.subscribe().wait_for(is_free).await.ok()?;
        match faults.next() {
            Fault::Lost => return None,
            Fault::Late(time) => tokio::time::sleep(Duration::from_millis(time.into())).await,
            Fault::None | Fault::Expired => {}
        }
        Some((frame, (body, path, faults)))
    });
    StreamBody::new(frames.boxed()).boxed_unsync()
}
