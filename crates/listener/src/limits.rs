//! Limits on clients.

use std::time::Duration;

/// Maximum of the default: more connections would only cost memory.
const MOST_CONNECTIONS: usize = 4096;

/// Limits on the number of clients and on how long they may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of connections. Default: half of the process's file descriptor limit, at most 4,096.
    ///
    /// When it is reached, a new connection closes an idle one, preferring one that never had a request, or waits if all
    /// are busy.
    pub connections: usize,
    /// Time for the TLS handshake. Default: 10 s.
    pub handshake: Duration,
    /// Time for the head of a request, and for the response to an HTTP/2 ping. Default: 32 s.
    ///
    /// The head's time starts at the end of the previous request.
    pub header: Duration,
    /// Time for the body of a request. Default: 60 s.
    pub body: Duration,
    /// Maximum number of concurrent requests per HTTP/2 connection (feature `http2`). Default: 250.
    pub streams: u32,
    /// Interval of HTTP/2 pings, which detect clients that are gone (feature `http2`). Default: 30 s.
    pub ping: Option<Duration>,
    /// Delay before the next attempt when a connection can't be accepted. Default: 10 ms.
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
    /// Returns the defaults for a secondary server, such as one for metrics.
    ///
    /// It takes an eighth of the process's file descriptors, at most 128 connections.
    #[must_use]
    pub fn small() -> Self {
        Self { connections: connections(open_files(), 8).min(128), ..Self::default() }
    }
}

/// Returns the file descriptor limit divided by `part`, as a number of connections.
fn connections(files: u64, part: u64) -> usize {
    usize::try_from(files / part).unwrap_or(usize::MAX).clamp(1, MOST_CONNECTIONS)
}

/// Returns how many files the process may open.
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
