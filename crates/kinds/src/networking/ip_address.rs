//! IPAddress.

use serde_json::Value;
use steersman_api::names::{self, NameRule};

use crate::{
    check::path_segment,
    check::{Errors, FieldErrors, FieldPath, IMMUTABLE, Read},
    ip,
    kind::{Change, Column, Kind, Rules},
};

pub(super) const KIND: Kind = Kind {
    rules: &IpAddress,
    names: NameRule::PathSegment,
    columns: &[Column::NAME, Column::string("ParentRef")],
    ..Kind::new("networking.k8s.io", "ipaddresses")
};

struct IpAddress;

impl Rules for IpAddress {
    fn validate(&self, object: &Value, errors: &mut Errors) {
        let metadata = FieldPath::root("metadata");
        ip::strict_ip(metadata.field("name"), object.at("metadata").str("name"), errors);
        let at = FieldPath::root("spec");
        let Some(parent) = object.at("spec").opt("parentRef") else {
            return errors.required(at.field("parentRef"), "");
        };
        let at = at.field("parentRef");
        let group = parent.str("group");
        if !group.is_empty() {
            errors.all(&at.field("group"), group, names::subdomain(group));
        }
        path_segment(at.field("resource"), parent.str("resource"), errors);
        path_segment(at.field("name"), parent.str("name"), errors);
        let namespace = parent.str("namespace");
        if !namespace.is_empty() {
            path_segment(at.field("namespace"), namespace, errors);
        }
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        let path = ["spec", "parentRef"];
        if change.object.path(&path) != change.old.path(&path) {
            errors.invalid("spec.parentRef", change.object.path(&path).clone(), IMMUTABLE);
        }
    }
}
