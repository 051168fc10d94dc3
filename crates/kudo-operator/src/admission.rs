//! The admission of instances: as a webhook of the operator, or in the process of an embedded cluster.

use bytes::Bytes;
use kube::Client;
use kube::api::Api;
use serde_json::{Value, json};
use steersman::{Denied, Operation, Review, Webhook};
use steersman_kudo::{Instance, OperatorVersion, admission};
use uuid::Builder;

/// The service that the webhook's configuration names.
pub const SERVICE: &str = "kudo-controller-manager-service";
/// Where the webhook is served: kubebuilder's path.
pub const WEBHOOK_PATH: &str = "/mutate-kudo-dev-v1beta1-instance";

/// Decides about changes of instances, by the operator versions in a cluster.
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
    /// Reads operator versions with a client.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The webhook, for an operator that serves it.
    pub fn webhook(self) -> Webhook {
        Webhook::mutating_async::<Instance, _, _>(move |instance, review| {
            let admission = self.clone();
            async move { admission.admit(instance, review).await }
        })
    }

    /// Answers a posted review in the process: what `Cluster::webhooks_by` wants.
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
        // The object itself may not say where it is.
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
        // Of an instance that is being deleted the operator version may be gone.
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

/// A random UUID of version 4.
pub(crate) fn uid() -> String {
    Builder::from_random_bytes(fastrand::u128(..).to_ne_bytes()).into_uuid().to_string()
}
