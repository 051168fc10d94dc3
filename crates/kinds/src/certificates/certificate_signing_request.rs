//! CertificateSigningRequest.

use std::collections::HashSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_api::{
    environment::EnvironmentExt as _,
    fields::FieldError,
    names, object,
    status::{ApiResult, quote},
    strategy::Hook,
    table::{Cell, duration},
};

use crate::{
    cells::{list, text, text_or},
    check::{Errors, FieldErrors, FieldPath, Read},
    kind::{Change, Column, Kind, Rules, Selectable},
    pem,
};

pub(super) const KIND: Kind = Kind {
    rules: &CertificateSigningRequest,
    has_status: true,
    reset_fields: &[
        ("", &[&["spec"], &["status"]]),
        ("status", &[&["spec"], &["status", "conditions"]]),
        ("approval", &[&["spec"], &["status", "certificate"]]),
    ],
    selectable: &[Selectable::new("spec.signerName", &["spec", "signerName"])],
    columns: &[
        Column::NAME,
        Column::AGE,
        Column::string("SignerName"),
        Column::string("Requestor"),
        Column::string("RequestedDuration"),
        Column::string("Condition"),
    ],
    cell,
    ..Kind::new("certificates.k8s.io", "certificatesigningrequests")
};

/// Rules of CertificateSigningRequests.
struct CertificateSigningRequest;

impl Rules for CertificateSigningRequest {
    fn prepare_create(&self, hook: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        // The requestor is always the user who makes the request. Values in the object are ignored.
        let spec = object::child(object, "spec");
        for field in ["username", "uid", "groups", "extra"] {
            spec.remove(field);
        }
        let user = hook.user;
        let known = [
            ("username", json!(user.name), user.name.is_empty()),
            ("uid", json!(user.uid), user.uid.is_empty()),
            ("groups", json!(user.groups), user.groups.is_empty()),
            ("extra", json!(user.extra), user.extra.is_empty()),
        ];
        for (field, value, _) in known.into_iter().filter(|(_, _, empty)| !empty) {
            spec.insert(field.into(), value);
        }
        Ok(())
    }

    /// Resets the spec, which is immutable. The approval subresource can't change the certificate, and the status
    /// subresource can't change the Approved and Denied conditions.
    fn prepare_update(&self, hook: Hook<'_>, object: &mut Value, old: &Value) -> ApiResult<()> {
        object::carry(old, object, "spec");
        match hook.subresource {
            Some("approval") => {
                let status = object::child(object, "status");
                match old.path(&["status", "certificate"]) {
                    Value::Null => status.remove("certificate"),
                    certificate => status.insert("certificate".into(), certificate.clone()),
                };
            }
            Some("status") => keep_decisions(object, old),
            _ => return Ok(()),
        }
        stamp_conditions(object, old, &hook.environment.now_string());
        Ok(())
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        self.validate(change.object, errors);
        let at = FieldPath::root("status");
        let (new, old) = (change.object.at("status"), change.old.at("status"));
        conditions(at.field("conditions"), new, errors);
        let list = at.field("conditions");
        let count = |status: &Value, kind: &str| {
            status.list("conditions").iter().filter(|c| c["type"] == kind).count()
        };
        for kind in ["Approved", "Denied", "Failed"] {
            let (new, old) = (count(new, kind), count(old, kind));
            if kind != "Failed" && change.subresource == Some("status") && new > old {
                errors.forbidden(list, format!("updates may not add a condition of type {}", quote(kind)));
            } else if new < old {
                errors.forbidden(list, format!("updates may not remove a condition of type {}", quote(kind)));
            }
        }
        if new.str("certificate") != old.str("certificate") {
            if let Some(why) = certificate_fault(new.str("certificate")) {
                errors.invalid(at.field("certificate"), "<certificate data>", why);
            }
            if !old.str("certificate").is_empty() {
                errors.forbidden(
                    at.field("certificate"),
                    "updates may not modify existing certificate content",
                );
            }
        }
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let (at, spec) = (FieldPath::root("spec"), object.at("spec"));
        let request = spec.str("request");
        let text = STANDARD.decode(request).unwrap_or_default();
        if pem::labels(&text).first().is_none_or(|label| label != "CERTIFICATE REQUEST") {
            let shown = spec.at("request").clone();
            errors.invalid(at.field("request"), shown, "PEM block type must be CERTIFICATE REQUEST");
        }
        let (usages, list) = (spec.strs("usages"), at.field("usages"));
        if usages.is_empty() {
            errors.required(list, "");
        }
        let mut seen = HashSet::new();
        for (index, usage) in usages.iter().enumerate() {
            if !USAGES.contains(usage) {
                errors.unsupported(list.index(index), *usage, &USAGES);
            }
            if !seen.insert(usage) {
                errors.duplicate(list.index(index), *usage);
            }
        }
        let signer = spec.str("signerName");
        if signer == "kubernetes.io/legacy-unknown" {
            let why = "the legacy signerName is not allowed via this API version";
            errors.invalid(at.field("signerName"), signer, why);
        } else {
            signer_name(at.field("signerName"), signer, errors);
        }
        if let Some(seconds) = spec.opt_int("expirationSeconds").filter(|seconds| *seconds < 600) {
            let why = "may not specify a duration less than 600 seconds (10 minutes)";
            errors.invalid(at.field("expirationSeconds"), seconds, why);
        }
    }
}

