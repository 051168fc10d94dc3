//! The commands, and their groups in `steer --help`.

mod background;
#[cfg(feature = "scaffold")]
mod bundle;
mod chart;
mod cluster;
#[cfg(feature = "completion")]
mod completion;
#[cfg(feature = "scaffold")]
mod create;
#[cfg(feature = "scaffold")]
mod deploy;
mod dev;
#[cfg(feature = "scaffold")]
mod doctor;
#[cfg(feature = "e2e")]
mod e2e;
#[cfg(feature = "scaffold")]
mod edit;
mod envtest;
#[cfg(feature = "scaffold")]
mod generate;
#[cfg(all(feature = "registry", feature = "scaffold"))]
mod image;
#[cfg(feature = "scaffold")]
mod init;
#[cfg(feature = "kudo")]
mod kudo;
#[cfg(feature = "e2e")]
mod kuttl;
mod lint;
#[cfg(feature = "man")]
mod man;
#[cfg(feature = "scaffold")]
mod rbac;
mod release;
mod run;
#[cfg(feature = "scaffold")]
mod scorecard;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "sim")]
mod sim;
mod template;
#[cfg(feature = "scaffold")]
mod update;
mod version;

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::args::GlobalArgs;
use crate::failure::Result;
use crate::flags;
use crate::output::Output;

pub(crate) use cluster::interruption;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Adds arguments to a command.
type Define = fn(clap::Command) -> clap::Command;

/// The groups of commands, in the order of the help. Commands that do not exist yet are not listed.
const GROUPS: &[(&str, &[(&str, Define)])] = &[
    (
        "Start",
        &[
            ("dev", dev::Dev::augment_args),
            #[cfg(feature = "scaffold")]
            ("init", init::Init::augment_args),
            #[cfg(feature = "scaffold")]
            ("create", create::Create::augment_args),
            #[cfg(feature = "scaffold")]
            ("edit", edit::Edit::augment_args),
            #[cfg(feature = "scaffold")]
            ("update", update::Update::augment_args),
        ],
    ),
    (
        "Run",
        &[
            ("run", run::Run::augment_args),
            #[cfg(feature = "scaffold")]
            ("deploy", deploy::Deploy::augment_args),
            #[cfg(feature = "scaffold")]
            ("undeploy", deploy::Undeploy::augment_args),
            #[cfg(feature = "kudo")]
            ("kudo", kudo::KudoCommand::augment_args),
            #[cfg(feature = "serve")]
            ("serve", serve::Serve::augment_args),
        ],
    ),
    (
        "Prove",
        &[
            #[cfg(feature = "e2e")]
            ("e2e", e2e::E2e::augment_args),
            #[cfg(feature = "e2e")]
            ("kuttl", kuttl::Kuttl::augment_args),
            #[cfg(feature = "sim")]
            ("sim", sim::Sim::augment_args),
            #[cfg(feature = "scaffold")]
            ("scorecard", scorecard::Scorecard::augment_args),
        ],
    ),
    (
        "Charts",
        &[
            ("template", template::Template::augment_args),
            ("lint", lint::Lint::augment_args),
            ("diff", release::diff::Diff::augment_args),
            ("install", release::install::Install::augment_args),
            ("upgrade", release::upgrade::Upgrade::augment_args),
            ("rollback", release::rollback::Rollback::augment_args),
            ("uninstall", release::uninstall::Uninstall::augment_args),
            ("test", release::test::Test::augment_args),
            ("list", release::list::List::augment_args),
            ("history", release::history::History::augment_args),
            ("status", release::status::Status::augment_args),
            ("get", release::get::Get::augment_args),
            ("chart", chart::Chart::augment_args),
        ],
    ),
    (
        "Make",
        &[
            #[cfg(feature = "scaffold")]
            ("generate", generate::Generate::augment_args),
            #[cfg(all(feature = "registry", feature = "scaffold"))]
            ("image", image::ImageCommand::augment_args),
            #[cfg(feature = "scaffold")]
            ("bundle", bundle::Bundle::augment_args),
            #[cfg(feature = "scaffold")]
            ("rbac", rbac::Rbac::augment_args),
        ],
    ),
    ("Clusters", &[("cluster", cluster::Cluster::augment_args), ("envtest", envtest::Envtest::augment_args)]),
    (
        "Help",
        &[
            #[cfg(feature = "scaffold")]
            ("doctor", doctor::Doctor::augment_args),
            #[cfg(feature = "completion")]
            ("completion", completion::Completion::augment_args),
            #[cfg(feature = "man")]
            ("man", man::Man::augment_args),
            ("version", version::Version::augment_args),
        ],
    ),
];

