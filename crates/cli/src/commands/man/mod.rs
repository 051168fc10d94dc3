//! `steer man`.

mod flags;
mod reference;
mod tables;

use std::path::PathBuf;

use clap::Args;

use crate::failure::{Failure, Result};
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  steer man man/                             one page per command
  MANPATH=$PWD/man: man steer-template
  steer man --markdown reference/            the reference of everything";

/// Write manual pages, one per command
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Man {
    /// Directory to write to, in its subdirectory man1
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Write the complete reference in Markdown instead, into the directory itself
    #[arg(long)]
    markdown: bool,
}

impl Man {
    pub(crate) fn run(self, output: &mut Output) -> Result {
        let directory = if self.markdown { self.directory } else { self.directory.join("man1") };
        let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", directory.display()));
        std::fs::create_dir_all(&directory).map_err(failed)?;
        if self.markdown {
            for (name, text) in reference::pages() {
                std::fs::write(directory.join(name), text).map_err(failed)?;
            }
            output.line(format_args!("wrote the reference to {}", directory.display()));
            return Ok(());
        }
        // The grouped help is for the terminal; manual pages list commands differently.
        let command = super::command().help_template("{all-args}");
        clap_mangen::generate_to(command, &directory).map_err(failed)?;
        output.line(format_args!("wrote manual pages to {}", directory.display()));
        Ok(())
    }
}
