//! Events, which two groups share.

use serde_json::Value;

use super::{
    Change, Rules,
    check::{At, Complain, Errors, IMMUTABLE, Read},
    internal,
};
use crate::names;

/// An Event, written by way of the core group or of events.k8s.io.
pub(super) struct Event {
    pub(super) core: bool,
}

impl Rules for Event {
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
        let namespace = crate::object::namespace(object);
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
        errors.all(&At::root("namespace"), namespace, names::subdomain(namespace));
    }

    fn reported(&self, object: &Value, errors: &mut Errors) {
        let controller = object.str("reportingComponent");
        let at = At::root(if self.core { "reportingComponent" } else { "reportingController" });
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
