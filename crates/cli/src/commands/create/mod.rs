//! `steer create`.

mod api;
mod webhook;

use clap::{Args, Subcommand};

use crate::args::GlobalArgs;
use crate::failure::Result;
use crate::output::Output;

/// Add a kind, or webhooks for one, to a project
#[derive(Args, Debug)]
pub(crate) struct Create {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Api(Box<api::Api>),
    Webhook(webhook::Webhook),
}

impl Create {
    pub(crate) fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        match self.what {
            What::Api(api) => api.run(globals, output),
            What::Webhook(webhook) => webhook.run(output),
        }
    }
}
