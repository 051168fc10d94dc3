//! The server and its builder.

use std::sync::{Arc, Mutex, RwLock};

use steersman_api::{
    allocator::Allocators,
    environment::{Environment, SystemEnvironment},
    store::{Draft, History, Journal, Record, Store},
};
use tokio::sync::broadcast;

use crate::{
    admission::{
        Admission, WebhookClient,
        policy::Policies,
        webhook::{Caller, Webhooks},
    },
    aggregation::{self, Aggregator, ApiServiceClient, ClientAuthentication},
    auth::{Authenticator, Authorizer, Recorder, User, rbac::Rbac, token::Tokens},
    bootstrap,
    catalog::Catalog,
    connector::Connector,
    core::Core,
    expiry::{self, Expiry},
    flow_control::FlowControl,
    service::Service,
    settings::Settings,
};

/// Buffer size for notifications about closed watches; a busy watch that misses some is closed too.
const ENDED_WATCHES: usize = 16;

/// An in-process Kubernetes API server. Cheap to clone; clones share the same state.
#[derive(Debug, Clone)]
pub struct Server {
    core: Arc<Core>,
}

impl Server {
    /// Creates a builder.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the server as a tower service, for a `kube::Client` or an HTTP listener.
    #[must_use]
    pub fn service(&self) -> Service {
        Service::new(Arc::clone(&self.core))
    }

    /// Adds a bearer token for a user.
    pub fn add_token(&self, token: impl Into<String>, user: User) {
        self.core.tokens.add(token.into(), user);
    }

    /// Closes all open watches of a user, like a lost connection. Clients have to reconnect.
    pub fn end_watches(&self, user: &str) {
        // Sending fails if there are no open watches.
        let _ = self.core.ended_watches.send(user.into());
    }

    /// Replaces the settings. Default: [`Settings::default`].
    pub fn configure(&self, settings: Settings) {
        self.core.configure(settings);
    }

    /// Deletes events after their lifetime (default one hour).
    /// Runs until dropped; without it, events are kept.
    pub async fn expire_events(self) {
        let Core { expiry, store, environment, .. } = &*self.core;
        expiry.keep_expiring(store, &**environment).await;
    }

    /// Maintains the `Available` condition of aggregated APIServices.
    /// Runs until dropped; without it, no requests are proxied to extension servers.
    pub async fn check_api_services(self) {
        aggregation::keep_checking(&self.core).await;
    }

    /// Publishes client authentication settings in `kube-system/extension-apiserver-authentication`.
    pub fn publish_authentication(&self, authentication: &ClientAuthentication) {
        aggregation::publish(&self.core, authentication);
    }

    /// Returns the object store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.core.store
    }

    /// Returns the current catalog of served resources.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.core.catalog()
    }
}

impl Default for Server {
    fn default() -> Self {
        Self::builder().build()
    }
}

/// Configures a [`Server`].
#[derive(Debug)]
pub struct Builder {
    environment: Arc<dyn Environment>,
    authenticator: Option<Arc<dyn Authenticator>>,
    authorizer: Option<Arc<dyn Authorizer>>,
    tokens: Vec<(String, User)>,
    signing_key: Option<[u8; 32]>,
    anonymous: User,
    recorder: Option<Arc<dyn Recorder>>,
    admission: Vec<Arc<dyn Admission>>,
    webhook_client: Option<Arc<dyn WebhookClient>>,
    api_service_client: Option<Arc<dyn ApiServiceClient>>,
    connector: Option<Arc<dyn Connector>>,
    history: History,
    journal: Option<Arc<dyn Journal>>,
    records: Vec<Record>,
    bootstrap: bool,
    origin: Option<Server>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            environment: Arc::new(SystemEnvironment),
            authenticator: None,
            authorizer: None,
            tokens: Vec::new(),
            signing_key: None,
            anonymous: User::admin(),
            recorder: None,
            admission: Vec::new(),
            webhook_client: None,
            api_service_client: None,
            connector: None,
            history: History::default(),
            journal: None,
            records: Vec::new(),
            bootstrap: true,
            origin: None,
        }
    }
}

impl Builder {
    /// Sets the source of time and randomness. Default: [`SystemEnvironment`].
    #[must_use]
    pub fn environment(mut self, environment: impl Environment + 'static) -> Self {
        self.environment = Arc::new(environment);
        self
    }

    /// Sets the authenticator.
    /// Default: the [`User`] in the request's extensions set by a listener, else the user of the bearer token, else
    /// [`Builder::without_credentials`].
    #[must_use]
    pub fn authenticator(mut self, authenticator: impl Authenticator + 'static) -> Self {
        self.authenticator = Some(Arc::new(authenticator));
        self
    }

