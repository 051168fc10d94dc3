//! Webhooks: defaulting, validation and conversion as typed functions.

mod admission;
mod conversion;
mod server;

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};
use serde_json::Value;

pub(crate) use self::server::serve;
pub use self::{
    admission::{Denied, Operation, Review},
    conversion::Conversion,
};
use crate::kind::{Kind, Object};

/// Answers one admission request: takes the `request` of a review, returns its `response`.
type Answer = Arc<dyn Fn(Value) -> BoxFuture<'static, Value> + Send + Sync>;

/// Builder of an admission webhook, added with [`crate::Operator::webhook`].
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use steersman::{Denied, Operation, Operator, Review, Webhook};
///
/// fn check(map: &ConfigMap, review: &Review<ConfigMap>) -> Result<(), Denied> {
///     if map.data.is_none() {
///         return Err(Denied::field("data", "must be there"));
///     }
///     Ok(())
/// }
/// let webhook = Webhook::validating::<ConfigMap>(check).on([Operation::Create]);
/// let operator = Operator::new("map-operator").webhook(webhook);
/// ```
#[derive(Clone)]
#[must_use]
pub struct Webhook {
    pub(crate) kind: Kind,
    pub(crate) mutating: bool,
    pub(crate) operations: Vec<Operation>,
    answer: Answer,
}

impl Webhook {
    /// Mutates objects before they are stored, usually to set defaults.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube::ResourceExt as _;
    /// use steersman::Webhook;
    ///
    /// let webhook = Webhook::mutating::<ConfigMap>(|map, _| {
    ///     map.labels_mut().insert("example.com/seen".into(), "true".into());
    ///     Ok(())
    /// });
    /// ```
    pub fn mutating<K: Object>(
        change: impl Fn(&mut K, &Review<K>) -> Result<(), Denied> + Send + Sync + 'static,
    ) -> Self {
        let answer = at_once(move |request: &Value| admission::mutate(request, &change));
        let operations = vec![Operation::Create, Operation::Update];
        Self { kind: Kind::of::<K>(), mutating: true, operations, answer }
    }

    /// As [`Webhook::mutating`], with an async function that may read other objects before it decides.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use kube::{Api, Client, ResourceExt as _};
    /// use steersman::{Denied, Webhook};
    ///
    /// fn webhook(client: Client) -> Webhook {
    ///     Webhook::mutating_async::<ConfigMap, _, _>(move |map, review| {
    ///         let secrets: Api<Secret> = Api::namespaced(client.clone(), &review.namespace);
    ///         async move {
    ///             let found = secrets.get_opt(&map.name_any()).await.map_err(|error| Denied::from(error.to_string()))?;
    ///             if found.is_none() { Err(Denied::from("a Secret of that name is wanted")) } else { Ok(map) }
    ///         }
    ///     })
    /// }
    /// ```
    pub fn mutating_async<K, F, R>(change: F) -> Self
    where
        K: Object,
        F: Fn(K, Review<K>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<K, Denied>> + Send + 'static,
    {
        let change = Arc::new(change);
        let answer: Answer = Arc::new(move |request| {
            let change = Arc::clone(&change);
            admission::mutate_async(request, move |object, review| change(object, review)).boxed()
        });
        let operations = vec![Operation::Create, Operation::Update];
        Self { kind: Kind::of::<K>(), mutating: true, operations, answer }
    }

    /// Validates objects: accepts or denies them.
    pub fn validating<K: Object>(
        check: impl Fn(&K, &Review<K>) -> Result<(), Denied> + Send + Sync + 'static,
    ) -> Self {
        let answer = at_once(move |request: &Value| admission::validate(request, &check));
        let operations = vec![Operation::Create, Operation::Update];
        Self { kind: Kind::of::<K>(), mutating: false, operations, answer }
    }

    /// The operations to call it for. Default: create and update.
    pub fn on(mut self, operations: impl IntoIterator<Item = Operation>) -> Self {
        self.operations = operations.into_iter().collect();
        self
    }

    /// Answers one request without a server: takes the `request` of a review, returns its `response`.
    pub async fn review(&self, request: Value) -> Value {
        (self.answer)(request).await
    }

    /// URL path of the webhook, as in kubebuilder.
    pub(crate) fn path(&self) -> String {
        let resource = self.kind.resource();
        let group = if resource.group.is_empty() { String::new() } else { resource.group.replace('.', "-") };
        let verb = if self.mutating { "mutate" } else { "validate" };
        format!("/{verb}-{group}-{}-{}", resource.version, resource.kind.to_lowercase())
    }

    /// Name of the webhook in its configuration.
    pub(crate) fn name(&self) -> String {
        let resource = self.kind.resource();
        let verb = if self.mutating { 'm' } else { 'v' };
        let group = if resource.group.is_empty() { "core.k8s.io" } else { &resource.group };
        format!("{verb}{}-{}.{group}", resource.kind.to_lowercase(), resource.version)
    }
}

/// Wraps a synchronous function.
fn at_once(answer: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Answer {
    Arc::new(move |request| std::future::ready(answer(&request)).boxed())
}

/// All webhooks of an operator.
#[derive(Clone, Default)]
pub(crate) struct Webhooks {
    pub(crate) admission: Vec<Webhook>,
    pub(crate) conversions: Vec<Conversion>,
}

impl Webhooks {
    pub(crate) fn is_empty(&self) -> bool {
        self.admission.is_empty() && self.conversions.is_empty()
    }

    /// Whether a webhook is served at a path.
    pub(crate) fn serves(&self, path: &str) -> bool {
        if path == "/convert" {
            return !self.conversions.is_empty();
        }
        self.admission.iter().any(|webhook| webhook.path() == path)
    }

    /// Answers the review that was posted to a path. `None`: no webhook is at this path, or it is not a review.
    pub(crate) async fn answer(&self, path: &str, review: &Value) -> Option<Value> {
        let request = review.get("request")?;
        let response = if path == "/convert" {
            conversion::answer(&self.conversions, request)
        } else {
            let webhook = self.admission.iter().find(|webhook| webhook.path() == path)?;
            (webhook.answer)(request.clone()).await
        };
        Some(serde_json::json!({
            "apiVersion": review.get("apiVersion")?, "kind": review.get("kind")?, "response": response,
        }))
    }
}
