//! The operator: its controllers, and what they share.

mod command;
mod doctor;
mod leadership;
mod logs;
mod metrics_server;
#[cfg(feature = "otlp")]
mod otlp;
mod probes;
mod run;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use k8s_openapi::{
    api::rbac::v1::PolicyRule,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::Client;

use self::metrics_server::MetricsSecurity;
pub use self::{command::command_line, doctor::Finding};
use crate::{
    controller::{Controller, ControllerSpec},
    environment::{Environment, SystemEnvironment},
    error::Result,
    leader::LeaderElection,
    manifests::Declarations,
    metrics::{TextSource, dashboard},
    privilege::{Comparison, Requests},
    shard::Sharding,
    webhook::{Conversion, Webhook, Webhooks},
};

/// Builder of an operator. [`Operator::main`] makes a program of it, [`Operator::run_until`] runs it inside another one.
#[must_use]
pub struct Operator {
    name: String,
    version: String,
    controllers: Vec<ControllerSpec>,
    crds: Vec<CustomResourceDefinition>,
    rules: Vec<PolicyRule>,
    namespaces: Vec<String>,
    environment: Option<Arc<dyn Environment>>,
    api_server: Option<String>,
    grace: Duration,
    election: Option<LeaderElection>,
    sharding: Option<Sharding>,
    metrics: Option<SocketAddr>,
    metrics_security: MetricsSecurity,
    metrics_sources: Vec<TextSource>,
    probes: Option<SocketAddr>,
    debug: bool,
    webhooks: Webhooks,
    webhook_address: Option<SocketAddr>,
    webhook_certificates: Option<PathBuf>,
    webhook_url: Option<String>,
    client: Option<Client>,
}

impl Operator {
    /// Creates an operator without controllers. Its name is the field manager of everything that it applies, so it
    /// must not change between versions.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: "0.0.0".into(),
            controllers: Vec::new(),
            crds: Vec::new(),
            rules: Vec::new(),
            namespaces: Vec::new(),
            environment: None,
            api_server: None,
            grace: Duration::from_secs(30),
            election: None,
            sharding: None,
            metrics: None,
            metrics_security: MetricsSecurity::default(),
            metrics_sources: Vec::new(),
            probes: None,
            debug: false,
            webhooks: Webhooks::default(),
            webhook_address: None,
            webhook_certificates: None,
            webhook_url: None,
            client: None,
        }
    }

    /// The version that the command `version` prints, usually `env!("CARGO_PKG_VERSION")`. Default: `0.0.0`.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// The client that [`Operator::main`] runs with. Default: one made from `--kubeconfig`, the environment or the pod.
    pub fn client(mut self, client: Client) -> Self {
        self.client = Some(client);
        self
    }

    /// Adds a controller.
    pub fn controller<K>(mut self, controller: Controller<K>) -> Self {
        self.controllers.push(controller.spec);
        self
    }

    /// Adds a CRD, or replaces that of a controller, for example with one of several versions.
    pub fn crd(mut self, crd: CustomResourceDefinition) -> Self {
        self.crds.push(crd);
        self
    }

    /// Requests permissions beyond those that follow from the controllers.
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

    /// Watches these namespaces only. Default: all.
    pub fn namespaces<S: Into<String>>(mut self, namespaces: impl IntoIterator<Item = S>) -> Self {
        self.namespaces = namespaces.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the source of time and randomness. Default: [`SystemEnvironment`]; in a `TestEnv` on an embedded cluster:
    /// the cluster's clock. The webhooks' certificate uses the machine's clock, as the peers of its connections do.
    pub fn environment(mut self, environment: impl Environment + 'static) -> Self {
        self.environment = Some(Arc::new(environment));
        self
    }

    /// As [`Operator::environment`], unless one is set already.
    #[cfg(feature = "testing")]
    pub(crate) fn default_environment(self, environment: impl Environment + 'static) -> Self {
        if self.environment.is_some() { self } else { self.environment(environment) }
    }

    fn take_environment(&mut self) -> Arc<dyn Environment> {
        self.environment.take().unwrap_or_else(|| Arc::new(SystemEnvironment))
    }

    /// The API server's host and port, for the label `host` of `rest_client_requests_total`. A client does not expose
    /// it. Default: `unknown`; [`Operator::main`]: that of the kubeconfig.
    pub fn api_server(mut self, host: impl Into<String>) -> Self {
        self.api_server = Some(host.into());
        self
    }

    /// Graceful shutdown timeout for reconciles in progress. Default: 30 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Enables leader election: the operator stands by with warm caches until it leads. Default: no election.
    pub fn leader_election(mut self, election: LeaderElection) -> Self {
        self.election = Some(election);
        self
    }

    /// Shares the objects with other replicas, instead of leader election. Default: each replica works on all
    /// objects.
    pub fn sharding(mut self, sharding: Sharding) -> Self {
        self.sharding = Some(sharding);
        self
    }

    /// Serves `/metrics` on this address. Default: not served; [`Operator::main`]: port 8080.
    pub fn metrics_address(mut self, address: SocketAddr) -> Self {
        self.metrics = Some(address);
        self
    }

    /// Serves `/metrics` over TLS to authorized readers. The bearer token is checked by a TokenReview, the permission to
    /// `get` the path by a SubjectAccessReview. Default: plain HTTP for everyone; [`Operator::main`]: secure on port 8443.
    pub fn secure_metrics(mut self, yes: bool) -> Self {
        self.metrics_security.secure = yes;
        self
    }

    /// Directory with the `tls.crt` and `tls.key` of secure metrics, reloaded when they change. Default: a
    /// self-signed certificate for `localhost`.
    pub fn metrics_certificates(mut self, folder: impl Into<PathBuf>) -> Self {
        self.metrics_security.certificates = Some(folder.into());
        self
    }

    /// Serves further metrics with the operator's own. The source is called at each scrape, and returns OpenMetrics text
    /// without the end mark. Default: none.
    pub fn metrics_source(mut self, source: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.metrics_sources.push(Arc::new(source));
        self
    }

    /// Serves `/healthz` and `/readyz` on this address. Default: not served; [`Operator::main`]: port 8081.
    pub fn probe_address(mut self, address: SocketAddr) -> Self {
        self.probes = Some(address);
        self
    }

    /// Also serves `/debug/queue` and `/debug/cache` on the probe server. Default: no.
    pub fn debug(mut self, yes: bool) -> Self {
        self.debug = yes;
        self
    }

    /// Adds an admission webhook.
    pub fn webhook(mut self, webhook: Webhook) -> Self {
        self.webhooks.admission.push(webhook);
        self
    }

    /// Adds conversions between the versions of a kind.
    pub fn conversion(mut self, conversion: Conversion) -> Self {
        self.webhooks.conversions.push(conversion);
        self
    }

    /// Serves the webhooks on this address. Default: not served; [`Operator::main`]: port 9443.
    pub fn webhook_address(mut self, address: SocketAddr) -> Self {
        self.webhook_address = Some(address);
        self
    }

    /// Directory with the `tls.crt` and `tls.key` of the webhooks, reloaded when they change. Default: the operator's own
    /// CA, kept in a Secret, and published in the webhook configurations.
    pub fn webhook_certificates(mut self, folder: impl Into<PathBuf>) -> Self {
        self.webhook_certificates = Some(folder.into());
        self
    }

    /// URL of the webhooks for the API server, if they are not behind a Service of the cluster. For an operator on a
    /// laptop that is `https://localhost:9443`: the own certificate is valid for `localhost`. Default: the operator's
    /// Service.
    pub fn webhook_url(mut self, url: impl Into<String>) -> Self {
        self.webhook_url = Some(url.into());
        self
    }

    /// Returns what the operator declares: CRDs, permissions and webhooks.
    pub(crate) fn declarations(&self) -> Declarations<'_> {
        Declarations {
            name: &self.name,
            controllers: &self.controllers,
            crds: &self.crds,
            rules: &self.rules,
            namespaces: &self.namespaces,
            webhooks: &self.webhooks,
            webhook_url: self.webhook_url.as_deref(),
            serves_webhooks: self.webhook_address.is_some() && !self.webhooks.is_empty(),
            own_certificate: self.webhook_certificates.is_none(),
            lease: Some(self.election.as_ref().map_or(&self.name, |election| &election.lease)),
            sharded: self.sharding.is_some(),
            reviews_access: self.metrics.is_some() && self.metrics_security.reviews_access(),
        }
    }

    /// Returns what the operator declares when deployed by its manifests: with secure metrics.
    fn deployed(&self) -> Declarations<'_> {
        Declarations { reviews_access: true, ..self.declarations() }
    }

    /// Returns what the operator declares for this run: without a Lease if no leader is elected.
    fn running(&self) -> Declarations<'_> {
        let lease = self.election.as_ref().map(|election| election.lease.as_str());
        Declarations { lease, ..self.declarations() }
    }

    #[cfg(feature = "testing")]
    pub(crate) fn webhooks(&self) -> &Webhooks {
        &self.webhooks
    }

    #[cfg(feature = "testing")]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    #[cfg(feature = "testing")]
    pub(crate) fn is_cluster_wide(&self) -> bool {
        self.namespaces.is_empty()
    }

    /// Returns the CRDs of the operator's kinds, without conversion webhooks. Those depend on the namespace:
    /// [`Operator::manifests`] and [`Operator::install_crds`] include them.
    #[must_use]
    pub fn crds(&self) -> Vec<CustomResourceDefinition> {
        self.declarations().crds()
    }

    /// Returns the permissions that the operator needs in the namespaces that it watches. In its own namespace it also
    /// needs leases, and a Secret if it has webhooks.
    #[must_use]
    pub fn rules(&self) -> Vec<PolicyRule> {
        self.declarations().rules()
    }

    /// Returns all manifests of the operator as YAML, as the command `manifests` prints them.
    ///
    /// # Errors
    /// Fails if an object can't be serialized.
    pub fn manifests(&self, namespace: &str, image: &str) -> Result<String> {
        self.deployed().manifests(namespace, image)
    }

    /// Compares a cluster with what the operator declares. Reports CRDs and webhook configurations that are missing or
    /// stale, and permissions that it lacks; no findings mean that all is well. The command `doctor` prints them, and `run`
    /// logs them.
    ///
    /// # Errors
    /// Fails if the API server can't be queried.
    pub async fn doctor(&self, client: &Client) -> Result<Vec<Finding>> {
        doctor::examine(&self.declarations(), client).await
    }

    /// Compares the declared permissions with the recorded requests of a run. Reports those used and not declared,
    /// and those declared and not used.
    #[must_use]
    pub fn least_privilege(&self, requests: &Requests) -> Vec<Finding> {
        let Comparison { missing, idle } = requests.compare(&self.declarations().all_rules());
        missing.into_iter().chain(idle).collect()
    }

    /// Returns a Grafana dashboard of all the operator's metrics, for import.
    #[must_use]
    pub fn dashboard(&self) -> serde_json::Value {
        dashboard(&self.name)
    }

    /// Applies the operator's CRDs to a cluster.
    ///
    /// # Errors
    /// Fails if the API server refuses one.
    pub async fn install_crds(&self, client: &Client) -> Result<()> {
        doctor::install(&self.declarations(), client).await
    }
}
