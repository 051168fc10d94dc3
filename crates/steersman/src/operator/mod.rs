//! The operator: its controllers, and what they share.

mod command;
mod doctor;
mod logs;

use std::{collections::BTreeSet, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use http::StatusCode;
use k8s_openapi::{
    api::rbac::v1::PolicyRule,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::Client;
use tokio::{sync::watch, task::JoinSet};

pub use self::doctor::Finding;
use crate::{
    cache::Caches,
    context::{Shared, events::Recorder},
    controller::{Blueprint, Controller, Engine},
    door::{self, Fence, Permit},
    environment::{Environment, SystemEnvironment},
    error::{Error, Result},
    http as server,
    leader::{Candidate, LeaderElection},
    manifests::Declarations,
    metrics::Metrics,
    webhook::{self, Certificates, Conversion, Source, Webhook, Webhooks},
};

/// The first minor version of Kubernetes whose API servers stream lists without being told to.
const STREAMING: u32 = 34;

/// An operator, described. [`Operator::main`] makes a program of it, [`Operator::run_until`] runs it inside another one.
#[must_use]
pub struct Operator {
    name: String,
    version: String,
    controllers: Vec<Blueprint>,
    crds: Vec<CustomResourceDefinition>,
    rules: Vec<PolicyRule>,
    namespaces: Vec<String>,
    environment: Arc<dyn Environment>,
    grace: Duration,
    election: Option<LeaderElection>,
    metrics: Option<SocketAddr>,
    probes: Option<SocketAddr>,
    debug: bool,
    webhooks: Webhooks,
    webhook_address: Option<SocketAddr>,
    webhook_certificates: Option<PathBuf>,
}

impl Operator {
    /// An operator without controllers. Its name is the field manager of everything that it applies, so it must stay
    /// the same from version to version.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: "0.0.0".into(),
            controllers: Vec::new(),
            crds: Vec::new(),
            rules: Vec::new(),
            namespaces: Vec::new(),
            environment: Arc::new(SystemEnvironment),
            grace: Duration::from_secs(30),
            election: None,
            metrics: None,
            probes: None,
            debug: false,
            webhooks: Webhooks::default(),
            webhook_address: None,
            webhook_certificates: None,
        }
    }

    /// The version that `version` prints, `env!("CARGO_PKG_VERSION")` most often. Default: `0.0.0`.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Adds a controller.
    pub fn controller<K>(mut self, controller: Controller<K>) -> Self {
        self.controllers.push(controller.blueprint);
        self
    }

    /// Adds a definition, or replaces the one that a controller brings along, with several versions for instance.
    pub fn crd(mut self, crd: CustomResourceDefinition) -> Self {
        self.crds.push(crd);
        self
    }

    /// Asks for permissions beyond those that follow from what the controllers declare.
    pub fn permission<'a>(
        mut self,
        group: &str,
        resources: impl IntoIterator<Item = &'a str>,
        verbs: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        self.rules.push(PolicyRule {
            api_groups: Some(vec![group.to_owned()]),
            resources: Some(resources.into_iter().map(str::to_owned).collect()),
            verbs: verbs.into_iter().map(str::to_owned).collect(),
            ..PolicyRule::default()
        });
        self
    }

    /// Watches these namespaces alone. Default: all.
    pub fn namespaces<S: Into<String>>(mut self, namespaces: impl IntoIterator<Item = S>) -> Self {
        self.namespaces = namespaces.into_iter().map(Into::into).collect();
        self
    }

    /// Takes time and randomness from here. Default: [`SystemEnvironment`].
    pub fn environment(mut self, environment: impl Environment + 'static) -> Self {
        self.environment = Arc::new(environment);
        self
    }

    /// How long reconciles under way may take to end when the operator stops. Default: 30 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Works only while it leads; until then it stands by with warm caches. Default: no election.
    pub fn leader_election(mut self, election: LeaderElection) -> Self {
        self.election = Some(election);
        self
    }

    /// Serves `/metrics` here. Default: not at all; [`Operator::main`]: port 8080.
    pub fn metrics_address(mut self, address: SocketAddr) -> Self {
        self.metrics = Some(address);
        self
    }

    /// Serves `/healthz` and `/readyz` here. Default: not at all; [`Operator::main`]: port 8081.
    pub fn probe_address(mut self, address: SocketAddr) -> Self {
        self.probes = Some(address);
        self
    }

    /// Also serves `/debug/queue` and `/debug/cache` beside the probes. Default: no.
    pub fn debug(mut self, yes: bool) -> Self {
        self.debug = yes;
        self
    }

    /// Adds a webhook.
    pub fn webhook(mut self, webhook: Webhook) -> Self {
        self.webhooks.admission.push(webhook);
        self
    }

    /// Converts between the versions of a kind.
    pub fn conversion(mut self, conversion: Conversion) -> Self {
        self.webhooks.conversions.push(conversion);
        self
    }

    /// Serves the webhooks here. Default: not at all; [`Operator::main`]: port 9443.
    pub fn webhook_address(mut self, address: SocketAddr) -> Self {
        self.webhook_address = Some(address);
        self
    }

    /// Takes the webhooks' certificate from `tls.crt` and `tls.key` in this folder, and takes it anew when it changes.
    /// Default: the operator's own authority, kept in a secret, and announced to the cluster in the webhooks' configurations.
    pub fn webhook_certificates(mut self, folder: impl Into<PathBuf>) -> Self {
        self.webhook_certificates = Some(folder.into());
        self
    }

    /// What the operator declares: definitions and permissions.
    pub(crate) fn declarations(&self) -> Declarations<'_> {
        Declarations {
            name: &self.name,
            controllers: &self.controllers,
            crds: &self.crds,
            rules: &self.rules,
            namespaces: &self.namespaces,
            webhooks: &self.webhooks,
        }
    }

    #[cfg(feature = "testing")]
    pub(crate) fn webhooks(&self) -> &Webhooks {
        &self.webhooks
    }

    /// The definitions of the operator's kinds.
    #[must_use]
    pub fn crds(&self) -> Vec<CustomResourceDefinition> {
        self.declarations().crds()
    }

    /// The permissions that the operator needs.
    #[must_use]
    pub fn rules(&self) -> Vec<PolicyRule> {
        self.declarations().rules()
    }

    /// Everything that the operator needs in a cluster, as YAML: what the command `manifests` prints.
    ///
    /// # Errors
    /// Fails if a definition can't be written.
    pub fn manifests(&self, namespace: &str, image: &str) -> Result<String> {
        self.declarations().manifests(namespace, image)
    }

    /// Compares a cluster with what the operator declares: definitions that are missing or stale, and permissions that
    /// it lacks. No findings: all is well.
    ///
    /// # Errors
    /// Fails if the API server can't be asked.
    pub async fn doctor(&self, client: &Client) -> Result<Vec<Finding>> {
        doctor::examine(&self.declarations(), client).await
    }

    /// Applies the operator's definitions to a cluster.
    ///
    /// # Errors
    /// Fails if the API server refuses one.
    pub async fn install_crds(&self, client: &Client) -> Result<()> {
        doctor::install(&self.declarations(), client).await
    }

    /// Runs until `stop` completes. Reconciles under way then have [the grace period](Operator::grace) to end.
    ///
    /// # Errors
    /// Fails if a port can't be opened, if the caches can't be filled, or if the leadership is lost.
    pub async fn run_until(self, client: Client, stop: impl Future<Output = ()> + Send) -> Result<()> {
        // All background work ends when this function does.
        let mut servers = JoinSet::new();
        if let Some(address) = self.webhook_address.filter(|_| !self.webhooks.is_empty()) {
            self.serve_webhooks(address, &client, &mut servers).await?;
        }
        let name: Arc<str> = self.name.into();
        let metrics = Metrics::new();
        let fence = Fence::new(Permit::Always);
        let counted = door::guarded(client.clone(), None, metrics.clone());
        let fenced = door::guarded(client.clone(), Some(fence.clone()), metrics.clone());
        let (events, writer) =
            Recorder::new(fenced.clone(), Arc::clone(&name), Arc::clone(&self.environment));
        let streaming = streams_lists(&client).await;
        let shared = Arc::new(Shared {
            name: Arc::clone(&name),
            client: fenced,
            caches: Caches::new(counted, name, self.namespaces, streaming),
            events,
            environment: Arc::clone(&self.environment),
            metrics: metrics.clone(),
        });
        let mut names = BTreeSet::new();
        let mut engines = Vec::new();
        let mut streams = Vec::new();
        for blueprint in self.controllers {
            let (engine, more) = Engine::new(blueprint);
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
            servers.spawn(server::serve(server::bind(address).await?, {
                let metrics = metrics.clone();
                move |request| std::future::ready(metrics_answer(&metrics, request.uri().path()))
            }));
        }
        if let Some(address) = self.probes {
            let probes = Probes {
                ready: ready.subscribe(),
                debug: self.debug.then(|| (engines.clone(), Arc::clone(&shared))),
            };
            servers.spawn(server::serve(server::bind(address).await?, move |request| {
                std::future::ready(probes.answer(request.uri().path()))
            }));
        }
        let mut election = self
            .election
            .map(|options| (options.lease.clone(), Candidate::new(client, options, fence, self.environment)));

        tokio::pin!(stop);
        let start = async {
            for engine in &engines {
                engine.sync(&shared).await?;
            }
            ready.send_replace(true);
            if let Some((lease, candidate)) = &mut election {
                tracing::info!(lease, identity = candidate.identity, "standing by, caches are warm");
                metrics.leads(lease, false);
                candidate.acquire().await;
                metrics.leads(lease, true);
                tracing::info!(lease, "leading");
            }
            Ok::<_, Error>(())
        };
        tokio::select! {
            started = start => started?,
            () = &mut stop => return Ok(()),
        }
        let mut workers = JoinSet::new();
        for (engine, streams) in engines.iter().zip(streams) {
            tracing::info!(controller = %engine.name, kind = %engine.kind, "started");
            workers.spawn(Arc::clone(engine).run(Arc::clone(&shared), streams));
        }
        let lost = async {
            match &mut election {
                Some((_, candidate)) => candidate.keep().await,
                None => std::future::pending().await,
            }
        };
        let lost = tokio::select! {
            error = lost => Some(error),
            () = stop => None,
        };
        for engine in &engines {
            engine.queue.close();
        }
        if let Some(error) = lost {
            // Another one may start any moment: whatever is under way ends here.
            workers.shutdown().await;
            return Err(error);
        }
        tracing::info!("stopping");
        let finish = async { while workers.join_next().await.is_some() {} };
        let rest = async {
            if tokio::time::timeout(self.grace, finish).await.is_err() {
                tracing::warn!(grace = ?self.grace, "reconciles under way were cut off");
            }
        };
        match &mut election {
            Some((lease, candidate)) => {
                // The lease is kept alive until the last write is done.
                tokio::select! {
                    () = rest => {}
                    error = candidate.keep() => tracing::warn!(%error, "while stopping"),
                }
                workers.shutdown().await;
                candidate.release().await;
                metrics.leads(lease, false);
            }
            None => rest.await,
        }
        Ok(())
    }
}

