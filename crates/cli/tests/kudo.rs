//! `steer kudo` and `steer run kudo`.

use std::path::Path;
use std::process::{Command, Output};

fn steer(words: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Command::new(env!("CARGO_BIN_EXE_steer")).args(words).current_dir(root).output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_package_is_verified_and_listed() {
    assert_eq!(text(&steer(&["kudo", "package", "verify", "examples/backup"])), "package is valid\n");
    let listed = text(&steer(&["kudo", "package", "list", "parameters", "examples/backup"]));
    assert_eq!(
        listed,
        "Name     \tDefault\tRequired\tImmutable\n\
         FROM     \tlatest \ttrue    \tfalse    \n\
         REPLICAS \t3      \ttrue    \tfalse    \n\
         SCHEDULED\tfalse  \ttrue    \tfalse    \n\
         SIZE     \t1Gi    \ttrue    \ttrue     \n"
    );
    let plans = text(&steer(&["kudo", "package", "list", "plans", "examples/backup", "--with-tasks"]));
    assert!(plans.starts_with("plans\n├── backup (serial)\n│   └── [phase]  backup (serial)\n"), "{plans}");
    assert!(plans.contains("[apply]  store\n"), "{plans}");
}

#[test]
fn an_archive_is_read_as_its_directory_and_made_alike_twice() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    let made = text(&steer(&["kudo", "package", "create", "examples/backup", "-d", place]));
    let path = directory.path().join("store-1.0.0_0.1.0.tgz");
    assert_eq!(made, format!("Package created: {}\n", path.display()));
    let first = std::fs::read(&path).unwrap();
    assert!(!steer(&["kudo", "package", "create", "examples/backup", "-d", place]).status.success());
    text(&steer(&["kudo", "package", "create", "examples/backup", "-d", place, "--overwrite"]));
    assert_eq!(first, std::fs::read(&path).unwrap());
    let listed = |package: &str| text(&steer(&["kudo", "package", "list", "tasks", package]));
    assert_eq!(listed(path.to_str().unwrap()), listed("examples/backup"));
}

#[test]
fn a_package_is_deployed_on_a_cluster_in_the_process() {
    let shown = text(&steer(&["run", "kudo", "examples/backup", "--until-complete"]));
    assert!(shown.contains("└── Step backups [COMPLETE]"), "{shown}");
    assert!(shown.contains("Plan deploy (serial strategy) [COMPLETE]"), "{shown}");
    assert!(shown.contains("Plan backup (serial strategy) [NOT ACTIVE]"), "{shown}");
}
