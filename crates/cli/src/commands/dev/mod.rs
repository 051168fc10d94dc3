//! `steer dev`.

pub(super) mod cargo;
pub(super) mod events;
#[cfg(feature = "screen")]
mod interface;
#[cfg(not(feature = "screen"))]
#[path = "without/interface.rs"]
mod interface;
mod operators;
#[cfg(feature = "kudo")]
mod package;
#[cfg(not(feature = "kudo"))]
#[path = "without/package.rs"]
mod package;
#[cfg(all(unix, feature = "ansible"))]
pub(super) mod plays;
#[cfg(not(all(unix, feature = "ansible")))]
#[path = "without/plays.rs"]
mod plays;
#[cfg(feature = "serve")]
mod portal;
#[cfg(not(feature = "serve"))]
#[path = "without/portal.rs"]
mod portal;
pub(super) mod program;
pub(super) mod project;
#[cfg(feature = "scaffold")]
mod project_file;
#[cfg(not(feature = "scaffold"))]
#[path = "without/project_file.rs"]
mod project_file;
mod screen;
pub(super) mod view;
pub(super) mod watch;

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Args;
use steersman_cluster::{Cluster, KUBERNETES_VERSION};

use self::interface::terminal::Terminal;
use self::operators::{Board, OperatorEnvironment, Operators};
use self::portal::PortalLog;
use self::project::Project;
use self::screen::Screen;
use self::view::{Scene, View};
use crate::args::GlobalArgs;
use crate::commands::cluster::{Claim, DEFAULT_KUBECONFIG, interrupted};
use crate::failure::{Failure, Result};

const ABOUT: &str = "\
Run a project on an embedded cluster, with live reload

Starts a cluster in this process, installs the project's CRDs and role, runs its operator with that role, applies \
its samples, and shows their progress, here and in the portal, which includes the REST API of `steer serve`. Nothing else has to be installed, and Ctrl-C leaves nothing behind.

A project is a watches.yaml with charts or with Ansible roles and playbooks, a Rust package, or a KUDO package. When its files change, \
the operator is rebuilt and restarted; the cluster and its objects are kept. For a changed chart, the changes to its releases are shown field by field.";

const EXAMPLES: &str = "\
Examples:
  steer dev examples/minimart
  steer dev . --kubeconfig ./kubeconfig          for kubectl in another terminal
  steer dev . --until-ready                      ends when all samples are ready: for scripts
  steer dev . --until-ready -o json
  steer dev ./cache-operator -- --log-level debug
                                                 a project in Rust, with arguments for its program";

/// Interval at which the view is updated.
const LOOK: Duration = Duration::from_millis(200);

/// Timeout for a program to serve its webhooks.
const WEBHOOK_START: Duration = Duration::from_secs(15);

/// Maximum number of changed files to name.
const NAMED: usize = 3;

/// Run a project on an embedded cluster, with live reload
#[derive(Args, Debug)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub(crate) struct Dev {
    /// Directory of the project
    #[arg(default_value = ".")]
    project: PathBuf,

    /// Port to listen on [default: a free port]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,

    /// Exit when all samples are ready
    #[arg(long, visible_alias = "once")]
    until_ready: bool,

    /// With --until-ready, time after which to fail
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = super::release::duration)]
    timeout: Duration,

    /// Persist the cluster in .steer/cluster, and restore it from there
    #[arg(long)]
    keep: bool,

    /// Do not apply the samples
    #[arg(long)]
    no_samples: bool,

    /// Reload when project files change [default: true, or false with --until-ready]
    #[arg(short, long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "true|false")]
    watch: Option<bool>,

    /// Binary of a Rust project to run as the operator [default: the only binary]
    #[arg(long, value_name = "NAME")]
    bin: Option<String>,

    /// Arguments for the binary of a Rust project
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<OsString>,

    /// Output format [default: screen on a terminal, live with --until-ready, otherwise plain]
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// Full screen: scrollable objects, events and logs, with keys to filter and open them.
    #[cfg_attr(not(feature = "screen"), value(skip))]
    Screen,
    /// A line for each change, above a summary that is updated in place.
    Live,
    /// A line for each change.
    Plain,
    /// A JSON object for each change.
    Json,
}

impl Dev {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result {
        crate::runtime::multi_thread()?.block_on(self.serve(globals))
    }

