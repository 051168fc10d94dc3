//! Write fencing: an operator's writes are sent only while its lease is valid.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, Uri, header::ACCEPT};
use kube::{Client, client::Body};
use tokio::{sync::watch, time::Instant};
use tower_service::Service;

use crate::{
    error::{BoxError, Error},
    metrics::Metrics,
};

/// Until when an operator may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permit {
    /// Without end: there is no leader election.
    Always,
    /// Until the lease may pass to another.
    Until(Instant),
    /// Not now.
    Never,
}

impl Permit {
    pub(crate) fn is_good(self) -> bool {
        match self {
            Self::Always => true,
            Self::Until(end) => Instant::now() < end,
            Self::Never => false,
        }
    }
}

/// Fence for writes: whether they may be sent, and how many are in flight. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Fence(Arc<State>);

#[derive(Debug)]
struct State {
    permit: watch::Sender<Permit>,
    traffic: watch::Sender<Traffic>,
}

#[derive(Debug, Default)]
struct Traffic {
    under_way: usize,
    /// When a write was last given up whose fate is not known: it may still arrive.
    abandoned: Option<Instant>,
}

impl Fence {
    pub(crate) fn new(permit: Permit) -> Self {
        Self(Arc::new(State { permit: watch::Sender::new(permit), traffic: watch::Sender::default() }))
    }

    pub(crate) fn set(&self, permit: Permit) {
        self.0.permit.send_replace(permit);
    }

    pub(crate) fn permit(&self) -> Permit {
        *self.0.permit.borrow()
    }

    /// Waits until writes do not pass any more.
    pub(crate) async fn closed(&self) {
        let mut permits = self.0.permit.subscribe();
        loop {
            let permit = *permits.borrow_and_update();
            let end = match permit {
                Permit::Always => None,
                Permit::Until(end) if permit.is_good() => Some(end),
                Permit::Until(_) | Permit::Never => return,
            };
            let ends = async {
                match end {
                    Some(end) => tokio::time::sleep_until(end).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = ends => {}
                // The sender lives in this fence.
                _ = permits.changed() => {}
            }
        }
    }

    /// Waits until no write is under way. Says whether the fate of each is known: none was given up within a time in which
    /// it might still arrive.
    pub(crate) async fn drained(&self, limit: Duration, arrival: Duration) -> bool {
        let mut traffic = self.0.traffic.subscribe();
        let empty = traffic.wait_for(|traffic| traffic.under_way == 0);
        match tokio::time::timeout(limit, empty).await {
            Ok(Ok(traffic)) => traffic.abandoned.is_none_or(|at| at.elapsed() > arrival),
            _ => false,
        }
    }

    fn enter(&self) -> InFlightWrite {
        self.0.traffic.send_modify(|traffic| traffic.under_way += 1);
        InFlightWrite { fence: self.clone(), known: false }
    }
}

/// A write in flight.
#[must_use]
struct InFlightWrite {
    fence: Fence,
    /// Whether the server has answered.
    known: bool,
}

impl Drop for InFlightWrite {
    fn drop(&mut self) {
        self.fence.0.traffic.send_modify(|traffic| {
            traffic.under_way -= 1;
            if !self.known {
                traffic.abandoned = Some(Instant::now());
            }
        });
    }
}

/// A client whose requests a function takes to another one.
pub(crate) fn with_middleware<F, R, B>(client: Client, take: F) -> Client
where
    F: Fn(Client, Request<Body>) -> R + Send + 'static,
    R: Future<Output = Result<Response<B>, kube::Error>> + Send + 'static,
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let namespace = client.default_namespace().to_owned();
    Client::new(Middleware { client, take }, namespace)
}

struct Middleware<F> {
    client: Client,
    take: F,
}

impl<F, R, B> Service<Request<Body>> for Middleware<F>
where
    F: Fn(Client, Request<Body>) -> R,
    R: Future<Output = Result<Response<B>, kube::Error>>,
{
    type Response = Response<B>;
    type Error = kube::Error;
    type Future = R;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> R {
        (self.take)(self.client.clone(), request)
    }
}

/// A client whose requests are counted, and whose writes a fence can stop.
pub(crate) fn guarded(client: Client, fence: Option<Fence>, metrics: Metrics) -> Client {
    with_middleware(client, move |client, request| {
        let (metrics, method) = (metrics.clone(), request.method().clone());
        let fence = fence.clone().filter(|_| writes(&method));
        async move {
            let answer = match fence {
                Some(fence) => write(&client, &fence, request).await,
                None => client.send(request).await,
            };
            metrics.record_request(&method, answer.as_ref().ok().map(|answer| answer.status().as_u16()));
            answer
        }
    })
}

/// A client whose reads bring the metadata of objects alone.
pub(crate) fn metadata_only(client: Client) -> Client {
    with_middleware(client, |client, mut request| {
        let form = HeaderValue::from_static(if watches(request.uri()) {
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
        } else {
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        });
        request.headers_mut().insert(ACCEPT, form);
        async move { client.send(request).await }
    })
}

/// Sends a write if it may pass.
async fn write(
    client: &Client,
    fence: &Fence,
    request: Request<Body>,
) -> Result<Response<Body>, kube::Error> {
    // Counted first: once the permit is revoked and no write is in flight, none can follow.
    let mut in_flight = fence.enter();
    let permit = fence.permit();
    if !permit.is_good() {
        // Nothing was sent.
        in_flight.known = true;
        return Err(deposed());
    }
    let answer = match permit {
        Permit::Until(end) => match tokio::time::timeout_at(end, client.send(request)).await {
            Ok(answer) => answer,
            // A request that is under way when the permit ends is given up rather than repeated.
            Err(_) => return Err(deposed()),
        },
        Permit::Always | Permit::Never => client.send(request).await,
    };
    in_flight.known = answer.is_ok();
    answer
}

/// Whether a request begins a watch.
pub(crate) fn watches(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true" || pair == "watch=1"))
}

/// Whether requests of a method may change something.
pub(crate) fn writes(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

fn deposed() -> kube::Error {
    kube::Error::Service(Box::new(Error::Deposed))
}
