//! Runs playbooks: warm, in forks of a server process, or cold, in separate processes.

mod package;
mod prepared;
mod processes;
mod python;
mod server;

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once, OnceLock};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::net::UnixListener;
use tokio::process::{Child, Command};
use tokio::sync::Mutex;

use self::package::{Package, create};
pub use self::prepared::PreparedPython;
use self::processes::{MARK, kill_marked};
use self::python::Python;
pub use self::python::TESTED_ANSIBLE;
use self::server::{Server, ServerRun};
use crate::error::Result;
use crate::outcome::{Event, Outcome};
use crate::watches::Content;

/// The number of runs after which a fork server is replaced.
const RUNS_PER_SERVER: u64 = 2000;
/// The size of the output tail that is kept per run.
const OUTPUT_TAIL: usize = 64 << 10;
/// The maximum size of a run's event stream in bytes, in case of an endless loop.
const LONGEST_REPORT: u64 = 256 << 20;
/// How long to wait for the last events of a run that has ended.
const DRAIN: Duration = Duration::from_secs(2);
/// operator-sdk's inventory.
const INVENTORY: &str =
    "localhost ansible_connection=local ansible_python_interpreter=\"{{ansible_playbook_python}}\"\n";

/// How plays are run, from the program's flags.
#[derive(Clone, Debug, Default)]
pub struct RunnerOptions {
    /// The Python interpreter. By default that of `VIRTUAL_ENV`, of `ansible-playbook` or of `PATH`.
    pub python: Option<PathBuf>,
    /// Runs each play in a process of its own. False by default.
    pub cold: bool,
    /// Search path for roles. By default as in Ansible's configuration.
    pub roles_path: Vec<PathBuf>,
    /// Search path for collections. By default as in Ansible's configuration.
    pub collections_path: Vec<PathBuf>,
    /// Additional arguments of ansible-playbook. None by default.
    pub arguments: Vec<String>,
    /// Overrides the generated inventory with a file or a directory. None by default.
    pub inventory: Option<PathBuf>,
    /// Timeout of a run. No limit by default.
    pub timeout: Option<Duration>,
    /// The [`PreparedPython::socket`] that provides the fork server, instead of `python`. None by default: a new Python process
    /// imports Ansible.
    pub prepared: Option<PathBuf>,
}

/// A play to run.
#[derive(Clone, Debug)]
pub(crate) struct Play {
    pub(crate) content: Content,
    pub(crate) variables: Map<String, Value>,
    pub(crate) kubeconfig: Value,
    pub(crate) verbosity: u8,
    /// Whether to run with `--check --diff`.
    pub(crate) check: bool,
}

/// Runs plays. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Runner(Arc<Inner>);

struct Inner {
    package: Package,
    python: Python,
    options: RunnerOptions,
    warm: bool,
    /// Files and directories with imported code: the fork server is restarted when they change.
    sources: Vec<PathBuf>,
    server: Mutex<Option<Arc<Server>>>,
    /// Warnings about the setup, reported with the first run, as logging is not set up earlier.
    warnings: Vec<String>,
    /// Warnings about libraries that the first fork server lacks.
    lacking: OnceLock<Vec<String>>,
    announced: Once,
    next: AtomicU64,
}

/// A run's process.
enum Process {
    Warm(ServerRun),
    Cold(ColdRun),
}

/// A cold run, the leader of a process group. Dropping it kills the group, and processes that have left it.
struct ColdRun {
    process: Child,
    /// The mark that identifies all processes of the run.
    mark: PathBuf,
}

impl ColdRun {
    fn kill_group(&self) {
        let pid = self
            .process
            .id()
            .and_then(|pid| i32::try_from(pid).ok())
            .and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
    }
}

impl Drop for ColdRun {
    fn drop(&mut self) {
        self.kill_group();
        kill_marked(&self.mark);
    }
}

impl Process {
    /// Waits for the exit. Returns the exit code, negative for a signal, or None if unknown.
    async fn exited(&mut self) -> Option<i32> {
        match self {
            Self::Warm(run) => run.exited().await,
            Self::Cold(run) => {
                use std::os::unix::process::ExitStatusExt as _;
                let status = run.process.wait().await.ok()?;
                status.code().or(status.signal().map(|signal| -signal))
            }
        }
    }
}

