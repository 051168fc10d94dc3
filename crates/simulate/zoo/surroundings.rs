//! Bugs that show when the environment changes: other clients, quotas, pods, nodes, clock, definitions.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Node, Pod},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;
use steersman::{Action, Context, Controller, Error, Key, Operator};

use crate::{
    making::{clean_up, status},
    site::{
        FINALIZER, Maps, Site, SiteStatus, delete_secret, is_conflict, is_forbidden, operator, owner,
        put_secret,
    },
};

fn phase(site: &Site, phase: &str) -> SiteStatus {
    SiteStatus { phase: phase.into(), ..status(site) }
}

/// Writes when the site has changed or the object is missing, without comparing an existing object.
pub(crate) fn drift_overlooked(corrected: bool) -> Operator {
    let reconcile = move |site: Arc<Site>, ctx: Context| async move {
        let maps = Maps::of(&ctx);
        let color = site.spec.color.clone();
        let is_missing = maps.get("shop").await?.is_none();
        if corrected || is_missing || status(&site).color != color {
            maps.put("shop", json!({"color": color})).await?;
        }
        ctx.update_status(&SiteStatus { color, ..status(&site) }).await?;
        Ok::<_, Error>(Action::await_change())
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, clean_up))
}

/// Gives up when the quota is exhausted, though it may have room again later.
pub(crate) fn quota_is_final(corrected: bool) -> Operator {
    let reconcile = move |site: Arc<Site>, ctx: Context| async move {
        if status(&site).phase == "QuotaExceeded" {
            return Ok(Action::await_change());
        }
        match Maps::of(&ctx).put("shop", json!({"color": site.spec.color})).await {
            Err(kube::Error::Api(refusal)) if refusal.message.contains("exceeded quota") && !corrected => {
                ctx.update_status(&phase(&site, "QuotaExceeded")).await?;
            }
            other => other?,
        }
        Ok::<_, Error>(Action::await_change())
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, clean_up))
}

/// Concludes from a denied delete that the object belongs to another owner.
pub(crate) fn denied_taken_for_foreign(corrected: bool) -> Operator {
    let reconcile = move |site: Arc<Site>, ctx: Context| async move {
        Maps::of(&ctx).put("shop", json!({"color": site.spec.color})).await?;
        Ok::<_, Error>(Action::await_change())
    };
    let cleanup = move |_: Arc<Site>, ctx: Context| async move {
        match Maps::of(&ctx).delete("shop").await {
            Err(error) if is_forbidden(&error) && !corrected => {}
            other => drop(other?),
        }
        Ok::<_, Error>(Action::await_change())
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, cleanup))
}

/// Marks a site as failed for good when one of its pods crashes.
pub(crate) fn crash_is_final(corrected: bool) -> Operator {
    let reconcile = move |site: Arc<Site>, ctx: Context| async move {
        if status(&site).phase == "Failed" && !corrected {
            return Ok(Action::await_change());
        }
        let labels = json!({"site": ctx.name()});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": ctx.name(), "labels": labels},
            "spec": {"replicas": site.spec.size, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web"}]},
            }},
        });
        let deployments: Api<Deployment> = Api::namespaced(ctx.client(), ctx.namespace());
        let params = PatchParams::apply("zoo").force();
        deployments.patch(ctx.name(), &params, &Patch::Apply(&deployment)).await?;
        let pods: Api<Pod> = Api::namespaced(ctx.client(), ctx.namespace());
        let mine = ListParams::default().labels(&format!("site={}", ctx.name()));
        let crashes = pods.list(&mine).await?.iter().any(|pod| {
            let containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
            let mut waiting = containers.filter_map(|container| container.state.as_ref()?.waiting.as_ref());
            waiting.any(|waiting| waiting.reason.as_deref() == Some("CrashLoopBackOff"))
        });
        ctx.update_status(&phase(&site, if crashes { "Failed" } else { "Ready" })).await?;
        Ok::<_, Error>(Action::await_change())
    };
    let cleanup = move |_: Arc<Site>, ctx: Context| async move {
        let deployments: Api<Deployment> = Api::namespaced(ctx.client(), ctx.namespace());
        match deployments.delete(ctx.name(), &DeleteParams::background()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            other => drop(other?),
        }
        Ok::<_, Error>(Action::await_change())
    };
    let controller = Controller::of::<Site>(reconcile).finalizer(FINALIZER, cleanup);
    operator(controller.watches_mapped(owner::<Deployment>).watches_mapped(owner::<Pod>))
        .permission("apps", ["deployments"], ["*"])
        .permission("", ["pods"], ["*"])
}

