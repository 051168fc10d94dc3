//! A network that is down for a while.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{Request, Response};
use kube::{Client, client::Body};
use tokio::time::Instant;
use tower_service::Service;

/// Requests get no response during a period, in seconds.
#[derive(Clone)]
pub(crate) struct Outage {
    origin: Instant,
    /// Start and duration.
    times: Option<(u64, u64)>,
}

impl Outage {
    pub(crate) fn new(times: Option<(u64, u64)>) -> Self {
        Self { origin: Instant::now(), times }
    }

    pub(crate) fn put_into(&self, client: Client) -> Client {
        Client::new(Down { client, outage: self.clone() }, "default")
    }

    fn now(&self) -> bool {
        let elapsed = self.origin.elapsed();
        self.times.is_some_and(|(start, length)| {
            (Duration::from_secs(start)..Duration::from_secs(start + length)).contains(&elapsed)
        })
    }
}

#[derive(Clone)]
struct Down {
    client: Client,
    outage: Outage,
}

impl Service<Request<Body>> for Down {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, kube::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (client, outage) = (self.client.clone(), self.outage.clone());
        Box::pin(async move {
            if outage.now() {
                return std::future::pending().await;
            }
            client.send(request).await
        })
    }
}
