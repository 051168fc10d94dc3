//! Waking on watch events: what an assertion waits for is looked at again when it changed.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::cluster::{Cluster, Place};

/// Delay before a watch that failed is started again.
const RETRY: Duration = Duration::from_millis(500);

/// Watches of everything that a step waits for. They end when it is dropped.
#[derive(Default)]
pub(crate) struct Wake {
    changed: Arc<Notify>,
    watched: HashSet<(String, String)>,
    tasks: JoinSet<()>,
}

impl Wake {
    /// Watches a place from now on, if it is not watched already.
    pub(crate) fn watch(&mut self, cluster: &Cluster, place: &Place) {
        let key = (format!("{:?}", place.resource), format!("{}/{}", place.namespace, place.name));
        if !self.watched.insert(key) {
            return;
        }
        let (cluster, place, changed) = (cluster.clone(), place.clone(), Arc::clone(&self.changed));
        self.tasks.spawn(async move {
            loop {
                if let Ok(events) = cluster.watch(&place).await {
                    // Something may have gone since it was looked at, which the watch does not tell.
                    changed.notify_one();
                    let mut events = std::pin::pin!(events);
                    while let Some(Ok(_)) = events.next().await {
                        changed.notify_one();
                    }
                }
                // Something may have happened while there was no watch.
                changed.notify_one();
                tokio::time::sleep(RETRY).await;
            }
        });
    }

    /// Waits for a change.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}
