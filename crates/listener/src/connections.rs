//! The connections of a listener, up to a limit.

use std::{
    collections::HashMap,
    future::{Future, pending},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

/// Counts the requests of a connection.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    begun: AtomicUsize,
    ended: AtomicUsize,
}

/// A pending request, until it is dropped.
#[derive(Debug)]
pub(crate) struct Pending(Arc<Requests>);

impl Requests {
    pub(crate) fn begin(requests: &Arc<Self>) -> Pending {
        requests.begun.fetch_add(1, Relaxed);
        Pending(Arc::clone(requests))
    }

    fn is_idle(&self) -> bool {
        self.begun.load(Relaxed) == self.ended.load(Relaxed)
    }

    /// Whether the connection has had no request so far.
    pub(crate) fn is_unused(&self) -> bool {
        self.begun.load(Relaxed) == 0
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Relaxed);
    }
}

struct Connection {
    /// Position in the order of arrival.
    number: u64,
    requests: Arc<Requests>,
    task: AbortHandle,
    closing: bool,
}

/// The open connections.
pub(crate) struct Connections {
    limit: usize,
    tasks: JoinSet<()>,
    open: HashMap<Id, Connection>,
    accepted: u64,
}

impl Connections {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), tasks: JoinSet::new(), open: HashMap::new(), accepted: 0 }
    }

    pub(crate) fn spawn<F>(&mut self, connection: impl FnOnce(Arc<Requests>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let requests = Arc::new(Requests::default());
        let task = self.tasks.spawn(connection(Arc::clone(&requests)));
        self.accepted += 1;
        let number = self.accepted;
        self.open.insert(task.id(), Connection { number, requests, task, closing: false });
    }

    /// Waits for a connection to end. Never returns if there is none.
    pub(crate) async fn ended(&mut self) {
        match self.tasks.join_next_with_id().await {
            Some(ended) => self.forget(ended),
            None => pending().await,
        }
    }

    /// Waits until one more connection is allowed, closing an idle one if necessary.
    pub(crate) async fn make_room(&mut self) {
        while self.tasks.len() >= self.limit {
            self.close_idle();
            self.ended().await;
        }
    }

    /// Closes a connection without a pending request, if there is one.
    ///
    /// The oldest connection that never had a request is closed first, since real clients send one at once; then the
    /// oldest.
    pub(crate) fn close_idle(&mut self) {
        let idle = self.open.values_mut().filter(|open| !open.closing && open.requests.is_idle());
        if let Some(connection) = idle.min_by_key(|open| (!open.requests.is_unused(), open.number)) {
            tracing::debug!(limit = self.limit, "too many connections: closing an idle one");
            connection.closing = true;
            connection.task.abort();
        }
    }

    fn forget(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match &ended {
            Ok((id, ())) => *id,
            Err(error) => error.id(),
        };
        self.open.remove(&id);
        // A panicked connection is removed like any other: the runtime has already reported the panic.
    }
}
