//! Mutating and validating webhooks.

mod client;
mod hook;
mod review;
mod stored;

use std::sync::{Arc, RwLock};

use futures_util::future::join_all;
use serde_json::Value;
use steersman_cel::Value as Cel;
use steersman_patch::json_patch;

pub(crate) use client::Caller;
pub use client::{WebhookCall, WebhookClient, WebhookTarget};
pub(crate) use hook::Client;
pub(in crate::admission) use review::request;
pub(crate) use stored::Webhooks;

use steersman_api::{
    schema::Decoder,
    status::{ApiError, ApiResult},
};

use super::{
    attempt::Attempt,
    expression::{Access, Budget, CONDITIONS_LIMIT, Scope, Variables},
    reinvocation::Reinvocation,
    values::cel,
};
use crate::catalog::Resource;
use hook::Hook;
use review::Answer;
use stored::current;

/// Admission configurations are exempt from webhooks, so that a wrong one can be repaired.
pub(in crate::admission) const EXEMPT: &str = "admissionregistration.k8s.io";

/// Whether any validating webhook may match a write.
pub(crate) fn validates(attempt: &Attempt<'_>) -> bool {
    concerns(&attempt.call.core.webhooks.validating, attempt)
}

/// Whether any mutating webhook may match a write.
pub(crate) fn mutates(attempt: &Attempt<'_>) -> bool {
    concerns(&attempt.call.core.webhooks.mutating, attempt)
}

fn concerns(hooks: &RwLock<Arc<[Hook]>>, attempt: &Attempt<'_>) -> bool {
    attempt.call.resource.group != EXEMPT
        && current(hooks).iter().any(|hook| attempt.concerns(&hook.constraints))
}

/// The reasons a webhook does not admit a write.
enum Failure {
    /// The call failed; the failure policy decides.
    Call(String),
    /// The write is rejected regardless of the failure policy.
    Refusal(ApiError),
    /// The webhook was skipped, with a warning for the client.
    Skipped(String),
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self::Refusal(error)
    }
}

/// The webhooks that may mutate a write.
pub(crate) struct Mutators<'a> {
    attempt: Attempt<'a>,
    hooks: Arc<[Hook]>,
    reinvocation: Reinvocation<usize>,
}

impl<'a> Mutators<'a> {
    pub(crate) fn new(attempt: Attempt<'a>) -> Self {
        let call = attempt.call;
        let hooks =
            if call.resource.group == EXEMPT { Arc::from([]) } else { current(&call.core.webhooks.mutating) };
        Self { attempt, hooks, reinvocation: Reinvocation::default() }
    }

    /// Calls the webhooks with an object; in the second round, only those to be reinvoked.
    /// Collects warnings, and returns whether the object changed, so that other plugins have to be called again.
    pub(crate) async fn run(&mut self, object: &mut Value, warnings: &mut Vec<String>) -> ApiResult<bool> {
        if self.hooks.is_empty() {
            return Ok(false);
        }
        self.reinvocation.begin(object);
        let mut changed_any = false;
        for (index, hook) in self.hooks.iter().enumerate() {
            if self.reinvocation.skips(&index) {
                continue;
            }
            let Some(changed) = self.attempt.mutate(hook, object, warnings).await? else { continue };
            if changed {
                self.reinvocation.changed();
                changed_any = true;
            }
            if hook.reinvocable {
                self.reinvocation.saw(index);
            }
        }
        self.reinvocation.end(object);
        Ok(changed_any)
    }
}

/// Calls the webhooks with an object in the version of the request, null for a deletion.
/// Returns warnings.
pub(crate) async fn validate(
    attempt: Attempt<'_>,
    object: &Value,
    warnings: &mut Vec<String>,
) -> ApiResult<()> {
    let call = attempt.call;
    let hooks = current(&call.core.webhooks.validating);
    if hooks.is_empty() || call.resource.group == EXEMPT {
        return Ok(());
    }
    let mut wanted = Vec::new();
    for hook in hooks.iter() {
        if let Some(resource) = attempt.wants(hook, object).await? {
            wanted.push((hook, resource));
        }
    }
    let answers = wanted.iter().map(|(hook, resource)| attempt.validate(hook, resource, object));
    let mut refusal = None;
    for (result, mut said) in join_all(answers).await {
        warnings.append(&mut said);
        refusal = refusal.or(result.err());
    }
    refusal.map_or(Ok(()), Err)
}