impl Operator {
    /// Opens the webhooks' port, and tells the cluster about it if the certificate is the operator's own.
    async fn serve_webhooks(
        &self,
        address: SocketAddr,
        client: &Client,
        servers: &mut JoinSet<()>,
    ) -> Result<()> {
        let namespace = client.default_namespace().to_owned();
        let source = match &self.webhook_certificates {
            Some(folder) => Source::Files(folder.clone()),
            None => Source::Own { name: self.declarations().webhook_service(), namespace: namespace.clone() },
        };
        let (certificates, authority) = Certificates::load(source, client).await?;
        let listener = server::bind(address).await?;
        servers.spawn(Arc::clone(&certificates).watch(client.clone()));
        let webhooks = self.webhooks.clone();
        servers.spawn(async move {
            if let Err(error) = webhook::serve(listener, certificates, webhooks).await {
                tracing::error!(%error, "the webhooks are not served");
            }
        });
        if let Some(authority) = authority {
            doctor::announce(&self.declarations(), client, &namespace, &authority).await?;
        }
        Ok(())
    }
}

fn metrics_answer(metrics: &Metrics, path: &str) -> server::Answer {
    if path == "/metrics" {
        let format = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        server::text(StatusCode::OK, format, metrics.render())
    } else {
        server::text(StatusCode::NOT_FOUND, "text/plain", "metrics are at /metrics\n")
    }
}

