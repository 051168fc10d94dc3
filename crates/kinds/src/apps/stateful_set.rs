//! StatefulSet.

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
    cells::{self, number},
    check::{self, Errors, FieldErrors, FieldPath, Read, default, default_zero, made},
    core::persistent_volume_claim as claim,
    core::pod,
    internal,
    kind::{Change, Column, Kind, Rules},
    workload::{
        always_running, amount, at_most_all, collisions, default_template, drop_disabled, int_or_percent,
        is_sound, mismatch, not_negative, replica_counts, shown_selector, template_warnings,
        validate_selector,
    },
};

pub(super) const KIND: Kind = Kind {
    rules: &StatefulSet,
    names: NameRule::Label,
    has_generation: true,
    has_status: true,
    columns: &[
        Column::NAME,
        Column::string("Ready"),
        Column::AGE,
        Column::string("Containers").wide(),
        Column::string("Images").wide(),
    ],
    cell,
    ..Kind::new("apps", "statefulsets")
};

struct StatefulSet;

impl Rules for StatefulSet {
    fn default(&self, _: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        default_template(spec);
        default_zero(spec, "podManagementPolicy", "OrderedReady");
        let strategy = made(spec, "updateStrategy");
        if strategy.get("type").and_then(Value::as_str).unwrap_or_default().is_empty() {
            strategy.insert("type".into(), "RollingUpdate".into());
            made(strategy, "rollingUpdate");
        }
        if strategy.get("type") == Some(&json!("RollingUpdate"))
            && let Some(rolling) = check::child(strategy, "rollingUpdate")
        {
            default(rolling, "partition", 0);
        }
        let retention = made(spec, "persistentVolumeClaimRetentionPolicy");
        default_zero(retention, "whenDeleted", "Retain");
        default_zero(retention, "whenScaled", "Retain");
        default(spec, "replicas", 1);
        default(spec, "revisionHistoryLimit", 10);
        for template in check::children(spec, "volumeClaimTemplates") {
            template.insert("kind".into(), "PersistentVolumeClaim".into());
            template.insert("apiVersion".into(), "v1".into());
            claim::default_spec(made(template, "spec"));
            default_zero(made(template, "status"), "phase", "Pending");
        }
    }

    fn prepare_create(&self, _: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        drop_disabled(object);
        drop_unavailable(object);
        Ok(())
    }

    fn prepare_update(&self, hook: Hook<'_>, object: &mut Value, old: &Value) -> ApiResult<()> {
        if hook.subresource.is_none() {
            drop_disabled(object);
            if old.path(&["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"]).is_null() {
                drop_unavailable(object);
            }
        }
        Ok(())
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        stateful_spec(object.at("spec"), true, errors);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        if change.is_status() {
            return stateful_status(change, errors);
        }
        stateful_spec(change.object.at("spec"), false, errors);
        let fixed = |object: &Value| {
            let mut spec = object.at("spec").clone();
            for field in [
                "replicas",
                "template",
                "updateStrategy",
                "minReadySeconds",
                "ordinals",
                "revisionHistoryLimit",
                "persistentVolumeClaimRetentionPolicy",
            ] {
                object::ensure(&mut spec).remove(field);
            }
            spec
        };
        if fixed(change.object) != fixed(change.old) {
            errors.forbidden("spec", "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden");
        }
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = template_warnings(object, old, false);
        let inner = if old.is_some() { ".Spec" } else { "" };
        for (index, template) in object.at("spec").list("volumeClaimTemplates").iter().enumerate() {
            let at = format!("spec.volumeClaimTemplates[{index}]{inner}");
            warnings.extend(claim::spec_warnings(&at, template.at("spec")));
        }
        if object.at("spec").int("revisionHistoryLimit") < 0 {
            warnings.push("spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended".to_owned());
        }
        warnings
    }
}

fn drop_unavailable(object: &mut Value) {
    let rolling = object.pointer_mut("/spec/updateStrategy/rollingUpdate").and_then(Value::as_object_mut);
    if let Some(rolling) = rolling {
        rolling.remove("maxUnavailable");
    }
}

