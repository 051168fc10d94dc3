//! How a cluster is described and started.

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

/// Describes a cluster.
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
    /// Whether workloads are simulated at all. Default: yes, every [`Part`].
    #[must_use]
    pub fn workloads(mut self, yes: bool) -> Self {
        self.parts = if yes { Part::ALL.into() } else { BTreeSet::new() };
        self
    }

    /// Leaves a part of the workloads out. Default: none is left out.
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

    /// The number of nodes. Default: 1.
    #[must_use]
    pub fn nodes(mut self, count: usize) -> Self {
        self.nodes = count;
        self
    }

    /// Whether kubelets renew the leases of their nodes every 10 s, which no controller of the cluster asks for. Without that, hours
    /// of virtual time in which nothing happens take no time. Default: yes.
    #[must_use]
    pub fn heartbeats(mut self, yes: bool) -> Self {
        self.heartbeats = yes;
        self
    }

    /// Draws uids, generated names and addresses from a seed, so that a run repeats, and takes time from tokio's clock,
    /// starting at [`Builder::starting_at`]. Default: unpredictable, on the machine's clock.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Takes time from tokio's clock, which tests can pause, starting at this moment. Default: the machine's clock, or
    /// 2000-01-01 if there is a seed.
    #[must_use]
    pub fn starting_at(mut self, moment: Timestamp) -> Self {
        self.virtual_time = Some(moment);
        self
    }

    /// How long a pod waits for its containers. The annotation `cluster.steersman.dev/start-delay` says otherwise for a
    /// pod. Default: no time, though it is always seen waiting first.
    #[must_use]
    pub fn pod_start_delay(mut self, delay: Duration) -> Self {
        self.pod_start_delay = delay;
        self
    }

    /// How long the containers of pods that are meant to end (with a restart policy other than `Always`) run. The
    /// annotation `cluster.steersman.dev/run-for` says otherwise for a pod. Default: 100 ms.
    #[must_use]
    pub fn pod_run_time(mut self, time: Duration) -> Self {
        self.pod_run_time = time;
        self
    }

    /// How long a deleted pod takes to end, at most its grace period. The annotation
    /// `cluster.steersman.dev/stop-delay` says otherwise for a pod. Default: no time.
    #[must_use]
    pub fn pod_stop_delay(mut self, delay: Duration) -> Self {
        self.pod_stop_delay = delay;
        self
    }

    /// An image that cannot be pulled, as containers name it. May be said many times. Default: all are there.
    #[must_use]
    pub fn missing_image(mut self, image: impl Into<String>) -> Self {
        self.missing_images.insert(image.into());
        self
    }

    /// Listens on an address by TLS, on any free port if that is zero. Default: no listener, only clients in the process.
    #[must_use]
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = Some(address);
        self
    }

    /// Keeps everything in a directory, which is made if it is not there, and starts from what it holds: a write that was
    /// answered or seen is there again even if the process was killed. While the disk is full, writes are refused with 503 and
    /// `/readyz` fails. One cluster at a time can hold a directory. Without the feature `data-dir` the cluster does not start.
    /// Default: nothing is kept.
    #[must_use]
    pub fn data_directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.data_directory = Some(path.into());
        self
    }

    /// Whether decisions about requests are recorded, for [`Cluster::accesses`]. Default: no.
    #[must_use]
    pub fn record_access(mut self, yes: bool) -> Self {
        self.record_access = yes;
        self
    }

    /// What becomes of writes whose webhooks are behind services of the cluster. Default: [`WebhookPolicy::Fail`].
    #[must_use]
    pub fn webhooks(mut self, policy: WebhookPolicy) -> Self {
        self.webhooks = policy;
        self
    }

    /// Whether the cluster has the metrics API, for `kubectl top` and autoscalers, as with metrics-server installed: containers use
    /// half of their requests, or what the annotations `cluster.steersman.dev/cpu-usage` and
    /// `cluster.steersman.dev/memory-usage` say. Default: no, and where workloads run it answers for a metrics-server that is
    /// installed.
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
                // Readers see what every cluster has from the first moment on.
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

/// The name by which other API servers know this one.
const FRONT_PROXY: &str = "front-proxy-client";

/// 2000-01-01T00:00:00Z.
const MILLENNIUM: Timestamp = Timestamp::constant(946_684_800, 0);

/// What tokens of service accounts are signed with: as secret and as lasting as the authority's key.
fn signing_key(authority: &Authority) -> [u8; 32] {
    Sha256::new().chain_update("service account tokens").chain_update(authority.key()).finalize().into()
}
