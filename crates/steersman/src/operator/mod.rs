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

/// An operator, described. [`Operator::main`] makes a program of it, [`Operator::run_until`] runs it inside another one.
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

    /// The version that `version` prints, `env!("CARGO_PKG_VERSION")` most often. Default: `0.0.0`.
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

    /// Takes time and randomness from here. Default: [`SystemEnvironment`]; in a `TestEnv` on an embedded cluster: the
    /// cluster's clock. The webhooks' certificate goes by the machine's clock, as the other ends of connections do.
    pub fn environment(mut self, environment: impl Environment + 'static) -> Self {
        self.environment = Some(Arc::new(environment));
        self
    }

    /// As [`Operator::environment`], unless there is one already.
    #[cfg(feature = "testing")]
    pub(crate) fn default_environment(self, environment: impl Environment + 'static) -> Self {
        if self.environment.is_some() { self } else { self.environment(environment) }
    }

    fn take_environment(&mut self) -> Arc<dyn Environment> {
        self.environment.take().unwrap_or_else(|| Arc::new(SystemEnvironment))
    }

    /// The API server's host and port, for the label `host` of `rest_client_requests_total`: a client does not tell.
    /// Default: `unknown`; [`Operator::main`]: what the kubeconfig says.
    pub fn api_server(mut self, host: impl Into<String>) -> Self {
        self.api_server = Some(host.into());
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

    /// Shares the objects with other replicas, instead of leader election. Default: it works on all objects.
    pub fn sharding(mut self, sharding: Sharding) -> Self {
        self.sharding = Some(sharding);
        self
    }

    /// Serves `/metrics` here. Default: not at all; [`Operator::main`]: port 8080.
    pub fn metrics_address(mut self, address: SocketAddr) -> Self {
        self.metrics = Some(address);
        self
    }

    /// Serves `/metrics` by TLS to those who may read them. The bearer token is checked by a TokenReview, the right to `get`
    /// the path by a SubjectAccessReview. Default: plain HTTP for everyone; [`Operator::main`]: secure on port 8443.
    pub fn secure_metrics(mut self, yes: bool) -> Self {
        self.metrics_security.secure = yes;
        self
    }

    /// Folder with the `tls.crt` and `tls.key` of secure metrics. They are read again when they change.
    /// Default: a certificate for `localhost` that signs itself.
    pub fn metrics_certificates(mut self, folder: impl Into<PathBuf>) -> Self {
        self.metrics_security.certificates = Some(folder.into());
        self
    }

    /// Serves metrics of the author's own beside the operator's: asked at each scrape for OpenMetrics text without the end
    /// mark. Default: none.
    pub fn metrics_source(mut self, source: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.metrics_sources.push(Arc::new(source));
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

    /// Where the API server finds the webhooks when the operator does not run behind a service of the cluster, on a laptop
    /// for instance: `https://localhost:9443`. Its own certificate is good for `localhost`. Default: its service.
    pub fn webhook_url(mut self, url: impl Into<String>) -> Self {
        self.webhook_url = Some(url.into());
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
            webhook_url: self.webhook_url.as_deref(),
            serves_webhooks: self.webhook_address.is_some() && !self.webhooks.is_empty(),
            own_certificate: self.webhook_certificates.is_none(),
            lease: Some(self.election.as_ref().map_or(&self.name, |election| &election.lease)),
            sharded: self.sharding.is_some(),
            reviews_access: self.metrics.is_some() && self.metrics_security.reviews_access(),
        }
    }

    /// What the operator declares for the way in which its manifests run it: with secure metrics.
    fn deployed(&self) -> Declarations<'_> {
        Declarations { reviews_access: true, ..self.declarations() }
    }

    /// What the operator declares for the way in which it is about to run: without a lease if no leader is elected.
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

    /// The definitions of the operator's kinds, without the way to a converting webhook: that depends on the namespace, and
    /// [`Operator::manifests`] and [`Operator::install_crds`] have it.
    #[must_use]
    pub fn crds(&self) -> Vec<CustomResourceDefinition> {
        self.declarations().crds()
    }

    /// The permissions that the operator needs where it watches. In its own namespace it needs leases as well, and a secret
    /// if it has webhooks.
    #[must_use]
    pub fn rules(&self) -> Vec<PolicyRule> {
        self.declarations().rules()
    }

    /// Everything that the operator needs in a cluster, as YAML: what the command `manifests` prints.
    ///
    /// # Errors
    /// Fails if a definition can't be written.
    pub fn manifests(&self, namespace: &str, image: &str) -> Result<String> {
        self.deployed().manifests(namespace, image)
    }

    /// Compares a cluster with what the operator declares: definitions and webhook configurations that are missing or stale,
    /// and permissions that it lacks. No findings: all is well. The command `doctor` prints them, and `run` logs them.
    ///
    /// # Errors
    /// Fails if the API server can't be asked.
    pub async fn doctor(&self, client: &Client) -> Result<Vec<Finding>> {
        doctor::examine(&self.declarations(), client).await
    }

    /// Holds what the operator declares against the requests that a run of it made: what it used and did not declare,
    /// and what it declared and did not use.
    #[must_use]
    pub fn least_privilege(&self, requests: &Requests) -> Vec<Finding> {
        let Comparison { missing, idle } = requests.compare(&self.declarations().all_rules());
        missing.into_iter().chain(idle).collect()
    }

    /// A dashboard for Grafana's import, with everything that the operator's metrics tell.
    #[must_use]
    pub fn dashboard(&self) -> serde_json::Value {
        dashboard(&self.name)
    }

    /// Applies the operator's definitions to a cluster.
    ///
    /// # Errors
    /// Fails if the API server refuses one.
    pub async fn install_crds(&self, client: &Client) -> Result<()> {
        doctor::install(&self.declarations(), client).await
    }
}