/// Validates a signer name of the form `domain/path`.
fn signer_name(at: FieldPath<'_>, signer: &str, errors: &mut Errors) {
    if signer.is_empty() {
        return errors.required(at, "");
    }
    let parts = signer.split_once('/').filter(|(_, path)| !path.contains('/'));
    let Some((domain, path)) = parts else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return errors.invalid(at, signer, why);
    };
    // Only the first invalid label is reported.
    let faults = |whole: &str, rule: fn(&str) -> Vec<String>| {
        let first = whole.split('.').map(|part| (part, rule(part))).find(|(_, faults)| !faults.is_empty());
        let (part, faults) = first.unwrap_or_default();
        faults.iter().map(|why| format!("validating label {}: {why}", quote(part))).collect()
    };
    if domain.len() > MAX_DOMAIN {
        errors.push(FieldError::too_long(at, MAX_DOMAIN));
    }
    errors.all(&at, domain, faults(domain, names::label));
    if !domain.contains('.') {
        errors.invalid(at, domain, "should be a domain with at least two segments separated by dots");
    }
    errors.all(&at, path, faults(path, names::subdomain));
    if signer.len() > MAX_SIGNER {
        errors.push(FieldError::too_long(at, MAX_SIGNER));
    }
}

const MAX_DOMAIN: usize = 253;

/// Maximum length of a signer name: a domain, a slash, and a path of a domain, a label and a dot.
const MAX_SIGNER: usize = MAX_DOMAIN + 1 + (MAX_DOMAIN + 63 + 1);

/// Validates the conditions of a request.
fn conditions(at: FieldPath<'_>, status: &Value, errors: &mut Errors) {
    let mut seen: HashSet<&str> = HashSet::new();
    for (index, condition) in status.list("conditions").iter().enumerate() {
        let place = at.index(index);
        let (kind, value) = (condition.str("type"), condition.str("status"));
        if kind.is_empty() {
            errors.required(place.field("type"), "");
        }
        let allowed: &[&str] =
            if DECISIONS.contains(&kind) { &["True"] } else { &["False", "True", "Unknown"] };
        if value.is_empty() {
            errors.required(place.field("status"), "");
        } else if !allowed.contains(&value) {
            errors.unsupported(place.field("status"), value, allowed);
        }
        let opposite = match kind {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if seen.contains(&opposite) && !opposite.is_empty() {
            errors.invalid(at, kind, "Approved and Denied conditions are mutually exclusive");
        }
        if seen.contains(&kind) {
            errors.duplicate(place.field("type"), kind);
        }
        seen.insert(kind);
    }
}

/// Conditions that are either true or absent.
const DECISIONS: [&str; 3] = ["Approved", "Denied", "Failed"];

/// Returns why a certificate is invalid, judging by its PEM labels only.
fn certificate_fault(certificate: &str) -> Option<String> {
    if certificate.is_empty() {
        return None;
    }
    let labels = pem::labels(&STANDARD.decode(certificate).unwrap_or_default());
    match labels.iter().find(|label| *label != "CERTIFICATE") {
        Some(other) => Some(format!("only CERTIFICATE PEM blocks are allowed, found {}", quote(other))),
        None if labels.is_empty() => Some("must contain at least one CERTIFICATE PEM block".into()),
        None => None,
    }
}

/// Resets the Approved and Denied conditions, unless their number changed, which validation rejects.
fn keep_decisions(object: &mut Value, old: &Value) {
    let before = old.at("status").list("conditions");
    let Some(conditions) =
        object::child(object, "status").get_mut("conditions").and_then(Value::as_array_mut)
    else {
        return;
    };
    for kind in ["Approved", "Denied"] {
        let old: Vec<&Value> = before.iter().filter(|c| c["type"] == kind).collect();
        let new: Vec<&mut Value> = conditions.iter_mut().filter(|c| c["type"] == kind).collect();
        if old.len() == new.len() {
            for (new, old) in new.into_iter().zip(old) {
                *new = old.clone();
            }
        }
    }
}

/// Sets lastUpdateTime and lastTransitionTime of conditions if absent.
fn stamp_conditions(object: &mut Value, old: &Value, now: &str) {
    let before = old.at("status").list("conditions");
    let conditions = object::child(object, "status").get_mut("conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        let same =
            before.iter().find(|c| c["type"] == condition["type"] && c["status"] == condition["status"]);
        let since = same.map(|c| c["lastTransitionTime"].clone()).filter(|time| !time.is_null());
        let Some(condition) = condition.as_object_mut() else { continue };
        let missing = |time: Option<&Value>| time.is_none_or(Value::is_null);
        if missing(condition.get("lastUpdateTime")) {
            condition.insert("lastUpdateTime".into(), now.into());
        }
        if missing(condition.get("lastTransitionTime")) {
            condition.insert("lastTransitionTime".into(), since.unwrap_or_else(|| now.into()));
        }
    }
}

/// Key usages, sorted.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    Some(match column {
        "SignerName" => text_or(object, &["spec", "signerName"], "<none>"),
        "Requestor" => text(object, &["spec", "username"]),
        "RequestedDuration" => match object["spec"]["expirationSeconds"].as_i64() {
            Some(seconds) => duration(seconds).into(),
            None => "<none>".into(),
        },
        "Condition" => {
            let is = |kind: &str| list(object, &["status", "conditions"]).iter().any(|c| c["type"] == kind);
            let decided = match () {
                () if is("Denied") => "Denied",
                () if is("Approved") => "Approved",
                () => "Pending",
            };
            let failed = if is("Failed") { ",Failed" } else { "" };
            let issued = if object["status"]["certificate"].is_string() { ",Issued" } else { "" };
            format!("{decided}{failed}{issued}").into()
        }
        _ => return None,
    })
}
