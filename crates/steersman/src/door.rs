//! The one way that an operator's writes take: they pass only while it may write.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use http::{Method, Request, Response};
use kube::{Client, client::Body};
use tokio::{sync::watch, time::Instant};
use tower_service::Service;

use crate::{error::Error, metrics::Metrics};

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

/// Says whether writes pass.
#[derive(Debug, Clone)]
pub(crate) struct Fence(Arc<watch::Sender<Permit>>);

impl Fence {
    pub(crate) fn new(permit: Permit) -> Self {
        Self(Arc::new(watch::Sender::new(permit)))
    }

    pub(crate) fn set(&self, permit: Permit) {
        self.0.send_replace(permit);
    }

    pub(crate) fn permit(&self) -> Permit {
        *self.0.borrow()
    }
}

/// A client whose requests are counted, and whose writes a fence can stop.
pub(crate) fn guarded(client: Client, fence: Option<Fence>, metrics: Metrics) -> Client {
    let namespace = client.default_namespace().to_owned();
    Client::new(Door { client, fence, metrics }, namespace)
}

#[derive(Clone)]
struct Door {
    client: Client,
    fence: Option<Fence>,
    metrics: Metrics,
}

impl Service<Request<Body>> for Door {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, kube::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (client, metrics) = (self.client.clone(), self.metrics.clone());
        let method = request.method().clone();
        let writes = !matches!(method, Method::GET | Method::HEAD | Method::OPTIONS);
        let fence = self.fence.as_ref().filter(|_| writes);
        let permit = fence.map_or(Permit::Always, Fence::permit);
        Box::pin(async move {
            let host = request.uri().host().unwrap_or_default().to_owned();
            let answer = match permit {
                Permit::Always => client.send(request).await,
                // A request that is under way when the permit ends is given up rather than repeated.
                Permit::Until(end) if Instant::now() < end => {
                    match tokio::time::timeout_at(end, client.send(request)).await {
                        Ok(answer) => answer,
                        Err(_) => Err(deposed()),
                    }
                }
                Permit::Until(_) | Permit::Never => Err(deposed()),
            };
            metrics.asked(&method, answer.as_ref().ok().map(|answer| answer.status().as_u16()), &host);
            answer
        })
    }
}

fn deposed() -> kube::Error {
    kube::Error::Service(Box::new(Error::Deposed))
}
