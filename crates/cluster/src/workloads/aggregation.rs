//! ClusterRole aggregation: collects the rules of other ClusterRoles.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
    core::{Selector, SelectorExt as _},
};
use serde_json::json;

use crate::control_loop::ControlLoop;

const MANAGER: &str = "clusterrole-aggregation-controller";

/// Reconciles all ClusterRoles together, since each may be selected by any other.
pub(super) async fn reconcile(control: &mut ControlLoop) -> kube::Result<()> {
    let api: Api<ClusterRole> = Api::all(control.client.clone());
    let mut roles = api.list(&ListParams::default()).await?.items;
    // Aggregated rules may be aggregated again: each round sees the result of the one before.
    for _ in 0..roles.len() {
        let Some((index, rules)) = outdated(&roles) else { break };
        let Some(role) = roles.get_mut(index) else { break };
        let applied = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": role.name_any()},
            "rules": rules,
        });
        let params = PatchParams::apply(MANAGER).force();
        *role = api.patch(&role.name_any(), &params, &Patch::Apply(applied)).await?;
    }
    Ok(())
}

/// Returns the first ClusterRole with outdated aggregated rules, and what they should be.
fn outdated(roles: &[ClusterRole]) -> Option<(usize, Vec<PolicyRule>)> {
    roles.iter().enumerate().find_map(|(index, role)| {
        let rules = gathered(roles, role)?;
        (rules != role.rules.clone().unwrap_or_default()).then_some((index, rules))
    })
}

fn gathered(roles: &[ClusterRole], role: &ClusterRole) -> Option<Vec<PolicyRule>> {
    let mut rules: Vec<PolicyRule> = Vec::new();
    for selector in role.aggregation_rule.as_ref()?.cluster_role_selectors.iter().flatten() {
        let selector = Selector::try_from(selector.clone()).ok()?;
        // Roles are listed in order of their names.
        let others = roles.iter().filter(|r| r.name_any() != role.name_any() && selector.matches(r.labels()));
        for rule in others.flat_map(|r| r.rules.iter().flatten()) {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
    }
    Some(rules)
}
