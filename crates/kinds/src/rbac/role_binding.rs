//! RoleBinding, and rules common to RoleBindings and ClusterRoleBindings.

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::{
    names::{self, NameRule},
    object,
    table::Cell,
};

use crate::{
    cells::list,
    check::{self, Errors, FieldErrors, FieldPath, Read, children, default_zero},
    internal,
    kind::{Change, Column, Kind, Rules},
    rbac::GROUP,
};

pub(super) const KIND: Kind = Kind {
    rules: &Binding { namespaced: true },
    names: NameRule::PathSegment,
    allows_create_on_update: true,
    columns: COLUMNS,
    cell,
    ..Kind::new("rbac.authorization.k8s.io", "rolebindings")
};

pub(crate) const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::string("Role"),
    Column::AGE,
    Column::string("Users").wide(),
    Column::string("Groups").wide(),
    Column::string("ServiceAccounts").wide(),
];

/// Rules of RoleBindings, or of ClusterRoleBindings if not namespaced.
pub(crate) struct Binding {
    pub(super) namespaced: bool,
}

impl Rules for Binding {
    fn default(&self, _: &str, object: &mut Value) {
        let root = object::ensure(object);
        default_zero(check::made(root, "roleRef"), "apiGroup", GROUP);
        for subject in children(root, "subjects") {
            let group = match subject.get("kind").and_then(Value::as_str) {
                Some("User" | "Group") => GROUP,
                _ => continue,
            };
            default_zero(subject, "apiGroup", group);
        }
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let at = FieldPath::root("roleRef");
        let role = object.at("roleRef");
        if role.str("apiGroup") != GROUP {
            errors.unsupported(at.field("apiGroup"), role.str("apiGroup"), &[GROUP]);
        }
        let kinds: &[&str] = if self.namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
        if !kinds.contains(&role.str("kind")) {
            errors.unsupported(at.field("kind"), role.str("kind"), kinds);
        }
        match role.str("name") {
            "" => errors.required(at.field("name"), ""),
            name => {
                let complaints = names::check(NameRule::PathSegment, name, false);
                errors.all(&at.field("name"), name, complaints);
            }
        }
        let list = FieldPath::root("subjects");
        for (index, subject) in object.list("subjects").iter().enumerate() {
            self.subject(list.index(index), subject, errors);
        }
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.whole_metadata(errors);
        self.validate(change.object, errors);
        change.metadata(errors);
        let (new, old) = (change.object.at("roleRef"), change.old.at("roleRef"));
        if ["apiGroup", "kind", "name"].iter().any(|field| new.str(field) != old.str(field)) {
            errors.invalid_shown("roleRef", internal::show("rbac.RoleRef", new), "cannot change roleRef");
        }
    }
}

impl Binding {
    fn subject(&self, at: FieldPath<'_>, subject: &Value, errors: &mut Errors) {
        let (name, group) = (subject.str("name"), subject.str("apiGroup"));
        if name.is_empty() {
            errors.required(at.field("name"), "");
        }
        match subject.str("kind") {
            "ServiceAccount" => {
                if !name.is_empty() {
                    errors.all(&at.field("name"), name, names::subdomain(name));
                }
                if !group.is_empty() {
                    errors.unsupported(at.field("apiGroup"), group, &[""]);
                }
                if !self.namespaced && subject.str("namespace").is_empty() {
                    errors.required(at.field("namespace"), "");
                }
            }
            "User" | "Group" => {
                if group != GROUP {
                    errors.unsupported(at.field("apiGroup"), group, &[GROUP]);
                }
            }
            other => errors.unsupported(at.field("kind"), other, &["ServiceAccount", "User", "Group"]),
        }
    }
}

pub(crate) fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    let subjects = |kind: &str| {
        let names = list(object, &["subjects"]).iter().filter(|s| s["kind"] == kind).map(|s| {
            let part = |key: &str| s[key].as_str().unwrap_or_default();
            if kind == "ServiceAccount" {
                format!("{}/{}", part("namespace"), part("name"))
            } else {
                part("name").into()
            }
        });
        names.collect::<Vec<_>>().join(", ").into()
    };
    Some(match column {
        "Role" => {
            let part = |key: &str| object["roleRef"][key].as_str().unwrap_or_default();
            format!("{}/{}", part("kind"), part("name")).into()
        }
        "Users" => subjects("User"),
        "Groups" => subjects("Group"),
        "ServiceAccounts" => subjects("ServiceAccount"),
        _ => return None,
    })
}
