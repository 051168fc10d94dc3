//! Bugs in how operators clean up.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use futures::{StreamExt as _, future::BoxFuture};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::{
        Controller as KubeController, controller::Action as KubeAction, reflector::ObjectRef, watcher,
    },
};
use serde_json::json;
use steersman::{Action, BoxError, Context, Controller, Error, Operator, Result};

use crate::site::{FINALIZER, Maps, Site, SiteStatus, delete_secret, operator, put_secret};

/// Context of the operators on plain kube-rs.
pub(crate) struct Shared {
    client: Client,
    corrected: bool,
}

impl Shared {
    pub(crate) fn maps(&self, site: &Site) -> Maps {
        Maps::new(self.client.clone(), &site.namespace().unwrap_or_default(), &site.name_any())
    }

    pub(crate) async fn set_finalizers(&self, site: &Site, finalizers: &[&str]) -> Result<()> {
        let sites: Api<Site> = Api::namespaced(self.client.clone(), &site.namespace().unwrap_or_default());
        let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
        match sites.patch(&site.name_any(), &PatchParams::default(), &patch).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            other => Ok(other.map(drop)?),
        }
    }
}

/// Runs an operator on plain kube-rs, whose author has to handle finalizers.
pub(crate) async fn on_plain_kube<F, R>(client: Client, corrected: bool, reconcile: F) -> Result<(), BoxError>
where
    F: FnMut(Arc<Site>, Arc<Shared>) -> R,
    R: Future<Output = Result<KubeAction>> + Send + 'static,
{
    let owner = |map: ConfigMap| {
        let site = map.labels().get("site").map(|site| ObjectRef::<Site>::new(site));
        site.map(|site| site.within(&map.namespace().unwrap_or_default()))
    };
    let shared = Arc::new(Shared { client: client.clone(), corrected });
    let failed = |_: Arc<Site>, _: &Error, _: Arc<Shared>| KubeAction::requeue(Duration::from_secs(1));
    KubeController::new(Api::<Site>::all(client.clone()), watcher::Config::default())
        .watches(Api::<ConfigMap>::all(client), watcher::Config::default(), owner)
        .run(reconcile, failed, shared)
        .for_each(|_| std::future::ready(()))
        .await;
    Ok(())
}

/// Adds its finalizer after it has created something.
pub(crate) fn finalizer_after_side_effect(
    corrected: bool,
    client: Client,
) -> BoxFuture<'static, Result<(), BoxError>> {
    Box::pin(on_plain_kube(client, corrected, |site: Arc<Site>, shared: Arc<Shared>| async move {
        let maps = shared.maps(&site);
        if site.metadata.deletion_timestamp.is_some() {
            maps.delete_all().await?;
            shared.set_finalizers(&site, &[]).await?;
            return Ok(KubeAction::await_change());
        }
        let promised = !site.finalizers().is_empty();
        if shared.corrected && !promised {
            shared.set_finalizers(&site, &[FINALIZER]).await?;
        }
        maps.put("shop", json!({})).await?;
        if !shared.corrected && !promised {
            shared.set_finalizers(&site, &[FINALIZER]).await?;
        }
        Ok(KubeAction::await_change())
    }))
}

/// Removes its finalizer, and cleans up afterwards.
pub(crate) fn finalizer_removed_first(
    corrected: bool,
    client: Client,
) -> BoxFuture<'static, Result<(), BoxError>> {
    Box::pin(on_plain_kube(client, corrected, |site: Arc<Site>, shared: Arc<Shared>| async move {
        let maps = shared.maps(&site);
        if site.metadata.deletion_timestamp.is_none() {
            if site.finalizers().is_empty() {
                shared.set_finalizers(&site, &[FINALIZER]).await?;
            }
            maps.put("shop", json!({})).await?;
        } else if shared.corrected {
            maps.delete_all().await?;
            shared.set_finalizers(&site, &[]).await?;
        } else {
            shared.set_finalizers(&site, &[]).await?;
            maps.delete_all().await?;
        }
        Ok(KubeAction::await_change())
    }))
}

/// Concludes from the first deleted object that all are deleted.
pub(crate) fn leaked_secret(corrected: bool) -> Operator {
    let reconcile = move |_: Arc<Site>, ctx: Context| async move {
        Maps::of(&ctx).put("shop", json!({})).await?;
        put_secret(&ctx).await?;
        Ok::<_, Error>(Action::await_change())
    };
    let cleanup = move |_: Arc<Site>, ctx: Context| async move {
        let was_there = Maps::of(&ctx).delete("shop").await?;
        if was_there || corrected {
            delete_secret(&ctx).await?;
        }
        Ok::<_, Error>(Action::await_change())
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, cleanup))
}

