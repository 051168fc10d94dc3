//! Backoff of failed deployments.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use tokio::time::Instant;

/// Initial and maximum delay before a failed release is retried; the delay doubles each time.
pub(crate) const FIRST_RETRY: Duration = Duration::from_secs(1);
pub(crate) const LAST_RETRY: Duration = Duration::from_secs(300);

/// Failed deployments, by the uid of their object.
///
/// The backoff of the work queue is not enough: a failed upgrade and its rollback write watched objects, whose events
/// trigger the object at once.
#[derive(Debug, Default)]
pub(crate) struct FailedDeploys {
    by_uid: Mutex<HashMap<String, FailedDeploy>>,
}

#[derive(Debug)]
struct FailedDeploy {
    /// Fingerprint of everything that makes an immediate retry worthwhile.
    fingerprint: u64,
    failures: u32,
    retry_at: Instant,
    failure: DeployFailure,
}

/// Why a deployment failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeployFailure {
    /// The condition's reason, as in operator-sdk.
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl FailedDeploys {
    /// Returns the time until a failed deployment is retried, with the failure. `None`: the next attempt is due. `release`
    /// is the fingerprint of what is deployed: a change of it, or of the object's labels or annotations, makes a retry due
    /// at once.
    pub(crate) fn waiting(&self, object: &DynamicObject, release: u64) -> Option<(Duration, DeployFailure)> {
        let by_uid = self.lock();
        let failed = by_uid.get(&object.uid()?)?;
        let is_same = failed.fingerprint == fingerprint(object, release);
        let left = failed.retry_at.saturating_duration_since(Instant::now());
        (is_same && !left.is_zero()).then(|| (left, failed.failure.clone()))
    }

    /// Records a failed deployment.
    pub(crate) fn insert(&self, object: &DynamicObject, release: u64, failure: DeployFailure) {
        let fingerprint = fingerprint(object, release);
        let mut by_uid = self.lock();
        let uid = object.uid().unwrap_or_default();
        let before = by_uid.get(&uid).filter(|failed| failed.fingerprint == fingerprint);
        let failures = before.map_or(0, |failed| failed.failures);
        let delay =
            FIRST_RETRY.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX)).min(LAST_RETRY);
        let now = Instant::now();
        let (failures, retry_at) = (failures.saturating_add(1), now + delay);
        // For objects that are gone without a cleanup: the others have been retried by then.
        by_uid.retain(|_, failed| now < failed.retry_at + LAST_RETRY);
        by_uid.insert(uid, FailedDeploy { fingerprint, failures, retry_at, failure });
    }

    /// Forgets the failures of an object.
    pub(crate) fn remove(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, FailedDeploy>> {
        self.by_uid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fingerprint(object: &DynamicObject, release: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (release, object.labels(), object.annotations()).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_same_deployment_waits_twice_as_long_each_time() {
        let object = |annotations: serde_json::Value| -> DynamicObject {
            serde_json::from_value(json!({ "metadata": { "uid": "1", "annotations": annotations } })).unwrap()
        };
        let (plain, touched) = (object(json!({})), object(json!({ "touched": "yes" })));
        let failure = DeployFailure { reason: "UpgradeError", message: "no".into() };
        let failed = FailedDeploys::default();
        assert_eq!(failed.waiting(&plain, 7), None);
        for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            failed.insert(&plain, 7, failure.clone());
            assert_eq!(failed.waiting(&plain, 7), Some((Duration::from_secs(seconds), failure.clone())));
            assert_eq!(failed.waiting(&plain, 8), None, "another release is not waited for");
            assert_eq!(failed.waiting(&touched, 7), None, "a person asks for another attempt");
            tokio::time::advance(Duration::from_secs(seconds)).await;
            assert_eq!(failed.waiting(&plain, 7), None);
        }
        failed.insert(&plain, 8, failure.clone());
        assert_eq!(failed.waiting(&plain, 8), Some((FIRST_RETRY, failure)));
        failed.remove("1");
        assert_eq!(failed.waiting(&plain, 8), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_never_tried_again_is_forgotten() {
        let object = |uid: &str| -> DynamicObject {
            serde_json::from_value(json!({ "metadata": { "uid": uid } })).unwrap()
        };
        let failure = DeployFailure { reason: "InstallError", message: "no".into() };
        let failed = FailedDeploys::default();
        failed.insert(&object("gone"), 7, failure.clone());
        tokio::time::advance(FIRST_RETRY + LAST_RETRY - Duration::from_millis(1)).await;
        failed.insert(&object("a"), 7, failure.clone());
        assert_eq!(failed.lock().len(), 2);
        tokio::time::advance(Duration::from_millis(1)).await;
        failed.insert(&object("b"), 7, failure);
        assert_eq!(failed.lock().len(), 2);
        assert!(!failed.lock().contains_key("gone"));
    }
}
