//! `steer cluster`: up, used, ended, gone.
#![cfg(unix)]

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

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
