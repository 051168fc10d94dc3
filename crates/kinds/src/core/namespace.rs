//! Namespace.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_api::{
    names::{self, NameRule},
    object,
    status::ApiResult,
    strategy::Hook,
    table::Cell,
};

use crate::{
    cells::text,
    check::{Errors, FieldErrors, FieldPath, Read},
    kind::{Change, Column, Kind, Rules, Selectable},
};

pub(super) const KIND: Kind = Kind {
    rules: &Namespace,
    names: NameRule::Label,
    has_status: true,
    reset_fields: &[("finalize", &[&["status"]])],
    selectable: &[Selectable::new("status.phase", &["status", "phase"])],
    columns: &[Column::NAME, Column::string("Status"), Column::AGE],
    cell,
    ..Kind::new("", "namespaces")
};

struct Namespace;

/// Finalizer in the spec that is removed once a namespace's content is deleted.
const CONTENT: &str = "kubernetes";

/// Sets the label `kubernetes.io/metadata.name`, if the name is known.
fn label(object: &mut Value) {
    let name = object::name(object).to_owned();
    if !name.is_empty() {
        let metadata = object::metadata(object);
        let labels = object::ensure(metadata.entry("labels").or_insert(Value::Null));
        labels.insert("kubernetes.io/metadata.name".into(), name.into());
    }
}

impl Rules for Namespace {
    fn default(&self, _: &str, object: &mut Value) {
        label(object);
    }

    fn prepare_create(&self, _: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        // A generated name was not known yet during defaulting.
        label(object);
        object::child(object, "status").insert("phase".into(), "Active".into());
        let spec = object::child(object, "spec");
        let list = spec.entry("finalizers").or_insert_with(|| json!([]));
        if let Some(list) = list.as_array_mut()
            && !list.iter().any(|f| f == CONTENT)
        {
            list.push(CONTENT.into());
        }
        Ok(())
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        let (phase, leaving) = (change.object.at("status").str("phase"), object::is_deleting(change.object));
        if change.is_status() && leaving != (phase == "Terminating") {
            let why = if leaving {
                "may only be 'Terminating' if `deletionTimestamp` is not empty"
            } else {
                "may only be 'Active' if `deletionTimestamp` is empty"
            };
            errors.invalid("status.Phase", phase, why);
        }
        if change.subresource == Some("finalize") {
            let at = FieldPath::root("spec");
            let list = at.field("finalizers");
            for (index, name) in change.object.at("spec").strs("finalizers").into_iter().enumerate() {
                errors.all(&list.index(index), name, names::qualified(name));
                if !name.contains('/') && !matches!(name, "kubernetes" | "orphan" | "foregroundDeletion") {
                    let why = "name is neither a standard finalizer name nor is it fully qualified";
                    errors.invalid(list.index(index), name, why);
                }
            }
        }
    }

    fn prepare_update(&self, hook: Hook<'_>, object: &mut Value, old: &Value) -> ApiResult<()> {
        // Only the finalize subresource can change the finalizers in the spec.
        if hook.subresource != Some("finalize") {
            object::carry(old, object, "spec");
        }
        Ok(())
    }
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    (column == "Status").then(|| text(object, &["status", "phase"]))
}
