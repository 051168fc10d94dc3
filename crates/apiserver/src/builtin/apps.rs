//! Kinds that keep pods running: Deployments, ReplicaSets, StatefulSets, DaemonSets and what they keep of the past.

use serde_json::{Map, Value, json};

use super::{
    Change, Rules,
    check::{self, At, Complain, Errors, IMMUTABLE, Read, default, default_zero, made},
    claim, internal, pod,
};
use crate::{names, object, status::ApiResult, strategy::Hook};

/// Defaults of the template in a spec.
pub(super) fn default_template(spec: &mut Map<String, Value>) {
    pod::defaults::spec(made(made(spec, "template"), "spec"));
}

/// Drops what a template can't have.
pub(super) fn drop_disabled(object: &mut Value) {
    pod::defaults::drop_disabled(made(made(object::child(object, "spec"), "template"), "spec"));
}

/// Complains about numbers of the spec below zero.
pub(super) fn not_negative(at: At<'_>, spec: &Value, fields: &[&str], errors: &mut Errors) {
    for field in fields {
        if let Some(number) = spec.opt_int(field) {
            errors.not_negative(at.field(field), number);
        }
    }
}

/// Whether a selector can be understood; an absent one can, and selects nothing.
pub(super) fn is_sound(selector: &Value) -> bool {
    let mut errors = Errors::new();
    check::label_selector(At::root(""), selector, &mut errors);
    errors.is_empty()
}

/// Judges the selector of a kind that calls itself so in complaints.
fn selector(at: At<'_>, spec: &Value, called: &str, errors: &mut Errors) {
    let place = at.field("selector");
    match spec.opt("selector") {
        None => errors.required(place, ""),
        Some(selector) => {
            check::label_selector(place, selector, errors);
            if check::is_empty_selector(selector) {
                let why = format!("empty selector is invalid for {called}");
                errors.invalid_shown(place, shown_selector(selector), why);
            }
        }
    }
}

/// A selector in the order of its Go type.
pub(super) fn shown_selector(selector: &Value) -> String {
    internal::show("*meta.LabelSelector", selector)
}

/// Complains if the selector does not match the template's labels.
pub(super) fn mismatch(at: At<'_>, spec: &Value, errors: &mut Errors) {
    let labels = spec.path(&["template", "metadata", "labels"]);
    let matches = spec.opt("selector").is_some_and(|selector| check::selects(selector, labels));
    if !matches {
        let template = at.field("template");
        let metadata = template.field("metadata");
        errors.invalid(
            metadata.field("labels"),
            labels.clone(),
            "`selector` does not match template `labels`",
        );
    }
}

/// Pods of these kinds are never over.
fn always_running(at: At<'_>, spec: &Value, called: &str, errors: &mut Errors) {
    let template = at.field("template");
    let place = template.field("spec");
    let pod = spec.path(&["template", "spec"]);
    if pod.str("restartPolicy") != "Always" {
        errors.unsupported(place.field("restartPolicy"), pod.str("restartPolicy"), &["Always"]);
    }
    if pod.opt("activeDeadlineSeconds").is_some() {
        let why = format!("activeDeadlineSeconds in {called} is not Supported");
        errors.forbidden(place.field("activeDeadlineSeconds"), why);
    }
}

/// Judges selector and template of Deployments and ReplicaSets.
fn replica_template(at: At<'_>, spec: &Value, errors: &mut Errors) {
    selector(at, spec, "deployment", errors);
    if !is_sound(spec.at("selector")) {
        let shown = shown_selector(spec.at("selector"));
        return errors.invalid_shown(at.field("selector"), shown, "invalid label selector");
    }
    let everything = spec.opt("selector").is_some_and(check::is_empty_selector);
    if !everything {
        mismatch(at, spec, errors);
    }
    pod::validate_template(at.field("template"), spec.at("template"), errors);
    always_running(at, spec, "ReplicaSet", errors);
}

fn same_selector(change: Change<'_>, errors: &mut Errors) {
    let path = ["spec", "selector"];
    if change.object.path(&path) != change.old.path(&path) {
        errors.invalid_shown("spec.selector", shown_selector(change.object.path(&path)), IMMUTABLE);
    }
}

