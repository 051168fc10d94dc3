//! Readiness of objects, told from their JSON.
//!
//! Two sets of rules share the type. [`readiness`] is for operators: a workload is ready when its rollout is complete, as `kubectl
//! rollout status` sees it, and other kinds when their conditions say so. [`helm::readiness`] is for releases: exactly what `helm --wait`
//! waits for, where a Deployment may lack as many replicas as its strategy allows.

pub mod helm;
mod rollout;

pub use rollout::readiness;

/// How far an object is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Readiness {
    /// It is up and serves its purpose.
    Ready,
    /// Not yet, and why.
    Waiting(String),
    /// It will not become ready by itself, and why.
    Failed(String),
}

impl Readiness {
    /// Whether it is ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        *self == Self::Ready
    }
}
