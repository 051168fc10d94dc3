//! Admission of instances: as a webhook of the operator, or in the process of an embedded cluster.

use bytes::Bytes;
use kube::Client;
use kube::api::Api;
use serde_json::{Value, json};
use steersman::{Denied, Operation, Review, Webhook};
use steersman_kudo::{Instance, OperatorVersion, admission};
use uuid::Builder;

/// The name of the service in the webhook's configuration.
pub const SERVICE: &str = "kudo-controller-manager-service";
/// The webhook's path, as kubebuilder generates it.
pub const WEBHOOK_PATH: &str = "/mutate-kudo-dev-v1beta1-instance";

/// Admits updates of instances, based on the operator versions in a cluster.
#[derive(Clone)]
pub struct Admission {
    client: Client,
}

impl std::fmt::Debug for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admission").finish_non_exhaustive()
    }
}

impl Admission {
    /// Creates an admission that reads operator versions with a client.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Returns the webhook, for an operator to serve.
    pub fn webhook(self) -> Webhook {
        Webhook::mutating_async::<Instance, _, _>(move |instance, review| {
            let admission = self.clone();
            async move { admission.admit(instance, review).await }
        })
    }

    /// Answers an AdmissionReview request in the process: the function for `Cluster::webhooks_by`.
    pub async fn answer(self, request: http::Request<Bytes>) -> http::Response<Bytes> {
        let review: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let response = self.webhook().review(review["request"].clone()).await;
        let answer =
            json!({ "apiVersion": review["apiVersion"], "kind": review["kind"], "response": response });
        let mut response = http::Response::new(Bytes::from(answer.to_string()));
        let json = http::HeaderValue::from_static("application/json");
        response.headers_mut().insert(http::header::CONTENT_TYPE, json);
        response
    }

    async fn admit(&self, mut instance: Instance, review: Review<Instance>) -> Result<Instance, Denied> {
        // The object's own namespace is not trusted.
        instance.metadata.namespace = Some(review.namespace.clone());
        let denied = |error: steersman_kudo::Error| Denied::from(error.to_string());
        if review.operation == Operation::Create {
            let version = self.version(&instance).await?;
            admission::create(&mut instance, &version, uid).map_err(denied)?;
            return Ok(instance);
        }
        let Some(mut old) = review.old else { return Ok(instance) };
        old.metadata.namespace = Some(review.namespace);
        if old.spec == instance.spec {
            return Ok(instance);
        }
        // The operator version of an instance that is being deleted may no longer exist.
        let is_deleting = instance.is_deleting();
        let version = match self.version(&instance).await {
            Err(_) if is_deleting => return Ok(instance),
            found => found?,
        };
        let old_version = if old.spec.operator_version == instance.spec.operator_version {
            version.clone()
        } else {
            self.version(&old).await?
        };
        admission::update(&old, &mut instance, &old_version, &version, uid).map_err(denied)?;
        Ok(instance)
    }

    async fn version(&self, instance: &Instance) -> Result<OperatorVersion, Denied> {
        let name = &instance.spec.operator_version.name;
        let namespace = instance.operator_version_namespace();
        let api: Api<OperatorVersion> = Api::namespaced(self.client.clone(), namespace);
        let found = api.get_opt(name).await.map_err(|error| Denied::from(error.to_string()))?;
        found.ok_or_else(|| {
            Denied::from(format!(
                "failed to get OperatorVersion {namespace}/{name} of Instance {}: install it first",
                instance.name()
            ))
        })
    }
}

/// Returns a random UUID, version 4.
pub(crate) fn uid() -> String {
    Builder::from_random_bytes(fastrand::u128(..).to_ne_bytes()).into_uuid().to_string()
}