    /// Adds a bearer token for a user. Default: only service account tokens are accepted.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>, user: User) -> Self {
        self.tokens.push((token.into(), user));
        self
    }

    /// Sets the seed of the key that signs service account tokens. Default: random, from the environment.
    #[must_use]
    pub fn signing_key(mut self, seed: [u8; 32]) -> Self {
        self.signing_key = Some(seed);
        self
    }

    /// Sets the user of requests without credentials.
    /// Default: the administrator, for in-process use; servers reachable by others should use [`User::anonymous`].
    #[must_use]
    pub fn without_credentials(mut self, user: User) -> Self {
        self.anonymous = user;
        self
    }

    /// Sets a recorder for all authorization decisions, such as an [`AccessLog`](crate::AccessLog).
    /// Default: none.
    #[must_use]
    pub fn recorder(mut self, recorder: impl Recorder + 'static) -> Self {
        self.recorder = Some(Arc::new(recorder));
        self
    }

    /// Sets the authorizer. Default: RBAC with the stored roles; `system:masters` may do everything.
    #[must_use]
    pub fn authorizer(mut self, authorizer: impl Authorizer + 'static) -> Self {
        self.authorizer = Some(Arc::new(authorizer));
        self
    }

    /// Adds an admission plugin. Default: none.
    #[must_use]
    pub fn admission(mut self, plugin: impl Admission + 'static) -> Self {
        self.admission.push(Arc::new(plugin));
        self
    }

    /// Sets the client for webhooks.
    /// Default: none; calls fail, and the failure policy of each webhook applies.
    #[must_use]
    pub fn webhook_client(mut self, client: impl WebhookClient + 'static) -> Self {
        self.webhook_client = Some(Arc::new(client));
        self
    }

    /// Sets the client for extension API servers. Default: none; they are unavailable.
    #[must_use]
    pub fn api_service_client(mut self, client: impl ApiServiceClient + 'static) -> Self {
        self.api_service_client = Some(Arc::new(client));
        self
    }

    /// Sets the connector for logs, exec, port-forward and proxies. Default: none.
    #[must_use]
    pub fn connector(mut self, connector: impl Connector + 'static) -> Self {
        self.connector = Some(Arc::new(connector));
        self
    }

    /// Sets the history from which watches can resume. Default: see [`History`].
    #[must_use]
    pub fn history(mut self, history: History) -> Self {
        self.history = history;
        self
    }

    /// Sets the journal that persists committed writes. Default: none; objects are kept in memory only.
    #[must_use]
    pub fn journal(mut self, journal: impl Journal + 'static) -> Self {
        self.journal = Some(Arc::new(journal));
        self
    }

    /// Restores objects from the last record of each key that a journal received.
    #[must_use]
    pub fn restore(mut self, records: impl IntoIterator<Item = Record>) -> Self {
        self.records.extend(records);
        self
    }

    /// Sets whether to create the namespaces and objects of a new cluster. Default: true.
    #[must_use]
    pub fn bootstrap(mut self, yes: bool) -> Self {
        self.bootstrap = yes;
        self
    }

    /// Starts the server as an in-memory copy of another one.
    /// The copy has its objects, revisions, history, settings, signing key and derived state. [`Builder::history`],
    /// [`Builder::journal`], [`Builder::restore`], [`Builder::signing_key`] and [`Builder::bootstrap`] are then
    /// ignored. Default: an empty server.
    ///
    /// ```
    /// use steersman_apiserver::Server;
    ///
    /// let (one, other) = (Server::default(), Server::default());
    /// let fork = Server::builder().fork(&one).build();
    /// let uid = |server: &Server| server.store().get("namespaces", "default").unwrap().value()["metadata"]["uid"].clone();
    /// assert_eq!(uid(&one), uid(&fork));
    /// assert_ne!(uid(&one), uid(&other));
    /// ```
    #[must_use]
    pub fn fork(mut self, origin: &Server) -> Self {
        self.origin = Some(origin.clone());
        self
    }

    /// Builds the server.
    #[must_use]
    pub fn build(mut self) -> Server {
        if let Some(origin) = self.origin.take() {
            return self.build_fork(&origin.core);
        }
        let store = Store::new(self.history, self.journal);
        let rbac = Arc::new(Rbac::new(store.clone()));
        let seed = self.signing_key.unwrap_or_else(|| draw_seed(&*self.environment));
        let caller = Caller { store: store.clone(), client: self.webhook_client };
        let core = Arc::new(Core {
            store,
            started: self.environment.now(),
            environment: self.environment,
            authenticator: self.authenticator,
            authorizer: self.authorizer.unwrap_or_else(|| Arc::clone(&rbac) as Arc<dyn Authorizer>),
            rbac,
            tokens: Tokens::new(self.tokens, seed),
            anonymous: self.anonymous,
            recorder: self.recorder,
            admission: self.admission,
            webhooks: Webhooks::new(caller),
            aggregator: Aggregator::new(self.api_service_client),
            policies: Policies::default(),
            flow_control: FlowControl::default(),
            connector: self.connector,
            allocators: Allocators::default(),
            quotas: Mutex::new(()),
            definitions: crate::crd::Definitions::default(),
            expiry: Expiry::default(),
            ended_watches: broadcast::Sender::new(ENDED_WATCHES),
            served: RwLock::new(Arc::new(Catalog::new(std::collections::BTreeMap::new(), Vec::new()))),
            settings: RwLock::default(),
        });
        let learned = Arc::downgrade(&core);
        core.store.on_undo(move |events| {
            if let Some(core) = learned.upgrade() {
                core.unlearn(events);
            }
        });
        restore(&core, &self.records);
        if self.bootstrap {
            bootstrap::populate(&core);
        }
        Server { core }
    }

    fn build_fork(self, origin: &Core) -> Server {
        let store = origin.store.fork();
        let rbac = Arc::new(origin.rbac.fork(store.clone()));
        let caller = Caller { store: store.clone(), client: self.webhook_client };
        let (definitions, is_whole) = origin.definitions.fork();
        let core = Arc::new(Core {
            store,
            started: self.environment.now(),
            environment: self.environment,
            authenticator: self.authenticator,
            authorizer: self.authorizer.unwrap_or_else(|| Arc::clone(&rbac) as Arc<dyn Authorizer>),
            rbac,
            tokens: origin.tokens.fork(self.tokens),
            anonymous: self.anonymous,
            recorder: self.recorder,
            admission: self.admission,
            webhooks: origin.webhooks.fork(caller),
            aggregator: origin.aggregator.fork(self.api_service_client),
            policies: origin.policies.fork(),
            flow_control: origin.flow_control.fork(),
            connector: self.connector,
            allocators: origin.allocators.fork(),
            quotas: Mutex::new(()),
            definitions,
            expiry: origin.expiry.fork(),
            ended_watches: broadcast::Sender::new(ENDED_WATCHES),
            served: RwLock::new(origin.catalog()),
            settings: RwLock::new(origin.settings()),
        });
        if !is_whole {
            crate::crd::rebuild(&core);
        }
        Server { core }
    }
}

