//! `steer kudo repo` and `steer kudo search`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use steersman_kudo::Package;
use steersman_kudo::package::archive_files;
use steersman_kudo::package::index::{Entry, Index};

use super::package::table;
use super::source::{HomeArgs, Repositories, Repository, digest, fetch_index, repository};
use crate::args::GlobalArgs;
use crate::failure::{self, Failure, Result};
use crate::output::Output;

/// Add, list, remove and index package repositories
#[derive(Args, Debug)]
pub(super) struct RepoCommand {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, Subcommand)]
enum Commands {
    Add(Add),
    #[command(visible_alias = "rm")]
    Remove(Remove),
    List(List),
    Context(Context),
    Index(MakeIndex),
}

impl RepoCommand {
    pub(super) async fn run(self, globals: &GlobalArgs, home: &HomeArgs, output: &mut Output) -> Result {
        match self.command {
            Commands::Add(add) => add.run(globals, home, output).await,
            Commands::Remove(remove) => remove.run(home, output),
            Commands::List(List {}) => list(home, output),
            Commands::Context(context) => context.run(home),
            Commands::Index(index) => index.run(globals, home, output).await,
        }
    }
}

/// Add a repository
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  steer kudo repo add local http://localhost:8000")]
struct Add {
    /// Name of the repository
    name: String,

    /// URL of the repository
    url: String,

    /// Skip checking that there is an index at the URL
    #[arg(short = 'f', long)]
    skip_check: bool,
}

impl Add {
    async fn run(self, globals: &GlobalArgs, home: &HomeArgs, output: &mut Output) -> Result {
        let path = home.repositories_file();
        let mut known = Repositories::load(&path)?;
        let Self { name, url, skip_check } = self;
        if known.find(Some(&name)).is_ok() {
            return Err(Failure::new(format!(
                "repository name ({name}) already exists, please specify a different name"
            )));
        }
        if !skip_check {
            fetch_index(globals, &url).await.map_err(|error| {
                Failure::new(format!(
                    "looks like {url:?} is not a valid operator repository or cannot be reached: {}",
                    error.message()
                ))
            })?;
        }
        output.line(format!("{name:?} has been added to your repositories"));
        known.repositories.push(Repository { name, url });
        known.save(&path)
    }
}

/// Remove repositories
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  steer kudo repo remove local")]
struct Remove {
    /// Names of the repositories
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

impl Remove {
    fn run(self, home: &HomeArgs, output: &mut Output) -> Result {
        let path = home.repositories_file();
        let mut known = Repositories::load(&path)?;
        for name in &self.names {
            known.find(Some(name))?;
            known.repositories.retain(|one| one.name != *name);
            known.save(&path)?;
            output.line(format!("{name:?} has been removed from your repositories"));
        }
        Ok(())
    }
}

/// List repositories; the one of the current context is marked with *
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  steer kudo repo list")]
struct List {}

fn list(home: &HomeArgs, output: &mut Output) -> Result {
    let known = Repositories::load(&home.repositories_file())?;
    if known.repositories.is_empty() {
        return Err(Failure::new("no repositories to show"));
    }
    let mut rows = vec![vec!["NAME".to_owned(), "URL".to_owned()]];
    for Repository { name, url } in &known.repositories {
        let star = if *name == known.context { "*" } else { "" };
        rows.push(vec![format!("{star}{name}"), url.clone()]);
    }
    output.push(&table(&rows));
    Ok(())
}

/// Set the repository of the current context, in which package names are looked up
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  steer kudo repo context local")]
struct Context {
    /// Name of the repository
    name: String,
}

impl Context {
    fn run(self, home: &HomeArgs) -> Result {
        let path = home.repositories_file();
        let mut known = Repositories::load(&path)?;
        known.find(Some(&self.name))?;
        known.context = self.name;
        known.save(&path)
    }
}

/// Generate the index file of a directory of package archives
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  steer kudo repo index ./archives --url https://example.org/packages\n  steer kudo repo index ./archives --merge-repo community"
)]
struct MakeIndex {
    /// Directory of package archives
    directory: PathBuf,

