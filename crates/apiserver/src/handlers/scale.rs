//! The `scale` subresource.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::Value;
use steersman_api::{
    fields::FieldError,
    http::Body,
    object, schema,
    status::{ApiError, ApiResult},
    strategy::ScalePaths,
};
use steersman_patch::{
    apply::{FieldSet, PathElement},
    strategic_merge_patch,
};

use super::patch::{self, Intent, Patch};
use crate::{
    apply::Detached,
    call::Call,
    catalog::Verb,
    decode,
    render::answer_value,
    scale::{at, paths, set, to_scale},
    update,
    write::Mode,
};

const API_VERSION: &str = "autoscaling/v1";
const TYPE: &str = "io.k8s.api.autoscaling.v1.Scale";

pub(super) async fn scale(
    call: &Call,
    media: &str,
    body: &Bytes,
    warnings: &mut Vec<String>,
) -> ApiResult<Response<Body>> {
    let paths = paths(&call.resource);
    if call.verb == Verb::Get {
        let object = call.to_served(call.resource.read(&*call.seen()?)).await?;
        if call.resource.custom && at(&object, &paths.replicas).is_none() {
            let path = paths.replicas.join(".");
            return Err(ApiError::internal(format!("the spec replicas field \".{path}\" does not exist")));
        }
        return answer_value(call, to_scale(&call.resource, paths, &object), StatusCode::OK);
    }
    let request = ScaleRequest::read(call, media, body, warnings)?;
    let mut complaints = Vec::new();
    let edit = |current: Option<&Value>| {
        let Some(current) = current else { return Err(ApiError::not_found(&call.resource, &call.name)) };
        let (next, found) = request.fulfil(call, paths, current)?;
        complaints = found;
        Ok(next.into())
    };
    // managedFields are updated here, based on those of the Scale.
    let result = update::update(call, Mode::Apply, edit, warnings).await;
    let complained = decode::complain_of(call, "Scale", "v1", &complaints, warnings);
    let (written, _) = result?;
    complained?;
    let object = call.to_served(written.into_value(&call.resource)).await?;
    answer_value(call, to_scale(&call.resource, paths, &object), StatusCode::OK)
}

/// The requested change of a Scale.
enum ScaleRequest {
    /// Replaces the Scale.
    Replace(Value),
    /// Patches the Scale.
    Patch(Patch),
    /// Applies a configuration to the Scale.
    Apply(Intent),
}

impl ScaleRequest {
    fn read(call: &Call, media: &str, body: &Bytes, warnings: &mut Vec<String>) -> ApiResult<Self> {
        if call.verb == Verb::Update {
            let document = decode::part(call, media, body, warnings)?;
            let scale = match schema::definition(TYPE) {
                Some(schema) => decode::typed(call, document, &schema, "Scale", "v1", warnings)?,
                None => document.value,
            };
            decode::check_name(call, &scale)?;
            return Ok(Self::Replace(scale));
        }
        if media == patch::APPLY {
            return Intent::decode(call, body).map(Self::Apply);
        }
        Patch::decode(call, media, body).map(Self::Patch)
    }

    /// Returns the scaled object and field errors.
    fn fulfil(&self, call: &Call, paths: &ScalePaths, current: &Value) -> ApiResult<(Value, Vec<String>)> {
        let mut before = to_scale(&call.resource, paths, current);
        let owners = current["metadata"]["managedFields"].as_array().map_or(&[][..], Vec::as_slice);
        let owners_of_replicas = of_scale(owners, &paths.replicas);
        if !owners_of_replicas.is_empty() {
            object::metadata(&mut before).insert("managedFields".into(), owners_of_replicas.into());
        }
        let kind = Detached::new(call, API_VERSION, TYPE);
        let mut complaints = Vec::new();
        let wanted = match self {
            Self::Replace(scale) => {
                let (given, actual) = (object::uid(scale), object::uid(current));
                if !given.is_empty() && given != actual {
                    return Err(update::wrong_uid(call, given, actual));
                }
                kind.track(call, &before, scale.clone())
            }
            Self::Patch(patch) => {
                let (patched, found) = patched(call, patch, &before)?;
                complaints = found;
                kind.track(call, &before, patched)
            }
            Self::Apply(_) if call.resource.custom => {
                // The real server cannot apply to a custom resource's Scale, since the resource's types do not
                // include it.
                let (namespace, name) = (call.scope(), &call.name);
                return Err(ApiError::unforeseen(format!(
                    "failed to convert new object ({namespace}/{name}; {API_VERSION}, Kind=Scale) to proper version: request to convert CR to an invalid group/version: {API_VERSION}"
                )));
            }
            Self::Apply(intent) => {
                let scale = kind.apply(call, &before, &intent.object)?;
                complaints = patch::judge_repeated(call, intent.repeated.as_deref())?;
                scale
            }
        };
        let version = object::meta_text(&wanted, "resourceVersion");
        if !version.is_empty() && version != object::meta_text(current, "resourceVersion") {
            return Err(ApiError::modified(&call.resource, &call.name));
        }
        let replicas = object::get(&wanted, &["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(0);
        if replicas < 0 {
            return Err(negative(call, paths, replicas));
        }
        let mut next = current.clone();
        set(&mut next, &paths.replicas, replicas.into());
        let owners_of_scale = wanted["metadata"]["managedFields"].as_array().map_or(&[][..], Vec::as_slice);
        let all = of_object(owners, owners_of_scale, &paths.replicas, &call.resource.api_version());
        let metadata = object::metadata(&mut next);
        if all.is_empty() {
            metadata.remove("managedFields");
        } else {
            metadata.insert("managedFields".into(), all.into());
        }
        Ok((next, complaints))
    }
}

/// Returns the patched Scale and its field errors.
fn patched(call: &Call, patch: &Patch, before: &Value) -> ApiResult<(Value, Vec<String>)> {
    let mut patched = patch
        .apply(before, |patch| Some(strategic_merge_patch(before, patch, schema::definitions(), TYPE)))?;
    let before = patched.clone();
    let quoted = || patch.quote(&before);
    let mut found = Vec::new();
    if let Some(schema) = schema::definition(TYPE) {
        let decoded = schema.decode(&mut patched, patch.decoder());
        found = decoded.map_err(|why| patch::unreadable(quoted(), why))?.unknown;
    }
    let complaints = patch.judge(call.write.field_validation, quoted, found)?;
    decode::check_name(call, &patched)?;
    Ok((patched, complaints))
}

fn negative(call: &Call, paths: &ScalePaths, replicas: i64) -> ApiError {
    let (resource, path) = (&call.resource, paths.replicas.join("."));
    if resource.custom {
        let error = FieldError::invalid(format!(".{path}"), replicas, "should be a non-negative integer");
        return ApiError::invalid(resource, &call.name, vec![error]);
    }
    let error = FieldError::invalid(path, replicas, "must be greater than or equal to 0");
    ApiError::invalid_kind("autoscaling", "Scale", &call.name, vec![error])
}

/// Returns the fields of a managedFields entry.
fn fields(entry: &Value) -> FieldSet<'_> {
    entry.get("fieldsV1").and_then(|fields| FieldSet::from_fields_v1(fields).ok()).unwrap_or_default()
}

fn path_of(names: &[String]) -> Vec<PathElement<'_>> {
    names.iter().map(|name| PathElement::Field(name.into())).collect()
}

