//! The clusters, and the Minimarts on them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::Process;

/// The timeout for all releases to be installed or uninstalled.
const PATIENCE: Duration = Duration::from_secs(900);
/// The polling interval.
const LOOK: Duration = Duration::from_millis(500);

enum Kind {
    Real,
    Embedded(Process),
}

/// A cluster that is stopped on drop.
pub(crate) struct Cluster {
    directory: tempfile::TempDir,
    root: PathBuf,
    kubectl: PathBuf,
    kind: Kind,
}

impl Cluster {
    /// Starts a real control plane, with all of its controllers and simulated nodes.
    pub(crate) fn real(root: &Path) -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let kubectl = built(root, "kubectl")?;
        let mut up = Command::new(root.join("oracles/kubernetes/control-plane"));
        run(up.arg("up").arg(directory.path()).arg("--all"))?;
        Self { directory, root: root.to_owned(), kubectl, kind: Kind::Real }.prepared()
    }

    /// Starts `steer cluster`.
    pub(crate) fn embedded(root: &Path, steer: &Path) -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let kubectl = built(root, "kubectl")?;
        let kubeconfig = directory.path().join("kubeconfig");
        let mut command = Command::new(steer);
        command.args(["cluster", "--nodes", "30", "--kubeconfig"]).arg(&kubeconfig);
        let process = Process::start(&mut command, &directory.path().join("cluster.log"))?;
        let begun = Instant::now();
        while !kubeconfig.exists() {
            if begun.elapsed() > Duration::from_secs(30) {
                return Err("the embedded cluster does not start".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Self { directory, root: root.to_owned(), kubectl, kind: Kind::Embedded(process) }.prepared()
    }

    fn prepared(self) -> Result<Self, String> {
        let definitions = self.root.join("examples/minimart/config/crd/bases");
        self.ask(&["apply", "-f", &definitions.display().to_string()])?;
        self.ask(&[
            "wait",
            "--for=condition=Established",
            "crd",
            "minimarts.charts.samutup.com",
            "--timeout=60s",
        ])?;
        Ok(self)
    }

    /// Returns the process of the embedded cluster.
    pub(crate) fn process(&self) -> Option<&Process> {
        match &self.kind {
            Kind::Embedded(process) => Some(process),
            Kind::Real => None,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Configures an operator's access to the cluster.
    pub(crate) fn environment(&self, command: &mut Command) {
        command.env("KUBECONFIG", self.path("kubeconfig")).current_dir(self.directory.path());
    }

    fn ask(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.kubectl);
        command.args(arguments).env("HOME", self.directory.path());
        self.environment(&mut command);
        run(&mut command)
    }

    /// Creates a number of Minimarts in a namespace.
    pub(crate) fn create(&self, namespace: &str, count: usize) -> Result<(), String> {
        let place = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        let shop = |number: usize| {
            json!({
                "apiVersion": "charts.samutup.com/v1alpha1", "kind": "Minimart",
                "metadata": { "name": format!("shop-{number}"), "namespace": namespace },
                "spec": { "replicaCount": 1, "shop": { "name": format!("Shop {number}") } },
            })
        };
        let items: Vec<Value> = std::iter::once(place).chain((0..count).map(shop)).collect();
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
        let file = self.path("shops.json");
        std::fs::write(&file, list.to_string()).map_err(|error| error.to_string())?;
        self.ask(&["create", "-f", &file.display().to_string()]).map(|_| ())
    }

    /// Waits until all Minimarts of a namespace have a condition.
    pub(crate) fn wait(&self, namespace: &str, count: usize, condition: &str) -> Result<(), String> {
        let begun = Instant::now();
        let path = format!(
            "{{range .items[*]}}{{.status.conditions[?(@.type==\"{condition}\")].status}}{{\"\\n\"}}{{end}}"
        );
        loop {
            let found =
                self.ask(&["get", "minimarts", "-n", namespace, "-o", &format!("jsonpath={path}")])?;
            let have = found.lines().filter(|line| *line == "True").count();
            if have >= count {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("only {have} of {count} are {condition}"));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Deletes the Minimarts of a namespace, and the namespace once their releases are uninstalled.
    pub(crate) fn remove(&self, namespace: &str) -> Result<(), String> {
        self.ask(&["delete", "minimarts", "--all", "-n", namespace, "--timeout=900s"])?;
        self.ask(&["delete", "namespace", namespace, "--timeout=900s"]).map(|_| ())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if matches!(self.kind, Kind::Real) {
            let mut down = Command::new(self.root.join("oracles/kubernetes/control-plane"));
            if let Err(error) = run(down.arg("down").arg(self.directory.path())) {
                eprintln!("the control plane may still run: {error}");
            }
        }
    }
}

/// Returns the path of a program built by `oracles/kubernetes/build`.
fn built(root: &Path, tool: &str) -> Result<PathBuf, String> {
    let path = run(Command::new(root.join("oracles/kubernetes/build")).arg(tool))?;
    Ok(path.trim().into())
}

/// Runs a command to completion, and returns its output.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}
