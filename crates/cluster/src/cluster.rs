//! The cluster and how it is described.

use std::{
    collections::BTreeSet,
    future::Future,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use bytes::Bytes;
use jiff::Timestamp;
use kube::Client;
use sha2::{Digest as _, Sha256};
use steersman_api::{
    environment::{Environment, SeededEnvironment, SystemEnvironment},
    user::User,
};
use steersman_apiserver::{Access, AccessLog, ClientAuthentication, RequestHeaderAuthentication, Server};
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
};

use crate::{
    activity::Activity,
    api_services::ApiServers,
    control_loop::{self, LoopHandle},
    disk::{Disk, Identity},
    error::Error,
    kubeconfig,
    listener::Listener,
    logs::SimulatedContainers,
    options::{Options, Part},
    pki::Authority,
    services::Services,
    tls_client::ClientCertificate,
    user_service::UserService,
    webhooks::{WebhookPolicy, Webhooks},
};

/// A running cluster. Cheap to clone. It runs until the last clone and the last of its clients are dropped, and then
/// its workloads stop and its port is free again.
#[derive(Debug, Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    server: Server,
    environment: Arc<dyn Environment>,
    authority: Arc<Authority>,
    token: String,
    services: Services,
    api_servers: ApiServers,
    /// There when decisions are recorded.
    accesses: Option<Arc<AccessLog>>,
    /// Where it listens.
    address: Option<SocketAddr>,
    activity: Activity,
    /// There when workloads run.
    control_loop: Option<LoopHandle>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Cluster {
    /// Starts a cluster with everything at its default: in the process, with workloads, one node, in real time.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = steersman_cluster::Cluster::start().await?.client();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails outside a tokio runtime, or if a certificate can't be made.
    pub async fn start() -> Result<Self, Error> {
        Self::builder().start().await
    }

    /// Starts to describe a cluster.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use steersman_cluster::Cluster;
    ///
    /// let cluster = Cluster::builder().nodes(3).seed(7).pod_start_delay(Duration::ZERO).start().await?;
    /// # let _ = cluster;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A client of the administrator, with `default` as its namespace.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client_as(User::admin())
    }

    /// Returns a client of a user, with `default` as its namespace. RBAC decides what the user may do.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::core::v1::Secret;
    /// use kube::{Api, api::ListParams};
    /// use steersman_cluster::{Cluster, User};
    ///
    /// let cluster = Cluster::start().await?;
    /// let operator = cluster.client_as(User::service_account("default", "operator"));
    /// let secrets: Api<Secret> = Api::default_namespaced(operator);
    /// assert!(secrets.list(&ListParams::default()).await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn client_as(&self, user: User) -> Client {
        Client::new(UserService::new(self.inner.server.service(), user, Some(self.keep_alive())), "default")
    }

    fn keep_alive(&self) -> Arc<dyn Send + Sync> {
        Arc::clone(&self.inner) as Arc<dyn Send + Sync>
    }

    /// The API server.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.inner.server
    }

    /// The source of the cluster's time and randomness: seeded if [`Builder::seed`] was said.
    #[must_use]
    pub fn environment(&self) -> &Arc<dyn Environment> {
        &self.inner.environment
    }

    /// The certificate of the authority that signs the cluster's certificates, in PEM.
    #[must_use]
    pub fn root_certificate(&self) -> &str {
        self.inner.authority.certificate()
    }

    /// Where the cluster listens, if it does.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.inner.address
    }

    /// Since when no client is connected to a port of the cluster: none while one is. Clients in the process do not count.
    #[must_use]
    pub fn idle_since(&self) -> Option<Instant> {
        self.inner.activity.idle_since()
    }

    /// Shows a certificate of another authority to the servers behind APIServices from now on, or none: its certificates and its
    /// key in PEM. Default: one of the cluster's own front proxy authority, which
    /// `kube-system/extension-apiserver-authentication` names.
    ///
    /// # Errors
    /// Fails if they are not PEM.
    pub fn set_proxy_certificate(&self, certificate: Option<(&str, &str)>) -> Result<(), Error> {
        let identity = certificate.map(|(chain, key)| ClientCertificate::from_pem(chain, key)).transpose()?;
        self.inner.api_servers.identify(identity);
        Ok(())
    }

    pub(crate) fn activity(&self) -> Activity {
        self.inner.activity.clone()
    }

    /// A kubeconfig for the administrator.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use steersman_cluster::Cluster;
    ///
    /// let cluster = Cluster::builder().listen(([127, 0, 0, 1], 0).into()).start().await?;
    /// assert!(cluster.kubeconfig()?.contains("https://127.0.0.1:"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if the cluster does not listen.
    pub fn kubeconfig(&self) -> Result<String, Error> {
        let address = self.inner.address.ok_or(Error::NoListener)?;
        Ok(kubeconfig::render(address, self.root_certificate(), &self.inner.token))
    }

    /// Returns a kubeconfig for a user, with a token that is valid as long as this cluster runs.
    ///
    /// # Errors
    /// Fails if the cluster does not listen, or the token can't be drawn.
    pub fn kubeconfig_as(&self, user: User) -> Result<String, Error> {
        let address = self.inner.address.ok_or(Error::NoListener)?;
        let token = draw_token()?;
        self.inner.server.add_token(token.as_str(), user);
        Ok(kubeconfig::render(address, self.root_certificate(), &token))
    }

    /// A certificate by which the listener knows a user, who may be in a group, and its key, both in PEM.
    ///
    /// # Errors
    /// Fails if the certificate can't be made.
    pub fn client_certificate(&self, user: &str, group: Option<&str>) -> Result<(String, String), Error> {
        self.inner.authority.client(user, group)
    }

    /// Who asked for what, whether they got it, and how often. Empty unless [`Builder::record_access`] was said.
    #[must_use]
    pub fn accesses(&self) -> Vec<(Access, u64)> {
        self.inner.accesses.as_ref().map(|log| log.entries()).unwrap_or_default()
    }

    /// What a user asked for and never got. Empty unless [`Builder::record_access`] was said.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::core::v1::Secret;
    /// use kube::{Api, api::ListParams};
    /// use steersman_cluster::{Cluster, User};
    ///
    /// let cluster = Cluster::builder().record_access(true).start().await?;
    /// let user = User::service_account("default", "operator");
    /// let name = user.name.clone();
    /// let secrets: Api<Secret> = Api::default_namespaced(cluster.client_as(user));
    /// assert!(secrets.list(&ListParams::default()).await.is_err());
    /// assert_eq!(cluster.denied(&name)[0].verb, "list");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn denied(&self, user: &str) -> Vec<Access> {
        self.inner.accesses.as_ref().map(|log| log.denied(user)).unwrap_or_default()
    }

    /// Asks webhooks behind a service at an address from now on, by HTTPS with the certificates that their configuration
    /// trusts, and the server of an APIService likewise. Without this, the service's annotation
    /// `cluster.steersman.dev/address` says where.
    pub fn webhooks_at(&self, namespace: &str, service: &str, address: SocketAddr) {
        self.inner.services.at(namespace, service, address);
    }

    /// Asks webhooks behind a service in the process from now on, and the server of an APIService likewise.
    pub fn webhooks_by<F, A>(&self, namespace: &str, service: &str, handler: F)
    where
        F: Fn(http::Request<Bytes>) -> A + Send + Sync + 'static,
        A: Future<Output = http::Response<Bytes>> + Send + 'static,
    {
        self.inner.services.by(namespace, service, handler);
    }

    /// Writes a kubeconfig for the administrator, readable by its owner alone.
    ///
    /// # Errors
    /// Fails if the cluster does not listen, or the file can't be written.
    pub fn write_kubeconfig(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let text = self.kubeconfig()?;
        kubeconfig::write(path, &text).map_err(|error| Error::Kubeconfig(path.to_owned(), error))
    }

    /// How often a controller of the workloads panicked. The others went on, and what it was about is tried again.
    #[must_use]
    pub fn controller_panics(&self) -> u64 {
        self.inner.control_loop.as_ref().map_or(0, |control_loop| control_loop.panics.load(Ordering::Relaxed))
    }

    /// Waits until the workloads have dealt with everything that was written so far, and with what they wrote
    /// themselves, except for what waits for time to pass. Returns at once if no workloads run.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kube::api::{Api, PostParams};
    /// use steersman_cluster::Cluster;
    ///
    /// let cluster = Cluster::builder().pod_start_delay(std::time::Duration::ZERO).start().await?;
    /// let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    /// let pod = serde_json::from_str(
    ///     r#"{"metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}}"#,
    /// )?;
    /// cluster.settled().await;
    /// pods.create(&PostParams::default(), &pod).await?;
    /// cluster.settled().await;
    /// assert!(pods.get("web").await?.spec.unwrap().node_name.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn settled(&self) {
        let Some(control_loop) = &self.inner.control_loop else { return };
        let mut settled = control_loop.settled.subscribe();
        let target = self.inner.server.store().revision();
        control_loop.wake.notify_one();
        // The sender lives as long as this cluster.
        let _ = settled.wait_for(|revision| *revision >= target).await;
    }
}

