//! Webhooks that change or refuse writes.

mod client;
mod condition;
mod hook;
mod review;

use std::{
    collections::BTreeSet,
    sync::{Arc, PoisonError, RwLock},
};

use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::Value;
use steersman_patch::json_patch;

pub use client::{WebhookCall, WebhookClient, WebhookTarget};
pub(crate) use hook::Client;

use super::Operation;
use crate::{
    call::Call,
    catalog::Resource,
    handlers::subresource::{scale_of, take_scale},
    object,
    server::Core,
    status::{ApiError, ApiResult},
    store::Store,
};
use hook::{Hook, Subject};
use review::Answer;

const MUTATING: &str = "mutatingwebhookconfigurations.admissionregistration.k8s.io";
const VALIDATING: &str = "validatingwebhookconfigurations.admissionregistration.k8s.io";
/// What configures admission is not subject to it, or nobody could repair it.
const EXEMPT: &str = "admissionregistration.k8s.io";

type Hooks = RwLock<Arc<[Hook]>>;

/// The webhooks of a server, in the order in which they are asked.
#[derive(Debug)]
pub(crate) struct Webhooks {
    mutating: Hooks,
    validating: Hooks,
    client: Option<Arc<dyn WebhookClient>>,
}

fn current(hooks: &Hooks) -> Arc<[Hook]> {
    Arc::clone(&hooks.read().unwrap_or_else(PoisonError::into_inner))
}

impl Webhooks {
    pub(crate) fn new(client: Option<Arc<dyn WebhookClient>>) -> Self {
        let none = || RwLock::new(Arc::from([]));
        Self { mutating: none(), validating: none(), client }
    }

    /// Takes over the configurations of a kind, if it is one.
    pub(crate) fn learn(&self, store: &Store, storage: &str) {
        let hooks = match storage {
            MUTATING => &self.mutating,
            VALIDATING => &self.validating,
            _ => return,
        };
        // Read under the lock: of two writers, the later one here sees the later state.
        let mut hooks = hooks.write().unwrap_or_else(PoisonError::into_inner);
        // Configurations come by name, hooks as they are listed.
        *hooks = store
            .snapshot(storage, "", None)
            .entries
            .iter()
            .flat_map(|entry| {
                let configuration = entry.value();
                let list = configuration["webhooks"].as_array().cloned().unwrap_or_default();
                list.iter().map(Hook::new).collect::<Vec<_>>()
            })
            .collect();
    }

    /// Whether anybody may refuse anything.
    pub(crate) fn validates(&self) -> bool {
        !self.validating.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Takes over everything that is stored.
    pub(crate) fn learn_all(&self, store: &Store) {
        self.learn(store, MUTATING);
        self.learn(store, VALIDATING);
    }
}

/// Asks somebody outside, in time.
///
/// # Errors
/// Why there is no answer, in words that follow the name of who was asked.
pub(crate) async fn ask(
    core: &Core,
    client: &Client,
    body: &Bytes,
    timeout: std::time::Duration,
) -> Result<Bytes, String> {
    let service = client
        .url
        .is_none()
        .then(|| core.store.get("services", &object::key(&client.namespace, &client.name)))
        .flatten()
        .map(|entry| entry.value());
    let target = match &client.url {
        Some(url) => WebhookTarget::Url(url),
        None => WebhookTarget::Service {
            namespace: &client.namespace,
            name: &client.name,
            port: client.port,
            path: &client.path,
            object: service.as_ref(),
        },
    };
    let call = WebhookCall { target, ca_bundle: &client.ca_bundle, body, timeout };
    let Some(outside) = &core.webhooks.client else {
        return Err(format!("Post \"{}\": webhooks are not reachable from here", call.url()));
    };
    match tokio::time::timeout(timeout, outside.call(call)).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("Post \"{}\": context deadline exceeded", call.url())),
    }
}

