//! The way of a write: defaulting, admission, preparation, validation, ownership, commit.
//!
//! On the way, the records of who manages which fields are packed; plugins see the object with them unpacked.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;
use steersman_api::{
    environment::EnvironmentExt as _,
    fields::{FieldError, FieldErrorKind},
    metadata, object,
    status::{ApiError, ApiResult, Reason},
    store::{Draft, Entry},
};
use steersman_patch::apply::{pack, unpack};

use crate::{
    admission::{self, Operation, policy, webhook},
    apply,
    auth::{self, rbac},
    call::Call,
};

/// A write that keeps losing races gives up after so many attempts.
const ATTEMPTS: usize = 32;

/// What a write ended in.
#[derive(Debug)]
pub(crate) enum Written {
    /// The object is stored.
    Stored(Arc<Entry>),
    /// The object as it would have been stored, or as it was when its last finalizer went. Its records of fields may be packed.
    Value(Value),
}

/// Creates `object`, which is in the version of the request.
pub(crate) async fn create(call: &mut Call, object: Value) -> ApiResult<Written> {
    create_by(call, object, Mode::Create).await
}

async fn create_by(call: &mut Call, mut object: Value, mode: Mode) -> ApiResult<Written> {
    check_definition_size(call, &object)?;
    begin_create(call, &mut object, mode)?;
    if mode != Mode::Apply {
        call.warnings.extend(metadata::merge_owners(&mut object, false));
        apply::track(call, None, &mut object).await;
    }
    mutate(call, Operation::Create, &mut object, None).await?;
    call.warnings.extend(metadata::merge_owners(&mut object, true));
    let requested = if mode == Mode::Create { "" } else { call.name.as_str() };
    rbac::check_escalation(call, &object, None, requested, false)?;
    let object = finish_create(call, object)?;
    let result = async {
        crate::crd::check_not_terminating(&call.core, &call.resource, &call.name)?;
        admission::check_namespace(&call.core, &call.resource, call.scope(), &call.name)?;
        if mode != Mode::Create {
            // The object has been judged by now, and validating admission has not been asked: the real server's order.
            auth::authorize(&call.core, &call.user, &call.attributes("create"))?;
        }
        validate(call, Operation::Create, &object, None).await?;
        let is_other = call.resource.custom && !call.resource.is_storage_version();
        let converted = if is_other { Some(call.to_stored(object.clone()).await?) } else { None };
        let _room = admission::reserve(&call.core, &call.resource, call.scope(), &object, None)?;
        commit_create(call, converted.as_ref().unwrap_or(&object))
    }
    .await;
    if result.is_err() || call.dry_run {
        call.resource.strategy.release(&call.core.allocators, &object);
    }
    let written = result?;
    settle(call, &written).await?;
    Ok(written)
}

/// Creates an object of the server's own, without admission.
pub(crate) fn create_now(call: &mut Call, mut object: Value) -> ApiResult<Written> {
    begin_create(call, &mut object, Mode::Create)?;
    apply::track_now(call, None, &mut object);
    let object = finish_create(call, object)?;
    commit_create(call, &object)
}

/// Names, namespace, system fields and defaults of a new object.
fn begin_create(call: &mut Call, object: &mut Value, mode: Mode) -> ApiResult<()> {
    let root = object::ensure(object);
    root.insert("apiVersion".into(), call.resource.api_version().into());
    root.insert("kind".into(), call.resource.kind.as_str().into());
    match_namespace(call, object)?;
    // Defaults come with decoding: nothing that the server adds to a new object is known to them.
    call.resource.strategy.default(&call.resource.version, object);
    let environment = Arc::clone(&call.core.environment);
    let metadata = object::metadata(object);
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        // The grace period stays if an update creates.
        if !(mode == Mode::Replace && field == "deletionGracePeriodSeconds") {
            metadata.remove(field);
        }
    }
    if metadata.get("generation").and_then(Value::as_i64) == Some(0) {
        metadata.remove("generation");
    }
    metadata.insert("creationTimestamp".into(), environment.now_string().into());
    metadata.insert("uid".into(), environment.uid().into());
    let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (mut name, generate) = (text("name"), text("generateName"));
    if name.is_empty() && !generate.is_empty() {
        // The suffix always fits: the base is cut at 58 of 63 characters.
        let mut base = generate;
        while base.len() > 58 {
            base.pop();
        }
        name = format!("{base}{}", environment.name_suffix());
        metadata.insert("name".into(), name.clone().into());
        call.named_here = true;
    }
    call.name = name;
    encode_served(call, object);
    Ok(())
}

