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
    assert!(
        plans.starts_with("plans\n├── backup (serial)\n│\u{a0}\u{a0} └── [phase]  backup (serial)\n"),
        "{plans}"
    );
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

#[test]
fn a_package_is_made_added_to_and_verified() {
    let directory = tempfile::tempdir().unwrap();
    let steer = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_steer"));
        command.args(["kudo", "package"]).args(words).current_dir(directory.path()).output().unwrap()
    };
    text(&steer(&["new", "shop"]));
    assert!(!steer(&["new", "shop"]).status.success(), "an existing directory is not replaced");
    // A new package applies nothing yet, which is reported with how to fix it.
    let invalid = steer(&["verify", "operator", "-o", "json"]);
    assert!(!invalid.status.success());
    let report: serde_json::Value = serde_json::from_slice(&invalid.stdout).unwrap();
    assert_eq!(
        (&report["valid"], report["errors"].as_array().unwrap().len()),
        (&false.into(), 1),
        "{report}"
    );
    text(&steer(&["add", "parameter", "SIZE", "--default", "3", "--type", "integer"]));
    text(&steer(&["add", "task", "app", "--resource", "app.yaml"]));
    text(&steer(&["add", "plan", "backup", "--step", "main/save=app"]));
    assert!(!steer(&["add", "task", "app"]).status.success(), "there is a task of that name");
    assert!(directory.path().join("operator/templates/app.yaml").is_file());
    let operator = std::fs::read_to_string(directory.path().join("operator/operator.yaml")).unwrap();
    assert!(operator.contains("  backup:\n    phases:\n    - name: main\n"), "{operator}");
    let params = std::fs::read_to_string(directory.path().join("operator/params.yaml")).unwrap();
    assert!(params.contains("- default: 3\n  name: SIZE\n  type: integer\n"), "{params}");
}

#[test]
fn packages_come_from_a_repository_if_their_digest_is_right() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (home, archives) = (at("home"), at("archives"));
    std::fs::create_dir(&archives).unwrap();
    let kudo = |words: &[&str]| {
        let mut all = vec!["kudo", "--home", home.as_str()];
        all.extend(words);
        steer(&all)
    };
    text(&kudo(&["package", "create", "examples/backup", "-d", &archives]));
    text(&kudo(&["repo", "index", &archives, "--url", &format!("file://{archives}")]));
    text(&kudo(&["init", "--client-only"]));
    text(&kudo(&["repo", "add", "local", &format!("file://{archives}")]));
    text(&kudo(&["repo", "context", "local"]));
    let found = text(&kudo(&["search", "sto"]));
    assert!(found.contains("store\t0.1.0           \t1.0.0"), "{found}");
    let listed = text(&kudo(&["package", "list", "tasks", "store"]));
    assert_eq!(listed, text(&kudo(&["package", "list", "tasks", "examples/backup"])));
    let index = std::fs::read_to_string(at("archives/index.yaml")).unwrap();
    let digest = index.split("digest: ").nth(1).unwrap().split('\n').next().unwrap();
    std::fs::write(at("archives/index.yaml"), index.replace(digest, &"0".repeat(64))).unwrap();
    let refused = kudo(&["package", "list", "tasks", "store"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("digest does not match the index"));
}