/// Build, run, test and drive Kubernetes operators
#[derive(Debug, Parser)]
#[command(name = "steer", version, styles = STYLES, max_term_width = 100)]
#[command(arg_required_else_help = true, disable_help_subcommand = true, subcommand_required = true)]
struct Root {
    #[command(flatten)]
    globals: GlobalArgs,
}

/// The parsed command line.
pub(crate) struct Steer {
    globals: GlobalArgs,
    command: Command,
}

/// One module per command.
#[derive(Debug, Subcommand)]
enum Command {
    Dev(dev::Dev),
    #[cfg(feature = "scaffold")]
    Init(init::Init),
    #[cfg(feature = "scaffold")]
    Create(create::Create),
    #[cfg(feature = "scaffold")]
    Edit(edit::Edit),
    #[cfg(feature = "scaffold")]
    Update(update::Update),
    Run(run::Run),
    #[cfg(feature = "scaffold")]
    Deploy(deploy::Deploy),
    #[cfg(feature = "scaffold")]
    Undeploy(deploy::Undeploy),
    #[cfg(feature = "kudo")]
    Kudo(kudo::KudoCommand),
    #[cfg(feature = "e2e")]
    #[command(name = "e2e")]
    E2e(e2e::E2e),
    #[cfg(feature = "e2e")]
    Kuttl(kuttl::Kuttl),
    #[cfg(feature = "sim")]
    Sim(sim::Sim),
    #[cfg(feature = "scaffold")]
    Scorecard(scorecard::Scorecard),
    #[cfg(feature = "serve")]
    Serve(serve::Serve),
    Template(template::Template),
    Lint(lint::Lint),
    Diff(release::diff::Diff),
    Install(release::install::Install),
    Upgrade(release::upgrade::Upgrade),
    Rollback(release::rollback::Rollback),
    Uninstall(release::uninstall::Uninstall),
    Test(release::test::Test),
    List(release::list::List),
    History(release::history::History),
    Status(release::status::Status),
    Get(release::get::Get),
    Chart(chart::Chart),
    #[cfg(feature = "scaffold")]
    Generate(generate::Generate),
    #[cfg(all(feature = "registry", feature = "scaffold"))]
    Image(image::ImageCommand),
    #[cfg(feature = "scaffold")]
    Bundle(bundle::Bundle),
    #[cfg(feature = "scaffold")]
    Rbac(rbac::Rbac),
    Cluster(cluster::Cluster),
    Envtest(envtest::Envtest),
    #[cfg(feature = "scaffold")]
    Doctor(doctor::Doctor),
    #[cfg(feature = "completion")]
    Completion(completion::Completion),
    #[cfg(feature = "man")]
    Man(man::Man),
    Version(version::Version),
}

impl Steer {
    /// Parses a command line, which starts with the program's name.
    pub(crate) fn parse(words: Vec<OsString>) -> clap::error::Result<Self> {
        // Defining the arguments of all commands takes as long as rendering a chart, so only the named one is defined.
        let named = words.get(1).and_then(|word| word.to_str()).and_then(definition);
        let mut command = match named {
            Some(named) => with_commands(&[named]),
            None => command(),
        };
        let words = flags::booleans_without_values(&command, words);
        let mut matches = command.try_get_matches_from_mut(words)?;
        let read = Root::from_arg_matches_mut(&mut matches).and_then(|root| {
            Ok(Self { globals: root.globals, command: Command::from_arg_matches_mut(&mut matches)? })
        });
        read.map_err(|error| error.format(&mut command))
    }

