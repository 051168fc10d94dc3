//! `steer man`.

use std::path::PathBuf;

use clap::Args;

use crate::failure::{Failure, Result};
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  steer man man/                             one page per command
  MANPATH=$PWD/man: man steer-template";

/// Write manual pages, one per command
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Man {
    /// Directory that gets them, in a directory man1 of it
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Man {
    pub(crate) fn run(self, output: &mut Output) -> Result {
        let directory = self.directory.join("man1");
        let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", directory.display()));
        std::fs::create_dir_all(&directory).map_err(failed)?;
        // The grouped help is for the terminal; manual pages list commands their own way.
        let command = super::command().help_template("{all-args}");
        clap_mangen::generate_to(command, &directory).map_err(failed)?;
        output.line(format_args!("wrote manual pages to {}", directory.display()));
        Ok(())
    }
}
