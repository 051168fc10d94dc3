//! The fork server: a Python process with Ansible imported, which forks a child for each run.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};

use super::processes::{MARK, kill_marked};
use super::python::Libraries;

/// A running fork server. Dropping it ends the process and its runs.
pub(crate) struct Server {
    commands: mpsc::UnboundedSender<Value>,
    exits: Exits,
    started: AtomicU64,
    /// The fingerprint of the imported code when it was started.
    pub(crate) fingerprint: u64,
    /// The libraries besides Ansible.
    pub(crate) libraries: Libraries,
}

type Exits = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<i32>>>>>;

#[derive(Deserialize)]
struct Answer {
    run: Option<u64>,
    exited: Option<i32>,
}

/// A run in a child of the server. Dropping it kills the run.
pub(crate) struct ServerRun {
    number: u64,
    exit: oneshot::Receiver<i32>,
    commands: mpsc::UnboundedSender<Value>,
}

impl Server {
    /// Starts a server and waits until it has imported Ansible. `mark` identifies its processes.
    pub(crate) async fn start(
        mut command: Command,
        mark: PathBuf,
        fingerprint: u64,
    ) -> std::io::Result<Self> {
        let mut process = command
            .args(["-m", "steersman_ansible", "serve"])
            .env(MARK, mark.join("server"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let lost = || std::io::Error::other("the fork server has no standard streams");
        let input = process.stdin.take().ok_or_else(lost)?;
        let answers = process.stdout.take().ok_or_else(lost)?;
        Self::speak(input, answers, Some(process), mark, fingerprint).await
    }

    /// Requests a prepared process to fork a server, with the environment of `command`. See [`super::PreparedPython`].
    pub(crate) async fn fork(
        socket: &Path,
        command: &Command,
        mark: PathBuf,
        fingerprint: u64,
    ) -> std::io::Result<Self> {
        let (answers, mut input) = UnixStream::connect(socket).await?.into_split();
        // JSON strings are Unicode, so other names and values of variables are skipped.
        let mut environment: HashMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        environment.insert(MARK.to_owned(), mark.join("server").display().to_string());
        for (name, value) in command.as_std().get_envs() {
            let name = name.to_string_lossy().into_owned();
            match value {
                Some(value) => environment.insert(name, value.to_string_lossy().into_owned()),
                None => environment.remove(&name),
            };
        }
        let begin = json!({ "environment": environment, "directory": std::env::current_dir()? });
        input.write_all(format!("{begin}\n").as_bytes()).await?;
        Self::speak(input, answers, None, mark, fingerprint).await
    }

    /// Waits for the first response, then relays commands and responses.
    async fn speak(
        mut input: impl AsyncWrite + Send + Unpin + 'static,
        answers: impl AsyncRead + Send + Unpin + 'static,
        process: Option<Child>,
        mark: PathBuf,
        fingerprint: u64,
    ) -> std::io::Result<Self> {
        let mut answers = BufReader::new(answers).lines();
        let Some(ready) = answers.next_line().await? else {
            return Err(std::io::Error::other("the fork server exited while importing Ansible"));
        };
        let libraries = serde_json::from_str(&ready)?;
        let (commands, mut waiting) = mpsc::unbounded_channel::<Value>();
        let exits: Exits = Arc::new(Mutex::new(Some(HashMap::new())));
        let reported = Arc::clone(&exits);
        // When the last sender of commands is dropped, standard input closes, and the server exits.
        tokio::spawn(async move {
            while let Some(command) = waiting.recv().await {
                if input.write_all(format!("{command}\n").as_bytes()).await.is_err() {
                    break;
                }
            }
        });
        tokio::spawn(async move {
            while let Ok(Some(line)) = answers.next_line().await {
                let Ok(Answer { run: Some(run), exited: Some(code) }) = serde_json::from_str(&line) else {
                    continue;
                };
                let mut exits = reported.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(sender) = exits.as_mut().and_then(|exits| exits.remove(&run)) {
                    let _ = sender.send(code);
                }
            }
            // A killed server leaves behind programs that its runs had started.
            kill_marked(&mark);
            // Dropping the senders notifies the waiting runs that they ended with the server.
            reported.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(mut process) = process {
                let _ = process.wait().await;
            }
        });
        Ok(Self { commands, exits, started: AtomicU64::new(0), fingerprint, libraries })
    }

    /// Whether the process is running.
    pub(crate) fn is_alive(&self) -> bool {
        self.exits.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Returns the number of runs it has started.
    pub(crate) fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// Starts a run. None if the server is gone.
    pub(crate) fn run(&self, number: u64, request: &Path) -> Option<ServerRun> {
        let (sender, exit) = oneshot::channel();
        self.exits.lock().unwrap_or_else(PoisonError::into_inner).as_mut()?.insert(number, sender);
        self.started.fetch_add(1, Ordering::Relaxed);
        self.commands.send(json!({ "run": number, "request": request })).ok()?;
        Some(ServerRun { number, exit, commands: self.commands.clone() })
    }
}

impl ServerRun {
    /// Waits for the run's exit code, negative for a signal. None if the server is gone, and the run with it.
    pub(crate) async fn exited(&mut self) -> Option<i32> {
        (&mut self.exit).await.ok()
    }
}

impl Drop for ServerRun {
    fn drop(&mut self) {
        // The server ignores runs that have ended.
        let _ = self.commands.send(json!({ "kill": self.number }));
    }
}
