//! The embedded cluster of a test run, with the project's operator under its own role.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use steersman_cluster::{Cluster, User};
use steersman_testkit::{Changed, Controls, OperatorChange};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinHandle;

use crate::commands::cluster::{Claim, Kubeconfig};
use crate::commands::dev::cargo::{self, Program};
use crate::commands::dev::events;
use crate::commands::dev::program::{CommandEnvironment, Ports};
use crate::commands::dev::project::{self, Part, Project};
use crate::failure::{Failure, Result, note};

/// An optional request of the runtime at startup, which compares definitions with its own.
const COURTESY: &str = "get customresourcedefinitions.apiextensions.k8s.io";

/// Timeout for an operator to be ready.
const START: Duration = Duration::from_secs(30);

/// A cluster in this process.
pub(crate) struct Embedded {
    pub(crate) cluster: Cluster,
    kubeconfig: Kubeconfig,
}

impl Embedded {
    /// Starts a cluster, with workloads or as a bare control plane, and writes its kubeconfig.
    pub(crate) async fn start(kubeconfig: PathBuf, workloads: bool) -> Result<Self> {
        let claim = Claim::new(kubeconfig)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let builder = Cluster::builder().listen(address).workloads(workloads).record_access(true);
        let cluster = builder.start().await.map_err(|error| Failure::new(error.to_string()))?;
        let kubeconfig = claim.write(&cluster)?;
        Ok(Self { cluster, kubeconfig })
    }

    pub(crate) fn client(&self) -> Client {
        self.cluster.client()
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig.path
    }
}

/// The running operator of a project.
struct RunningOperator {
    handle: OperatorHandle,
    user: Option<User>,
    /// Description of its account, for people.
    description: String,
}

enum OperatorHandle {
    /// An operator of charts or plays, in this process.
    Task { stop: oneshot::Sender<()>, ended: JoinHandle<std::result::Result<(), steersman::Error>> },
    /// An operator in Rust, as a separate process.
    Program { program: Program, kubeconfig: PathBuf },
}

/// How a project's operator is run.
struct Subject {
    root: PathBuf,
    /// The built program, for a Rust package.
    program: Option<PathBuf>,
    /// Path of the kubeconfig for the program.
    operator_kubeconfig: PathBuf,
}

/// Callback for operators' output, by line.
pub(crate) type LogLine = Arc<dyn Fn(String) + Send + Sync>;

/// The operators of a run, which test steps can kill and restart.
pub(crate) struct Operators {
    subjects: Vec<Subject>,
    cluster: Cluster,
    kubeconfig: PathBuf,
    log: LogLine,
    running: Mutex<Vec<RunningOperator>>,
}

impl Subject {
    /// Builds the program, if the project has one.
    async fn prepare(root: PathBuf, operator_kubeconfig: PathBuf) -> Result<Self> {
        let project = Project::load(&root)?;
        let is_crate = project.parts.iter().all(|part| matches!(part, Part::Crate));
        let program = if is_crate {
            Some(cargo::build(&root, None, false, |line| note(&line)).await?.path)
        } else {
            None
        };
        Ok(Self { root, program, operator_kubeconfig })
    }
}

impl RunningOperator {
    /// Installs the project's definitions and role, and runs its operator.
    async fn start(subject: &Subject, operators: &Operators) -> Result<Self> {
        let (project, cluster) = (Project::load(&subject.root)?, &operators.cluster);
        if let Some(program) = &subject.program {
            return Self::start_program(subject, operators, &project, program).await;
        }
        let client = cluster.client();
        project.install_definitions(&client).await?;
        let account = project.install_role(&client).await?;
        let operator_client = match &account {
            Some(account) => cluster.client_as(account.user()),
            None => client,
        };
        let operator = project.operator(&operator_client).await?;
        let operator = operator.environment(Arc::clone(cluster.environment()));
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = tokio::spawn(operator.run_until(operator_client, async {
            // Dropping the sender also stops the operator.
            let _ = stopped.await;
        }));
        let description = project::describe(account.as_ref());
        let user = account.map(|account| account.user());
        Ok(Self { handle: OperatorHandle::Task { stop, ended }, user, description })
    }

    async fn start_program(
        subject: &Subject,
        operators: &Operators,
        project: &Project,
        program: &Path,
    ) -> Result<Self> {
        let command_environment = CommandEnvironment {
            root: &subject.root,
            cluster: &operators.cluster,
            kubeconfig: &operators.kubeconfig,
            operator_kubeconfig: &subject.operator_kubeconfig,
        };
        let metrics = SocketAddr::from((Ipv4Addr::LOCALHOST, cargo::free_port()?));
        let probes = SocketAddr::from((Ipv4Addr::LOCALHOST, cargo::free_port()?));
        let ports = Ports { webhook: cargo::free_port()?, metrics, probes: Some(probes) };
        let installed = command_environment.install(project, program, ports.webhook).await?;
        let log = Arc::clone(&operators.log);
        let ahead = operators.cluster.advanced();
        let mut arguments = Vec::new();
        if installed.has_commands && !ahead.is_zero() {
            arguments.push(format!("--clock-offset={}", ahead.as_secs()).into());
        }
        let mut program =
            command_environment.start(program, &installed, ports, &arguments, move |line| log(line))?;
        if installed.has_commands {
            await_ready(&mut program, probes).await?;
        }
        let description = project::describe(installed.account.as_ref());
        let user = installed.account.map(|account| account.user());
        let handle = OperatorHandle::Program { program, kubeconfig: subject.operator_kubeconfig.clone() };
        Ok(Self { handle, user, description })
    }

