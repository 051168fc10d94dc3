//! Clusters for tests: the real control plane, and the embedded one as a separate process.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Outcome, outcome};

/// Timeout for every wait.
pub const PATIENCE: Duration = Duration::from_secs(120);

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the program: `STEERSMAN_STEER`, or that of this build.
pub fn steer() -> PathBuf {
    std::env::var_os("STEERSMAN_STEER").map_or_else(|| env!("CARGO_BIN_EXE_steer").into(), PathBuf::from)
}

fn shared_charts() -> PathBuf {
    let shared = std::env::var_os("STEERSMAN_SHARED").map_or_else(|| root().join("../shared"), PathBuf::from);
    shared.join("charts")
}

/// Returns the filter for chart names in `STEERSMAN_ONLY`. Default: all.
pub fn only() -> String {
    std::env::var("STEERSMAN_ONLY").unwrap_or_default()
}

/// Asserts that some chart was compared, if charts exist or one was requested.
#[track_caller]
pub fn assert_compared(charts: usize) {
    let (only, place) = (only(), shared_charts());
    assert!(charts > 0 || (only.is_empty() && !place.exists()), "{}: no chart {only:?}", place.display());
}

/// Returns a third-party chart; `None`, with a message, if it does not exist.
pub fn shared_chart(name: &str) -> Option<String> {
    let chart = shared_charts().join(name).join("chart");
    if chart.exists() {
        return Some(chart.display().to_string());
    }
    eprintln!("ABSENT: {} is not there", chart.display());
    None
}

/// Returns a program built by `oracles/kubernetes/build`.
pub fn tool(name: &str) -> PathBuf {
    let build = root().join("oracles/kubernetes/build");
    let built =
        Command::new(&build).arg(name).stderr(Stdio::inherit()).output().expect("the build script runs");
    assert!(built.status.success(), "{} {name} failed", build.display());
    PathBuf::from(String::from_utf8(built.stdout).unwrap().trim())
}

/// A process that is stopped on drop.
pub struct Running(pub Child);

impl Running {
    /// Terminates the process and waits for it, or kills it if it does not exit.
    pub fn stop(&mut self) -> i32 {
        let id = self.0.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &id]).status();
        let begun = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) {
            if begun.elapsed() > PATIENCE {
                eprintln!("{id} does not end and is killed");
                let _ = self.0.kill();
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self.0.wait().ok().and_then(|status| status.code()).unwrap_or(-1)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            self.stop();
        }
    }
}

enum Kind {
    /// Stopped by its own program.
    Real,
    Embedded(Running),
}

/// A cluster that is stopped on drop.
pub struct Plane {
    directory: tempfile::TempDir,
    kind: Kind,
    kubectl: PathBuf,
}

impl Plane {
    /// Starts kube-apiserver with controllers, a scheduler, and simulated nodes.
    pub fn real() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let up = Command::new(root().join("oracles/kubernetes/control-plane"))
            .arg("up")
            .arg(directory.path())
            .arg("--all")
            .stdout(Stdio::null())
            .status()
            .expect("the control plane starts");
        assert!(up.success(), "the control plane does not start");
        Self { directory, kind: Kind::Real, kubectl: tool("kubectl") }
    }

    /// `steer cluster`.
    pub fn embedded() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let kubeconfig = directory.path().join("kubeconfig");
        let log = std::fs::File::create(directory.path().join("log")).unwrap();
        let child = Command::new(steer())
            .args(["cluster", "--nodes", "2", "--kubeconfig"])
            .arg(&kubeconfig)
            .current_dir(directory.path())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let plane = Self { directory, kind: Kind::Embedded(Running(child)), kubectl: tool("kubectl") };
        until("the cluster is there", || kubeconfig.exists().then_some(()));
        plane
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).env_clear().current_dir(self.directory.path()).stdin(Stdio::null());
        command.env("KUBECONFIG", self.kubeconfig()).env("HOME", self.directory.path());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    }

    pub fn run(&self, program: &Path, arguments: &[&str]) -> Outcome {
        outcome(&mut self.command(program, arguments))
    }

    pub fn kubectl(&self, arguments: &[&str]) -> Outcome {
        self.run(&self.kubectl, arguments)
    }

    pub fn kubectl_command(&self, arguments: &[&str]) -> Command {
        self.command(&self.kubectl, arguments)
    }

    /// Returns the output of `kubectl get … -o json`; `None` if the object does not exist.
    pub fn get(&self, arguments: &[&str]) -> Option<Value> {
        let mut words = vec!["get", "-o", "json", "--ignore-not-found"];
        words.extend(arguments);
        let found = self.kubectl(&words).success();
        serde_json::from_str(&found).ok()
    }

    /// Writes a kubeconfig for a service account.
    pub fn kubeconfig_of(&self, namespace: &str, account: &str) -> PathBuf {
        let token = self.kubectl(&["create", "token", account, "-n", namespace]).success();
        let own = self.kubectl(&["config", "view", "--raw", "--minify", "-o", "json"]).success();
        let mut config: Value = serde_json::from_str(&own).unwrap();
        config["users"][0]["user"] = serde_json::json!({ "token": token.trim() });
        let path = self.path(&format!("{account}.kubeconfig"));
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// Returns all applied objects by kind, namespace and name.
    ///
    /// Objects created by controllers are left out, and values that differ between runs are masked.
    pub fn objects(&self) -> BTreeMap<String, Value> {
        const MADE: [&str; 10] = [
            "pods",
            "endpoints",
            "endpointslices.discovery.k8s.io",
            "events",
            "events.events.k8s.io",
            "leases.coordination.k8s.io",
            "replicasets.apps",
            "controllerrevisions.apps",
            "componentstatuses",
            "ipaddresses.networking.k8s.io",
        ];
        let kinds = self.kubectl(&["api-resources", "--verbs=list,delete", "-o", "name"]).success();
        let kinds: Vec<&str> = kinds.lines().filter(|kind| !MADE.contains(kind)).collect();
        let listed = self.kubectl(&["get", &kinds.join(","), "-A", "-o", "json"]).success();
        let listed: Value = serde_json::from_str(&listed).unwrap();
        let items = listed["items"].as_array().cloned().unwrap_or_default();
        let identities: Vec<String> =
            items.iter().filter_map(|item| item["metadata"]["uid"].as_str().map(str::to_owned)).collect();
        items.into_iter().filter(is_asked_for).map(|item| (key(&item), masked(item, &identities))).collect()
    }

    /// Deletes a namespace, and all objects not contained in `before`.
    pub fn tidy(&self, namespace: &str, before: &BTreeMap<String, Value>) {
        self.kubectl(&["delete", "namespace", namespace, "--ignore-not-found", "--timeout=120s"]).success();
        for (key, object) in self.objects() {
            if before.contains_key(&key) {
                continue;
            }
            let kind = object["kind"].as_str().unwrap_or_default();
            let group =
                object["apiVersion"].as_str().and_then(|text| text.split_once('/')).map(|(group, _)| group);
            let kind = group.map_or_else(|| kind.to_owned(), |group| format!("{kind}.{group}"));
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
            self.kubectl(&["delete", &kind, name, "-n", namespace, "--ignore-not-found", "--timeout=60s"])
                .success();
        }
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        if matches!(self.kind, Kind::Real) {
            let down = Command::new(root().join("oracles/kubernetes/control-plane"))
                .arg("down")
                .arg(self.directory.path())
                .stdout(Stdio::null())
                .status();
            if !down.is_ok_and(|status| status.success()) {
                eprintln!("the control plane in {} may still run", self.directory.path().display());
            }
        }
    }
}