/// Judges a number or a percentage.
pub(super) fn int_or_percent(at: At<'_>, value: &Value, errors: &mut Errors) {
    match value {
        Value::String(text) => errors.all(&at, text, check::percent(text)),
        value => errors.not_negative(at, value.as_i64().unwrap_or_default()),
    }
}

/// The number of a number or a percentage, and whether it is the latter.
fn amount(value: &Value) -> (i64, bool) {
    match value {
        Value::String(text) if check::percent(text).is_empty() => {
            (text.trim_end_matches('%').parse().unwrap_or_default(), true)
        }
        Value::String(text) => (text.parse().unwrap_or_default(), false),
        value => (value.as_i64().unwrap_or_default(), false),
    }
}

/// Complains about more than all.
pub(super) fn at_most_all(at: At<'_>, value: &Value, errors: &mut Errors) {
    if let (percent, true) = amount(value)
        && percent > 100
    {
        errors.invalid(at, value.clone(), "must not be greater than 100%");
    }
}

fn template_warnings(object: &Value, old: Option<&Value>, named: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    if old.is_none() && named {
        warnings.extend(name_warning(object));
    }
    if old.is_none_or(|old| object::generation(old) != object::generation(object)) {
        warnings.extend(pod::warnings_of("spec.template", object.path(&["spec", "template"])));
    }
    warnings
}

/// The warning about a name that pods can't be called after.
pub(super) fn name_warning(object: &Value) -> Option<String> {
    let complaints = names::label(object::name(object));
    (!complaints.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{}]",
            complaints.join(" ")
        )
    })
}

/// Judges counts of replicas in a status.
fn replica_counts(status: &Value, counts: &[&str], available: &str, errors: &mut Errors) {
    let at = At::root("status");
    let all = status.int("replicas");
    for field in counts {
        if status.int(field) > all {
            let why = "cannot be greater than status.replicas";
            errors.invalid(at.field(field), status.int(field), why);
        }
    }
    if status.int("availableReplicas") > status.int("readyReplicas") {
        let why = format!("cannot be greater than {available}");
        errors.invalid(at.field("availableReplicas"), status.int("availableReplicas"), why);
    }
}

fn collisions(change: Change<'_>, errors: &mut Errors) {
    let count = |object: &Value| object.at("status").opt_int("collisionCount");
    if let Some(then) = count(change.old) {
        let now = count(change.object).unwrap_or_default();
        if now < then {
            errors.invalid("status.collisionCount", now, "cannot be decremented");
        }
    }
}

pub(super) struct Deployment;

impl Rules for Deployment {
    fn default(&self, _: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        default_template(spec);
        default(spec, "replicas", 1);
        let strategy = made(spec, "strategy");
        default_zero(strategy, "type", "RollingUpdate");
        if strategy.get("type") == Some(&json!("RollingUpdate")) {
            let rolling = made(strategy, "rollingUpdate");
            default(rolling, "maxUnavailable", "25%");
            default(rolling, "maxSurge", "25%");
        }
        default(spec, "revisionHistoryLimit", 10);
        default(spec, "progressDeadlineSeconds", 600);
    }

    fn prepare_create(&self, _: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        drop_disabled(object);
        Ok(())
    }

    fn prepare_update(&self, hook: Hook<'_>, object: &mut Value, old: &Value) -> ApiResult<()> {
        if hook.subresource == Some("status") {
            carry_labels(object, old);
        } else {
            drop_disabled(object);
        }
        Ok(())
    }

    fn is_new_generation(&self, object: &Value, old: &Value) -> bool {
        object.at("spec") != old.at("spec")
            || object.path(&["metadata", "annotations"]) != old.path(&["metadata", "annotations"])
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let (at, spec) = (At::root("spec"), object.at("spec"));
        not_negative(at, spec, &["replicas"], errors);
        replica_template(at, spec, errors);
        deployment_strategy(at.field("strategy"), spec.at("strategy"), errors);
        let fields = ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"];
        not_negative(at, spec, &fields, errors);
        if let Some(seconds) = spec.opt_int("progressDeadlineSeconds")
            && seconds <= spec.int("minReadySeconds")
        {
            let why = "must be greater than minReadySeconds";
            errors.invalid(at.field("progressDeadlineSeconds"), seconds, why);
        }
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        if change.is_status() {
            let status = change.object.at("status");
            let fields = [
                "observedGeneration",
                "replicas",
                "updatedReplicas",
                "readyReplicas",
                "availableReplicas",
                "unavailableReplicas",
                "terminatingReplicas",
                "collisionCount",
            ];
            not_negative(At::root("status"), status, &fields, errors);
            let counts = ["updatedReplicas", "readyReplicas", "availableReplicas"];
            replica_counts(status, &counts, "readyReplicas", errors);
            return collisions(change, errors);
        }
        self.validate(change.object, errors);
        same_selector(change, errors);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        template_warnings(object, old, true)
    }
}

