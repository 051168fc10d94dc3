//! What can go wrong between an operator and a cluster.

/// The result of most calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused, or could not be reached.
    #[error("{what}: {}", reason(.source))]
    Kube {
        /// What was asked of it.
        what: String,
        /// What it said.
        source: Box<kube::Error>,
    },
    /// A package or a change of an instance is not in order.
    #[error(transparent)]
    Kudo(#[from] steersman_kudo::Error),
    /// The cluster's kinds could not be found out.
    #[error(transparent)]
    Kinds(#[from] steersman_release::Error),
    /// What was asked for cannot be done.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    pub(crate) fn kube(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        move |source| Self::Kube { what, source: Box::new(source) }
    }

    /// The HTTP status of the API server's answer, if it gave one.
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
