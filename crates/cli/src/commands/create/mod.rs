//! `steer create`.

mod api;
mod webhook;

use clap::{Args, Subcommand};

use crate::args::GlobalArgs;
use crate::failure::Result;
use crate::output::Output;

/// Scaffold a Kubernetes API or webhooks in a project
#[derive(Args, Debug)]
pub(crate) struct Create {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, Subcommand)]
enum Commands {
    Api(Box<api::Api>),
    Webhook(webhook::Webhook),
}

impl Create {
    pub(crate) fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        match self.command {
            Commands::Api(api) => api.run(globals, output),
            Commands::Webhook(webhook) => webhook.run(output),
        }
    }
}