fn finish_create(call: &mut Call, object: Value) -> ApiResult<Value> {
    // Admission may have named the object.
    call.name = object::name(&object).to_owned();
    let mut object = call.to_validated_version(object)?;
    let resource = Arc::clone(&call.resource);
    let strategy = &resource.strategy;
    strategy.prepare_create(call.hook(), &mut object)?;
    if strategy.has_generation() {
        object::metadata(&mut object).insert("generation".into(), 1.into());
    }
    let mut errors = metadata::validate(&object, strategy.name_rule(), resource.namespaced);
    if strategy.checks_finalizers() {
        metadata::known_finalizers(&object, &mut errors);
    }
    errors.extend(strategy.validate_create(call.hook(), &object));
    if errors.is_empty() {
        errors.extend(auth::parameters::check(call, &object, None));
    }
    if errors.is_empty() {
        call.warnings.extend(strategy.warnings(&object, None));
        check_depth(&object)?;
        encode(call, &mut object);
        return Ok(object);
    }
    strategy.release(&call.core.allocators, &object);
    Err(invalid(call, object::name(&object), errors))
}

/// Refuses an object. Lists and maps that were sent empty are shown so.
fn invalid(call: &Call, name: &str, mut errors: Vec<FieldError>) -> ApiError {
    for error in &mut errors {
        let (FieldErrorKind::Invalid(shown) | FieldErrorKind::NotSupported(shown, _)) = &mut error.kind
        else {
            continue;
        };
        if !shown.is_null() {
            continue;
        }
        if call.emptied.contains(&error.field) {
            *shown = serde_json::json!({});
        } else if call.emptied.contains(&format!("{}[]", error.field)) {
            *shown = serde_json::json!([]);
        }
    }
    let resource = &call.resource;
    // Events of both groups are one kind inside.
    let group = split_group(&resource.storage_api_version);
    ApiError::invalid_kind(group, &resource.kind, name, errors)
}

fn split_group(api_version: &str) -> &str {
    crate::catalog::split_api_version(api_version).0
}

fn commit_create(call: &Call, object: &Value) -> ApiResult<Written> {
    let key = object::key(call.scope(), object::name(object));
    if call.dry_run {
        if call.core.store.get(&call.resource.storage, &key).is_some() {
            return Err(ApiError::already_exists(&call.resource, object::name(object)));
        }
        return Ok(Written::Value(object.clone()));
    }
    // What is no version, or version nought, counts as none. The real server's store judges this, to which a dry run never comes.
    if object::meta_text(object, "resourceVersion").parse::<u64>().is_ok_and(|version| version != 0) {
        return Err(ApiError::unforeseen("resourceVersion should not be set on objects to be created"));
    }
    let draft = draft(call, object)?;
    match call.core.store.create(&call.resource.storage, &key, draft) {
        Ok(entry) => Ok(Written::Stored(entry)),
        Err(_) if !object::meta_text(object, "generateName").is_empty() => {
            let name = object::name(object);
            let message = format!(
                "{} {} already exists, the server was not able to generate a unique name for the object",
                call.resource.qualified(),
                steersman_api::status::quote(name)
            );
            let mut error = ApiError::new(StatusCode::CONFLICT, Reason::AlreadyExists, message).about(
                &call.resource.group,
                &call.resource.plural,
                name,
            );
            error.retry_after_seconds = Some(1);
            Err(error)
        }
        Err(_) => {
            let mut error = ApiError::already_exists(&call.resource, object::name(object));
            let held = call.core.store.get(&call.resource.storage, &key);
            if held.is_some_and(|entry| entry.is_deleting()) {
                error.message = format!("object is being deleted: {}", error.message);
            }
            Err(error)
        }
    }
}

/// Writes an object out as a typed encoder would, in the version of the request.
fn encode_served(call: &Call, object: &mut Value) {
    if call.resource.strategy.typed()
        && let Some(schema) = call.resource.strategy.schema(&call.resource.version)
    {
        schema.encode(object);
    }
}

/// Writes an object out as a typed encoder would, in the version in which the kind's rules speak.
fn encode(call: &Call, object: &mut Value) {
    let (_, version) = crate::catalog::split_api_version(&call.resource.storage_api_version);
    // What the types of applied fields let pass, a schema may drop all the same; it is judged before.
    call.resource.strategy.prune(&call.resource.version, object);
    if call.resource.strategy.typed()
        && let Some(schema) = call.resource.strategy.stored_schema(version)
    {
        schema.encode_stored(object);
    }
}

