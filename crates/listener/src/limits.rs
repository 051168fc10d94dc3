//! What clients are allowed to take.

use std::time::Duration;

/// Connections beyond which only memory would be spent.
const MOST_CONNECTIONS: usize = 4096;

/// How many clients there may be, and how long they may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time. One more closes one without a request under way, first of all one that never had any; if all are
    /// busy, it waits. Default: half of the files that the process may open, at most 4,096.
    pub connections: usize,
    /// Time for the TLS handshake. Default: 10 s.
    pub handshake: Duration,
    /// Time for the head of a request, counted from the end of the previous one, and for the answer to an HTTP/2 ping.
    /// Default: 32 s.
    pub header: Duration,
    /// Time for the body of a request. Default: 60 s.
    pub body: Duration,
    /// Requests of one HTTP/2 connection at a time (feature `http2`). Default: 250.
    pub streams: u32,
    /// Time between HTTP/2 pings, by which a client that is gone is noticed (feature `http2`). Default: 30 s.
    pub ping: Option<Duration>,
    /// Time until the next attempt when no connection can be accepted. Default: 10 ms.
    pub accept_retry: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: connections(open_files(), 2),
            handshake: Duration::from_secs(10),
            header: Duration::from_secs(32),
            body: Duration::from_secs(60),
            streams: 250,
            ping: Some(Duration::from_secs(30)),
            accept_retry: Duration::from_millis(10),
        }
    }
}

impl Limits {
    /// The defaults of a small server beside others, such as one for metrics: an eighth of the files, at most 128 connections.
    #[must_use]
    pub fn small() -> Self {
        Self { connections: connections(open_files(), 8).min(128), ..Self::default() }
    }
}

/// A part of the files that the process may open, as connections.
fn connections(files: u64, part: u64) -> usize {
    usize::try_from(files / part).unwrap_or(usize::MAX).clamp(1, MOST_CONNECTIONS)
}

/// How many files the process may open.
#[cfg(unix)]
fn open_files() -> u64 {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(not(unix))]
fn open_files() -> u64 {
    1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_others() {
        assert_eq!(connections(256, 2), 128);
        assert_eq!(connections(1024, 8), 128);
        assert_eq!(connections(u64::MAX, 2), MOST_CONNECTIONS);
        assert_eq!(connections(1, 2), 1);
        assert!(Limits::small().connections <= Limits::default().connections);
    }
}
