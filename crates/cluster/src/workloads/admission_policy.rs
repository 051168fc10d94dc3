//! ValidatingAdmissionPolicies: sets `observedGeneration` in their status.
//!
//! Expressions are not type-checked against the resources that they match, so the status has no such warnings.

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::control_loop::ControlLoop;

/// Field manager of the status.
const MANAGER: &str = "validatingadmissionpolicy-status";

pub(super) async fn reconcile(control: &mut ControlLoop, name: &str) -> kube::Result<()> {
    let api: Api<ValidatingAdmissionPolicy> = Api::all(control.client.clone());
    let Some(policy) = api.get_opt(name).await? else { return Ok(()) };
    let observed = policy.status.and_then(|status| status.observed_generation);
    if policy.metadata.generation <= observed {
        return Ok(());
    }
    let status = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "status": {"observedGeneration": policy.metadata.generation, "typeChecking": {}},
    });
    api.patch_status(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(status)).await.map(drop)
}
