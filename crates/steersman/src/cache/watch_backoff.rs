//! Keeps a watch from being begun in a tight loop where its connection ends as soon as it is there.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::{Request, Response};
use kube::{Client, client::Body};
use tokio::time::Instant;

use crate::write_guard;

/// What lasts shorter has brought nothing.
const SHORT: Duration = Duration::from_secs(1);
/// The first and the longest delay after watches that failed or were too short.
pub(super) const DELAY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));

/// A client for one watch. An end without an error is no failure to the watcher, which asks again at once: here it waits
/// for it, longer each time, until a watch has lasted a second.
pub(crate) fn with_watch_backoff(client: Client) -> Client {
    let last = Arc::new(Mutex::new(None));
    write_guard::with_middleware(client, move |client, request| forward(client, request, Arc::clone(&last)))
}

async fn forward(
    client: Client,
    request: Request<Body>,
    last: Arc<Mutex<Option<Begun>>>,
) -> Result<Response<Body>, kube::Error> {
    if !write_guard::watches(request.uri()) {
        return client.send(request).await;
    }
    let before = *last.lock().unwrap_or_else(PoisonError::into_inner);
    let delay = before.map_or(Duration::ZERO, Begun::next);
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    let answer = client.send(request).await?;
    // Refusals are failures, and those have their own delays.
    if answer.status().is_success() {
        let begun = Begun { at: Instant::now(), delay };
        *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(begun);
    }
    Ok(answer)
}

/// The last watch that the API server accepted.
#[derive(Clone, Copy)]
struct Begun {
    at: Instant,
    /// How long it had been waited for.
    delay: Duration,
}

impl Begun {
    /// How long to wait for the next one, which is asked for now.
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

    /// Answers watches that last as long as given, and counts them.
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

    /// How many watches are begun within a minute, each as soon as the one before has ended.
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
