//! Runs the program like a user, isolated from the user's files.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]

pub mod markdown;
pub mod planes;
pub mod project;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A home directory of its own, and the program run in it.
pub struct Steer {
    pub home: tempfile::TempDir,
}

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    #[track_caller]
    pub fn success(self) -> String {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self.stdout
    }

    #[track_caller]
    pub fn failure(self) -> String {
        assert_eq!(self.code, 1, "{}{}", self.stdout, self.stderr);
        self.stderr
    }
}

impl Steer {
    pub fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Writes a file beneath the home directory.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Writes a small chart called `name` with these files, and returns its directory.
    pub fn chart(&self, name: &str, files: &[(&str, &str)]) -> String {
        self.write(&format!("{name}/Chart.yaml"), format!("apiVersion: v2\nname: {name}\nversion: 0.1.0\n"));
        for (path, text) in files {
            self.write(&format!("{name}/{path}"), text);
        }
        name.to_owned()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_steer"));
        command.args(arguments).current_dir(self.home.path()).env_clear();
        command.env("HOME", self.home.path()).env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Outcome {
        outcome(self.command(arguments).stdin(Stdio::null()))
    }

    pub fn run_with_input(&self, arguments: &[&str], input: &str) -> Outcome {
        let mut command = self.command(arguments);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        from_output(child.wait_with_output().unwrap())
    }
}

pub fn outcome(command: &mut Command) -> Outcome {
    from_output(command.output().unwrap())
}

fn from_output(output: std::process::Output) -> Outcome {
    Outcome {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Returns a chart of this repository with a bit of everything.
pub fn shop() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/charts/shop").display().to_string()
}

/// Packs a directory into a chart archive.
pub fn pack(directory: &Path) -> Vec<u8> {
    let name = directory.file_name().unwrap();
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut archive = tar::Builder::new(gzip);
    archive.append_dir_all(name, directory).unwrap();
    archive.into_inner().unwrap().finish().unwrap()
}
