//! Jobs and CronJobs.

use serde_json::{Map, Value};

use super::{
    Change, Rules,
    apps::{self, default_template, drop_disabled, name_warning, not_negative},
    check::{self, At, Complain, Errors, IMMUTABLE, Read, children, default, default_zero, made},
    internal, job_status, pod, schedule,
};
use crate::{fields::FieldError, names, object, status::ApiResult, status::quote, strategy::Hook};

pub(super) struct Job;

const NAMES: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const UIDS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

impl Rules for Job {
    fn default(&self, _: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        default_spec_of_job(spec);
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
        // Defaults are filled in again when an object is read.
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
        whole_spec(object.at("spec"), errors);
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
            return job_status::validate(change.object, change.old, errors);
        }
        change.whole_metadata(errors);
        self.validate(change.object, errors);
        // Asked twice in the real server.
        whole_spec(change.object.at("spec"), errors);
        validate_change(change, errors);
    }

    fn settles_late(&self, object: &Value) -> bool {
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

fn spec_warnings(at: &str, spec: &Value) -> Vec<String> {
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

/// Defaults that jobs have on their own and inside of CronJobs.
fn default_spec_of_job(spec: &mut Map<String, Value>) {
    default_template(spec);
    if let Some(policy) = check::child(spec, "podFailurePolicy") {
        for rule in children(policy, "rules") {
            for pattern in children(rule, "onPodConditions") {
                default_zero(pattern, "status", "True");
            }
        }
    }
}

/// A job without labels has those of its template.
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
    if apps::is_sound(selector) && !check::selects(selector, &Value::Object(expected)) {
        let shown = apps::shown_selector(selector);
        errors.invalid_shown("spec.selector", shown, "`selector` not auto-generated");
    }
}

/// Judges a job's spec, selector included.
fn whole_spec(spec: &Value, errors: &mut Errors) {
    let at = At::root("spec");
    validate_spec(at, spec, errors);
    match spec.opt("selector") {
        None => errors.required(at.field("selector"), ""),
        Some(selector) => check::label_selector(at.field("selector"), selector, errors),
    }
    if apps::is_sound(spec.at("selector")) {
        apps::mismatch(at, spec, errors);
    }
}

fn validate_spec(at: At<'_>, spec: &Value, errors: &mut Errors) {
    let fields = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    not_negative(at, spec, &fields, errors);
    let (per_index, failed) = (spec.opt_int("backoffLimitPerIndex"), spec.opt_int("maxFailedIndexes"));
    if failed.is_some() && per_index.is_none() {
        errors.required(at.field("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    if let Some(manager) = spec.opt_str("managedBy") {
        check::domain_path(at.field("managedBy"), manager, errors);
        if manager.len() > 63 {
            errors.push(FieldError::too_long(at.field("managedBy"), 63));
        }
    }
    let mode = spec.opt_str("completionMode");
    if let Some(mode) = mode.filter(|mode| !matches!(*mode, "NonIndexed" | "Indexed")) {
        errors.unsupported(at.field("completionMode"), mode, &["NonIndexed", "Indexed"]);
    }
    match mode {
        Some("Indexed") => indexed(at, spec, errors),
        None | Some("NonIndexed") => {
            for (field, value) in [("backoffLimitPerIndex", per_index), ("maxFailedIndexes", failed)] {
                if let Some(value) = value {
                    errors.invalid(at.field(field), value, "requires indexed completion mode");
                }
            }
        }
        Some(_) => {}
    }
    if let Some(policy) = spec.opt("podFailurePolicy") {
        failure_policy(at.field("podFailurePolicy"), policy, spec, errors);
    }
    if let Some(policy) = spec.opt("successPolicy") {
        if mode == Some("Indexed") {
            success_policy(at.field("successPolicy"), policy, spec, errors);
        } else {
            let shown = internal::show("batch.SuccessPolicy", policy);
            errors.invalid_shown(at.field("successPolicy"), shown, "requires indexed completion mode");
        }
    }
    if let Some(policy) = spec.opt_str("podReplacementPolicy") {
        let words: &[&str] = if spec.opt("podFailurePolicy").is_some() {
            &["Failed"]
        } else {
            &["Failed", "TerminatingOrFailed"]
        };
        if !words.contains(&policy) {
            errors.unsupported(at.field("podReplacementPolicy"), policy, words);
        }
    }
    let template = at.field("template");
    pod::validate_template(template, spec.at("template"), errors);
    let inner = template.field("spec");
    let place = inner.field("restartPolicy");
    match spec.path(&["template", "spec"]).str("restartPolicy") {
        "Always" | "" => errors.required(place, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec.opt("podFailurePolicy").is_some() => {
            let why = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.invalid(place, "OnFailure", why);
        }
        "OnFailure" | "Never" => {}
        other => errors.unsupported(place, other, &["OnFailure", "Never"]),
    }
}

fn indexed(at: At<'_>, spec: &Value, errors: &mut Errors) {
    let (completions, failed) = (spec.opt_int("completions"), spec.opt_int("maxFailedIndexes"));
    let parallelism = spec.opt_int("parallelism");
    if completions.is_none() {
        errors.required(at.field("completions"), "when completion mode is Indexed");
    }
    if let Some(number) = parallelism.filter(|number| *number > 100_000) {
        let why = "must be less than or equal to 100000 when completion mode is Indexed";
        errors.invalid(at.field("parallelism"), number, why);
    }
    let place = at.field("maxFailedIndexes");
    if let (Some(completions), Some(failed)) = (completions, failed)
        && failed > completions
    {
        errors.invalid(place, failed, "must be less than or equal to completions");
    }
    if let Some(failed) = failed.filter(|failed| *failed > 100_000) {
        errors.invalid(place, failed, "must be less than or equal to 100000");
    }
    if completions.is_some_and(|completions| completions > 100_000)
        && spec.opt("backoffLimitPerIndex").is_some()
    {
        let why = "must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index";
        if failed.is_none() {
            errors.required(place, "must be specified when completions is above 100000");
        }
        if let Some(number) = parallelism.filter(|number| *number > 10_000) {
            errors.invalid(at.field("parallelism"), number, why);
        }
        if let Some(failed) = failed.filter(|failed| *failed > 10_000) {
            errors.invalid(place, failed, why);
        }
    }
}

/// A list of words as Go's `%q` shows it.
fn quoted(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| quote(word)).collect();
    format!("valid values: [{}]", words.join(" "))
}

/// The text must be one of those; what is missing is told them.
fn among(at: At<'_>, word: &str, words: &[&str], errors: &mut Errors) {
    if word.is_empty() {
        errors.required(at, quoted(words));
    } else if !words.contains(&word) {
        errors.unsupported(at, word, words);
    }
}

fn failure_policy(at: At<'_>, policy: &Value, spec: &Value, errors: &mut Errors) {
    let list = at.field("rules");
    let rules = policy.list("rules");
    if rules.len() > 20 {
        errors.push(FieldError::too_many(list, rules.len(), 20));
    }
    for (index, rule) in rules.iter().enumerate() {
        let at = list.index(index);
        let action = rule.str("action");
        if action == "FailIndex" {
            if spec.opt("backoffLimitPerIndex").is_none() {
                let why = "requires the backoffLimitPerIndex to be set";
                errors.invalid(at.field("action"), action, why);
            }
        } else {
            among(at.field("action"), action, &["Count", "FailIndex", "FailJob", "Ignore"], errors);
        }
        let (codes, conditions) = (rule.opt("onExitCodes"), rule.list("onPodConditions"));
        if let Some(codes) = codes {
            exit_codes(at.field("onExitCodes"), codes, spec, errors);
        }
        let place = at.field("onPodConditions");
        if conditions.len() > 20 {
            errors.push(FieldError::too_many(place, conditions.len(), 20));
        }
        for (index, pattern) in conditions.iter().enumerate() {
            let at = place.index(index);
            let kind = pattern.str("type");
            errors.all(&at.field("type"), kind, names::qualified(kind));
            among(at.field("status"), pattern.str("status"), &["False", "True", "Unknown"], errors);
        }
        match (codes.is_some(), conditions.is_empty()) {
            (true, false) => {
                let why = "specifying both OnExitCodes and OnPodConditions is not supported";
                errors.push(FieldError::invalid_omitted(at, why));
            }
            (false, true) => {
                let why = "specifying one of OnExitCodes and OnPodConditions is required";
                errors.push(FieldError::invalid_omitted(at, why));
            }
            _ => {}
        }
    }
}

fn exit_codes(at: At<'_>, codes: &Value, spec: &Value, errors: &mut Errors) {
    among(at.field("operator"), codes.str("operator"), &["In", "NotIn"], errors);
    if let Some(name) = codes.opt_str("containerName") {
        let pod = spec.path(&["template", "spec"]);
        let known = ["containers", "initContainers"]
            .iter()
            .flat_map(|list| pod.list(list))
            .any(|container| container.str("name") == name);
        if !known {
            let why = "must be one of the container or initContainer names in the pod template";
            errors.invalid(at.field("containerName"), name, why);
        }
    }
    let list = at.field("values");
    let values: Vec<i64> = codes.list("values").iter().filter_map(Value::as_i64).collect();
    if values.is_empty() {
        errors.invalid(list, codes.shown("values"), "at least one value is required");
    } else if values.len() > 255 {
        errors.push(FieldError::too_many(list, values.len(), 255));
    }
    let mut seen = Vec::new();
    for (index, value) in values.iter().enumerate() {
        if codes.str("operator") == "In" && *value == 0 {
            errors.invalid(list.index(index), *value, "must not be 0 for the In operator");
        }
        if seen.contains(value) {
            errors.duplicate(list.index(index), *value);
        }
        seen.push(*value);
    }
    if !values.is_sorted() {
        errors.invalid(list, codes.shown("values"), "must be ordered");
    }
}

fn success_policy(at: At<'_>, policy: &Value, spec: &Value, errors: &mut Errors) {
    let list = at.field("rules");
    let rules = policy.list("rules");
    if rules.is_empty() {
        let why = "at least one rules must be specified when the successPolicy is specified";
        errors.required(list, why);
    }
    if rules.len() > 20 {
        errors.push(FieldError::too_many(list, rules.len(), 20));
    }
    let completions = spec.int("completions");
    for (index, rule) in rules.iter().enumerate() {
        let at = list.index(index);
        let (count, indexes) = (rule.opt_int("succeededCount"), rule.opt_str("succeededIndexes"));
        if count.is_none() && indexes.is_none() {
            errors.required(at, "at least one of succeededCount or succeededIndexes must be specified");
        }
        let mut total = 0;
        if let Some(text) = indexes {
            let place = at.field("succeededIndexes");
            if text.len() > 64 * 1024 {
                errors.push(FieldError::too_long(place, 64 * 1024));
            }
            match job_status::count_indexes(text, completions) {
                Ok(count) => total = count,
                Err(why) => errors.invalid(place, text, format!("error parsing succeededIndexes: {why}")),
            }
        }
        if let Some(count) = count {
            let place = at.field("succeededCount");
            errors.not_negative(place, count);
            if count > completions {
                let why = format!(
                    "must be less than or equal to {completions} (the number of specified completions)"
                );
                errors.invalid(place, count, why);
            }
            if indexes.is_some() && count > total {
                let why = format!(
                    "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
                );
                errors.invalid(place, count, why);
            }
        }
    }
}

fn validate_change(change: Change<'_>, errors: &mut Errors) {
    let (new, old) = (change.object.at("spec"), change.old.at("spec"));
    let at = At::root("spec");
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
        errors.invalid_shown(at.field("selector"), apps::shown_selector(new.at("selector")), IMMUTABLE);
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

/// While a job waits, it may be told where to run and with how much.
fn template_change(change: Change<'_>, errors: &mut Errors) {
    let (new, old) = (change.object.path(&["spec", "template"]), change.old.path(&["spec", "template"]));
    let status = change.old.at("status");
    let suspended = change.old.at("spec").flag("suspend");
    let paused = job_status::is_true(status, "Suspended");
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

pub(super) struct CronJob;

impl Rules for CronJob {
    fn default(&self, _: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        default_zero(spec, "concurrencyPolicy", "Allow");
        default(spec, "suspend", false);
        default(spec, "successfulJobsHistoryLimit", 3);
        default(spec, "failedJobsHistoryLimit", 1);
        default_spec_of_job(made(made(spec, "jobTemplate"), "spec"));
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        validate_cron(object.at("spec"), None, errors);
        if object::name(object).len() > 52 {
            let why = "must be no more than 52 characters";
            errors.invalid("metadata.name", object::name(object), why);
        }
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        if !change.is_status() {
            validate_cron(change.object.at("spec"), Some(change.old.at("spec")), errors);
        }
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() {
            warnings.extend(name_warning(object));
        }
        if old.is_none_or(|old| object::generation(old) != object::generation(object)) {
            let spec = object.path(&["spec", "jobTemplate", "spec"]);
            warnings.extend(spec_warnings("spec.jobTemplate.spec", spec));
            if object.at("spec").str("schedule").contains("TZ") && old.is_some() {
                warnings.push("spec.schedule: CRON_TZ or TZ used in spec.schedule is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details".to_owned());
            }
        }
        warnings
    }
}

fn validate_cron(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    let at = At::root("spec");
    let plan = spec.str("schedule");
    if plan.is_empty() {
        errors.required(at.field("schedule"), "");
    } else {
        let place = at.field("schedule");
        if let Err(why) = schedule::check(plan) {
            errors.invalid(place, plan, why);
        }
        let allowed = old.is_some_and(|old| old.str("schedule").contains("TZ"));
        if plan.contains("TZ") {
            if !allowed {
                let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
                errors.invalid(place, plan, why);
            } else if spec.opt("timeZone").is_some() {
                let why = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
                errors.invalid(place, plan, why);
            }
        }
    }
    not_negative(at, spec, &["startingDeadlineSeconds"], errors);
    if old.is_none_or(|old| old.at("timeZone") != spec.at("timeZone"))
        && let Some(zone) = spec.opt_str("timeZone")
    {
        time_zone(at.field("timeZone"), zone, errors);
    }
    let policies = ["Allow", "Forbid", "Replace"];
    errors.one_of(at.field("concurrencyPolicy"), spec.str("concurrencyPolicy"), &policies);
    let job = spec.path(&["jobTemplate", "spec"]);
    let template = at.field("jobTemplate");
    let place = template.field("spec");
    validate_spec(place, job, errors);
    if let Some(selector) = job.opt("selector") {
        let shown = apps::shown_selector(selector);
        errors.invalid_shown(place.field("selector"), shown, "`selector` will be auto-generated");
    }
    if job.flag("manualSelector") {
        errors.unsupported(place.field("manualSelector"), true, &["nil", "false"]);
    }
    not_negative(at, spec, &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"], errors);
}

fn time_zone(at: At<'_>, zone: &str, errors: &mut Errors) {
    if zone.is_empty() {
        return errors.invalid(at, zone, "timeZone must be nil or non-empty string");
    }
    let odd = |part: &str| {
        matches!(part, "." | "..")
            || part.starts_with('-')
            || !(1..=14).contains(&part.len())
            || !part.bytes().all(|c| c.is_ascii_alphanumeric() || b".-_+".contains(&c))
    };
    if zone.split('/').any(odd) {
        return errors.invalid(at, zone, format!("unknown time zone {zone}"));
    }
    if zone.eq_ignore_ascii_case("Local") {
        let why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.invalid(at, zone, why);
    }
    if !matches!(zone, "UTC" | "Local") && !schedule::is_zone(zone) {
        errors.invalid(at, zone, format!("unknown time zone {zone}"));
    }
}
