//! The objects of the cluster and their readiness, as `steer dev` shows them.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DynamicObject, ListParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use steersman_cluster::Cluster;
use steersman_helm_operator::WatchConfig;
use steersman_release::{Kind, Kinds, Readiness, pod_failure, readiness};

use super::events::{self, EventLine};
use crate::failure::{Failure, Result};

/// A watched object, or one that belongs to it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    /// Kind and name.
    pub(super) title: String,
    /// How it stands, in a word or two.
    pub(super) state: String,
    /// More about that.
    pub(super) detail: String,
    pub(super) ready: bool,
    /// How many replicas a watched object asks for, if it says so.
    pub(super) replicas: Option<i64>,
    /// What belongs to it.
    pub(super) children: Vec<Seen>,
}

/// All that there is to see.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Scene {
    pub(super) objects: Vec<Seen>,
    /// Oldest first.
    pub(super) events: Vec<EventLine>,
    /// What the operator's role does not allow it, though it tried.
    pub(super) denied: Vec<String>,
}

/// Looks at the watched kinds.
pub(super) struct View {
    client: Client,
    kinds: Kinds,
    watched: Vec<(Kind, WatchConfig)>,
    cluster: Cluster,
    /// Whom the operator runs as, if not as administrator.
    user: Option<String>,
}

impl View {
    pub(super) async fn new(
        client: Client,
        watches: Vec<WatchConfig>,
        cluster: Cluster,
        user: Option<String>,
    ) -> Result<Self> {
        let kinds = Kinds::new(client.clone());
        let mut watched = Vec::new();
        for watch in watches {
            watched.push((kinds.find(&watch.api_version(), &watch.kind).await?, watch));
        }
        Ok(Self { client, kinds, watched, cluster, user })
    }

    /// Everything that is watched, with what belongs to it and what happened to it.
    pub(super) async fn look(&self) -> Result<Scene> {
        let objects = self.objects().await?;
        let events = events::events(&self.client, &objects).await?;
        let denied = self.user.as_ref().map(|user| events::denied(&self.cluster, user)).unwrap_or_default();
        Ok(Scene { objects, events, denied })
    }