fn set_of(names: &[String]) -> FieldSet<'_> {
    let mut set = FieldSet::default();
    set.insert(&path_of(names));
    set
}

/// Returns the managers of the replicas, as managedFields of the Scale.
fn of_scale(owners: &[Value], replicas: &[String]) -> Vec<Value> {
    let (path, there) = (path_of(replicas), FieldSet::of_fields([&["spec", "replicas"][..]]));
    let mut entries = Vec::new();
    for owner in owners.iter().filter(|owner| fields(owner).contains(&path)) {
        let mut entry = owner.clone();
        let fields = object::ensure(&mut entry);
        fields.insert("apiVersion".into(), API_VERSION.into());
        fields.insert("fieldsV1".into(), there.to_fields_v1().into());
        entries.push(entry);
    }
    entries
}

/// Merges the Scale's managedFields into those of its object.
/// Managers of the replicas get an entry for the scale subresource, without a time, and all other entries lose the
/// replicas.
fn of_object(owners: &[Value], of_scale: &[Value], replicas: &[String], api_version: &str) -> Vec<Value> {
    // Appliers are identical in all versions.
    let identity = |entry: &Value| {
        let version = (entry["operation"] != "Apply").then(|| entry["apiVersion"].clone());
        (entry["manager"].clone(), entry["operation"].clone(), version, entry["subresource"].clone())
    };
    let (path, here) = (path_of(replicas), set_of(replicas));
    let mut new: Vec<&Value> = of_scale.iter().collect();
    let mut entries = Vec::new();
    for owner in owners {
        let mut owned = fields(owner);
        if !owned.contains(&path) {
            entries.push(owner.clone());
        } else if let Some(same) = new.iter().position(|entry| identity(entry) == identity(owner)) {
            new.remove(same);
            entries.push(owner.clone());
        } else {
            owned.subtract(&here);
            if !owned.is_empty() {
                let mut entry = owner.clone();
                object::ensure(&mut entry).insert("fieldsV1".into(), owned.to_fields_v1().into());
                entries.push(entry);
            }
        }
    }
    for owner in new {
        let mut entry = owner.clone();
        let fields = object::ensure(&mut entry);
        fields.remove("time");
        fields.insert("apiVersion".into(), api_version.into());
        fields.insert("fieldsV1".into(), here.to_fields_v1().into());
        entries.push(entry);
    }
    entries.sort_by_cached_key(|entry| {
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        (text("operation"), text("time"), text("manager"), text("apiVersion"), text("subresource"))
    });
    entries
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn replicas_change_hands() {
        let path = ["spec".to_owned(), "replicas".to_owned()];
        let owners = [json!({
            "manager": "a", "operation": "Update", "apiVersion": "apps/v1", "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}, "f:paused": {}}},
        })];
        let before = of_scale(&owners, &path);
        assert_eq!(before[0]["apiVersion"], API_VERSION);
        let by_scale = [json!({
            "manager": "b", "operation": "Update", "apiVersion": API_VERSION, "time": "2026-01-01T00:00:01Z",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}, "subresource": "scale",
        })];
        let after = of_object(&owners, &by_scale, &path, "apps/v1");
        assert_eq!(after[0]["manager"], "b");
        assert_eq!(after[0].get("time"), None);
        assert_eq!(after[1]["fieldsV1"], r#"{"f:spec":{"f:paused":{}}}"#);
    }
}
