//! Runs a project's operators on the embedded cluster: starts, reloads on file changes, and stops them.

use std::ffi::OsString;
use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use futures::future::select_all;
use kube::Client;
use steersman::Operator;
use steersman_cluster::Cluster;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::cargo::{self, Executable, Program};
use super::interface::Interface;
use super::portal::PortalLog;
use super::program::{CommandEnvironment, Installed, Ports};
use super::project::{self, Account, Part, Project};
use super::screen::Screen;
use super::view::Watched;
use crate::failure::{Failure, Result};

/// How to add a missing permission to a project's role files.
const ROLE_FILES: &str = "add it to config/rbac";
/// How to add a missing permission to an operator whose role is generated from code.
const ROLE_CODE: &str = "declare it with Operator::permission";

/// The screen, shared with operators that write to it.
#[derive(Clone)]
pub(super) struct Board(pub(super) Arc<Mutex<Screen>>);

impl Board {
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Screen) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn say(&self, text: &str) {
        self.with(|screen| screen.say(text));
    }

    /// Calls a function with the terminal interface, if there is one.
    pub(super) fn interface<T>(&self, work: impl FnOnce(&mut Interface) -> T) -> Option<T> {
        self.with(|screen| screen.interface.as_mut().map(work))
    }
}

/// The environment in which operators run.
pub(super) struct OperatorEnvironment {
    pub(super) root: PathBuf,
    pub(super) cluster: Cluster,
    pub(super) board: Board,
    /// The recent output of programs.
    pub(super) log: PortalLog,
    /// The administrator's kubeconfig.
    pub(super) kubeconfig: PathBuf,
    /// Path of the kubeconfig for an operator's program.
    pub(super) operator_kubeconfig: PathBuf,
    /// The name of the package's program that is the operator.
    pub(super) bin: Option<String>,
    /// Further arguments of the program.
    pub(super) arguments: Vec<OsString>,
    pub(super) in_colour: bool,
}

/// The running operators of a project.
#[derive(Default)]
pub(super) struct Operators {
    running: Vec<Running>,
}

/// An operator in this process.
pub(super) struct InProcess {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<std::result::Result<(), steersman::Error>>,
}

enum Running {
    /// An operator of charts or plays; `None` if it has ended.
    Watches { operator: Option<InProcess>, watched: Watched, metrics: SocketAddr },
    /// An operator of a KUDO package; `None` if it has ended.
    Package { operator: Option<InProcess>, metrics: SocketAddr },
    /// An operator in Rust; its program is `None` if it has exited.
    Crate { executable: Executable, program: Option<Box<Program>>, watched: Watched, ports: Ports },
}

impl OperatorEnvironment {
    fn command_environment(&self) -> CommandEnvironment<'_> {
        CommandEnvironment {
            root: &self.root,
            cluster: &self.cluster,
            kubeconfig: &self.kubeconfig,
            operator_kubeconfig: &self.operator_kubeconfig,
        }
    }
}

/// Returns what the view watches for a program.
fn watched(installed: &Installed) -> Watched {
    let remedy = if installed.has_commands { ROLE_CODE } else { ROLE_FILES };
    Watched::of(installed.kinds.clone()).user(installed.account.as_ref(), remedy)
}

impl InProcess {
    pub(super) fn start(operator: Operator, client: Client) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = tokio::spawn(operator.run_until(client, async {
            // Dropping the sender also stops the operator.
            let _ = stopped.await;
        }));
        Self { stop, ended }
    }

    /// Waits until it ends on its own, and returns the result as text.
    async fn ended(&mut self) -> String {
        match (&mut self.ended).await {
            Ok(Ok(())) => "without an error".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        }
    }

    async fn stop(self) -> Result {
        drop(self.stop);
        let ended =
            self.ended.await.map_err(|error| Failure::new(format!("the operator failed: {error}")))?;
        ended.map_err(|error| Failure::new(error.to_string()))
    }
}

impl Operators {
    /// Installs the prerequisites of a project's operators, and starts them.
    pub(super) async fn start(project: &Project, place: &OperatorEnvironment) -> Result<Self> {
        let mut operators = Self::default();
        for part in &project.parts {
            operators.running.push(Running::start(project, part, place).await?);
        }
        Ok(operators)
    }

    /// Returns what the view watches.
    pub(super) fn watched(&self) -> Watched {
        let mut all = Watched::default();
        for running in &self.running {
            match running {
                Running::Watches { watched, .. } | Running::Crate { watched, .. } => all.add(watched),
                Running::Package { .. } => {
                    all.add(&Watched::of(vec![project::instances()]).reporting());
                }
            }
        }
        all
    }

