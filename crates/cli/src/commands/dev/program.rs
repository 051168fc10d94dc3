//! Runs a Rust package's program on an embedded cluster, with its own manifests and account.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde_json::Value;
use steersman_cluster::Cluster;
use steersman_release::Kinds;

use super::cargo::{self, Program};
use super::project::{self, Account, NAMESPACE, Project, text};
use crate::failure::{Failure, Result};

/// The environment of a program.
pub(in crate::commands) struct CommandEnvironment<'a> {
    /// The directory of its package.
    pub(in crate::commands) root: &'a Path,
    pub(in crate::commands) cluster: &'a Cluster,
    /// The administrator's kubeconfig.
    pub(in crate::commands) kubeconfig: &'a Path,
    /// Path of the kubeconfig for the program.
    pub(in crate::commands) operator_kubeconfig: &'a Path,
}

/// The ports that a program serves on.
#[derive(Clone, Copy)]
pub(in crate::commands) struct Ports {
    pub(in crate::commands) webhook: u16,
    pub(in crate::commands) metrics: SocketAddr,
    /// The address of /readyz; not served if `None`.
    pub(in crate::commands) probes: Option<SocketAddr>,
}

/// The result of installing a program's manifests.
pub(in crate::commands) struct Installed {
    pub(in crate::commands) account: Option<Account>,
    /// API version and kind of its definitions.
    pub(in crate::commands) kinds: Vec<(String, String)>,
    /// Whether it uses the crate `steersman`, and so has its commands and flags.
    pub(in crate::commands) has_commands: bool,
}

impl CommandEnvironment<'_> {
    /// Installs the manifests printed by a package's program, except its Deployment; else those in config/.
    pub(in crate::commands) async fn install(
        &self,
        project: &Project,
        program: &Path,
        webhook_port: u16,
    ) -> Result<Installed> {
        let client = self.cluster.client();
        let printed = cargo::manifests(program, self.root, NAMESPACE, self.kubeconfig).await;
        let Some(documents) = printed else {
            project.install_definitions(&client).await?;
            let account = project.install_role(&client).await?;
            return Ok(Installed { account, kinds: project.defined_kinds()?, has_commands: false });
        };
        let mut definitions: Vec<(PathBuf, Value)> = Vec::new();
        let (mut roles, mut others) = (Vec::new(), Vec::new());
        for document in documents {
            match text(&document, "/kind") {
                "CustomResourceDefinition" => definitions.push((program.to_owned(), document)),
                "ServiceAccount" | "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding" => {
                    roles.push((program.to_owned(), document));
                }
                // The operator runs as a local process instead.
                "Deployment" => {}
                "Service" => {
                    let name = text(&document, "/metadata/name");
                    if name.ends_with("-webhook") {
                        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, webhook_port));
                        self.cluster.webhooks_at(NAMESPACE, name, address);
                    }
                }
                _ => others.push(document),
            }
        }
        // Kinds that the operator reconciles but does not define are in config/.
        project.install_definitions(&client).await?;
        let mut kinds = project.defined_kinds()?;
        kinds.extend(definitions.iter().map(|(_, definition)| project::defined_kind(definition)));
        kinds.sort();
        kinds.dedup();
        project::install_definitions(&client, definitions).await?;
        let account = project::install_role(&client, roles).await?;
        let known = Kinds::new(client.clone());
        for document in others {
            project::apply(&client, &known, document, program).await?;
        }
        Ok(Installed { account, kinds, has_commands: true })
    }

    /// Starts a program with its own account and ports. `said` receives its output by line.
    pub(in crate::commands) fn start(
        &self,
        program: &Path,
        installed: &Installed,
        ports: Ports,
        more: &[OsString],
        said: impl Fn(String) + Clone + Send + 'static,
    ) -> Result<Program> {
        let failed =
            |error: &dyn std::fmt::Display| Failure::new(format!("the operator's kubeconfig: {error}"));
        let text = match &installed.account {
            Some(account) => self.cluster.kubeconfig_as(account.user()),
            None => self.cluster.kubeconfig(),
        };
        let text = text.map_err(|error| failed(&error))?;
        crate::kubeconfig::private(self.operator_kubeconfig)
            .and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()))
            .map_err(|error| failed(&error))?;
        let mut arguments: Vec<OsString> = Vec::new();
        if installed.has_commands {
            arguments.extend(["run", "--metrics-secure=false", "--log-format=text"].map(Into::into));
            let probes = ports.probes.map_or_else(|| "0".to_owned(), |address| address.to_string());
            arguments.push(format!("--health-probe-bind-address={probes}").into());
            arguments.push(format!("--metrics-bind-address={}", ports.metrics).into());
            arguments.push(format!("--webhook-port={}", ports.webhook).into());
        }
        arguments.extend(more.iter().cloned());
        Program::start(program, self.root, &arguments, self.operator_kubeconfig, said)
    }
}