    async fn serve(self, globals: &GlobalArgs) -> Result {
        let format = self.format();
        let project = Project::load(&self.project)?;
        let screen = Screen::new(format);
        let changed = Arc::clone(&screen.changed);
        let board = Board(Arc::new(Mutex::new(screen)));
        // On drop, it restores the terminal before anything else is written.
        let terminal = match format {
            Format::Screen => Some(Terminal::enter(board.clone(), changed)?),
            Format::Live | Format::Plain | Format::Json => None,
        };
        let ended = self.serve_on(project, board.clone(), terminal, globals).await;
        if ended.is_err() {
            // The messages that led to the failure were on the interface's screen, which is gone.
            board.interface(|interface| interface.messages().for_each(|line| println!("{line}")));
        }
        ended
    }

    /// Returns the output format: the flag, or a default that depends on the terminal and `--until-ready`.
    fn format(&self) -> Format {
        let (shows, asks) = (std::io::stdout().is_terminal(), std::io::stdin().is_terminal());
        self.output.unwrap_or(match (shows, asks && !self.until_ready) {
            (true, true) if cfg!(feature = "screen") => Format::Screen,
            (true, _) => Format::Live,
            (false, _) => Format::Plain,
        })
    }

    async fn serve_on(
        &self,
        mut project: Project,
        board: Board,
        mut terminal: Option<Terminal>,
        globals: &GlobalArgs,
    ) -> Result {
        let path = globals.kubeconfig.clone().unwrap_or_else(|| DEFAULT_KUBECONFIG.into());
        let shown = path.display().to_string();
        let claim = Claim::new(path)?;
        let begun = Instant::now();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port.unwrap_or_default()));
        let mut builder = Cluster::builder().listen(address).record_access(true).metrics(true);
        if self.keep {
            builder = builder.data_directory(".steer/cluster");
        }
        let cluster = builder.start().await.map_err(|error| Failure::new(error.to_string()))?;
        let spent = begun.elapsed().as_millis();
        let file = claim.write(&cluster)?;
        board.say(&format!(
            "embedded cluster    Kubernetes {KUBERNETES_VERSION} API in {spent} ms      KUBECONFIG={shown}"
        ));

        board.interface(|interface| {
            let project = self.project.display();
            interface.set_title(format!(
                "steer dev {project}   Kubernetes {KUBERNETES_VERSION}   KUBECONFIG={shown}"
            ));
        });

        let log = PortalLog::default();
        keep_log(&log, &board);
        let ended = end_asked_for(terminal.as_mut(), &cluster);
        tokio::pin!(ended);
        let place = OperatorEnvironment {
            root: self.project.clone(),
            cluster: cluster.clone(),
            board: board.clone(),
            log,
            kubeconfig: file.path.clone(),
            operator_kubeconfig: file.path.with_extension("operator"),
            bin: self.bin.clone(),
            arguments: self.arguments.clone(),
            in_colour: board.with(|screen| screen.is_in_colour()),
        };
        let seen = watch::snapshot(std::slice::from_ref(&self.project));
        let starting = Operators::start(&project, &place);
        let mut operators = tokio::select! {
            started = starting => started?,
            ended = &mut ended => return ended,
        };
        let mut samples = operators.instances();
        if !self.no_samples {
            samples += apply_samples(&project, &place).await?;
        }
        if !self.until_ready {
            let samples = project.samples()?;
            portal::start(&cluster, &board, samples, operators.metrics(), place.log.clone()).await?;
        }

        let view = View::new(cluster.clone(), operators.watched());
        let ended = tokio::select! {
            ended = self.show(&view, &board, begun, samples) => ended,
            ended = self.follow(&mut project, &mut operators, &place, &view, seen) => ended,
            ended = &mut ended => ended,
        };
        let stopped = operators.stop().await;
        let _ = std::fs::remove_file(&place.operator_kubeconfig);
        drop(file);
        ended.and(stopped)
    }

    /// Reloads operators and samples whenever files of the project change, forever.
    async fn follow(
        &self,
        project: &mut Project,
        operators: &mut Operators,
        place: &OperatorEnvironment,
        view: &View,
        mut seen: watch::Snapshot,
    ) -> Result {
        let directories = [self.project.clone()];
        let follows = self.watch.unwrap_or(!self.until_ready);
        loop {
            let change = async {
                match follows {
                    true => watch::changed(&directories, &seen).await,
                    false => std::future::pending().await,
                }
            };
            tokio::select! {
                () = change => {}
                how = operators.ended() => {
                    let failure = Failure::new(format!("the operator exited: {how}"));
                    if !follows {
                        return Err(failure);
                    }
                    let failure = failure.help("it is restarted when a file changes");
                    place.board.with(|screen| screen.failure(&failure));
                    continue;
                }
            }
            let now = watch::snapshot(&directories);
            let changed = watch::differences(&seen, &now);
            seen = now;
            if let Err(failure) = self.take_over(project, operators, place, &changed).await {
                place.board.with(|screen| screen.failure(&failure));
            }
            view.watch(operators.watched());
        }
    }

    async fn take_over(
        &self,
        project: &mut Project,
        operators: &mut Operators,
        place: &OperatorEnvironment,
        changed: &[PathBuf],
    ) -> Result {
        for path in changed.iter().take(NAMED) {
            let path = path.strip_prefix(&self.project).unwrap_or(path);
            place.board.with(|screen| screen.doing(&format!("{} changed", path.display())));
        }
        // A file may be read while it is half written: the next change tries again.
        let loaded = Project::load(&self.project)?;
        if loaded.parts.len() != project.parts.len() {
            return Err(Failure::new("the project's type has changed").help("restart `steer dev`"));
        }
        *project = loaded;
        operators.reload(project, place, changed).await;
        let in_samples = |path: &PathBuf| path.starts_with(self.project.join("config/samples"));
        if !self.no_samples && changed.iter().any(in_samples) {
            apply_samples(project, place).await?;
        }
        Ok(())
    }

    /// Shows the view until everything is ready, or forever.
    async fn show(&self, view: &View, board: &Board, begun: Instant, samples: usize) -> Result {
        let (mut scene, mut version) = (Scene::default(), None);
        loop {
            // Looking lists all kinds, so it is skipped while nothing has changed.
            let current = Some(view.version());
            if version != current {
                scene = view.look().await?;
                version = current;
                board.with(|screen| screen.show(&scene));
            }
            let objects = &scene.objects;
            let ready = objects.len() >= samples && objects.iter().all(|object| object.ready);
            if self.until_ready && ready {
                board.with(|screen| screen.finish(&scene, begun.elapsed()));
                return Ok(());
            }
            if ready {
                board.with(|screen| screen.hint(&scene));
            }
            if self.until_ready && begun.elapsed() >= self.timeout {
                let waiting: Vec<String> = objects
                    .iter()
                    .filter(|object| !object.ready)
                    .map(|object| format!("{}: {}", object.title, object.state))
                    .collect();
                return Err(Failure::new(format!(
                    "not ready after {} s: {}",
                    self.timeout.as_secs(),
                    waiting.join("; ")
                )));
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Applies the samples and returns their number.
///
/// Retries while a program that was just started does not serve its webhooks yet.
async fn apply_samples(project: &Project, place: &OperatorEnvironment) -> Result<usize> {
    let begun = Instant::now();
    loop {
        match project.apply_samples(&place.cluster.client()).await {
            Ok(samples) => {
                samples.iter().for_each(|sample| place.board.say(&format!("{} applied", sample.file)));
                return Ok(samples.len());
            }
            Err(failure) if failure.message().contains("webhook") && begun.elapsed() < WEBHOOK_START => {
                tokio::time::sleep(LOOK).await;
            }
            Err(failure) => return Err(failure),
        }
    }
}

/// Waits until a key or a signal requests the exit.
async fn end_asked_for(terminal: Option<&mut Terminal>, cluster: &Cluster) -> Result {
    let keys = async {
        match terminal {
            Some(terminal) => terminal.run(cluster.client()).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = keys => ended,
        signal = interrupted() => signal.map_err(no_signals),
    }
}

/// Captures the logs of operators in this process for the portal and the terminal interface.
fn keep_log(log: &PortalLog, board: &Board) {
    let log = log.clone();
    let board = board.interface(|_| ()).map(|()| board.clone());
    // Fails if a subscriber is installed already, which then takes precedence.
    let _ = tracing_subscriber::fmt()
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .with_max_level(tracing_subscriber::filter::LevelFilter::INFO)
        .with_writer(move || LogWriter(log.clone(), board.clone()))
        .try_init();
}

/// Appends each write, which is a whole line, to a log.
struct LogWriter(PortalLog, Option<Board>);

impl std::io::Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        self.0.push(text.trim_end());
        if let Some(board) = &self.1 {
            board.with(|screen| screen.log(text.trim_end()));
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn no_signals(error: std::io::Error) -> Failure {
    Failure::new(format!("cannot wait for signals: {error}"))
}
