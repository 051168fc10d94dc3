//! Wakes a waiting assertion on watch events, so that it is checked again when its objects change.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::cluster::{Cluster, ObjectKey};

/// Delay before a failed watch is restarted.
const RETRY: Duration = Duration::from_millis(500);

/// The watches of all objects that a step waits for. They end on drop.
#[derive(Default)]
pub(crate) struct Wake {
    changed: Arc<Notify>,
    watched: HashSet<(String, String)>,
    tasks: JoinSet<()>,
}

impl Wake {
    /// Starts watching a place, if it is not watched already.
    pub(crate) fn watch(&mut self, cluster: &Cluster, place: &ObjectKey) {
        let key = (format!("{:?}", place.resource), format!("{}/{}", place.namespace, place.name));
        if !self.watched.insert(key) {
            return;
        }
        let (cluster, place, changed) = (cluster.clone(), place.clone(), Arc::clone(&self.changed));
        self.tasks.spawn(async move {
            loop {
                if let Ok(events) = cluster.watch(&place).await {
                    // An object may have been deleted since the check, which the new watch does not report.
                    changed.notify_one();
                    let mut events = std::pin::pin!(events);
                    while let Some(Ok(_)) = events.next().await {
                        changed.notify_one();
                    }
                }
                // Something may have changed while there was no watch.
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
