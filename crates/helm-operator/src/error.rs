//! Why a chart operator could not be set up.

/// Why a chart operator could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// watches.yaml cannot be read or makes no sense.
    #[error("{0}")]
    Watches(String),
    /// A chart does not load.
    #[error("chart {chart}: {source}")]
    Chart {
        /// Where it is.
        chart: String,
        /// What is wrong with it.
        #[source]
        source: Box<steersman_chart::Error>,
    },
    /// A chart cannot be fetched.
    #[cfg(feature = "registry")]
    #[error("chart {chart}: {source}")]
    Fetch {
        /// Where it should be.
        chart: String,
        /// What went wrong.
        #[source]
        source: Box<steersman_registry::Error>,
    },
    /// A chart would have to be fetched, and the feature `registry` is left out.
    #[error("chart {0}: this program was built without the feature `registry`, which fetches charts")]
    NoRegistry(String),
    /// An override value does not expand or parse.
    #[error("override value {key}: {reason}")]
    Override {
        /// Its key.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The cluster does not serve a watched kind.
    #[error("the cluster does not have {0}: install its custom resource definition first")]
    Absent(String),
    /// The cluster could not be asked.
    #[error(transparent)]
    Release(#[from] steersman_release::Error),
    /// The runtime failed.
    #[error(transparent)]
    Runtime(#[from] steersman::Error),
}

/// The result of setting something up.
pub type Result<T, E = Error> = std::result::Result<T, E>;
