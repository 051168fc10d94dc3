//! `steer kudo package`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use flate2::Compression;
use flate2::write::GzEncoder;
use steersman_kudo::Package;
use steersman_kudo::package::{PackageParameter, ParameterCheck, files_of, report};
use steersman_kudo::tree::{Branch, draw};

use super::show::{Format, print};
use super::source::{HomeArgs, VersionArgs};
use super::{read, scaffold};
use crate::args::GlobalArgs;
use crate::failure::{self, Failure, Result};
use crate::output::Output;

/// Create, verify, list and archive packages
#[derive(Args, Debug)]
pub(super) struct PackageCommand {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, Subcommand)]
enum Commands {
    New(scaffold::New),
    Add(scaffold::Add),
    Create(Create),
    Verify(Verify),
    List(List),
}

impl PackageCommand {
    pub(super) fn run(self, globals: &GlobalArgs, home: &HomeArgs, output: &mut Output) -> Result {
        match self.command {
            Commands::New(new) => new.run(output),
            Commands::Add(add) => add.run(output),
            Commands::Create(create) => create.run(output),
            Commands::Verify(verify) => verify.run(output),
            Commands::List(list) => list.run(globals, home, output),
        }
    }
}

/// Create an archive of a package
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  steer kudo package create ./my-operator -d ./archives")]
struct Create {
    /// Directory of the package
    directory: PathBuf,

    /// Directory to write the archive to
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    destination: PathBuf,

    /// Overwrite an existing archive
    #[arg(short = 'w', long)]
    overwrite: bool,

    /// Output format
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

impl Create {
    fn run(self, output: &mut Output) -> Result {
        let packages = read(&self.directory)?;
        let Some(package) = packages.first() else { return Ok(()) };
        let path = self.destination.join(package.archive_name());
        let shown = path.display().to_string();
        if path.exists() && !self.overwrite {
            return Err(Failure::new(format!("{shown} already exists")).help("--overwrite replaces it"));
        }
        archive(&self.directory, &path).map_err(|error| Failure::new(format!("{shown}: {error}")))?;
        match self.output {
            Some(format) => print(&serde_json::json!({ "result": { "path": shown } }), format, output),
            None => {
                output.line(format!("Package created: {shown}"));
                Ok(())
            }
        }
    }
}

/// Writes a reproducible archive, without timestamps and owners.
fn archive(directory: &Path, path: &Path) -> std::io::Result<()> {
    let files = files_of(directory).map_err(|error| std::io::Error::other(error.to_string()))?;
    let mut archive = tar::Builder::new(GzEncoder::new(std::fs::File::create(path)?, Compression::default()));
    for (name, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, text.as_bytes())?;
    }
    archive.into_inner()?.finish()?;
    Ok(())
}

/// Verify a package, and report all of its problems
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  steer kudo package verify ./my-operator\n  steer kudo package verify ./my-operator --param-checks all"
)]
struct Verify {
    /// Directory or archive of the package
    package: PathBuf,

    /// Output format
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,

    /// Additional checks of parameters, separated by commas
    #[arg(long, value_name = "CHECKS", value_delimiter = ',')]
    param_checks: Vec<Check>,
}

/// A further check of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Check {
    Display,
    Hint,
    Desc,
    Type,
    Hasgroup,
    Groups,
    All,
}

impl Check {
    fn all_of(checks: &[Self]) -> Vec<ParameterCheck> {
        let wants = |check: &ParameterCheck| {
            let word = match check {
                ParameterCheck::Display => Self::Display,
                ParameterCheck::Hint => Self::Hint,
                ParameterCheck::Description => Self::Desc,
                ParameterCheck::Type => Self::Type,
                ParameterCheck::HasGroup => Self::Hasgroup,
                ParameterCheck::Groups => Self::Groups,
            };
            checks.contains(&word) || checks.contains(&Self::All)
        };
        ParameterCheck::ALL.into_iter().filter(wants).collect()
    }
}

