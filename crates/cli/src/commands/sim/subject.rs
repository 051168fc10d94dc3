//! Selects the simulated operator: of charts in this process, of plays, a Rust program, or any command.

use std::path::Path;
use std::time::Duration;

use kube::Client;
use serde_json::Value;
use steersman::{BoxError, Operator};
use steersman_helm_operator::{Defaults, KEY_SECRET, WatchConfig, add_watches};
use steersman_simulate::{Command, Scenario, Simulation};

use super::Sim;
use crate::commands::dev::cargo;
use crate::commands::dev::project::{self, InitialObjects, NAMESPACE, Part, Project};
use crate::failure::{Failure, Result, note};

/// Arguments to run several programs of the crate `steersman` concurrently, without fixed ports.
const RUN: [&str; 5] = [
    "run",
    "--metrics-bind-address=0",
    "--health-probe-bind-address=0",
    "--log-format=text",
    "--webhook-port=0",
];

impl Sim {
    /// Creates the requested simulation with its scenario.
    pub(super) async fn simulation(&self) -> Result<Simulation> {
        if let Some((program, arguments)) = self.command.split_first() {
            let project = Project::config_of(&self.project);
            let command = arguments.iter().fold(Command::new(program), Command::argument);
            return self.of_command(&project, command, Vec::new());
        }
        let project = Project::load(&self.project)?;
        for part in &project.parts {
            match part {
                Part::Charts(watches) => return self.of_charts(&project, watches),
                #[cfg(all(unix, feature = "ansible"))]
                Part::Plays(plays) => return self.of_plays(&project, plays).await,
                Part::Crate => return self.of_crate(&project).await,
                _ => {}
            }
        }
        let what = self.project.display();
        Err(Failure::new(format!("{what} has no operator: no charts, no plays and no Rust package"))
            .help("name a program after `--`: steer sim . -- ./bin/manager"))
    }

    fn samples(&self, project: &Project) -> Result<Vec<Value>> {
        let mut samples = Vec::new();
        for path in &self.sample {
            samples.extend(project::documents_at(path)?);
        }
        if self.sample.is_empty() {
            samples = project.samples()?;
        }
        if samples.is_empty() {
            let place = self.project.join("config/samples");
            return Err(Failure::new(format!("nothing to simulate: {} is empty", place.display()))
                .help("put a sample of each kind there, or name a file by --sample: the simulation applies and deletes them"));
        }
        Ok(samples)
    }

    /// Returns a scenario with the initial objects, and the operator's service account.
    fn prepare_scenario(
        &self,
        project: &Project,
        printed: Vec<Value>,
    ) -> Result<(Scenario, Option<(String, String)>)> {
        let InitialObjects { objects, account } = project.initial_objects()?;
        let (mut given, mut account) = (objects, account);
        for path in &self.crd {
            given.extend(project::documents_at(path)?);
        }
        if !printed.is_empty() {
            account = project::account_in(&printed).or(account);
            given.extend(printed);
        }
        // Namespaces and definitions precede the objects that depend on them.
        given.sort_by_key(|object| match object["kind"].as_str() {
            Some("Namespace") => 0,
            Some("CustomResourceDefinition") => 1,
            _ => 2,
        });
        Ok((given.into_iter().fold(Scenario::new(), Scenario::given), account))
    }

    fn of_charts(&self, project: &Project, charts: &[WatchConfig]) -> Result<Simulation> {
        let (scenario, account) = self.prepare_scenario(project, Vec::new())?;
        let samples = self.samples(project)?;
        let scenario = samples.iter().cloned().fold(scenario, Scenario::apply);
        let scenario = samples.iter().rev().fold(scenario, Scenario::delete);
        let (watches, is_namespaced) = (charts.to_vec(), project.is_namespaced);
        let prepare = move |client: Client| {
            let watches = watches.clone();
            async move {
                let mut operator = Operator::new("helm-operator");
                if is_namespaced {
                    operator = operator.namespaces([NAMESPACE]);
                }
                let defaults = Defaults { kind_timeout: Duration::from_secs(30), ..Defaults::default() };
                add_watches(operator, &watches, &defaults, &client).await.map_err(BoxError::from)
            }
        };
        let mut simulation = Simulation::of_prepared(prepare).scenario(scenario).rolls_back(true);
        // All releases share the key that signs release records.
        simulation = simulation.keeps(format!("secrets/{NAMESPACE}/{KEY_SECRET}"));
        // It is created with the first release, and recreated at startup: records signed with another key are adopted.
        simulation = simulation.ignores(format!("secrets/{NAMESPACE}/{KEY_SECRET}"));
        // A crash during an install leaves a failed revision, and the next one has a higher number, as with Helm.
        simulation = simulation.ignores("secrets/*/sh.helm.release.v1.*");
        for watch in charts {
            simulation = simulation.ignores_field(&watch.kind, ".status.history");
            for rule in &watch.ignore {
                for pointer in &rule.paths {
                    simulation = simulation.allows_edits(rule.kind.as_deref(), pointer);
                }
            }
        }
        if let Some((namespace, name)) = account {
            simulation = simulation.account(namespace, name);
        }
        Ok(simulation)
    }

    /// Builds the operator's program and simulates it with the definitions and roles that it prints.
    async fn of_crate(&self, project: &Project) -> Result<Simulation> {
        let executable = cargo::build(&self.project, self.bin.as_deref(), false, |line| note(&line)).await?;
        let nowhere = Path::new("no-kubeconfig");
        let printed = cargo::manifests(&executable.path, &self.project, NAMESPACE, nowhere).await;
        let mut command = Command::new(&executable.path).directory(&self.project);
        if printed.is_some() {
            command = RUN.iter().fold(command, Command::argument);
        }
        let mut printed = printed.unwrap_or_default();
        // The operator is a local process, and its webhooks are not served.
        printed.retain(|object| {
            matches!(
                object["kind"].as_str(),
                Some(
                    "CustomResourceDefinition"
                        | "ServiceAccount"
                        | "ClusterRole"
                        | "ClusterRoleBinding"
                        | "Role"
                        | "RoleBinding"
                )
            )
        });
        self.of_command(project, command, printed)
    }

    pub(super) fn of_command(
        &self,
        project: &Project,
        command: Command,
        printed: Vec<Value>,
    ) -> Result<Simulation> {
        let (scenario, account) = self.prepare_scenario(project, printed)?;
        let samples = self.samples(project)?;
        let scenario = samples.iter().cloned().fold(scenario, Scenario::apply);
        let scenario = samples.iter().fold(scenario, Scenario::change);
        let scenario = samples.iter().rev().fold(scenario, Scenario::delete);
        let simulation = Simulation::of_command(command).scenario(scenario);
        Ok(match account {
            Some((namespace, name)) => simulation.account(namespace, name),
            None => simulation,
        })
    }
}
