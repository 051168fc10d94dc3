//! Small kinds: PodDisruptionBudgets, PriorityClasses, RuntimeClasses, Leases and ServiceAccounts.

use serde_json::{Value, json};

use super::{
    Change, Rules,
    apps::{at_most_all, int_or_percent},
    check::{self, At, Complain, Errors, IMMUTABLE, Read, default},
    pod::affinity,
    resources,
};
use crate::{
    fields::{FieldError, FieldErrorKind},
    names, object,
    status::ApiResult,
    strategy::Hook,
};

pub(super) struct DisruptionBudget;

impl Rules for DisruptionBudget {
    fn validate(&self, object: &Value, errors: &mut Errors) {
        let (at, spec) = (At::root("spec"), object.at("spec"));
        let (least, most) = (spec.opt("minAvailable"), spec.opt("maxUnavailable"));
        if let (Some(least), Some(most)) = (least, most) {
            let selector = super::internal::show("*meta.LabelSelector", spec.at("selector"));
            let policy = spec.opt_str("unhealthyPodEvictionPolicy").map_or(Value::Null, Value::from);
            let shown = format!(
                "{{\"MinAvailable\":{least},\"Selector\":{selector},\"MaxUnavailable\":{most},\"UnhealthyPodEvictionPolicy\":{policy}}}"
            );
            errors.invalid_shown(at, shown, "minAvailable and maxUnavailable cannot be both set");
        }
        for (field, value) in [("minAvailable", least), ("maxUnavailable", most)] {
            if let Some(value) = value {
                int_or_percent(at.field(field), value, errors);
                at_most_all(at.field(field), value, errors);
            }
        }
        check::label_selector(at.field("selector"), spec.at("selector"), errors);
        let policies = ["AlwaysAllow", "IfHealthyBudget"];
        let field = "unhealthyPodEvictionPolicy";
        if let Some(policy) = spec.opt_str(field).filter(|policy| !policies.contains(policy)) {
            errors.unsupported(at.field(field), policy, &policies);
        }
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        if !change.is_status() {
            return self.validate(change.object, errors);
        }
        let (at, status) = (At::root("status"), change.object.at("status"));
        conditions(at.field("conditions"), status.list("conditions"), errors);
        for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            errors.not_negative(at.field(field), status.int(field));
        }
    }
}

/// Judges conditions of the common type.
pub(super) fn conditions(at: At<'_>, conditions: &[Value], errors: &mut Errors) {
    let mut seen = Vec::new();
    for (index, condition) in conditions.iter().enumerate() {
        let at = at.index(index);
        let kind = condition.str("type");
        if seen.contains(&kind) {
            errors.duplicate(at.field("type"), kind);
        }
        seen.push(kind);
        errors.all(&at.field("type"), kind, names::qualified(kind));
        let states = ["False", "True", "Unknown"];
        if !states.contains(&condition.str("status")) {
            errors.unsupported(at.field("status"), condition.str("status"), &states);
        }
        if condition.int("observedGeneration") < 0 {
            let why = "must be greater than or equal to zero";
            errors.invalid(at.field("observedGeneration"), condition.int("observedGeneration"), why);
        }
        if condition.str("lastTransitionTime").is_empty() {
            errors.required(at.field("lastTransitionTime"), "");
        }
        match condition.str("reason") {
            "" => errors.required(at.field("reason"), ""),
            reason if !is_reason(reason) => {
                let why = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";
                errors.invalid(at.field("reason"), reason, why);
            }
            _ => {}
        }
    }
}

fn is_reason(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(|c| c.is_ascii_alphanumeric() || *c == b'_')
        && bytes.iter().all(|c| c.is_ascii_alphanumeric() || b"_,:".contains(c))
}

pub(super) struct PriorityClass;

const MOST: i64 = 1_000_000_000;

impl Rules for PriorityClass {
    fn default(&self, _: &str, object: &mut Value) {
        default(object::ensure(object), "preemptionPolicy", "PreemptLowerPriority");
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let name = object::name(object);
        let value = object.int("value");
        if name.starts_with("system-") {
            let known = match name {
                "system-node-critical" => Some(MOST * 2 + 1000),
                "system-cluster-critical" => Some(MOST * 2),
                _ => None,
            };
            let why = match known {
                None => Some(format!("{name} is not a known system priority class")),
                Some(known) if known != value => {
                    Some(format!("value of {name} PriorityClass must be {known}"))
                }
                Some(_) if object.flag("globalDefault") => {
                    Some(format!("globalDefault of {name} PriorityClass must be false"))
                }
                Some(_) => None,
            };
            if let Some(why) = why {
                errors.forbidden("metadata.name", format!("priority class names with 'system-' prefix are reserved for system use only. error: {why}"));
            }
        } else if value > MOST {
            errors.forbidden("value", format!("maximum allowed value of a user defined priority is {MOST}"));
        }
        if let Some(policy) = object.opt_str("preemptionPolicy") {
            errors.one_of(At::root("preemptionPolicy"), policy, &["PreemptLowerPriority", "Never"]);
        }
    }

    fn is_new_generation(&self, _: &Value, _: &Value) -> bool {
        false
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        if change.object.int("value") != change.old.int("value") {
            errors.forbidden("value", "may not be changed in an update.");
        }
        change.immutable(&["preemptionPolicy"], errors);
    }
}

pub(super) struct RuntimeClass;