impl Runner {
    /// Finds Python and Ansible, and creates the operator's private directory.
    pub(crate) async fn new(
        options: RunnerOptions,
        role_directories: Vec<PathBuf>,
        mut warnings: Vec<String>,
    ) -> Result<Self> {
        let package = Package::unpack()?;
        let python = match &options.prepared {
            Some(socket) => Python::read(&prepared::description(socket))?,
            None => Python::find(options.python.as_deref(), &package).await?,
        };
        let warm = !options.cold && python.is_tested();
        if !options.cold && !warm {
            warnings.push(format!(
                "plays run cold with ansible-core {}: warm runs are tested only with {}",
                python.ansible,
                TESTED_ANSIBLE.join(" and ")
            ));
        }
        if !warm && let Ok(libraries) = python.libraries(&package).await {
            warnings.extend(libraries.warnings(&python.program));
        }
        let inner = Inner {
            package,
            python,
            warm,
            sources: options.collections_path.iter().cloned().chain(role_directories).collect(),
            options,
            server: Mutex::default(),
            warnings,
            lacking: OnceLock::new(),
            announced: Once::new(),
            next: AtomicU64::new(1),
        };
        let runner = Self(Arc::new(inner));
        if warm {
            // Started ahead of the first run, which reports any error.
            if let Ok(server) = runner.server().await {
                runner.0.lacking.get_or_init(|| server.libraries.warnings(&runner.0.python.program));
            }
        }
        Ok(runner)
    }

    /// Runs a play, and passes its events to `tell`. Dropping the future kills the run.
    pub(crate) async fn run(&self, play: &Play, mut tell: impl FnMut(&Event)) -> Outcome {
        match self.try_run(play, &mut tell).await {
            Ok(outcome) => outcome,
            Err(error) => Outcome { errors: vec![error.to_string()], ..Outcome::default() },
        }
    }

