//! `steer chart`.

mod dependency;
mod pull;
mod show;

use clap::{Args, Subcommand};

use crate::args::GlobalArgs;
use crate::failure::Result;
use crate::output::Output;

/// Fetch charts, look into them, and manage what they depend on
#[derive(Args, Debug)]
pub(crate) struct Chart {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Pull(pull::Pull),
    Show(show::Show),
    Dependency(dependency::Dependency),
}

impl Chart {
    pub(crate) fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        match self.command {
            Command::Pull(pull) => pull.run(globals),
            Command::Show(show) => show.run(globals, output),
            Command::Dependency(dependency) => dependency.run(globals, output),
        }
    }
}
