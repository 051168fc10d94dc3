//! Operators in Rust: built with cargo, and run as processes with the role that they declare.

use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};

use crate::failure::{Failure, Result};

/// Grace period for the operator to stop.
const GRACE: Duration = Duration::from_secs(10);

/// A program that cargo has built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::commands) struct Executable {
    pub(in crate::commands) path: PathBuf,
    /// Modification time, which changes only if cargo rebuilds it.
    linked: Option<SystemTime>,
}

/// Builds the program of the package in a directory. `said` receives cargo's rendered output by line.
pub(in crate::commands) async fn build(
    directory: &Path,
    bin: Option<&str>,
    in_colour: bool,
    mut said: impl FnMut(String),
) -> Result<Executable> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(&cargo);
    command.args(["build", "--message-format=json-render-diagnostics"]);
    command.arg(format!("--color={}", if in_colour { "always" } else { "never" }));
    if let Some(bin) = bin {
        command.args(["--bin", bin]);
    }
    command.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn().map_err(|error| {
        Failure::new(format!("cannot run {}: {error}", cargo.display()))
            .help("install Rust from https://rustup.rs, or set CARGO to the path of cargo")
    })?;
    let (mut messages, mut words) = (lines(child.stdout.take()), lines(child.stderr.take()));
    let mut programs = Vec::new();
    let (mut more_messages, mut more_words) = (true, true);
    while more_messages || more_words {
        tokio::select! {
            line = messages.recv(), if more_messages => match line {
                Some(line) => programs.extend(program(&line, directory)),
                None => more_messages = false,
            },
            line = words.recv(), if more_words => match line {
                Some(line) => said(line),
                None => more_words = false,
            },
        }
    }
    let status = child.wait().await.map_err(|error| Failure::new(format!("cargo: {error}")))?;
    if !status.success() {
        return Err(Failure::new("cargo build failed").help("it is rebuilt when a file changes"));
    }
    programs.dedup_by(|(one, _), (other, _)| one == other);
    match programs.as_slice() {
        [(_, path)] => {
            let linked = std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
            Ok(Executable { path: path.clone(), linked })
        }
        [] => Err(Failure::new(format!("{} has no binary", directory.display()))
            .help("the package of an operator needs a src/main.rs")),
        several => {
            let names: Vec<&str> = several.iter().map(|(name, _)| name.as_str()).collect();
            Err(Failure::new(format!("{} has several binaries: {}", directory.display(), names.join(", ")))
                .help("choose one with --bin"))
        }
    }
}

/// Returns name and path of the program in a cargo message, if its package is in this directory.
fn program(message: &str, directory: &Path) -> Option<(String, PathBuf)> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["reason"] != "compiler-artifact" || message["target"]["kind"] != serde_json::json!(["bin"]) {
        return None;
    }
    let package = Path::new(message["manifest_path"].as_str()?).parent()?;
    let directory = directory.canonicalize().ok()?;
    // The directory may be the root of a workspace.
    if !package.starts_with(&directory) {
        return None;
    }
    let name = message["target"]["name"].as_str()?.to_owned();
    Some((name, message["executable"].as_str()?.into()))
}

/// Returns the lines of a stream as they arrive.
fn lines(stream: Option<impl AsyncRead + Unpin + Send + 'static>) -> tokio::sync::mpsc::Receiver<String> {
    let (sender, receiver) = tokio::sync::mpsc::channel(256);
    if let Some(stream) = stream {
        tokio::spawn(async move {
            let mut reader = BufReader::new(stream);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).await.is_ok_and(|length| length > 0) {
                let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
                if sender.send(text).await.is_err() {
                    return;
                }
                line.clear();
            }
        });
    }
    receiver
}

/// Returns the manifests printed by an operator's program; `None` if it does not use `steersman`.
pub(in crate::commands) async fn manifests(
    program: &Path,
    directory: &Path,
    namespace: &str,
    kubeconfig: &Path,
) -> Option<Vec<Value>> {
    // Other programs would ignore the command and run.
    let package = std::fs::read_to_string(directory.join("Cargo.toml")).ok()?;
    if !package.contains("steersman") {
        return None;
    }
    let mut command = Command::new(program);
    command.args(["manifests", "--namespace", namespace]);
    command.current_dir(directory).env("KUBECONFIG", kubeconfig);
    command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(GRACE, command.output()).await.ok()?.ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    let documents = steersman_release::documents(&text).ok()?;
    let is_object = |document: &Value| document.get("kind").is_some_and(Value::is_string);
    (!documents.is_empty() && documents.iter().all(is_object)).then_some(documents)
}

/// An operator process.
pub(in crate::commands) struct Program {
    child: Child,
}

impl Program {
    /// Starts it. `said` receives its output by line.
    pub(super) fn start(
        program: &Path,
        directory: &Path,
        arguments: &[OsString],
        kubeconfig: &Path,
        said: impl Fn(String) + Clone + Send + 'static,
    ) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(directory).env("KUBECONFIG", kubeconfig);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command
            .spawn()
            .map_err(|error| Failure::new(format!("cannot run {}: {error}", program.display())))?;
        for mut lines in [lines(child.stdout.take()), lines(child.stderr.take())] {
            let said = said.clone();
            tokio::spawn(async move {
                while let Some(line) = lines.recv().await {
                    said(line);
                }
            });
        }
        Ok(Self { child })
    }

    /// Waits until the process has exited.
    pub(in crate::commands) async fn ended(&mut self) -> Option<ExitStatus> {
        self.child.wait().await.ok()
    }

    /// Kills it and waits until it has exited.
    pub(in crate::commands) async fn kill(mut self) {
        // It may have exited already.
        let _ = self.child.kill().await;
    }

    /// Terminates it gracefully, and kills it after the grace period.
    pub(in crate::commands) async fn stop(mut self) {
        #[cfg(unix)]
        if let Some(pid) = self.child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed())) {
            // It may have exited already.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            if tokio::time::timeout(GRACE, self.child.wait()).await.is_ok() {
                return;
            }
        }
        let _ = self.child.kill().await;
    }
}

/// Returns a free port.
pub(in crate::commands) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(|error| Failure::new(format!("no free port: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_those_of_the_package() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().unwrap();
        let message = |kind: &str, manifest: &str, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"{manifest}","target":{{"kind":["{kind}"],"name":"steer"}},"executable":{executable}}}"#
            )
        };
        let own = format!("{}/Cargo.toml", directory.display());
        assert_eq!(
            program(&message("bin", &own, "\"/target/steer\""), &directory),
            Some(("steer".to_owned(), "/target/steer".into()))
        );
        assert_eq!(program(&message("lib", &own, "null"), &directory), None);
        assert_eq!(program(&message("bin", "/elsewhere/Cargo.toml", "\"/target/x\""), &directory), None);
        assert_eq!(program("   Compiling steer", &directory), None);
    }
}
