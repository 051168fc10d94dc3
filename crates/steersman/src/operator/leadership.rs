//! When a replica may work: always, as the leader, or on its share of the objects.

use std::sync::Arc;

use crate::{controller::Engine, error::Error, leader::Candidate, metrics::Metrics, shard::SlotManager};

/// When a replica may work.
pub(super) enum Leadership {
    /// Always: it is the only replica.
    Always,
    /// While it is the leader.
    Leader(Box<Candidate>),
    /// On its own share of the objects, which changes.
    Share(Box<SlotManager>),
}

impl Leadership {
    /// Waits until work may begin.
    pub(super) async fn acquire(&mut self, metrics: &Metrics) {
        if let Self::Leader(candidate) = self {
            let lease = candidate.lease().to_owned();
            tracing::info!(
                lease,
                identity = candidate.identity,
                "waiting for the leader lease, caches are synced"
            );
            metrics.leads(&lease, false);
            candidate.acquire().await;
            metrics.leads(&lease, true);
            tracing::info!(lease, "leading");
        }
    }

    /// Keeps the leadership; returns when it is lost.
    pub(super) async fn renew(&mut self, engines: &[Arc<Engine>]) -> Error {
        match self {
            Self::Always => std::future::pending().await,
            Self::Leader(candidate) => candidate.renew().await,
            Self::Share(manager) => manager.run(engines).await,
        }
    }

    /// Stops taking work: idle slots are released from now on.
    pub(super) fn begin_shutdown(&mut self) {
        if let Self::Share(manager) = self {
            manager.begin_shutdown();
        }
    }

    /// Releases the leadership, so that another replica takes over at once. No work may be in progress.
    pub(super) async fn release(&mut self, metrics: &Metrics) {
        match self {
            Self::Always => {}
            Self::Leader(candidate) => {
                candidate.release().await;
                metrics.leads(candidate.lease(), false);
            }
            Self::Share(manager) => manager.release().await,
        }
    }
}
