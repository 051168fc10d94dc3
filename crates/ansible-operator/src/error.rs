//! Errors of setting up an Ansible operator.

/// The reason why an Ansible operator could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// watches.yaml cannot be read or is invalid. One line per problem.
    #[error("{0}")]
    Watches(String),
    /// Python, Ansible or a collection is missing. The message says which command installs it.
    #[error("{0}")]
    Python(String),
    /// A file or socket of the operator could not be created.
    #[error("{what}: {source}")]
    Io {
        /// The file or socket.
        what: String,
        /// The I/O error.
        #[source]
        source: std::io::Error,
    },
    /// The cluster does not serve a watched kind.
    #[error("the cluster does not serve {0}: install its custom resource definition first")]
    Absent(String),
    /// The API server could not be queried.
    #[error("API discovery failed: {}", answer(.0))]
    Discovery(#[from] kube::Error),
}

impl Error {
    pub(crate) fn io(what: impl Into<String>, source: std::io::Error) -> Self {
        Self::Io { what: what.into(), source }
    }
}

/// Returns the API server's message, without the rest of its response.
fn answer(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Api(status) => format!("the API server answered with {} {}", status.code, status.reason),
        error => error.to_string(),
    }
}

/// The result of a setup function.
pub type Result<T, E = Error> = std::result::Result<T, E>;
