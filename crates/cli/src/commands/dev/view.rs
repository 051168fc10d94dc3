//! What there is in the cluster, for people.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DynamicObject, ListParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use steersman_helm_operator::WatchConfig;
use steersman_release::{Kind, Kinds, Readiness, pod_trouble, readiness};

use super::Format;
use crate::failure::{Failure, Result};

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Yellow.on_default();
const QUIET: Style = AnsiColor::BrightBlack.on_default();

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
    /// What belongs to it.
    pub(super) children: Vec<Seen>,
}

/// Looks at the watched kinds.
pub(super) struct View {
    client: Client,
    kinds: Kinds,
    watched: Vec<(Kind, WatchConfig)>,
}

impl View {
    pub(super) async fn new(client: Client, watches: Vec<WatchConfig>) -> Result<Self> {
        let kinds = Kinds::new(client.clone());
        let mut watched = Vec::new();
        for watch in watches {
            watched.push((kinds.find(&watch.api_version(), &watch.kind).await?, watch));
        }
        Ok(Self { client, kinds, watched })
    }

    /// Everything that is watched, with what belongs to it.
    pub(super) async fn look(&self) -> Result<Vec<Seen>> {
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
        Ok(Seen { title, state: state.into(), detail, ready: is_true(&ready), children })
    }

    async fn children(&self, manifest: &str, namespace: &str) -> Result<Vec<Seen>> {
        let mut seen = Vec::new();
        for object in steersman_release::parse_known(manifest, namespace, &self.kinds).await? {
            let title = format!("{}/{}", object.id.kind, object.id.name);
            let live = object.api(&self.client).get_opt(&object.id.name).await;
            let live = live.map_err(|error| Failure::new(error.to_string()))?;
            let Some(live) = live else {
                let state = "gone".to_owned();
                seen.push(Seen { title, state, detail: String::new(), ready: false, children: Vec::new() });
                continue;
            };
            let mut live = json!(live);
            live["apiVersion"] = json!(object.kind.resource.api_version);
            live["kind"] = json!(object.id.kind);
            let standing = readiness(&live, true);
            let (state, detail) = describe(&live, &standing);
            let children = self.pods(&live, &object.id.namespace).await?;
            seen.push(Seen { title, state, detail, ready: standing.is_ready(), children });
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
                detail: pod_trouble(&content).unwrap_or(place),
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

/// Where the view is shown.
pub(super) struct Screen {
    format: Format,
    /// How many lines the last picture had.
    lines: usize,
    /// What was said last of each object.
    said: BTreeMap<String, (String, String)>,
}

impl Screen {
    pub(super) fn new(format: Format) -> Self {
        Self { format, lines: 0, said: BTreeMap::new() }
    }

    /// Shows what there is; nothing if it is as before.
    pub(super) fn show(&mut self, objects: &[Seen]) {
        match self.format {
            Format::Live => self.draw(objects),
            Format::Plain | Format::Json => {
                let mut current = BTreeMap::new();
                for object in objects {
                    self.tell(object, &mut current);
                }
                let gone: Vec<String> =
                    self.said.keys().filter(|title| !current.contains_key(*title)).cloned().collect();
                for title in gone {
                    self.line(&title, "gone", "");
                }
                self.said = current;
            }
        }
    }

    /// The last picture, and what to try.
    pub(super) fn finish(&self, objects: &[Seen], spent: Duration) {
        match self.format {
            Format::Live => {}
            Format::Plain => {
                let _ = write!(anstream::stdout(), "\n{}", picture(objects));
            }
            Format::Json => return,
        }
        let seconds = spent.as_secs_f64();
        let _ = writeln!(anstream::stdout(), "\n ready after {seconds:.1} s, from nothing");
    }

    fn tell(&self, object: &Seen, current: &mut BTreeMap<String, (String, String)>) {
        let now = (object.state.clone(), object.detail.clone());
        if self.said.get(&object.title) != Some(&now) {
            self.line(&object.title, &now.0, &now.1);
        }
        current.insert(object.title.clone(), now);
        for child in &object.children {
            self.tell(child, current);
        }
    }

    fn line(&self, title: &str, state: &str, detail: &str) {
        let mut out = anstream::stdout();
        let _ = if self.format == Format::Json {
            writeln!(out, "{}", json!({ "object": title, "state": state, "detail": detail }))
        } else {
            writeln!(out, "{}", format!("{title:<44} {state:<12} {detail}").trim_end())
        };
    }

    fn draw(&mut self, objects: &[Seen]) {
        let mut picture = format!("\n{}", picture(objects));
        picture.push_str(&tries(objects));
        let mut out = anstream::stdout();
        if self.lines > 0 {
            let _ = write!(out, "\x1b[{}A\x1b[J", self.lines);
        }
        self.lines = picture.lines().count();
        let _ = writeln!(out, "{}", picture.trim_end_matches('\n'));
    }
}

fn tries(objects: &[Seen]) -> String {
    let Some(first) = objects.first() else { return String::new() };
    let Some((kind, name)) = first.title.split_once('/') else { return String::new() };
    let kind = kind.to_lowercase();
    let mut text = format!("\n Try   kubectl get {kind} {name} -o yaml\n");
    if let Some(child) = first.children.iter().find(|child| child.title.starts_with("Deployment/")) {
        let deployment = child.title.trim_start_matches("Deployment/");
        text.push_str(&format!(
            "       kubectl patch {kind} {name} --type merge -p '{{\"spec\":{{\"replicaCount\":3}}}}'\n       kubectl \
             delete deployment {deployment}        (watch it come back)\n"
        ));
    }
    text.push_str("       Ctrl-C ends it.\n");
    text
}

fn picture(objects: &[Seen]) -> String {
    let mut text = String::new();
    for object in objects {
        row(&mut text, " ", &object.title, object);
        branches(&mut text, " ", &object.children);
    }
    text
}

fn branches(text: &mut String, margin: &str, children: &[Seen]) {
    for (index, child) in children.iter().enumerate() {
        let last = index + 1 == children.len();
        let joint = if last { "└─ " } else { "├─ " };
        row(text, margin, &format!("{joint}{}", child.title), child);
        let deeper = format!("{margin}{}", if last { "   " } else { "│  " });
        branches(text, &deeper, &child.children);
    }
}

fn row(text: &mut String, margin: &str, title: &str, object: &Seen) {
    let style = if object.ready { GOOD } else { BAD };
    let width = 44usize.saturating_sub(margin.chars().count());
    let line = match (object.state.as_str(), object.detail.as_str()) {
        ("", "") => format!("{margin}{title}"),
        (state, "") => format!("{margin}{title:<width$} {style}{state}{style:#}"),
        (state, detail) => {
            format!("{margin}{title:<width$} {style}{state:<10}{style:#} {QUIET}{detail}{QUIET:#}")
        }
    };
    text.push_str(&line);
    text.push('\n');
}
