//! A kube-rs controller against the cluster, written as in kube's documentation.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, Resource as _, ResourceExt as _,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams},
    runtime::{
        Controller,
        controller::Action,
        finalizer::{self, Event, finalizer},
        wait::await_condition,
        watcher,
    },
};
use steersman_cluster::Cluster;

const MANAGER: &str = "keeper";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Kube(#[from] kube::Error),
    #[error(transparent)]
    Finalizer(#[from] Box<finalizer::Error<kube::Error>>),
}

/// Keeps a Secret with the data of a ConfigMap, and leaves a note when the ConfigMap is deleted.
async fn reconcile(source: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, Error> {
    let maps: Api<ConfigMap> = Api::default_namespaced(Client::clone(&client));
    let cleaned = finalizer(&maps, "example.steersman.dev/note", source, |event| async {
        match event {
            Event::Apply(source) => keep(&client, &source).await?,
            Event::Cleanup(source) => {
                let name = format!("gone-{}", source.name_any());
                let note = ConfigMap { metadata: named(&name), ..ConfigMap::default() };
                maps.create(&PostParams::default(), &note).await?;
            }
        }
        Ok(Action::await_change())
    });
    Ok(cleaned.await.map_err(Box::new)?)
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

async fn keep(client: &Client, source: &ConfigMap) -> Result<(), kube::Error> {
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let metadata = ObjectMeta {
        owner_references: Some(source.controller_owner_ref(&()).into_iter().collect()),
        ..named(&source.name_any())
    };
    let secret = Secret { metadata, string_data: source.data.clone(), ..Secret::default() };
    secrets.patch(&source.name_any(), &PatchParams::apply(MANAGER).force(), &Patch::Apply(&secret)).await?;
    Ok(())
}

/// Waits until a Secret satisfies a condition.
async fn until(secrets: &Api<Secret>, name: &str, such: fn(Option<&Secret>) -> bool) {
    let condition = await_condition(secrets.clone(), name, such);
    tokio::time::timeout(Duration::from_secs(20), condition).await.expect("in time").unwrap();
}

fn says(secret: Option<&Secret>, text: &[u8]) -> bool {
    secret.and_then(|s| s.data.as_ref()?.get("text")).is_some_and(|bytes| bytes.0 == text)
}

#[tokio::test]
async fn a_controller_keeps_what_it_owns_and_cleans_up() {
    let cluster = Cluster::start().await.unwrap();
    let client = cluster.client();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let sources = watcher::Config::default().labels("keep=yes");
    let controller = Controller::new(maps.clone(), sources)
        .owns(secrets.clone(), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(50)), Arc::new(client))
        .for_each(|_| std::future::ready(()));
    let running = tokio::spawn(controller);

    let labels = BTreeMap::from([("keep".to_owned(), "yes".to_owned())]);
    let source = ConfigMap {
        metadata: ObjectMeta { labels: Some(labels), ..named("a") },
        data: Some(BTreeMap::from([("text".to_owned(), "one".to_owned())])),
        ..ConfigMap::default()
    };
    maps.create(&PostParams::default(), &source).await.unwrap();
    until(&secrets, "a", |secret| says(secret, b"one")).await;

    let change = serde_json::json!({"data": {"text": "two"}});
    maps.patch("a", &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    until(&secrets, "a", |secret| says(secret, b"two")).await;

    // Deletions and changes by others are reverted.
    secrets.delete("a", &DeleteParams::default()).await.unwrap();
    until(&secrets, "a", |secret| says(secret, b"two")).await;
    let spoil = serde_json::json!({"stringData": {"text": "spoilt"}});
    secrets.patch("a", &PatchParams::default(), &Patch::Merge(spoil)).await.unwrap();
    until(&secrets, "a", |secret| says(secret, b"two")).await;

    maps.delete("a", &DeleteParams::default()).await.unwrap();
    until(&secrets, "a", |secret| secret.is_none()).await;
    assert!(maps.get_opt("a").await.unwrap().is_none());
    assert!(maps.get_opt("gone-a").await.unwrap().is_some());
    running.abort();
}
