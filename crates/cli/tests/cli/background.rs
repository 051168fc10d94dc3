//! `steer cluster create` and `delete`, as used by scripts written for `kind`.
#![cfg(unix)]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn steer(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_steer"))
            .args(words)
            .env("HOME", self.path())
            .env_remove("KUBECONFIG")
            .env_remove("XDG_STATE_HOME")
            .output()
            .unwrap()
    }

    fn succeeds(&self, words: &[&str]) -> String {
        let output = self.steer(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn kubeconfig(&self) -> Value {
        steersman_yaml::from_slice(&std::fs::read(self.path().join(".kube/config")).unwrap()).unwrap()
    }

    /// Returns the number of cluster directories left in the home directory.
    fn left(&self) -> usize {
        std::fs::read_dir(self.path().join(".local/state/steersman/clusters")).map_or(0, Iterator::count)
    }
}

#[test]
fn a_cluster_is_created_used_and_deleted() {
    let home = Home::new();
    std::fs::create_dir(home.path().join(".kube")).unwrap();
    let mine = "apiVersion: v1\nkind: Config\nclusters:\n- name: mine\n  cluster: {server: https://mine}\ncurrent-context: mine\n";
    std::fs::write(home.path().join(".kube/config"), mine).unwrap();
    let said = home.succeeds(&["cluster", "create", "--name", "ci", "--wait", "30s"]);
    assert!(said.contains("steer-ci"), "{said}");
    let config = home.kubeconfig();
    assert_eq!(config["current-context"], "steer-ci");
    assert_eq!(config["clusters"][0]["name"], "mine");
    assert_eq!(home.succeeds(&["cluster", "list"]), "ci\n");
    let printed = steersman_yaml::from_str(&home.succeeds(&["cluster", "kubeconfig", "ci"])).unwrap();
    assert_eq!(printed["clusters"][0], config["clusters"][1]);
    // The cluster responds: its releases can be listed through the merged kubeconfig.
    assert_eq!(home.succeeds(&["list", "-q"]), "");
    let again = home.steer(&["cluster", "create", "ci"]);
    assert!(!again.status.success() && String::from_utf8_lossy(&again.stderr).contains("is already running"));
    assert!(
        home.succeeds(&["cluster", "load", "docker-image", "x:y", "--name", "ci"])
            .contains("nothing to load")
    );

    home.succeeds(&["cluster", "delete", "ci"]);
    assert_eq!((home.left(), home.succeeds(&["cluster", "list"]).as_str()), (0, ""));
    let config = home.kubeconfig();
    assert_eq!((&config["current-context"], &config["clusters"][0]["name"]), (&"".into(), &"mine".into()));
    assert_eq!(config["clusters"].as_array().unwrap().len(), 1);
    // As with kind, deleting a missing cluster succeeds.
    home.succeeds(&["cluster", "delete", "ci"]);
    assert!(!home.steer(&["cluster", "kubeconfig", "ci"]).status.success());
    assert!(!home.steer(&["cluster", "create", "../up"]).status.success());
}

#[test]
fn ten_clusters_at_once_leave_nothing_behind() {
    let home = Home::new();
    let names: Vec<String> = (0..10).map(|number| format!("c{number}")).collect();
    std::thread::scope(|scope| {
        for name in &names {
            scope.spawn(|| home.succeeds(&["cluster", "create", name, "--no-workloads"]));
        }
    });
    assert_eq!(home.succeeds(&["cluster", "list"]).lines().collect::<Vec<_>>(), names);
    assert_eq!(home.kubeconfig()["contexts"].as_array().unwrap().len(), 10);
    std::thread::scope(|scope| {
        for name in &names {
            scope.spawn(|| home.succeeds(&["cluster", "delete", name]));
        }
    });
    assert_eq!((home.left(), home.succeeds(&["cluster", "list"]).as_str()), (0, ""));
    assert_eq!(home.kubeconfig()["contexts"], Value::Array(Vec::new()));
    assert_eq!(std::fs::read_dir(home.path().join(".kube")).unwrap().count(), 1);
}

#[test]
fn an_idle_cluster_ends_by_itself_and_a_killed_one_is_cleaned_up() {
    let home = Home::new();
    let holder = |name: &str| home.path().join(format!(".local/state/steersman/clusters/{name}/pid"));
    home.succeeds(&["cluster", "create", "brief", "--no-workloads", "--ttl", "300ms"]);
    // The process holds a lock on this file until it exits.
    if let Ok(file) = std::fs::File::open(holder("brief")) {
        file.lock_shared().unwrap();
    }
    assert_eq!((home.left(), home.succeeds(&["cluster", "list"]).as_str()), (0, ""));
    assert_eq!(home.kubeconfig()["contexts"], Value::Array(Vec::new()));

    home.succeeds(&["cluster", "create", "killed", "--no-workloads"]);
    let process = std::fs::read_to_string(holder("killed")).unwrap();
    assert!(Command::new("kill").args(["-KILL", &process]).status().unwrap().success());
    std::fs::File::open(holder("killed")).unwrap().lock_shared().unwrap();
    assert_eq!(home.succeeds(&["cluster", "list"]), "");
    home.succeeds(&["cluster", "delete", "killed"]);
    assert_eq!(home.left(), 0);
    assert_eq!(home.kubeconfig()["contexts"], Value::Array(Vec::new()));
}