    async fn try_run(&self, play: &Play, tell: &mut impl FnMut(&Event)) -> std::io::Result<Outcome> {
        let inner = &*self.0;
        inner.announced.call_once(|| {
            for warning in inner.warnings.iter().chain(inner.lacking.get().into_iter().flatten()) {
                tracing::warn!("{warning}");
            }
            let Python { program, ansible } = &inner.python;
            tracing::info!(python = %program.display(), ansible, warm = inner.warm, "running plays");
        });
        let directory = inner.package.run_directory()?;
        let path = |name: &str| directory.path().join(name);
        let events = UnixListener::bind(path("events"))?;
        let output = UnixListener::bind(path("output"))?;
        inner.write_files(play, directory.path())?;
        let mut outcome = Outcome::default();
        let mut process = self.start(&path("request.json")).await?;
        let printed = tokio::spawn(async move {
            let (stream, _) = output.accept().await?;
            tail(stream).await
        });
        let deadline = async {
            match inner.options.timeout {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(deadline);
        let listen = async {
            let (stream, _) = events.accept().await?;
            std::io::Result::Ok(BufReader::new(stream.take(LONGEST_REPORT)).lines())
        };
        let mut lines = tokio::select! {
            lines = listen => Some(lines?),
            // The process exited before it connected.
            code = process.exited() => {
                outcome.errors.push(ended_early(code));
                None
            }
            () = &mut deadline => {
                outcome.errors.push(inner.too_long());
                None
            }
        };
        let mut exit = None;
        while let Some(reader) = &mut lines {
            let line = tokio::select! {
                line = reader.next_line() => line,
                code = process.exited(), if exit.is_none() => {
                    exit = Some(code);
                    continue;
                }
                () = tokio::time::sleep(DRAIN), if exit.is_some() => Ok(None),
                () = &mut deadline => {
                    outcome.errors.push(inner.too_long());
                    break;
                }
            };
            let Ok(Some(line)) = line else { break };
            match serde_json::from_str::<Event>(&line) {
                Ok(event) => {
                    tell(&event);
                    let last = matches!(event, Event::End { .. });
                    outcome.add(event);
                    if last {
                        break;
                    }
                }
                Err(error) => tracing::debug!(%error, "cannot parse an event"),
            }
        }
        if lines.is_some() && outcome.code.is_none() && outcome.errors.is_empty() {
            let code = match exit {
                Some(code) => code,
                None => tokio::time::timeout(DRAIN, process.exited()).await.unwrap_or_default(),
            };
            outcome.errors.push(ended_early(code));
        }
        // Kills processes that the run has left behind.
        drop(process);
        let printed = tokio::time::timeout(DRAIN, printed).await;
        if let Ok(Ok(Ok(text))) = printed {
            outcome.output = text;
        }
        Ok(outcome)
    }

    async fn start(&self, request: &Path) -> std::io::Result<Process> {
        let inner = &*self.0;
        let number = inner.next.fetch_add(1, Ordering::Relaxed);
        if inner.warm {
            let server = self.server().await?;
            if let Some(run) = server.run(number, request) {
                return Ok(Process::Warm(run));
            }
            return Err(std::io::Error::other("the fork server exited"));
        }
        let mut command = inner.command();
        command.args(["-m", "steersman_ansible", "run"]).arg(request);
        let mark = inner.mark(number);
        command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0).kill_on_drop(true);
        let process = command.env(MARK, mark.join("run")).spawn()?;
        Ok(Process::Cold(ColdRun { process, mark }))
    }

    /// Returns the fork server. Starts a new one if it exited, has reached its number of runs, or imported code has changed.
    async fn server(&self) -> std::io::Result<Arc<Server>> {
        let inner = &*self.0;
        let mut server = inner.server.lock().await;
        let fingerprint = fingerprint(&inner.sources);
        let usable = server.as_ref().filter(|server| {
            server.is_alive() && server.started() < RUNS_PER_SERVER && server.fingerprint == fingerprint
        });
        if let Some(usable) = usable {
            return Ok(Arc::clone(usable));
        }
        // Runs in progress keep the old server alive until they end.
        let mark = inner.mark(inner.next.fetch_add(1, Ordering::Relaxed));
        let new = match &inner.options.prepared {
            // Only for the first server: what it has imported may have changed before a second one is needed.
            Some(socket) if server.is_none() => {
                Server::fork(socket, &inner.command(), mark, fingerprint).await?
            }
            _ => Server::start(inner.command(), mark, fingerprint).await?,
        };
        let new = Arc::new(new);
        *server = Some(Arc::clone(&new));
        Ok(new)
    }
}

impl Inner {
    /// Returns the mark of the processes of a fork server or cold run.
    fn mark(&self, number: u64) -> PathBuf {
        self.package.path().join(number.to_string())
    }

    fn command(&self) -> Command {
        command(&self.package, &self.python, &self.options)
    }

    fn write_files(&self, play: &Play, directory: &Path) -> std::io::Result<()> {
        let write = |name: &str, content: &str| {
            let path = directory.join(name);
            create(&path)?.write_all(content.as_bytes())?;
            Ok::<_, std::io::Error>(path.display().to_string())
        };
        let kubeconfig = write("kubeconfig", &play.kubeconfig.to_string())?;
        let variables = write("variables.json", &json!(play.variables).to_string())?;
        let inventory = match &self.options.inventory {
            Some(path) => path.display().to_string(),
            None => write("hosts", INVENTORY)?,
        };
        let playbook = match &play.content {
            Content::Playbook(path) => path.display().to_string(),
            Content::Role(path) => write("playbook.yml", &role_playbook(&path.display().to_string()))?,
            Content::CollectionRole(name) => write("playbook.yml", &role_playbook(name))?,
        };
        let temporary = directory.join("tmp");
        package::make_directory(&temporary)?;
        let mut arguments = vec!["-i".to_owned(), inventory, "-e".to_owned(), format!("@{variables}")];
        if play.verbosity > 0 {
            arguments.push(format!("-{}", "v".repeat(play.verbosity.into())));
        }
        if play.check {
            arguments.extend(["--check".to_owned(), "--diff".to_owned()]);
        }
        arguments.extend(self.options.arguments.iter().cloned());
        arguments.push(playbook);
        let request = json!({
            "arguments": arguments,
            "environment": { "K8S_AUTH_KUBECONFIG": kubeconfig, "KUBECONFIG": kubeconfig },
            "directory": std::env::current_dir()?,
            "temporary": temporary,
            "events": directory.join("events"),
            "output": directory.join("output"),
        });
        write("request.json", &request.to_string()).map(|_| ())
    }

