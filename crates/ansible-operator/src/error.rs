//! Why an Ansible operator could not be set up.

/// Why an Ansible operator could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// watches.yaml cannot be read or makes no sense. One line for each problem.
    #[error("{0}")]
    Watches(String),
    /// Python, Ansible or a collection is missing. The text says what to type.
    #[error("{0}")]
    Python(String),
    /// A file or socket of the operator's own cannot be made.
    #[error("{what}: {source}")]
    Io {
        /// What was to be made.
        what: String,
        /// Why it was not.
        #[source]
        source: std::io::Error,
    },
    /// The cluster does not serve a watched kind.
    #[error("the cluster does not have {0}: install its custom resource definition first")]
    Absent(String),
    /// The cluster could not be asked.
    #[error("the cluster cannot be asked what it serves: {}", answer(.0))]
    Discovery(#[from] kube::Error),
}

impl Error {
    pub(crate) fn io(what: impl Into<String>, source: std::io::Error) -> Self {
        Self::Io { what: what.into(), source }
    }
}

/// What the API server said, without the rest of its answer.
fn answer(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Api(status) => format!("it answered with {} {}", status.code, status.reason),
        error => error.to_string(),
    }
}

/// The result of setting something up.
pub type Result<T, E = Error> = std::result::Result<T, E>;
