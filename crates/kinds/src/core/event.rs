//! Event of the core group, which is also the storage version of `events.k8s.io`.

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::{
    names, object,
    table::{Cell, age},
};

use crate::{
    cells::{number, text},
    check::{Errors, FieldErrors, FieldPath, IMMUTABLE, Read},
    internal,
    kind::{Change, Column, Kind, Rules, Selectable},
};

pub(super) const KIND: Kind = Kind {
    rules: &Event { core: true },
    allows_create_on_update: true,
    checks_finalizers: false,
    selectable: SELECTABLE,
    columns: COLUMNS,
    cell,
    ..Kind::new("", "events")
};

pub(crate) const COLUMNS: &[Column] = &[
    Column::string("Last Seen"),
    Column::string("Type"),
    Column::string("Reason"),
    Column::string("Object"),
    Column::string("Subobject").wide(),
    Column::string("Source").wide(),
    Column::string("Message"),
    Column::string("First Seen").wide(),
    Column::string("Count").wide(),
    Column::string("Name").format("name").wide(),
];

pub(crate) const SELECTABLE: &[Selectable] = &[
    Selectable::new("involvedObject.kind", &["involvedObject", "kind"]),
    Selectable::new("involvedObject.namespace", &["involvedObject", "namespace"]),
    Selectable::new("involvedObject.name", &["involvedObject", "name"]),
    Selectable::new("involvedObject.uid", &["involvedObject", "uid"]),
    Selectable::new("involvedObject.apiVersion", &["involvedObject", "apiVersion"]),
    Selectable::new("involvedObject.resourceVersion", &["involvedObject", "resourceVersion"]),
    Selectable::new("involvedObject.fieldPath", &["involvedObject", "fieldPath"]),
    Selectable::new("reason", &["reason"]),
    Selectable::new("reportingComponent", &["reportingComponent"]),
    // Events of `events.k8s.io` have reportingComponent instead of source.component.
    Selectable::new("source", &["source", "component"]).or_field(&["reportingComponent"]),
    Selectable::new("type", &["type"]),
];

/// Rules of Events written through the core group or `events.k8s.io`.
pub(crate) struct Event {
    pub(crate) core: bool,
}

impl Rules for Event {
    fn convert(&self, object: &mut Value, (from, _): (&str, &str), (to, _): (&str, &str)) {
        match (from, to) {
            ("", "events.k8s.io") => rename_fields(object, false),
            ("events.k8s.io", "") => rename_fields(object, true),
            _ => {}
        }
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        self.common(object, errors);
        if self.core {
            return;
        }
        series(object, errors);
        if object.str("eventTime").is_empty() {
            errors.required("eventTime", "");
        }
        let kind = object.str("type");
        if !matches!(kind, "Normal" | "Warning") {
            errors.invalid("type", "", format!("has invalid value: {kind}"));
        }
        for field in ["firstTimestamp", "lastTimestamp"] {
            if !object.str(field).is_empty() {
                errors.invalid(field, "", "needs to be unset");
            }
        }
        if object.int("count") != 0 {
            errors.invalid("count", "", "needs to be unset");
        }
        let source = object.at("source");
        if !source.str("component").is_empty() || !source.str("host").is_empty() {
            errors.invalid("source", "", "needs to be unset");
        }
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        let (new, old) = (change.object, change.old);
        self.common(new, errors);
        if self.core {
            return;
        }
        change.metadata(errors);
        if new.at("series") != old.at("series") {
            series(new, errors);
        }
        for (field, kind) in [
            ("involvedObject", "core.ObjectReference"),
            ("source", "core.EventSource"),
            ("related", "*core.ObjectReference"),
        ] {
            if new.at(field) != old.at(field) {
                errors.invalid_shown(field, internal::show(kind, new.at(field)), IMMUTABLE);
            }
        }
        for (field, called) in [
            ("reason", "reason"),
            ("message", "message"),
            ("firstTimestamp", "firstTimestamp"),
            ("lastTimestamp", "lastTimestamp"),
            ("reason", "reason"),
            ("type", "type"),
            ("eventTime", "eventTime"),
            ("action", "action"),
            ("reportingComponent", "reportingController"),
            ("reportingInstance", "reportingInstance"),
        ] {
            if new.at(field) != old.at(field) {
                let value = if field.ends_with("stamp") || field == "eventTime" {
                    new.shown(field)
                } else {
                    Value::from(new.str(field))
                };
                errors.invalid(called, value, IMMUTABLE);
            }
        }
        if new.int("count") != old.int("count") {
            errors.invalid("count", new.int("count"), IMMUTABLE);
        }
    }
}

