//! Server-side apply and `managedFields`.
//! Adapts this server's resources to `steersman-patch`, which implements them.

use std::{
    borrow::Cow,
    sync::{Mutex, MutexGuard, PoisonError},
};

use http::StatusCode;
use serde_json::{Value, json};
use steersman_api::{
    schema,
    status::{ApiError, ApiResult, Cause, Reason},
};
use steersman_patch::apply::{self, ApplyError, FieldSet, Request, TypeId, Types};

use crate::{
    call::{Call, Decoded},
    catalog::{Resource, split_api_version},
    convert,
};

/// A resource as `steersman-patch` sees it.
struct Described<'a> {
    resource: &'a Resource,
    subresource: &'a str,
    api_version: String,
    reset: Option<FieldSet<'static>>,
    /// Paths of lists and maps that were applied empty.
    emptied: Mutex<Vec<String>>,
    conversions: Mutex<Conversions>,
}

/// Results of webhook conversions to other versions.
#[derive(Default)]
struct Conversions {
    /// Finished conversions: object, target version and result.
    known: Vec<(Value, String, Value)>,
    /// Conversions still needed.
    wanted: Vec<(Value, String)>,
}

impl Conversions {
    fn look_up(&mut self, object: &Value, api_version: &str) -> Option<Value> {
        let known = self.known.iter().find(|(from, to, _)| to == api_version && from == object);
        if let Some((_, _, converted)) = known {
            return Some(converted.clone());
        }
        self.wanted.push((object.clone(), api_version.to_owned()));
        None
    }
}

impl<'a> Described<'a> {
    fn new(call: &'a Call) -> Self {
        let subresource = call.subresource_name();
        let reset = call.resource.strategy.reset_fields(subresource);
        Self {
            resource: &call.resource,
            subresource,
            api_version: call.resource.api_version(),
            reset: (!reset.is_empty()).then(|| FieldSet::of_fields(reset.iter().copied())),
            emptied: Mutex::default(),
            conversions: Mutex::default(),
        }
    }

    fn conversions(&self) -> MutexGuard<'_, Conversions> {
        self.conversions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reruns `run` until every conversion it needs is available, and returns its result.
    /// Conversion webhooks are asynchronous, and the run itself cannot wait for them.
    async fn complete<T>(&self, mut run: impl FnMut() -> T) -> ApiResult<T> {
        for _ in 0..ROUNDS {
            let result = run();
            let wanted = std::mem::take(&mut self.conversions().wanted);
            if wanted.is_empty() {
                return Ok(result);
            }
            for (object, api_version) in wanted {
                let converted = convert::one(self.resource, object.clone(), &api_version).await?;
                self.conversions().known.push((object, api_version, converted));
            }
        }
        Err(ApiError::internal("too many conversions between versions of this object"))
    }
}

/// Maximum number of rounds. Each round adds conversions, and there are a few per version.
const ROUNDS: usize = 64;

impl apply::Resource for Described<'_> {
    fn api_version(&self) -> &str {
        &self.api_version
    }

    fn typed(&self, api_version: &str) -> Option<(&Types, TypeId)> {
        let (group, version) = split_api_version(api_version);
        // Events exist in two groups; each group's fields are described by the resource of that group.
        if group != self.resource.group {
            return None;
        }
        self.resource.strategy.types(version)
    }

    fn refuse_version(&self, api_version: &str) -> Option<String> {
        let why = || format!("request to convert CR to an invalid group/version: {api_version}");
        self.resource.custom.then(why)
    }

    fn convert<'v>(&self, object: &'v Value, api_version: &str) -> Option<Cow<'v, Value>> {
        let from = object.get("apiVersion").and_then(Value::as_str).unwrap_or(&self.api_version);
        if from == api_version {
            return Some(Cow::Borrowed(object));
        }
        if self.resource.strategy.converter().is_some() {
            return self.conversions().look_up(object, api_version).map(Cow::Owned);
        }
        if self.resource.custom {
            // Without a conversion webhook, only `apiVersion` changes and unknown fields stay.
            let mut object = object.clone();
            steersman_api::object::ensure(&mut object).insert("apiVersion".into(), api_version.into());
            return Some(Cow::Owned(object));
        }
        self.resource.strategy.convert(object.clone(), from, api_version).ok().map(Cow::Owned)
    }

    fn finish(&self, object: &mut Value) -> Result<(), String> {
        let strategy = &self.resource.strategy;
        let version = &self.resource.version;
        if strategy.typed()
            && let Some(schema) = strategy.schema(version)
        {
            let decoded = schema.convert(object)?;
            *self.emptied.lock().unwrap_or_else(PoisonError::into_inner) = decoded.emptied;
        }
        strategy.default(version, object);
        Ok(())
    }

    fn empty(&self, _: &Value) -> Value {
        self.resource.empty_object().clone()
    }

    fn reset_fields(&self, _: &str) -> Option<&FieldSet<'static>> {
        self.reset.as_ref()
    }

    fn subresource(&self) -> &str {
        self.subresource
    }
}

/// Updates the `managedFields` of `object` after a change of `old` other than apply.
/// Both are in the version of the request.
pub(crate) async fn track(call: &Call, old: Option<&Value>, object: &mut Value, emptied: &[String]) {
    if call.resource.strategy.converter().is_none() {
        return track_now(call, old, object, emptied);
    }
    let resource = Described::new(call);
    let given = object.clone();
    let tracked = resource.complete(|| {
        let mut object = given.clone();
        track_by(&resource, call, old, &mut object, emptied);
        object
    });
    match tracked.await {
        Ok(tracked) => *object = tracked,
        // `managedFields` that cannot be updated are dropped instead of failing the request.
        Err(_) => drop(steersman_api::object::metadata(object).remove("managedFields")),
    }
}

