//! The time since which a cluster has had no clients.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

/// Tracks a cluster's open connections and when the last one was closed.
#[derive(Debug, Clone)]
pub(crate) struct Activity(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    connections: usize,
    last: Instant,
}

/// An open connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Connected(Activity);

impl Activity {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(State { connections: 0, last: Instant::now() })))
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn begin(&self) -> Connected {
        self.change(|state| state.connections += 1);
        Connected(self.clone())
    }

    /// Returns since when there has been no connection, or `None` while there is one.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (state.connections == 0).then_some(state.last)
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.change(|state| {
            state.connections = state.connections.saturating_sub(1);
            state.last = Instant::now();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_idle_when_the_last_client_left() {
        let activity = Activity::new();
        let since = activity.idle_since().unwrap();
        let (first, second) = (activity.begin(), activity.begin());
        drop(first);
        assert_eq!(activity.idle_since(), None);
        drop(second);
        assert!(activity.idle_since().unwrap() >= since);
    }
}