/// What is stored has to be read again, by us and by clients, within lists, events and records of fields: readers of JSON
/// commonly go 128 deep. Bodies in JSON can't be deeper, but those in YAML can, and what patches make.
const MAX_DEPTH: usize = 100;

fn check_depth(object: &Value) -> ApiResult<()> {
    if object::is_deeper(object, MAX_DEPTH) {
        return Err(ApiError::bad_request(format!(
            "the object is nested more than {MAX_DEPTH} deep, which is not stored"
        )));
    }
    Ok(())
}

/// What etcd takes in one request. Custom resources and their definitions rest there as JSON, so it is their limit.
const MAX_SIZE: usize = 3 * 512 * 1024;

fn too_large() -> ApiError {
    ApiError::unforeseen("etcdserver: request is too large")
}

fn draft(call: &Call, object: &Value) -> ApiResult<Draft> {
    let draft = Draft::new(object, call.resource.strategy.selectable(object)).map_err(ApiError::internal)?;
    let is_json = call.resource.custom || *call.resource.storage == *crate::crd::RESOURCE;
    if is_json && draft.length() > MAX_SIZE {
        return Err(too_large());
    }
    Ok(draft)
}

/// Refuses a definition that is too large before its schemas are looked at, which takes far longer than to see that.
fn check_definition_size(call: &Call, object: &Value) -> ApiResult<()> {
    if *call.resource.storage != *crate::crd::RESOURCE {
        return Ok(());
    }
    let size = serde_json::to_vec(object).map_or(0, |bytes| bytes.len());
    if size > MAX_SIZE { Err(too_large()) } else { Ok(()) }
}

/// Waits for durability, and lets the server learn from what was stored.
async fn settle(call: &Call, written: &Written) -> ApiResult<()> {
    if call.dry_run {
        return Ok(());
    }
    // What the server does about it, such as conditions of a definition, is part of the write.
    call.core.learn(&call.resource, &call.name, &call.key());
    let revision = match written {
        // The conditions of a definition are another write.
        Written::Stored(_) if *call.resource.storage == *crate::crd::RESOURCE => call.core.store.latest(),
        Written::Stored(entry) => entry.revision(),
        // The object is gone with its last finalizer, which has a revision of its own.
        Written::Value(_) => call.core.store.latest(),
    };
    call.core.store.durable(revision).await.map_err(|error| ApiError::read_only(&error))
}

/// Mutating admission. The object is null for a deletion.
pub(crate) async fn mutate(
    call: &mut Call,
    operation: Operation,
    object: &mut Value,
    old: Option<&Value>,
) -> ApiResult<()> {
    own_mutate(call, operation, object, old)?;
    // Nothing is unpacked that no plugin sees.
    if call.core.admission.is_empty()
        && !webhook::mutates(call, operation)
        && !policy::mutates(call, operation)
    {
        return Ok(());
    }
    let old = old.map(apply::shown);
    let old = old.as_deref();
    unpack(object);
    let mut warnings = Vec::new();
    let result = async {
        let request = call.admission(operation, old);
        for plugin in &call.core.admission {
            if plugin.handles(&request) {
                plugin.mutate(&request, object, &mut warnings).await?;
            }
        }
        let mut policies = policy::Mutators::new(call, operation, old);
        let mut hooks = webhook::Mutators::new(call, operation, old);
        let changed = policies.run(object).await? | hooks.run(object, &mut warnings).await?;
        if changed {
            own_mutate(call, operation, object, old)?;
            policies.run(object).await?;
            hooks.run(object, &mut warnings).await?;
        }
        Ok(())
    }
    .await;
    pack(object);
    call.warnings.append(&mut warnings);
    result
}

/// What the server's own plugins do to what is written; there is nothing to change about a deletion.
fn own_mutate(call: &Call, operation: Operation, object: &mut Value, old: Option<&Value>) -> ApiResult<()> {
    if operation == Operation::Delete {
        return Ok(());
    }
    admission::builtin_plugins::mutate(call, operation, object, old)
}

