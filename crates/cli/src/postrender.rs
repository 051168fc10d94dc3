//! Post-renderers: passes rendered manifests through another program.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::{Failure, Result};

/// A program that reads manifests from standard input and writes others to standard output.
pub(crate) struct PostRenderer {
    program: PathBuf,
    arguments: Vec<String>,
}

impl PostRenderer {
    /// Finds the program by its path, or in PATH.
    pub(crate) fn find(program: &str, arguments: &[String]) -> Result<Self> {
        let not_found = |reason: &str| {
            Failure::new(format!(
                "invalid argument {program:?} for \"--post-renderer\" flag: unable to find binary at {program}: \
                 exec: {program:?}: {reason}"
            ))
        };
        let found = if program.contains(std::path::MAIN_SEPARATOR) {
            let path = std::path::absolute(program).map_err(|error| not_found(&error.to_string()))?;
            is_executable(&path).map_err(not_found)?;
            path
        } else {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path)
                .map(|directory| directory.join(program))
                .find(|path| is_executable(path).is_ok())
                .ok_or_else(|| not_found("executable file not found in $PATH"))?
        };
        Ok(Self { program: found, arguments: arguments.to_vec() })
    }

    /// Runs the program, without a shell.
    pub(crate) fn run(&self, manifests: &str) -> std::result::Result<String, String> {
        let name = self.program.display();
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("error while running command {name}. error output:\n: {error}"))?;
        let stdin = child.stdin.take();
        // Written from a separate thread: a program may write output before it has read everything.
        let done = std::thread::scope(|scope| {
            scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(manifests.as_bytes())));
            child.wait_with_output()
        })
        .map_err(|error| format!("error while running command {name}: {error}"))?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            let how = match done.status.code() {
                Some(code) => format!("exit status {code}"),
                None => done.status.to_string(),
            };
            return Err(format!("error while running command {name}. error output:\n{said}: {how}"));
        }
        String::from_utf8(done.stdout).map_err(|_| format!("{name} did not print valid UTF-8"))
    }
}

#[cfg(unix)]
fn is_executable(path: &Path) -> std::result::Result<(), &'static str> {
    use std::os::unix::fs::PermissionsExt;
    match std::fs::metadata(path) {
        Ok(info) if info.is_dir() => Err("is a directory"),
        Ok(info) if info.permissions().mode() & 0o111 != 0 => Ok(()),
        Ok(_) => Err("permission denied"),
        Err(_) => Err("no such file or directory"),
    }
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> std::result::Result<(), &'static str> {
    if path.is_file() { Ok(()) } else { Err("no such file or directory") }
}