impl Rules for RuntimeClass {
    fn validate(&self, object: &Value, errors: &mut Errors) {
        match object.str("handler") {
            "" => errors.required("handler", ""),
            name => errors.all(&At::root("handler"), name, names::label(name)),
        }
        if let Some(overhead) = object.opt("overhead") {
            let limits = json!({ "limits": overhead.at("podFixed") });
            resources::requirements(At::root("overhead"), &limits, resources::container_name, &[], errors);
        }
        if let Some(scheduling) = object.opt("scheduling") {
            let at = At::root("scheduling");
            check::labels(at.field("nodeSelector"), scheduling.pairs("nodeSelector"), errors);
            affinity::tolerations(at.field("tolerations"), scheduling.list("tolerations"), errors);
        }
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        if change.object.str("handler") != change.old.str("handler") {
            errors.invalid("handler", change.object.str("handler"), IMMUTABLE);
        }
    }
}

pub(super) struct Lease;

/// Fields for electing leaders in concert, which is off.
const COORDINATED: [&str; 2] = ["strategy", "preferredHolder"];

impl Rules for Lease {
    fn prepare_create(&self, _: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        let spec = object::child(object, "spec");
        COORDINATED.iter().for_each(|field| drop(spec.remove(*field)));
        Ok(())
    }

    fn prepare_update(&self, _: Hook<'_>, object: &mut Value, old: &Value) -> ApiResult<()> {
        let spec = object::child(object, "spec");
        for field in COORDINATED.into_iter().filter(|field| old.at("spec").opt(field).is_none()) {
            spec.remove(field);
        }
        Ok(())
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let (at, spec) = (At::root("spec"), object.at("spec"));
        if let Some(seconds) = spec.opt_int("leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
            errors.invalid(at.field("leaseDurationSeconds"), seconds, "must be greater than 0");
        }
        if let Some(count) = spec.opt_int("leaseTransitions") {
            errors.not_negative(at.field("leaseTransitions"), count);
        }
        let strategy = spec.opt_str("strategy");
        if let Some(strategy) = strategy {
            let place = at.field("strategy");
            if !strategy.contains('/') {
                if strategy != "OldestEmulationVersion" {
                    errors.unsupported(place.field("strategy"), strategy, &["OldestEmulationVersion"]);
                }
            } else {
                errors.all(&place.field("strategy"), strategy, names::qualified(strategy));
            }
        }
        if !spec.str("preferredHolder").is_empty() && strategy.unwrap_or_default().is_empty() {
            let why = "may only be specified if `strategy` is defined";
            errors.forbidden(at.field("preferredHolder"), why);
        }
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.plain_metadata(errors);
        self.validate(change.object, errors);
    }
}

pub(super) struct Node;

impl Rules for Node {
    fn default(&self, _: &str, object: &mut Value) {
        let capacity = object.path(&["status", "capacity"]).clone();
        if !capacity.is_null() {
            default(object::child(object, "status"), "allocatable", capacity);
        }
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        taints(At::root("metadata").field("taints"), object.at("spec").list("taints"), errors);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        // The real server asks twice, but for a status only once.
        if !change.is_status() {
            self.validate(change.object, errors);
        }
        self.validate(change.object, errors);
    }
}

const TAINT_EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

fn taints(at: At<'_>, taints: &[Value], errors: &mut Errors) {
    let mut seen = Vec::new();
    for (index, taint) in taints.iter().enumerate() {
        let at = at.index(index);
        let (key, value, effect) = (taint.str("key"), taint.str("value"), taint.str("effect"));
        errors.all(&at.field("key"), key, names::qualified(key));
        let complaints = names::label_value(value);
        if !complaints.is_empty() {
            errors.invalid(at.field("value"), value, complaints.join(";"));
        }
        errors.one_of(at.field("effect"), effect, &TAINT_EFFECTS);
        if seen.contains(&(key, effect)) {
            errors.push(FieldError {
                kind: FieldErrorKind::Duplicate(taint.clone()),
                detail: "taints must be unique by key and effect pair".into(),
                field: at.into(),
            });
        }
        seen.push((key, effect));
    }
}

pub(super) struct ServiceAccount;

/// Secrets of an account are in its namespace: nothing but their names is kept.
fn name_secrets(object: &mut Value) {
    for secret in object.get_mut("secrets").and_then(Value::as_array_mut).into_iter().flatten() {
        let name = secret.str("name");
        *secret = if name.is_empty() { json!({}) } else { json!({"name": name}) };
    }
}

impl Rules for ServiceAccount {
    fn prepare_create(&self, _: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        name_secrets(object);
        Ok(())
    }

    fn prepare_update(&self, _: Hook<'_>, object: &mut Value, _: &Value) -> ApiResult<()> {
        name_secrets(object);
        Ok(())
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        change.whole_metadata(errors);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let key = "kubernetes.io/enforce-mountable-secrets";
        let of = |object: &Value| object.path(&["metadata", "annotations"]).opt(key).is_some();
        if of(object) && !old.is_some_and(of) {
            return vec![format!(
                "metadata.annotations[{key}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
            )];
        }
        Vec::new()
    }
}

pub(super) struct CsiDriver;

impl Rules for CsiDriver {
    fn default(&self, _: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        default(spec, "attachRequired", true);
        default(spec, "podInfoOnMount", false);
        default(spec, "storageCapacity", false);
        default(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
        default(spec, "volumeLifecycleModes", json!(["Persistent"]));
        default(spec, "requiresRepublish", false);
        default(spec, "seLinuxMount", false);
    }
}
