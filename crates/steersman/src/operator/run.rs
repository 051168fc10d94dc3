//! Runs an operator, from opening the first port to its last write.

use std::{collections::BTreeSet, net::SocketAddr, sync::Arc};

use futures::{FutureExt as _, future::BoxFuture};
use kube::Client;
use tokio::{sync::watch, task::JoinSet};

use super::{Operator, doctor::Announcement, leadership::Leadership, probes::Probes};
use crate::{
    cache::Caches,
    certificate::{Certificates, Source},
    context::{Shared, events::Recorder},
    controller::Engine,
    environment::SystemEnvironment,
    error::{Error, Result},
    http as server,
    metrics::Metrics,
    shard::Shards,
    webhook,
    write_guard::{self, Fence, Permit},
};

/// The first minor version of Kubernetes with streaming lists enabled by default.
const STREAMING: u32 = 34;

impl Operator {
    /// Runs until `stop` completes. Reconciles in progress then have [the grace period](Operator::grace) to end.
    ///
    /// # Errors
    /// Fails if a port can't be opened, if a cache does not sync, or if the leadership is lost.
    pub async fn run_until(self, client: Client, stop: impl Future<Output = ()> + Send) -> Result<()> {
        self.run_boxed(client, Box::pin(stop)).await
    }

    /// Boxed, so that an operator is compiled once, whatever the type of `stop`.
    fn run_boxed<'a>(self, client: Client, stop: BoxFuture<'a, ()>) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.run_controllers(client, stop))
    }

    async fn run_controllers(mut self, client: Client, mut stop: BoxFuture<'_, ()>) -> Result<()> {
        // All background work ends when this function does.
        let mut servers = JoinSet::new();
        let metrics = Metrics::of_host(self.api_server.as_deref().unwrap_or("unknown"));
        metrics.add_texts(std::mem::take(&mut self.metrics_sources));
        let environment = self.take_environment();
        if let Some(address) = self.webhook_address.filter(|_| !self.webhooks.is_empty()) {
            self.serve_webhooks(address, &client, &metrics, &mut servers).await?;
        }
        let name: Arc<str> = self.name.into();
        let fence = Fence::new(Permit::Always);
        let counted = write_guard::guarded(client.clone(), None, metrics.clone());
        let fenced = write_guard::guarded(client.clone(), Some(fence.clone()), metrics.clone());
        let (events, writer) = Recorder::new(fenced.clone(), Arc::clone(&name), Arc::clone(&environment));
        let streaming = streams_lists(&client).await;
        let mut shards = None;
        let mut leadership = Leadership::Always;
        if let Some(sharding) = self.sharding {
            let (share, manager) = Shards::new(sharding, &name, &counted, &environment, &metrics);
            tracing::info!(identity = share.identity, "sharding the objects across replicas");
            shards = Some(share);
            leadership = Leadership::Share(Box::new(manager));
        } else if let Some(election) = self.election {
            let candidate = election.candidate(counted.clone(), fence, Arc::clone(&environment));
            leadership = Leadership::Leader(Box::new(candidate));
        }
        let shared = Arc::new(Shared {
            name: Arc::clone(&name),
            client: fenced,
            caches: Caches::new(counted.clone(), name, self.namespaces, streaming),
            events,
            environment,
            metrics: metrics.clone(),
            shards,
        });
        let mut names = BTreeSet::new();
        let mut engines = Vec::new();
        let mut streams = Vec::new();
        for spec in self.controllers {
            let (engine, more) = Engine::new(spec, &metrics);
            if !names.insert(engine.name.to_string()) {
                return Err(Error::DuplicateName(engine.name.to_string()));
            }
            engines.push(engine);
            streams.push(more);
        }
        metrics.observe(&engines, &shared);
        let ready = watch::Sender::new(false);
        servers.spawn(writer);
        if let Some(address) = self.metrics {
            // Reviews change nothing in the cluster, so replicas that do not lead may request them too.
            self.metrics_security.serve(address, &counted, &metrics, &mut servers).await?;
        }
        if let Some(address) = self.probes {
            let probes = Probes {
                ready: ready.subscribe(),
                debug: self.debug.then(|| (engines.clone(), Arc::clone(&shared))),
            };
            servers.spawn(server::serve(server::bind(address).await?, None, move |request| {
                std::future::ready(probes.answer(request.uri().path()))
            }));
        }

        let start = async {
            for engine in &engines {
                engine.sync(&shared).await?;
            }
            ready.send_replace(true);
            leadership.acquire(&metrics).await;
            Ok::<_, Error>(())
        };
        tokio::select! {
            started = start => started?,
            () = &mut stop => {
                servers.shutdown().await;
                return Ok(());
            }
        }
        let mut workers = JoinSet::new();
        for (engine, streams) in engines.iter().zip(streams) {
            tracing::info!(controller = %engine.name, kind = %engine.kind, "started");
            workers.spawn(Arc::clone(engine).run(Arc::clone(&shared), streams).boxed());
        }
        let lost = tokio::select! {
            error = leadership.renew(&engines) => Some(error),
            () = stop => None,
        };
        for engine in &engines {
            engine.queue.close();
        }
        if let Some(error) = lost {
            // Another replica may start at any moment: work in progress is aborted here.
            workers.shutdown().await;
            return Err(error);
        }
        tracing::info!("stopping");
        leadership.begin_shutdown();
        let finish = async { while workers.join_next().await.is_some() {} };
        // The leadership is kept until the last write is done.
        tokio::select! {
            ended = tokio::time::timeout(self.grace, finish) => if ended.is_err() {
                tracing::warn!(grace = ?self.grace, "running reconciles were cancelled");
            },
            error = leadership.renew(&engines) => tracing::warn!(%error, "leadership lost while stopping"),
        }
        workers.shutdown().await;
        leadership.release(&metrics).await;
        // The ports are free when this returns: the next operator of the process can open them at once.
        servers.shutdown().await;
        Ok(())
    }

    /// Listens on the webhooks' port, and publishes the CA bundle if the certificate is the operator's own.
    async fn serve_webhooks(
        &self,
        address: SocketAddr,
        client: &Client,
        metrics: &Metrics,
        servers: &mut JoinSet<()>,
    ) -> Result<()> {
        let namespace = client.default_namespace().to_owned();
        let source = match &self.webhook_certificates {
            Some(folder) => Source::Files(folder.clone()),
            None => Source::Own { name: self.declarations().webhook_service(), namespace: namespace.clone() },
        };
        let listener = server::bind(address).await?;
        let announcement = Arc::new(Announcement {
            operator: self.name.clone(),
            client: client.clone(),
            // No manifest contains the URL of an operator outside the cluster.
            whole: self.webhook_url.is_some(),
        });
        let configurations = self.declarations().webhook_configurations(&namespace);
        let announce = Box::new(move |authority: Vec<u8>| {
            let (announcement, configurations) = (Arc::clone(&announcement), configurations.clone());
            Box::pin(async move { announcement.make(configurations, &authority).await })
                as BoxFuture<'static, _>
        });
        // The peers of connections use the machine's clock, whatever the operator uses.
        let environment = Arc::new(SystemEnvironment);
        let certificates =
            Certificates::load(source, client.clone(), environment, metrics.clone(), announce).await?;
        servers.spawn(Arc::clone(&certificates).watch());
        let (webhooks, metrics) = (self.webhooks.clone(), metrics.clone());
        servers.spawn(async move {
            if let Err(error) = webhook::serve(listener, certificates, webhooks, metrics).await {
                tracing::error!(%error, "the webhooks are not served");
            }
        });
        Ok(())
    }
}

/// Whether the API server is recent enough to stream lists.
async fn streams_lists(client: &Client) -> bool {
    let Ok(version) = client.apiserver_version().await else { return false };
    let digits: String = version.minor.chars().take_while(char::is_ascii_digit).collect();
    version.major != "1" || digits.parse().is_ok_and(|minor: u32| minor >= STREAMING)
}