    /// Base URL of the archives
    #[arg(long, value_name = "URL", conflicts_with = "url_repo")]
    url: Option<String>,

    /// Repository whose URL is the base URL of the archives
    #[arg(long, value_name = "NAME")]
    url_repo: Option<String>,

    /// URL or path of a repository whose index is merged
    #[arg(long, value_name = "URL", conflicts_with = "merge_repo")]
    merge: Option<String>,

    /// Repository whose index is merged
    #[arg(long, value_name = "NAME")]
    merge_repo: Option<String>,

    /// Overwrite an existing index
    #[arg(short = 'w', long)]
    overwrite: bool,
}

impl MakeIndex {
    async fn run(self, globals: &GlobalArgs, home: &HomeArgs, output: &mut Output) -> Result {
        let target = self.directory.join("index.yaml");
        let shown = target.display().to_string();
        if target.exists() && !self.overwrite {
            return Err(Failure::new(format!("{shown} already exists")).help("--overwrite replaces it"));
        }
        let of = |name: &str| repository(home, Some(name)).map(|repository| repository.url);
        let url = match (&self.url, &self.url_repo) {
            (Some(url), _) => url.clone(),
            (None, Some(name)) => of(name)?,
            (None, None) => String::new(),
        };
        let mut index = self.index(&url)?;
        let merged = match (&self.merge, &self.merge_repo) {
            (Some(url), _) => Some(url.clone()),
            (None, Some(name)) => Some(of(name)?),
            (None, None) => None,
        };
        if let Some(url) = merged {
            index.merge(fetch_index(globals, &url).await?);
        }
        std::fs::write(&target, index.to_yaml())
            .map_err(|error| Failure::new(format!("{shown}: {error}")))?;
        output.line(format!("index {shown} created."));
        Ok(())
    }

    /// Builds the index of the packages in the directory. Unreadable ones are reported and skipped.
    fn index(&self, url: &str) -> Result<Index> {
        let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", self.directory.display()));
        let mut archives = Vec::new();
        for entry in std::fs::read_dir(&self.directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|extension| extension == "tgz") {
                archives.push(path);
            }
        }
        archives.sort();
        if archives.is_empty() {
            return Err(Failure::new("no packages discovered"));
        }
        let mut index = Index::new(&jiff::Timestamp::now().to_string());
        for path in archives {
            let name = path.display();
            let data = std::fs::read(&path).map_err(|error| Failure::new(format!("{name}: {error}")))?;
            let read = archive_files(data.as_slice())
                .and_then(|files| Package::from_files(files).map_err(|error| error.to_string()));
            match read {
                Err(error) => failure::warn(&format!("operator: {name} is invalid: {error}")),
                Ok(package) => {
                    if !index.add(Entry::of(&package, url, &digest(&data))) {
                        failure::warn(&format!("{name}: duplicate archive of {}", package.version_name()));
                    }
                }
            }
        }
        Ok(index)
    }
}

/// Search a repository for operators
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  steer kudo search kafka\n  steer kudo search kafka --all-versions")]
pub(super) struct Search {
    /// Text to search for in names
    text: String,

    /// Name of the repository [default: the repository of the current context]
    #[arg(long, value_name = "NAME")]
    repo: Option<String>,

    /// Show all versions
    #[arg(short, long)]
    all_versions: bool,
}

impl Search {
    pub(super) async fn run(self, globals: &GlobalArgs, home: &HomeArgs, output: &mut Output) -> Result {
        let url = repository(home, self.repo.as_deref())?.url;
        let index = fetch_index(globals, &url).await?;
        let found = index.search(&self.text, self.all_versions);
        if found.is_empty() {
            output.line("no operators found");
            return Ok(());
        }
        let mut rows = vec![["Name", "Operator Version", "App Version"].map(str::to_owned).to_vec()];
        let mut before = "";
        for entry in found {
            let name = if entry.name == before { "" } else { &entry.name };
            rows.push(vec![name.to_owned(), entry.operator_version.clone(), entry.app_version.clone()]);
            before = &entry.name;
        }
        output.push(&table(&rows));
        Ok(())
    }
}
