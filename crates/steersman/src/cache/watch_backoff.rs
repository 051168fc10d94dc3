//! Backoff for watches whose connection ends as soon as it is established.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::{Request, Response};
use kube::{Client, client::Body};
use tokio::time::Instant;

use crate::write_guard;

/// Minimum duration of a watch that counts as successful.
const SHORT: Duration = Duration::from_secs(1);
/// Initial and maximum delay after watches that failed or were too short.
pub(super) const DELAY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));

/// Returns a client for one watch, with backoff. The watcher does not treat an end without an error as a failure and
/// reconnects at once: here the reconnect is delayed, longer each time, until a watch has lasted a second.
pub(crate) fn with_watch_backoff(client: Client) -> Client {
    let last = Arc::new(Mutex::new(None));
    write_guard::with_middleware(client, move |client, request| forward(client, request, Arc::clone(&last)))
}

async fn forward(
    client: Client,
    request: Request<Body>,
    last: Arc<Mutex<Option<AcceptedWatch>>>,
) -> Result<Response<Body>, kube::Error> {
    if !write_guard::watches(request.uri()) {
        return client.send(request).await;
    }
    let before = *last.lock().unwrap_or_else(PoisonError::into_inner);
    let delay = before.map_or(Duration::ZERO, AcceptedWatch::next);
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    let answer = client.send(request).await?;
    // Error responses are failures, which have their own backoff.
    if answer.status().is_success() {
        let begun = AcceptedWatch { at: Instant::now(), delay };
        *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(begun);
    }
    Ok(answer)
}

/// The last watch that the API server accepted.
#[derive(Clone, Copy)]
struct AcceptedWatch {
    at: Instant,
    /// The delay before it.
    delay: Duration,
}

impl AcceptedWatch {
    /// Returns the delay before the next watch, which is being requested now.
    fn next(self) -> Duration {
        if self.at.elapsed() < SHORT { (self.delay * 2).clamp(DELAY.0, DELAY.1) } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicUsize, Ordering::SeqCst},
        task::{Context, Poll},
    };

    use futures::future::BoxFuture;
    use tower_service::Service;

    use super::*;

    /// Answers watches with a fixed duration, and counts them.
    #[derive(Clone)]
    struct Server {
        lasts: Duration,
        asked: Arc<AtomicUsize>,
    }

    impl Service<Request<Body>> for Server {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<Body>) -> Self::Future {
            self.asked.fetch_add(1, SeqCst);
            Box::pin(async { Ok(Response::new(Body::empty())) })
        }
    }

    /// Returns how many watches begin within a minute, each as soon as the previous one has ended.
    async fn begun(lasts: Duration) -> usize {
        let server = Server { lasts, asked: Arc::default() };
        let client = with_watch_backoff(Client::new(server.clone(), "default"));
        let watches = async {
            loop {
                let request = Request::get("/api/v1/pods?watch=true").body(Body::empty()).unwrap();
                client.send(request).await.unwrap();
                tokio::time::sleep(server.lasts).await;
            }
        };
        let _: Result<(), _> = tokio::time::timeout(Duration::from_secs(60), watches).await;
        server.asked.load(SeqCst)
    }

    #[tokio::test(start_paused = true)]
    async fn watches_that_end_at_once_are_begun_ever_more_slowly() {
        // At 0 s, and after 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6 s more each.
        assert_eq!(begun(Duration::ZERO).await, 9);
    }

    #[tokio::test(start_paused = true)]
    async fn watches_that_last_are_begun_at_once() {
        assert_eq!(begun(Duration::from_secs(2)).await, 30);
    }
}