/// A write on its way past the webhooks.
struct Passage<'a> {
    call: &'a Call,
    operation: Operation,
    old: Option<&'a Value>,
    /// Whether it is on its way past those who may change it.
    changes: bool,
}

/// Why a hook's answer does not let a write pass.
enum Failure {
    /// There is no answer, which the hook's policy may ignore.
    Call(String),
    /// It is refused, whatever the policy.
    Refusal(ApiError),
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self::Refusal(error)
    }
}

/// Lets hooks change an object, twice where they ask for it. Gives their warnings.
///
/// `again` is called when a hook changed something, so that everybody else can look at it again.
pub(crate) async fn mutate(
    call: &Call,
    operation: Operation,
    object: &mut Value,
    old: Option<&Value>,
    warnings: &mut Vec<String>,
    again: impl FnOnce(&mut Value) -> ApiResult<()>,
) -> ApiResult<()> {
    let hooks = current(&call.core.webhooks.mutating);
    if hooks.is_empty() || call.resource.group == EXEMPT {
        return Ok(());
    }
    let passage = Passage { call, operation, old, changes: true };
    let (mut asked, mut repeated, mut changed_any) = (Vec::new(), BTreeSet::new(), false);
    for (index, hook) in hooks.iter().enumerate() {
        let Some(changed) = passage.mutate(hook, object, warnings).await? else { continue };
        if changed {
            repeated.extend(asked.drain(..));
            changed_any = true;
        }
        if hook.reinvocable {
            asked.push(index);
        }
    }
    if !changed_any {
        return Ok(());
    }
    let before = object.clone();
    again(object)?;
    if *object != before {
        repeated.extend(asked);
    }
    for index in repeated {
        if let Some(hook) = hooks.get(index) {
            passage.mutate(hook, object, warnings).await?;
        }
    }
    Ok(())
}

/// Lets hooks refuse an object, which is in the version of the request and null for a deletion. Gives their warnings.
pub(crate) async fn validate(
    call: &Call,
    operation: Operation,
    object: &Value,
    old: Option<&Value>,
    warnings: &mut Vec<String>,
) -> ApiResult<()> {
    let hooks = current(&call.core.webhooks.validating);
    if hooks.is_empty() || call.resource.group == EXEMPT {
        return Ok(());
    }
    let passage = Passage { call, operation, old, changes: false };
    let mut wanted = Vec::new();
    for hook in hooks.iter() {
        if let Some(resource) = passage.wants(hook, object)? {
            wanted.push((hook, resource));
        }
    }
    let answers = wanted.iter().map(|(hook, resource)| passage.validate(hook, resource, object));
    let mut refusal = None;
    for (result, mut said) in join_all(answers).await {
        warnings.append(&mut said);
        refusal = refusal.or(result.err());
    }
    refusal.map_or(Ok(()), Err)
}

