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
    /// Forever: there is no leader election.
    Always,
    /// Until the lease may pass to another replica.
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
    /// When a write was last abandoned with unknown outcome: it may still arrive.
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

    /// Waits until writes are no longer permitted.
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

    /// Waits until no write is in flight. Returns whether the outcome of each is known: none was abandoned so recently
    /// that it might still arrive.
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
    /// Whether the server has responded.
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

/// Returns a client whose requests a function forwards to the given one.
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

/// Returns a client that counts requests, and whose writes a fence can stop.
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

/// Returns a client whose reads return the metadata of objects only.
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

/// Sends a write if it is permitted.
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
            // A request in flight when the permit ends is abandoned rather than repeated.
            Err(_) => return Err(deposed()),
        },
        Permit::Always | Permit::Never => client.send(request).await,
    };
    in_flight.known = answer.is_ok();
    answer
}

/// Whether a request starts a watch.
pub(crate) fn watches(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true" || pair == "watch=1"))
}

/// Whether requests of a method may change anything.
pub(crate) fn writes(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

fn deposed() -> kube::Error {
    kube::Error::Service(Box::new(Error::Deposed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_are_told_by_their_query() {
        let watched = |uri: &'static str| watches(&Uri::from_static(uri));
        assert!(watched("/api/v1/pods?watch=true") && watched("/api/v1/pods?limit=1&watch=1"));
        for other in ["/api/v1/pods", "/api/v1/pods?watch=false", "/api/v1/pods?rewatch=1", "/watch=true"] {
            assert!(!watched(other), "{other}");
        }
    }

    #[test]
    fn methods_that_change_something_are_writes() {
        assert!([Method::POST, Method::PUT, Method::PATCH, Method::DELETE].iter().all(writes));
        assert!(![Method::GET, Method::HEAD, Method::OPTIONS].iter().any(writes));
    }

    #[tokio::test(start_paused = true)]
    async fn a_permit_is_good_until_it_ends() {
        let second = Duration::from_secs(1);
        assert!(Permit::Always.is_good() && !Permit::Never.is_good());
        let until = Permit::Until(Instant::now() + second);
        assert!(until.is_good());
        tokio::time::advance(second).await;
        assert!(!until.is_good());
    }

    #[tokio::test(start_paused = true)]
    async fn a_fence_closes_with_its_permit() {
        let seconds = Duration::from_secs;
        let fence = Fence::new(Permit::Always);
        assert!(tokio::time::timeout(seconds(1000), fence.closed()).await.is_err());
        fence.set(Permit::Until(Instant::now() + seconds(5)));
        assert_eq!(fence.permit(), Permit::Until(Instant::now() + seconds(5)));
        let start = Instant::now();
        // It is renewed once meanwhile.
        let renew = async {
            tokio::time::sleep(seconds(3)).await;
            fence.set(Permit::Until(Instant::now() + seconds(5)));
        };
        tokio::join!(fence.closed(), renew);
        assert!((8000..8010).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
        fence.set(Permit::Never);
        fence.closed().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_fence_is_drained_when_every_write_is_known_to_have_ended() {
        let seconds = Duration::from_secs;
        let fence = Fence::new(Permit::Always);
        let drained = async |limit: u64| fence.drained(seconds(limit), seconds(10)).await;
        assert!(drained(0).await);
        let (mut one, two) = (fence.enter(), fence.enter());
        assert!(!drained(1).await, "they are under way");
        one.known = true;
        drop(one);
        assert!(!drained(1).await);
        let later = async {
            tokio::time::sleep(seconds(3)).await;
            drop(two);
        };
        let (is_drained, ()) = tokio::join!(drained(5), later);
        assert!(!is_drained, "one was given up, and may still arrive");
        tokio::time::advance(seconds(10)).await;
        assert!(!drained(0).await);
        tokio::time::advance(seconds(1)).await;
        assert!(drained(0).await, "it can't any more");
    }
}