/// Keeps a list of lost nodes, and never removes one.
pub(crate) fn lost_node_excluded(corrected: bool) -> Operator {
    let reconcile = move |site: Arc<Site>, ctx: Context| async move {
        let nodes: Api<Node> = Api::all(ctx.client());
        let mut excluded: Vec<String> = Vec::new();
        if !corrected {
            let before = status(&site).child;
            excluded.extend(before.split(',').filter(|name| !name.is_empty()).map(str::to_owned));
        }
        for node in nodes.list(&ListParams::default()).await? {
            let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let is_ready = conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True");
            if !is_ready && !excluded.contains(&node.name_any()) {
                excluded.push(node.name_any());
            }
        }
        let child = excluded.join(",");
        Maps::of(&ctx).put("shop", json!({"excluded": child})).await?;
        ctx.update_status(&SiteStatus { child, ..status(&site) }).await?;
        Ok::<_, Error>(Action::await_change())
    };
    let sites = |_: &Node| vec![Key::new(Some("default"), "shop")];
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, clean_up).watches_mapped(sites))
        .permission("", ["nodes"], ["get", "list", "watch"])
}

/// Deadline of a site to become ready.
const DEADLINE: Duration = Duration::from_secs(1800);

/// Measures the deadline of a change from the site's creation.
pub(crate) fn deadline_since_creation(corrected: bool) -> Operator {
    let reconcile = move |site: Arc<Site>, ctx: Context| async move {
        let age = site.creation_timestamp().map_or(0, |made| ctx.now().duration_since(made.0).as_secs());
        let is_late = u64::try_from(age).is_ok_and(|age| age > DEADLINE.as_secs());
        // A site that was ready once has met its deadline.
        if is_late && (!corrected || status(&site).phase != "Ready") {
            ctx.update_status(&phase(&site, "TimedOut")).await?;
            return Ok(Action::await_change());
        }
        Maps::of(&ctx).put("shop", json!({"color": site.spec.color})).await?;
        ctx.update_status(&phase(&site, "Ready")).await?;
        Ok::<_, Error>(Action::await_change())
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, clean_up))
}

/// How long the operator assumes that its caches may be stale.
const PATIENCE: Duration = Duration::from_secs(7);

/// Assumes that all caches are as current as one of them after a while.
pub(crate) fn caches_of_one_moment(corrected: bool) -> Operator {
    let missing_since = Arc::new(Mutex::new(None));
    let reconcile = move |site: Arc<Site>, ctx: Context| {
        let missing_since = Arc::clone(&missing_since);
        async move {
            let maps = Maps::of(&ctx);
            let is_new = status(&site).made == 0;
            let map = if corrected { maps.get("shop").await? } else { ctx.get::<ConfigMap>("shop").await? };
            if map.is_some() && !is_new {
                *missing_since.lock().unwrap() = None;
                put_secret(&ctx).await?;
                return Ok(Action::await_change());
            }
            if !is_new && !corrected {
                let since = *missing_since.lock().unwrap().get_or_insert(ctx.now());
                let waited = u64::try_from(ctx.now().duration_since(since).as_secs()).unwrap_or_default();
                if waited < PATIENCE.as_secs() {
                    return Ok(Action::requeue(PATIENCE));
                }
            }
            match maps.create("shop", json!({})).await {
                Err(error) if is_conflict(&error) && (is_new || corrected) => {}
                Err(error) if is_conflict(&error) => {
                    ctx.update_status(&phase(&site, "TakenByAnother")).await?;
                    return Ok(Action::await_change());
                }
                other => other?,
            }
            put_secret(&ctx).await?;
            ctx.update_status(&SiteStatus { made: 1, ..status(&site) }).await?;
            Ok::<_, Error>(Action::await_change())
        }
    };
    let cleanup = move |_: Arc<Site>, ctx: Context| async move {
        Maps::of(&ctx).delete_all().await?;
        delete_secret(&ctx).await?;
        Ok::<_, Error>(Action::await_change())
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, cleanup))
}

/// Names its object after the API version that the cluster prefers.
pub(crate) fn named_after_version(corrected: bool) -> Operator {
    let reconcile = move |site: Arc<Site>, ctx: Context| async move {
        let mut name = "shop".to_owned();
        if !corrected {
            let group = kube::discovery::group(&ctx.client(), "zoo.steersman.dev").await?;
            name = format!("shop-{}", group.preferred_version_or_latest());
        }
        Maps::of(&ctx).put(&name, json!({"color": site.spec.color})).await?;
        Ok::<_, Error>(Action::await_change())
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, clean_up))
}
