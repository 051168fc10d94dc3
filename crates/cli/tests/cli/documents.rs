//! Runs the shell blocks of the documents verbatim.
//!
//! A document is one bash session in an empty directory with the checkout's `examples` and `Makefile`. Options of a fence after
//! `sh`: `background until=TEXT` continues once the command has printed TEXT, `needs=PROGRAM` skips the block on machines without
//! the program, and `slow` marks blocks that build projects in Rust, which `make test-scaffold` runs.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::support::markdown::{Fence, documents, fences, root};

/// Defines a test for each document, and the list of all documents.
macro_rules! followed {
    ($list:ident, slow: $slow:literal, { $($(#[$attribute:meta])* $name:ident: $document:literal,)+ }) => {
        const $list: &[&str] = &[$($document),+];
        $(
            #[test]
            $(#[$attribute])*
            fn $name() {
                follow($document, $slow);
            }
        )+
    };
}

followed! { DOCUMENTS, slow: false, {
    readme: "README.md",
    quick_start: "docs/quick-start.md",
    projects: "docs/scaffold.md",
    rest: "docs/rest.md",
    declarative_tests: "docs/e2e.md",
    simulation: "docs/simulation.md",
    kudo: "docs/kudo.md",
    ansible: "docs/ansible.md",
    from_operator_sdk: "docs/from-operator-sdk.md",
    from_kubebuilder: "docs/from-kubebuilder.md",
    tutorial_minimart: "docs/tutorials/minimart.md",
    tutorial_nginx: "docs/tutorials/nginx.md",
    tutorial_collector: "docs/tutorials/collector.md",
    tutorial_myownshell: "docs/tutorials/myownshell.md",
    tutorial_memcached: "docs/tutorials/memcached.md",
    tutorial_foo: "docs/tutorials/foo.md",
    tutorial_ptemplate: "docs/tutorials/ptemplate.md",
    tutorial_cronjob: "docs/tutorials/cronjob.md",
    tutorial_memcached_ansible: "docs/tutorials/memcached-ansible.md",
    tutorial_backup: "docs/tutorials/backup.md",
} }

followed! { SLOW_DOCUMENTS, slow: true, {
    #[ignore = "runs for minutes: make test-scaffold"]
    slow_simulation: "docs/simulation.md",
    #[ignore = "builds an operator: make test-scaffold"]
    slow_tutorial_foo: "docs/tutorials/foo.md",
} }

/// A block of shell commands.
struct Block {
    line: usize,
    commands: String,
    /// The text that a background command prints once it is up.
    until: Option<String>,
    needs: Vec<String>,
    slow: bool,
}

fn blocks(document: &str) -> Vec<Block> {
    let shell = fences(document).into_iter().filter(Fence::is_shell);
    shell
        .map(|Fence { line, info, text }| {
            let words: Vec<&str> = info.split_whitespace().skip(1).collect();
            let values = |name: &str| {
                words.iter().filter_map(|word| word.strip_prefix(name)).map(str::to_owned).collect()
            };
            let (until, needs): (Vec<String>, _) = (values("until="), values("needs="));
            assert_eq!(words.contains(&"background"), !until.is_empty(), "line {line}");
            let known = |word: &&str| {
                ["background", "slow"].contains(word)
                    || word.starts_with("until=")
                    || word.starts_with("needs=")
            };
            assert!(words.iter().all(known), "line {line}: {info}");
            let until = until.into_iter().next();
            Block { line, commands: text, until, needs, slow: words.contains(&"slow") }
        })
        .collect()
}

/// Returns a script that does what a reader does: blocks in order, background commands in parallel.
fn script(blocks: &[Block]) -> String {
    // Each background command has its own process group, so that it is killed with its children.
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

/// A stub for cargo in documents that build this repository with `make` or `cargo`.
///
/// The programs are built already, and this test is itself run by the workspace's tests.
const CARGO: &str = r#"#!/bin/sh
case "$*" in
"run --bin steer -- "*) shift 4 && exec steer "$@" ;;
"run --config tools/demo.toml --package steersman-cli --bin steer --no-default-features -- "*) shift 9 && exec steer "$@" ;;
"run --quiet --package "*) program=$4 && shift 5 && exec "$program" "$@" ;;
"install --locked --path crates/cli" | "test --workspace" | "test --quiet --package "*) ;;
"nextest --version") exit 1 ;;
*) echo "cargo $*: this is not a command of the documents" >&2 && exit 1 ;;
esac
"#;

