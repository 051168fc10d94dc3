//! The operators of a project on its embedded cluster: started, reloaded when files change, and stopped.

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
use super::program::{Installed, Ports, Surroundings};
use super::project::{self, Account, Part, Project};
use super::screen::Screen;
use super::view::Watched;
use crate::failure::{Failure, Result};

/// What is changed by hand if the role of a project lacks something.
const ROLE_FILES: &str = "add it to config/rbac";
/// The same for operators whose role follows from their code.
const ROLE_CODE: &str = "declare it with Operator::permission";

/// The screen, which operators write to as well.
#[derive(Clone)]
pub(super) struct Board(pub(super) Arc<Mutex<Screen>>);

impl Board {
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Screen) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn say(&self, text: &str) {
        self.with(|screen| screen.say(text));
    }

    /// Does something to the terminal interface, if there is one.
    pub(super) fn interface<T>(&self, work: impl FnOnce(&mut Interface) -> T) -> Option<T> {
        self.with(|screen| screen.interface.as_mut().map(work))
    }
}

/// Where operators run, and how.
pub(super) struct Place {
    pub(super) root: PathBuf,
    pub(super) cluster: Cluster,
    pub(super) board: Board,
    /// What programs wrote last.
    pub(super) log: PortalLog,
    /// The way to the cluster for administrators.
    pub(super) kubeconfig: PathBuf,
    /// Where a program finds its way to the cluster.
    pub(super) operator_kubeconfig: PathBuf,
    /// Which program of a package is the operator.
    pub(super) bin: Option<String>,
    /// More arguments of a program.
    pub(super) arguments: Vec<OsString>,
    pub(super) in_colour: bool,
}

/// The operators of a project, running.
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
    /// Of charts or plays. There is no operator if the last one ended.
    Watches { operator: Option<InProcess>, watched: Watched, metrics: SocketAddr },
    /// Of a KUDO package. There is no operator if the last one ended.
    Package { operator: Option<InProcess>, metrics: SocketAddr },
    /// In Rust. There is no program if the last one ended.
    Crate { executable: Executable, program: Option<Box<Program>>, watched: Watched, ports: Ports },
}

impl Place {
    fn surroundings(&self) -> Surroundings<'_> {
        Surroundings {
            root: &self.root,
            cluster: &self.cluster,
            kubeconfig: &self.kubeconfig,
            operator_kubeconfig: &self.operator_kubeconfig,
        }
    }
}

/// What the view shows of a program.
fn watched(installed: &Installed) -> Watched {
    let remedy = if installed.has_commands { ROLE_CODE } else { ROLE_FILES };
    Watched::of(installed.kinds.clone()).user(installed.account.as_ref(), remedy)
}

impl InProcess {
    pub(super) fn start(operator: Operator, client: Client) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = tokio::spawn(operator.run_until(client, async {
            // Dropping the sender stops the operator as well.
            let _ = stopped.await;
        }));
        Self { stop, ended }
    }

    /// Returns when it ended by itself, with what it ended with.
    async fn ended(&mut self) -> String {
        match (&mut self.ended).await {
            Ok(Ok(())) => "without an error".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        }
    }

    async fn stop(self) -> Result {
        drop(self.stop);
        let ended = self.ended.await.map_err(|error| Failure::new(format!("the operator ended: {error}")))?;
        ended.map_err(|error| Failure::new(error.to_string()))
    }
}

impl Operators {
    /// Installs what the operators of a project need, and starts them.
    pub(super) async fn start(project: &Project, place: &Place) -> Result<Self> {
        let mut operators = Self::default();
        for part in &project.parts {
            operators.running.push(Running::start(project, part, place).await?);
        }
        Ok(operators)
    }

    /// What the view shows.
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

    /// The operators by name, with the addresses of their metrics.
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

    /// How many objects the operators brought along themselves.
    pub(super) fn instances(&self) -> usize {
        self.running.iter().filter(|running| matches!(running, Running::Package { .. })).count()
    }

    /// Brings the operators up to date with files that have changed. One that cannot be keeps running as it was.
    pub(super) async fn reload(&mut self, project: &Project, place: &Place, changed: &[PathBuf]) {
        for (running, part) in self.running.iter_mut().zip(&project.parts) {
            if let Err(failure) = running.reload(project, part, place, changed).await {
                place.board.with(|screen| screen.failure(&failure));
            }
        }
    }