fn carry_labels(object: &mut Value, old: &Value) {
    let labels = old.path(&["metadata", "labels"]).clone();
    let metadata = object::metadata(object);
    match labels {
        Value::Null => metadata.remove("labels"),
        labels => metadata.insert("labels".into(), labels),
    };
}

fn deployment_strategy(at: At<'_>, strategy: &Value, errors: &mut Errors) {
    let rolling = strategy.opt("rollingUpdate");
    let place = at.field("rollingUpdate");
    match strategy.str("type") {
        "Recreate" => {
            if rolling.is_some() {
                errors.forbidden(place, "may not be specified when strategy `type` is 'Recreate'");
            }
        }
        "RollingUpdate" => {
            let Some(rolling) = rolling else {
                return errors.required(place, "this should be defaulted and never be nil");
            };
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            int_or_percent(place.field("maxUnavailable"), unavailable, errors);
            int_or_percent(place.field("maxSurge"), surge, errors);
            if amount(unavailable).0 == 0 && amount(surge).0 == 0 {
                let why = "may not be 0 when `maxSurge` is 0";
                errors.invalid(place.field("maxUnavailable"), unavailable.clone(), why);
            }
            at_most_all(place.field("maxUnavailable"), unavailable, errors);
        }
        kind => {
            let shown = format!(
                "{{\"Type\":{},\"RollingUpdate\":{}}}",
                json!(kind),
                rolling.map_or_else(
                    || "null".to_owned(),
                    |rolling| format!(
                        "{{\"MaxUnavailable\":{},\"MaxSurge\":{}}}",
                        number(rolling.at("maxUnavailable")),
                        number(rolling.at("maxSurge"))
                    )
                )
            );
            errors.unsupported_shown(at, &shown, &["Recreate", "RollingUpdate"]);
        }
    }
}

/// A number or percentage as JSON; 0 if absent.
fn number(value: &Value) -> String {
    if value.is_null() { "0".to_owned() } else { value.to_string() }
}

pub(super) struct ReplicaSet;

impl Rules for ReplicaSet {
    fn default(&self, _: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        default_template(spec);
        default(spec, "replicas", 1);
    }

    fn prepare_create(&self, _: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        drop_disabled(object);
        Ok(())
    }

    fn prepare_update(&self, hook: Hook<'_>, object: &mut Value, _: &Value) -> ApiResult<()> {
        if hook.subresource.is_none() {
            drop_disabled(object);
        }
        Ok(())
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let (at, spec) = (At::root("spec"), object.at("spec"));
        not_negative(at, spec, &["replicas", "minReadySeconds"], errors);
        replica_template(at, spec, errors);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        if change.is_status() {
            return replica_status(change.object.at("status"), errors);
        }
        self.validate(change.object, errors);
        same_selector(change, errors);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        template_warnings(object, old, true)
    }
}

fn replica_status(status: &Value, errors: &mut Errors) {
    let fields = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    not_negative(At::root("status"), status, &fields, errors);
    let counts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    replica_counts(status, &counts, "readyReplicas", errors);
}

pub(super) struct ReplicationController;