/// Polls until `look` returns a value.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "it does not come about that {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn key(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let place = [&object["apiVersion"], &object["kind"], &metadata["namespace"], &metadata["name"]];
    place.map(text).join(" ")
}

fn is_asked_for(object: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array().map_or(&[][..], Vec::as_slice);
    // Objects of a chart operator's release are owned by its object, and count as applied nevertheless.
    let owned = owners.iter().any(|owner| {
        owner["controller"] == true
            && !owner["apiVersion"].as_str().unwrap_or_default().contains("example.com")
    });
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let of_namespace = matches!(
        (object["kind"].as_str(), name),
        (Some("ConfigMap"), "kube-root-ca.crt") | (Some("ServiceAccount"), "default")
    );
    let is_record = object["type"] == "helm.sh/release.v1";
    !owned && !of_namespace && !is_record
}

fn masked(mut object: Value, identities: &[String]) -> Value {
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "selfLink"] {
            metadata.remove(field);
        }
    }
    if object["kind"] == "Service"
        && let Some(spec) = object["spec"].as_object_mut()
    {
        let has = |field: &str| spec.get(field).is_some_and(|value| value != "None");
        if has("clusterIP") {
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
        }
        spec.remove("healthCheckNodePort");
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(port) = port.as_object_mut() {
                port.remove("nodePort");
            }
        }
    }
    replace(&mut object, identities);
    object
}

fn replace(value: &mut Value, identities: &[String]) {
    match value {
        Value::String(text) if identities.contains(text) => *text = "<uid>".into(),
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, identities)),
        Value::Object(map) => map.values_mut().for_each(|item| replace(item, identities)),
        _ => {}
    }
}

/// Returns the first line in which two strings differ.
pub fn first_difference<'a>(left: &'a str, right: &'a str) -> Option<(usize, &'a str, &'a str)> {
    let (mut lefts, mut rights) = (left.split('\n'), right.split('\n'));
    for line in 1.. {
        match (lefts.next(), rights.next()) {
            (None, None) => break,
            (left, right) if left == right => {}
            (left, right) => return Some((line, left.unwrap_or("(end)"), right.unwrap_or("(end)"))),
        }
    }
    None
}

/// Returns the differing objects and fields.
pub fn differences(theirs: &BTreeMap<String, Value>, ours: &BTreeMap<String, Value>) -> Vec<String> {
    let mut found = Vec::new();
    for (key, object) in theirs {
        match ours.get(key) {
            None => found.push(format!("{key}: missing")),
            Some(other) if other != object => {
                for change in steersman_release::changes(object, other) {
                    found.push(format!("{key}: {} {change}", change.path));
                }
                if object["metadata"]["generation"] != other["metadata"]["generation"] {
                    found.push(format!(
                        "{key}: generation {} → {}",
                        object["metadata"]["generation"], other["metadata"]["generation"]
                    ));
                }
            }
            Some(_) => {}
        }
    }
    let surplus = ours.keys().filter(|key| !theirs.contains_key(*key));
    found.extend(surplus.map(|key| format!("{key}: one too many")));
    found
}