impl Passage<'_> {
    /// Whether hooks see a `Scale` in place of the object.
    fn is_scale(&self) -> bool {
        self.call.subresource_name() == "scale"
    }

    /// The name that hooks see, if any.
    fn name(&self) -> &str {
        let unknown = self.call.of_many || (self.call.named_here && self.changes);
        if unknown { "" } else { &self.call.name }
    }

    /// The namespace that hooks see; a namespace is in itself.
    fn namespace(&self) -> &str {
        let call = self.call;
        if *call.resource.storage == *"namespaces" { &call.name } else { call.scope() }
    }

    /// As which resource a hook wants to hear of this write, if at all.
    fn wants(&self, hook: &Hook, object: &Value) -> ApiResult<Option<Arc<Resource>>> {
        let call = self.call;
        let subject = Subject {
            operation: self.operation,
            resource: &call.resource,
            subresource: call.subresource_name(),
            namespace: self.namespace(),
            object: (!object.is_null()).then_some(object),
            old: self.old,
        };
        let catalog = call.core.catalog();
        let in_namespace = self.in_namespace(hook, &subject);
        if matches!(in_namespace, Ok(false)) {
            return Ok(None);
        }
        let selected = hook.selects_object(&subject).map_err(ApiError::internal);
        if matches!(selected, Ok(false)) {
            return Ok(None);
        }
        let Some(resource) = hook.wants(&subject, &catalog) else { return Ok(None) };
        in_namespace?;
        selected?;
        if !hook.conditions.is_empty() {
            let (new, old) = (self.converted(&resource, Some(object))?, self.converted(&resource, self.old)?);
            let request = review::request(self, &resource, "", &new, &old);
            let mut about = request.clone();
            for field in ["object", "oldObject"] {
                object::ensure(&mut about).remove(field);
            }
            match condition::hold(&hook.conditions, &new, &old, &about) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(_) if hook.ignores_failure => return Ok(None),
                Err(why) => {
                    return Err(ApiError::forbidden(
                        &call.resource.group,
                        &call.resource.plural,
                        &call.name,
                        &why,
                    ));
                }
            }
        }
        Ok(Some(resource))
    }

    /// Whether the hook's namespace selector takes the write.
    fn in_namespace(&self, hook: &Hook, subject: &Subject<'_>) -> ApiResult<bool> {
        let is_namespace = subject.resource.plural == "namespaces";
        if subject.namespace.is_empty() && !is_namespace {
            return Ok(true);
        }
        let Some(selector) = hook.namespace_selector().map_err(ApiError::internal)? else { return Ok(true) };
        let writes = matches!(self.operation, Operation::Create | Operation::Update);
        if let Some(object) =
            subject.object.filter(|_| is_namespace && subject.subresource.is_empty() && writes)
        {
            return Ok(selector.matches(&hook::labels(object)));
        }
        match self.call.core.store.get("namespaces", subject.namespace) {
            Some(entry) => Ok(selector.matches(entry.labels())),
            None => {
                let name = crate::status::quote(subject.namespace);
                let message = format!("namespaces {name} not found");
                Err(ApiError::new(http::StatusCode::NOT_FOUND, "NotFound", message).about(
                    "",
                    "namespaces",
                    subject.namespace,
                ))
            }
        }
    }

    /// An object in the version in which a hook wants it.
    fn converted(&self, resource: &Resource, object: Option<&Value>) -> ApiResult<Value> {
        let Some(object) = object.filter(|object| !object.is_null()) else { return Ok(Value::Null) };
        if self.is_scale() {
            return Ok(scale_of(self.call, object));
        }
        let (from, to) = (self.call.resource.api_version(), resource.api_version());
        if from == to { Ok(object.clone()) } else { resource.strategy.convert(object.clone(), &from, &to) }
    }

    /// Asks a hook, and gives its answer once it is sound.
    async fn ask(
        &self,
        hook: &Hook,
        resource: &Resource,
        object: &Value,
        mutating: bool,
    ) -> Result<Answer, Failure> {
        let call = self.call;
        if call.dry_run && hook.side_effects {
            let name = crate::status::quote(&hook.name);
            let why = format!("admission webhook {name} does not support dry run");
            return Err(ApiError::bad_request(why).into());
        }
        let Some(version) = hook.version else {
            let why = "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)";
            return Err(Failure::Call(why.into()));
        };
        let old = self.converted(resource, self.old)?;
        let uid = crate::environment::EnvironmentExt::uid(&*call.core.environment);
        let body = review::question(self, resource, version, &uid, object, &old);
        let answer = ask(&call.core, &hook.client, &body, hook.timeout)
            .await
            .map_err(|why| Failure::Call(format!("failed to call webhook: {why}")))?;
        Answer::read(&answer, version, &uid, mutating).map_err(Failure::Call)
    }

    /// What becomes of a failure by the hook's policy.
    fn judge(hook: &Hook, failure: Failure) -> ApiResult<()> {
        match failure {
            Failure::Refusal(error) => Err(error),
            Failure::Call(_) if hook.ignores_failure => Ok(()),
            Failure::Call(why) => {
                let name = crate::status::quote(&hook.name);
                Err(ApiError::internal(format!("failed calling webhook {name}: {why}")))
            }
        }
    }

    /// Takes out of a new object what the real server fills in only after it has been changed.
    fn hide_system_fields(&self, object: &mut Value) -> Vec<(String, Value)> {
        if self.operation != Operation::Create || !object.is_object() {
            return Vec::new();
        }
        let metadata = object::metadata(object);
        let name = self.call.named_here.then_some("name");
        let fields = ["uid", "creationTimestamp"].into_iter().chain(name);
        fields.filter_map(|field| Some((field.to_owned(), metadata.remove(field)?))).collect()
    }

    /// Lets a hook change the object. Says whether it did, nothing if it was not asked.
    async fn mutate(
        &self,
        hook: &Hook,
        object: &mut Value,
        warnings: &mut Vec<String>,
    ) -> ApiResult<Option<bool>> {
        let Some(resource) = self.wants(hook, object)? else { return Ok(None) };
        let mut seen = self.converted(&resource, Some(object))?;
        let system = self.hide_system_fields(&mut seen);
        let answer = match self.ask(hook, &resource, &seen, true).await {
            Ok(answer) => answer,
            Err(failure) => return Self::judge(hook, failure).map(|()| Some(false)),
        };
        warnings.extend(answer.warnings);
        if !answer.allowed {
            return Err(review::refusal(&hook.name, answer.status));
        }
        if answer.patch.is_empty() {
            return Ok(Some(false));
        }
        let name = crate::status::quote(&hook.name);
        if seen.is_null() {
            return Err(ApiError::internal(format!(
                "admission webhook {name} attempted to modify the object, which is not supported for this operation"
            )));
        }
        let mut patched = match json_patch(&seen, &answer.patch) {
            Ok(patched) => patched,
            Err(steersman_patch::JsonPatchError::Malformed(why)) => {
                let why = format!("received undecodable patch in webhook response: {why}");
                return Self::judge(hook, Failure::Call(why)).map(|()| Some(false));
            }
            Err(error) => return Err(ApiError::internal(error)),
        };
        object::normalise_numbers(&mut patched);
        if self.is_scale() {
            let changed = patched != seen;
            take_scale(self.call, object, &patched);
            return Ok(Some(changed));
        }
        let strategy = &resource.strategy;
        if strategy.typed()
            && let Some(schema) = strategy.schema(&resource.version)
        {
            schema
                .decode(&mut patched, crate::schema::Decoder::Json, &mut Vec::new())
                .map_err(ApiError::internal)?;
            schema.prune(&mut patched);
        }
        strategy.default(&resource.version, &mut patched);
        if strategy.typed()
            && let Some(schema) = strategy.schema(&resource.version)
        {
            schema.encode(&mut patched);
        }
        let changed = patched != seen;
        for (field, value) in system {
            // A hook may have named the object itself.
            object::metadata(&mut patched).entry(field).or_insert(value);
        }
        let (from, to) = (resource.api_version(), self.call.resource.api_version());
        *object = if from == to { patched } else { resource.strategy.convert(patched, &from, &to)? };
        Ok(Some(changed))
    }

    /// Lets a hook refuse the object. Gives its warnings beside the result.
    async fn validate(
        &self,
        hook: &Hook,
        resource: &Resource,
        object: &Value,
    ) -> (ApiResult<()>, Vec<String>) {
        let seen = match self.converted(resource, Some(object)) {
            Ok(seen) => seen,
            Err(error) => return (Err(error), Vec::new()),
        };
        match self.ask(hook, resource, &seen, false).await {
            Ok(answer) if answer.allowed => (Ok(()), answer.warnings),
            Ok(answer) => (Err(review::refusal(&hook.name, answer.status)), answer.warnings),
            Err(failure) => (Self::judge(hook, failure), Vec::new()),
        }
    }
}
