//! Sources of packages: directories, archives, URLs and repositories.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use steersman_kudo::Package;
use steersman_kudo::package::index::Index;
use steersman_kudo::package::{archive_files, for_upgrade, with_dependencies};
use steersman_registry::Fetcher;

use crate::args::GlobalArgs;
use crate::cluster;
use crate::failure::{self, Failure, Result};

/// The default repository of KUDO's own client.
const COMMUNITY: &str = "https://kudo-repository.storage.googleapis.com/v1";

/// Where the client keeps what it knows.
#[derive(Args, Clone, Debug)]
pub(super) struct HomeArgs {
    /// Directory of the client's configuration [default: ~/.kudo]
    #[arg(long, global = true, value_name = "DIR", env = "KUDO_HOME")]
    home: Option<PathBuf>,

    /// Has no effect: progress is always printed
    #[arg(short, long = "v", global = true, value_name = "LEVEL", hide = true)]
    verbosity: Option<String>,

    /// Has no effect
    #[arg(long, global = true, value_name = "BOOL", hide = true, num_args = 0..=1)]
    validate_install: Option<String>,
}

impl HomeArgs {
    pub(super) fn repositories_file(&self) -> PathBuf {
        let home = self.home.clone().unwrap_or_else(|| {
            let user = std::env::var_os("HOME").unwrap_or_default();
            Path::new(&user).join(".kudo")
        });
        home.join("repository/repositories.yaml")
    }
}

/// The configured repositories of a client.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Repositories {
    repo_version: String,
    pub(super) context: String,
    pub(super) repositories: Vec<Repository>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Repository {
    pub(super) name: String,
    pub(super) url: String,
}

impl Default for Repositories {
    fn default() -> Self {
        let community = Repository { name: "community".into(), url: COMMUNITY.into() };
        Self { repo_version: "v1".into(), context: "community".into(), repositories: vec![community] }
    }
}

impl Repositories {
    pub(super) fn load(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Failure::new(format!("could not load repositories file ({shown})"))
                    .help("`steer kudo init --client-only` makes it"));
            }
            Err(error) => return Err(Failure::new(format!("{shown}: {error}"))),
        };
        steersman_yaml::from_slice_as(&text).map_err(|error| Failure::new(format!("{shown}: {error}")))
    }

    pub(super) fn save(&self, path: &Path) -> Result {
        let failed = |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", path.display()));
        let text = steersman_yaml::to_string(self).map_err(|error| failed(&error))?;
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(|error| failed(&error))?;
        }
        steersman_registry::write_atomically(path, text.as_bytes()).map_err(|error| failed(&error))
    }

    /// Finds a repository by name; by default, the one of the context.
    pub(super) fn find(&self, name: Option<&str>) -> Result<&Repository> {
        let name = name.unwrap_or(&self.context);
        let found = self.repositories.iter().find(|one| one.name == name);
        found.ok_or_else(|| Failure::new(format!("no repo named {name:?} found")))
    }
}

/// Returns the repository for a command, even if no client was initialized.
pub(super) fn repository(home: &HomeArgs, name: Option<&str>) -> Result<Repository> {
    let path = home.repositories_file();
    let known = if path.exists() { Repositories::load(&path)? } else { Repositories::default() };
    known.find(name).cloned()
}

/// Fetches the index of the repository at a URL or in a directory.
pub(super) async fn fetch_index(globals: &GlobalArgs, url: &str) -> Result<Index> {
    let place = format!("{}/index.yaml", url.trim_end_matches('/'));
    let text = fetch(globals, if url.ends_with("index.yaml") { url } else { &place }).await?;
    Index::parse(&text).map_err(|error| Failure::new(format!("{url}: {error}")))
}

/// Reads a URL or a file.
async fn fetch(globals: &GlobalArgs, url: &str) -> Result<Vec<u8>> {
    if url.starts_with("http://") || url.starts_with("https://") {
        let fetched = Fetcher::new(globals.paths()).fetch_file(url).await;
        return fetched.map_err(|error| Failure::new(format!("{url}: {error}")));
    }
    let path = url.strip_prefix("file://").unwrap_or(url);
    std::fs::read(path).map_err(|error| Failure::new(format!("{url}: {error}")))
}