fn draw_seed(environment: &dyn Environment) -> [u8; 32] {
    let mut seed = [0; 32];
    for part in seed.chunks_exact_mut(8) {
        part.copy_from_slice(&environment.random().to_le_bytes());
    }
    seed
}

/// Restores recorded objects and rebuilds all derived state.
fn restore(core: &Core, records: &[Record]) {
    let parsed: Vec<(&Record, serde_json::Value)> = records
        .iter()
        .filter_map(|r| Some((r, serde_json::from_slice(r.object.as_deref()?).ok()?)))
        .collect();
    // Definitions first: they determine how custom objects are indexed.
    let mut later = Vec::new();
    for (record, object) in parsed {
        if record.resource == crate::crd::RESOURCE {
            put_back(core, record, &object);
        } else {
            later.push((record, object));
        }
    }
    if !records.is_empty() {
        crate::crd::rebuild(core);
    }
    for (record, object) in &later {
        put_back(core, record, object);
        if record.resource == expiry::EVENTS {
            core.lease(&record.key);
        }
    }
    core.webhooks.learn_all(&core.store);
    core.policies.learn_all(&core.store);
    aggregation::learn_all(core);
    core.store.restored(records.iter().map(|r| r.revision).max().unwrap_or_default());
}

fn put_back(core: &Core, record: &Record, object: &serde_json::Value) {
    let catalog = core.catalog();
    let resource = catalog.resources().find(|r| *r.storage == *record.resource);
    let fields = resource.map(|r| r.strategy.selectable(object)).unwrap_or_default();
    if let Some(resource) = resource {
        resource.strategy.claim(&core.allocators, object);
    }
    if let Ok(draft) = Draft::new(object, fields) {
        core.store.restore(record, draft);
    }
}
