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

/// Answers one admission request, which is the `request` of a review, with the `response`.
type Answer = Arc<dyn Fn(Value) -> BoxFuture<'static, Value> + Send + Sync>;

/// A webhook, described. [`crate::Operator::webhook`] takes it.
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
    /// Changes objects before they are stored: to fill in defaults, most often.
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

    /// As [`Webhook::mutating`], by a function that may read other objects before it decides.
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

    /// Lets objects pass, or not.
    pub fn validating<K: Object>(
        check: impl Fn(&K, &Review<K>) -> Result<(), Denied> + Send + Sync + 'static,
    ) -> Self {
        let answer = at_once(move |request: &Value| admission::validate(request, &check));
        let operations = vec![Operation::Create, Operation::Update];
        Self { kind: Kind::of::<K>(), mutating: false, operations, answer }
    }

    /// On which operations. Default: creations and updates.
    pub fn on(mut self, operations: impl IntoIterator<Item = Operation>) -> Self {
        self.operations = operations.into_iter().collect();
        self
    }

    /// Answers one request without a server: the `request` of a review in, its `response` out.
    pub async fn review(&self, request: Value) -> Value {
        (self.answer)(request).await
    }

    /// Where it is served: kubebuilder's paths.
    pub(crate) fn path(&self) -> String {
        let resource = self.kind.resource();
        let group = if resource.group.is_empty() { String::new() } else { resource.group.replace('.', "-") };
        let verb = if self.mutating { "mutate" } else { "validate" };
        format!("/{verb}-{group}-{}-{}", resource.version, resource.kind.to_lowercase())
    }

    /// Its name in a configuration.
    pub(crate) fn name(&self) -> String {
        let resource = self.kind.resource();
        let verb = if self.mutating { 'm' } else { 'v' };
        let group = if resource.group.is_empty() { "core.k8s.io" } else { &resource.group };
        format!("{verb}{}-{}.{group}", resource.kind.to_lowercase(), resource.version)
    }
}

/// The answer of a function that waits for nothing.
fn at_once(answer: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Answer {
    Arc::new(move |request| std::future::ready(answer(&request)).boxed())
}

/// Everything that an operator serves.
#[derive(Clone, Default)]
pub(crate) struct Webhooks {
    pub(crate) admission: Vec<Webhook>,
    pub(crate) conversions: Vec<Conversion>,
}

impl Webhooks {
    pub(crate) fn is_empty(&self) -> bool {
        self.admission.is_empty() && self.conversions.is_empty()
    }

    /// Whether there is something at a path.
    pub(crate) fn serves(&self, path: &str) -> bool {
        if path == "/convert" {
            return !self.conversions.is_empty();
        }
        self.admission.iter().any(|webhook| webhook.path() == path)
    }

    /// Answers the review that was posted to a path. `None`: there is nothing at this path, or it is no review.
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
