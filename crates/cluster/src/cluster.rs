//! A running cluster.

mod checkpoint;
mod parts;

use std::{
    future::Future,
    net::SocketAddr,
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use bytes::Bytes;
use kube::Client;
use steersman_api::{
    environment::{Environment, SteppedEnvironment},
    user::User,
};
use steersman_apiserver::{Access, AccessLog, Server};
use tokio::task::JoinHandle;

pub use self::checkpoint::Checkpoint;
pub(crate) use self::parts::Parts;
use crate::{
    activity::Activity, api_services::ApiServers, builder::Builder, control_loop::LoopHandle, error::Error,
    kubeconfig, options::Options, pki::Authority, services::Services, tls_client::ClientCertificate,
    user_service::UserService, webhooks::WebhookPolicy,
};

/// A running cluster. Cheap to clone.
///
/// It runs until its last clone and the last of its clients are dropped. Then its workloads stop and its port is free
/// again.
#[derive(Debug, Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    server: Server,
    environment: Arc<dyn Environment>,
    /// The same environment, as a clock that can be set forward.
    clock: Arc<SteppedEnvironment>,
    authority: Arc<Authority>,
    token: String,
    services: Services,
    api_servers: ApiServers,
    webhooks: WebhookPolicy,
    /// Whether [`Builder::metrics`] is on.
    metrics: bool,
    /// Set if decisions are recorded.
    accesses: Option<Arc<AccessLog>>,
    /// Address of the listener, if there is one.
    address: Option<SocketAddr>,
    activity: Activity,
    /// Set if workloads are simulated.
    workloads: Option<(Arc<Options>, LoopHandle)>,
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
    /// Starts a cluster with the defaults: in-process, with workloads, one node, in real time.
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

    /// Returns a builder, to configure a cluster.
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

    /// Returns a client for the administrator, with the default namespace `default`.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client_as(User::admin())
    }

    /// Returns a client for a user, with the default namespace `default`. RBAC applies to it.
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

    /// Returns the API server.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.inner.server
    }

    /// Returns the source of the cluster's time and randomness, which is seeded with [`Builder::seed`].
    #[must_use]
    pub fn environment(&self) -> &Arc<dyn Environment> {
        &self.inner.environment
    }

    /// Sets the cluster's clock forward. Its controllers' timers fire accordingly; clients' timers do not.
    ///
    /// ```
    /// # async fn example() -> Result<(), steersman_cluster::Error> {
    /// let cluster = steersman_cluster::Cluster::start().await?;
    /// cluster.advance(std::time::Duration::from_secs(3600));
    /// assert_eq!(cluster.advanced().as_secs(), 3600);
    /// # Ok(())
    /// # }
    /// ```
    pub fn advance(&self, by: Duration) {
        self.inner.clock.step(by);
        if let Some((_, control_loop)) = &self.inner.workloads {
            control_loop.wake.notify_one();
        }
    }

    /// Returns how far the cluster's clock has been set forward.
    #[must_use]
    pub fn advanced(&self) -> Duration {
        self.inner.clock.stepped()
    }

    /// Returns the CA certificate of the cluster, in PEM.
    #[must_use]
    pub fn root_certificate(&self) -> &str {
        self.inner.authority.certificate()
    }

    /// Returns the address of the listener, if there is one.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.inner.address
    }

    /// Returns since when no client has been connected, or `None` while one is. In-process clients don't count.
    #[must_use]
    pub fn idle_since(&self) -> Option<Instant> {
        self.inner.activity.idle_since()
    }

    /// Sets the client certificate for servers behind APIServices, from now on.
    ///
    /// It takes the certificate chain and the key in PEM; `None` means that no certificate is presented. Default: one
    /// signed by the cluster's front proxy CA, which is published in `kube-system/extension-apiserver-authentication`.
    ///
    /// # Errors
    /// Fails if chain or key are not valid PEM.
    pub fn set_proxy_certificate(&self, certificate: Option<(&str, &str)>) -> Result<(), Error> {
        let identity = certificate.map(|(chain, key)| ClientCertificate::from_pem(chain, key)).transpose()?;
        self.inner.api_servers.identify(identity);
        Ok(())
    }

    pub(crate) fn activity(&self) -> Activity {
        self.inner.activity.clone()
    }

    /// Returns a kubeconfig for the administrator.
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
    /// Fails if the cluster has no listener.
    pub fn kubeconfig(&self) -> Result<String, Error> {
        let address = self.inner.address.ok_or(Error::NoListener)?;
        Ok(kubeconfig::render(address, self.root_certificate(), &self.inner.token))
    }

    /// Returns a kubeconfig for a user, with a token that is valid while this cluster runs.
    ///
    /// # Errors
    /// Fails if the cluster has no listener, or the token can't be generated.
    pub fn kubeconfig_as(&self, user: User) -> Result<String, Error> {
        let address = self.inner.address.ok_or(Error::NoListener)?;
        let token = draw_token()?;
        self.inner.server.add_token(token.as_str(), user);
        Ok(kubeconfig::render(address, self.root_certificate(), &token))
    }

    /// Returns a client certificate for a user, optionally in a group, and its key, both in PEM.
    ///
    /// # Errors
    /// Fails if the certificate can't be made.
    pub fn client_certificate(&self, user: &str, group: Option<&str>) -> Result<(String, String), Error> {
        self.inner.authority.client(user, group)
    }

    /// Returns the recorded authorization decisions: user, request, outcome and count.
    ///
    /// Empty without [`Builder::record_access`].
    #[must_use]
    pub fn accesses(&self) -> Vec<(Access, u64)> {
        self.inner.accesses.as_ref().map(|log| log.entries()).unwrap_or_default()
    }

    /// Returns what a user requested and was never allowed. Empty without [`Builder::record_access`].
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

    /// Sets the address of the webhooks, or of the APIService's server, behind a service.
    ///
    /// Requests are sent there from now on over HTTPS, with the certificates that their configuration trusts. Without this,
    /// the service's annotation `cluster.steersman.dev/address` is used.
    pub fn webhooks_at(&self, namespace: &str, service: &str, address: SocketAddr) {
        self.inner.services.at(namespace, service, address);
    }

    /// Handles requests for the webhooks, or the APIService, behind a service in the process from now on.
    pub fn webhooks_by<F, A>(&self, namespace: &str, service: &str, handler: F)
    where
        F: Fn(http::Request<Bytes>) -> A + Send + Sync + 'static,
        A: Future<Output = http::Response<Bytes>> + Send + 'static,
    {
        self.inner.services.by(namespace, service, handler);
    }

    /// Writes a kubeconfig for the administrator, readable only by its owner.
    ///
    /// # Errors
    /// Fails if the cluster has no listener, or the file can't be written.
    pub fn write_kubeconfig(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let text = self.kubeconfig()?;
        kubeconfig::write(path, &text).map_err(|error| Error::Kubeconfig(path.to_owned(), error))
    }

    /// Returns how often a controller of the workloads panicked.
    ///
    /// The others continued, and the object concerned was retried.
    #[must_use]
    pub fn controller_panics(&self) -> u64 {
        let control_loop = self.inner.workloads.as_ref().map(|(_, control_loop)| control_loop);
        control_loop.map_or(0, |control_loop| control_loop.panics.load(Ordering::Relaxed))
    }

    /// Waits until the workloads have reconciled everything written so far, including their own writes.
    ///
    /// Work that waits for time to pass is not awaited. Returns at once if workloads are not simulated.
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
        let Some((_, control_loop)) = &self.inner.workloads else { return };
        let mut settled = control_loop.settled.subscribe();
        let target = self.inner.server.store().revision();
        control_loop.wake.notify_one();
        // The sender lives as long as this cluster, so waiting can't fail.
        let _ = settled.wait_for(|revision| *revision >= target).await;
    }
}

/// Generates a random bearer token.
pub(super) fn draw_token() -> Result<String, Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| Error::Random(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