    pub(crate) fn run(self, output: &mut Output) -> Result {
        let globals = &self.globals;
        match self.command {
            Command::Dev(dev) => dev.run(globals),
            #[cfg(feature = "scaffold")]
            Command::Init(init) => init.run(globals, output),
            #[cfg(feature = "scaffold")]
            Command::Create(create) => create.run(globals, output),
            #[cfg(feature = "scaffold")]
            Command::Edit(edit) => edit.run(output),
            #[cfg(feature = "scaffold")]
            Command::Update(update) => update.run(output),
            Command::Run(run) => run.run(globals),
            #[cfg(feature = "scaffold")]
            Command::Deploy(deploy) => deploy.run(globals, output),
            #[cfg(feature = "scaffold")]
            Command::Undeploy(undeploy) => undeploy.run(globals, output),
            #[cfg(feature = "kudo")]
            Command::Kudo(kudo) => kudo.run(globals, output),
            #[cfg(feature = "e2e")]
            Command::E2e(e2e) => e2e.run(globals),
            #[cfg(feature = "e2e")]
            Command::Kuttl(kuttl) => kuttl.run(globals),
            #[cfg(feature = "sim")]
            Command::Sim(sim) => sim.run(output),
            #[cfg(feature = "scaffold")]
            Command::Scorecard(scorecard) => scorecard.run(output),
            #[cfg(feature = "serve")]
            Command::Serve(serve) => serve.run(globals),
            Command::Template(template) => template.run(globals, output),
            Command::Lint(lint) => lint.run(globals, output),
            Command::Diff(diff) => diff.run(globals, output),
            Command::Install(install) => install.run(globals, output),
            Command::Upgrade(upgrade) => upgrade.run(globals, output),
            Command::Rollback(rollback) => rollback.run(globals, output),
            Command::Uninstall(uninstall) => uninstall.run(globals, output),
            Command::Test(test) => test.run(globals, output),
            Command::List(list) => list.run(globals, output),
            Command::History(history) => history.run(globals, output),
            Command::Status(status) => status.run(globals, output),
            Command::Get(get) => get.run(globals, output),
            Command::Chart(chart) => chart.run(globals, output),
            #[cfg(feature = "scaffold")]
            Command::Generate(generate) => generate.run(output),
            #[cfg(all(feature = "registry", feature = "scaffold"))]
            Command::Image(image) => image.run(globals, output),
            #[cfg(feature = "scaffold")]
            Command::Bundle(bundle) => bundle.run(output),
            #[cfg(feature = "scaffold")]
            Command::Rbac(rbac) => rbac.run(output),
            Command::Cluster(cluster) => cluster.run(globals, output),
            Command::Envtest(envtest) => envtest.run(output),
            #[cfg(feature = "scaffold")]
            Command::Doctor(doctor) => doctor.run(globals, output),
            #[cfg(feature = "completion")]
            Command::Completion(completion) => completion.run(output),
            #[cfg(feature = "man")]
            Command::Man(man) => man.run(output),
            Command::Version(version) => version.run(output),
        }
    }
}

/// Returns the clap command, with top-level commands grouped in the help.
pub(crate) fn command() -> clap::Command {
    let command = GROUPS.iter().fold(with_commands(&[]), |command, (_, commands)| add(command, commands));
    let groups = grouped(&command);
    // The groups replace clap's own list, which would be one long column.
    let heading = STYLES.get_header();
    command.help_template(format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{groups}\n{heading}Options:{heading:#}\n{{options}}"
    ))
}

fn definition(name: &str) -> Option<(&'static str, Define)> {
    GROUPS.iter().flat_map(|(_, commands)| *commands).find(|(known, _)| *known == name).copied()
}

fn with_commands(commands: &[(&'static str, Define)]) -> clap::Command {
    add(Root::command().args_override_self(true), commands)
}

fn add(command: clap::Command, commands: &[(&'static str, Define)]) -> clap::Command {
    let subcommands = commands.iter().map(|(name, define)| override_self(define(clap::Command::new(*name))));
    command.subcommands(subcommands)
}

/// Lets the last occurrence of a repeated flag win, in every command.
fn override_self(command: clap::Command) -> clap::Command {
    command.args_override_self(true).mut_subcommands(override_self)
}

fn grouped(command: &clap::Command) -> String {
    let (heading, literal) = (STYLES.get_header(), STYLES.get_literal());
    let mut text = String::new();
    // A build may omit all commands of a group.
    for (group, commands) in GROUPS.iter().filter(|(_, commands)| !commands.is_empty()) {
        let _ = writeln!(text, "{heading}{group}:{heading:#}");
        for (name, _) in *commands {
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
        let mut grouped: Vec<_> =
            GROUPS.iter().flat_map(|(_, commands)| *commands).map(|(name, _)| *name).collect();
        let command = Command::augment_subcommands(clap::Command::new("steer"));
        let mut known: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
        grouped.sort_unstable();
        known.sort_unstable();
        assert_eq!(grouped, known);
    }

    #[test]
    fn a_command_alone_is_read_as_among_all() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let read = |line: &[&str]| Steer::parse(words(line)).map(|steer| format!("{:?}", steer.command));
        for line in
            [&["template", "a", "./b", "--set=a=b"][..], &["list", "--all=false"], &["get", "all", "x"]]
        {
            let alone = read(&[&["steer"], line].concat()).unwrap();
            assert_eq!(alone, read(&[&["steer", "--debug"], line].concat()).unwrap());
        }
        let unknown = Steer::parse(words(&["steer", "tempalte"])).err().map(|error| error.to_string());
        assert!(unknown.is_some_and(|text| text.contains("template")), "the nearest command is named");
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
