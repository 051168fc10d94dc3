//! `steer chart`.

#[cfg(feature = "registry")]
mod dependency;
#[cfg(feature = "registry")]
mod pull;
mod show;

use clap::{Args, Subcommand};

use crate::args::GlobalArgs;
use crate::failure::Result;
use crate::output::Output;

/// Download and inspect charts, and manage their dependencies
#[derive(Args, Debug)]
pub(crate) struct Chart {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[cfg(feature = "registry")]
    Pull(pull::Pull),
    Show(show::Show),
    #[cfg(feature = "registry")]
    Dependency(dependency::Dependency),
}

impl Chart {
    pub(crate) fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        match self.command {
            #[cfg(feature = "registry")]
            Command::Pull(pull) => pull.run(globals),
            Command::Show(show) => show.run(globals, output),
            #[cfg(feature = "registry")]
            Command::Dependency(dependency) => dependency.run(globals, output),
        }
    }
}