/// Reports that it has cleaned up even if it failed.
pub(crate) fn cleanup_gives_up(corrected: bool) -> Operator {
    let reconcile = move |_: Arc<Site>, ctx: Context| async move {
        Maps::of(&ctx).put("shop", json!({})).await?;
        Ok::<_, Error>(Action::await_change())
    };
    let cleanup = move |_: Arc<Site>, ctx: Context| async move {
        let deleted = Maps::of(&ctx).delete("shop").await;
        if corrected {
            deleted?;
        }
        Ok::<_, Error>(Action::await_change())
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, cleanup))
}

/// Forgets the old name before it has deleted the object of that name.
pub(crate) fn orphan_on_rename(corrected: bool) -> Operator {
    let reconcile = move |site: Arc<Site>, ctx: Context| async move {
        let maps = Maps::of(&ctx);
        let child = format!("shop-{}", site.spec.color);
        let old = site.status.clone().unwrap_or_default().child;
        maps.put(&child, json!({})).await?;
        let named = SiteStatus { child: child.clone(), ..SiteStatus::default() };
        if corrected {
            for map in maps.list().await?.iter().filter(|map| map.name_any() != child) {
                maps.delete(&map.name_any()).await?;
            }
            ctx.update_status(&named).await?;
        } else {
            ctx.update_status(&named).await?;
            if !old.is_empty() && old != child {
                maps.delete(&old).await?;
            }
        }
        Ok::<_, Error>(Action::await_change())
    };
    let cleanup = move |site: Arc<Site>, ctx: Context| async move {
        let maps = Maps::of(&ctx);
        if corrected {
            maps.delete_all().await?;
        } else {
            maps.delete(&site.status.clone().unwrap_or_default().child).await?;
        }
        Ok::<_, Error>(Action::await_change())
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, cleanup))
}

/// Records that a rename is in progress and completes an interrupted one at startup.
///
/// The order of that recovery does not survive a second interruption.
pub(crate) fn recovery_breaks_off(corrected: bool) -> Operator {
    let first = Arc::new(AtomicBool::new(true));
    let reconcile = move |site: Arc<Site>, ctx: Context| {
        let is_first = first.swap(false, SeqCst);
        async move {
            let maps = Maps::of(&ctx);
            let child = format!("shop-{}", site.spec.color);
            let moving = SiteStatus { phase: "Moving".into(), ..SiteStatus::default() };
            let moved = SiteStatus { phase: "Moved".into(), child: child.clone(), ..SiteStatus::default() };
            let status = site.status.clone().unwrap_or_default();
            let is_done = status == moved;
            if !is_done && status.phase != "Moving" {
                ctx.update_status(&moving).await?;
            }
            if status.phase == "Moving" && is_first && !corrected {
                ctx.update_status(&moved).await?;
            }
            maps.put(&child, json!({})).await?;
            if !is_done {
                for map in maps.list().await?.iter().filter(|map| map.name_any() != child) {
                    maps.delete(&map.name_any()).await?;
                }
            }
            ctx.update_status(&moved).await?;
            Ok::<_, Error>(Action::await_change())
        }
    };
    let cleanup = move |_: Arc<Site>, ctx: Context| async move {
        Maps::of(&ctx).delete_all().await?;
        Ok::<_, Error>(Action::await_change())
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, cleanup))
}

/// Treats a failed list as empty.
pub(crate) fn failed_list_is_empty(corrected: bool) -> Operator {
    let reconcile = move |_: Arc<Site>, ctx: Context| async move {
        let maps = Maps::of(&ctx);
        maps.put("shop-a", json!({})).await?;
        maps.put("shop-b", json!({})).await?;
        Ok::<_, Error>(Action::await_change())
    };
    let cleanup = move |_: Arc<Site>, ctx: Context| async move {
        let maps = Maps::of(&ctx);
        let list = match maps.list().await {
            Err(_) if !corrected => Vec::new(),
            other => other?,
        };
        for map in list {
            maps.delete(&map.name_any()).await?;
        }
        Ok::<_, Error>(Action::await_change())
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, cleanup))
}

/// Not a bug: it only pauses between two deletions.
pub(crate) fn slow_cleanup(_: bool) -> Operator {
    let reconcile = move |_: Arc<Site>, ctx: Context| async move {
        Maps::of(&ctx).put("shop", json!({})).await?;
        put_secret(&ctx).await?;
        Ok::<_, Error>(Action::await_change())
    };
    let cleanup = move |_: Arc<Site>, ctx: Context| async move {
        Maps::of(&ctx).delete("shop").await?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        delete_secret(&ctx).await?;
        Ok::<_, Error>(Action::await_change())
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, cleanup))
}
