//! `steer sim` on Go operators with a planted bug: `make oracle-sim`.

use std::path::{Path, PathBuf};
use std::process::Command;

fn operators() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../oracles/sim").canonicalize().unwrap()
}

/// The program of an operator in Go, built if need be.
fn build(name: &str) -> String {
    let output = Command::new(operators().join("build")).arg(name).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn sim(words: &[&str], command: &[&str]) -> (bool, String) {
    let mut steer = Command::new(env!("CARGO_BIN_EXE_steer"));
    steer.arg("sim").arg(operators()).args(words).arg("--").args(command);
    let output = steer.output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    println!("{command:?}: {text}");
    (output.status.success(), text)
}

#[test]
#[ignore = "needs Go: make oracle-sim"]
fn a_mistake_on_controller_runtime_is_found() {
    let program = build("generated-name");
    let (passed, text) = sim(&["--fail-fast"], &[&program]);
    assert!(!passed && text.contains("leak: configmaps/default/corner-"), "{text}");
    let (passed, text) = sim(&["--crashes"], &[&program, "-corrected"]);
    assert!(passed, "{text}");
}

#[test]
#[ignore = "needs Go: make oracle-sim"]
fn a_finalizer_after_the_install_is_found_on_helm() {
    let program = build("late-finalizer");
    let chart = operators().join("late-finalizer/chart").display().to_string();
    let rules = ["--ignore", "secrets/*/sh.helm.release.v1.*"];
    let (passed, text) = sim(&[&["--fail-fast"], &rules[..]].concat(), &[&program, "-chart", &chart]);
    assert!(!passed && text.contains("leak: "), "{text}");
    let words = [&["--crashes"], &rules[..]].concat();
    let (passed, text) = sim(&words, &[&program, "-chart", &chart, "-corrected"]);
    assert!(passed, "{text}");
}
