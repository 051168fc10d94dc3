//! PersistentVolumeClaim and its templates.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use steersman_api::{
    names, object,
    schema::quantity,
    status::{ApiResult, quote},
    strategy::Hook,
    table::Cell,
};

use crate::{
    cells::{self, list, text},
    check::{self, Errors, FieldErrors, FieldPath, IMMUTABLE, Read},
    kind::{Change, Column, Kind, Rules},
    resources,
};

pub(super) const KIND: Kind = Kind {
    rules: &PersistentVolumeClaim,
    has_status: true,
    columns: &[
        Column::NAME,
        Column::string("Status"),
        Column::string("Volume"),
        Column::string("Capacity"),
        Column::string("Access Modes"),
        Column::string("StorageClass"),
        Column::string("VolumeAttributesClass"),
        Column::AGE,
        Column::string("VolumeMode").wide(),
    ],
    cell,
    ..Kind::new("", "persistentvolumeclaims")
};

struct PersistentVolumeClaim;

const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

pub(crate) const ACCESS_MODES: [&str; 4] =
    ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub(crate) const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

impl Rules for PersistentVolumeClaim {
    fn default(&self, _: &str, object: &mut Value) {
        default_spec(object::child(object, "spec"));
        check::default_zero(object::child(object, "status"), "phase", "Pending");
    }

    fn prepare_create(&self, _: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        object::ensure(object).insert("status".into(), json!({"phase": "Pending"}));
        prepare_sources(object::child(object, "spec"), &Value::Null);
        Ok(())
    }

    fn prepare_update(&self, hook: Hook<'_>, object: &mut Value, old: &Value) -> ApiResult<()> {
        if hook.subresource.is_none() {
            prepare_sources(object::child(object, "spec"), old.at("spec"));
        }
        Ok(())
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        validate_spec(FieldPath::root("spec"), object.at("spec"), false, errors);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        if change.is_status() {
            return validate_status(change.object, errors);
        }
        change.whole_metadata(errors);
        let old_group = |field: &str| change.old.path(&["spec", field]).opt("apiGroup").is_some();
        let any_group = old_group("dataSource") || old_group("dataSourceRef");
        validate_spec(FieldPath::root("spec"), change.object.at("spec"), any_group, errors);
        validate_change(change, errors);
    }

    fn stores_first_update(&self, _: &Value) -> bool {
        true
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if object.path(&["metadata", "annotations"]).opt(CLASS).is_some() {
            warnings.push(format!(
                "metadata.annotations[{CLASS}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
            ));
        }
        warnings.extend(spec_warnings("spec", object.at("spec")));
        warnings
    }
}

/// Returns warnings about a claim's spec at a path.
pub(crate) fn spec_warnings(at: &str, spec: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for part in ["requests", "limits"] {
        let amount = spec.path(&["resources", part]).opt_str("storage");
        if let Some(text) = amount.filter(|text| !quantity::is_whole(text)) {
            warnings.push(format!(
                "{at}.resources.{part}[storage]: fractional byte value {} is invalid, must be an integer",
                quote(text)
            ));
        }
    }
    warnings
}

/// Sets defaults of a claim's spec.
pub(crate) fn default_spec(spec: &mut Map<String, Value>) {
    check::default(spec, "volumeMode", "Filesystem");
}

/// Keeps `dataSource` and its successor `dataSourceRef` in sync.
fn prepare_sources(spec: &mut Map<String, Value>, old: &Value) {
    let is_set = |value: Option<&Value>| value.is_some_and(|value| !value.is_null());
    let other_namespace = |spec: &Map<String, Value>| {
        spec.get("dataSourceRef").is_some_and(|source| !source.str("namespace").is_empty())
    };
    if other_namespace(spec) && old.opt("dataSourceRef").is_none() {
        spec.remove("dataSourceRef");
    }
    let in_use = old.opt("dataSource").is_some() || old.opt("dataSourceRef").is_some();
    if !in_use && !is_set(spec.get("dataSourceRef")) && is_set(spec.get("dataSource")) {
        let source = spec.get("dataSource").cloned().unwrap_or_default();
        let known = matches!(
            (source.str("kind"), source.str("apiGroup")),
            ("PersistentVolumeClaim", "") | ("VolumeSnapshot", "snapshot.storage.k8s.io")
        );
        if !known {
            spec.remove("dataSource");
        }
    }
    let copy = |spec: &Map<String, Value>, from: &str| {
        let mut source = spec.get(from).cloned().unwrap_or_default();
        if let Some(source) = source.as_object_mut() {
            source.remove("namespace");
        }
        source
    };
    match (is_set(spec.get("dataSource")), is_set(spec.get("dataSourceRef"))) {
        (true, false) => {
            let source = copy(spec, "dataSource");
            spec.insert("dataSourceRef".into(), source);
        }
        (false, true) if !other_namespace(spec) => {
            let source = copy(spec, "dataSourceRef");
            spec.insert("dataSource".into(), source);
        }
        _ => {}
    }
}

