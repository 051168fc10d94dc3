#![doc = include_str!("../README.md")]

mod access;
mod actions;
mod answer;
mod audit;
mod diff;
mod embed;
mod exposition;
mod field;
mod health;
mod history;
mod idempotency;
mod identity;
mod instances;
mod kinds;
mod limits;
mod logs;
mod oidc;
mod openapi;
mod operator;
mod overview;
mod portal;
mod problem;
mod redact;
mod request;
mod server;
mod session;
mod shared_watch;
mod stream;
mod tree;
mod upstream;
mod url;
mod watch;
mod webhooks;
mod writes;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use futures::future::BoxFuture;
use kube::Config;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use serde_json::Value;
use steersman_listener::Listener;
use tokio::net::TcpListener;

pub use crate::{actions::ANNOTATIONS, oidc::OidcProvider, operator::OperatorLog, webhooks::Webhook};

use crate::{
    audit::Audit,
    idempotency::Replays,
    identity::Identities,
    kinds::Kinds,
    limits::Limits,
    oidc::Oidc,
    operator::Operator,
    shared_watch::SharedWatches,
    upstream::{Cluster, Credentials, Upstream},
};

/// Errors that prevent a gateway from starting.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The client's configuration cannot be used.
    #[error("invalid cluster configuration: {0}")]
    Config(#[source] Box<kube::Error>),
    /// The audit log cannot be written.
    #[error("cannot write the audit log {path}: {source}", path = path.display())]
    AuditLog {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error("invalid certificate: {0}")]
    Certificate(String),
    /// A webhook's address or secret cannot be used.
    #[error("invalid webhook: {0}")]
    Webhook(String),
    /// The OpenID provider's settings cannot be used.
    #[error("invalid OpenID provider: {0}")]
    Oidc(String),
    /// The HTTP client for webhooks, metrics and OpenID providers cannot be created.
    #[error("cannot create the HTTP client for webhooks, metrics and OpenID providers: {0}")]
    Client(#[source] reqwest::Error),
    /// The system provides no random numbers.
    #[error("cannot create a sign-in link: the system's random number generator failed")]
    Random,
}

/// Configures a [`Gateway`].
#[derive(Debug)]
pub struct Builder {
    config: Config,
    cluster_name: String,
    origins: Vec<String>,
    audit_log: Option<PathBuf>,
    history_namespace: String,
    samples: Vec<Value>,
    operators: Vec<Operator>,
    operator_log: OperatorLog,
    webhooks: Vec<Webhook>,
    oidc: Option<OidcProvider>,
    tls: Option<Arc<ServerConfig>>,
}

impl Builder {
    /// Sets the cluster's name as callers see it. Default: the host of its URL.
    #[must_use]
    pub fn cluster_name(mut self, name: impl Into<String>) -> Self {
        self.cluster_name = name.into();
        self
    }

    /// Allows cross-origin requests from an origin such as `https://portal.example.com`. Default: only the gateway's own
    /// origin.
    #[must_use]
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.push(origin.into().trim_end_matches('/').to_ascii_lowercase());
        self
    }

    /// Appends the audit log to a file as JSON lines, `-` for standard output. Default: kept in memory only.
    #[must_use]
    pub fn audit_log(mut self, path: impl Into<PathBuf>) -> Self {
        self.audit_log = Some(path.into());
        self
    }

    /// Sets the namespace for the history of cluster-scoped objects. Default: `default`.
    #[must_use]
    pub fn history_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.history_namespace = namespace.into();
        self
    }

    /// Adds a sample object of its kind; the portal's form starts from it. Default: none.
    #[must_use]
    pub fn sample(mut self, object: Value) -> Self {
        self.samples.push(object);
        self
    }

    /// Adds an operator to `/v1/operator`, by a display name and the URL of its metrics. Default: none.
    #[must_use]
    pub fn operator(mut self, name: impl Into<String>, metrics: impl Into<String>) -> Self {
        self.operators.push(Operator::new(name.into(), metrics.into()));
        self
    }

    /// Sets the log whose latest lines `/v1/operator` shows. Default: an empty one.
    #[must_use]
    pub fn operator_log(mut self, log: OperatorLog) -> Self {
        self.operator_log = log;
        self
    }

    /// Adds a webhook, called for each condition that changes. The watch uses the gateway's own credentials. Default: none.
    #[must_use]
    pub fn webhook(mut self, webhook: Webhook) -> Self {
        self.webhooks.push(webhook);
        self
    }

    /// Adds an OpenID provider for sign-in, besides tokens and links. Default: none.
    #[must_use]
    pub fn oidc(mut self, provider: OidcProvider) -> Self {
        self.oidc = Some(provider);
        self
    }

    /// Serves TLS with a certificate chain and its key, both in PEM, and marks cookies as secure. Default: plain HTTP.
    ///
    /// # Errors
    /// Fails if they are not valid PEM, or do not belong together.
    pub fn tls(mut self, certificates: &[u8], key: &[u8]) -> Result<Self, Error> {
        let wrong = |error: &dyn std::fmt::Display| Error::Certificate(error.to_string());
        let chain = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| wrong(&error))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| wrong(&error))?;
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|error| wrong(&error))?
                .with_no_client_auth()
                .with_single_cert(chain, key)
                .map_err(|error| wrong(&error))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        self.tls = Some(Arc::new(config));
        Ok(self)
    }

    /// Builds the gateway.
    ///
    /// # Errors
    /// Fails if the configuration cannot be used, or the audit log cannot be opened.
    pub fn build(self) -> Result<Gateway, Error> {
        let upstream = Upstream::new(self.config).map_err(|error| Error::Config(Box::new(error)))?;
        let audit = Audit::new(self.audit_log.as_ref())
            .map_err(|source| Error::AuditLog { path: self.audit_log.unwrap_or_default(), source })?;
        let own = upstream.calls_as(&Credentials::Own);
        // A crypto provider that the program has already installed remains in place.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .user_agent(concat!("steersman/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(Error::Client)?;
        let oidc = self.oidc.map(Oidc::new).transpose().map_err(Error::Client)?;
        let shared = Shared {
            kinds: Kinds::new(own.clone()),
            own,
            upstream,
            identities: Identities::new(oidc, self.tls.is_some()),
            limits: Limits::default(),
            replays: Replays::default(),
            watches: SharedWatches::default(),
            audit,
            cluster_name: self.cluster_name,
            origins: self.origins,
            history_namespace: self.history_namespace,
            samples: self.samples,
            operators: self.operators,
            operator_log: self.operator_log,
            http,
            webhooks: Mutex::new(self.webhooks),
            is_tls: self.tls.is_some(),
        };
        Ok(Gateway { shared: Arc::new(shared), tls: self.tls })
    }
}

