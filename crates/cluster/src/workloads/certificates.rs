//! CertificateSigningRequests: signs the approved ones with the cluster's CA.

use jiff::SignedDuration;
use k8s_openapi::{
    ByteString,
    api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition},
};
use kube::Api;

use crate::{control_loop::ControlLoop, signer::SigningRequest};

const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
const NODES: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";
/// Default validity of certificates: the default of `--cluster-signing-duration`.
const LIFETIME: SignedDuration = SignedDuration::from_hours(365 * 24);

pub(super) async fn reconcile(control: &mut ControlLoop, name: &str) -> kube::Result<()> {
    let api: Api<CertificateSigningRequest> = Api::all(control.client.clone());
    let Some(mut request) = api.get_opt(name).await? else { return Ok(()) };
    let signer = request.spec.signer_name.as_str();
    if ![CLIENT, KUBELET_CLIENT, KUBELET_SERVING].contains(&signer) {
        return Ok(());
    }
    let mut status = request.status.clone().unwrap_or_default();
    let has = |kind: &str| {
        let mut conditions = status.conditions.iter().flatten();
        conditions.any(|condition| condition.type_ == kind && condition.status == "True")
    };
    let is_signed = status.certificate.as_ref().is_some_and(|certificate| !certificate.0.is_empty());
    if !has("Approved") || has("Denied") || has("Failed") || is_signed {
        return Ok(());
    }
    // An invalid request has been refused by validation.
    let Some(asked) = SigningRequest::from_pem(&request.spec.request.0) else { return Ok(()) };
    let usages = request.spec.usages.clone().unwrap_or_default();
    if let Some(why) = fault(signer, &asked, &usages) {
        let now = control.time();
        status.conditions.get_or_insert_default().push(CertificateSigningRequestCondition {
            type_: "Failed".to_owned(),
            status: "True".to_owned(),
            reason: Some("SignerValidationFailure".to_owned()),
            message: Some(why.to_owned()),
            last_update_time: Some(now),
            ..CertificateSigningRequestCondition::default()
        });
    } else {
        let wanted = request.spec.expiration_seconds.map(|seconds| SignedDuration::from_secs(seconds.into()));
        let lifetime = wanted.unwrap_or(LIFETIME).min(LIFETIME);
        let (now, serial) = (control.now(), control.environment.random());
        let signed = asked.sign(&control.options.authority, &usages, now, lifetime, serial);
        let certificate = signed.map_err(|error| kube::Error::Service(Box::new(error)))?;
        status.certificate = Some(ByteString(certificate.into_bytes()));
    }
    request.status = Some(status);
    api.replace_status(name, &control.params(), &request).await.map(drop)
}

/// Returns why a signer must not sign a request.
fn fault(signer: &str, asked: &SigningRequest, usages: &[String]) -> Option<&'static str> {
    let only = |allowed: &[&str]| usages.iter().all(|usage| allowed.contains(&usage.as_str()));
    let has = |wanted: &str| usages.iter().any(|usage| usage == wanted);
    let is_node = asked.common_name.starts_with(NODE_PREFIX);
    let of_nodes = asked.organisations == [NODES];
    match signer {
        CLIENT if !has("client auth") => Some("usages must contain client auth"),
        CLIENT => None,
        _ if !of_nodes => Some("organization is not system:nodes"),
        _ if !is_node => Some("subject common name does not begin with system:node:"),
        KUBELET_CLIENT if asked.has_alternative_names() => Some("subject alternative names are not allowed"),
        KUBELET_CLIENT if !only(&["key encipherment", "digital signature", "client auth"]) => Some(
            "usages did not match [digital signature client auth] or [key encipherment digital signature client auth]",
        ),
        KUBELET_SERVING if !asked.has_alternative_names() => Some("DNS or IP subjectAltName is required"),
        KUBELET_SERVING if !only(&["key encipherment", "digital signature", "server auth"]) => Some(
            "usages did not match [digital signature server auth] or [key encipherment digital signature server auth]",
        ),
        _ => None,
    }
}
