//! Rate limits per client, and limits on open event streams.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::time::Instant;

use crate::problem::{Problem, Result};

/// Token bucket per client: requests per second, and burst.
const RATE: f64 = 50.0;
const BURST: f64 = 200.0;
/// The maximum number of open event streams per user.
const STREAMS: usize = 100;
/// The number of clients with a bucket of their own before full buckets are dropped.
const CLIENTS: usize = 10_000;

struct Bucket {
    left: f64,
    at: Instant,
}

/// The rate limiters and stream counts.
#[derive(Default)]
pub(crate) struct Limits {
    buckets: Mutex<HashMap<String, Bucket>>,
    streams: Arc<Mutex<HashMap<String, usize>>>,
}

impl Limits {
    /// Counts a request of a client against its rate limit.
    pub(crate) fn request(&self, client: &str) -> Result<()> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let refilled =
            |bucket: &Bucket| (bucket.left + now.duration_since(bucket.at).as_secs_f64() * RATE).min(BURST);
        if buckets.len() >= CLIENTS && !buckets.contains_key(client) {
            // A full bucket carries no information, so it can be dropped.
            buckets.retain(|_, bucket| refilled(bucket) < BURST);
        }
        let bucket = buckets.entry(client.to_owned()).or_insert(Bucket { left: BURST, at: now });
        bucket.left = refilled(bucket);
        bucket.at = now;
        if bucket.left < 1.0 {
            return Err(Problem::too_many("too many requests from this client", 1));
        }
        bucket.left -= 1.0;
        Ok(())
    }

    /// Reserves an event stream for a user, until the returned value is dropped.
    pub(crate) fn stream(&self, user: &str) -> Result<StreamPlace> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let count = streams.entry(user.to_owned()).or_default();
        if *count >= STREAMS {
            return Err(Problem::too_many("too many event streams for this user", 10));
        }
        *count += 1;
        Ok(StreamPlace { user: user.to_owned(), streams: Arc::clone(&self.streams) })
    }
}

/// A reserved event stream.
pub(crate) struct StreamPlace {
    user: String,
    streams: Arc<Mutex<HashMap<String, usize>>>,
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = streams.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                streams.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_asks_too_much_waits() {
        let limits = Limits::default();
        for _ in 0..200 {
            limits.request("ana").unwrap();
        }
        assert!(limits.request("ana").is_err());
        limits.request("ben").unwrap();
        tokio::time::advance(Duration::from_millis(21)).await;
        limits.request("ana").unwrap();
        assert!(limits.request("ana").is_err());
    }

    #[test]
    fn places_for_streams_are_given_back() {
        let limits = Limits::default();
        let places: Vec<_> =
            (0..STREAMS).map(|_| limits.stream("ana").unwrap_or_else(|_| unreachable!())).collect();
        assert!(limits.stream("ana").is_err());
        drop(places);
        assert!(limits.stream("ana").is_ok());
    }
}