    /// Returns the operator's denied requests.
    fn denied(&self, cluster: &Cluster) -> Vec<String> {
        let Some(user) = &self.user else { return Vec::new() };
        let mut denied = events::denied(cluster, &user.name);
        if matches!(self.handle, OperatorHandle::Program { .. }) {
            denied.retain(|access| access != COURTESY);
        }
        denied
    }

    async fn stop(self) -> Result {
        match self.handle {
            OperatorHandle::Task { stop, ended } => {
                drop(stop);
                let ended =
                    ended.await.map_err(|error| Failure::new(format!("the operator failed: {error}")))?;
                ended.map_err(|error| Failure::new(error.to_string()))
            }
            OperatorHandle::Program { program, kubeconfig } => {
                program.stop().await;
                // It contains a credential, which is useless after the cluster's end.
                let _ = std::fs::remove_file(kubeconfig);
                Ok(())
            }
        }
    }

    /// Kills it without a graceful shutdown. Nothing of it is running when this returns.
    async fn kill(self) {
        match self.handle {
            OperatorHandle::Task { ended, .. } => {
                ended.abort();
                let _ = ended.await;
            }
            OperatorHandle::Program { program, .. } => program.kill().await,
        }
    }
}

/// Waits until a program is ready, as its objects can't be written before its webhooks are served.
async fn await_ready(program: &mut Program, probes: SocketAddr) -> Result {
    let ready = async {
        while !is_ready(probes).await.unwrap_or_default() {
            // There is no notification of an open port, so poll.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        ready = tokio::time::timeout(START, ready) => ready.map_err(|_| {
            Failure::new(format!("the operator is not ready after {START:?}"))
                .help("start it with `steer dev` to see its logs")
        }),
        _ = program.ended() => Err(Failure::new("the operator exited before it was ready")),
    }
}

/// Queries an operator's readiness probe.
async fn is_ready(probes: SocketAddr) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(probes).await?;
    stream.write_all(b"GET /readyz HTTP/1.0\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.split(' ').nth(1) == Some("200"))
}

impl Operators {
    /// Starts the operators of projects, each with its own role. `log` receives the programs' output.
    pub(crate) async fn start(projects: Vec<PathBuf>, embedded: &Embedded, log: LogLine) -> Result<Self> {
        let kubeconfig = std::path::absolute(embedded.kubeconfig())
            .map_err(|error| Failure::new(format!("no working directory: {error}")))?;
        let mut subjects = Vec::new();
        for (number, root) in projects.into_iter().enumerate() {
            let operator_kubeconfig = kubeconfig.with_extension(format!("operator-{number}"));
            subjects.push(Subject::prepare(root, operator_kubeconfig).await?);
        }
        let cluster = embedded.cluster.clone();
        let operators = Self { subjects, cluster, kubeconfig, log, running: Mutex::default() };
        operators.start_all().await?;
        Ok(operators)
    }

    async fn start_all(&self) -> Result {
        let mut running = self.running.lock().await;
        if running.is_empty() {
            for subject in &self.subjects {
                running.push(RunningOperator::start(subject, self).await?);
            }
        }
        Ok(())
    }

    /// Returns descriptions of the operators' accounts, for people.
    pub(crate) async fn descriptions(&self) -> Vec<String> {
        self.running.lock().await.iter().map(|operator| operator.description.clone()).collect()
    }

    /// Stops the operators and returns their denied requests.
    pub(crate) async fn stop(&self) -> Result<Vec<String>> {
        let mut denied = Vec::new();
        for operator in self.running.lock().await.drain(..) {
            denied.extend(operator.denied(&self.cluster));
            operator.stop().await?;
        }
        Ok(denied)
    }
}

impl Controls for Operators {
    fn change_operator(&self, change: OperatorChange) -> Changed<'_> {
        Box::pin(async move {
            match change {
                OperatorChange::Start => {
                    self.start_all().await.map_err(|failure| failure.message().to_owned())
                }
                OperatorChange::Kill => {
                    for operator in self.running.lock().await.drain(..) {
                        operator.kill().await;
                    }
                    Ok(())
                }
                OperatorChange::CutWatches => {
                    for operator in self.running.lock().await.iter() {
                        let user = operator.user.as_ref();
                        let user = user.map_or_else(|| User::admin().name, |user| user.name.clone());
                        self.cluster.server().end_watches(&user);
                    }
                    Ok(())
                }
            }
        })
    }

    fn advance(&self, by: Duration) -> Changed<'_> {
        Box::pin(async move {
            self.cluster.advance(by);
            // Timers that an operator has set can't be moved, so it is restarted at the new time.
            if self.running.lock().await.is_empty() {
                return Ok(());
            }
            self.change_operator(OperatorChange::Kill).await?;
            self.change_operator(OperatorChange::Start).await
        })
    }
}