impl Attempt<'_> {
    /// Returns the resource, in the API version a webhook wants; `None` if it does not match this write.
    async fn wants(&self, hook: &Hook, object: &Value) -> ApiResult<Option<Arc<Resource>>> {
        let Some(resource) = self.matches(&hook.constraints, object)? else { return Ok(None) };
        if !hook.conditions.is_empty() {
            let new = self.converted(&resource, Some(object)).await?;
            let old = self.converted(&resource, self.old).await?;
            let mut scope = Scope {
                object: cel(&new),
                old: cel(&old),
                request: cel(&self.about(&resource)),
                parameter: Cel::Null,
                namespace: Cel::Null,
                access: Access::new(self),
                variables: Variables::default(),
                budget: Budget::new(CONDITIONS_LIMIT),
            };
            match scope.holds(&hook.conditions) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(_) if hook.ignores_failure => return Ok(None),
                Err(why) => return Err(self.forbid(object, &why)),
            }
        }
        Ok(Some(resource))
    }

    /// Calls a webhook and validates its response.
    async fn ask(
        &self,
        hook: &Hook,
        resource: &Resource,
        object: &Value,
        mutating: bool,
    ) -> Result<Answer, Failure> {
        let call = self.call;
        if call.write.dry_run && hook.side_effects {
            let name = steersman_api::status::quote(&hook.name);
            let why = format!("admission webhook {name} does not support dry run");
            return Err(ApiError::bad_request(why).into());
        }
        let Some(version) = hook.version else {
            let why = "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)";
            return Err(Failure::Call(why.into()));
        };
        if let Some(why) = call.core.webhooks.caller.skips(&hook.client) {
            let name = steersman_api::status::quote(&hook.name);
            return Err(Failure::Skipped(format!("admission webhook {name} was not called: {why}")));
        }
        let old = self.converted(resource, self.old).await?;
        let uid = steersman_api::environment::EnvironmentExt::uid(&*call.core.environment);
        let body = review::question(self, resource, version, &uid, object, &old);
        let answer = call
            .core
            .webhooks
            .caller
            .call(&hook.client, &body, hook.timeout)
            .await
            .map_err(|why| Failure::Call(format!("failed to call webhook: {why}")))?;
        Answer::read(&answer, version, &uid, mutating).map_err(Failure::Call)
    }

    /// Applies the webhook's failure policy.
    fn judge(hook: &Hook, failure: Failure, warnings: &mut Vec<String>) -> ApiResult<()> {
        match failure {
            Failure::Refusal(error) => Err(error),
            Failure::Skipped(why) => {
                warnings.push(why);
                Ok(())
            }
            Failure::Call(_) if hook.ignores_failure => Ok(()),
            Failure::Call(why) => {
                let name = steersman_api::status::quote(&hook.name);
                Err(ApiError::internal(format!("failed calling webhook {name}: {why}")))
            }
        }
    }

    /// Calls a mutating webhook. Returns whether it changed the object; `None` if it was not called.
    async fn mutate(
        &self,
        hook: &Hook,
        object: &mut Value,
        warnings: &mut Vec<String>,
    ) -> ApiResult<Option<bool>> {
        let Some(resource) = self.wants(hook, object).await? else { return Ok(None) };
        let mut view = self.view(resource, object).await?;
        let answer = match self.ask(hook, &view.resource, &view.object, true).await {
            Ok(answer) => answer,
            Err(failure) => return Self::judge(hook, failure, warnings).map(|()| Some(false)),
        };
        warnings.extend(answer.warnings);
        if !answer.allowed {
            return Err(review::refusal(&hook.name, answer.status));
        }
        if answer.patch.is_empty() {
            return Ok(Some(false));
        }
        let name = steersman_api::status::quote(&hook.name);
        if view.object.is_null() {
            return Err(ApiError::internal(format!(
                "admission webhook {name} attempted to modify the object, which is not supported for this operation"
            )));
        }
        let mut patched = match json_patch(&view.object, &answer.patch) {
            Ok(patched) => patched,
            Err(steersman_patch::JsonPatchError::Malformed(why)) => {
                let why = format!("received undecodable patch in webhook response: {why}");
                return Self::judge(hook, Failure::Call(why), warnings).map(|()| Some(false));
            }
            Err(error) => return Err(ApiError::internal(error)),
        };
        self.shape(&view.resource, &mut patched, Decoder::Json).map_err(ApiError::internal)?;
        let changed = patched != view.object;
        view.object = patched;
        self.adopt(view, object).await?;
        Ok(Some(changed))
    }

    /// Calls a validating webhook. Returns its warnings with the result.
    async fn validate(
        &self,
        hook: &Hook,
        resource: &Resource,
        object: &Value,
    ) -> (ApiResult<()>, Vec<String>) {
        let seen = match self.converted(resource, Some(object)).await {
            Ok(seen) => seen,
            Err(error) => return (Err(error), Vec::new()),
        };
        match self.ask(hook, resource, &seen, false).await {
            Ok(answer) if answer.allowed => (Ok(()), answer.warnings),
            Ok(answer) => (Err(review::refusal(&hook.name, answer.status)), answer.warnings),
            Err(failure) => {
                let mut warnings = Vec::new();
                (Self::judge(hook, failure, &mut warnings), warnings)
            }
        }
    }
}
