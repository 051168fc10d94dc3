//! Requests for certificates.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    Change, Rules,
    check::{At, Complain, Errors, Read, default_zero},
    pem,
};
use crate::{
    environment::EnvironmentExt as _,
    object,
    status::{ApiResult, quote},
    strategy::Hook,
};

/// Requests for certificates.
pub(super) struct SigningRequest;

impl Rules for SigningRequest {
    fn default(&self, _: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        if spec.get("usages").is_none_or(Value::is_null) {
            default_zero(spec, "usages", json!(["digital signature", "key encipherment"]));
        }
    }

    fn prepare_create(&self, hook: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        // Who asks is for nobody to claim.
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

    /// What is asked for stays as it is. Approval gives conditions alone, and the status neither gives nor takes them.
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
        stamp_conditions(object, old, &hook.core.environment.now_string());
        Ok(())
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        self.validate(change.object, errors);
        let (at, conditions) = (At::root("status"), ["status", "conditions"]);
        let list = at.field("conditions");
        let decided = |object: &Value, kind: &str| {
            let all = object.path(&conditions).as_array().cloned().unwrap_or_default();
            all.into_iter().filter(|c| c["type"] == kind).collect::<Vec<_>>()
        };
        for kind in ["Approved", "Denied"] {
            let (new, old) = (decided(change.object, kind), decided(change.old, kind));
            if change.subresource == Some("status") && new.len() > old.len() {
                errors.forbidden(list, format!("updates may not add a condition of type {}", quote(kind)));
            } else if new.len() < old.len() {
                errors.forbidden(list, format!("updates may not remove a condition of type {}", quote(kind)));
            }
        }
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let (at, spec) = (At::root("spec"), object.at("spec"));
        let request = spec.str("request");
        let text = STANDARD.decode(request).unwrap_or_default();
        if pem::labels(&text).first().is_none_or(|label| label != "CERTIFICATE REQUEST") {
            errors.invalid(at.field("request"), request, "PEM block type must be CERTIFICATE REQUEST");
        }
        let (usages, list) = (spec.strs("usages"), at.field("usages"));
        if usages.is_empty() {
            errors.required(list, "");
        }
        for (index, usage) in usages.iter().enumerate() {
            if !USAGES.contains(usage) {
                errors.unsupported(list.index(index), *usage, &USAGES);
            }
            if usages.iter().take(index).any(|other| other == usage) {
                errors.duplicate(list.index(index), *usage);
            }
        }
        let signer = spec.str("signerName");
        if signer == "kubernetes.io/legacy-unknown" {
            let why = "the legacy signerName is not allowed via this API version";
            errors.invalid(at.field("signerName"), signer, why);
        } else if signer.is_empty() {
            errors.required(at.field("signerName"), "");
        } else if signer.matches('/').count() != 1 {
            let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
            errors.invalid(at.field("signerName"), signer, why);
        }
        if let Some(seconds) = spec.opt_int("expirationSeconds").filter(|seconds| *seconds < 600) {
            let why = "may not specify a duration less than 600 seconds (10 minutes)";
            errors.invalid(at.field("expirationSeconds"), seconds, why);
        }
    }
}

/// Takes what was decided over from before, unless there is more or less of it: that is refused later on.
fn keep_decisions(object: &mut Value, old: &Value) {
    let before = old.path(&["status", "conditions"]).as_array().cloned().unwrap_or_default();
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

/// Fills in when conditions were written, and since when they are what they are.
fn stamp_conditions(object: &mut Value, old: &Value, now: &str) {
    let before = old.path(&["status", "conditions"]).as_array().cloned().unwrap_or_default();
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

/// What a certificate may be asked for, sorted.
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
