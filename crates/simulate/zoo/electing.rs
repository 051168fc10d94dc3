//! Mistakes with leader election.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    runtime::controller::Action as KubeAction,
};
use serde_json::json;
use steersman::{Action, BoxError, Context, Controller, Error, LeaderElection, Result};
use tokio::time::Instant;

use crate::{
    making::clean_up,
    site::{FINALIZER, Maps, Site, is_conflict, operator},
    unmaking::{Shared, on_plain_kube},
};

/// Lease duration and retry period, as in client-go.
const LEASE: Duration = Duration::from_secs(15);
const RETRY: Duration = Duration::from_secs(2);

/// Elects a leader once, and keeps writing after another replica has acquired the lease.
pub(crate) fn deposed_leader_writes(
    corrected: bool,
    client: Client,
) -> BoxFuture<'static, Result<(), BoxError>> {
    if corrected {
        let reconcile = |site: Arc<Site>, ctx: Context| async move {
            Maps::of(&ctx).put("shop", json!({"color": site.spec.color})).await?;
            Ok::<_, Error>(Action::await_change())
        };
        let controller = Controller::of::<Site>(reconcile).finalizer(FINALIZER, clean_up);
        let operator = operator(controller).leader_election(LeaderElection::new("zoo").namespace("default"));
        return Box::pin(async move { Ok(operator.run_until(client, std::future::pending()).await?) });
    }
    Box::pin(async move {
        let leases: Api<Lease> = Api::default_namespaced(client.clone());
        lead(&leases).await?;
        let renewing = async {
            loop {
                tokio::time::sleep(RETRY).await;
                // The mistaken assumption: no other replica can hold the lease, as this one was elected.
                let renewed = json!({"spec": {"leaseTransitions": fastrand::i32(1..)}});
                let _ = leases.patch("zoo", &PatchParams::default(), &Patch::Merge(renewed)).await;
            }
        };
        tokio::select! {
            () = renewing => Ok(()),
            ended = on_plain_kube(client, corrected, reconcile) => ended,
        }
    })
}

async fn reconcile(site: Arc<Site>, shared: Arc<Shared>) -> Result<KubeAction> {
    let maps = shared.maps(&site);
    if site.metadata.deletion_timestamp.is_some() {
        maps.delete_all().await?;
        shared.set_finalizers(&site, &[]).await?;
        return Ok(KubeAction::await_change());
    }
    shared.set_finalizers(&site, &[FINALIZER]).await?;
    maps.put("shop", json!({"color": site.spec.color})).await?;
    Ok(KubeAction::await_change())
}

/// Waits until the lease can be created or has expired, and acquires it.
async fn lead(leases: &Api<Lease>) -> Result<(), kube::Error> {
    let (mut seen, mut since) = (None, Instant::now());
    loop {
        let lease = serde_json::from_value(json!({"metadata": {"name": "zoo"}})).unwrap();
        match leases.create(&PostParams::default(), &lease).await {
            Err(error) if is_conflict(&error) => {}
            other => return other.map(drop),
        }
        let live = leases.get("zoo").await?;
        if seen != live.metadata.resource_version {
            (seen, since) = (live.metadata.resource_version.clone(), Instant::now());
        }
        if since.elapsed() > LEASE {
            let mut taken = live;
            taken.spec.get_or_insert_default().lease_transitions = Some(fastrand::i32(1..));
            match leases.replace("zoo", &PostParams::default(), &taken).await {
                Err(error) if is_conflict(&error) => {}
                other => return other.map(drop),
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}
