//! Bugs in how operators create and update objects.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicI32, Ordering::SeqCst},
};
use std::time::Duration;

use kube::ResourceExt as _;
use serde_json::json;
use steersman::{Action, Context, Controller, Error, Operator, Result};

use crate::site::{FINALIZER, Maps, Site, SiteStatus, is_conflict, operator, unwatched};

pub(crate) async fn clean_up(_: Arc<Site>, ctx: Context) -> Result<Action> {
    Maps::of(&ctx).delete_all().await?;
    Ok(Action::await_change())
}

pub(crate) fn status(site: &Site) -> SiteStatus {
    site.status.clone().unwrap_or_default()
}

/// Reports completion in the status before the work is done.
pub(crate) fn status_as_memory(corrected: bool) -> Operator {
    let reconcile = move |site: Arc<Site>, ctx: Context| async move {
        let done = SiteStatus { phase: "Created".into(), ..status(&site) };
        if !corrected {
            if status(&site).phase == "Created" {
                return Ok(Action::await_change());
            }
            ctx.update_status(&done).await?;
        }
        Maps::of(&ctx).put("shop", json!({})).await?;
        if corrected {
            ctx.update_status(&done).await?;
        }
        Ok::<_, Error>(Action::await_change())
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, clean_up))
}

/// Keeps the objects of every colour that a site ever had.
///
/// No fault is needed to find that, so it is not an exhibit of the zoo.
pub(crate) fn hoarder(_: bool) -> Operator {
    let reconcile = move |site: Arc<Site>, ctx: Context| async move {
        Maps::of(&ctx).put(&format!("shop-{}", site.spec.color), json!({})).await?;
        Ok::<_, Error>(Action::await_change())
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, clean_up))
}

/// Does not handle an object that it has already created.
pub(crate) fn create_without_adoption(corrected: bool) -> Operator {
    let reconcile = move |site: Arc<Site>, ctx: Context| async move {
        let maps = Maps::of(&ctx);
        if status(&site).phase != "Ready" || corrected {
            match maps.create("shop", json!({})).await {
                Err(error) if is_conflict(&error) && corrected => {}
                other => other?,
            }
        }
        ctx.update_status(&SiteStatus { phase: "Ready".into(), ..status(&site) }).await?;
        Ok::<_, Error>(Action::await_change())
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, clean_up))
}

/// Creates a second object if it does not learn the generated name of the first.
pub(crate) fn generated_twice(corrected: bool) -> Operator {
    let reconcile = move |site: Arc<Site>, ctx: Context| async move {
        let maps = Maps::of(&ctx);
        let missing = if corrected { maps.list().await?.is_empty() } else { status(&site).made == 0 };
        if missing {
            maps.generate("shop-").await?;
        }
        ctx.update_status(&SiteStatus { made: 1, ..status(&site) }).await?;
        Ok::<_, Error>(Action::await_change())
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, clean_up))
}

/// Increments a migration counter, then records that the migration is done.
pub(crate) fn repeated_migration(corrected: bool) -> Operator {
    let reconcile = move |site: Arc<Site>, ctx: Context| async move {
        let maps = Maps::of(&ctx);
        let color = site.spec.color.clone();
        if corrected {
            let version = if color == "red" { "1" } else { "2" };
            maps.put("shop", json!({"version": version})).await?;
        } else if status(&site).color != color {
            let version: i32 =
                maps.value("shop", "version").await?.and_then(|text| text.parse().ok()).unwrap_or(0);
            maps.put("shop", json!({"version": (version + 1).to_string()})).await?;
        }
        ctx.update_status(&SiteStatus { color, ..status(&site) }).await?;
        Ok::<_, Error>(Action::await_change())
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, clean_up))
}

/// Creates as many objects as are missing by its own count.
pub(crate) fn double_scale_up(corrected: bool) -> Operator {
    let reconcile = move |site: Arc<Site>, ctx: Context| async move {
        let maps = Maps::of(&ctx);
        let there = if corrected {
            maps.list().await?.len()
        } else {
            usize::try_from(status(&site).made).unwrap_or(0)
        };
        for _ in there..usize::try_from(site.spec.size).unwrap_or(0) {
            maps.generate("shop-").await?;
        }
        ctx.update_status(&SiteStatus { made: site.spec.size, ..status(&site) }).await?;
        Ok::<_, Error>(Action::await_change())
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, clean_up))
}

/// Interprets a conflict as another worker having done the work.
pub(crate) fn conflict_taken_for_done(corrected: bool) -> Operator {
    let reconcile = move |site: Arc<Site>, ctx: Context| async move {
        match Maps::of(&ctx).put("shop", json!({"color": site.spec.color})).await {
            Err(error) if is_conflict(&error) && !corrected => {}
            other => other?,
        }
        Ok::<_, Error>(Action::await_change())
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, clean_up))
}

