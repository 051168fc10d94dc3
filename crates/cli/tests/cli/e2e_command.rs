//! `steer e2e` and `steer kuttl`: projects, exit codes, reports, and the name kubectl-kuttl.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn steer(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steer"));
    command.args(arguments).current_dir(directory).env_remove("KUBECONFIG").output().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn write(directory: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

const CONFIG_MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n";
const OTHER: &str = "apiVersion: kuttl.dev/v1beta1\nkind: TestAssert\ntimeout: 1\n---\n\
    apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: w}\n";

#[test]
fn a_project_is_tested_with_its_operator() {
    let scratch = tempfile::tempdir().unwrap();
    let minimart = root().join("examples/minimart");
    let output = steer(
        scratch.path(),
        &["e2e", minimart.to_str().unwrap(), "--timeout", "120", "--html", "report.html"],
    );
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("operator running as minimart-operator"), "{text}");
    assert!(text.contains("4 of 4 passed"), "{text}");
    assert!(!text.contains("not allowed"), "{text}");
    let page = std::fs::read_to_string(scratch.path().join("report.html")).unwrap();
    assert!(page.contains("4 of 4 passed") && page.contains("scale"), "{page}");
}

/// Runs the suites of a Rust example and returns the output; `None` if the example is not built.
#[cfg(unix)]
fn run_rust_example(name: &str) -> Option<String> {
    use std::os::unix::fs::PermissionsExt as _;

    let scratch = tempfile::tempdir().unwrap();
    let example = root().join("examples").join(name).canonicalize().unwrap();
    let operator = format!("{name}-operator");
    // The example's program as built with the workspace: built alone it has other features, and everything would be rebuilt.
    let program = Path::new(env!("CARGO_BIN_EXE_steer")).with_file_name(&operator);
    if !program.exists() {
        eprintln!("SKIPPED: {} is not built: `cargo test --workspace` does", program.display());
        return None;
    }
    let built = serde_json::json!({
        "reason": "compiler-artifact", "manifest_path": example.join("Cargo.toml"), "executable": program,
        "target": {"kind": ["bin"], "name": operator},
    });
    let cargo = scratch.path().join("cargo");
    std::fs::write(&cargo, format!("#!/bin/sh\ncat <<'END'\n{built}\nEND\n")).unwrap();
    std::fs::set_permissions(&cargo, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_steer"));
    command.args(["e2e", "--timeout", "120"]).arg(&example).current_dir(scratch.path());
    command.env("CARGO", &cargo).env_remove("KUBECONFIG");
    let output = command.output().unwrap();
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 of 1 passed"), "{text}");
    assert!(!text.contains("not allowed"), "{text}");
    let left = std::fs::read_dir(scratch.path().join(".steer")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "credentials are left over");
    Some(text)
}

/// A Rust package needs no configuration either: it is built, and runs with the role that it prints.
#[cfg(unix)]
#[test]
fn an_operator_in_rust_is_built_and_tested() {
    if let Some(text) = run_rust_example("myownshell") {
        assert!(text.contains("operator running as my-first-operator"), "{text}");
    }
}

#[cfg(unix)]
#[test]
fn an_operator_goes_by_a_clock_that_is_set_forward() {
    run_rust_example("cronjob");
}

#[test]
fn a_failure_says_what_differs() {
    let scratch = tempfile::tempdir().unwrap();
    write(
        scratch.path(),
        &[
            ("suite/good/00-a.yaml", CONFIG_MAP),
            ("suite/good/00-assert.yaml", CONFIG_MAP),
            ("suite/poor/00-a.yaml", CONFIG_MAP),
            ("suite/poor/00-assert.yaml", OTHER),
        ],
    );
    let output = steer(scratch.path(), &["e2e", "suite", "--report", "xml"]);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for part in
        ["✓ good", "✗ poor", "step 1 of 1, 0-a", "ConfigMap/a data.k", "want w", "have v", "1 of 2 passed"]
    {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    assert!(scratch.path().join("kuttl-report.xml").exists());
    assert!(!scratch.path().join(".steer").exists(), "nothing is left behind");
    assert!(steer(scratch.path(), &["e2e", "suite", "--test", "^good$"]).status.success());
    let empty = steer(scratch.path(), &["e2e", "suite", "--test", "none"]);
    assert_eq!(empty.status.code(), Some(1));
}

#[test]
fn kuttl_is_spoken_in_its_own_words() {
    let scratch = tempfile::tempdir().unwrap();
    write(
        scratch.path(),
        &[
            ("suite/good/00-a.yaml", CONFIG_MAP),
            ("suite/poor/00-a.yaml", CONFIG_MAP),
            ("suite/poor/00-assert.yaml", OTHER),
            ("suite/unread/00-a.yaml", "kind: ]"),
            (
                "kuttl-test.yaml",
                "apiVersion: kuttl.dev/v1beta1\nkind: TestSuite\nstartKIND: true\ntestDirs: [suite]\n",
            ),
        ],
    );
    let output = steer(scratch.path(), &["kuttl", "test"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in [
        "--- FAIL: kuttl (",
        "        --- PASS: kuttl/harness/good (",
        "        --- FAIL: kuttl/harness/poor (",
        "        --- FAIL: kuttl/harness/unread (",
        "    unread: setup: ",
        "suite/unread/00-a.yaml: document at line 1: ",
        "\nFAIL\n",
    ] {
        assert!(said.contains(part), "{part} is missing: {said}");
    }
    let one =
        steer(scratch.path(), &["kuttl", "test", "--test", "good", "--report", "JSON", "--report-name", "r"]);
    assert!(one.status.success(), "{}", text(&one));
    assert!(scratch.path().join("r.json").exists());
    let both = steer(scratch.path(), &["kuttl", "test", "--start-control-plane"]);
    assert_eq!(both.status.code(), Some(255), "{}", text(&both));
    std::fs::remove_file(scratch.path().join("kuttl-test.yaml")).unwrap();
    let none = steer(scratch.path(), &["kuttl", "test"]);
    assert_eq!(none.status.code(), Some(255), "{}", text(&none));
    let plane = steer(scratch.path(), &["kuttl", "test", "--start-control-plane", "--test=good", "suite"]);
    assert!(plane.status.success(), "{}", text(&plane));
}

#[cfg(unix)]
#[test]
fn kubectl_finds_it_by_its_name() {
    let scratch = tempfile::tempdir().unwrap();
    write(scratch.path(), &[("suite/good/00-a.yaml", CONFIG_MAP)]);
    let link = scratch.path().join("kubectl-kuttl");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_steer"), &link).unwrap();
    let mut command = Command::new(link);
    let output =
        command.args(["test", "--start-kind", "suite"]).current_dir(scratch.path()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("--- PASS: kuttl/harness/good"));
}