/// Updates `managedFields` of an object that needs no conversion webhook.
pub(crate) fn track_now(call: &Call, old: Option<&Value>, object: &mut Value, emptied: &[String]) {
    track_by(&Described::new(call), call, old, object, emptied);
}

fn track_by(
    resource: &Described<'_>,
    call: &Call,
    old: Option<&Value>,
    object: &mut Value,
    emptied: &[String],
) {
    // A client resets `managedFields` with an empty list, which decoding drops.
    if emptied.iter().any(|place| place == "metadata.managedFields[]") {
        steersman_api::object::metadata(object).insert("managedFields".into(), json!([]));
    }
    let (manager, now) = (call.manager(), call.now());
    let request = Request { manager: &manager, now: &now };
    apply::update(resource, old.unwrap_or_else(|| call.resource.empty_object()), object, request);
}

/// A kind without its own resource, written through a subresource.
pub(crate) struct Detached<'a> {
    described: Described<'a>,
    api_version: &'a str,
    type_name: &'a str,
}

impl apply::Resource for Detached<'_> {
    fn api_version(&self) -> &str {
        self.api_version
    }

    fn typed(&self, _: &str) -> Option<(&Types, TypeId)> {
        steersman_kinds::types(self.type_name)
    }

    fn convert<'v>(&self, object: &'v Value, _: &str) -> Option<Cow<'v, Value>> {
        Some(Cow::Borrowed(object))
    }

    fn finish(&self, object: &mut Value) -> Result<(), String> {
        match schema::definition(self.type_name) {
            Some(schema) => schema.convert(object).map(drop),
            None => Ok(()),
        }
    }

    fn empty(&self, live: &Value) -> Value {
        let mut nothing = json!({"apiVersion": self.api_version, "kind": live["kind"]});
        if let Some(schema) = schema::definition(self.type_name) {
            schema.encode(&mut nothing);
        }
        nothing
    }

    fn reset_fields(&self, _: &str) -> Option<&FieldSet<'static>> {
        None
    }

    fn subresource(&self) -> &str {
        self.described.subresource
    }
}

impl<'a> Detached<'a> {
    /// Creates the adapter for the kind of a call's subresource, by the name of its type.
    pub(crate) fn new(call: &'a Call, api_version: &'a str, type_name: &'a str) -> Self {
        Self { described: Described::new(call), api_version, type_name }
    }

    /// Sets `managedFields` in a new object that is returned but not stored.
    pub(crate) fn track_new(&self, call: &Call, object: Value) -> Value {
        let nothing = apply::Resource::empty(self, &object);
        let mut tracked = self.track(call, &nothing, object);
        apply::unpack(&mut tracked);
        tracked
    }

    /// Updates the `managedFields` of `object` after a change of `old`.
    pub(crate) fn track(&self, call: &Call, old: &Value, mut object: Value) -> Value {
        let (manager, now) = (call.manager(), call.now());
        apply::update(self, old, &mut object, Request { manager: &manager, now: &now });
        object
    }

    /// Applies `intent` to `current`.
    pub(crate) fn apply(&self, call: &Call, current: &Value, intent: &Value) -> ApiResult<Value> {
        let (manager, now) = (call.manager(), call.now());
        let request = Request { manager: &manager, now: &now };
        apply::apply(self, current, intent, request, call.options.force.unwrap_or(false)).map_err(refuse)
    }
}

/// Applies `intent` to `current`. Both are in the version of the request.
pub(crate) async fn apply(call: &Call, current: Option<&Value>, intent: &Value) -> ApiResult<Decoded> {
    let (manager, now) = (call.manager(), call.now());
    let request = Request { manager: &manager, now: &now };
    let force = call.options.force.unwrap_or(false);
    let resource = Described::new(call);
    let live = current.unwrap_or_else(|| call.resource.empty_object());
    let applied = resource.complete(|| apply::apply(&resource, live, intent, request, force));
    let object = applied.await?.map_err(refuse)?;
    let emptied = resource.emptied.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Decoded { object, emptied })
}

/// Returns the object with `managedFields` as the API returns them.
pub(crate) fn shown(object: &Value) -> Cow<'_, Value> {
    let managers =
        steersman_api::object::get(object, &["metadata", "managedFields"]).and_then(Value::as_array);
    let is_packed = managers.is_some_and(|entries| entries.iter().any(|entry| entry["fieldsV1"].is_string()));
    if !is_packed {
        return Cow::Borrowed(object);
    }
    let mut object = object.clone();
    apply::unpack(&mut object);
    Cow::Owned(object)
}

fn refuse(error: ApplyError) -> ApiError {
    let message = error.to_string();
    match error {
        ApplyError::Conflict(conflicts) => {
            let mut error = ApiError::new(StatusCode::CONFLICT, Reason::Conflict, message);
            error.causes = conflicts
                .into_iter()
                .map(|c| Cause {
                    reason: "FieldManagerConflict".into(),
                    message: format!("conflict with {}", c.manager),
                    field: c.path.to_string(),
                })
                .collect();
            error
        }
        ApplyError::BadRequest(_) => ApiError::bad_request(message),
        ApplyError::Internal(_) => ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, Reason::Unknown, message),
    }
}
