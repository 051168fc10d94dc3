//! Delays between retries.

use std::{pin::Pin, time::Duration};

use futures_util::{Stream, StreamExt as _, stream};
use tokio::time::{Instant, sleep_until};

/// Exponential backoff with jitter. Its defaults are those of client-go's reflector.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    /// Delay after the first error. Default: 800 ms.
    pub initial: Duration,
    /// Longest delay, before jitter. Default: 30 s.
    pub max: Duration,
    /// Factor from one delay to the next. Default: 2.
    pub factor: f64,
    /// Maximum random addition to a delay, as a share of it. Default: 1, so that a delay is up to twice as long.
    pub jitter: f64,
    /// Time without errors after which the delay starts at `initial` again. Default: 2 min.
    pub reset_after: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            initial: Duration::from_millis(800),
            max: Duration::from_secs(30),
            factor: 2.0,
            jitter: 1.0,
            reset_after: Duration::from_secs(120),
        }
    }
}

impl Backoff {
    fn next(&self, delay: Duration) -> Duration {
        Duration::try_from_secs_f64(delay.as_secs_f64() * self.factor)
            .map_or(self.max, |next| next.min(self.max))
    }

    fn jittered(&self, delay: Duration) -> Duration {
        let factor = 1.0 + self.jitter * fastrand::f64();
        Duration::try_from_secs_f64(delay.as_secs_f64() * factor).unwrap_or(delay)
    }
}

/// Backoff for streams of results, such as those of [`watcher`](crate::watcher) and [`watch_object`](crate::watch_object).
pub trait WatchStreamExt: Stream + Sized {
    /// Waits after each error before the stream is polled again, as client-go's reflector does: see [`Backoff::default`].
    fn default_backoff<T, E>(self) -> impl Stream<Item = Result<T, E>> + Send
    where
        Self: Stream<Item = Result<T, E>> + Send,
        T: Send,
        E: Send,
    {
        self.backoff(Backoff::default())
    }

    /// Waits after each error before the stream is polled again.
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::Pod;
    /// use std::time::Duration;
    /// use steersman_watcher::{Backoff, Config, WatchStreamExt as _, watcher};
    ///
    /// # fn doc(pods: kube::Api<Pod>) {
    /// let short = Backoff { max: Duration::from_secs(5), ..Backoff::default() };
    /// let events = watcher(pods, Config::default()).backoff(short);
    /// # drop(events);
    /// # }
    /// ```
    fn backoff<T, E>(self, backoff: Backoff) -> impl Stream<Item = Result<T, E>> + Send
    where
        Self: Stream<Item = Result<T, E>> + Send,
        T: Send,
        E: Send,
    {
        let retries = Retries { stream: Box::pin(self), backoff, last: None, until: None };
        stream::unfold(retries, |mut retries| async move {
            if let Some(until) = retries.until.take() {
                sleep_until(until).await;
            }
            let item = retries.stream.next().await?;
            if item.is_err() {
                retries.fail();
            }
            Some((item, retries))
        })
    }
}

impl<S: Stream> WatchStreamExt for S {}

/// A stream with the state of its backoff.
struct Retries<S> {
    stream: Pin<Box<S>>,
    backoff: Backoff,
    /// When the last error was, and its delay before jitter.
    last: Option<(Instant, Duration)>,
    /// The end of the current delay.
    until: Option<Instant>,
}

impl<S> Retries<S> {
    fn fail(&mut self) {
        let now = Instant::now();
        let recent = self.last.filter(|(at, _)| now - *at < self.backoff.reset_after);
        let delay = recent.map_or(self.backoff.initial, |(_, delay)| self.backoff.next(delay));
        self.last = Some((now, delay));
        self.until = Some(now + self.backoff.jittered(delay));
    }
}