/// State shared by all requests.
pub(crate) struct Shared {
    pub(crate) upstream: Upstream,
    /// The cluster with the gateway's own credentials: for kinds and the history.
    pub(crate) own: Cluster,
    pub(crate) kinds: Kinds,
    pub(crate) identities: Identities,
    pub(crate) limits: Limits,
    pub(crate) replays: Replays,
    pub(crate) watches: SharedWatches,
    pub(crate) audit: Audit,
    pub(crate) cluster_name: String,
    pub(crate) origins: Vec<String>,
    pub(crate) history_namespace: String,
    pub(crate) samples: Vec<Value>,
    pub(crate) operators: Vec<Operator>,
    pub(crate) operator_log: OperatorLog,
    /// The HTTP client for webhook receivers and operators' metrics; follows no redirects.
    pub(crate) http: reqwest::Client,
    /// The webhooks that no server of this gateway delivers yet.
    webhooks: Mutex<Vec<Webhook>>,
    pub(crate) is_tls: bool,
}

/// A server of REST, server-sent events and the portal over a cluster.
#[derive(Clone)]
pub struct Gateway {
    shared: Arc<Shared>,
    tls: Option<Arc<ServerConfig>>,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("cluster", &self.shared.cluster_name).finish_non_exhaustive()
    }
}

impl Gateway {
    /// Starts to configure a gateway for a cluster. The configuration's credentials are used for kinds, for the history, and
    /// for sessions of sign-in links; every other call is made with its caller's credentials.
    #[must_use]
    pub fn builder(config: Config) -> Builder {
        let cluster_name = config.cluster_url.host().unwrap_or("cluster").to_owned();
        Builder {
            config,
            cluster_name,
            origins: Vec::new(),
            audit_log: None,
            history_namespace: "default".into(),
            samples: Vec::new(),
            operators: Vec::new(),
            operator_log: OperatorLog::default(),
            webhooks: Vec::new(),
            oidc: None,
            tls: None,
        }
    }

    /// Returns the path of a one-time sign-in link. It is valid for ten minutes, and uses the gateway's own credentials.
    ///
    /// # Errors
    /// Fails if no random number can be drawn.
    pub fn sign_in_path(&self) -> Result<String, Error> {
        let code = self.shared.identities.code().map_err(|_| Error::Random)?;
        Ok(format!("/?once={code}"))
    }

    /// Serves on a port until the future is dropped. Of several servers of one gateway, the first one delivers the webhooks.
    pub fn serve(self, socket: TcpListener) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let mut listener = Listener::new(socket);
            if let Some(tls) = self.tls {
                listener = listener.tls(tls);
            }
            let shared = self.shared;
            let webhooks =
                std::mem::take(&mut *shared.webhooks.lock().unwrap_or_else(PoisonError::into_inner));
            let sending = webhooks::run(Arc::clone(&shared), webhooks);
            let serving = listener.serve(move |_| {
                let shared = Arc::clone(&shared);
                move |request| server::answer(Arc::clone(&shared), request)
            });
            tokio::select! {
                () = serving => {}
                () = sending => {}
            }
        })
    }
}
