//! `steer sim` on example projects.

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

pub(crate) fn sim(project: &Path, words: &[&str]) -> (bool, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_steer")).arg("sim").arg(project).args(words).output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text)
}

#[test]
fn a_chart_project_is_simulated_without_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (record, html, junit) = (path("trace.json"), path("timeline.html"), path("junit.xml"));
    let plan = "1/crash-after@3";
    let words = ["--replay", plan, "--record", &record, "--html", &html, "--junit", &junit];
    let (passed, text) = sim(&example("minimart"), &words);
    assert!(passed, "{text}");
    assert!(text.contains("1 runs in") && text.contains("1 planned,     1 injected"), "{text}");
    let record = std::fs::read_to_string(record).unwrap();
    assert!(record.contains("\"hash\""), "{record}");
    assert!(std::fs::read_to_string(html).unwrap().contains("<h2>Without faults</h2>"));
    assert!(std::fs::read_to_string(junit).unwrap().contains("crash-after (1 planned, 1 injected)"));
}

#[test]
fn a_plan_that_is_none_is_refused_with_an_example() {
    let (passed, text) = sim(&example("minimart"), &["--replay", "crash"]);
    assert!(!passed && text.contains("1/crash-after@3+lost@5"), "{text}");
}

/// Any program can be simulated: here `steer run helm`, outside of `steer sim`'s process.
#[test]
#[ignore = "in the machine's own time, which a busy one stretches: make sim"]
fn a_command_is_simulated_over_http() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (record, junit) = (path("trace.json"), path("junit.xml"));
    let watches = example("minimart").join("watches.yaml").display().to_string();
    let words = [
        "--replay",
        "1/crash-after@3",
        "--ignore",
        "secrets/*/sh.helm.release.v1.*",
        "--ignore-field",
        "Minimart.status.history",
        "--keep",
        "secrets",
        "--invariant",
        "Minimart: object.spec.replicaCount >= 1",
        "--record",
        &record,
        "--junit",
        &junit,
        "--",
        env!("CARGO_BIN_EXE_steer"),
        "run",
        "helm",
        "--watches-file",
        &watches,
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
    ];
    let (passed, text) = sim(&example("minimart"), &words);
    assert!(passed, "{text}");
    assert!(text.contains("1 runs in") && text.contains("1 planned,     1 injected"), "{text}");
    let record: serde_json::Value = serde_json::from_slice(&std::fs::read(record).unwrap()).unwrap();
    let change = record["timeline"]
        .as_array()
        .unwrap()
        .iter()
        .any(|entry| entry["text"] == "change Minimart minimart-sample");
    assert!(change, "{record}");
    assert!(std::fs::read_to_string(junit).unwrap().contains("crash-after (1 planned, 1 injected)"));
}

#[test]
fn a_command_that_is_not_there_is_said_to_be() {
    let (passed, text) = sim(&example("minimart"), &["--", "./no-such-operator"]);
    assert!(!passed && text.contains("./no-such-operator can't be run"), "{text}");
}

#[test]
fn an_invariant_that_does_not_compile_is_refused() {
    let (passed, text) = sim(&example("minimart"), &["--invariant", "Minimart: object.spec ="]);
    assert!(!passed && text.contains("invalid invariant \"object.spec =\""), "{text}");
}

#[test]
#[ignore = "hundreds of runs: make sim"]
fn the_chart_examples_survive_every_fault() {
    for name in ["minimart", "nginx"] {
        let (passed, text) = sim(&example(name), &[]);
        println!("{name}: {text}");
        assert!(passed, "{name}: {text}");
    }
}

/// Copies a directory with all that is in it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A chart must not depend on its revision number, which a crash during the install increments.
#[test]
fn a_chart_that_depends_on_its_revision_is_found() {
    let folder = tempfile::tempdir().unwrap();
    copy(&example("minimart"), folder.path());
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: revision\ndata:\n  revision: {{ .Release.Revision | quote }}\n";
    std::fs::write(folder.path().join("helm-charts/minimart/templates/revision.yaml"), template).unwrap();
    let plan = "1/crash-after@10";
    let (passed, text) = sim(folder.path(), &["--replay", plan]);
    assert!(!passed, "{text}");
    assert!(
        text.contains("configmaps/default/revision .data.revision: expected \"1\", found \"2\""),
        "{text}"
    );
    assert!(text.contains(&format!("--replay '{plan}'")), "{text}");
}