/// Validating admission. The object is in the version in which the kind's rules speak, null
/// for a deletion.
pub(crate) async fn validate(
    call: &mut Call,
    operation: Operation,
    object: &Value,
    old: Option<&Value>,
) -> ApiResult<()> {
    admission::builtin_plugins::validate(call, operation, object, old)?;
    if call.core.admission.is_empty()
        && !webhook::validates(call, operation)
        && !policy::validates(call, operation)
    {
        return Ok(());
    }
    // Plugins see both versions as the client does.
    let mut object = if object.is_null() { Value::Null } else { call.validated_to_served(object.clone())? };
    unpack(&mut object);
    let old = old.map(apply::shown);
    ask_validators(call, operation, &object, old.as_deref()).await
}

/// Validating admission of an object that is of another kind than the resource whose subresource it is sent to: an Eviction, a
/// Binding, a TokenRequest, the options of a connection.
pub(crate) async fn validate_part(call: &mut Call, operation: Operation, part: &Value) -> ApiResult<()> {
    ask_validators(call, operation, part, None).await
}

/// Asks plugins, policies and webhooks about objects in the version of the request.
async fn ask_validators(
    call: &mut Call,
    operation: Operation,
    object: &Value,
    old: Option<&Value>,
) -> ApiResult<()> {
    let mut warnings = Vec::new();
    let result = async {
        let request = call.admission(operation, old);
        for plugin in &call.core.admission {
            if plugin.handles(&request) {
                plugin.validate(&request, object, &mut warnings).await?;
            }
        }
        policy::validate(call, operation, object, old, &mut warnings).await?;
        webhook::validate(call, operation, object, old, &mut warnings).await
    }
    .await;
    call.warnings.append(&mut warnings);
    result
}

/// How a write treats what it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The client sent a whole object, of which there is none yet: POST.
    Create,
    /// The client sent a whole object: PUT.
    Replace,
    /// The client sent changes to whatever is there: the patches.
    Patch,
    /// The client sent an applied configuration, which may create the object.
    Apply,
}

/// The change that a request makes to an object, tried again after a lost race.
pub(crate) trait Edit: Send {
    /// The object that becomes of the present one, if there is one. Both are in the version of the request.
    fn edit(
        &mut self,
        call: &mut Call,
        current: Option<&Value>,
    ) -> impl Future<Output = ApiResult<Value>> + Send;
}

/// An edit that is ready at once.
struct AtOnce<F>(F);

impl<F: FnMut(&mut Call, Option<&Value>) -> ApiResult<Value> + Send> Edit for AtOnce<F> {
    fn edit(
        &mut self,
        call: &mut Call,
        current: Option<&Value>,
    ) -> impl Future<Output = ApiResult<Value>> + Send {
        std::future::ready((self.0)(call, current))
    }
}

/// Replaces the stored object with what `change` makes of it. Both are in the version of the request.
///
/// Returns whether the object was created.
pub(crate) async fn update(
    call: &mut Call,
    mode: Mode,
    change: impl FnMut(&mut Call, Option<&Value>) -> ApiResult<Value> + Send,
) -> ApiResult<(Written, bool)> {
    update_by(call, mode, AtOnce(change)).await
}

