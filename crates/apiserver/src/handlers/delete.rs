//! Deletion: preconditions, grace periods, finalizers, propagation.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use steersman_api::{
    environment::seconds,
    fields::FieldError,
    http::{Body, Output, Propagation, json_response},
    object,
    status::{ApiError, ApiResult, quote},
    store::{Draft, Entry},
};

use super::list;
use crate::{
    admission::{self, Attempt, Operation},
    call::{Call, WriteOptions, check_dry_run},
    commit::{Written, may_vanish},
    decode,
    render::{self, answer},
};

const ATTEMPTS: usize = 32;
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// `DeleteOptions`, from the body or else from the query.
#[derive(Debug, Clone, Default)]
struct DeleteOptions {
    grace: Option<i64>,
    uid: Option<String>,
    resource_version: Option<String>,
    propagation: Option<Propagation>,
    orphan: Option<bool>,
    /// Whether admission was already called, for the eviction.
    is_admitted: bool,
}

/// Parses the options of a deletion. A body overrides all query options, including `dryRun`.
fn options(call: Call, media: &str, body: &Bytes) -> ApiResult<(Call, DeleteOptions)> {
    if body.is_empty() {
        let o = &call.options;
        let result = DeleteOptions {
            grace: o.grace_period_seconds,
            propagation: o.propagation_policy.as_deref().and_then(Propagation::parse),
            orphan: o.orphan_dependents,
            ..DeleteOptions::default()
        };
        return Ok((call, result));
    }
    let mut result = DeleteOptions::default();
    let value = decode::plain(&call, media, body)?.value;
    check_options(&value)?;
    let mut errors = Vec::new();
    let mut dry_run = false;
    if let Some(list) = value["dryRun"].as_array() {
        let stages: Vec<String> = list.iter().filter_map(|v| Some(v.as_str()?.to_owned())).collect();
        check_dry_run(&stages, &mut errors);
        dry_run = !stages.is_empty();
    }
    result.grace = value["gracePeriodSeconds"].as_i64();
    result.orphan = value["orphanDependents"].as_bool();
    let text = |path: &[&str]| object::text(&value, path).map(str::to_owned);
    result.uid = text(&["preconditions", "uid"]);
    result.resource_version = text(&["preconditions", "resourceVersion"]);
    if let Some(policy) = object::text(&value, &["propagationPolicy"]) {
        match Propagation::parse(policy) {
            Some(p) => result.propagation = Some(p),
            None => errors.push(FieldError::not_supported(
                "propagationPolicy",
                policy,
                &["Foreground", "Background", "Orphan", "nil"],
            )),
        }
    }
    if result.propagation.is_some() && result.orphan.is_some() {
        let why = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid("propagationPolicy", value["propagationPolicy"].clone(), why));
    }
    if !errors.is_empty() {
        return Err(ApiError::invalid_kind("meta.k8s.io", "DeleteOptions", "", errors));
    }
    let write = WriteOptions { dry_run, object: value, ..call.write };
    Ok((Call { write, ..call }, result))
}

/// Rejects a body that is not a `DeleteOptions`.
fn check_options(value: &Value) -> ApiResult<()> {
    if value.is_null() {
        return Ok(());
    }
    if !value.is_object() {
        return Err(ApiError::bad_request(decode::without_kind(value)));
    }
    let given = |field| object::text(value, &[field]).unwrap_or_default();
    let (version, kind) = (given("apiVersion"), given("kind"));
    if !kind.is_empty() && kind != "DeleteOptions" {
        return Err(ApiError::bad_request(format!(
            "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
            quote(kind),
            quote(version)
        )));
    }
    let grace = &value["gracePeriodSeconds"];
    if !grace.is_null() && !grace.is_i64() {
        return Err(ApiError::bad_request(format!(
            "json: cannot unmarshal {} into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
            decode::go_name(grace)
        )));
    }
    Ok(())
}

/// Warns that deleting a job leaves its pods behind by default, which few users expect.
fn warn_of_orphans(call: &Call, options: &DeleteOptions, warnings: &mut Vec<String>) {
    if *call.resource.storage == *"jobs.batch" && options.propagation.is_none() && options.orphan.is_none() {
        warnings.push(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background \
             to remove them or set propagationPolicy=Orphan to suppress this warning"
                .into(),
        );
    }
}

