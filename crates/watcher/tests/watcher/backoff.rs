//! Delays after errors, on a paused clock.

use std::{pin::pin, time::Duration};

use futures_util::{Stream, StreamExt as _, stream};
use steersman_watcher::{Backoff, Config, WatchStreamExt as _, watcher};
use tokio::time::Instant;

use crate::server::{Answer::Refused, Server};

/// The default without jitter, so that delays are exact.
fn exact() -> Backoff {
    Backoff { jitter: 0.0, ..Backoff::default() }
}

/// The time that passes before each item, in milliseconds.
async fn delays<T, E>(stream: impl Stream<Item = Result<T, E>>) -> Vec<u128> {
    let mut stream = pin!(stream);
    let mut delays = Vec::new();
    let mut last = Instant::now();
    while stream.next().await.is_some() {
        delays.push(last.elapsed().as_millis());
        last = Instant::now();
    }
    delays
}

fn results(items: impl IntoIterator<Item = Result<(), ()>>) -> impl Stream<Item = Result<(), ()>> + Send {
    stream::iter(items.into_iter().collect::<Vec<_>>())
}

#[tokio::test(start_paused = true)]
async fn delays_double_up_to_the_longest() {
    let delays = delays(results([Err(()); 9]).backoff(exact())).await;
    assert_eq!(delays, [0, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]);
}

#[tokio::test(start_paused = true)]
async fn what_succeeds_is_not_delayed_and_resets_nothing() {
    let items = [Ok(()), Ok(()), Err(()), Ok(()), Ok(()), Err(()), Ok(())];
    assert_eq!(delays(results(items).backoff(exact())).await, [0, 0, 0, 800, 0, 0, 1600]);
}

#[tokio::test(start_paused = true)]
async fn two_minutes_without_errors_reset_the_delay() {
    for (quiet, expected) in [(119, 3200), (120, 800)] {
        let failures = results([Err(()), Err(())]);
        // Time between the second and the third error.
        let third = stream::once(async move {
            tokio::time::sleep(Duration::from_secs(quiet) - Duration::from_millis(1600)).await;
            Err(())
        });
        let delays = delays(failures.chain(third).chain(results([Ok(())])).backoff(exact())).await;
        assert_eq!(delays[3], expected, "after {quiet} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delay_begins_with_its_error() {
    let mut stream = pin!(results([Err(()), Ok(())]).backoff(exact()));
    let start = Instant::now();
    stream.next().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    stream.next().await;
    assert_eq!(start.elapsed().as_millis(), 800);
}

#[tokio::test(start_paused = true)]
async fn jitter_makes_a_delay_up_to_twice_as_long() {
    fastrand::seed(7);
    let mut seen = Vec::new();
    for _ in 0..200 {
        seen.push(delays(results([Err(()), Ok(())]).default_backoff()).await[1]);
    }
    let (shortest, longest) = (seen.iter().min().unwrap(), seen.iter().max().unwrap());
    assert!((800..850).contains(shortest) && (1550..=1601).contains(longest), "{shortest} to {longest}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_does_not_retry_before_its_delay() {
    let server = Server::new([Refused(500), Refused(500), Refused(500)]);
    let events = watcher(server.api(), Config::default()).default_backoff();
    let delays = delays(events.take(3)).await;
    assert!(
        delays[0] == 0 && (800..=1601).contains(&delays[1]) && (1600..=3201).contains(&delays[2]),
        "{delays:?}"
    );
}
