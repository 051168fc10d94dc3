//! What can go wrong with a cluster itself.

/// Why a cluster could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// There is no tokio runtime to work on.
    #[error("a cluster needs a tokio runtime: {0}")]
    Runtime(#[from] tokio::runtime::TryCurrentError),
}
