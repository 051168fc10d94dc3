//! `steer cluster`: started, used, stopped, cleaned up.
#![cfg(unix)]

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

#[test]
fn a_cluster_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_steer"))
        .args(["cluster", "--nodes", "2"])
        .current_dir(directory.path())
        .env_remove("KUBECONFIG")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let first = lines.next().unwrap();
    assert!(first.starts_with("Kubernetes v1."), "{first}");
    let export = lines.find(|line| line.contains("export KUBECONFIG=")).unwrap();
    let path = export.trim().trim_start_matches("export KUBECONFIG=").to_owned();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

    let stopped = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(stopped.success());
    assert!(child.wait().unwrap().success());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// Starts a cluster that writes its kubeconfig into a directory, and waits until it is up.
fn start(directory: &Path) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_steer"))
        .args(["cluster", "--no-workloads"])
        .current_dir(directory)
        .env_remove("KUBECONFIG")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    lines.map_while(Result::ok).find(|line| line.contains("export KUBECONFIG=")).unwrap();
    child
}

fn end(mut child: Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    child.wait().unwrap();
}

#[test]
fn a_second_cluster_does_not_take_the_kubeconfig_of_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(".steer/kubeconfig");
    let first = start(directory.path());
    let written = std::fs::read_to_string(&path).unwrap();
    let second = Command::new(env!("CARGO_BIN_EXE_steer"))
        .args(["cluster", "--no-workloads"])
        .current_dir(directory.path())
        .env_remove("KUBECONFIG")
        .output()
        .unwrap();
    assert!(!second.status.success());
    let why = String::from_utf8_lossy(&second.stderr);
    assert!(why.contains(&format!("process {}", first.id())) && why.contains("--kubeconfig"), "{why}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), written);

    // A killed cluster leaves its file behind, which the next one overwrites.
    end(first, "-KILL");
    let third = start(directory.path());
    let other = std::fs::read_to_string(&path).unwrap();
    assert_ne!(other, written);
    // A kubeconfig that points to another cluster is not deleted.
    std::fs::write(&path, &written).unwrap();
    end(third, "-TERM");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), written);
}

#[test]
fn a_foreign_kubeconfig_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config");
    std::fs::write(&path, "current-context: production\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_steer"))
        .args(["cluster", "--kubeconfig"])
        .arg(&path)
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("was not written by steer cluster"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "current-context: production\n");
}
