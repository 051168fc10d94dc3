//! Configuration and start of a cluster.

use std::{collections::BTreeSet, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::Client;
use sha2::{Digest as _, Sha256};
use steersman_api::{
    environment::{Environment, SeededEnvironment, SteppedEnvironment, SystemEnvironment},
    user::User,
};
use steersman_apiserver::{ClientAuthentication, RequestHeaderAuthentication, Server};

use crate::{
    api_services::ApiServers,
    cluster::{Cluster, Parts, draw_token},
    disk,
    error::Error,
    listener::Listener,
    metrics,
    options::{Options, Part},
    pki::Authority,
    services::Services,
    tls_client::ClientCertificate,
    user_service::UserService,
    webhooks::WebhookPolicy,
};

/// Configures and starts a cluster.
#[derive(Debug)]
pub struct Builder {
    parts: BTreeSet<Part>,
    nodes: usize,
    heartbeats: bool,
    seed: Option<u64>,
    virtual_time: Option<Timestamp>,
    pod_start_delay: Duration,
    pod_run_time: Duration,
    pod_stop_delay: Duration,
    missing_images: BTreeSet<String>,
    listen: Option<SocketAddr>,
    data_directory: Option<PathBuf>,
    record_access: bool,
    webhooks: WebhookPolicy,
    metrics: bool,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            parts: Part::ALL.into(),
            nodes: 1,
            heartbeats: true,
            seed: None,
            virtual_time: None,
            pod_start_delay: Duration::ZERO,
            pod_run_time: Duration::from_millis(100),
            pod_stop_delay: Duration::ZERO,
            missing_images: BTreeSet::new(),
            listen: None,
            data_directory: None,
            record_access: false,
            webhooks: WebhookPolicy::default(),
            metrics: false,
        }
    }
}

impl Builder {
    /// Whether workloads are simulated. Default: yes, every [`Part`].
    #[must_use]
    pub fn workloads(mut self, yes: bool) -> Self {
        self.parts = if yes { Part::ALL.into() } else { BTreeSet::new() };
        self
    }

