//! Server-side apply and the record of who manages which field: the adapter between this server's resources and
//! `steersman-patch`, which does the work.

use std::{
    borrow::Cow,
    sync::{Mutex, PoisonError},
};

use http::StatusCode;
use serde_json::{Value, json};
use steersman_patch::apply::{self, ApplyError, FieldSet, Request, TypeId, Types};

use crate::{
    call::Call,
    catalog::{Resource, split_api_version},
    schema::Decoder,
    status::{ApiError, ApiResult, Cause},
};

/// A resource as the patch room sees it.
struct Described<'a> {
    resource: &'a Resource,
    subresource: &'a str,
    api_version: String,
    reset: Option<FieldSet>,
    /// Places of lists and maps that were applied empty.
    emptied: Mutex<Vec<String>>,
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
        }
    }
}

impl apply::Resource for Described<'_> {
    fn api_version(&self) -> &str {
        &self.api_version
    }

    fn typed(&self, api_version: &str) -> Option<(&Types, TypeId)> {
        let (group, version) = split_api_version(api_version);
        // Events of both groups are one kind; each group's fields are described by the resource of that group.
        if group != self.resource.group {
            return None;
        }
        self.resource.strategy.types(version)
    }

    fn convert<'v>(&self, object: &'v Value, api_version: &str) -> Option<Cow<'v, Value>> {
        let from = object.get("apiVersion").and_then(Value::as_str).unwrap_or(&self.api_version);
        if from == api_version {
            return Some(Cow::Borrowed(object));
        }
        self.resource.strategy.convert(object.clone(), from, api_version).ok().map(Cow::Owned)
    }

    fn finish(&self, object: &mut Value) -> Result<(), String> {
        let strategy = &self.resource.strategy;
        let version = &self.resource.version;
        if strategy.typed()
            && let Some(schema) = strategy.schema(version)
        {
            let mut emptied = Vec::new();
            schema.decode(object, Decoder::Conversion, &mut emptied)?;
            *self.emptied.lock().unwrap_or_else(PoisonError::into_inner) = emptied;
        }
        strategy.default(version, object);
        Ok(())
    }

    fn empty(&self, _: &Value) -> Value {
        empty(self.resource)
    }

    fn reset_fields(&self, _: &str) -> Option<&FieldSet> {
        self.reset.as_ref()
    }

    fn subresource(&self) -> &str {
        self.subresource
    }
}

/// Records in `object` that the caller changed `old` into it, by any way but apply. Both are in the version of the request.
pub(crate) fn track(call: &Call, old: Option<&Value>, object: &mut Value) {
    // A client clears the record with an empty list, which decoding leaves out.
    if call.emptied.iter().any(|place| place == "metadata.managedFields[]") {
        crate::object::metadata(object).insert("managedFields".into(), json!([]));
    }
    let (manager, now) = (call.manager(), call.now());
    let request = Request { manager: &manager, now: &now };
    let nothing = empty(&call.resource);
    apply::update(&Described::new(call), old.unwrap_or(&nothing), object, request);
    if call.subresource_name() == "scale" {
        forget_scale_times(object);
    }
}

/// Records in `object`, which is of a kind without a resource of its own, that the caller wrote it.
pub(crate) fn track_detached(call: &Call, api_version: &str, type_name: &str, object: &mut Value) {
    struct Detached<'a>(&'a Described<'a>, &'a str, &'a str);

    impl apply::Resource for Detached<'_> {
        fn api_version(&self) -> &str {
            self.1
        }

        fn typed(&self, _: &str) -> Option<(&Types, TypeId)> {
            crate::builtin::types(self.2)
        }

        fn convert<'v>(&self, object: &'v Value, _: &str) -> Option<Cow<'v, Value>> {
            Some(Cow::Borrowed(object))
        }

        fn finish(&self, _: &mut Value) -> Result<(), String> {
            Ok(())
        }

        fn reset_fields(&self, _: &str) -> Option<&FieldSet> {
            None
        }

        fn subresource(&self) -> &str {
            self.0.subresource()
        }
    }

    let (manager, now) = (call.manager(), call.now());
    let request = Request { manager: &manager, now: &now };
    let nothing = json!({"apiVersion": api_version, "kind": object["kind"]});
    let described = Described::new(call);
    apply::update(&Detached(&described, api_version, type_name), &nothing, object, request);
}

/// Changes by way of a Scale carry no time and come first, since the real server makes these entries up from the Scale.
fn forget_scale_times(object: &mut Value) {
    let Some(entries) = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut) else {
        return;
    };
    for entry in entries.iter_mut().filter(|e| e["subresource"] == "scale") {
        if let Some(entry) = entry.as_object_mut() {
            entry.remove("time");
        }
    }
    entries.sort_by_key(|e| (e["operation"] != "Apply", e.get("time").is_some()));
}

/// What becomes of `current` when the caller applies `intent` to it. Both are in the version of the request.
pub(crate) fn apply(call: &mut Call, current: Option<&Value>, intent: &Value) -> ApiResult<Value> {
    let (manager, now) = (call.manager(), call.now());
    let request = Request { manager: &manager, now: &now };
    let nothing = empty(&call.resource);
    let force = call.options.force.unwrap_or(false);
    let resource = Described::new(call);
    let object =
        apply::apply(&resource, current.unwrap_or(&nothing), intent, request, force).map_err(refuse)?;
    call.emptied = resource.emptied.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(object)
}

/// The object without content: what a typed encoder writes of it.
fn empty(resource: &Resource) -> Value {
    let mut nothing = json!({"apiVersion": resource.api_version(), "kind": resource.kind});
    if resource.strategy.typed()
        && let Some(schema) = resource.strategy.schema(&resource.version)
    {
        schema.encode(&mut nothing);
    }
    nothing
}

fn refuse(error: ApplyError) -> ApiError {
    let message = error.to_string();
    match error {
        ApplyError::Conflict(conflicts) => {
            let mut error = ApiError::new(StatusCode::CONFLICT, "Conflict", message);
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
        ApplyError::Internal(_) => ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", message),
    }
}