impl Rules for ReplicationController {
    fn default(&self, _: &str, object: &mut Value) {
        let labels = object.path(&["spec", "template", "metadata", "labels"]).clone();
        if labels.as_object().is_some_and(|labels| !labels.is_empty()) {
            let spec = object::child(object, "spec");
            if spec.get("selector").and_then(Value::as_object).is_none_or(Map::is_empty) {
                spec.insert("selector".into(), labels.clone());
            }
            let metadata = object::metadata(object);
            if metadata.get("labels").and_then(Value::as_object).is_none_or(Map::is_empty) {
                metadata.insert("labels".into(), labels);
            }
        }
        let spec = object::child(object, "spec");
        if let Some(template) = check::child(spec, "template") {
            pod::defaults::spec(made(template, "spec"));
        }
        default(spec, "replicas", 1);
        default(spec, "minReadySeconds", 0);
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let (at, spec) = (At::root("spec"), object.at("spec"));
        not_negative(at, spec, &["minReadySeconds"], errors);
        let chosen = spec.at("selector");
        let empty = chosen.as_object().is_none_or(Map::is_empty);
        if empty {
            errors.required(at.field("selector"), "");
        }
        match spec.opt_int("replicas") {
            None => errors.required(at.field("replicas"), ""),
            Some(count) => errors.not_negative(at.field("replicas"), count),
        }
        let Some(template) = spec.opt("template") else {
            return errors.required(at.field("template"), "");
        };
        let labels = template.path(&["metadata", "labels"]);
        if !empty && !check::selects(&json!({ "matchLabels": chosen }), labels) {
            let why = "`selector` does not match template `labels`";
            errors.invalid("spec.template.metadata.labels", labels.clone(), why);
        }
        pod::validate_template(at.field("template"), template, errors);
        always_running(at, spec, "ReplicationController", errors);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        if change.is_status() {
            return replica_status(change.object.at("status"), errors);
        }
        self.validate(change.object, errors);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        if object.at("spec").opt("template").is_none() {
            return Vec::new();
        }
        template_warnings(object, old, true)
    }
}

pub(super) struct PodTemplate;

impl Rules for PodTemplate {
    fn default(&self, _: &str, object: &mut Value) {
        pod::defaults::spec(made(object::child(object, "template"), "spec"));
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        pod::validate_template(At::root("template"), object.at("template"), errors);
    }

    fn is_new_generation(&self, object: &Value, old: &Value) -> bool {
        object.at("template") != old.at("template")
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some_and(|old| object::generation(old) == object::generation(object)) {
            return Vec::new();
        }
        pod::warnings_of("template", object.at("template"))
    }
}

pub(super) struct StatefulSet;

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
    let at = At::root("spec");
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
    selector(at, spec, "statefulset", errors);
    if is_sound(spec.at("selector")) {
        let everything = spec.opt("selector").is_some_and(check::is_empty_selector);
        if !everything {
            mismatch(at, spec, errors);
        }
        let template = with_claims(spec.at("template"), templates);
        let place = at.field("template");
        pod::validate_template(place, &template, errors);
        // Asked twice in the real server.
        let metadata = template.at("metadata");
        check::labels(place.field("labels"), metadata.pairs("labels"), errors);
        check::annotations(place.field("annotations"), metadata.at("annotations"), errors);
    } else {
        errors.invalid_shown(at.field("selector"), shown_selector(spec.at("selector")), "");
    }
    always_running(at, spec, "StatefulSet", errors);
}

/// The template as its pods will be: with the volumes that are claimed for each.
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

fn stateful_strategy(at: At<'_>, strategy: &Value, errors: &mut Errors) {
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
    not_negative(At::root("status"), status, &fields, errors);
    let counts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    replica_counts(status, &counts, "status.readyReplicas", errors);
    collisions(change, errors);
}

pub(super) struct DaemonSet;

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn template_generation(object: &Value) -> i64 {
    object.path(&["metadata", "annotations"]).str(TEMPLATE_GENERATION).parse().unwrap_or_default()
}

fn set_template_generation(object: &mut Value, number: i64) {
    let annotations = made(object::metadata(object), "annotations");
    annotations.insert(TEMPLATE_GENERATION.into(), number.to_string().into());
}

impl Rules for DaemonSet {
    fn default(&self, _: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        default_template(spec);
        let strategy = made(spec, "updateStrategy");
        default_zero(strategy, "type", "RollingUpdate");
        if strategy.get("type") == Some(&json!("RollingUpdate")) {
            let rolling = made(strategy, "rollingUpdate");
            default(rolling, "maxUnavailable", 1);
            default(rolling, "maxSurge", 0);
        }
        default(spec, "revisionHistoryLimit", 10);
        // Version 1 keeps in an annotation what was a field once.
        let number = template_generation(object);
        set_template_generation(object, number);
    }

