//! A network that loses, delays and merges.

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

/// What happens to the next thing that passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// It is late, by so many milliseconds.
    Late(u16),
    /// The connection ends. Of a watch, the rest is lost; of a write, the answer is.
    Lost,
    /// A watch is told that its version is too old, so that what happened since comes as one list.
    Expired,
}

/// Faults for one operator's traffic. Cheap to clone.
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
    /// Repeats a plan for ever, while it is on.
    pub(crate) fn new(faults: Vec<Fault>) -> Self {
        Self {
            plan: Arc::new(Mutex::new(Plan { faults, next: 0 })),
            on: Arc::new(AtomicBool::new(true)),
            writes: Arc::default(),
            held: watch::Sender::default(),
        }
    }

    /// Holds back what watches of a resource have to say until this is called with none.
    pub(crate) fn hold(&self, resource: Option<&'static str>) {
        self.held.send_replace(resource);
    }

    /// Whether things go wrong at all.
    pub(crate) fn switch(&self, on: bool) {
        self.on.store(on, SeqCst);
    }

    /// How many writes passed.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(SeqCst)
    }

    /// A client whose traffic suffers.
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

/// A watch whose parts come late, or not at all.
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
