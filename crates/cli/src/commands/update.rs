//! `steer update`.

use std::path::PathBuf;

use clap::Args;
use steersman_scaffold::SCAFFOLD_VERSION;

use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::scaffold::report;

const ABOUT: &str = "\
Merge the newest scaffold into a project

What the scaffold wrote before is kept in .scaffold.yaml, so each file is merged three ways, as git merges \
branches: edits stay, and where the scaffold changed the same lines, both stand between conflict \
markers for you to decide on. It fails then, and names the files.

A project of operator-sdk, for charts or for Ansible, is brought to this scaffold: what is missing is \
added, what operator-sdk wrote and was not edited is replaced, and charts, roles, watches.yaml, definitions and \
samples stay as they are.";

const EXAMPLES: &str = "\
Running it twice changes nothing. Commit your work first: `git diff` shows what was done, and `git checkout .` undoes it.

Examples:
  steer update --dry-run                     shows what would change, as a diff
  steer update
  steer update ../shop-operator";

/// Merge the newest scaffold into a project
#[derive(Args, Debug)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub(crate) struct Update {
    /// Directory of the project
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,

    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// The copy of the scaffold that is kept, whose diff says nothing new.
const KEPT: &str = ".scaffold.yaml";

impl Update {
    pub(crate) fn run(self, output: &mut Output) -> Result {
        let update = steersman_scaffold::update(&self.directory, self.dry_run)?;
        if self.dry_run {
            for (_, difference) in update.differences.iter().filter(|(path, _)| path != KEPT) {
                output.push(difference);
            }
        }
        let changed = report(&update.written, output);
        if self.dry_run {
            if changed {
                output.line("\nNothing was written: without --dry-run this is done");
            }
            return Ok(());
        }
        let conflicts = update.conflicts();
        if !conflicts.is_empty() {
            let files =
                if conflicts.len() == 1 { "1 file".to_owned() } else { format!("{} files", conflicts.len()) };
            return Err(Failure::new(format!("conflicts in {files}: {}", conflicts.join(", ")))
                .help("decide between the lines of <<<<<<< and >>>>>>>, and remove the markers"));
        }
        if changed {
            let from = update.from.unwrap_or_else(|| "another program's".to_owned());
            output.line(match from == SCAFFOLD_VERSION {
                true => format!("\nThe project has scaffold {SCAFFOLD_VERSION} now"),
                false => format!("\nThe project has scaffold {SCAFFOLD_VERSION} now, after {from}"),
            });
        }
        Ok(())
    }
}
