//! MyOwnShell on plain kube-rs. The resource of examples/myownshell, written in the style of kube's own
//! examples.

use std::{sync::Arc, time::Duration};

use futures::StreamExt as _;
use k8s_openapi::{
    api::apps::v1::Deployment,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use kube::{
    Api, Client, CustomResource, Resource as _, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
    runtime::{
        controller::{Action, Config, Controller},
        finalizer::{self, Event, finalizer},
        watcher,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

const MANAGER: &str = "my-first-operator";
const FINALIZER: &str = "myownshell.my-first-operator.jgato.io/finalizer";

#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "my-first-operator.jgato.io",
    version = "v1alpha1",
    kind = "MyOwnShell",
    namespaced,
    status = "MyOwnShellStatus",
    printcolumn = r#"{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}"#,
    printcolumn = r#"{"name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas"}"#
)]
struct MyOwnShellSpec {
    #[schemars(range(min = 0, max = 100))]
    size: i32,
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
struct MyOwnShellStatus {
    ready_replicas: i32,
    conditions: Vec<Condition>,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Kube(#[from] kube::Error),
    #[error(transparent)]
    Finalizer(#[from] Box<finalizer::Error<Error>>),
}

async fn reconcile(shell: Arc<MyOwnShell>, client: Arc<Client>) -> Result<Action, Error> {
    let namespace = shell.namespace().unwrap_or_default();
    let shells: Api<MyOwnShell> = Api::namespaced((*client).clone(), &namespace);
    let deployments: Api<Deployment> = Api::namespaced((*client).clone(), &namespace);
    let result = finalizer(&shells, FINALIZER, shell, |event| async {
        match event {
            Event::Apply(shell) => apply(&shell, &shells, &deployments).await,
            Event::Cleanup(shell) => cleanup(&shell, &deployments).await,
        }
    });
    result.await.map_err(|error| Error::Finalizer(Box::new(error)))
}

async fn apply(
    shell: &MyOwnShell,
    shells: &Api<MyOwnShell>,
    deployments: &Api<Deployment>,
) -> Result<Action, Error> {
    let name = shell.name_any();
    let params = PatchParams::apply(MANAGER).force();
    let labels = json!({"app": "myownshell", "myownshell_cr": name});
    let mut owner = shell.controller_owner_ref(&()).unwrap_or_default();
    owner.block_owner_deletion = Some(true);
    let desired = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "labels": labels, "finalizers": [FINALIZER], "ownerReferences": [owner]},
        "spec": {
            "replicas": shell.spec.size,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{
                    "name": "busybox",
                    "image": "docker.io/library/busybox:1.37",
                    "command": ["sleep", "infinity"],
                }]},
            },
        },
    });
    let deployment = deployments.patch(&name, &params, &Patch::Apply(desired)).await?;
    if deployment.metadata.deletion_timestamp.is_some() {
        release(&name, deployments).await?;
        return Ok(Action::await_change());
    }
    let ready = deployment.status.and_then(|status| status.ready_replicas).unwrap_or_default();
    let mut status = shell.status.clone().unwrap_or_default();
    status.ready_replicas = ready;
    let available = ready == shell.spec.size;
    let (reason, message) = if available {
        ("AllReady", format!("{ready} shells are ready"))
    } else {
        ("Starting", format!("{ready} of {} shells are ready", shell.spec.size))
    };
    let state = if available { "True" } else { "False" };
    let old = status.conditions.iter().find(|condition| condition.status == state);
    let since =
        old.map_or_else(|| Time(Timestamp::now()), |condition| condition.last_transition_time.clone());
    status.conditions = vec![Condition {
        type_: "Available".into(),
        status: state.into(),
        reason: reason.into(),
        message,
        observed_generation: shell.meta().generation,
        last_transition_time: since,
    }];
    if shell.status.as_ref() != Some(&status) {
        let patch =
            json!({"apiVersion": MyOwnShell::api_version(&()), "kind": "MyOwnShell", "status": status});
        shells.patch_status(&name, &params, &Patch::Apply(patch)).await?;
    }
    Ok(Action::await_change())
}

async fn cleanup(shell: &MyOwnShell, deployments: &Api<Deployment>) -> Result<Action, Error> {
    let name = shell.name_any();
    if deployments.get_opt(&name).await?.is_some() {
        deployments.delete(&name, &DeleteParams::background()).await?;
        release(&name, deployments).await?;
    }
    Ok(Action::await_change())
}

async fn release(name: &str, deployments: &Api<Deployment>) -> Result<(), Error> {
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    deployments.patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), kube::Error> {
    let client = Client::try_default().await?;
    let namespace = std::env::var("WATCH_NAMESPACE").unwrap_or_else(|_| "default".into());
    let shells: Api<MyOwnShell> = Api::namespaced(client.clone(), &namespace);
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &namespace);
    Controller::new(shells, watcher::Config::default())
        .owns(deployments, watcher::Config::default())
        .with_config(Config::default().concurrency(16))
        .shutdown_on_signal()
        .run(reconcile, |_, _: &Error, _| Action::requeue(Duration::from_secs(1)), Arc::new(client))
        .for_each(|_| std::future::ready(()))
        .await;
    Ok(())
}