/// Logs an error and continues.
pub(crate) fn swallowed_error(corrected: bool) -> Operator {
    let reconcile = move |site: Arc<Site>, ctx: Context| async move {
        let put = Maps::of(&ctx).put("shop", json!({"color": site.spec.color})).await;
        if corrected {
            put?;
        }
        Ok::<_, Error>(Action::await_change())
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, clean_up))
}

/// Remembers in memory what it has created.
pub(crate) fn memory_of_the_process(corrected: bool) -> Operator {
    let made = Arc::new(Mutex::new(String::new()));
    let reconcile = move |site: Arc<Site>, ctx: Context| {
        let made = Arc::clone(&made);
        async move {
            let wanted = format!("{:?}", (&site.spec, site.uid()));
            if corrected || *made.lock().unwrap() != wanted {
                Maps::of(&ctx).put("shop", json!({"color": site.spec.color})).await?;
                *made.lock().unwrap() = wanted;
            }
            Ok::<_, Error>(Action::await_change())
        }
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, clean_up))
}

/// Adds the difference to the size that the process saw last.
pub(crate) fn edge_triggered_delta(corrected: bool) -> Operator {
    let seen = Arc::new(AtomicI32::new(0));
    let forget = Arc::clone(&seen);
    let reconcile = move |site: Arc<Site>, ctx: Context| {
        let seen = Arc::clone(&seen);
        async move {
            let maps = Maps::of(&ctx);
            let size = site.spec.size;
            let total = if corrected {
                size
            } else {
                let before =
                    maps.value("shop", "total").await?.and_then(|text| text.parse().ok()).unwrap_or(0);
                before + size - seen.load(SeqCst)
            };
            maps.put("shop", json!({"total": total.to_string()})).await?;
            seen.store(size, SeqCst);
            Ok::<_, Error>(Action::await_change())
        }
    };
    let cleanup = move |site: Arc<Site>, ctx: Context| {
        forget.store(0, SeqCst);
        clean_up(site, ctx)
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, cleanup))
}

/// Records what it has observed before it acts on it, and acts only on changes.
pub(crate) fn observed_before_applied(corrected: bool) -> Operator {
    let reconcile = move |site: Arc<Site>, ctx: Context| async move {
        let maps = Maps::of(&ctx);
        let color = site.spec.color.clone();
        let observed = SiteStatus { color: color.clone(), ..status(&site) };
        let is_new = status(&site).color != color;
        if !corrected {
            ctx.update_status(&observed).await?;
        }
        if is_new || maps.get("shop").await?.is_none() || corrected {
            maps.put("shop", json!({"color": color})).await?;
        }
        ctx.update_status(&observed).await?;
        Ok::<_, Error>(Action::await_change())
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, clean_up))
}

/// Concludes from the first of several objects that all exist.
pub(crate) fn first_stands_for_all(corrected: bool) -> Operator {
    let reconcile = move |_: Arc<Site>, ctx: Context| async move {
        let maps = Maps::of(&ctx);
        if corrected || maps.get("shop-0").await?.is_none() {
            for index in 0..3 {
                maps.put(&format!("shop-{index}"), json!({})).await?;
            }
        }
        Ok::<_, Error>(Action::await_change())
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, clean_up))
}

/// Mistakes its own lock for that of another worker.
pub(crate) fn abandoned_lock(corrected: bool) -> Operator {
    let reconcile = move |site: Arc<Site>, ctx: Context| async move {
        let maps = Maps::of(&ctx);
        if status(&site).phase == "Ready" && !corrected {
            return Ok(Action::await_change());
        }
        match maps.create("lock", json!({})).await {
            // The runtime guarantees that the twin runs alone, so an existing lock is its own.
            Err(error) if is_conflict(&error) => {
                if !corrected {
                    return Ok(Action::await_change());
                }
            }
            other => other?,
        }
        maps.put("shop", json!({})).await?;
        ctx.update_status(&SiteStatus { phase: "Ready".into(), ..status(&site) }).await?;
        Ok::<_, Error>(Action::await_change())
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, clean_up))
}

/// Tries another name when the result of the first create is unknown.
pub(crate) fn new_name_after_timeout(corrected: bool) -> Operator {
    let reconcile = move |_: Arc<Site>, ctx: Context| async move {
        let maps = Maps::of(&ctx);
        if maps.list().await?.is_empty() {
            match maps.create("shop", json!({})).await {
                Err(_) if !corrected => maps.create("shop-retry", json!({})).await?,
                other => other?,
            }
        }
        Ok::<_, Error>(Action::await_change())
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, clean_up))
}