/// The result of a deletion.
enum Outcome {
    /// The object was deleted; this was its last state.
    Gone(Written),
    /// The object waits for finalizers or for the end of its grace period.
    Waiting(Written),
}

pub(super) async fn delete(
    call: Call,
    media: &str,
    body: &Bytes,
    warnings: &mut Vec<String>,
) -> ApiResult<Response<Body>> {
    let (call, options) = options(call, media, body)?;
    let call = &call;
    warn_of_orphans(call, &options, warnings);
    let outcome = delete_one(call, &options, warnings).await?;
    match outcome {
        Outcome::Waiting(written) => {
            let code = if options.orphan == Some(false) { StatusCode::ACCEPTED } else { StatusCode::OK };
            answer(call, written, code).await
        }
        Outcome::Gone(written) if returns_object(call) => answer(call, written, StatusCode::OK).await,
        Outcome::Gone(written) => {
            let uid = match &written {
                Written::Stored(entry) | Written::Deleted(entry, _) => entry.uid(),
                Written::Value(value) => object::uid(value).to_owned(),
            };
            let mut details = json!({"name": call.name, "kind": call.resource.plural, "uid": uid});
            if !call.resource.group.is_empty() {
                details["group"] = call.resource.group.as_str().into();
            }
            let status = json!({
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Success",
                "details": details,
            });
            Ok(json_response(StatusCode::OK, Body::whole(status.to_string())))
        }
    }
}

/// Whether deleting this kind returns the object instead of a Status.
fn returns_object(call: &Call) -> bool {
    let group = call.resource.group.as_str();
    !call.resource.custom
        && (matches!(group, "resource.k8s.io" | "storage.k8s.io")
            && call.resource.plural != "csistoragecapacities"
            || (group.is_empty()
                && matches!(
                    call.resource.plural.as_str(),
                    "resourcequotas"
                        | "persistentvolumes"
                        | "persistentvolumeclaims"
                        | "serviceaccounts"
                        | "namespaces"
                        | "pods"
                        | "services"
                        | "podtemplates"
                )))
}

async fn delete_one(call: &Call, options: &DeleteOptions, warnings: &mut Vec<String>) -> ApiResult<Outcome> {
    for _ in 0..ATTEMPTS {
        let entry = call.stored()?;
        let stored = call.to_stored(call.resource.read_packed(&entry)).await?;
        check_preconditions(call, options, &stored)?;
        if *call.resource.storage == *"namespaces" && admission::IMMORTAL.contains(&call.name.as_str()) {
            let why = "this namespace may not be deleted";
            return Err(ApiError::forbidden("", "namespaces", &call.name, why));
        }
        let served = call.to_served(stored.clone()).await?;
        if !options.is_admitted {
            let attempt = Attempt {
                call,
                operation: Operation::Delete,
                name: &call.name,
                hides_name: false,
                old: Some(&served),
            };
            admission::mutate(attempt, &mut Value::Null, warnings).await?;
            admission::validate(attempt, &Value::Null, warnings).await?;
        }
        if let Some(outcome) = attempt(call, options, &entry, stored)? {
            if !call.write.dry_run {
                call.core.learn(&call.resource, &call.name, &call.key());
                // A removal has its own revision, which the last state does not contain.
                let store = &call.core.store;
                store.sync().await.map_err(|error| ApiError::read_only(&error))?;
            }
            return Ok(outcome);
        }
    }
    Err(ApiError::modified(&call.resource, &call.name))
}

fn check_preconditions(call: &Call, options: &DeleteOptions, stored: &Value) -> ApiResult<()> {
    let conflict = |what: &str, given: &str, actual: &str, why: &str| {
        let message = format!(
            "the {what} in the precondition ({given}) does not match the {what} in record ({actual}). The object might have been {why}"
        );
        // The API uses the kind in place of the resource here.
        let mut named = (*call.resource).clone();
        named.plural.clone_from(&named.kind);
        ApiError::conflict(&named, &call.name, &message)
    };
    if let Some(uid) = &options.uid
        && uid != object::uid(stored)
    {
        return Err(conflict("UID", uid, object::uid(stored), "deleted and then recreated"));
    }
    let version = object::meta_text(stored, "resourceVersion");
    if let Some(given) = &options.resource_version
        && given != version
    {
        return Err(conflict("ResourceVersion", given, version, "modified"));
    }
    Ok(())
}

