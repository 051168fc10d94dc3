//! CronJob.

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::{
    object,
    table::{Cell, age},
};

use steersman_formats::cron::{Schedule, is_time_zone};

use crate::{
    batch::job,
    cells::{self, list, text, text_or_none},
    check::{Errors, FieldErrors, FieldPath, Read, default, default_zero, made},
    kind::{Change, Column, Kind, Rules},
    workload::{name_warning, not_negative, shown_selector},
};

pub(super) const KIND: Kind = Kind {
    rules: &CronJob,
    has_generation: true,
    has_status: true,
    columns: &[
        Column::NAME,
        Column::string("Schedule"),
        Column::string("Timezone"),
        Column::boolean("Suspend"),
        Column::integer("Active"),
        Column::string("Last Schedule"),
        Column::AGE,
        Column::string("Containers").wide(),
        Column::string("Images").wide(),
        Column::string("Selector").wide(),
    ],
    cell,
    ..Kind::new("batch", "cronjobs")
};

struct CronJob;

impl Rules for CronJob {
    fn default(&self, _: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        default_zero(spec, "concurrencyPolicy", "Allow");
        default(spec, "suspend", false);
        default(spec, "successfulJobsHistoryLimit", 3);
        default(spec, "failedJobsHistoryLimit", 1);
        job::default_job_spec(made(made(spec, "jobTemplate"), "spec"));
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
            warnings.extend(job::spec_warnings("spec.jobTemplate.spec", spec));
            if object.at("spec").str("schedule").contains("TZ") && old.is_some() {
                warnings.push("spec.schedule: CRON_TZ or TZ used in spec.schedule is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details".to_owned());
            }
        }
        warnings
    }
}

fn validate_cron(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    let at = FieldPath::root("spec");
    let plan = spec.str("schedule");
    if plan.is_empty() {
        errors.required(at.field("schedule"), "");
    } else {
        let place = at.field("schedule");
        if let Err(why) = Schedule::parse(plan) {
            errors.invalid(place, plan, why.to_string());
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
    job::validate_spec(place, job, errors);
    if let Some(selector) = job.opt("selector") {
        let shown = shown_selector(selector);
        errors.invalid_shown(place.field("selector"), shown, "`selector` will be auto-generated");
    }
    if job.flag("manualSelector") {
        errors.unsupported(place.field("manualSelector"), true, &["nil", "false"]);
    }
    not_negative(at, spec, &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"], errors);
}

fn time_zone(at: FieldPath<'_>, zone: &str, errors: &mut Errors) {
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
    if !matches!(zone, "UTC" | "Local") && !is_time_zone(zone) {
        errors.invalid(at, zone, format!("unknown time zone {zone}"));
    }
}

fn cell(column: &str, object: &Value, now: Timestamp) -> Option<Cell> {
    Some(match column {
        "Schedule" => text(object, &["spec", "schedule"]),
        "Timezone" => text_or_none(object, &["spec", "timeZone"]),
        "Suspend" => match object["spec"]["suspend"].as_bool() {
            Some(true) => "True".into(),
            _ => "False".into(),
        },
        "Active" => list(object, &["status", "active"]).len().into(),
        "Last Schedule" => match object::text(object, &["status", "lastScheduleTime"]) {
            Some(at) => age(now, at).into(),
            None => "<none>".into(),
        },
        _ => return cells::workload(column, &object["spec"]["jobTemplate"]["spec"]),
    })
}