    fn too_long(&self) -> String {
        let limit = self.options.timeout.unwrap_or_default();
        format!("the run exceeded its time limit of {limit:?} and was killed")
    }
}

/// Builds the Python command, with the operator's package and the Ansible settings shared by all runs.
fn command(package: &Package, python: &Python, options: &RunnerOptions) -> Command {
    let mut command = Command::new(&python.program);
    command
        .env("PYTHONPATH", package.python_path())
        .env("PYTHONUNBUFFERED", "1")
        .env("TMPDIR", package.temporary())
        .env("ANSIBLE_LOCAL_TEMP", package.temporary())
        .env("ANSIBLE_NOCOLOR", "1")
        .env("ANSIBLE_RETRY_FILES_ENABLED", "0")
        .env_remove("ANSIBLE_INVENTORY");
    let paths = [
        ("ANSIBLE_ROLES_PATH", &options.roles_path),
        ("ANSIBLE_COLLECTIONS_PATH", &options.collections_path),
    ];
    for (name, paths) in paths {
        if let Ok(joined) = std::env::join_paths(paths)
            && !joined.is_empty()
        {
            command.env(name, joined);
        }
    }
    command
}

/// Returns a playbook with a single role; facts are gathered according to Ansible's configuration.
fn role_playbook(role: &str) -> String {
    json!([{ "hosts": "localhost", "roles": [{ "role": role }] }]).to_string()
}

fn ended_early(code: Option<i32>) -> String {
    match code {
        Some(code) if code < 0 => format!("the run was killed by signal {}", -code),
        Some(code) => format!("the run exited early with code {code}"),
        None => "the run ended early, because its process exited".to_owned(),
    }
}

/// Reads a stream to its end, and returns the tail.
async fn tail(mut stream: impl AsyncRead + Unpin) -> std::io::Result<String> {
    let mut kept: VecDeque<u8> = VecDeque::new();
    let mut chunk = vec![0; 16 << 10];
    loop {
        let count = stream.read(&mut chunk).await?;
        if count == 0 {
            break;
        }
        kept.extend(&chunk[..count]);
        let surplus = kept.len().saturating_sub(OUTPUT_TAIL);
        kept.drain(..surplus);
    }
    Ok(String::from_utf8_lossy(kept.make_contiguous()).into_owned())
}

/// Computes a hash of the Python files below the directories. Files that plays read for each run, such as tasks and templates, do
/// not count.
fn fingerprint(directories: &[PathBuf]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for directory in directories {
        hash_directory(directory, 0, &mut hasher);
    }
    hasher.finish()
}

fn hash_directory(directory: &Path, depth: usize, hasher: &mut DefaultHasher) {
    // Plugins of roles and collections are not nested this deeply.
    if depth > 8 {
        return;
    }
    let mut entries: Vec<_> = std::fs::read_dir(directory).into_iter().flatten().flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        if kind.is_dir() && entry.file_name() != "__pycache__" {
            hash_directory(&path, depth + 1, hasher);
        } else if path.extension().is_some_and(|extension| extension == "py")
            && let Ok(meta) = entry.metadata()
        {
            (path, meta.len(), meta.modified().ok()).hash(hasher);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn of_much_output_the_end_is_kept() {
        let text = "x".repeat(50 << 20) + "the end";
        let kept = tail(text.as_bytes()).await.unwrap();
        assert_eq!(kept.len(), OUTPUT_TAIL);
        assert!(kept.ends_with("the end"));
    }

    #[test]
    fn a_changed_plugin_makes_a_new_server() {
        let directory = tempfile::tempdir().unwrap();
        let library = directory.path().join("shop/library");
        std::fs::create_dir_all(&library).unwrap();
        let now = || fingerprint(&[directory.path().to_owned()]);
        let before = now();
        std::fs::write(directory.path().join("shop/tasks.yml"), "[]").unwrap();
        assert_eq!(now(), before, "tasks are read for each run");
        std::fs::write(library.join("module.py"), "pass").unwrap();
        assert_ne!(now(), before);
    }
}
