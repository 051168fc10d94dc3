//! Role, and rules common to Roles and ClusterRoles.

use serde_json::Value;
use steersman_api::names::NameRule;

use crate::{
    check::{self, Errors, FieldErrors, FieldPath, Read},
    kind::{Change, Kind, Rules},
    workload::is_sound,
};

pub(super) const KIND: Kind = Kind {
    rules: &Role { namespaced: true },
    names: NameRule::PathSegment,
    allows_create_on_update: true,
    ..Kind::new("rbac.authorization.k8s.io", "roles")
};

/// Rules of Roles, or of ClusterRoles if not namespaced.
pub(crate) struct Role {
    pub(super) namespaced: bool,
}

impl Rules for Role {
    fn validate(&self, object: &Value, errors: &mut Errors) {
        let at = FieldPath::root("rules");
        for (index, entry) in object.list("rules").iter().enumerate() {
            rule(at.index(index), entry, self.namespaced, errors);
        }
        let Some(aggregation) = object.opt("aggregationRule").filter(|_| !self.namespaced) else { return };
        let at = FieldPath::root("aggregationRule");
        let list = at.field("clusterRoleSelectors");
        let selectors = aggregation.list("clusterRoleSelectors");
        if selectors.is_empty() {
            let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.required(list, why);
        }
        for (index, selector) in selectors.iter().enumerate() {
            check::label_selector(list.index(index), selector, errors);
            if !is_sound(selector) {
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

fn rule(at: FieldPath<'_>, rule: &Value, namespaced: bool, errors: &mut Errors) {
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