/// Validates a claim template in another object.
pub(crate) fn validate_template(at: FieldPath<'_>, template: &Value, errors: &mut Errors) {
    let metadata = at.field("metadata");
    let given = template.at("metadata");
    check::annotations(metadata.field("annotations"), given.at("annotations"), errors);
    check::labels(metadata.field("labels"), given.pairs("labels"), errors);
    for (key, value) in given.as_object().into_iter().flatten() {
        let empty = value.is_null() || value.as_str() == Some("") || value.as_i64() == Some(0);
        if !empty && !matches!(key.as_str(), "annotations" | "labels") {
            let shown = match key.as_str() {
                "uid" => "uID",
                key => key,
            };
            errors.forbidden(metadata.field(shown), "cannot be set");
        }
    }
    validate_spec(at.field("spec"), template.at("spec"), false, errors);
}

/// Validates access modes.
pub(crate) fn access_modes(at: FieldPath<'_>, spec: &Value, missing: &str, errors: &mut Errors) {
    let modes = spec.strs("accessModes");
    let place = at.field("accessModes");
    if modes.is_empty() {
        errors.required(place, missing);
    }
    for mode in modes.iter().filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.unsupported(place, *mode, &ACCESS_MODES);
    }
    let single = |mode: &&str| *mode == "ReadWriteOncePod";
    if modes.iter().any(single) && modes.iter().any(|mode| !single(mode) && ACCESS_MODES.contains(mode)) {
        errors.forbidden(place, "may not use ReadWriteOncePod with other access modes");
    }
}

/// Validates a claim's spec. `any_group` tolerates invalid API groups that were stored before.
pub(crate) fn validate_spec(at: FieldPath<'_>, spec: &Value, any_group: bool, errors: &mut Errors) {
    check::label_selector(at.field("selector"), spec.at("selector"), errors);
    access_modes(at, spec, "at least 1 access mode is required", errors);
    let place = at.field("resources");
    match spec.path(&["resources", "requests"]).opt_str("storage") {
        None => errors.required(place.key("storage"), ""),
        Some(size) if quantity::nanos(size) <= 0 => {
            errors.invalid(place.key("storage"), size, check::NOT_POSITIVE);
        }
        Some(size) => resources::amount(place.key("storage"), "storage", &size.into(), errors),
    }
    for field in ["storageClassName", "volumeAttributesClassName"] {
        let class = spec.str(field);
        if !class.is_empty() {
            errors.all(&at.field(field), class, names::subdomain(class));
        }
    }
    if let Some(mode) = spec.opt_str("volumeMode").filter(|mode| !VOLUME_MODES.contains(mode)) {
        errors.unsupported(at.field("volumeMode"), mode, &VOLUME_MODES);
    }
    let (source, reference) = (spec.opt("dataSource"), spec.opt("dataSourceRef"));
    for (field, source) in [("dataSource", source), ("dataSourceRef", reference)] {
        if let Some(source) = source {
            data_source(at.field(field), source, any_group, errors);
        }
    }
    let Some(source) = source else { return };
    let namespaced = reference.is_some_and(|reference| !reference.str("namespace").is_empty());
    if namespaced {
        let why = "may not be specified when dataSourceRef.namespace is specified";
        errors.invalid(at, json!({}), why);
    } else if let Some(reference) = reference {
        let same = ["apiGroup", "kind", "name"].iter().all(|field| source.at(field) == reference.at(field));
        if !same {
            errors.invalid(at, json!({}), "must match dataSourceRef");
        }
    }
}

fn data_source(at: FieldPath<'_>, source: &Value, any_group: bool, errors: &mut Errors) {
    for field in ["name", "kind"] {
        if source.str(field).is_empty() {
            errors.required(at.field(field), "");
        }
    }
    let group = source.str("apiGroup");
    if group.is_empty() && source.str("kind") != "PersistentVolumeClaim" {
        let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.invalid(at, source.str("kind"), why);
    }
    if !group.is_empty() && !any_group {
        errors.all(&at.field("apiGroup"), group, names::subdomain(group));
    }
    let namespace = source.str("namespace");
    if !namespace.is_empty() {
        errors.all(&at.field("namespace"), namespace, names::label(namespace));
    }
}

