//! Validation of the status of Jobs.

use serde_json::Value;
use steersman_api::{fields::FieldError, status::quote};

use crate::{
    check::{Errors, FieldErrors, FieldPath, IMMUTABLE, Read},
    workload::not_negative,
};

/// Whether a condition is true.
pub(crate) fn is_true(status: &Value, kind: &str) -> bool {
    status.list("conditions").iter().any(|c| c.str("type") == kind && c.str("status") == "True")
}

fn is_finished(status: &Value) -> bool {
    is_true(status, "Complete") || is_true(status, "Failed")
}

pub(crate) fn validate(job: &Value, old: &Value, errors: &mut Errors) {
    let at = FieldPath::root("status");
    let (new, then) = (job.at("status"), old.at("status"));
    let spec = job.at("spec");
    not_negative(at, new, &["active", "succeeded", "failed", "ready", "terminating"], errors);
    let conditions = at.field("conditions");
    let mut refuse = |why: &str| errors.push(FieldError::invalid_omitted(conditions, why));
    let changed = |kind: &str| is_true(new, kind) != is_true(then, kind);
    let differs = |field: &str| new.at(field) != then.at(field);
    let (complete, failed) = (is_true(new, "Complete"), is_true(new, "Failed"));
    let (target, met) = (is_true(new, "FailureTarget"), is_true(new, "SuccessCriteriaMet"));
    if (changed("Complete") || changed("Failed")) && complete && failed {
        refuse("cannot set Complete=True and Failed=true conditions");
    }
    if (changed("Complete") || changed("FailureTarget")) && complete && target {
        refuse("cannot set Complete=True and FailureTarget=true conditions");
    }
    if (changed("Failed") || differs("failedIndexes")) && failed && !target {
        refuse("cannot set Failed=True condition without the FailureTarget=true condition");
    }
    if (changed("Complete") || changed("SuccessCriteriaMet")) && complete && !met {
        refuse("cannot set Complete=True condition without the SuccessCriteriaMet=true condition");
    }
    if met && failed {
        refuse("cannot set SuccessCriteriaMet=True and Failed=true conditions");
    }
    if met && target {
        refuse("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions");
    }
    if spec.opt("successPolicy").is_some() && !met && complete {
        refuse("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True");
    }
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if is_true(then, kind) && !is_true(new, kind) {
            refuse(&format!("cannot disable the terminal {kind}=True condition"));
        }
    }
    if is_true(then, "SuccessCriteriaMet") && !met {
        refuse("cannot disable the SuccessCriteriaMet=True condition");
    }
    if is_true(then, "Complete") && !is_true(then, "SuccessCriteriaMet") && met {
        refuse("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions");
    }
    times(at, job, old, errors);
    counts(at, job, old, errors);
}

fn times(at: FieldPath<'_>, job: &Value, old: &Value, errors: &mut Errors) {
    let (new, then) = (job.at("status"), old.at("status"));
    let complete = is_true(new, "Complete");
    let complete_changed = complete != is_true(then, "Complete");
    let finished_changed = is_finished(new) != is_finished(then);
    let (start, end) = (new.opt_str("startTime"), new.opt_str("completionTime"));
    let start_changed = new.at("startTime") != then.at("startTime");
    let end_changed = new.at("completionTime") != then.at("completionTime");
    if complete_changed || end_changed {
        match end {
            Some(end) if !complete => {
                let why = "cannot set completionTime when there is no Complete=True condition";
                errors.invalid(at.field("completionTime"), end, why);
            }
            None if complete => {
                errors.required(at.field("completionTime"), "completionTime is required for Complete jobs");
            }
            _ => {}
        }
    }
    if let (Some(start), Some(end)) = (start, end)
        && (start_changed || end_changed)
        && end < start
    {
        errors.invalid(at.field("completionTime"), end, "must be equal to or after `startTime`");
    }
    let spec = job.at("spec");
    let idle = spec.flag("suspend") && spec.opt_int("completions") == Some(0);
    if (finished_changed || start_changed) && !idle && start.is_none() && is_finished(new) {
        errors.required(at.field("startTime"), "startTime is required for finished job");
    }
    if let (Some(end), Some(_)) = (end, then.opt_str("completionTime"))
        && end_changed
    {
        errors.invalid(at.field("completionTime"), end, IMMUTABLE);
    }
    let resumed = is_true(then, "Suspended")
        && new.list("conditions").iter().any(|c| c.str("type") == "Suspended" && c.str("status") == "False");
    if start_changed && !resumed && then.opt("startTime").is_some() && !spec.flag("suspend") {
        let why = "field is immutable for unsuspended job once set";
        errors.invalid(at.field("startTime"), new.shown("startTime"), why);
    }
}

