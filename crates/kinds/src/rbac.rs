//! Roles and bindings.

use serde_json::Value;

use super::{
    Change, Rules, apps,
    check::{self, At, Complain, Errors, Read, children, default_zero},
    internal,
};
use crate::{names, object};

const GROUP: &str = "rbac.authorization.k8s.io";

fn rule(at: At<'_>, rule: &Value, namespaced: bool, errors: &mut Errors) {
    if rule.list("verbs").is_empty() {
        errors.required(at.field("verbs"), "verbs must contain at least one value");
    }
    if !rule.list("nonResourceURLs").is_empty() {
        let place = at.field("nonResourceURLs");
        if namespaced {
            let why = "namespaced rules cannot apply to non-resource URLs";
            errors.invalid(place, rule.shown("nonResourceURLs"), why);
        }
        if ["apiGroups", "resources", "resourceNames"].iter().any(|field| !rule.list(field).is_empty()) {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            errors.invalid(place, rule.shown("nonResourceURLs"), why);
        }
        return;
    }
    if rule.list("apiGroups").is_empty() {
        errors.required(at.field("apiGroups"), "resource rules must supply at least one api group");
    }
    if rule.list("resources").is_empty() {
        errors.required(at.field("resources"), "resource rules must supply at least one resource");
    }
}

/// A Role, or a ClusterRole if it is not namespaced.
pub(super) struct Role {
    pub(super) namespaced: bool,
}

impl Rules for Role {
    fn validate(&self, object: &Value, errors: &mut Errors) {
        let at = At::root("rules");
        for (index, entry) in object.list("rules").iter().enumerate() {
            rule(at.index(index), entry, self.namespaced, errors);
        }
        let Some(aggregation) = object.opt("aggregationRule").filter(|_| !self.namespaced) else { return };
        let at = At::root("aggregationRule");
        let list = at.field("clusterRoleSelectors");
        let selectors = aggregation.list("clusterRoleSelectors");
        if selectors.is_empty() {
            let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.required(list, why);
        }
        for (index, selector) in selectors.iter().enumerate() {
            check::label_selector(list.index(index), selector, errors);
            if !apps::is_sound(selector) {
                errors.invalid(list.index(index), Value::Null, "invalid label selector.");
            }
        }
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.whole_metadata(errors);
        self.validate(change.object, errors);
        change.metadata(errors);
    }
}

/// A RoleBinding, or a ClusterRoleBinding if it is not namespaced.
pub(super) struct Binding {
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
        let at = At::root("roleRef");
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
                let complaints = names::check(names::NameRule::PathSegment, name, false);
                errors.all(&at.field("name"), name, complaints);
            }
        }
        let list = At::root("subjects");
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
    fn subject(&self, at: At<'_>, subject: &Value, errors: &mut Errors) {
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