struct Probes {
    ready: watch::Receiver<bool>,
    debug: Option<(Vec<Arc<Engine>>, Arc<Shared>)>,
}

impl Probes {
    fn answer(&self, path: &str) -> server::Answer {
        let plain = |status, body: &str| server::text(status, "text/plain", body.to_owned());
        match (path, &self.debug) {
            ("/healthz" | "/livez", _) => plain(StatusCode::OK, "ok"),
            ("/readyz", _) if *self.ready.borrow() => plain(StatusCode::OK, "ok"),
            ("/readyz", _) => plain(StatusCode::SERVICE_UNAVAILABLE, "the caches are not filled yet"),
            ("/debug/queue", Some((engines, _))) => {
                let queues: serde_json::Map<_, _> =
                    engines.iter().map(|engine| (engine.name.to_string(), engine.queue.describe())).collect();
                server::text(
                    StatusCode::OK,
                    "application/json",
                    serde_json::Value::Object(queues).to_string(),
                )
            }
            ("/debug/cache", Some((_, shared))) => {
                let caches: Vec<_> = shared.caches.all().iter().map(|(selection, store)| {
                    let (objects, bytes) = store.size();
                    let progress = store.progress.borrow().clone();
                    serde_json::json!({
                        "kind": store.kind.to_string(), "labels": selection.labels, "fields": selection.fields,
                        "objects": objects, "bytes": bytes, "synced": progress.synced, "error": progress.error,
                        "silenceSeconds": store.silence().as_secs(),
                    })
                }).collect();
                server::text(StatusCode::OK, "application/json", serde_json::Value::Array(caches).to_string())
            }
            _ => plain(StatusCode::NOT_FOUND, "there are /healthz and /readyz\n"),
        }
    }
}

/// Whether the API server is new enough to stream lists.
async fn streams_lists(client: &Client) -> bool {
    let Ok(version) = client.apiserver_version().await else { return false };
    let digits: String = version.minor.chars().take_while(char::is_ascii_digit).collect();
    version.major != "1" || digits.parse().is_ok_and(|minor: u32| minor >= STREAMING)
}
