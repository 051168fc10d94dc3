//! Runs the shell blocks of the documents, as they are written.
//!
//! A document is one session of bash, in an empty directory that has `examples`. What a fence says beside `sh`:
//! `background until=TEXT` goes on when the command has printed TEXT, `needs=PROGRAM` is for machines that have the program.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A block of shell commands.
struct Block {
    line: usize,
    commands: String,
    /// What a command that stays in the background prints when it is up.
    until: Option<String>,
    needs: Vec<String>,
}

fn blocks(document: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = document.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let commands: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
        let mut words = info.split_whitespace();
        if words.next() != Some("sh") {
            continue;
        }
        let words: Vec<&str> = words.collect();
        let values =
            |name: &str| words.iter().filter_map(|word| word.strip_prefix(name)).map(str::to_owned).collect();
        let until: Vec<String> = values("until=");
        assert_eq!(words.contains(&"background"), !until.is_empty(), "line {}", number + 1);
        blocks.push(Block {
            line: number + 1,
            commands: commands.join("\n"),
            until: until.into_iter().next(),
            needs: values("needs="),
        });
    }
    blocks
}

/// A script that does what a reader does: one block after the other, commands that stay in a terminal of their own.
fn script(blocks: &[Block]) -> String {
    // With a process group each, commands in the background end with all that they started.
    let mut script = String::from(
        "set -euo pipefail -m\ntrap 'for job in $(jobs -p); do kill -- -$job 2>/dev/null; done; wait' EXIT\n",
    );
    for Block { line, commands, until, .. } in blocks {
        let _ = writeln!(script, "echo '+ line {line}' >&2");
        match until {
            None => {
                let _ = writeln!(script, "{commands}");
            }
            Some(until) => {
                let log = format!("\"$LOGS/{line}\"");
                let _ = writeln!(script, "touch {log}; {{ {commands}\n}} >{log} 2>&1 &");
                let _ = writeln!(
                    script,
                    "timeout 120 grep -q -m 1 -- '{until}' <(tail -n +1 -f --pid $! {log}) || {{ cat {log}; exit 1; }}"
                );
            }
        }
    }
    script
}

/// Runs the blocks of a document, and fails with what they print if one of them fails.
#[track_caller]
fn follow(document: &str) {
    let text = std::fs::read_to_string(root().join(document)).unwrap();
    let blocks = blocks(&text);
    assert!(!blocks.is_empty(), "{document} has no blocks to run");
    for program in blocks.iter().flat_map(|block| &block.needs) {
        if !Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success()) {
            eprintln!("SKIPPED: {document}: {program} is not installed");
            return;
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let (session, logs) = (directory.path().join("session"), directory.path().join("logs"));
    std::fs::create_dir(&session).unwrap();
    std::fs::create_dir(&logs).unwrap();
    std::os::unix::fs::symlink(root().join("examples"), session.join("examples")).unwrap();
    let programs = Path::new(env!("CARGO_BIN_EXE_steer")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(programs).chain(std::env::split_paths(&path))).unwrap();
    let output = Command::new("bash")
        .args(["-c", &script(&blocks)])
        .current_dir(&session)
        .env("PATH", path)
        .env("LOGS", &logs)
        .env("HOME", directory.path())
        .env_remove("KUBECONFIG")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{document}:\n{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn the_quick_start_works_as_written() {
    follow("docs/quick-start.md");
}

#[test]
fn the_page_about_projects_works_as_written() {
    follow("docs/scaffold.md");
}

#[test]
fn the_examples_of_the_rest_api_work_as_written() {
    follow("docs/rest.md");
}

#[test]
fn a_failing_command_fails_its_document() {
    let text = "```sh\necho one\nfalse\necho two\n```\n```\nnot a command\n```\n";
    let script = script(&blocks(text));
    assert!(!Command::new("bash").args(["-c", &script]).status().unwrap().success());
}
