//! `steer sim` on the example project.

use std::path::Path;
use std::process::Command;

fn sim(words: &[&str]) -> (bool, String) {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/minimart");
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
    let (passed, text) = sim(&words);
    assert!(passed, "{text}");
    assert!(text.contains("1 runs in") && text.contains("1 planned,     1 injected"), "{text}");
    let record = std::fs::read_to_string(record).unwrap();
    assert!(record.contains("\"hash\""), "{record}");
    assert!(std::fs::read_to_string(html).unwrap().contains("<h2>Without faults</h2>"));
    assert!(std::fs::read_to_string(junit).unwrap().contains("crash-after (1 planned, 1 injected)"));
}

#[test]
fn a_plan_that_is_none_is_refused_with_an_example() {
    let (passed, text) = sim(&["--replay", "crash"]);
    assert!(!passed && text.contains("1/crash-after@3+lost@5"), "{text}");
}