fn counts(at: FieldPath<'_>, job: &Value, old: &Value, errors: &mut Errors) {
    let (new, then) = (job.at("status"), old.at("status"));
    let spec = job.at("spec");
    let differs = |field: &str| new.at(field) != then.at(field);
    let finished = is_finished(new);
    let finished_changed = finished != is_finished(then);
    if (finished_changed || differs("active")) && new.int("active") > 0 && finished {
        errors.invalid(at.field("active"), new.int("active"), "active>0 is invalid for finished job");
    }
    if (finished_changed || differs("terminating")) && new.int("terminating") > 0 && finished {
        let why = "terminating>0 is invalid for finished job";
        errors.invalid(at.field("terminating"), new.int("terminating"), why);
    }
    if (differs("ready") || differs("active")) && new.int("ready") > new.int("active") {
        errors.invalid(at.field("ready"), new.int("ready"), "cannot set more ready pods than active");
    }
    if new.int("failed") < then.int("failed") {
        errors.invalid(at.field("failed"), new.int("failed"), "cannot decrease the failed counter");
    }
    let indexed = spec.str("completionMode") == "Indexed";
    let fixed = !indexed || spec.at("completions") != spec.at("parallelism");
    if fixed && new.int("succeeded") < then.int("succeeded") {
        errors.invalid(at.field("succeeded"), new.int("succeeded"), "cannot decrease the succeeded counter");
    }
    if differs("completedIndexes") {
        let text = new.str("completedIndexes");
        let place = at.field("completedIndexes");
        if let Some(completions) = spec.opt_int("completions")
            && let Err(why) = count_indexes(text, completions)
        {
            errors.invalid(place, text, format!("error parsing completedIndexes: {why}"));
        }
        if !text.is_empty() && !indexed {
            let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
            errors.invalid(place, text, why);
        }
    }
    if let Some(text) = new.opt_str("failedIndexes").filter(|_| differs("failedIndexes")) {
        let place = at.field("failedIndexes");
        if spec.opt("backoffLimitPerIndex").is_none() {
            let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            errors.invalid(place, text, why);
        } else if let Some(completions) = spec.opt_int("completions")
            && let Err(why) = count_indexes(text, completions)
        {
            errors.invalid(place, text, format!("error parsing failedIndexes: {why}"));
        }
    }
}

/// Counts the indexes in a string such as `1,3-5`.
pub(crate) fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let number = |part: &str| -> Result<i64, String> {
        let index: i64 = part
            .parse()
            .map_err(|_| format!("cannot convert string to integer for index: {}", quote(part)))?;
        if index >= completions { Err(format!("too large index: {}", quote(part))) } else { Ok(index) }
    };
    let unordered = |previous: i64, current: i64| {
        format!("non-increasing order, previous: {previous}, current: {current}")
    };
    let (mut last, mut total) = (None, 0);
    for interval in text.split(',') {
        let (from, to) = match interval.split('-').collect::<Vec<_>>().as_slice() {
            [from] => {
                let from = number(from)?;
                (from, from)
            }
            [from, to] => {
                let (from, to) = (number(from)?, number(to)?);
                if from >= to {
                    return Err(unordered(from, to));
                }
                (from, to)
            }
            _ => {
                return Err(format!(
                    "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
                    quote(interval)
                ));
            }
        };
        if let Some(last) = last.filter(|last| *last >= from) {
            return Err(unordered(last, from));
        }
        total += to - from + 1;
        last = Some(to);
    }
    Ok(total)
}