    /// Returns the operators' names with their metrics addresses.
    pub(super) fn metrics(&self) -> Vec<(String, SocketAddr)> {
        let metrics = |running: &Running| match running {
            Running::Watches { metrics, .. } => ("charts and plays".to_owned(), *metrics),
            Running::Package { metrics, .. } => ("packages".to_owned(), *metrics),
            Running::Crate { ports, executable, .. } => {
                let name = executable.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                (name, ports.metrics)
            }
        };
        self.running.iter().map(metrics).collect()
    }

    /// Returns the number of instances that the operators installed themselves.
    pub(super) fn instances(&self) -> usize {
        self.running.iter().filter(|running| matches!(running, Running::Package { .. })).count()
    }

    /// Reloads the operators after files changed. An operator that fails to reload keeps running unchanged.
    pub(super) async fn reload(
        &mut self,
        project: &Project,
        place: &OperatorEnvironment,
        changed: &[PathBuf],
    ) {
        for (running, part) in self.running.iter_mut().zip(&project.parts) {
            if let Err(failure) = running.reload(project, part, place, changed).await {
                place.board.with(|screen| screen.failure(&failure));
            }
        }
    }

    /// Waits until an operator ends on its own, and returns the result as text.
    ///
    /// The next reload restarts it.
    pub(super) async fn ended(&mut self) -> String {
        if self.running.is_empty() {
            return pending().await;
        }
        select_all(self.running.iter_mut().map(|running| Box::pin(running.ended()))).await.0
    }

    pub(super) async fn stop(self) -> Result {
        let mut result = Ok(());
        for running in self.running {
            match running {
                Running::Watches { operator: Some(operator), .. }
                | Running::Package { operator: Some(operator), .. } => {
                    result = result.and(operator.stop().await);
                }
                Running::Crate { program: Some(program), .. } => program.stop().await,
                Running::Watches { operator: None, .. }
                | Running::Package { operator: None, .. }
                | Running::Crate { program: None, .. } => {}
            }
        }
        result
    }
}

impl Running {
    async fn start(project: &Project, part: &Part, place: &OperatorEnvironment) -> Result<Self> {
        let client = place.cluster.client();
        match part {
            Part::Crate => start_crate(project, place).await,
            Part::Package(package) => {
                let metrics = metrics_address()?;
                let operator = package.start(place, metrics).await?;
                Ok(Self::Package { operator: Some(operator), metrics })
            }
            part => {
                for name in project.install_definitions(&client).await? {
                    place.board.say(&format!("{name} established"));
                }
                let account = project.install_role(&client).await?;
                place.board.say(&project::describe(account.as_ref()));
                let metrics = metrics_address()?;
                let (operator, client) = prepare(project, part, place, account.as_ref(), metrics).await?;
                let watched = Watched::of(part.kinds()).reporting().user(account.as_ref(), ROLE_FILES);
                Ok(Self::Watches { operator: Some(InProcess::start(operator, client)), watched, metrics })
            }
        }
    }

    /// Waits until the operator ends on its own, and returns the result as text.
    async fn ended(&mut self) -> String {
        match self {
            Self::Watches { operator, .. } | Self::Package { operator, .. } => {
                let Some(running) = operator else { return pending().await };
                let how = running.ended().await;
                *operator = None;
                how
            }
            Self::Crate { program, .. } => {
                let Some(running) = program else { return pending().await };
                let status = running.ended().await;
                *program = None;
                status.map_or_else(|| "unknown exit status".to_owned(), |status| status.to_string())
            }
        }
    }

