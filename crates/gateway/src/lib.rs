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

/// Why a gateway cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The client's configuration cannot be used.
    #[error("the cluster's configuration cannot be used: {0}")]
    Config(#[source] Box<kube::Error>),
    /// The audit log cannot be written.
    #[error("the audit log {path} cannot be written: {source}", path = path.display())]
    AuditLog {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error("the certificate cannot be used: {0}")]
    Certificate(String),
    /// A webhook's address or secret cannot be used.
    #[error("the webhook cannot be used: {0}")]
    Webhook(String),
    /// The OpenID provider's settings cannot be used.
    #[error("the OpenID provider cannot be used: {0}")]
    Oidc(String),
    /// The client for webhooks, metrics and OpenID providers cannot be made.
    #[error("the client for webhooks, metrics and OpenID providers cannot be made: {0}")]
    Client(#[source] reqwest::Error),
    /// No random numbers can be drawn.
    #[error("a link to sign in cannot be made: the system gives no random numbers")]
    Random,
}

/// What a gateway goes by.
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
    /// The cluster's name, as callers see it. Default: the host of its address.
    #[must_use]
    pub fn cluster_name(mut self, name: impl Into<String>) -> Self {
        self.cluster_name = name.into();
        self
    }

    /// An origin, such as `https://portal.example.com`, whose pages may call. Default: none but the gateway's own.
    #[must_use]
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.push(origin.into().trim_end_matches('/').to_ascii_lowercase());
        self
    }

    /// A file to which the audit is added as JSON lines, `-` for standard output. Default: kept in memory alone.
    #[must_use]
    pub fn audit_log(mut self, path: impl Into<PathBuf>) -> Self {
        self.audit_log = Some(path.into());
        self
    }

    /// The namespace for the history of cluster-scoped objects. Default: `default`.
    #[must_use]
    pub fn history_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.history_namespace = namespace.into();
        self
    }

    /// An object that shows how one of its kind is written; the portal's form starts from it. Default: none.
    #[must_use]
    pub fn sample(mut self, object: Value) -> Self {
        self.samples.push(object);
        self
    }

    /// An operator, by a name to show and the address of its metrics, for `/v1/operator`. Default: none.
    #[must_use]
    pub fn operator(mut self, name: impl Into<String>, metrics: impl Into<String>) -> Self {
        self.operators.push(Operator::new(name.into(), metrics.into()));
        self
    }

    /// The log whose latest lines `/v1/operator` shows. Default: an empty one.
    #[must_use]
    pub fn operator_log(mut self, log: OperatorLog) -> Self {
        self.operator_log = log;
        self
    }

    /// A receiver of a request for each condition that changes, watched for with the gateway's own credentials. Default: none.
    #[must_use]
    pub fn webhook(mut self, webhook: Webhook) -> Self {
        self.webhooks.push(webhook);
        self
    }

    /// An OpenID provider by which users sign in, beside tokens and links. Default: none.
    #[must_use]
    pub fn oidc(mut self, provider: OidcProvider) -> Self {
        self.oidc = Some(provider);
        self
    }

    /// Speaks TLS with a certificate chain and its key, both in PEM, and marks cookies as secure. Default: plain HTTP.
    ///
    /// # Errors
    /// Fails if they are not PEM, or do not belong together.
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

    /// Makes the gateway.
    ///
    /// # Errors
    /// Fails if the configuration cannot be used, or the audit log cannot be opened.
    pub fn build(self) -> Result<Gateway, Error> {
        let upstream = Upstream::new(self.config).map_err(|error| Error::Config(Box::new(error)))?;
        let audit = Audit::new(self.audit_log.as_ref())
            .map_err(|source| Error::AuditLog { path: self.audit_log.unwrap_or_default(), source })?;
        let own = upstream.calls_as(&Credentials::Own);
        // Another provider that the program has chosen stays.
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

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) upstream: Upstream,
    /// The cluster as the gateway itself sees it: for kinds and for the history.
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
    /// For receivers of webhooks and operators' metrics; follows no redirects.
    pub(crate) http: reqwest::Client,
    /// Those that no server of this gateway has taken on.
    webhooks: Mutex<Vec<Webhook>>,
    pub(crate) is_tls: bool,
}

/// REST, server-sent events and the portal over a cluster.
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
    /// Starts to describe a gateway for a cluster. The configuration's credentials are used for kinds, for the history, and for
    /// sessions of links to sign in; all other calls are made with those of their callers.
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

    /// The path of a link that signs in once, within ten minutes, with the gateway's own credentials.
    ///
    /// # Errors
    /// Fails if no random number can be drawn.
    pub fn sign_in_path(&self) -> Result<String, Error> {
        let code = self.shared.identities.code().map_err(|_| Error::Random)?;
        Ok(format!("/?once={code}"))
    }

    /// Serves on a port until it is dropped. Webhooks are sent meanwhile, by the first of several servers of one gateway.
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