    /// Returns when an operator ended by itself, with what it ended with. The next reload starts it again.
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
    async fn start(project: &Project, part: &Part, place: &Place) -> Result<Self> {
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

    /// Returns when the operator ended by itself, with what it ended with.
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
                status.map_or_else(|| "it is not known how".to_owned(), |status| status.to_string())
            }
        }
    }

    #[expect(clippy::needless_pass_by_ref_mut, reason = "the parts are changed through the match")]
    async fn reload(&mut self, project: &Project, part: &Part, place: &Place, changed: &[PathBuf]) -> Result {
        // Samples are applied without the operator's doing.
        let is_about_operator = |path: &PathBuf| !path.starts_with(place.root.join("config/samples"));
        if !changed.iter().any(is_about_operator) {
            return Ok(());
        }
        let client = place.cluster.client();
        match (self, part) {
            (Self::Crate { executable, program, watched, ports }, Part::Crate) => {
                // Their definitions and role follow from the code.
                if changed.iter().all(|path| path.starts_with(place.root.join("config"))) {
                    return Ok(());
                }
                let built = build(place, false).await?;
                if built == *executable && program.is_some() {
                    return Ok(());
                }
                let installed = place.surroundings().install(project, &built.path, ports.webhook).await?;
                if let Some(program) = program.take() {
                    program.stop().await;
                }
                *program = Some(Box::new(start_program(place, &built.path, &installed, *ports)?));
                (*executable, *watched) = (built, self::watched(&installed));
                place.board.say("the operator runs as it is now");
                Ok(())
            }
            (Self::Package { operator, metrics }, Part::Package(package)) => {
                package.reload(place, operator, *metrics).await
            }
            (Self::Watches { operator, watched, metrics }, part) => {
                project.install_definitions(&client).await?;
                let account = project.install_role(&client).await?;
                let (next, client) = prepare(project, part, place, account.as_ref(), *metrics).await?;
                // Two operators of one kind would undo what the other did.
                let stopped = match operator.take() {
                    Some(last) => last.stop().await,
                    None => Ok(()),
                };
                *operator = Some(InProcess::start(next, client));
                *watched = Watched::of(part.kinds()).reporting().user(account.as_ref(), ROLE_FILES);
                place.board.say("the operator runs as its files are now");
                stopped
            }
            _ => Ok(()),
        }
    }
}

/// The operator of charts or plays, and the client that it works with.
async fn prepare(
    project: &Project,
    part: &Part,
    place: &Place,
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
    let operator = operator.ok_or_else(|| Failure::new("the operator is not made of charts or plays"))?;
    Ok((operator.metrics_address(metrics), client))
}

/// An address for metrics, on this machine alone.
fn metrics_address() -> Result<SocketAddr> {
    Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, cargo::free_port()?)))
}

/// Builds the package, and says how that went. Cargo's own words are shown as they come the first time, when it takes
/// long, and afterwards if they are about the project.
async fn build(place: &Place, is_first: bool) -> Result<Executable> {
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

async fn start_crate(project: &Project, place: &Place) -> Result<Running> {
    let executable = build(place, true).await?;
    let ports = Ports { webhook: cargo::free_port()?, metrics: metrics_address()?, probes: None };
    let installed = place.surroundings().install(project, &executable.path, ports.webhook).await?;
    for (api_version, kind) in &installed.kinds {
        place.board.say(&format!("{kind} of {api_version} established"));
    }
    place.board.say(&project::describe(installed.account.as_ref()));
    let program = Some(Box::new(start_program(place, &executable.path, &installed, ports)?));
    Ok(Running::Crate { executable, program, watched: watched(&installed), ports })
}

fn start_program(place: &Place, program: &Path, installed: &Installed, ports: Ports) -> Result<Program> {
    let board = place.board.clone();
    let log = place.log.clone();
    let said = move |line: String| {
        log.push(&line);
        board.with(|screen| screen.log(&line));
    };
    place.surroundings().start(program, installed, ports, &place.arguments, said)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An operator whose port is taken ends at once.
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
