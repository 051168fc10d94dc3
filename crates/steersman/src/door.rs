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

use crate::error::Error;

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

    fn permit(&self) -> Permit {
        *self.0.borrow()
    }
}

/// A client whose writes a fence can stop.
pub(crate) fn fenced(client: Client, fence: Fence) -> Client {
    let namespace = client.default_namespace().to_owned();
    Client::new(Door { client, fence }, namespace)
}

#[derive(Clone)]
struct Door {
    client: Client,
    fence: Fence,
}

impl Service<Request<Body>> for Door {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, kube::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.client.clone();
        let writes = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        let permit = if writes { self.fence.permit() } else { Permit::Always };
        Box::pin(async move {
            match permit {
                Permit::Always => client.send(request).await,
                // A request that is under way when the permit ends is given up rather than repeated.
                Permit::Until(end) if Instant::now() < end => {
                    match tokio::time::timeout_at(end, client.send(request)).await {
                        Ok(answer) => answer,
                        Err(_) => Err(deposed()),
                    }
                }
                Permit::Until(_) | Permit::Never => Err(deposed()),
            }
        })
    }
}

fn deposed() -> kube::Error {
    kube::Error::Service(Box::new(Error::Deposed))
}