fn validate_change(change: Change<'_>, errors: &mut Errors) {
    let annotation = |object: &Value| object.path(&["metadata", "annotations"]).str(CLASS).to_owned();
    let (mut new, mut old) = (change.object.at("spec").clone(), change.old.at("spec").clone());
    prepare_sources(object::ensure(&mut old), &change.old.at("spec").clone());
    if old.str("volumeName").is_empty() {
        object::carry(&new, &mut old, "volumeName");
    }
    let class = |spec: &Value| spec.opt_str("storageClassName").map(str::to_owned);
    let (now, then) = (class(&new), class(&old));
    let (now_annotated, then_annotated) = (annotation(change.object), annotation(change.old));
    let upgraded = !then_annotated.is_empty()
        && then.is_none()
        && now.as_deref() == Some(&then_annotated)
        && (now_annotated.is_empty() || now_annotated == then_annotated);
    if upgraded {
        object::ensure(&mut new).remove("storageClassName");
    } else {
        if now_annotated != then_annotated {
            errors.invalid(format!("metadata.annotations.{CLASS}"), now_annotated, IMMUTABLE);
        }
        if now.is_some()
            && then.is_none()
            && (then_annotated.is_empty() || now.as_deref() == Some(&then_annotated))
        {
            object::carry(&old, &mut new, "storageClassName");
        }
    }
    let size = |spec: &Value| spec.path(&["resources", "requests"]).str("storage").to_owned();
    let (new_size, old_size) = (size(&new), size(&old));
    if change.object.at("status").str("phase") == "Bound" {
        let requests = new.pointer_mut("/resources/requests").and_then(Value::as_object_mut);
        if let Some(requests) = requests {
            requests.insert("storage".into(), old_size.as_str().into());
        }
        object::carry(&old, &mut new, "volumeAttributesClassName");
    }
    if new != old {
        let shown = change.diff("spec", "core.PersistentVolumeClaimSpec", &old, &new);
        let why = format!(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{shown}"
        );
        errors.forbidden("spec", why);
    }
    let status_size = change.old.path(&["status", "capacity"]).str("storage");
    if quantity::nanos(&new_size) < quantity::nanos(&old_size)
        && quantity::nanos(&new_size) <= quantity::nanos(status_size)
    {
        let why = "field can not be less than status.capacity";
        errors.forbidden("spec.resources.requests.storage", why);
    }
    let (new, old) = (change.object.at("spec"), change.old.at("spec"));
    if new.at("volumeMode") != old.at("volumeMode") {
        errors.invalid("volumeMode", new.shown("volumeMode"), IMMUTABLE);
    }
    let class = "volumeAttributesClassName";
    if new.at(class) != old.at(class)
        && change.old.at("status").opt("currentVolumeAttributesClassName").is_some()
    {
        let what = match new.opt_str(class) {
            None => "nil",
            Some("") => "empty string",
            Some(_) => return,
        };
        let why =
            format!("update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil");
        errors.forbidden("spec.volumeAttributesClassName", why);
    }
}

fn validate_status(object: &Value, errors: &mut Errors) {
    if object.at("spec").list("accessModes").is_empty() {
        errors.required("Spec.accessModes", "");
    }
    let at = FieldPath::root("status");
    let place = at.field("capacity");
    for (name, amount) in object.at("status").pairs("capacity") {
        let whole = quantity::whole(amount.as_str().unwrap_or_default());
        if whole < 0 {
            let whole = i64::try_from(whole).unwrap_or(i64::MIN);
            errors.invalid(place.key(name), whole, "must be a valid resource quantity");
        }
    }
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    let bound = !object::text(object, &["spec", "volumeName"]).unwrap_or_default().is_empty();
    Some(match column {
        "Volume" => text(object, &["spec", "volumeName"]),
        "Capacity" | "Access Modes" if !bound => "".into(),
        "Capacity" => text(object, &["status", "capacity", "storage"]),
        "Access Modes" => cells::access_modes(list(object, &["status", "accessModes"])),
        _ => return volume_cell(column, object),
    })
}

/// Returns the cell of a column common to claims and volumes.
pub(crate) fn volume_cell(column: &str, object: &Value) -> Option<Cell> {
    let or_unset = |path: &[&str]| match object::text(object, path).unwrap_or_default() {
        "" => "<unset>".into(),
        text => text.into(),
    };
    Some(match column {
        "Status" if object::is_deleting(object) => "Terminating".into(),
        "Status" => text(object, &["status", "phase"]),
        "StorageClass" => text(object, &["spec", "storageClassName"]),
        "VolumeAttributesClass" => or_unset(&["spec", "volumeAttributesClassName"]),
        "VolumeMode" => or_unset(&["spec", "volumeMode"]),
        _ => return None,
    })
}
