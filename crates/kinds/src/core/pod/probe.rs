//! Probes and lifecycle handlers.

use serde_json::Value;

use super::container::Pod;
use crate::check::{self, Errors, FieldErrors, FieldPath, Read};

/// Validates a container's lifecycle hooks and probes.
pub(super) fn all(at: FieldPath<'_>, container: &Value, pod: &Pod<'_>, errors: &mut Errors) {
    if let Some(lifecycle) = container.opt("lifecycle") {
        let at = at.field("lifecycle");
        for hook in ["postStart", "preStop"] {
            if let Some(handler) = lifecycle.opt(hook) {
                handle(
                    at.field(hook),
                    handler,
                    &["exec", "httpGet", "tcpSocket", "sleep"],
                    pod.grace,
                    errors,
                );
            }
        }
    }
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.opt(field) else { continue };
        let at = at.field(field);
        validate(at, probe, pod.grace, errors);
        let grace = probe.opt_int("terminationGracePeriodSeconds");
        if field == "readinessProbe" {
            if let Some(grace) = grace {
                let why = "must not be set for readinessProbes";
                errors.invalid(at.field("terminationGracePeriodSeconds"), grace, why);
            }
        } else if probe.int("successThreshold") != 1 {
            errors.invalid(at.field("successThreshold"), probe.int("successThreshold"), "must be 1");
        }
    }
}

fn validate(at: FieldPath<'_>, probe: &Value, grace: Option<i64>, errors: &mut Errors) {
    handle(at, probe, &["exec", "httpGet", "tcpSocket", "grpc"], grace, errors);
    for field in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        errors.not_negative(at.field(field), probe.int(field));
    }
    if let Some(grace) = probe.opt_int("terminationGracePeriodSeconds").filter(|grace| *grace <= 0) {
        errors.invalid(at.field("terminationGracePeriodSeconds"), grace, "must be greater than 0");
    }
}

fn handle(at: FieldPath<'_>, handler: &Value, kinds: &[&str], grace: Option<i64>, errors: &mut Errors) {
    let mut found = false;
    for kind in kinds {
        let Some(action) = handler.opt(kind) else { continue };
        let at = at.field(kind);
        if found {
            errors.forbidden(at, "may not specify more than 1 handler type");
            continue;
        }
        found = true;
        match *kind {
            "exec" => {
                if action.list("command").is_empty() {
                    errors.required(at.field("command"), "");
                }
            }
            "httpGet" => http(at, action, errors),
            "sleep" => {
                let seconds = action.int("seconds");
                if let Some(grace) = grace.filter(|grace| seconds < 0 || seconds > *grace) {
                    let why =
                        format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                    errors.invalid(at, seconds, why);
                }
            }
            _ => check::port_number_or_name(at.field("port"), action.at("port"), errors),
        }
    }
    if !found {
        errors.required(at, "must specify a handler type");
    }
}

fn http(at: FieldPath<'_>, action: &Value, errors: &mut Errors) {
    if action.str("path").is_empty() {
        errors.required(at.field("path"), "");
    }
    check::port_number_or_name(at.field("port"), action.at("port"), errors);
    let scheme = action.str("scheme");
    if !matches!(scheme, "HTTP" | "HTTPS") {
        errors.unsupported(at.field("scheme"), scheme, &["HTTP", "HTTPS"]);
    }
    for header in action.list("httpHeaders") {
        let name = header.str("name");
        errors.all(&at.field("httpHeaders"), name, check::header_name(name));
    }
}
