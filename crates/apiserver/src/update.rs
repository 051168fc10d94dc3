//! Updates: PUT, the patches and what subresources change, tried again after a lost race.

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

/// A write that keeps losing races gives up after so many attempts.
const ATTEMPTS: usize = 32;

/// The change that a request makes to an object, tried again after a lost race.
pub(crate) trait Edit: Send {
    /// The object that becomes of the present one, if there is one. Both are in the version of the request.
    fn edit(&mut self, current: Option<&Value>) -> impl Future<Output = ApiResult<Decoded>> + Send;
}

/// An edit that is ready at once.
struct AtOnce<F>(F);

impl<F: FnMut(Option<&Value>) -> ApiResult<Decoded> + Send> Edit for AtOnce<F> {
    fn edit(&mut self, current: Option<&Value>) -> impl Future<Output = ApiResult<Decoded>> + Send {
        std::future::ready((self.0)(current))
    }
}

/// Replaces the stored object with what `change` makes of it. Both are in the version of the request.
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

/// The same for an edit that may have to wait for a webhook.
pub(crate) async fn update_by(
    call: &Call,
    mode: Mode,
    mut edit: impl Edit,
    warnings: &mut Vec<String>,
) -> ApiResult<(Written, bool)> {
    // A part of an object is never a way to make the whole.
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
        // The object as it was, in the version in which the kind's rules speak, and in that of the request where it is another.
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
        // Kubernetes' bindings leave no entry: what places a pod does not manage its fields.
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
        // Otherwise look again: a client that named a version is refused by then.
        if let Some(written) = commit_within_quota(call, &object, &old, &entry)? {
            commit::settle(call, &call.name, &written).await?;
            return Ok((written, false));
        }
    }
    Err(ApiError::modified(&call.resource, &call.name))
}

/// The resourceVersion and uid that the client knows must be the present ones.
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
            // The API names the resource where a kind is expected here.
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

/// The words of a refusal by the storage, which names its own keys.
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

/// Takes over the fields of the stored object that a client can't change, and validates the new version.
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
    // What can't be changed and is given nevertheless is refused later on.
    if let Some(uid) = stored["metadata"].get("uid") {
        metadata.entry("uid").or_insert_with(|| uid.clone());
    }
    if let Some(time) = stored["metadata"].get("deletionTimestamp") {
        metadata.insert("deletionTimestamp".into(), time.clone());
    }
    // Another period is refused later on, whether or not the object is on its way out.
    if let Some(period) = stored["metadata"].get("deletionGracePeriodSeconds") {
        metadata.entry("deletionGracePeriodSeconds").or_insert_with(|| period.clone());
    }
    // Whatever a kind takes back, the record of who wrote what stays.
    let managed = metadata.remove("managedFields");
    strategy.prepare_update(call.hook(emptied), object, stored)?;
    match managed {
        Some(managed) => object::metadata(object).insert("managedFields".into(), managed),
        None => object::metadata(object).remove("managedFields"),
    };
    // Defaults may have filled what was empty.
    let is_empty =
        |place: &String| place.starts_with("spec.") && object::is_nothing(object::at(object, place));
    let noticed = strategy.notices_empty() && emptied.iter().any(is_empty);
    // Where a pod runs, and what is said of an object, is nothing that its owner asked for.
    let counts = strategy.has_generation() && !matches!(call.subresource_name(), "binding" | "status");
    if counts && (noticed || strategy.is_new_generation(object, stored)) {
        let next = object::generation(stored).saturating_add(1);
        object::metadata(object).insert("generation".into(), next.into());
    }
    let mut errors =
        metadata::validate(object, steersman_api::names::NameRule::PathSegment, call.resource.namespaced);
    errors.extend(metadata::validate_update(object, stored));
    if resource.custom {
        // Asked once more by the kind; built-in kinds see to that themselves.
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

/// Stores a new version of `old` while the room that it takes of a quota is held.
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
