//! Errors of an embedded cluster.

/// Error of an embedded cluster.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A certificate could not be created.
    #[error("cannot create a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The port could not be opened.
    #[error("cannot listen on {0}: {1}")]
    Port(std::net::SocketAddr, #[source] std::io::Error),
    /// The TLS settings do not fit together.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The random source of the system failed.
    #[error("cannot generate a token: {0}")]
    Random(String),
    /// The kubeconfig could not be written.
    #[error("cannot write {0}: {1}")]
    Kubeconfig(std::path::PathBuf, #[source] std::io::Error),
    /// The data directory can't be used: another cluster holds it, the disk fails, or the feature `data-dir` is left out.
    #[error("cannot keep data in {0}: {1}")]
    DataDirectory(std::path::PathBuf, #[source] Box<dyn std::error::Error + Send + Sync>),
    /// The Service, ClusterRole or APIService of the metrics API could not be created.
    #[error("cannot install the metrics API: {0}")]
    Metrics(String),
    /// The cluster has no listener, so there is no kubeconfig.
    #[error("the cluster has no listener")]
    NoListener,
    /// The workloads have ended, with their runtime.
    #[error("the cluster has stopped: take checkpoints on the runtime that started it")]
    Ended,
    /// The cluster was started outside a tokio runtime.
    #[error("a cluster needs a tokio runtime: {0}")]
    Runtime(#[from] tokio::runtime::TryCurrentError),
}