/// Attempts a deletion once; `None` if another write interfered.
fn attempt(
    call: &Call,
    options: &DeleteOptions,
    entry: &Arc<Entry>,
    stored: Value,
) -> ApiResult<Option<Outcome>> {
    let strategy = &call.resource.strategy;
    let asked = options.grace.map(|g| if g < 0 { 1 } else { g });
    let now = call.core.environment.now();
    let mut next = stored.clone();
    let mut graceful = None;
    let pending_grace =
        object::get(&stored, &["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64);
    if object::is_deleting(&stored) {
        if let Some(pending) = pending_grace.filter(|p| *p > 0) {
            match asked {
                // A grace period can only be shortened.
                Some(asked) if asked < pending => graceful = Some(shorten(&mut next, pending, asked, now)),
                _ => return Ok(Some(Outcome::Waiting(Written::Stored(Arc::clone(entry))))),
            }
        }
    } else if let Some(grace) = strategy.grace_seconds(&stored, asked) {
        let at = now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now);
        mark(&mut next, at, grace);
        graceful = Some(grace);
    }
    set_collection_finalizers(call, options, &mut next);
    if *call.resource.storage == *"namespaces" {
        terminate_namespace(&mut next, now);
    }
    if *call.resource.storage == *crate::crd::RESOURCE {
        crate::crd::mark_terminating(&mut next, &seconds(now));
    }
    let pending = !object::finalizers(&next).is_empty() || !may_vanish(call, &next);
    let by_timestamp_alone = matches!(&*call.resource.storage, "namespaces" | crate::crd::RESOURCE);
    if graceful.is_none() && pending && !by_timestamp_alone {
        mark(&mut next, now, 0);
    }
    let stays = pending || graceful.is_some_and(|g| g > 0);
    if call.write.dry_run {
        let written = Written::Value(next);
        return Ok(Some(if stays { Outcome::Waiting(written) } else { Outcome::Gone(written) }));
    }
    let store = &call.core.store;
    let (storage, key) = (&call.resource.storage, entry.key());
    let mut current = Arc::clone(entry);
    if stays || graceful.is_some() {
        let draft = Draft::new(&next, strategy.selectable(&next)).map_err(ApiError::internal)?;
        if !draft.same(entry) {
            match store.update(storage, key, entry.revision(), draft) {
                Ok(updated) => current = updated,
                Err(_) => return Ok(None),
            }
        }
        if stays {
            return Ok(Some(Outcome::Waiting(Written::Stored(current))));
        }
    }
    match store.delete(storage, key, current.revision()) {
        Ok((last, revision)) => {
            strategy.release(&call.core.allocators, &stored);
            Ok(Some(Outcome::Gone(Written::Deleted(last, revision))))
        }
        Err(_) => Ok(None),
    }
}

fn mark(object: &mut Value, at: Timestamp, grace: i64) {
    let first = !object::is_deleting(object);
    let generation = object::generation(object);
    let metadata = object::metadata(object);
    if first {
        metadata.insert("deletionTimestamp".into(), seconds(at).into());
        if generation > 0 {
            metadata.insert("generation".into(), generation.saturating_add(1).into());
        }
    }
    metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
}

fn shorten(object: &mut Value, pending: i64, asked: i64, now: Timestamp) -> i64 {
    let deadline: Option<Timestamp> = object::meta_text(object, "deletionTimestamp").parse().ok();
    let mut at =
        deadline.and_then(|d| d.checked_add(SignedDuration::from_secs(asked - pending)).ok()).unwrap_or(now);
    let mut grace = asked;
    if at < now {
        at = now;
        if asked != 0 {
            grace = 1;
        }
    }
    let metadata = object::metadata(object);
    metadata.insert("deletionTimestamp".into(), seconds(at).into());
    metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
    grace
}

/// Sets the finalizers that tell the garbage collector how to propagate.
fn set_collection_finalizers(call: &Call, options: &DeleteOptions, object: &mut Value) {
    if *call.resource.storage == *"events" {
        return;
    }
    let present: Vec<String> = object::finalizers(object).into_iter().map(str::to_owned).collect();
    let has = |name: &str| present.iter().any(|f| f == name);
    let orphan_by_default = matches!(&*call.resource.storage, "jobs.batch" | "replicationcontrollers");
    let (orphan, foreground) = match (options.orphan, options.propagation) {
        (Some(orphan), _) => (orphan, false),
        (None, Some(policy)) => (policy == Propagation::Orphan, policy == Propagation::Foreground),
        (None, None) if has(ORPHAN) => (true, false),
        (None, None) if has(FOREGROUND) => (false, true),
        (None, None) => (orphan_by_default, false),
    };
    let mut next: Vec<String> =
        present.iter().filter(|f| *f != ORPHAN && *f != FOREGROUND).cloned().collect();
    if orphan {
        next.push(ORPHAN.into());
    }
    if foreground {
        next.push(FOREGROUND.into());
    }
    let same = next.len() == present.len() && next.iter().all(|f| present.contains(f));
    if !same {
        let metadata = object::metadata(object);
        if next.is_empty() {
            metadata.remove("finalizers");
        } else {
            metadata.insert("finalizers".into(), json!(next));
        }
    }
}

/// Sets the phase of a deleted namespace to `Terminating`.
fn terminate_namespace(object: &mut Value, now: Timestamp) {
    if !object::is_deleting(object) {
        object::metadata(object).insert("deletionTimestamp".into(), seconds(now).into());
    }
    object::child(object, "status").insert("phase".into(), "Terminating".into());
}

/// Deletes all objects that a list would return.
pub(super) async fn collection(
    call: Call,
    media: &str,
    body: &Bytes,
    warnings: &mut Vec<String>,
) -> ApiResult<Response<Body>> {
    let (mut call, options) = options(call, media, body)?;
    warn_of_orphans(&call, &options, warnings);
    let page = list::page(&call)?;
    let mut items = Vec::new();
    for entry in &page.entries {
        call = call.about(entry.namespace(), entry.name());
        match delete_one(&call, &options, warnings).await {
            // The response shows the objects before the deletion.
            Ok(_) => items.push(call.to_served(call.resource.read(entry)).await?),
            // Another writer deleted it first.
            Err(error) if error.code == StatusCode::NOT_FOUND => {}
            Err(error) => return Err(error),
        }
    }
    let meta = render::ListMeta { revision: page.meta.revision, ..page.meta };
    let value = match call.output {
        Output::Table(version) => render::table(&call, &items, &meta, version)?,
        Output::Metadata(version) | Output::MetadataList(version) => {
            render::partial_list(&items, &meta, version)
        }
        Output::Object => render::list(&call, items, &meta),
    };
    Ok(json_response(StatusCode::OK, Body::whole(value.to_string())))
}

/// Evicts a pod, if its disruption budgets allow it.
pub(super) async fn evict(
    call: Call,
    media: &str,
    body: &Bytes,
    warnings: &mut Vec<String>,
) -> ApiResult<Response<Body>> {
    let mut eviction = decode::object(&call, media, body, warnings)?.object;
    admission::mutate_part(&call, Operation::Create, &mut eviction, warnings).await?;
    if object::name(&eviction) != call.name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let nested = eviction.get("deleteOptions").cloned().unwrap_or_default();
    let bytes = if nested.is_null() { Bytes::new() } else { nested.to_string().into() };
    let (call, options) = options(call, "application/json", &bytes)?;
    admission::validate_part(&call, Operation::Create, &eviction, warnings).await?;
    let (call, options) =
        (Call { subresource: None, ..call }, DeleteOptions { is_admitted: true, ..options });
    super::budget::spend(&call)?;
    if !call.write.dry_run {
        announce_eviction(&call)?;
    }
    delete_one(&call, &options, warnings).await?;
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(json_response(StatusCode::CREATED, Body::whole(status.to_string())))
}

/// Sets the `DisruptionTarget` condition of an evicted pod.
fn announce_eviction(call: &Call) -> ApiResult<()> {
    for _ in 0..ATTEMPTS {
        let entry = call.stored()?;
        let mut pod = entry.value();
        let conditions = object::child(&mut pod, "status").entry("conditions").or_insert_with(|| json!([]));
        let Some(list) = conditions.as_array_mut() else { return Ok(()) };
        if list.iter().any(|condition| condition["type"] == "DisruptionTarget") {
            return Ok(());
        }
        list.push(json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastProbeTime": null,
            "lastTransitionTime": call.now(),
        }));
        let fields = call.resource.strategy.selectable(&pod);
        let draft = Draft::new(&pod, fields).map_err(ApiError::internal)?;
        if call.core.store.update(&call.resource.storage, entry.key(), entry.revision(), draft).is_ok() {
            return Ok(());
        }
    }
    Err(ApiError::modified(&call.resource, &call.name))
}