/// Returns PATH, with this repository's own programs first, which `make test` has built.
fn path(first: &Path) -> std::ffi::OsString {
    let programs = Path::new(env!("CARGO_BIN_EXE_steer")).parent().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = [first.to_owned(), programs.to_owned()];
    std::env::join_paths(own.into_iter().chain(std::env::split_paths(&path))).unwrap()
}

fn is_installed(program: &str, path: &OsStr) -> bool {
    let mut found = Command::new("bash");
    found.args(["-c", "command -v -- \"$1\"", "bash", program]).env("PATH", path);
    found.output().is_ok_and(|output| output.status.success())
}

/// Runs the blocks of a document, including slow ones if `slow` is set. A failure shows their output.
#[track_caller]
fn follow(document: &str, slow: bool) {
    let text = std::fs::read_to_string(root().join(document)).unwrap();
    let mut blocks = blocks(&text);
    blocks.retain(|block| slow || !block.slow);
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let path = path(&at("bin"));
    blocks.retain(|block| {
        let missing = block.needs.iter().find(|program| !is_installed(program, &path));
        if let Some(program) = missing {
            eprintln!("SKIPPED: {document}, line {}: {program} is not installed", block.line);
        }
        missing.is_none()
    });
    for name in ["session", "logs", "bin"] {
        std::fs::create_dir(at(name)).unwrap();
    }
    for name in ["examples", "Makefile"] {
        std::os::unix::fs::symlink(root().join(name), at("session").join(name)).unwrap();
    }
    let mut command = Command::new("bash");
    if slow {
        // All builds share one target directory and use this repository's dependencies.
        command.env("CARGO_TARGET_DIR", root().join("target/scaffold")).env("CARGO_NET_OFFLINE", "true");
        command.env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only");
        // Cargo and rustup have their files in the real home directory.
        let home = std::env::var_os("HOME").unwrap_or_default();
        for (variable, name) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            if std::env::var_os(variable).is_none() {
                command.env(variable, Path::new(&home).join(name));
            }
        }
    } else {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::write(at("bin/cargo"), CARGO).unwrap();
        std::fs::set_permissions(at("bin/cargo"), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let output = command
        .args(["-c", &script(&blocks)])
        .current_dir(at("session"))
        .env("PATH", path)
        .env("LOGS", at("logs"))
        .env("HOME", directory.path())
        .env_remove("KUBECONFIG")
        // Cargo sets CARGO for its tests, which make would use.
        .env_remove("CARGO")
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
fn a_failing_command_fails_its_document() {
    let text = "```sh\necho one\nfalse\necho two\n```\n```\nnot a command\n```\n";
    let script = script(&blocks(text));
    assert!(!Command::new("bash").args(["-c", &script]).status().unwrap().success());
}

#[test]
fn every_shell_block_is_run_by_a_test() {
    for (document, text) in documents() {
        let blocks = blocks(&text);
        let (slow, quick): (Vec<_>, Vec<_>) = blocks.iter().partition(|block| block.slow);
        assert!(quick.is_empty() || DOCUMENTS.contains(&document.as_str()), "no test runs {document}");
        assert!(
            slow.is_empty() || SLOW_DOCUMENTS.contains(&document.as_str()),
            "no test runs what is slow in {document}"
        );
    }
    for document in DOCUMENTS.iter().chain(SLOW_DOCUMENTS) {
        let text = std::fs::read_to_string(root().join(document)).unwrap();
        assert!(!blocks(&text).is_empty(), "{document} has no blocks to run");
    }
}

/// Commands that the documents use.
const PROGRAMS: &[&str] = &[
    "steer",
    "make",
    "cargo",
    "kubectl",
    "helm",
    "curl",
    "go",
    "pip",
    "ansible-galaxy",
    "cd",
    "mkdir",
    "cp",
    "git",
];

#[test]
fn commands_are_nowhere_but_in_shell_blocks() {
    for (document, text) in documents() {
        for fence in fences(&text).iter().filter(|fence| !fence.is_shell()) {
            let prompt = fence.text.lines().find(|line| line.starts_with("$ "));
            assert_eq!(prompt, None, "{document}, line {}: a block of commands is fenced as sh", fence.line);
            let first = fence.text.split_whitespace().next().unwrap_or_default();
            let is_command = PROGRAMS.contains(&first) && fence.info != "text";
            assert!(!is_command, "{document}, line {}: a block of commands is fenced as sh", fence.line);
        }
        let indented =
            text.lines().find(|line| line.starts_with(' ') && line.trim_start().starts_with("```"));
        assert_eq!(indented, None, "{document}: fences stand at the beginning of a line");
    }
}
