//! Counts the traffic between operators and the API server.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use kube::{Client, client::Body};

use crate::{privilege::Requests, write_guard};

/// Counts what the clients that it wraps send and receive. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Traffic(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    requests: Requests,
    passed: AtomicU64,
    pending: AtomicU64,
    writes: AtomicU64,
}

impl Traffic {
    /// Returns a client whose traffic is counted.
    pub(super) fn wrap(&self, client: Client) -> Client {
        let traffic = self.clone();
        write_guard::with_middleware(client, move |client, request| traffic.clone().forward(client, request))
    }

    async fn forward(
        self,
        client: Client,
        request: Request<Body>,
    ) -> Result<Response<UnsyncBoxBody<Bytes, kube::Error>>, kube::Error> {
        let pending = Pending::new(&self);
        self.0.passed.fetch_add(1, SeqCst);
        self.0.requests.note(request.method(), request.uri());
        if write_guard::writes(request.method()) {
            self.0.writes.fetch_add(1, SeqCst);
        }
        let answer = client.send(request).await?;
        drop(pending);
        Ok(answer.map(|body| {
            body.map_frame(move |frame| {
                self.0.passed.fetch_add(1, SeqCst);
                frame
            })
            .boxed_unsync()
        }))
    }

    /// Number of requests, responses and chunks of watches so far. `None` while a request waits for its response.
    pub(super) fn passed(&self) -> Option<u64> {
        (self.0.pending.load(SeqCst) == 0).then(|| self.0.passed.load(SeqCst))
    }

    /// Returns the requests that were made.
    pub(super) fn requests(&self) -> Requests {
        self.0.requests.clone()
    }

    /// Number of writes that were sent.
    pub(super) fn writes(&self) -> u64 {
        self.0.writes.load(SeqCst)
    }
}

/// Counts a request as pending until it is dropped.
struct Pending(Traffic);

impl Pending {
    fn new(traffic: &Traffic) -> Self {
        traffic.0.pending.fetch_add(1, SeqCst);
        Self(traffic.clone())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.0.passed.fetch_add(1, SeqCst);
        self.0.0.pending.fetch_sub(1, SeqCst);
    }
}