    #[expect(clippy::needless_pass_by_ref_mut, reason = "the parts are changed through the match")]
    async fn reload(
        &mut self,
        project: &Project,
        part: &Part,
        place: &OperatorEnvironment,
        changed: &[PathBuf],
    ) -> Result {
        // Samples are applied separately.
        let is_about_operator = |path: &PathBuf| !path.starts_with(place.root.join("config/samples"));
        if !changed.iter().any(is_about_operator) {
            return Ok(());
        }
        let client = place.cluster.client();
        match (self, part) {
            (Self::Crate { executable, program, watched, ports }, Part::Crate) => {
                // Definitions and role are generated from the code.
                if changed.iter().all(|path| path.starts_with(place.root.join("config"))) {
                    return Ok(());
                }
                let built = build(place, false).await?;
                if built == *executable && program.is_some() {
                    return Ok(());
                }
                let installed =
                    place.command_environment().install(project, &built.path, ports.webhook).await?;
                if let Some(program) = program.take() {
                    program.stop().await;
                }
                *program = Some(Box::new(start_program(place, &built.path, &installed, *ports)?));
                (*executable, *watched) = (built, self::watched(&installed));
                place.board.say("operator restarted with the new build");
                Ok(())
            }
            (Self::Package { operator, metrics }, Part::Package(package)) => {
                package.reload(place, operator, *metrics).await
            }
            (Self::Watches { operator, watched, metrics }, part) => {
                project.install_definitions(&client).await?;
                let account = project.install_role(&client).await?;
                let (next, client) = prepare(project, part, place, account.as_ref(), *metrics).await?;
                // Two operators for one kind would undo each other's changes.
                let stopped = match operator.take() {
                    Some(last) => last.stop().await,
                    None => Ok(()),
                };
                *operator = Some(InProcess::start(next, client));
                *watched = Watched::of(part.kinds()).reporting().user(account.as_ref(), ROLE_FILES);
                place.board.say("operator reloaded");
                stopped
            }
            _ => Ok(()),
        }
    }
}

/// Creates the operator of charts or plays, and its client.
async fn prepare(
    project: &Project,
    part: &Part,
    place: &OperatorEnvironment,
    account: Option<&Account>,
    metrics: SocketAddr,
) -> Result<(Operator, Client)> {
    let client = match account {
        Some(account) => place.cluster.client_as(account.user()),
        None => place.cluster.client(),
    };
    let board = place.board.clone();
    let tell = Box::new(move |line: &str| board.with(|screen| screen.log(line)));
    let operator = part.operator(project.is_namespaced, &client, tell).await?;
    let operator = operator.ok_or_else(|| Failure::new("the operator has no charts or plays"))?;
    Ok((operator.metrics_address(metrics), client))
}

/// Returns an address for metrics on localhost.
fn metrics_address() -> Result<SocketAddr> {
    Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, cargo::free_port()?)))
}

/// Builds the package and reports the result.
///
/// Cargo's output is shown live for the first build, which takes long, and afterwards only for warnings and errors.
async fn build(place: &OperatorEnvironment, is_first: bool) -> Result<Executable> {
    let begun = Instant::now();
    place.board.with(|screen| screen.doing("cargo build"));
    let mut words = Vec::new();
    let built = cargo::build(&place.root, place.bin.as_deref(), place.in_colour, |line| {
        if is_first {
            place.board.with(|screen| screen.aside(&line));
        } else {
            words.push(line);
        }
    })
    .await;
    let spoke = built.is_err() || words.iter().any(|line| line.contains("warning:"));
    if spoke {
        words.iter().for_each(|line| place.board.with(|screen| screen.aside(line)));
    }
    let built = built?;
    place.board.say(&format!("built in {:.1} s", begun.elapsed().as_secs_f64()));
    Ok(built)
}

async fn start_crate(project: &Project, place: &OperatorEnvironment) -> Result<Running> {
    let executable = build(place, true).await?;
    let ports = Ports { webhook: cargo::free_port()?, metrics: metrics_address()?, probes: None };
    let installed = place.command_environment().install(project, &executable.path, ports.webhook).await?;
    for (api_version, kind) in &installed.kinds {
        place.board.say(&format!("{kind} of {api_version} established"));
    }
    place.board.say(&project::describe(installed.account.as_ref()));
    let program = Some(Box::new(start_program(place, &executable.path, &installed, ports)?));
    Ok(Running::Crate { executable, program, watched: watched(&installed), ports })
}

fn start_program(
    place: &OperatorEnvironment,
    program: &Path,
    installed: &Installed,
    ports: Ports,
) -> Result<Program> {
    let board = place.board.clone();
    let log = place.log.clone();
    let said = move |line: String| {
        log.push(&line);
        board.with(|screen| screen.log(&line));
    };
    place.command_environment().start(program, installed, ports, &place.arguments, said)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An operator whose port is in use exits at once.
    #[tokio::test]
    async fn an_operator_that_ends_in_this_process_is_noticed() {
        let cluster = Cluster::builder().workloads(false).start().await.unwrap();
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let metrics = taken.local_addr().unwrap();
        let operator = Operator::new("shops").metrics_address(metrics);
        let operator = Some(InProcess::start(operator, cluster.client()));
        let mut operators = Operators { running: vec![Running::Package { operator, metrics }] };
        let how = operators.ended().await;
        assert!(how.contains(&metrics.to_string()), "{how}");
        assert!(matches!(operators.running[0], Running::Package { operator: None, .. }));
        operators.stop().await.unwrap();
    }
}