fn series(object: &Value, errors: &mut Errors) {
    let Some(series) = object.opt("series") else { return };
    if series.int("count") < 2 {
        errors.invalid("series.count", "", "should be at least 2");
    }
    if series.str("lastObservedTime").is_empty() {
        errors.required("series.lastObservedTime", "");
    }
}

impl Event {
    fn common(&self, object: &Value, errors: &mut Errors) {
        let namespace = object::namespace(object);
        let about = object.at("involvedObject").str("namespace");
        let mut mismatch = || {
            errors.invalid("involvedObject.namespace", about, "does not match event.namespace");
        };
        let is_new = !object.str("eventTime").is_empty();
        if !is_new {
            if about.is_empty() {
                if !matches!(namespace, "" | "default") {
                    mismatch();
                }
            } else if about != namespace {
                mismatch();
            }
        } else {
            if about.is_empty() && !matches!(namespace, "default" | "kube-system") {
                mismatch();
            }
            self.reported(object, errors);
        }
        errors.all(&FieldPath::root("namespace"), namespace, names::subdomain(namespace));
    }

    fn reported(&self, object: &Value, errors: &mut Errors) {
        let controller = object.str("reportingComponent");
        let at = FieldPath::root(if self.core { "reportingComponent" } else { "reportingController" });
        if controller.is_empty() {
            errors.required(at, "");
        }
        errors.all(&at, controller, names::qualified(controller));
        for field in ["reportingInstance", "action", "reason"] {
            if object.str(field).is_empty() {
                errors.required(field, "");
            }
            if object.str(field).len() > 128 {
                errors.invalid(field, "", "can have at most 128 characters");
            }
        }
        if object.str("message").len() > 1024 {
            errors.invalid("message", "", "can have at most 1024 characters");
        }
    }
}

/// Names of an Event's fields in the core group and in `events.k8s.io`.
const EVENT_FIELDS: [(&str, &str); 6] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

fn rename_fields(object: &mut Value, to_core: bool) {
    let root = object::ensure(object);
    for (core, newer) in EVENT_FIELDS {
        let (from, to) = if to_core { (newer, core) } else { (core, newer) };
        if let Some(value) = root.remove(from) {
            root.insert(to.into(), value);
        }
    }
    let (from, to) = if to_core {
        ("reportingController", "reportingComponent")
    } else {
        ("reportingComponent", "reportingController")
    };
    if let Some(value) = root.remove(from) {
        root.insert(to.into(), value);
    }
}

pub(crate) fn cell(column: &str, event: &Value, now: Timestamp) -> Option<Cell> {
    let first = |paths: &[&[&str]]| {
        let found = paths.iter().find_map(|p| object::text(event, p)).unwrap_or_default();
        found.to_owned()
    };
    let about = event.get("involvedObject").or_else(|| event.get("regarding")).unwrap_or(&Value::Null);
    let count = number(event, &["series", "count"])
        .max(number(event, &["count"]))
        .max(number(event, &["deprecatedCount"]));
    Some(match column {
        "Last Seen" => age(
            now,
            &first(&[
                &["series", "lastObservedTime"],
                &["lastTimestamp"],
                &["deprecatedLastTimestamp"],
                &["eventTime"],
            ]),
        )
        .into(),
        "First Seen" => {
            age(now, &first(&[&["firstTimestamp"], &["deprecatedFirstTimestamp"], &["eventTime"]])).into()
        }
        "Type" => text(event, &["type"]),
        "Reason" => text(event, &["reason"]),
        "Object" => {
            let part = |key: &str| about[key].as_str().unwrap_or_default();
            match part("name") {
                "" => part("kind").to_lowercase().into(),
                name => format!("{}/{name}", part("kind").to_lowercase()).into(),
            }
        }
        "Subobject" => about["fieldPath"].as_str().unwrap_or_default().into(),
        "Source" => {
            let component = first(&[&["source", "component"], &["deprecatedSource", "component"]]);
            let host = first(&[&["source", "host"], &["deprecatedSource", "host"]]);
            match (component.is_empty(), host.is_empty()) {
                (true, _) => first(&[&["reportingComponent"], &["reportingController"]]).into(),
                (false, true) => component.into(),
                (false, false) => format!("{component}, {host}").into(),
            }
        }
        "Message" => first(&[&["message"], &["note"]]).trim().into(),
        "Count" => count.max(1).into(),
        _ => return None,
    })
}
