//! Updates: PUT, patches and subresource writes, retried on conflicts.

use std::sync::Arc;

use serde_json::Value;
use steersman_api::{
    fields::FieldError,
    metadata, object,
    status::{ApiError, ApiResult, Reason},
    store::Entry,
};

use crate::{
    admission::{self, Attempt, Operation},
    apply,
    auth::{self, rbac},
    call::{Call, Decoded},
    commit::{self, Written},
    pipeline,
    write::{self, Mode},
};

/// Maximum number of attempts of a write that conflicts with others.
const ATTEMPTS: usize = 32;

/// The change that a request makes to an object; called again on a conflict.
pub(crate) trait Edit: Send {
    /// Returns the changed object, given the current one, if any. Both are in the version of the request.
    fn edit(&mut self, current: Option<&Value>) -> impl Future<Output = ApiResult<Decoded>> + Send;
}

/// A synchronous edit.
struct AtOnce<F>(F);

impl<F: FnMut(Option<&Value>) -> ApiResult<Decoded> + Send> Edit for AtOnce<F> {
    fn edit(&mut self, current: Option<&Value>) -> impl Future<Output = ApiResult<Decoded>> + Send {
        std::future::ready((self.0)(current))
    }
}

/// Updates the stored object with `change`. Both objects are in the version of the request.
///
/// Returns whether the object was created.
pub(crate) async fn update(
    call: &Call,
    mode: Mode,
    change: impl FnMut(Option<&Value>) -> ApiResult<Decoded> + Send,
    warnings: &mut Vec<String>,
) -> ApiResult<(Written, bool)> {
    update_by(call, mode, AtOnce(change), warnings).await
}

/// Like [`update`], for an edit that may wait for a webhook.
pub(crate) async fn update_by(
    call: &Call,
    mode: Mode,
    mut edit: impl Edit,
    warnings: &mut Vec<String>,
) -> ApiResult<(Written, bool)> {
    // Writes to a subresource never create the object.
    let may_create = call.subresource.is_none()
        && match mode {
            Mode::Apply => true,
            Mode::Replace => call.resource.strategy.allows_create_on_update(),
            Mode::Create | Mode::Patch | Mode::Bind => false,
        };
    for _ in 0..ATTEMPTS {
        let Some(entry) = call.core.store.get(&call.resource.storage, &call.key()) else {
            if !may_create {
                return Err(ApiError::not_found(&call.resource, &call.name));
            }
            let mut decoded = edit.edit(None).await?;
            let uid = object::uid(&decoded.object);
            if !uid.is_empty() {
                if mode != Mode::Apply {
                    return Err(wrong_uid(call, uid, ""));
                }
                let why = format!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                );
                return Err(ApiError::conflict(&call.resource, &call.name, &why));
            }
            if mode == Mode::Apply {
                object::metadata(&mut decoded.object).remove("resourceVersion");
            }
            match pipeline::create_object(call, decoded, mode, warnings).await {
                // Another writer created it first; the next attempt updates that object.
                Err(e) if e.reason == Reason::AlreadyExists && mode == Mode::Apply => continue,
                other => return Ok((other?, true)),
            }
        };
        let stored = call.resource.read_packed(&entry);
        // The old object, in the version used for validation and, if different, in the version of the request.
        let (old, other) = if call.resource.custom {
            (call.to_served(stored).await?, None)
        } else if call.resource.is_storage_version() {
            (stored, None)
        } else {
            let other = call.to_served(stored.clone()).await?;
            (stored, Some(other))
        };
        let served = other.as_ref().unwrap_or(&old);
        let Decoded { mut object, emptied } = edit.edit(Some(served)).await?;
        commit::check_definition_size(call, &object)?;
        check_preconditions(call, mode, &object, &entry, &old)?;
        let is_versioned = !object::meta_text(&object, "resourceVersion").is_empty();
        write::match_namespace(call, &mut object)?;
        object::metadata(&mut object).insert("resourceVersion".into(), entry.revision().to_string().into());
        call.resource.strategy.default(&call.resource.version, &mut object);
        write::encode_served(call, &mut object);
        if mode == Mode::Replace {
            warnings.extend(metadata::merge_owners(&mut object, false));
        }
        // As in Kubernetes, a binding adds no managedFields entry.
        if !matches!(mode, Mode::Apply | Mode::Bind) {
            apply::track(call, Some(served), &mut object, &emptied).await;
        }
        let attempt = Attempt {
            call,
            operation: Operation::Update,
            name: &call.name,
            hides_name: false,
            old: Some(served),
        };
        if mode != Mode::Bind {
            admission::mutate(attempt, &mut object, warnings).await?;
        }
        warnings.extend(metadata::merge_owners(&mut object, true));
        rbac::check_escalation(call, &object, Some(served), &call.name, is_versioned)?;
        let mut object = call.to_validated_version(object)?;
        prepare(call, &mut object, &old, &emptied, warnings)?;
        if mode != Mode::Bind {
            admission::validate(attempt, &object, warnings).await?;
        }
        let object = call.to_stored(object).await?;
        // On a conflict, retry: a client that sent a resourceVersion is rejected then.
        if let Some(written) = commit_within_quota(call, &object, &old, &entry)? {
            commit::settle(call, &call.name, &written).await?;
            return Ok((written, false));
        }
    }
    Err(ApiError::modified(&call.resource, &call.name))
}