impl Verify {
    fn run(self, output: &mut Output) -> Result {
        let shown = self.package.display().to_string();
        let failed = |error: steersman_kudo::Error| Failure::from(error).within(&shown);
        let files = files_of(&self.package).map_err(failed)?;
        let report = report(&files, &Check::all_of(&self.param_checks)).map_err(failed)?;
        for unknown in &report.unknown {
            failure::warn(&unknown.to_string());
        }
        match self.output {
            Some(format) => print(&report, format, output)?,
            None => {
                for (title, lines) in [("Warnings", &report.warnings), ("Errors", &report.errors)] {
                    if !lines.is_empty() {
                        let rows = std::iter::once(title.to_owned()).chain(lines.iter().cloned());
                        output.push(&table(&rows.map(|row| vec![row]).collect::<Vec<_>>()));
                    }
                }
                if report.valid {
                    output.line("package is valid");
                }
            }
        }
        if report.valid {
            // Its dependencies have to be valid, too.
            return read(&self.package).map(drop);
        }
        let lines: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
        let count = lines.len();
        Err(Failure::new(format!("found {count} package verification errors\n{}", lines.join("\n")))
            .within(&shown))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Parameters,
    Plans,
    Tasks,
}

/// List the parameters, plans or tasks of a package
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  steer kudo package list parameters ./my-operator\n  steer kudo package list plans ./my-operator --with-tasks"
)]
struct List {
    /// What to list: parameters, plans or tasks
    part: Part,

    /// Directory, archive or URL of the package, or its name in a repository
    #[arg(default_value = ".")]
    package: String,

    #[command(flatten)]
    version: VersionArgs,

    /// For plans, show the kind and resources of each task
    #[arg(short = 't', long)]
    with_tasks: bool,

    /// For parameters, show their descriptions
    #[arg(short, long, conflicts_with_all = ["names", "required"])]
    descriptions: bool,

    /// For parameters, show only their names
    #[arg(long, conflicts_with = "required")]
    names: bool,

    /// For parameters, show only required ones without a default
    #[arg(short, long)]
    required: bool,
}

impl List {
    fn run(self, globals: &GlobalArgs, home: &HomeArgs, output: &mut Output) -> Result {
        let packages = self.version.read_now(&self.package, globals, home)?;
        let Some(package) = packages.first() else { return Ok(()) };
        match self.part {
            Part::Parameters => output.push(&self.parameters(package)),
            Part::Tasks => output.push(&tasks(package)),
            Part::Plans => output.line(plans(package, self.with_tasks)),
        }
        Ok(())
    }
}

impl List {
    fn parameters(&self, package: &Package) -> String {
        let mut all: Vec<_> = package.params.parameters.iter().map(PackageParameter::definition).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        if self.required {
            all.retain(|one| one.is_required() && one.default.is_none());
            if all.is_empty() {
                return "no required parameters without default values found\n".to_owned();
            }
        }
        let mut header = vec!["Name"];
        if !self.required && !self.names {
            header.extend(["Default", "Required", "Immutable"]);
        }
        if self.descriptions {
            header.push("Descriptions");
        }
        let mut rows = vec![header.into_iter().map(str::to_owned).collect::<Vec<_>>()];
        let columns = rows[0].len();
        for one in all {
            let default = one.default.clone().unwrap_or_default();
            let (required, immutable) = (one.is_required().to_string(), one.is_immutable().to_string());
            let mut row = vec![one.name, default, required, immutable, one.description];
            row.truncate(columns);
            rows.push(row);
        }
        table(&rows)
    }
}

fn tasks(package: &Package) -> String {
    let mut rows = vec![["Name", "Kind", "Resources"].map(str::to_owned).to_vec()];
    for task in &package.operator.tasks {
        rows.push(vec![task.name.clone(), task.kind.clone(), format!("[{}]", task.spec.resources.join(" "))]);
    }
    table(&rows)
}

/// Formats a table: columns padded to the widest cell and separated by tabs.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.trim_end().chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{:<width$}", cell.trim_end())).collect();
        text.push_str(&cells.join("\t"));
        text.push('\n');
    }
    text
}

fn plans(package: &Package, with_tasks: bool) -> String {
    let mut branches = Vec::new();
    for (name, plan) in &package.operator.plans {
        let mut of_plan = Branch::new(format!("{name} ({})", plan.strategy.0));
        for phase in &plan.phases {
            let mut of_phase = Branch::new(format!("[phase]  {} ({})", phase.name, phase.strategy.0));
            for step in &phase.steps {
                let mut of_step = Branch::new(format!("[step]  {}", step.name));
                for name in &step.tasks {
                    let task = package.operator.tasks.iter().find(|task| task.name == *name);
                    match task.filter(|_| with_tasks) {
                        None => of_step.push(Branch::new(name)),
                        Some(task) => {
                            let mut of_task = Branch::new(format!("[{}]  {name}", task.kind.to_lowercase()));
                            task.spec.resources.iter().for_each(|file| of_task.push(Branch::new(file)));
                            of_step.push(of_task);
                        }
                    }
                }
                of_phase.push(of_step);
            }
            of_plan.push(of_phase);
        }
        branches.push(of_plan);
    }
    format!("plans{}", draw(&branches).trim_start_matches('.'))
}
