//! A project in Rust, as `steer init --plugins rust` makes it: it compiles without warnings and passes its own tests.
//!
//! Slow, since it builds everything that an operator depends on: `make test-scaffold` runs it.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::{Outcome, Steer, outcome};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Runs cargo in the project, with this repository's versions of everything and a directory of its own to build in.
fn cargo(directory: &Path, arguments: &[&str]) -> Outcome {
    let target = root().join("target/scaffold");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.arg("--offline").args(arguments).current_dir(directory).env("CARGO_TARGET_DIR", target);
    command.env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only").stdin(Stdio::null());
    outcome(&mut command)
}

#[test]
#[ignore = "builds a whole operator: make test-scaffold"]
fn a_project_in_rust_compiles_and_passes_its_tests() {
    let steer = Steer::new();
    let directory = steer.path("cache-operator");
    std::fs::create_dir(&directory).unwrap();
    let run = |arguments: &[&str]| {
        outcome(steer.command(arguments).current_dir(&directory).stdin(Stdio::null())).success()
    };
    let said = run(&["init", "--plugins", "rust", "--domain", "example.com", "--owner", "The \"Owners\""]);
    assert!(said.contains("not published yet"), "{said}");
    run(&[
        "create",
        "api",
        "--group",
        "cache",
        "--version",
        "v1alpha1",
        "--kind",
        "Memcached",
        "--image",
        "memcached:1.6",
    ]);
    run(&[
        "create",
        "api",
        "--group",
        "cache",
        "--version",
        "v1",
        "--kind",
        "Memcached",
        "--image",
        "memcached:1.6",
    ]);
    run(&["create", "api", "--group", "cache", "--version", "v1", "--kind", "Type", "--namespaced=false"]);
    run(&["create", "webhook", "--version", "v1", "--kind", "Memcached", "--conversion"]);
    run(&[
        "create",
        "webhook",
        "--version",
        "v1alpha1",
        "--kind",
        "Memcached",
        "--defaulting",
        "--programmatic-validation",
    ]);
    std::fs::copy(root().join("Cargo.lock"), directory.join("Cargo.lock")).unwrap();

    let tested = cargo(&directory, &["test"]);
    assert_eq!(tested.code, 0, "{}{}", tested.stdout, tested.stderr);
    assert!(!tested.stderr.contains("warning"), "{}", tested.stderr);
    for test in ["an_object_becomes_available", "a_change_of_the_size_is_followed", "versions_lose_nothing"] {
        assert!(tested.stdout.contains(&format!("{test} ... ok")), "{}", tested.stdout);
    }
    let crds = cargo(&directory, &["run", "--quiet", "--", "crds"]);
    assert_eq!(crds.code, 0, "{}", crds.stderr);
}
