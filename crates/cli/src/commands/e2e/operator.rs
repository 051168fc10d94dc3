//! The embedded cluster of a run, with the project's operator on it under its own role.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use kube::Client;
use steersman_cluster::{Cluster, User};
use steersman_testkit::{Changed, Controls, OperatorChange};
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinHandle;

use super::super::dev::events;
use super::super::dev::project::Project;
use crate::commands::cluster::{Claim, Kubeconfig};
use crate::failure::{Failure, Result};

/// A cluster in this process.
pub(crate) struct Embedded {
    pub(crate) cluster: Cluster,
    kubeconfig: Kubeconfig,
}

impl Embedded {
    /// Starts a cluster, with workloads or as a control plane alone, and writes its kubeconfig.
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

/// The project's operator, running.
struct RunningOperator {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<std::result::Result<(), steersman::Error>>,
    user: Option<User>,
    /// What it runs as, for people.
    description: String,
}

/// The operators of a run, which steps can kill and start again.
pub(crate) struct Operators {
    projects: Vec<PathBuf>,
    cluster: Cluster,
    running: Mutex<Vec<RunningOperator>>,
}

impl RunningOperator {
    /// Installs the project's definitions and role, and runs its operator.
    async fn start(root: &Path, cluster: &Cluster) -> Result<Self> {
        let project = Project::load(root)?;
        let client = cluster.client();
        project.install_definitions(&client).await?;
        let account = project.install_role(&client).await?;
        let operator_client = match &account {
            Some(account) => cluster.client_as(account.user()),
            None => client,
        };
        let operator = project.operator(&operator_client).await?;
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = tokio::spawn(operator.run_until(operator_client, async {
            // Dropping the sender stops the operator as well.
            let _ = stopped.await;
        }));
        let description = match &account {
            Some(account) => {
                format!("operator running as {} ({} permissions)", account.name, account.permissions)
            }
            None => "operator running as administrator: there is no role in config/rbac".to_owned(),
        };
        let user = account.map(|account| account.user());
        Ok(Self { stop, ended, user, description })
    }

    /// What the operator was not allowed to do.
    fn denied(&self, cluster: &Cluster) -> Vec<String> {
        let Some(user) = &self.user else { return Vec::new() };
        events::denied(cluster, &user.name)
    }

    async fn stop(self) -> Result {
        drop(self.stop);
        let ended = self.ended.await.map_err(|error| Failure::new(format!("the operator ended: {error}")))?;
        ended.map_err(|error| Failure::new(error.to_string()))
    }
}

impl Operators {
    /// Runs the operators of projects, each with its own role.
    pub(crate) async fn start(projects: Vec<PathBuf>, cluster: &Cluster) -> Result<Self> {
        let operators = Self { projects, cluster: cluster.clone(), running: Mutex::default() };
        operators.start_all().await?;
        Ok(operators)
    }

    async fn start_all(&self) -> Result {
        let mut running = self.running.lock().await;
        if running.is_empty() {
            for project in &self.projects {
                running.push(RunningOperator::start(project, &self.cluster).await?);
            }
        }
        Ok(())
    }

    /// What the operators run as, for people.
    pub(crate) async fn descriptions(&self) -> Vec<String> {
        self.running.lock().await.iter().map(|operator| operator.description.clone()).collect()
    }

    /// Stops the operators, and says what they were not allowed to do.
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
                        operator.ended.abort();
                        // Nothing of it runs on when this returns.
                        let _ = operator.ended.await;
                    }
                    Ok(())
                }
            }
        })
    }
}