/// Returns the SHA-256 digest in hexadecimal.
pub(super) fn digest(data: &[u8]) -> String {
    Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Flags that say which package is meant.
#[derive(Args, Debug)]
pub(super) struct PackageArgs {
    /// Directory, archive or URL of the package, or its name in a repository
    #[arg(value_name = "PACKAGE")]
    package: String,

    #[command(flatten)]
    version: VersionArgs,
}

/// Flags that say which version of a package in a repository is meant.
#[derive(Args, Debug, Default)]
pub(super) struct VersionArgs {
    /// Name of the repository [default: the repository of the current context]
    #[arg(long, value_name = "NAME")]
    repo: Option<String>,

    /// App version of the package, if it is from a repository [default: latest]
    #[arg(long, value_name = "VERSION")]
    app_version: Option<String>,

    /// Operator version of the package, if it is from a repository [default: latest]
    #[arg(long, value_name = "VERSION")]
    operator_version: Option<String>,
}

impl PackageArgs {
    /// Reads the package with its dependencies, and prints warnings.
    pub(super) async fn read(&self, globals: &GlobalArgs, home: &HomeArgs) -> Result<Vec<Package>> {
        self.version.read(&self.package, false, globals, home).await
    }

    /// Like [`PackageArgs::read`], for upgrading an instance to the package.
    pub(super) async fn read_for_upgrade(
        &self,
        globals: &GlobalArgs,
        home: &HomeArgs,
    ) -> Result<Vec<Package>> {
        self.version.read(&self.package, true, globals, home).await
    }
}

impl VersionArgs {
    /// Reads a package without a cluster.
    pub(super) fn read_now(&self, name: &str, globals: &GlobalArgs, home: &HomeArgs) -> Result<Vec<Package>> {
        cluster::run(self.read(name, false, globals, home))
    }

    async fn read(
        &self,
        name: &str,
        is_upgrade: bool,
        globals: &GlobalArgs,
        home: &HomeArgs,
    ) -> Result<Vec<Package>> {
        let path = Path::new(name);
        let found = if path.exists() {
            let read = if is_upgrade { for_upgrade(path) } else { with_dependencies(path) };
            read.map_err(|error| Failure::from(error).within(name))?
        } else if name.starts_with("http://") || name.starts_with("https://") {
            vec![from_archive(name, &fetch(globals, name).await?)?]
        } else if name.contains(['/', '\\']) || name.ends_with(".tgz") {
            return Err(Failure::new(format!("{name}: no such directory or archive")));
        } else {
            vec![self.find_in_repository(name, globals, home).await?]
        };
        for warning in found.iter().flat_map(|package| &package.warnings) {
            failure::warn(&warning.to_string());
        }
        Ok(found)
    }

    async fn find_in_repository(&self, name: &str, globals: &GlobalArgs, home: &HomeArgs) -> Result<Package> {
        let Repository { name: repo, url } = repository(home, self.repo.as_deref())?;
        let index = fetch_index(globals, &url).await?;
        let found = index.find(name, self.app_version.as_deref(), self.operator_version.as_deref());
        let entry = found.ok_or_else(|| {
            Failure::new(format!("no operator {name} of that version is in the repository {repo} ({url})"))
                .help("name a directory as ./DIR; `steer kudo search` lists the repository's operators")
        })?;
        let place = entry.urls.first().map(String::as_str).unwrap_or_default();
        let data = fetch(globals, place).await?;
        if !entry.digest.is_empty() && entry.digest != digest(&data) {
            return Err(Failure::new(format!("{place}: digest does not match the index of {repo}")));
        }
        from_archive(place, &data)
    }
}

fn from_archive(name: &str, data: &[u8]) -> Result<Package> {
    let files = archive_files(data).map_err(|error| Failure::new(format!("{name}: {error}")))?;
    Package::from_files(files).map_err(|error| Failure::from(error).within(name))
}