    /// Disables a part of the workloads. Default: all parts are enabled.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use steersman_cluster::{Cluster, Part};
    ///
    /// // A scheduler of your own takes the place of the simulated one.
    /// let cluster = Cluster::builder().without(Part::Scheduler).start().await?;
    /// # let _ = cluster;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn without(mut self, part: Part) -> Self {
        self.parts.remove(&part);
        self
    }

    /// Sets the number of nodes. Default: 1.
    #[must_use]
    pub fn nodes(mut self, count: usize) -> Self {
        self.nodes = count;
        self
    }

    /// Whether kubelets renew the leases of their nodes every 10 s. Default: yes.
    ///
    /// No controller of the cluster needs the renewals. Without them, hours of idle virtual time pass instantly.
    #[must_use]
    pub fn heartbeats(mut self, yes: bool) -> Self {
        self.heartbeats = yes;
        self
    }

    /// Seeds uids, generated names and addresses, so that a run is repeatable. Default: unpredictable.
    ///
    /// Time is then that of tokio's clock, starting at [`Builder::starting_at`], rather than of the machine's clock.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Uses tokio's clock, which tests can pause, starting at this time.
    ///
    /// Default: the machine's clock, or 2000-01-01 with a seed.
    #[must_use]
    pub fn starting_at(mut self, moment: Timestamp) -> Self {
        self.virtual_time = Some(moment);
        self
    }

    /// Sets the delay before a pod's containers start. Default: zero, although a pod is always pending first.
    ///
    /// The annotation `cluster.steersman.dev/start-delay` overrides it for a pod.
    #[must_use]
    pub fn pod_start_delay(mut self, delay: Duration) -> Self {
        self.pod_start_delay = delay;
        self
    }

    /// Sets how long the containers of pods run that are meant to terminate. Default: 100 ms.
    ///
    /// These are the pods with a restart policy other than `Always`. The annotation `cluster.steersman.dev/run-for`
    /// overrides it for a pod.
    #[must_use]
    pub fn pod_run_time(mut self, time: Duration) -> Self {
        self.pod_run_time = time;
        self
    }

    /// Sets how long a deleted pod takes to terminate, up to its grace period. Default: zero.
    ///
    /// The annotation `cluster.steersman.dev/stop-delay` overrides it for a pod.
    #[must_use]
    pub fn pod_stop_delay(mut self, delay: Duration) -> Self {
        self.pod_stop_delay = delay;
        self
    }

    /// Adds an image that can't be pulled, as named in containers. Default: all images can be pulled.
    #[must_use]
    pub fn missing_image(mut self, image: impl Into<String>) -> Self {
        self.missing_images.insert(image.into());
        self
    }

    /// Serves HTTPS on an address; port 0 takes any free port. Default: no listener, only in-process clients.
    #[must_use]
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = Some(address);
        self
    }

    /// Persists the cluster in a directory, and restores what it contains. Default: everything is in memory.
    ///
    /// The directory is created if it does not exist. Every write that was acknowledged or observed survives even if the
    /// process is killed. While the disk is full, writes are refused with 503 and `/readyz` fails. A directory can be used
    /// by one cluster at a time. Without the feature `data-dir` the cluster does not start.
    #[must_use]
    pub fn data_directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.data_directory = Some(path.into());
        self
    }

    /// Whether authorization decisions are recorded, for [`Cluster::accesses`]. Default: no.
    #[must_use]
    pub fn record_access(mut self, yes: bool) -> Self {
        self.record_access = yes;
        self
    }

    /// Sets the policy for webhooks behind services of the cluster. Default: [`WebhookPolicy::Fail`].
    #[must_use]
    pub fn webhooks(mut self, policy: WebhookPolicy) -> Self {
        self.webhooks = policy;
        self
    }

    /// Whether the cluster serves the metrics API, as with metrics-server installed. Default: no.
    ///
    /// `kubectl top` and autoscalers use it. Containers use half of their requests, or what the annotations
    /// `cluster.steersman.dev/cpu-usage` and `cluster.steersman.dev/memory-usage` say. If this is off and workloads are
    /// simulated, the metrics API is served once a metrics-server is installed.
    #[must_use]
    pub fn metrics(mut self, yes: bool) -> Self {
        self.metrics = yes;
        self
    }

    /// Starts the cluster.
    ///
    /// # Errors
    /// Fails outside a tokio runtime, or if a certificate can't be made, the port can't be opened, the data directory can't be
    /// used or the metrics API can't be installed.
    pub fn start(self) -> BoxFuture<'static, Result<Cluster, Error>> {
        Box::pin(async move {
            let runtime = tokio::runtime::Handle::try_current()?;
            let mut builder = Server::builder();
            let (authority, token) = match &self.data_directory {
                None => (Authority::generate()?, draw_token()?),
                Some(path) => {
                    let (restored, authority, token) = disk::restore(path, builder).await?;
                    builder = restored;
                    (authority, token)
                }
            };
            let authority = Arc::new(authority);
            let origin: Arc<dyn Environment> = match (self.seed, self.virtual_time) {
                (None, None) => Arc::new(SystemEnvironment),
                (seed, start) => {
                    let seed = seed.unwrap_or_else(|| SystemEnvironment.random());
                    Arc::new(SeededEnvironment::new(start.unwrap_or(MILLENNIUM), seed))
                }
            };
            if self.seed.is_none() {
                builder = builder.signing_key(signing_key(&authority));
            }
            let services = Services::default();
            let front_proxy = Authority::front_proxy()?;
            let (certificate, key) = front_proxy.client(FRONT_PROXY, None)?;
            let api_servers =
                ApiServers::new(services.clone(), ClientCertificate::from_pem(&certificate, &key)?);
            let options = (!self.parts.is_empty()).then(|| {
                Arc::new(Options {
                    parts: self.parts,
                    nodes: self.nodes,
                    heartbeats: self.heartbeats,
                    pod_start_delay: self.pod_start_delay,
                    pod_run_time: self.pod_run_time,
                    pod_stop_delay: self.pod_stop_delay,
                    missing_images: self.missing_images,
                    authority: Arc::clone(&authority),
                })
            });
            let mut parts = Parts {
                builder,
                clock: Arc::new(SteppedEnvironment::new(origin)),
                authority,
                token,
                services,
                api_servers,
                webhooks: self.webhooks,
                metrics: self.metrics,
                records_access: self.record_access,
                options,
                saved: None,
            };
            let (server, accesses) = parts.build_server();
            server.publish_authentication(&ClientAuthentication {
                client_authorities: parts.authority.certificate().to_owned(),
                request_headers: Some(RequestHeaderAuthentication::new(
                    front_proxy.certificate(),
                    vec![FRONT_PROXY.to_owned()],
                )),
            });
            if let Some(path) = &self.data_directory {
                // Readers see the objects that every cluster has only once they are durable.
                server.store().sync().await.map_err(|e| Error::DataDirectory(path.clone(), Box::new(e)))?;
            }
            if self.metrics {
                let installer = UserService::unrestricted(server.service(), User::admin());
                metrics::install(&Client::new(installer, "default")).await?;
            }
            let listener = match self.listen {
                Some(wanted) => Some(Listener::bind(wanted, &parts.authority).await?),
                None => None,
            };
            Ok(parts.start(&runtime, server, accesses, listener))
        })
    }
}

/// The common name of the front proxy's client certificate.
const FRONT_PROXY: &str = "front-proxy-client";

/// 2000-01-01T00:00:00Z.
const MILLENNIUM: Timestamp = Timestamp::constant(946_684_800, 0);

/// Derives the key that signs service account tokens: as secret and as durable as the authority's key.
fn signing_key(authority: &Authority) -> [u8; 32] {
    Sha256::new().chain_update("service account tokens").chain_update(authority.key()).finalize().into()
}
