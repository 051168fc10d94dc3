//! IngressClass.

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::{fields::FieldError, names, object, table::Cell};

use crate::{
    cells::{class_name, text},
    check::path_segment,
    check::{self, Errors, FieldErrors, FieldPath, IMMUTABLE, Read, child, default},
    kind::{Change, Column, Kind, Rules},
};

pub(super) const KIND: Kind = Kind {
    rules: &IngressClass,
    has_generation: true,
    columns: &[Column::NAME, Column::string("Controller"), Column::string("Parameters"), Column::AGE],
    cell,
    ..Kind::new("networking.k8s.io", "ingressclasses")
};

struct IngressClass;

impl Rules for IngressClass {
    fn default(&self, _: &str, object: &mut Value) {
        if let Some(parameters) = child(object::child(object, "spec"), "parameters") {
            default(parameters, "scope", "Cluster");
        }
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let (at, spec) = (FieldPath::root("spec"), object.at("spec"));
        let controller = spec.str("controller");
        if controller.len() > 250 {
            errors.push(FieldError::too_long(at.field("controller"), 250));
        }
        check::domain_path(at.field("controller"), controller, errors);
        let Some(parameters) = spec.opt("parameters") else { return };
        let at = at.field("parameters");
        if let Some(group) = parameters.opt_str("apiGroup") {
            errors.all(&at.field("apiGroup"), group, names::subdomain(group));
        }
        path_segment(at.field("kind"), parameters.str("kind"), errors);
        path_segment(at.field("name"), parameters.str("name"), errors);
        let namespace = parameters.opt_str("namespace");
        match parameters.opt_str("scope") {
            None => errors.required(at.field("scope"), ""),
            Some("Namespace") => match namespace {
                None => errors.required(at.field("namespace"), "`parameters.scope` is set to 'Namespace'"),
                Some(name) => errors.all(&at.field("namespace"), name, names::label(name)),
            },
            Some("Cluster") => {
                if namespace.is_some() {
                    errors.forbidden(at.field("namespace"), "`parameters.scope` is set to 'Cluster'");
                }
            }
            Some(other) => errors.unsupported(at.field("scope"), other, &["Cluster", "Namespace"]),
        }
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        let controller = |object: &Value| object.at("spec").str("controller").to_owned();
        if controller(change.object) != controller(change.old) {
            errors.invalid("spec.controller", controller(change.object), IMMUTABLE);
        }
        change.whole_metadata(errors);
        self.validate(change.object, errors);
    }
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    Some(match column {
        "Name" => class_name(object, &["ingressclass.kubernetes.io/is-default-class"]),
        "Controller" => text(object, &["spec", "controller"]),
        "Parameters" => {
            let Some(parameters) = object::get(object, &["spec", "parameters"]) else {
                return Some("<none>".into());
            };
            let part = |key: &str| parameters[key].as_str().unwrap_or_default();
            match parameters["apiGroup"].as_str() {
                Some(group) => format!("{}.{group}/{}", part("kind"), part("name")).into(),
                None => format!("{}/{}", part("kind"), part("name")).into(),
            }
        }
        _ => return None,
    })
}
