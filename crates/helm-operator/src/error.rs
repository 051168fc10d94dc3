//! Errors while setting up a chart operator.

/// Error while setting up a chart operator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// watches.yaml cannot be read or is invalid.
    #[error("{0}")]
    Watches(String),
    /// A chart does not load.
    #[error("chart {chart}: {source}")]
    Chart {
        /// Its location.
        chart: String,
        /// What is wrong with it.
        #[source]
        source: Box<steersman_chart::Error>,
    },
    /// A chart cannot be fetched.
    #[cfg(feature = "registry")]
    #[error("chart {chart}: {source}")]
    Fetch {
        /// Its location.
        chart: String,
        /// What went wrong.
        #[source]
        source: Box<steersman_registry::Error>,
    },
    /// A chart must be fetched, but the feature `registry` is disabled.
    #[error("cannot fetch chart {0}: built without the feature `registry`")]
    NoRegistry(String),
    /// An override value cannot be expanded, or its key does not parse.
    #[error("override value {key}: {reason}")]
    Override {
        /// Its key.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The cluster does not serve a watched kind.
    #[error("the cluster does not serve {0}: install its custom resource definition first")]
    Absent(String),
    /// The cluster could not be queried.
    #[error(transparent)]
    Release(#[from] steersman_release::Error),
    /// The operator runtime failed.
    #[error(transparent)]
    Runtime(#[from] steersman::Error),
}

/// Result of setting up a chart operator.
pub type Result<T, E = Error> = std::result::Result<T, E>;
