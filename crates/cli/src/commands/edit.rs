//! `steer edit`.

use std::path::Path;

use clap::{ArgAction, Args};
use steersman_scaffold::EditOptions;

use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::scaffold::report;

const EXAMPLES: &str = "\
Files that were edited by hand are not changed, but listed.

Examples:
  steer edit --multigroup
  steer edit --namespaced
  steer edit --namespaced=false";

/// Update the project configuration: one namespace or all, one API group or several
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Edit {
    /// Allow kinds of several API groups (multigroup layout)
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    multigroup: Option<bool>,

    /// Restrict the operator to its own namespace
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    namespaced: Option<bool>,
}

impl Edit {
    pub(crate) fn run(self, output: &mut Output) -> Result {
        let Self { multigroup, namespaced } = self;
        if multigroup.is_none() && namespaced.is_none() {
            return Err(Failure::new("nothing to change").help("--multigroup and --namespaced say what"));
        }
        let written = steersman_scaffold::edit(Path::new("."), &EditOptions { multigroup, namespaced })?;
        report(&written, output);
        Ok(())
    }
}