/// Assumes that an object that it created exists.
pub(crate) fn panic_on_missing(corrected: bool) -> Operator {
    let reconcile = move |site: Arc<Site>, ctx: Context| async move {
        let maps = Maps::of(&ctx);
        if corrected || status(&site).phase != "Ready" {
            maps.put("shop", json!({})).await?;
        } else {
            let map = maps.get("shop").await?;
            assert!(map.is_some(), "the config map is there");
        }
        ctx.update_status(&SiteStatus { phase: "Ready".into(), ..status(&site) }).await?;
        Ok::<_, Error>(Action::await_change())
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, clean_up))
}

/// Retries without backoff once something has failed.
pub(crate) fn hot_loop_after_error(corrected: bool) -> Operator {
    let failed = Arc::new(AtomicBool::new(false));
    let reconcile = move |site: Arc<Site>, ctx: Context| {
        let failed = Arc::clone(&failed);
        async move {
            let maps = Maps::of(&ctx);
            let put = maps.put("shop", json!({"color": site.spec.color})).await;
            if corrected {
                put?;
                return Ok(Action::await_change());
            }
            failed.fetch_or(put.is_err(), SeqCst);
            if failed.load(SeqCst) {
                maps.get("shop").await?;
                return Ok(Action::requeue(Duration::from_millis(20)));
            }
            Ok::<_, Error>(Action::await_change())
        }
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, clean_up))
}

/// Counts its starts in the status.
pub(crate) fn writes_on_every_start(corrected: bool) -> Operator {
    let first = Arc::new(AtomicBool::new(true));
    let reconcile = move |site: Arc<Site>, ctx: Context| {
        let first = Arc::clone(&first);
        async move {
            Maps::of(&ctx).put("shop", json!({})).await?;
            if first.swap(false, SeqCst) && !corrected {
                ctx.update_status(&SiteStatus { made: status(&site).made + 1, ..status(&site) }).await?;
            }
            Ok::<_, Error>(Action::await_change())
        }
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, clean_up))
}

/// Appends to a history what is new to the process.
///
/// Corrected, it records only what follows from the spec: no operator sees every colour that a site has had.
pub(crate) fn history_repeats(corrected: bool) -> Operator {
    let last = Arc::new(Mutex::new(String::new()));
    let reconcile = move |site: Arc<Site>, ctx: Context| {
        let last = Arc::clone(&last);
        async move {
            let maps = Maps::of(&ctx);
            let color = site.spec.color.clone();
            if corrected {
                maps.put("shop", json!({"color": color})).await?;
                return Ok(Action::await_change());
            }
            let history = maps.value("shop", "history").await?.unwrap_or_default();
            let is_new = *last.lock().unwrap() != color;
            if is_new {
                maps.put("shop", json!({"history": format!("{history},{color}")})).await?;
                *last.lock().unwrap() = color;
            }
            Ok::<_, Error>(Action::await_change())
        }
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, clean_up))
}

/// Replaces an object by deleting and recreating it, and respects that a user has deleted it.
pub(crate) fn replaced_by_delete_and_create(corrected: bool) -> Operator {
    let reconcile = move |site: Arc<Site>, ctx: Context| async move {
        let maps = Maps::of(&ctx);
        let color = json!({"color": site.spec.color});
        let there = maps.value("shop", "color").await?;
        let ready = status(&site).phase == "Ready";
        match there {
            Some(there) if there == site.spec.color => {}
            Some(_) => {
                maps.delete("shop").await?;
                maps.create("shop", color).await?;
            }
            None if ready && !corrected => {}
            None => maps.create("shop", color).await?,
        }
        ctx.update_status(&SiteStatus { phase: "Ready".into(), ..status(&site) }).await?;
        Ok::<_, Error>(Action::await_change())
    };
    operator(Controller::of::<Site>(reconcile).finalizer(FINALIZER, clean_up))
}

/// Does not watch the object that it created.
pub(crate) fn unwatched_child(corrected: bool) -> Operator {
    let reconcile = move |site: Arc<Site>, ctx: Context| async move {
        Maps::of(&ctx).put("shop", json!({"color": site.spec.color})).await?;
        Ok::<_, Error>(Action::await_change())
    };
    let controller = Controller::of::<Site>(reconcile).finalizer(FINALIZER, clean_up);
    if corrected { operator(controller) } else { unwatched(controller) }
}

/// Adopts what an earlier object of the same name left behind.
pub(crate) fn uid_ignored(corrected: bool) -> Operator {
    let reconcile = move |site: Arc<Site>, ctx: Context| async move {
        let maps = Maps::of(&ctx);
        let uid = site.uid().unwrap_or_default();
        let there = maps.value("shop", "uid").await?;
        let is_mine = if corrected { there.as_deref() == Some(&uid) } else { there.is_some() };
        if !is_mine {
            maps.put("shop", json!({"uid": uid})).await?;
        }
        Ok::<_, Error>(Action::await_change())
    };
    // Nothing is cleaned up: the next site of the same name takes it over.
    operator(Controller::of::<Site>(reconcile))
}
