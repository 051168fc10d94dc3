//! `steer update`.

use std::path::PathBuf;

use clap::Args;
use steersman_scaffold::SCAFFOLD_VERSION;

use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::scaffold::report;

const ABOUT: &str = "\
Merge the latest scaffold into a project

The previous scaffold is stored in .scaffold.yaml, so each file is merged with a three-way merge, as by git: \
edits are kept, and where the scaffold changed the same lines, both versions are left between conflict \
markers. The command then fails, and lists the files.

An operator-sdk project, for charts or for Ansible, is migrated to this scaffold: missing files are \
added, files written by operator-sdk are replaced unless they were edited, and charts, roles, watches.yaml, CRDs and \
samples are left unchanged.";

const EXAMPLES: &str = "\
Running the command twice changes nothing. Commit your work first: `git diff` shows the changes, and `git checkout .` reverts them.

Examples:
  steer update --dry-run                     shows what would change, as a diff
  steer update
  steer update ../shop-operator";

/// Merge the latest scaffold into a project
#[derive(Args, Debug)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub(crate) struct Update {
    /// Directory of the project
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,

    /// Show the changes without writing them
    #[arg(long)]
    dry_run: bool,
}

/// The stored merge base, whose diff only repeats the others.
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
