//! ResourceQuotas: the usage of a namespace.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{ResourceQuota, ResourceQuotaStatus},
    apimachinery::pkg::api::resource,
};
use kube::{Api, api::ListParams, core::DynamicObject};
use serde_json::{Value, json};
use steersman_api::quota::Quota;
use steersman_formats::quantity::Quantity;

use super::pods;
use crate::control_loop::ControlLoop;

pub(super) async fn reconcile(control: &mut ControlLoop, namespace: &str, name: &str) -> kube::Result<()> {
    let Some(found) = control.caches.quotas.get(namespace, name) else { return Ok(()) };
    if pods::is_deleting(&*found) {
        return Ok(());
    }
    let quota = Quota::read(&json!(*found));
    let mut used: BTreeMap<String, Quantity> =
        quota.hard().keys().map(|name| (name.clone(), Quantity::ZERO)).collect();
    for (resource, number_alone) in quota.resources() {
        let amounts = if number_alone {
            let count = count(control, namespace, &resource).await?;
            let names = quota.usage(&resource, &Value::Null).into_keys();
            vec![names.map(|name| (name, Quantity::count(count))).collect()]
        } else {
            measured(control, namespace, &resource, &quota)
        };
        for (name, amount) in amounts.into_iter().flatten() {
            let sum = used.entry(name).or_insert(Quantity::ZERO);
            *sum = sum.plus(amount);
        }
    }
    let shown = |amounts: &BTreeMap<String, Quantity>| {
        amounts.iter().map(|(name, q)| (name.clone(), resource::Quantity(q.to_string()))).collect()
    };
    let status = ResourceQuotaStatus { hard: Some(shown(quota.hard())), used: Some(shown(&used)) };
    if found.status.as_ref() == Some(&status) {
        return Ok(());
    }
    let mut changed = ResourceQuota::clone(&found);
    changed.status = Some(status);
    control.update_status(&changed).await.map(drop)
}

/// Returns the usage of each object of a kind that is counted by its content.
fn measured(
    control: &ControlLoop,
    namespace: &str,
    resource: &str,
    quota: &Quota,
) -> Vec<BTreeMap<String, Quantity>> {
    let usage = |object: Value| quota.usage(resource, &object);
    match resource {
        "pods" => control.caches.pods.within(namespace).map(|o| usage(json!(**o))).collect(),
        "services" => control.caches.services.within(namespace).map(|o| usage(json!(**o))).collect(),
        "persistentvolumeclaims" => {
            control.caches.claims.within(namespace).map(|o| usage(json!(**o))).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the number of objects of a resource in a namespace.
async fn count(control: &mut ControlLoop, namespace: &str, resource: &str) -> kube::Result<usize> {
    let Some(info) = control.resources.get(resource).cloned() else { return Ok(0) };
    let api: Api<DynamicObject> = Api::namespaced_with(control.client.clone(), namespace, &info.api);
    // One page, plus the remaining count that the server reports.
    let page = api.list_metadata(&ListParams::default().limit(1)).await?;
    let left = page.metadata.remaining_item_count.and_then(|n| usize::try_from(n).ok()).unwrap_or_default();
    Ok(page.items.len() + left)
}
