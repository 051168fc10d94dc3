//! The server's parts and how they are put together.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use crate::{
    admission::Admission,
    auth::{AllowAll, Authenticator, Authorizer, TrustExtensions},
    bootstrap,
    builtin::Allocators,
    catalog::Catalog,
    connect::Connector,
    environment::{Environment, SystemEnvironment},
    service::Service,
    store::{Draft, History, Journal, Record, Store},
};

/// Everything that requests share.
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) authenticator: Arc<dyn Authenticator>,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) admission: Vec<Arc<dyn Admission>>,
    pub(crate) connector: Option<Arc<dyn Connector>>,
    pub(crate) allocators: Allocators,
    pub(crate) definitions: crate::crd::Definitions,
    catalog: RwLock<Arc<Catalog>>,
}

impl Core {
    /// What is served at this moment.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Serves something else from now on.
    pub(crate) fn set_catalog(&self, catalog: Catalog) {
        *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(catalog);
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("revision", &self.store.revision()).finish_non_exhaustive()
    }
}

/// A Kubernetes API server in this process. Cheap to clone; clones are the same server.
#[derive(Debug, Clone)]
pub struct Server {
    core: Arc<Core>,
}

impl Server {
    /// Starts to describe a server.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The server as a tower service, to stand behind a `kube::Client` or an HTTP listener.
    #[must_use]
    pub fn service(&self) -> Service {
        Service::new(Arc::clone(&self.core))
    }

    /// The objects at rest.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.core.store
    }

    /// What is served at this moment.
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

/// Describes a server.
#[derive(Debug)]
pub struct Builder {
    environment: Arc<dyn Environment>,
    authenticator: Arc<dyn Authenticator>,
    authorizer: Arc<dyn Authorizer>,
    admission: Vec<Arc<dyn Admission>>,
    connector: Option<Arc<dyn Connector>>,
    history: History,
    journal: Option<Arc<dyn Journal>>,
    records: Vec<Record>,
    bootstrap: bool,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            environment: Arc::new(SystemEnvironment),
            authenticator: Arc::new(TrustExtensions),
            authorizer: Arc::new(AllowAll),
            admission: Vec::new(),
            connector: None,
            history: History::default(),
            journal: None,
            records: Vec::new(),
            bootstrap: true,
        }
    }
}

impl Builder {
    /// Where time and randomness come from. Default: [`SystemEnvironment`].
    #[must_use]
    pub fn environment(mut self, environment: impl Environment + 'static) -> Self {
        self.environment = Arc::new(environment);
        self
    }

    /// Who asks. Default: [`TrustExtensions`].
    #[must_use]
    pub fn authenticator(mut self, authenticator: impl Authenticator + 'static) -> Self {
        self.authenticator = Arc::new(authenticator);
        self
    }

    /// Who may do what. Default: [`AllowAll`].
    #[must_use]
    pub fn authorizer(mut self, authorizer: impl Authorizer + 'static) -> Self {
        self.authorizer = Arc::new(authorizer);
        self
    }

    /// Adds a step on the way of every write. Default: none.
    #[must_use]
    pub fn admission(mut self, plugin: impl Admission + 'static) -> Self {
        self.admission.push(Arc::new(plugin));
        self
    }

    /// Who answers for logs, exec, port-forward and proxies. Default: nobody.
    #[must_use]
    pub fn connector(mut self, connector: impl Connector + 'static) -> Self {
        self.connector = Some(Arc::new(connector));
        self
    }

    /// How much history watches can resume from. Default: see [`History`].
    #[must_use]
    pub fn history(mut self, history: History) -> Self {
        self.history = history;
        self
    }

    /// Where committed writes are kept. Default: nowhere.
    #[must_use]
    pub fn journal(mut self, journal: impl Journal + 'static) -> Self {
        self.journal = Some(Arc::new(journal));
        self
    }

    /// The objects to start with: for each key the last record that a journal has received.
    #[must_use]
    pub fn restore(mut self, records: impl IntoIterator<Item = Record>) -> Self {
        self.records.extend(records);
        self
    }

    /// Whether the namespaces and objects that every cluster has are made. Default: yes.
    #[must_use]
    pub fn bootstrap(mut self, yes: bool) -> Self {
        self.bootstrap = yes;
        self
    }

    /// Puts the server together.
    #[must_use]
    pub fn build(self) -> Server {
        let core = Arc::new(Core {
            store: Store::new(self.history, self.journal),
            environment: self.environment,
            authenticator: self.authenticator,
            authorizer: self.authorizer,
            admission: self.admission,
            connector: self.connector,
            allocators: Allocators::default(),
            definitions: crate::crd::Definitions::default(),
            catalog: RwLock::new(Arc::new(Catalog::new(std::collections::BTreeMap::new()))),
        });
        restore(&core, &self.records);
        if self.bootstrap {
            bootstrap::populate(&core);
        }
        Server { core }
    }
}

/// Puts recorded objects back and derives everything else from them.
fn restore(core: &Core, records: &[Record]) {
    let parsed: Vec<(&Record, serde_json::Value)> = records
        .iter()
        .filter_map(|r| Some((r, serde_json::from_slice(r.object.as_deref()?).ok()?)))
        .collect();
    // Definitions come first: they say how custom objects are indexed.
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
        core.allocators.claim(&record.resource, object);
    }
    core.store.restored(records.iter().map(|r| r.revision).max().unwrap_or_default());
}

fn put_back(core: &Core, record: &Record, object: &serde_json::Value) {
    let catalog = core.catalog();
    let fields = catalog
        .resources()
        .find(|r| *r.storage == *record.resource)
        .map(|r| r.strategy.selectable(object))
        .unwrap_or_default();
    if let Ok(draft) = Draft::new(object, fields) {
        core.store.restore(record, draft);
    }
}