    async fn objects(&self) -> Result<Vec<Seen>> {
        let mut seen = Vec::new();
        for (kind, watch) in &self.watched {
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind.resource);
            let list =
                api.list(&ListParams::default()).await.map_err(|error| Failure::new(error.to_string()))?;
            for object in list.items {
                seen.push(self.look_at(&object, watch).await?);
            }
        }
        Ok(seen)
    }

    async fn look_at(&self, object: &DynamicObject, watch: &WatchConfig) -> Result<Seen> {
        let title = format!("{}/{}", watch.kind, object.name_any());
        let status = object.data.get("status").cloned().unwrap_or_default();
        let condition = |kind: &str| {
            let conditions = status.get("conditions").and_then(Value::as_array)?;
            conditions.iter().find(|one| one.get("type").and_then(Value::as_str) == Some(kind)).cloned()
        };
        let is_true = |one: &Option<Value>| {
            one.as_ref().and_then(|one| one.get("status")).and_then(Value::as_str) == Some("True")
        };
        let message = |one: &Option<Value>| {
            let text = |key: &str| {
                one.as_ref().and_then(|one| one.get(key)).and_then(Value::as_str).unwrap_or_default()
            };
            format!("{}: {}", text("reason"), text("message"))
        };
        let ready = condition("Ready");
        let (failed, stuck) = (condition("ReleaseFailed"), condition("Irreconcilable"));
        let revision = status.get("history").and_then(Value::as_array).and_then(|history| {
            let deployed =
                history.iter().rfind(|entry| entry.get("status").and_then(Value::as_str) == Some("deployed"));
            deployed.and_then(|entry| entry.get("revision")).and_then(Value::as_i64)
        });
        let name = status.pointer("/deployedRelease/name").and_then(Value::as_str);
        let release = match (name, revision) {
            (Some(name), Some(revision)) => format!("release {name}, revision {revision}"),
            (Some(name), None) => format!("release {name}"),
            _ => String::new(),
        };
        let (state, detail) = if is_true(&failed) {
            ("ReleaseFailed", message(&failed))
        } else if is_true(&stuck) {
            ("Irreconcilable", message(&stuck))
        } else if is_true(&ready) {
            ("Ready", release)
        } else if ready.is_some() {
            ("NotReady", message(&ready))
        } else {
            ("Pending", "the operator has not seen it yet".to_owned())
        };
        let manifest =
            status.pointer("/deployedRelease/manifest").and_then(Value::as_str).unwrap_or_default();
        let namespace = object.namespace().unwrap_or_else(|| "default".into());
        let namespace =
            status.pointer("/deployedRelease/namespace").and_then(Value::as_str).unwrap_or(&namespace);
        let children = self.children(manifest, namespace).await?;
        let replicas = object.data.pointer("/spec/replicaCount").and_then(Value::as_i64);
        Ok(Seen { title, state: state.into(), detail, ready: is_true(&ready), replicas, children })
    }

    async fn children(&self, manifest: &str, namespace: &str) -> Result<Vec<Seen>> {
        let mut seen = Vec::new();
        for object in steersman_release::parse_known(manifest, namespace, &self.kinds).await? {
            let title = format!("{}/{}", object.id.kind, object.id.name);
            let live = object.api(&self.client).get_opt(&object.id.name).await;
            let live = live.map_err(|error| Failure::new(error.to_string()))?;
            let Some(live) = live else {
                let state = "gone".to_owned();
                seen.push(Seen {
                    title,
                    state,
                    detail: String::new(),
                    ready: false,
                    replicas: None,
                    children: Vec::new(),
                });
                continue;
            };
            let mut live = json!(live);
            live["apiVersion"] = json!(object.kind.resource.api_version);
            live["kind"] = json!(object.id.kind);
            let standing = readiness(&live, true);
            let (state, detail) = describe(&live, &standing);
            let children = self.pods(&live, &object.id.namespace).await?;
            let ready = standing.is_ready();
            seen.push(Seen { title, state, detail, ready, replicas: None, children });
        }
        Ok(seen)
    }

    async fn pods(&self, owner: &Value, namespace: &str) -> Result<Vec<Seen>> {
        let Some(labels) = owner.pointer("/spec/template/metadata/labels").and_then(Value::as_object) else {
            return Ok(Vec::new());
        };
        let labels: Vec<String> =
            labels.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let found = api.list(&ListParams::default().labels(&labels.join(","))).await;
        let found = found.map_err(|error| Failure::new(error.to_string()))?;
        let seen = found.items.iter().map(|pod| {
            let content = json!(pod);
            let part = |pointer: &str| {
                content.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            let going = pod.metadata.deletion_timestamp.is_some();
            let state = if going { "Terminating".to_owned() } else { part("/status/phase") };
            let node = part("/spec/nodeName");
            let place = if node.is_empty() { String::new() } else { format!("on {node}") };
            Seen {
                title: format!("Pod/{}", pod.name_any()),
                ready: state == "Running" || state == "Succeeded",
                state,
                detail: pod_failure(&content).unwrap_or(place),
                replicas: None,
                children: Vec::new(),
            }
        });
        Ok(seen.collect())
    }
}

fn describe(live: &Value, standing: &Readiness) -> (String, String) {
    let number = |pointer: &str| live.pointer(pointer).and_then(Value::as_i64);
    let text = |pointer: &str| live.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let detail = match standing {
        Readiness::Ready => String::new(),
        Readiness::Waiting(what) | Readiness::Failed(what) => what.clone(),
    };
    match text("/kind") {
        "Deployment" | "StatefulSet" | "ReplicaSet" => {
            let ready = number("/status/readyReplicas").unwrap_or(0);
            (format!("{ready}/{}", number("/spec/replicas").unwrap_or(1)), detail)
        }
        "Service" => {
            let ports = live.pointer("/spec/ports").and_then(Value::as_array);
            let port = |port: &Value| {
                let own = port.get("port").and_then(Value::as_i64).unwrap_or(0);
                match port.get("nodePort").and_then(Value::as_i64) {
                    Some(node) => format!("{own}:{node}"),
                    None => own.to_string(),
                }
            };
            let ports: Vec<String> = ports.into_iter().flatten().map(port).collect();
            (text("/spec/type").to_owned(), ports.join(" "))
        }
        _ => (String::new(), detail),
    }
}
