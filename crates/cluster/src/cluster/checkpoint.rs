//! Checkpoints: the state of a cluster, from which others start.

use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use steersman_api::environment::{Environment as _, SeededEnvironment, SteppedEnvironment};
use steersman_apiserver::Server;
use tokio::runtime::Handle;

use super::{Cluster, parts::Parts};
use crate::{
    api_services::ApiServers, control_loop::SavedLoop, error::Error, options::Options, pki::Authority,
    services::Services, webhooks::WebhookPolicy,
};

/// The state of a cluster at one point, from which any number of clusters start, on any thread.
///
/// Cheap to clone. The new clusters have everything that the original had, down to revisions, uids and the timers of its
/// workloads, and share the memory of what they don't change.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// A copy of the server that receives no requests.
    server: Server,
    now: Timestamp,
    /// Drawn from the cluster's randomness, so that clusters started from the checkpoint don't repeat its uids.
    entropy: u64,
    authority: Arc<Authority>,
    token: String,
    services: Services,
    api_servers: ApiServers,
    webhooks: WebhookPolicy,
    metrics: bool,
    records_access: bool,
    workloads: Option<(Arc<Options>, Arc<SavedLoop>)>,
}

impl Cluster {
    /// Takes a checkpoint once the workloads have reconciled everything written so far.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::core::v1::{Namespace, Node};
    /// use kube::{Api, ResourceExt as _, api::DeleteParams};
    /// use steersman_cluster::Cluster;
    ///
    /// let checkpoint = Cluster::builder().seed(1).start().await?.checkpoint().await?;
    /// let (one, other) = (checkpoint.start(1)?, checkpoint.start(2)?);
    /// let nodes = |cluster: &Cluster| Api::<Node>::all(cluster.client());
    /// let node = nodes(&one).list(&Default::default()).await?.items.remove(0);
    /// nodes(&one).delete(&node.name_any(), &DeleteParams::default()).await?;
    /// assert_eq!(nodes(&other).get(&node.name_any()).await?.uid(), node.uid());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if the workloads have ended, which happens when their runtime ends.
    pub fn checkpoint(&self) -> BoxFuture<'_, Result<Checkpoint, Error>> {
        Box::pin(async move {
            let inner = &self.inner;
            self.settled().await;
            let workloads = match &inner.workloads {
                Some((options, control_loop)) => {
                    let saved = control_loop.save().await.ok_or(Error::Ended)?;
                    Some((Arc::clone(options), Arc::new(saved)))
                }
                None => None,
            };
            let (now, entropy) = (inner.environment.now(), inner.environment.random());
            // A restored control loop's watches start where it was saved: later writes are in the copied server, and its
            // watches deliver them.
            let server =
                Server::builder().environment(SeededEnvironment::new(now, entropy)).fork(&inner.server);
            Ok(Checkpoint {
                server: server.build(),
                now,
                entropy,
                authority: Arc::clone(&inner.authority),
                token: inner.token.clone(),
                services: inner.services.fork(),
                api_servers: inner.api_servers.clone(),
                webhooks: inner.webhooks,
                metrics: inner.metrics,
                records_access: inner.accesses.is_some(),
                workloads,
            })
        })
    }
}

impl Checkpoint {
    /// Starts a cluster in memory, without a listener, at the time of the checkpoint.
    ///
    /// Its clock is tokio's. Its randomness is determined by the checkpoint and the seed.
    ///
    /// # Errors
    /// Fails outside a tokio runtime.
    pub fn start(&self, seed: u64) -> Result<Cluster, Error> {
        self.start_at(self.now, seed)
    }

    /// Starts a cluster as [`Checkpoint::start`] does, but at another time.
    ///
    /// That time should be later than the checkpoint: otherwise timestamps that the cluster has written are in its future.
    ///
    /// # Errors
    /// Fails outside a tokio runtime.
    pub fn start_at(&self, now: Timestamp, seed: u64) -> Result<Cluster, Error> {
        let runtime = Handle::try_current()?;
        let environment = SeededEnvironment::new(now, self.entropy ^ seed);
        let services = self.services.fork();
        let mut parts = Parts {
            builder: Server::builder().fork(&self.server),
            clock: Arc::new(SteppedEnvironment::new(Arc::new(environment))),
            authority: Arc::clone(&self.authority),
            token: self.token.clone(),
            api_servers: self.api_servers.fork(services.clone()),
            services,
            webhooks: self.webhooks,
            metrics: self.metrics,
            records_access: self.records_access,
            options: self.workloads.as_ref().map(|(options, _)| Arc::clone(options)),
            saved: self.workloads.as_ref().map(|(_, saved)| Arc::clone(saved)),
        };
        let (server, accesses) = parts.build_server();
        Ok(parts.start(&runtime, server, accesses, None))
    }
}