/// The same for an edit that may have to wait for a webhook.
pub(crate) async fn update_by(
    call: &mut Call,
    mode: Mode,
    mut edit: impl Edit,
) -> ApiResult<(Written, bool)> {
    // A part of an object is never a way to make the whole.
    let may_create = call.subresource.is_none()
        && match mode {
            Mode::Apply => true,
            Mode::Replace => call.resource.strategy.allows_create_on_update(),
            Mode::Create | Mode::Patch => false,
        };
    for _ in 0..ATTEMPTS {
        let Some(entry) = call.core.store.get(&call.resource.storage, &call.key()) else {
            if !may_create {
                return Err(ApiError::not_found(&call.resource, &call.name));
            }
            let mut object = edit.edit(call, None).await?;
            let uid = object::uid(&object);
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
                object::metadata(&mut object).remove("resourceVersion");
            }
            match create_by(call, object, mode).await {
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
        let mut object = edit.edit(call, Some(served)).await?;
        check_definition_size(call, &object)?;
        check_preconditions(call, mode, &object, &entry, &old)?;
        let is_versioned = !object::meta_text(&object, "resourceVersion").is_empty();
        match_namespace(call, &mut object)?;
        object::metadata(&mut object).insert("resourceVersion".into(), entry.revision().to_string().into());
        call.resource.strategy.default(&call.resource.version, &mut object);
        encode_served(call, &mut object);
        if mode == Mode::Replace {
            call.warnings.extend(metadata::merge_owners(&mut object, false));
        }
        if mode != Mode::Apply {
            apply::track(call, Some(served), &mut object).await;
        }
        if !call.admitted {
            mutate(call, Operation::Update, &mut object, Some(served)).await?;
        }
        call.warnings.extend(metadata::merge_owners(&mut object, true));
        rbac::check_escalation(call, &object, Some(served), &call.name, is_versioned)?;
        let mut object = call.to_validated_version(object)?;
        prepare_update(call, &mut object, &old)?;
        if !call.admitted {
            validate(call, Operation::Update, &object, Some(served)).await?;
        }
        let object = call.to_stored(object).await?;
        // Otherwise look again: a client that named a version is refused by then.
        if let Some(written) = commit_within_quota(call, &object, &old, &entry)? {
            settle(call, &written).await?;
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

fn prepare_update(call: &mut Call, object: &mut Value, stored: &Value) -> ApiResult<()> {
    let resource = Arc::clone(&call.resource);
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
    strategy.prepare_update(call.hook(), object, stored)?;
    match managed {
        Some(managed) => object::metadata(object).insert("managedFields".into(), managed),
        None => object::metadata(object).remove("managedFields"),
    };
    // Defaults may have filled what was empty.
    let is_empty =
        |place: &String| place.starts_with("spec.") && object::is_nothing(object::at(object, place));
    let noticed = strategy.notices_empty() && call.emptied.iter().any(is_empty);
    // Where a pod runs is nothing that its owner asked for.
    let counts = strategy.has_generation() && call.subresource_name() != "binding";
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
    let judged = strategy.judge_update(call.hook(), object, stored);
    errors.extend(judged.errors);
    if errors.is_empty() {
        errors.extend(auth::parameters::check(call, object, Some(stored)));
    }
    call.warnings.extend(judged.tolerated.iter().map(ToString::to_string));
    if !errors.is_empty() {
        return Err(invalid(call, &call.name, errors));
    }
    check_depth(object)?;
    encode(call, object);
    if call.subresource.is_none() {
        let warnings = strategy.warnings(object, Some(stored));
        call.warnings.extend(warnings);
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
    commit_update(call, object, entry)
}

/// Stores the object; nothing if the one that it was made from changed meanwhile.
fn commit_update(call: &Call, object: &Value, entry: &Arc<Entry>) -> ApiResult<Option<Written>> {
    let gone = object::is_deleting(object)
        && object::finalizers(object).is_empty()
        && object::get(object, &["metadata", "deletionGracePeriodSeconds"])
            .and_then(Value::as_i64)
            .unwrap_or(0)
            == 0
        && may_vanish(call, object);
    if call.dry_run {
        return Ok(Some(Written::Value(object.clone())));
    }
    let draft = draft(call, object)?;
    let (resource, key) = (&call.resource.storage, entry.key());
    if gone {
        // Watchers see the last stored version, as the real server shows it.
        if call.core.store.delete(resource, key, entry.revision()).is_err() {
            return Ok(None);
        }
        call.resource.strategy.release(&call.core.allocators, object);
        return Ok(Some(Written::Value(object.clone())));
    }
    // A write that changes nothing is none: no event, no new version.
    let settled = entry.revision() != entry.created() || !call.resource.strategy.settles_late(object);
    if settled && draft.same_but_times(entry) {
        return Ok(Some(Written::Stored(Arc::clone(entry))));
    }
    Ok(call.core.store.update(resource, key, entry.revision(), draft).ok().map(Written::Stored))
}

/// A namespace has a second list of finalizers in its spec.
pub(crate) fn may_vanish(call: &Call, object: &Value) -> bool {
    *call.resource.storage != *"namespaces"
        || object::get(object, &["spec", "finalizers"]).and_then(Value::as_array).is_none_or(Vec::is_empty)
}

/// The object's namespace must be the path's; it is filled in where it is left out.
fn match_namespace(call: &Call, object: &mut Value) -> ApiResult<()> {
    let expected = call.scope().to_owned();
    let given = object::namespace(object);
    if given.is_empty() {
        if !expected.is_empty() {
            object::metadata(object).insert("namespace".into(), expected.into());
        }
        return Ok(());
    }
    if given == expected {
        return Ok(());
    }
    if expected.is_empty() {
        // Kinds without namespaces drop what the client says.
        object::metadata(object).remove("namespace");
        return Ok(());
    }
    Err(ApiError::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}
