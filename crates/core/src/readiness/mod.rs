//! Readiness of objects, computed from their JSON.
//!
//! Two sets of rules return the same [`Readiness`]. [`readiness`] is for operators: a workload is ready when its rollout is
//! complete, as in `kubectl rollout status`, and other kinds by their conditions. [`helm::readiness`] is for releases:
//! exactly what `helm --wait` waits for, where a Deployment may lack as many replicas as its strategy allows.

pub mod helm;
mod rollout;

pub use rollout::readiness;

/// The readiness of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Readiness {
    /// Up and serving its purpose.
    Ready,
    /// Not ready yet, with the reason.
    Waiting(String),
    /// Failed: it will not become ready on its own. With the reason.
    Failed(String),
}

impl Readiness {
    /// Whether it is ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        *self == Self::Ready
    }
}
