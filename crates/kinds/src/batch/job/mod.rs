//! Job.

mod status;
mod validation;

pub(super) use validation::validate_spec;

use jiff::Timestamp;
use serde_json::{Map, Value};
use steersman_api::{
    names, object,
    status::ApiResult,
    strategy::Hook,
    table::{Cell, duration},
};

use crate::{
    cells::{self, list, number},
    check::{self, Errors, FieldErrors, FieldPath, IMMUTABLE, Read, children, default, default_zero, made},
    core::pod,
    internal,
    kind::{Change, Column, Kind, Rules, Selectable},
    workload::{default_template, drop_disabled, is_sound, name_warning, shown_selector},
};

pub(super) const KIND: Kind = Kind {
    rules: &Job,
    has_generation: true,
    has_status: true,
    selectable: &[Selectable::new("status.successful", &["status", "succeeded"]).or("0")],
    columns: &[
        Column::NAME,
        Column::string("Status"),
        Column::string("Completions"),
        Column::string("Duration"),
        Column::AGE,
        Column::string("Containers").wide(),
        Column::string("Images").wide(),
        Column::string("Selector").wide(),
    ],
    cell,
    ..Kind::new("batch", "jobs")
};

struct Job;

const NAMES: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];

const UIDS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

impl Rules for Job {
    fn default(&self, _: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        default_job_spec(spec);
        let set = |spec: &Map<String, Value>, key: &str| spec.get(key).is_some_and(|v| !v.is_null());
        if !set(spec, "completions") && !set(spec, "parallelism") {
            default(spec, "completions", 1);
        }
        default(spec, "parallelism", 1);
        let limit = if set(spec, "backoffLimitPerIndex") { i32::MAX } else { 6 };
        default(spec, "backoffLimit", limit);
        default(spec, "completionMode", "NonIndexed");
        default(spec, "suspend", false);
        let policy = if set(spec, "podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
        default(spec, "podReplacementPolicy", policy);
        default(spec, "manualSelector", false);
        pass_labels_on(object);
    }

    fn prepare_create(&self, _: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        if !object.at("spec").flag("manualSelector") {
            let (uid, name) = (object::uid(object).to_owned(), object::name(object).to_owned());
            let spec = object::child(object, "spec");
            let labels = made(made(made(spec, "template"), "metadata"), "labels");
            for (keys, value) in [(NAMES, &name), (UIDS, &uid)] {
                for key in keys {
                    labels.entry(key).or_insert_with(|| value.as_str().into());
                }
            }
            let wanted = made(made(spec, "selector"), "matchLabels");
            wanted.entry(UIDS[1]).or_insert_with(|| uid.into());
        }
        drop_disabled(object);
        // kube-apiserver applies this default on read, after the template's labels were generated.
        pass_labels_on(object);
        Ok(())
    }

    fn prepare_update(&self, hook: Hook<'_>, object: &mut Value, _: &Value) -> ApiResult<()> {
        if hook.subresource.is_none() {
            drop_disabled(object);
        }
        Ok(())
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        generated_selector(object, errors);
        validation::whole_spec(object.at("spec"), errors);
        let spec = object.at("spec");
        if spec.str("completionMode") == "Indexed" && spec.int("completions") > 0 {
            let host = format!("{}-{}", object::name(object), spec.int("completions") - 1);
            if !names::label(&host).is_empty() {
                let why = format!("will not able to create pod with invalid DNS label: {host}");
                errors.invalid("metadata.name", object::name(object), why);
            }
        }
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        if change.is_status() {
            return status::validate(change.object, change.old, errors);
        }
        change.whole_metadata(errors);
        self.validate(change.object, errors);
        // Validated twice in kube-apiserver, so errors are reported twice.
        validation::whole_spec(change.object.at("spec"), errors);
        validate_change(change, errors);
    }

    fn stores_first_update(&self, object: &Value) -> bool {
        object.path(&["metadata", "labels"]) == object.path(&["spec", "template", "metadata", "labels"])
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() {
            warnings.extend(name_warning(object));
        }
        if old.is_none_or(|old| object::generation(old) != object::generation(object)) {
            warnings.extend(spec_warnings("spec", object.at("spec")));
        }
        warnings
    }
}

pub(crate) fn spec_warnings(at: &str, spec: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if spec.str("completionMode") == "Indexed"
        && spec.int("completions") > 100_000
        && spec.int("parallelism") > 10_000
    {
        warnings.push(format!("{at}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"));
    }
    warnings.extend(pod::warnings_of(&format!("{at}.template"), spec.at("template")));
    warnings
}

/// Sets the defaults common to Jobs and the job templates of CronJobs.
pub(crate) fn default_job_spec(spec: &mut Map<String, Value>) {
    default_template(spec);
    if let Some(policy) = check::child(spec, "podFailurePolicy") {
        for rule in children(policy, "rules") {
            for pattern in children(rule, "onPodConditions") {
                default_zero(pattern, "status", "True");
            }
        }
    }
}

/// Copies the template's labels to a job without labels.
fn pass_labels_on(object: &mut Value) {
    let labels = object.path(&["spec", "template", "metadata", "labels"]).clone();
    let metadata = object::metadata(object);
    let own = metadata.get("labels").and_then(Value::as_object);
    if own.is_none_or(Map::is_empty) && labels.as_object().is_some_and(|labels| !labels.is_empty()) {
        metadata.insert("labels".into(), labels);
    }
}

fn generated_selector(object: &Value, errors: &mut Errors) {
    let spec = object.at("spec");
    let Some(selector) = spec.opt("selector").filter(|_| !spec.flag("manualSelector")) else { return };
    let (uid, name) = (object::uid(object), object::name(object));
    let labels = spec.path(&["template", "metadata", "labels"]);
    for (keys, value) in [(UIDS, uid), (NAMES, name)] {
        for key in keys {
            let place = format!("spec.template.metadata.labels[{key}]");
            match labels.opt_str(key) {
                None => errors.required(place, format!("must be '{value}'")),
                Some(given) if given != value => {
                    errors.invalid(place, labels.clone(), format!("must be '{value}'"));
                }
                Some(_) => {}
            }
        }
    }
    let expected: Map<String, Value> = [(UIDS, uid), (NAMES, name)]
        .into_iter()
        .flat_map(|(keys, value)| keys.map(|key| (key.to_owned(), Value::from(value))))
        .collect();
    if is_sound(selector) && !check::selects(selector, &Value::Object(expected)) {
        let shown = shown_selector(selector);
        errors.invalid_shown("spec.selector", shown, "`selector` not auto-generated");
    }
}

fn validate_change(change: Change<'_>, errors: &mut Errors) {
    let (new, old) = (change.object.at("spec"), change.old.at("spec"));
    let at = FieldPath::root("spec");
    if new.at("completions") != old.at("completions") {
        if new.str("completionMode") != "Indexed" {
            errors.invalid(at.field("completions"), new.shown("completions"), IMMUTABLE);
        } else if let Some(completions) = new.opt_int("completions")
            && completions != new.int("parallelism")
        {
            let why = "can only be modified in tandem with spec.parallelism";
            errors.invalid(at.field("completions"), completions, why);
        }
    }
    template_change(change, errors);
    if new.at("selector") != old.at("selector") {
        errors.invalid_shown(at.field("selector"), shown_selector(new.at("selector")), IMMUTABLE);
    }
    for field in ["completionMode", "backoffLimitPerIndex", "managedBy"] {
        if new.at(field) != old.at(field) {
            errors.invalid(at.field(field), new.shown(field), IMMUTABLE);
        }
    }
    for (field, kind) in
        [("podFailurePolicy", "*batch.PodFailurePolicy"), ("successPolicy", "*batch.SuccessPolicy")]
    {
        if new.at(field) != old.at(field) {
            errors.invalid_shown(at.field(field), internal::show(kind, new.at(field)), IMMUTABLE);
        }
    }
}

/// Validates changes of the template. In a suspended job, scheduling directives and resources are mutable.
fn template_change(change: Change<'_>, errors: &mut Errors) {
    let (new, old) = (change.object.path(&["spec", "template"]), change.old.path(&["spec", "template"]));
    let status = change.old.at("status");
    let suspended = change.old.at("spec").flag("suspend");
    let paused = status::is_true(status, "Suspended");
    let free = suspended && (status.opt("startTime").is_none() || paused) && status.int("active") == 0;
    let mut expected = old.clone();
    if free {
        let metadata = object::child(&mut expected, "metadata");
        for field in ["annotations", "labels"] {
            match new.at("metadata").opt(field) {
                Some(value) => metadata.insert(field.into(), value.clone()),
                None => metadata.remove(field),
            };
        }
        let spec = object::child(&mut expected, "spec");
        for field in ["nodeSelector", "tolerations", "schedulingGates"] {
            match new.at("spec").opt(field) {
                Some(value) => spec.insert(field.into(), value.clone()),
                None => spec.remove(field),
            };
        }
        let affinity = made(spec, "affinity");
        match new.path(&["spec", "affinity"]).opt("nodeAffinity") {
            Some(value) => affinity.insert("nodeAffinity".into(), value.clone()),
            None => affinity.remove("nodeAffinity"),
        };
        if affinity.is_empty() && new.at("spec").opt("affinity").is_none() {
            spec.remove("affinity");
        }
        for list in ["containers", "initContainers"] {
            let news = new.at("spec").list(list);
            let olds = spec.get_mut(list).and_then(Value::as_array_mut);
            for (old, new) in olds.into_iter().flatten().zip(news) {
                if old.str("name") == new.str("name") {
                    object::carry(new, old, "resources");
                }
            }
        }
        if expected.at("spec") != new.at("spec") {
            let shown = change.show("spec.template.spec", "core.PodSpec", new.at("spec"));
            errors.invalid_shown("spec.template.spec", shown, IMMUTABLE);
        }
        return;
    }
    if expected != *new {
        errors.invalid_shown(
            "spec.template",
            change.show("spec.template", "core.PodTemplateSpec", new),
            IMMUTABLE,
        );
    }
}

fn cell(column: &str, object: &Value, now: Timestamp) -> Option<Cell> {
    let succeeded = || number(object, &["status", "succeeded"]);
    Some(match column {
        "Status" => status_word(object).into(),
        "Completions" => match object::get(object, &["spec", "completions"]).and_then(Value::as_i64) {
            Some(wanted) => format!("{}/{wanted}", succeeded()).into(),
            None => match number(object, &["spec", "parallelism"]) {
                n if n > 1 => format!("{}/1 of {n}", succeeded()).into(),
                _ => format!("{}/1", succeeded()).into(),
            },
        },
        "Duration" => {
            let at = |field: &str| {
                object::text(object, &["status", field]).and_then(|t| t.parse::<Timestamp>().ok())
            };
            match (at("startTime"), at("completionTime")) {
                (None, _) => "".into(),
                (Some(start), end) => duration(end.unwrap_or(now).as_second() - start.as_second()).into(),
            }
        }
        _ => return cells::workload(column, &object["spec"]),
    })
}

fn status_word(job: &Value) -> &'static str {
    let holds = |kind: &str| {
        list(job, &["status", "conditions"]).iter().any(|c| c["type"] == kind && c["status"] == "True")
    };
    match () {
        () if holds("Complete") => "Complete",
        () if holds("Failed") => "Failed",
        () if object::is_deleting(job) => "Terminating",
        () if holds("Suspended") => "Suspended",
        () if holds("FailureTarget") => "FailureTarget",
        () if holds("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}