    fn prepare_create(&self, _: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        drop_disabled(object);
        let number = template_generation(object).max(1);
        set_template_generation(object, number);
        Ok(())
    }

    fn prepare_update(&self, hook: Hook<'_>, object: &mut Value, old: &Value) -> ApiResult<()> {
        if hook.subresource == Some("status") {
            set_template_generation(object, template_generation(old));
            return Ok(());
        }
        drop_disabled(object);
        let changed = object.path(&["spec", "template"]) != old.path(&["spec", "template"]);
        set_template_generation(object, template_generation(old) + i64::from(changed));
        Ok(())
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let (at, spec) = (At::root("spec"), object.at("spec"));
        check::label_selector(at.field("selector"), spec.at("selector"), errors);
        if is_sound(spec.at("selector")) {
            mismatch(at, spec, errors);
        }
        if let Some(selector) = spec.opt("selector").filter(|selector| check::is_empty_selector(selector)) {
            let why = "empty selector is invalid for daemonset";
            errors.invalid_shown(at.field("selector"), shown_selector(selector), why);
        }
        pod::validate_template(at.field("template"), spec.at("template"), errors);
        always_running(at, spec, "DaemonSet", errors);
        not_negative(at, spec, &["minReadySeconds", "revisionHistoryLimit"], errors);
        errors.not_negative(at.field("templateGeneration"), template_generation(object));
        daemon_strategy(at.field("updateStrategy"), spec.at("updateStrategy"), errors);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        if change.is_status() {
            let fields = [
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
                "observedGeneration",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberUnavailable",
                "collisionCount",
            ];
            not_negative(At::root("status"), change.object.at("status"), &fields, errors);
            return collisions(change, errors);
        }
        same_selector(change, errors);
        self.validate(change.object, errors);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some_and(|old| template_generation(old) == template_generation(object)) {
            return Vec::new();
        }
        pod::warnings_of("spec.template", object.path(&["spec", "template"]))
    }
}

fn daemon_strategy(at: At<'_>, strategy: &Value, errors: &mut Errors) {
    match strategy.str("type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let at = at.field("rollingUpdate");
            let Some(rolling) = strategy.opt("rollingUpdate") else { return errors.required(at, "") };
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            int_or_percent(at.field("maxUnavailable"), unavailable, errors);
            int_or_percent(at.field("maxSurge"), surge, errors);
            at_most_all(at.field("maxUnavailable"), unavailable, errors);
            at_most_all(at.field("maxSurge"), surge, errors);
            match (amount(unavailable).0 != 0, amount(surge).0 != 0) {
                (true, true) => {
                    let why = "may not be set when maxUnavailable is non-zero";
                    errors.invalid(at.field("maxSurge"), surge.clone(), why);
                }
                (false, false) => {
                    errors.required(at.field("maxUnavailable"), "cannot be 0 when maxSurge is 0");
                }
                _ => {}
            }
        }
        kind => {
            let rolling = strategy.opt("rollingUpdate").map_or_else(
                || "null".to_owned(),
                |rolling| {
                    format!(
                        "{{\"MaxUnavailable\":{},\"MaxSurge\":{}}}",
                        number(rolling.at("maxUnavailable")),
                        number(rolling.at("maxSurge"))
                    )
                },
            );
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":{rolling}}}", json!(kind));
            errors.unsupported_shown(at, &shown, &["RollingUpdate", "OnDelete"]);
        }
    }
}

pub(super) struct ControllerRevision;

impl Rules for ControllerRevision {
    fn validate(&self, object: &Value, errors: &mut Errors) {
        errors.not_negative(At::root("revision"), object.int("revision"));
        match object.at("data") {
            Value::Null => errors.required("data", "data is mandatory"),
            Value::Object(_) => {}
            _ => errors.required("data", "data must be a valid JSON object"),
        }
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        change.whole_metadata(errors);
        errors.not_negative(At::root("revision"), change.object.int("revision"));
        change.immutable(&["data"], errors);
    }
}