fn stateful_spec(spec: &Value, is_new: bool, errors: &mut Errors) {
    let at = FieldPath::root("spec");
    match spec.str("podManagementPolicy") {
        "" => errors.required(at.field("podManagementPolicy"), ""),
        "OrderedReady" | "Parallel" => {}
        other => {
            let why = "must be 'OrderedReady' or 'Parallel'";
            errors.invalid(at.field("podManagementPolicy"), other, why);
        }
    }
    stateful_strategy(at.field("updateStrategy"), spec.at("updateStrategy"), errors);
    if let Some(policy) = spec.opt("persistentVolumeClaimRetentionPolicy") {
        let at = at.field("persistentVolumeClaimRetentionPolicy");
        for field in ["whenDeleted", "whenScaled"] {
            if !matches!(policy.str(field), "Retain" | "Delete") {
                errors.unsupported(at.field(field), policy.str(field), &["Retain", "Delete"]);
            }
        }
    }
    let templates = spec.list("volumeClaimTemplates");
    if is_new {
        let list = at.field("volumeClaimTemplates");
        for (index, template) in templates.iter().enumerate() {
            let at = list.index(index);
            claim::validate_spec(at.field("spec"), template.at("spec"), false, errors);
        }
    }
    not_negative(at, spec, &["replicas", "minReadySeconds"], errors);
    errors.not_negative(at.field("ordinals.start"), spec.at("ordinals").int("start"));
    let service = spec.str("serviceName");
    if is_new && !service.is_empty() {
        errors.all(&at.field("serviceName"), service, names::label(service));
    }
    validate_selector(at, spec, "statefulset", errors);
    if is_sound(spec.at("selector")) {
        let everything = spec.opt("selector").is_some_and(check::is_empty_selector);
        if !everything {
            mismatch(at, spec, errors);
        }
        let template = with_claims(spec.at("template"), templates);
        let place = at.field("template");
        pod::validate_template(place, &template, errors);
        // Validated twice in kube-apiserver, so errors are reported twice.
        let metadata = template.at("metadata");
        check::labels(place.field("labels"), metadata.pairs("labels"), errors);
        check::annotations(place.field("annotations"), metadata.at("annotations"), errors);
    } else {
        errors.invalid_shown(at.field("selector"), shown_selector(spec.at("selector")), "");
    }
    always_running(at, spec, "StatefulSet", errors);
}

/// Returns the template with the volumes of its claims, as pods will have them.
fn with_claims(template: &Value, claims: &[Value]) -> Value {
    let mut template = template.clone();
    let spec = object::child(&mut template, "spec");
    spec.remove("subdomain");
    spec.remove("hostname");
    if claims.is_empty() {
        return template;
    }
    let mut volumes: Vec<Value> = Vec::new();
    for claim in claims {
        let name = object::name(claim);
        if !volumes.iter().any(|volume| volume.str("name") == name) {
            volumes.push(json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        }
    }
    let own = spec.get("volumes").and_then(Value::as_array).cloned().unwrap_or_default();
    for volume in own {
        if !claims.iter().any(|claim| object::name(claim) == volume.str("name")) {
            volumes.push(volume);
        }
    }
    spec.insert("volumes".into(), Value::Array(volumes));
    template
}

fn stateful_strategy(at: FieldPath<'_>, strategy: &Value, errors: &mut Errors) {
    let rolling = strategy.opt("rollingUpdate");
    let place = at.field("rollingUpdate");
    match (strategy.str("type"), rolling) {
        ("", _) => errors.required(at, ""),
        ("OnDelete", Some(rolling)) => {
            let shown = internal::show("apps.RollingUpdateStatefulSetStrategy", rolling);
            errors.invalid_shown(place, shown, "only allowed for updateStrategy 'RollingUpdate'");
        }
        ("RollingUpdate", Some(rolling)) => {
            errors.not_negative(place.field("partition"), rolling.int("partition"));
            if let Some(unavailable) = rolling.opt("maxUnavailable") {
                let place = place.field("maxUnavailable");
                int_or_percent(place, unavailable, errors);
                if amount(unavailable).0 == 0 {
                    errors.invalid(place, unavailable.clone(), "cannot be 0");
                }
                at_most_all(place, unavailable, errors);
            }
        }
        ("OnDelete" | "RollingUpdate", None) => {}
        (kind, rolling) => {
            let rolling =
                internal::show("*apps.RollingUpdateStatefulSetStrategy", rolling.unwrap_or(&Value::Null));
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":{rolling}}}", json!(kind));
            errors.invalid_shown(at, shown, "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
}

fn stateful_status(change: Change<'_>, errors: &mut Errors) {
    let status = change.object.at("status");
    let fields = [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ];
    not_negative(FieldPath::root("status"), status, &fields, errors);
    let counts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    replica_counts(status, &counts, "status.readyReplicas", errors);
    collisions(change, errors);
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    match column {
        "Ready" => {
            let ready = number(object, &["status", "readyReplicas"]);
            Some(format!("{ready}/{}", number(object, &["spec", "replicas"])).into())
        }
        _ => cells::workload(column, &object["spec"]),
    }
}