/// Describes a cluster.
#[derive(Debug)]
pub struct Builder {
    parts: BTreeSet<Part>,
    nodes: usize,
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
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            parts: Part::ALL.into(),
            nodes: 1,
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
    /// `/readyz` fails. One cluster at a time can hold a directory. Default: nothing is kept.
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

    /// Starts the cluster.
    ///
    /// # Errors
    /// Fails outside a tokio runtime, or if a certificate can't be made, the port can't be opened or the data directory
    /// can't be used.
    pub async fn start(self) -> Result<Cluster, Error> {
        let runtime = tokio::runtime::Handle::try_current()?;
        let mut builder = Server::builder();
        let (authority, token) = match &self.data_directory {
            None => (Authority::generate()?, draw_token()?),
            Some(path) => {
                let disk = Disk::open(path).await?;
                let (records, identity) = disk.load()?;
                let identity = match identity {
                    Some(identity) => identity,
                    None => create_identity(&disk)?,
                };
                builder = builder.restore(records).journal(disk.journal()?);
                (Authority::restore(identity.certificate, &identity.key)?, identity.token)
            }
        };
        let authority = Arc::new(authority);
        let environment: Arc<dyn Environment> = match (self.seed, self.virtual_time) {
            (None, None) => Arc::new(SystemEnvironment),
            (seed, start) => {
                let seed = seed.unwrap_or_else(|| SystemEnvironment.random());
                Arc::new(SeededEnvironment::new(start.unwrap_or(MILLENNIUM), seed))
            }
        };
        if self.seed.is_none() {
            builder = builder.signing_key(signing_key(&authority));
        }
        let accesses = self.record_access.then(|| Arc::new(AccessLog::default()));
        if let Some(log) = &accesses {
            builder = builder.recorder(Arc::clone(log));
        }
        let services = Services::default();
        let front_proxy = Authority::front_proxy()?;
        let (certificate, key) = front_proxy.client(FRONT_PROXY, None)?;
        let api_servers = ApiServers::new(services.clone(), ClientCertificate::from_pem(&certificate, &key)?);
        let server = builder
            .webhook_client(Webhooks::new(services.clone(), self.webhooks))
            .api_service_client(api_servers.clone())
            .environment(Shared(Arc::clone(&environment)))
            .token(token.clone(), User::admin())
            .without_credentials(User::anonymous())
            .connector(SimulatedContainers)
            .build();
        server.publish_authentication(&ClientAuthentication {
            client_authorities: authority.certificate().to_owned(),
            request_headers: Some(RequestHeaderAuthentication::new(
                front_proxy.certificate(),
                vec![FRONT_PROXY.to_owned()],
            )),
        });
        if let Some(path) = &self.data_directory {
            // Readers see what every cluster has from the first moment on.
            server.store().sync().await.map_err(|e| Error::DataDirectory(path.clone(), Box::new(e)))?;
        }
        let mut tasks = vec![
            runtime.spawn(server.clone().expire_events()),
            runtime.spawn(server.clone().check_api_services()),
        ];
        let mut control_loop = None;
        let mut address = None;
        let activity = Activity::new();
        if let Some(wanted) = self.listen {
            let listener = Listener::bind(wanted, &authority).await?;
            address = Some(listener.address);
            tasks.push(runtime.spawn(listener.serve(server.service(), activity.clone())));
        }
        if !self.parts.is_empty() {
            let options = Arc::new(Options {
                parts: self.parts,
                nodes: self.nodes,
                pod_start_delay: self.pod_start_delay,
                pod_run_time: self.pod_run_time,
                pod_stop_delay: self.pod_stop_delay,
                missing_images: self.missing_images,
                authority: Arc::clone(&authority),
            });
            let made = LoopHandle {
                wake: Arc::new(Notify::new()),
                settled: watch::Sender::new(0),
                panics: Arc::default(),
            };
            let watcher = control_loop::Actor::ControllerManager.user();
            let as_controllers = UserService::unrestricted(server.service(), watcher);
            let parts = control_loop::LoopConfig {
                server: as_controllers,
                options,
                environment: Arc::clone(&environment),
            };
            tasks.push(runtime.spawn(control_loop::run(parts, server.clone(), made.clone())));
            control_loop = Some(made);
        }
        Ok(Cluster {
            inner: Arc::new(Inner {
                server,
                environment,
                authority,
                token,
                services,
                api_servers,
                accesses,
                address,
                activity,
                control_loop,
                tasks,
            }),
        })
    }
}

/// The name by which other API servers know this one.
const FRONT_PROXY: &str = "front-proxy-client";

/// 2000-01-01T00:00:00Z.
const MILLENNIUM: Timestamp = Timestamp::constant(946_684_800, 0);

/// Makes the certificates and the token of a directory that has none yet.
fn create_identity(disk: &Disk) -> Result<Identity, Error> {
    let authority = Authority::generate()?;
    let certificate = authority.certificate().to_owned();
    let identity = Identity { certificate, key: authority.key(), token: draw_token()? };
    disk.save_identity(&identity)?;
    Ok(identity)
}

/// What tokens of service accounts are signed with: as secret and as lasting as the authority's key.
fn signing_key(authority: &Authority) -> [u8; 32] {
    Sha256::new().chain_update("service account tokens").chain_update(authority.key()).finalize().into()
}

/// Generates a random bearer token.
fn draw_token() -> Result<String, Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| Error::Random(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// One source of time and randomness for the server and the workloads.
#[derive(Debug)]
struct Shared(Arc<dyn Environment>);

impl Environment for Shared {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn random(&self) -> u64 {
        self.0.random()
    }
}
