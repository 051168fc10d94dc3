//! Simulates an Ansible operator.

use steersman_ansible_operator::{PreparedPython, RunnerOptions};
use steersman_simulate::{Command, Simulation};

use super::Sim;
use crate::commands::dev::plays::Plays;
use crate::commands::dev::project::Project;
use crate::failure::{Failure, Result};

/// Arguments to run several Ansible operators concurrently, without fixed ports.
const RUN_ANSIBLE: [&str; 4] =
    ["run", "ansible", "--metrics-bind-address=0", "--health-probe-bind-address=0"];

impl Sim {
    /// Simulates `steer run ansible` as the operator of the project's plays.
    pub(super) async fn of_plays(&self, project: &Project, plays: &Plays) -> Result<Simulation> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::new(format!("cannot find this program: {error}")))?;
        let mut command = RUN_ANSIBLE.iter().fold(Command::new(program), Command::argument);
        let prepared = PreparedPython::start(&RunnerOptions::default(), &self.project).await;
        if let Some(prepared) = prepared.map_err(|error| Failure::new(error.to_string()))? {
            command = command.argument("--prepared").argument(prepared.socket());
            command = command.helper(move |operator| prepared.server_of(operator));
        }
        let simulation = self.of_command(project, command.directory(&self.project), Vec::new())?;
        // A run after a crash counts as unchanged what the previous one changed.
        Ok(plays.0.entries.iter().fold(simulation, |simulation, watch| {
            simulation.ignores_field(&watch.config.kind, ".status.conditions[*].ansibleResult")
        }))
    }
}