/// Checks that resourceVersion and uid sent by the client match the stored object.
fn check_preconditions(
    call: &Call,
    mode: Mode,
    object: &Value,
    entry: &Entry,
    stored: &Value,
) -> ApiResult<()> {
    let uid = object::uid(object);
    if mode == Mode::Replace && !uid.is_empty() && uid != object::uid(stored) {
        return Err(wrong_uid(call, uid, object::uid(stored)));
    }
    let version = object::meta_text(object, "resourceVersion");
    if version.is_empty() || version == "0" {
        if mode == Mode::Replace && !call.resource.strategy.allows_unconditional_update() {
            let error = FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
            let resource = &call.resource;
            // The API uses the resource in place of the kind here.
            return Err(ApiError::invalid_kind(&resource.group, &resource.plural, &call.name, vec![error]));
        }
        return Ok(());
    }
    match version.parse::<u64>() {
        Ok(v) if v == entry.revision() => Ok(()),
        Ok(_) => Err(ApiError::modified(&call.resource, &call.name)),
        Err(_) => {
            let digits = version.bytes().all(|c| c.is_ascii_digit());
            let why = if digits { "value out of range" } else { "invalid syntax" };
            let version = steersman_api::status::quote(version);
            Err(ApiError::unforeseen(format!("strconv.ParseUint: parsing {version}: {why}")))
        }
    }
}

/// Returns the storage error for a wrong uid, which contains the real server's storage key.
pub(crate) fn wrong_uid(call: &Call, given: &str, actual: &str) -> ApiError {
    let plural = call.resource.plural.as_str();
    let folder = match (call.resource.custom, plural) {
        (true, _) => format!("{}/{plural}", call.resource.group),
        (false, "services") => "services/specs".into(),
        (false, "endpoints") => "services/endpoints".into(),
        (false, "nodes") => "minions".into(),
        (false, "ingresses") => "ingress".into(),
        (false, plural) => plural.into(),
    };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{folder}/{}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {given}, UID in object meta: {actual}",
        call.key()
    );
    ApiError::conflict(&call.resource, &call.name, &why)
}

/// Restores fields that clients cannot change from the stored object, and validates the update.
fn prepare(
    call: &Call,
    object: &mut Value,
    stored: &Value,
    emptied: &[String],
    warnings: &mut Vec<String>,
) -> ApiResult<()> {
    let resource = &call.resource;
    let strategy = &resource.strategy;
    let metadata = object::metadata(object);
    for field in ["creationTimestamp", "generation", "selfLink"] {
        match stored["metadata"].get(field) {
            Some(value) => metadata.insert(field.into(), value.clone()),
            None => metadata.remove(field),
        };
    }
    // If the client sent a different value, validation rejects it.
    if let Some(uid) = stored["metadata"].get("uid") {
        metadata.entry("uid").or_insert_with(|| uid.clone());
    }
    if let Some(time) = stored["metadata"].get("deletionTimestamp") {
        metadata.insert("deletionTimestamp".into(), time.clone());
    }
    // If the client sent a different period, validation rejects it, even if the object is not terminating.
    if let Some(period) = stored["metadata"].get("deletionGracePeriodSeconds") {
        metadata.entry("deletionGracePeriodSeconds").or_insert_with(|| period.clone());
    }
    // managedFields are kept, whatever the kind's strategy resets.
    let managed = metadata.remove("managedFields");
    strategy.prepare_update(call.hook(emptied), object, stored)?;
    match managed {
        Some(managed) => object::metadata(object).insert("managedFields".into(), managed),
        None => object::metadata(object).remove("managedFields"),
    };
    // Defaulting may have filled empty fields.
    let is_empty =
        |place: &String| place.starts_with("spec.") && object::is_nothing(object::at(object, place));
    let noticed = strategy.notices_empty() && emptied.iter().any(is_empty);
    // Bindings and status updates do not change the desired state.
    let counts = strategy.has_generation() && !matches!(call.subresource_name(), "binding" | "status");
    if counts && (noticed || strategy.is_new_generation(object, stored)) {
        let next = object::generation(stored).saturating_add(1);
        object::metadata(object).insert("generation".into(), next.into());
    }
    let mut errors =
        metadata::validate(object, steersman_api::names::NameRule::PathSegment, call.resource.namespaced);
    errors.extend(metadata::validate_update(object, stored));
    if resource.custom {
        // Custom resources run this validation twice; built-in kinds handle it on their own.
        errors.extend(metadata::validate_update(object, stored));
    }
    let judged = strategy.judge_update(call.hook(emptied), object, stored);
    errors.extend(judged.errors);
    if errors.is_empty() {
        errors.extend(auth::parameters::check(call, object, Some(stored)));
    }
    warnings.extend(judged.tolerated.iter().map(ToString::to_string));
    if !errors.is_empty() {
        return Err(write::invalid(call, &call.name, errors, emptied));
    }
    commit::check_depth(object)?;
    write::encode(call, object);
    if call.subresource.is_none() {
        warnings.extend(strategy.warnings(object, Some(stored)));
    }
    Ok(())
}

/// Commits an update of `old` while its quota reservation is held.
fn commit_within_quota(
    call: &Call,
    object: &Value,
    old: &Value,
    entry: &Arc<Entry>,
) -> ApiResult<Option<Written>> {
    let counts = matches!(call.subresource_name(), "" | "resize");
    let _room = if counts {
        admission::reserve(&call.core, &call.resource, call.scope(), object, Some(old))?
    } else {
        None
    };
    commit::update(call, object, entry)
}
