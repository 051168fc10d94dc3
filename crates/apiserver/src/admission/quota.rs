//! Resource quota enforcement.
//!
//! Usage is counted from the stored objects at the time of the write instead of the quota's status, so it is never
//! stale.

use std::sync::{MutexGuard, PoisonError};

use serde_json::Value;
use steersman_api::{
    object,
    quota::{Amounts, Quota, add},
    schema::Quantity,
    status::{ApiError, ApiResult},
};

use crate::{catalog::Resource, core::Core};

const QUOTAS: &str = "resourcequotas";

/// Checks quotas for a new object, or an update of `old`.
/// The caller holds the returned lock until the object is stored, so that concurrent writes cannot both use the same
/// remaining quota.
pub(crate) fn reserve<'a>(
    core: &'a Core,
    resource: &Resource,
    namespace: &str,
    object: &Value,
    old: Option<&Value>,
) -> ApiResult<Option<MutexGuard<'a, ()>>> {
    if namespace.is_empty() || core.store.count(QUOTAS) == 0 || !core.has_plugin("ResourceQuota") {
        return Ok(None);
    }
    let prefix = format!("{namespace}/");
    let quotas = core.store.snapshot(QUOTAS, &prefix, None).entries;
    if quotas.is_empty() {
        return Ok(None);
    }
    let held = core.quotas.lock().unwrap_or_else(PoisonError::into_inner);
    for entry in quotas {
        let quota = Quota::read(&entry.value());
        let mut asked = quota.usage(&resource.storage, object);
        if let Some(old) = old {
            for (name, amount) in quota.usage(&resource.storage, old) {
                asked.entry(name).and_modify(|asked| *asked = asked.minus(amount));
            }
        }
        asked.retain(|_, amount| *amount > Quantity::ZERO);
        if asked.is_empty() {
            continue;
        }
        let refuse = |why: &str| {
            Err(ApiError::forbidden(&resource.group, &resource.plural, object::name(object), why))
        };
        if *resource.storage == *"pods"
            && old.is_none()
            && let Some(unspecified) = quota.unspecified(object)
        {
            return refuse(&format!("failed quota: {}: must specify {unspecified}", entry.name()));
        }
        let used = used(core, &quota, &resource.storage, &prefix);
        let over: Vec<&String> = asked
            .iter()
            .filter(|(name, amount)| {
                let total = used.get(*name).copied().unwrap_or(Quantity::ZERO).plus(**amount);
                quota.hard().get(*name).is_some_and(|limit| total > *limit)
            })
            .map(|(name, _)| name)
            .collect();
        if !over.is_empty() {
            let show = |amounts: &Amounts| {
                let part = |name: &&String| {
                    format!("{name}={}", amounts.get(*name).copied().unwrap_or(Quantity::ZERO))
                };
                over.iter().map(part).collect::<Vec<_>>().join(",")
            };
            return refuse(&format!(
                "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                entry.name(),
                show(&asked),
                show(&used),
                show(quota.hard())
            ));
        }
    }
    Ok(Some(held))
}

/// Returns the usage by objects of one resource.
fn used(core: &Core, quota: &Quota, resource: &str, prefix: &str) -> Amounts {
    let mut total = Amounts::new();
    for entry in core.store.snapshot(resource, prefix, None).entries {
        add(&mut total, quota.usage(resource, &entry.value()));
    }
    total
}
