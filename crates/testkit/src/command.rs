//! Programs and scripts of tests, run as kuttl runs them.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::Child;
use tokio::time::Instant;

use crate::shell;
use crate::types::{AssertCommand, Command};

/// The environment and directories that a test's commands run in.
#[derive(Clone, Debug)]
pub(crate) struct CommandEnvironment {
    /// Value of `$NAMESPACE`.
    pub(crate) namespace: String,
    /// Value of `$KUBECONFIG`.
    pub(crate) kubeconfig: PathBuf,
    /// The directory that the run was started in; its `bin` is first in `$PATH`.
    pub(crate) working_directory: PathBuf,
    /// The directory that commands run in.
    pub(crate) directory: PathBuf,
}

/// The failure of a command.
#[derive(Debug)]
pub(crate) struct CommandError {
    pub(crate) message: String,
    /// Whether it timed out, which ends the step.
    pub(crate) timed_out: bool,
}

impl CommandError {
    fn new(message: String) -> Self {
        Self { message, timed_out: false }
    }
}

impl CommandEnvironment {
    fn variables(&self) -> [(&'static str, String); 3] {
        let path = std::env::var("PATH").unwrap_or_default();
        [
            ("NAMESPACE", self.namespace.clone()),
            ("KUBECONFIG", self.kubeconfig.display().to_string()),
            ("PATH", format!("{}/bin/:{path}", self.working_directory.display())),
        ]
    }

    /// Runs commands until one fails, and returns those started in the background.
    ///
    /// `timeout` is in seconds, 0 for none; a command's own timeout overrides it.
    pub(crate) async fn run_all(
        &self,
        commands: &[Command],
        timeout: i64,
        log: &(dyn Fn(&str) + Sync),
    ) -> (Vec<Child>, Result<(), CommandError>) {
        let mut background = Vec::new();
        for (index, command) in commands.iter().enumerate() {
            match self.run(command, timeout, log).await {
                Ok(child) => background.extend(child),
                Err(error) => {
                    let skipped = commands.len() - index - 1;
                    if skipped > 0 {
                        log(&format!("command failure, skipping {skipped} additional commands"));
                    }
                    return (background, Err(error));
                }
            }
        }
        (background, Ok(()))
    }

    async fn run(
        &self,
        command: &Command,
        timeout: i64,
        log: &(dyn Fn(&str) + Sync),
    ) -> Result<Option<Child>, CommandError> {
        let shown = if command.script.is_empty() { command.command.trim() } else { command.script.trim() };
        let words = self
            .words(command)
            .map_err(|why| CommandError::new(format!("processing command {shown:?} with {why}")))?;
        log(&format!("running command: {words:?}"));
        let mut builder = self.builder(&words).map_err(CommandError::new)?;
        let output = || if command.skip_log_output { Stdio::null() } else { Stdio::piped() };
        builder.stdin(Stdio::null()).stdout(output()).stderr(output());
        let seconds = match command.timeout {
            0 => timeout,
            own => own.max(0),
        };
        let mut child = builder
            .spawn()
            .map_err(|error| CommandError::new(format!("command {shown:?} failed, {error}")))?;
        if command.background {
            let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
            // Keep reading the pipes: the program would block on a full one.
            tokio::spawn(async move { tokio::join!(drain(stdout), drain(stderr)) });
            return Ok(Some(child));
        }
        let deadline = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
        let deadline = deadline.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let mut status = None;
        let ended = async {
            // Also waits for child processes that outlive the program and keep its output open.
            let exited = async { status = Some(child.wait().await) };
            tokio::join!(exited, lines(stdout, log), lines(stderr, log));
        };
        let in_time = match deadline {
            Some(deadline) => tokio::time::timeout_at(deadline, ended).await.is_ok(),
            None => {
                ended.await;
                true
            }
        };
        if !in_time {
            kill(&mut child).await;
        }
        match status {
            Some(Ok(status)) if status.success() && in_time => Ok(None),
            Some(Err(error)) => Err(CommandError::new(format!("command {shown:?} failed, {error}"))),
            // A program killed at its deadline also has a failing exit status.
            Some(Ok(status)) if !status.success() && command.ignore_failure => Ok(None),
            None if command.ignore_failure => Ok(None),
            _ if !in_time => Err(CommandError {
                message: format!(
                    "command {shown:?} exceeded {seconds} sec timeout, context deadline exceeded"
                ),
                timed_out: true,
            }),
            Some(Ok(status)) => Err(CommandError::new(format!("command {shown:?} failed, {status}"))),
            None => Err(CommandError::new(format!("command {shown:?} did not exit"))),
        }
    }

    fn words(&self, command: &Command) -> Result<Vec<String>, String> {
        match (command.command.is_empty(), command.script.is_empty()) {
            (false, false) => {
                return Err("command and script can not be set in the same configuration".into());
            }
            (true, true) => return Err("command or script must be set".into()),
            (true, false) if command.namespaced => {
                return Err(
                    "script can not used 'namespaced', use the $NAMESPACE environment variable instead"
                        .into(),
                );
            }
            (true, false) => return Ok(vec!["sh".into(), "-c".into(), command.script.clone()]),
            (false, true) => {}
        }
        let variables = self.variables();
        let variable = |name: &str| match variables.iter().find(|(known, _)| *known == name) {
            Some((_, value)) => Some(value.clone()),
            None => std::env::var(name).ok(),
        };
        let mut words = shell::split_words(&shell::expand(&command.command, &variable))?;
        if words.is_empty() {
            return Err("no program in the command".into());
        }
        if command.namespaced && !shell::has_namespace(&words)? {
            words.extend(["--namespace".to_owned(), self.namespace.clone()]);
        }
        Ok(words)
    }

    fn builder(&self, words: &[String]) -> Result<tokio::process::Command, String> {
        let program = words.first().map(String::as_str).unwrap_or_default();
        // Programs are looked up in this process's PATH, not in the one that they are given.
        let found = if program.contains('/') { PathBuf::from(program) } else { find(program)? };
        let mut builder = tokio::process::Command::new(found);
        builder.args(&words[1..]).envs(self.variables()).kill_on_drop(true);
        if self.directory != Path::new("") {
            builder.current_dir(&self.directory);
        }
        #[cfg(unix)]
        builder.arg0(program).process_group(0);
        Ok(builder)
    }
}

/// Finds a program in this process's `$PATH`.
fn find(program: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_program = |file: &PathBuf| {
        #[cfg(unix)]
        let is_executable = |metadata: std::fs::Metadata| {
            use std::os::unix::fs::PermissionsExt as _;
            metadata.permissions().mode() & 0o111 != 0
        };
        #[cfg(not(unix))]
        let is_executable = |_| true;
        std::fs::metadata(file).is_ok_and(|metadata| !metadata.is_dir() && is_executable(metadata))
    };
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(is_program)
        .ok_or_else(|| format!("exec: {program:?}: executable file not found in $PATH"))
}

/// Kills a program and the process group that it started.
async fn kill(child: &mut Child) {
    #[cfg(unix)]
    if let Some(group) =
        child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw)
    {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill().await;
}

/// Kills a background command.
pub(crate) async fn stop(mut child: Child) {
    kill(&mut child).await;
}

async fn lines(output: Option<impl AsyncRead + Unpin>, log: &(dyn Fn(&str) + Sync)) {
    let Some(output) = output else { return };
    let mut reader = BufReader::new(output);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).await.is_ok_and(|read| read > 0) {
        log(String::from_utf8_lossy(&line).trim_end_matches('\n'));
        line.clear();
    }
}

async fn drain(output: Option<impl AsyncRead + Unpin>) {
    if let Some(mut output) = output {
        let _ = tokio::io::copy(&mut output, &mut tokio::io::sink()).await;
    }
}

impl From<&AssertCommand> for Command {
    fn from(command: &AssertCommand) -> Self {
        Self {
            command: command.command.clone(),
            namespaced: command.namespaced,
            script: command.script.clone(),
            skip_log_output: command.skip_log_output,
            ..Self::default()
        }
    }
}
