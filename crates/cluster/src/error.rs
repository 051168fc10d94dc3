//! What can go wrong with a cluster itself.

/// Why a cluster could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The port could not be opened.
    #[error("cannot listen on {0}: {1}")]
    Port(std::net::SocketAddr, #[source] std::io::Error),
    /// The TLS settings do not fit together.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The machine has no randomness to offer.
    #[error("cannot draw a token: {0}")]
    Random(String),
    /// The kubeconfig could not be written.
    #[error("cannot write {0}: {1}")]
    Kubeconfig(std::path::PathBuf, #[source] std::io::Error),
    /// The data directory can't be used: another cluster holds it, or the disk fails.
    #[error("cannot keep data in {0}: {1}")]
    DataDirectory(std::path::PathBuf, #[source] Box<dyn std::error::Error + Send + Sync>),
    /// The cluster does not listen anywhere, so there is nothing to write into a kubeconfig.
    #[error("the cluster has no listener")]
    NoListener,
    /// There is no tokio runtime to work on.
    #[error("a cluster needs a tokio runtime: {0}")]
    Runtime(#[from] tokio::runtime::TryCurrentError),
}
