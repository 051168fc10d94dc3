//! Errors of the operator and its client.

/// The result of most calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server rejected the request, or could not be reached.
    #[error("{what}: {}", reason(.source))]
    Kube {
        /// The object or action that was requested.
        what: String,
        /// The response.
        source: Box<kube::Error>,
    },
    /// A package, or an update of an instance, is invalid.
    #[error(transparent)]
    Kudo(#[from] steersman_kudo::Error),
    /// Discovery of the cluster's kinds failed.
    #[error(transparent)]
    Kinds(#[from] steersman_release::Error),
    /// The requested operation is not possible.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    pub(crate) fn kube(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        move |source| Self::Kube { what, source: Box::new(source) }
    }

    /// Returns the HTTP status of the API server's response, if there was one.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Kube { source, .. } => match &**source {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            _ => None,
        }
    }
}

fn reason(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}
