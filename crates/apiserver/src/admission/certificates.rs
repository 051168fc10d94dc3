//! CertificateSigningRequest admission: approval and signing rights, and restricted subjects.
//! Implements the plugins `CertificateApproval`, `CertificateSigning` and `CertificateSubjectRestriction`.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use steersman_kinds::pem;

use steersman_api::{
    object,
    status::{ApiError, ApiResult, quote},
};

use super::{Attempt, Operation};
use crate::auth::{Attributes, Decision};

const GROUP: &str = "certificates.k8s.io";
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const MASTERS: &str = crate::auth::rbac::MASTERS;

/// Rejects a CSR, or its approval or signing, that the caller is not allowed to make.
pub(super) fn validate(attempt: &Attempt<'_>, object: &Value) -> ApiResult<()> {
    let Attempt { call, operation, old, .. } = *attempt;
    if call.resource.group != GROUP || call.resource.plural != "certificatesigningrequests" {
        return Ok(());
    }
    match (operation, call.subresource_name(), old) {
        (Operation::Create, "", _) => check_subject(attempt, object),
        (Operation::Update, "approval", Some(old)) => authorize(attempt, "approve", old),
        (Operation::Update, "status", Some(old)) => {
            let changed =
                |field: &str| object::get(object, &["status", field]) != object::get(old, &["status", field]);
            if changed("certificate") || changed("conditions") {
                authorize(attempt, "sign", old)
            } else {
                Ok(())
            }
        }
        _ => Ok(()),
    }
}

/// Checks that the caller has the verb on the request's signer, or on all signers of its domain.
fn authorize(attempt: &Attempt<'_>, verb: &str, request: &Value) -> ApiResult<()> {
    let call = attempt.call;
    let signer = object::text(request, &["spec", "signerName"]).unwrap_or_default();
    let domain = signer.split('/').next().unwrap_or_default();
    let may = |name: &str| {
        let asked = Attributes {
            verb,
            group: GROUP,
            version: "*",
            resource: "signers",
            name,
            ..Attributes::default()
        };
        call.core.authorizer.authorize(&call.user, &asked) == Decision::Allow
    };
    if may(signer) || may(&format!("{domain}/*")) {
        return Ok(());
    }
    Err(refuse(attempt, &format!("user not permitted to {verb} requests with signerName {}", quote(signer))))
}

/// Rejects client certificates for `system:masters`: its rights could not be revoked.
fn check_subject(attempt: &Attempt<'_>, request: &Value) -> ApiResult<()> {
    if object::text(request, &["spec", "signerName"]) != Some(CLIENT_SIGNER) {
        return Ok(());
    }
    let text = object::text(request, &["spec", "request"]).unwrap_or_default();
    let text = STANDARD.decode(text).unwrap_or_default();
    let der = pem::first(&text, "CERTIFICATE REQUEST").unwrap_or_default();
    let Some(groups) = organisations(&der) else {
        return Err(refuse(attempt, "failed to parse CSR: asn1: structure error"));
    };
    if groups.contains(&MASTERS.as_bytes()) {
        let why = format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed");
        return Err(refuse(attempt, &why));
    }
    Ok(())
}

fn refuse(attempt: &Attempt<'_>, why: &str) -> ApiError {
    ApiError::forbidden(GROUP, &attempt.call.resource.plural, attempt.name, why)
}

/// Returns the organizations in the subject of a CSR.
fn organisations(request: &[u8]) -> Option<Vec<&[u8]>> {
    const SEQUENCE: u8 = 0x30;
    const SET: u8 = 0x31;
    const ORGANISATION: &[u8] = &[0x55, 0x04, 0x0a];
    let (body, _) = element(request, SEQUENCE)?;
    let (info, _) = element(body, SEQUENCE)?;
    let (_, rest) = element(info, 0x02)?;
    let (mut subject, _) = element(rest, SEQUENCE)?;
    let mut found = Vec::new();
    while !subject.is_empty() {
        let (mut set, rest) = element(subject, SET)?;
        subject = rest;
        while !set.is_empty() {
            let (pair, rest) = element(set, SEQUENCE)?;
            set = rest;
            let (kind, value) = element(pair, 0x06)?;
            if kind == ORGANISATION {
                found.push(element(value, *value.first()?)?.0);
            }
        }
    }
    Some(found)
}

/// Returns the content of the first DER element, which must have this tag, and the remaining bytes.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (given, rest) = bytes.split_first()?;
    let (first, mut rest) = rest.split_first()?;
    let mut length = usize::from(*first);
    if length >= 0x80 {
        let (digits, after) = rest.split_at_checked(length - 0x80)?;
        length = digits
            .iter()
            .try_fold(0_usize, |sum, digit| sum.checked_mul(256)?.checked_add(usize::from(*digit)))?;
        rest = after;
    }
    (*given == tag).then_some(())?;
    rest.split_at_checked(length)
}
