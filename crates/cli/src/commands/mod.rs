//! The commands, and how `steer --help` groups them.

mod chart;
mod cluster;
mod completion;
mod dev;
mod lint;
mod man;
mod release;
mod run;
mod template;
mod version;

use std::fmt::Write as _;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{CommandFactory, Parser, Subcommand};

use crate::args::GlobalArgs;
use crate::failure::Result;
use crate::output::Output;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// What people do with the program, and the commands for it in the order of the help. A command that does not exist
/// yet is not listed.
const GROUPS: &[(&str, &[&str])] = &[
    ("Start", &["dev"]),
    ("Run", &["run"]),
    (
        "Charts",
        &[
            "template",
            "lint",
            "diff",
            "install",
            "upgrade",
            "rollback",
            "uninstall",
            "list",
            "history",
            "status",
            "get",
            "chart",
        ],
    ),
    ("Clusters", &["cluster"]),
    ("Help", &["completion", "man", "version"]),
];

/// Build, run, test and drive Kubernetes operators
#[derive(Debug, Parser)]
#[command(name = "steer", version, styles = STYLES, max_term_width = 100, args_override_self = true)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Steer {
    #[command(flatten)]
    globals: GlobalArgs,

    #[command(subcommand)]
    command: Command,
}

/// One module per command.
#[derive(Debug, Subcommand)]
enum Command {
    Dev(dev::Dev),
    Run(run::Run),
    Template(template::Template),
    Lint(lint::Lint),
    Diff(release::diff::Diff),
    Install(release::install::Install),
    Upgrade(release::upgrade::Upgrade),
    Rollback(release::rollback::Rollback),
    Uninstall(release::uninstall::Uninstall),
    List(release::list::List),
    History(release::history::History),
    Status(release::status::Status),
    Get(release::get::Get),
    Chart(chart::Chart),
    Cluster(cluster::Cluster),
    Completion(completion::Completion),
    Man(man::Man),
    Version(version::Version),
}

impl Steer {
    pub(crate) fn run(self, output: &mut Output) -> Result {
        let globals = &self.globals;
        match self.command {
            Command::Dev(dev) => dev.run(globals),
            Command::Run(run) => run.run(globals),
            Command::Template(template) => template.run(globals, output),
            Command::Lint(lint) => lint.run(globals, output),
            Command::Diff(diff) => diff.run(globals, output),
            Command::Install(install) => install.run(globals, output),
            Command::Upgrade(upgrade) => upgrade.run(globals, output),
            Command::Rollback(rollback) => rollback.run(globals, output),
            Command::Uninstall(uninstall) => uninstall.run(globals, output),
            Command::List(list) => list.run(globals, output),
            Command::History(history) => history.run(globals, output),
            Command::Status(status) => status.run(globals, output),
            Command::Get(get) => get.run(globals, output),
            Command::Chart(chart) => chart.run(globals, output),
            Command::Cluster(cluster) => cluster.run(globals),
            Command::Completion(completion) => completion.run(output),
            Command::Man(man) => man.run(output),
            Command::Version(version) => version.run(output),
        }
    }
}

/// The command line, with the commands of the top level in their groups.
pub(crate) fn command() -> clap::Command {
    let command = override_self(Steer::command());
    let groups = grouped(&command);
    // The groups stand in the place of clap's own list, which would be one long column.
    let heading = STYLES.get_header();
    command.help_template(format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{groups}\n{heading}Options:{heading:#}\n{{options}}"
    ))
}

/// Of a flag that is given twice the last one counts, in every command.
fn override_self(command: clap::Command) -> clap::Command {
    command.args_override_self(true).mut_subcommands(override_self)
}

fn grouped(command: &clap::Command) -> String {
    let (heading, literal) = (STYLES.get_header(), STYLES.get_literal());
    let mut text = String::new();
    for (group, names) in GROUPS {
        let _ = writeln!(text, "{heading}{group}:{heading:#}");
        for name in *names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {literal}{name:<11}{literal:#} {about}");
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_command_is_in_one_group() {
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let command = command();
        let mut known: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
        grouped.sort_unstable();
        known.sort_unstable();
        assert_eq!(grouped, known);
    }

    #[test]
    fn every_command_shows_an_example() {
        fn check(command: &clap::Command) {
            for subcommand in command.get_subcommands() {
                let name = subcommand.get_name();
                if subcommand.get_subcommands().next().is_some() {
                    check(subcommand);
                } else {
                    let help = subcommand.get_after_help().map(ToString::to_string).unwrap_or_default();
                    assert!(help.contains("steer "), "{name} has no example");
                }
            }
        }
        check(&command());
    }
}
