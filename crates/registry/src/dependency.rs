//! Downloads a chart's dependencies into its `charts/`, as `helm dependency update` and `build` do.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use futures_util::future::LocalBoxFuture;
use steersman_chart::{Chart, Dependency, Lock};

use crate::cache::sha256;
use crate::{
    Access, Error, Fetched, Fetcher, Index, Repositories, Repository, Request, lock, oci, package, urls,
    version, write_atomically,
};

const FILE_SCHEME: &str = "file://";

/// Receives progress messages, one line at a time and in Helm's words.
pub type Progress<'a> = dyn FnMut(&str) + 'a;

/// Updates the `charts/` of one unpacked chart according to its Chart.yaml or its lock file.
pub struct Manager<'a> {
    fetcher: &'a Fetcher,
    access: &'a Access,
    chart: PathBuf,
    refresh: bool,
    progress: &'a mut Progress<'a>,
}

/// Where a dependency comes from.
enum Source {
    /// It is in `charts/` already.
    Present,
    /// A chart directory on disk (`file://`).
    Directory(PathBuf),
    /// An OCI registry.
    Registry,
    /// A repository added by `helm repo add`.
    Known(Repository),
    /// A repository known only by its URL.
    Unmanaged,
}

/// A packed dependency, to be written into `charts/`.
struct Packed {
    file_name: String,
    data: Vec<u8>,
}

impl<'a> Manager<'a> {
    /// Creates a manager for the unpacked chart at `chart`; `access` is used for OCI registries.
    pub fn new(
        fetcher: &'a Fetcher,
        access: &'a Access,
        chart: impl Into<PathBuf>,
        progress: &'a mut Progress<'a>,
    ) -> Self {
        Self { fetcher, access, chart: chart.into(), refresh: true, progress }
    }

    /// Uses cached repository indexes instead of refreshing them, as `--skip-refresh` does. Default: refresh.
    #[must_use]
    pub fn skip_refresh(mut self, skip: bool) -> Self {
        self.refresh = !skip;
        self
    }

    /// Fetches the newest charts that satisfy Chart.yaml, and records their versions in the lock file.
    pub fn update(&mut self) -> LocalBoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let chart = self.load()?;
            let Some(wanted) = &chart.metadata().dependencies else { return Ok(()) };
            let mut wanted = wanted.clone();
            let sources = self.sources(&mut wanted)?;
            self.refresh_indexes(&wanted, &sources).await?;

            let mut locked = self.resolve(&wanted, &sources).await?;
            self.fill(&mut locked, &sources).await?;
            let digest = lock::digest(&wanted, &locked);
            if chart.lock().is_some_and(|lock| lock.digest == digest) {
                return Ok(());
            }
            self.write_lock(&chart, digest, locked)
        })
    }

    /// Fetches exactly the charts of the lock file; without a lock file, the same as [`Manager::update`].
    pub fn build(&mut self) -> LocalBoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let chart = self.load()?;
            let Some(lock) = chart.lock() else { return self.update().await };
            let mut wanted = chart.metadata().dependencies.clone().unwrap_or_default();
            // Helm 2 computed the digest before it replaced repository names by URLs.
            let old_digest = lock::helm2_digest(&wanted);
            self.sources(&mut wanted)?;
            let is_v1 = chart.metadata().api_version == "v1";
            let in_sync = lock::digest(&wanted, &lock.dependencies) == lock.digest
                || (is_v1 && old_digest == lock.digest);
            if !in_sync {
                return Err(match is_v1 {
                    true => {
                        Error::LockOutOfSync { lock: "requirements.lock", source_file: "requirements.yaml" }
                    }
                    false => Error::LockOutOfSync { lock: "Chart.lock", source_file: "Chart.yaml" },
                });
            }
            let mut locked = lock.dependencies.clone();
            let sources = self.sources(&mut locked)?;
            self.refresh_indexes(&locked, &sources).await?;
            self.fill(&mut locked, &sources).await
        })
    }

    fn load(&self) -> Result<Chart, Error> {
        let is_directory = fs::metadata(&self.chart)
            .map_err(|source| {
                Error::file(&self.chart, source).context(format!("could not find {}", self.chart.display()))
            })?
            .is_dir();
        if !is_directory {
            return Err(Error::Dependency("only unpacked charts can be updated".into()));
        }
        load_chart(&self.chart)
    }

    fn say(&mut self, line: impl AsRef<str>) {
        (self.progress)(line.as_ref());
    }

    /// Determines the source of each dependency, and replaces repository names by their URLs.
    fn sources(&self, dependencies: &mut [Dependency]) -> Result<Vec<Source>, Error> {
        let repositories = Repositories::load(&self.fetcher.paths().repository_config)?;
        let mut missing = Vec::new();
        let mut sources = Vec::new();
        for dependency in dependencies {
            let repository = dependency.repository.clone();
            let alias = repository.strip_prefix('@').or_else(|| repository.strip_prefix("alias:"));
            let known = match alias {
                Some(name) => repositories.entries.iter().find(|known| known.name == name),
                None => repositories.by_url(&repository),
            };
            sources.push(if repository.is_empty() {
                Source::Present
            } else if repository.starts_with(FILE_SCHEME) {
                Source::Directory(self.local_path(&repository)?)
            } else if repository.starts_with(oci::SCHEME) {
                Source::Registry
            } else if let Some(known) = known {
                if alias.is_some() {
                    dependency.repository = known.url.clone();
                }
                Source::Known(known.clone())
            } else if url::Url::parse(&repository).is_ok_and(|url| url.has_host()) {
                Source::Unmanaged
            } else {
                missing.push(repository);
                continue;
            });
        }
        if missing.is_empty() {
            return Ok(sources);
        }
        let mut message = format!(
            "no repository definition for {}. Please add them via 'helm repo add'",
            missing.join(", ")
        );
        if missing
            .iter()
            .any(|name| !name.contains("//") && !name.starts_with('@') && !name.starts_with("alias:"))
        {
            message.push_str(
                "\nNote that repositories must be URLs or aliases. For example, to refer to the \"example\"\n\
                 repository, use \"https://charts.example.com/\" or \"@example\" instead of\n\
                 \"example\". Don't forget to add the repo, too ('helm repo add').",
            );
        }
        Err(Error::NoRepositoryDefinition(message))
    }

    fn local_path(&self, repository: &str) -> Result<PathBuf, Error> {
        let path = Path::new(repository.strip_prefix(FILE_SCHEME).unwrap_or(repository));
        let path = clean_path(&if path.is_absolute() { path.to_owned() } else { self.chart.join(path) });
        match fs::metadata(&path) {
            Ok(_) => Ok(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(Error::Dependency(format!("directory {} not found", path.display())))
            }
            Err(error) => Err(Error::file(path, error)),
        }
    }

    /// Refreshes the indexes of all repositories of these dependencies. A failure is only reported: the cached
    /// index may do.
    async fn refresh_indexes(
        &mut self,
        dependencies: &[Dependency],
        sources: &[Source],
    ) -> Result<(), Error> {
        if !self.refresh {
            return Ok(());
        }
        let mut done = BTreeSet::new();
        let mut announced = false;
        for (dependency, _) in
            dependencies.iter().zip(sources).filter(|(_, s)| matches!(s, Source::Unmanaged))
        {
            let url = &dependency.repository;
            if !done.insert(url.clone()) {
                continue;
            }
            if !announced {
                self.say("Getting updates for unmanaged Helm repositories...");
                announced = true;
            }
            let result = self.fetcher.refresh_index(&unmanaged_name(url), url, &Access::default()).await;
            self.say(match result {
                Ok(_) => format!("...Successfully got an update from the {url:?} chart repository"),
                Err(error) => {
                    format!("...Unable to get an update from the {url:?} chart repository:\n\t{error}")
                }
            });
        }
        announced = false;
        for source in sources {
            let Source::Known(repository) = source else { continue };
            if !done.insert(repository.name.clone()) {
                continue;
            }
            if !announced {
                self.say("Hang tight while we grab the latest from your chart repositories...");
                announced = true;
            }
            let Repository { name, url, .. } = repository;
            let access = repository.access(&Access::default());
            let result = self.fetcher.refresh_index(name, url, &access).await;
            self.say(match result {
                Ok(_) => format!("...Successfully got an update from the {name:?} chart repository"),
                Err(error) => {
                    format!(
                        "...Unable to get an update from the {name:?} chart repository ({url}):\n\t{error}"
                    )
                }
            });
        }
        if announced {
            self.say("Update Complete. ⎈Happy Helming!⎈");
        }
        Ok(())
    }

    /// Chooses a version for each dependency.
    async fn resolve(&self, wanted: &[Dependency], sources: &[Source]) -> Result<Vec<Dependency>, Error> {
        let mut locked = Vec::new();
        let mut missing = Vec::new();
        for (dependency, source) in wanted.iter().zip(sources) {
            let Dependency { name, version, repository, .. } = dependency;
            let matches = version::Matcher::of_dependency(version)
                .map_err(|message| Error::DependencyConstraint { name: name.clone(), message })?;
            let chosen = match source {
                Source::Present => {
                    let path = self.chart.join("charts").join(name);
                    if !path.exists() {
                        return Err(Error::Dependency(format!(
                            "directory {} not found",
                            clean_path(&path).display()
                        )));
                    }
                    Some(version.clone())
                }
                Source::Directory(path) => {
                    let found = load_chart(path)?.metadata().version.clone();
                    matches.accepts(&found).then_some(found)
                }
                Source::Registry if version::is_version(version) => Some(version.clone()),
                Source::Registry => {
                    let place = format!("{}/{name}", repository.trim_end_matches('/'));
                    let tags = self.fetcher.tags(&place, self.access).await.map_err(|error| {
                        error.context(format!("could not retrieve list of tags for repository {repository}"))
                    })?;
                    tags.into_iter().find(|tag| matches.accepts(tag))
                }
                Source::Known(_) | Source::Unmanaged => {
                    let index = self.index(dependency, source).await?;
                    let versions = index.versions(name).ok_or_else(|| {
                        Error::Dependency(format!("{name} chart not found in repo {repository}"))
                    })?;
                    let fitting =
                        |entry: &&crate::Entry| !entry.urls.is_empty() && matches.accepts(&entry.version);
                    versions.iter().find(fitting).map(|entry| entry.version.clone())
                }
            };
            match chosen {
                Some(version) => locked.push(Dependency {
                    name: name.clone(),
                    version,
                    repository: repository.clone(),
                    ..Dependency::default()
                }),
                None => {
                    missing.push(format!("{name:?} (repository {repository:?}, version {version:?})"));
                }
            }
        }
        if missing.is_empty() { Ok(locked) } else { Err(Error::NoValidVersion(missing)) }
    }

    async fn index(&self, dependency: &Dependency, source: &Source) -> Result<Index, Error> {
        let url = &dependency.repository;
        match source {
            Source::Known(repository) => {
                let access = repository.access(&Access::default());
                self.fetcher.known_index(&repository.name, url, &access).await
            }
            _ => {
                let name = unmanaged_name(url);
                self.fetcher.known_index(&name, url, &Access::default()).await
            }
        }
    }

    /// Writes all locked dependencies into `charts/`, and removes archives that are no longer needed.
    async fn fill(&mut self, locked: &mut [Dependency], sources: &[Source]) -> Result<(), Error> {
        let charts = self.chart.join("charts");
        match fs::metadata(&charts) {
            Ok(info) if info.is_dir() => {}
            Ok(_) => {
                return Err(Error::Dependency(format!(
                    "{:?} is not a directory",
                    charts.display().to_string()
                )));
            }
            Err(_) => fs::create_dir_all(&charts).map_err(|source| Error::file(&charts, source))?,
        }
        self.say(format!("Saving {} charts", locked.len()));
        let mut packed: Vec<Packed> = Vec::new();
        let mut seen = BTreeSet::new();
        for (dependency, source) in locked.iter_mut().zip(sources) {
            let result = match source {
                Source::Present => self.check_present(&charts, dependency).map(|()| None),
                Source::Directory(path) => pack_directory(path, dependency).map(Some),
                _ => self.download(dependency, source, &mut seen).await,
            };
            match result {
                Ok(found) => packed.extend(found),
                Err(error) => {
                    self.say(format!("Save error occurred:  {error}"));
                    return Err(error);
                }
            }
        }
        self.replace(&charts, locked, packed)
    }

    fn check_present(&mut self, charts: &Path, dependency: &Dependency) -> Result<(), Error> {
        let Dependency { name, version, .. } = dependency;
        self.say(format!(
            "Dependency {name} did not declare a repository. Assuming it exists in the charts directory"
        ));
        let path = charts.join(name);
        let chart = load_chart(&path).map_err(|error| {
            Error::Dependency(format!("unable to load chart '{}': {error}", path.display()))
        })?;
        let matches = version::Matcher::of_dependency(version).map_err(|error| {
            Error::Dependency(format!("dependency {name} has an invalid version/constraint format: {error}"))
        })?;
        let found = &chart.metadata().version;
        if matches.accepts(found) {
            return Ok(());
        }
        Err(Error::Dependency(format!(
            "dependency {name} at version {found} does not satisfy the constraint {version}"
        )))
    }

    async fn download(
        &mut self,
        dependency: &Dependency,
        source: &Source,
        seen: &mut BTreeSet<String>,
    ) -> Result<Option<Packed>, Error> {
        let Dependency { name, version, repository, .. } = dependency;
        if !seen.insert(format!("{repository} {name} {version}")) {
            self.say(format!("Already downloaded {name} from repo {repository}"));
            return Ok(None);
        }
        self.say(format!("Downloading {name} from repo {repository}"));
        let fetched = match source {
            Source::Registry => {
                let place = format!("{}/{name}", repository.trim_end_matches('/'));
                let request = Request::new(&place).version(version);
                let fetched = self.fetcher.fetch(&request, self.access).await;
                fetched.map_err(|error| error.context(format!("could not download {place}")))?
            }
            _ => {
                let index = self.index(dependency, source).await?;
                let entry = index
                    .versions(name)
                    .and_then(|entries| {
                        entries.iter().find(|entry| {
                            !entry.urls.is_empty()
                                && (version.is_empty() || version::equal(version, &entry.version))
                        })
                    })
                    .ok_or_else(|| {
                        let reason = "no matching version";
                        Error::Dependency(format!(
                            "could not find {name} {version} in {repository}: {reason}"
                        ))
                    })?;
                let access = match source {
                    Source::Known(known) => known.access(&Access::default()),
                    _ => Access::default(),
                };
                let fetched = self.fetcher.fetch_entry(repository, entry, access).await;
                fetched.map_err(|error| {
                    let url = entry.urls.first().and_then(|url| urls::resolve(repository, url).ok());
                    error.context(format!("could not download {}", url.unwrap_or_default()))
                })?
            }
        };
        let Fetched { file_name, data, .. } = fetched;
        Ok(Some(Packed { file_name, data }))
    }

    fn replace(&mut self, charts: &Path, locked: &[Dependency], packed: Vec<Packed>) -> Result<(), Error> {
        let before = list(charts)?;
        let mut written = BTreeSet::new();
        for Packed { file_name, data } in packed {
            let path = charts.join(&file_name);
            if let Err(error) = Chart::from_archive(&data) {
                self.say(format!("Could not verify {} for moving: {error} (Skipping)", path.display()));
            } else {
                write_atomically(&path, &data)?;
            }
            written.insert(file_name);
        }
        self.say("Deleting outdated charts");
        let is_local = |name: &str| {
            locked.iter().any(|dependency| dependency.repository.is_empty() && dependency.name == name)
        };
        for path in before {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() || written.contains(&*name) {
                continue;
            }
            match Chart::load(&path) {
                Err(error) => {
                    self.say(format!("Could not verify {} for deletion: {error} (Skipping)", path.display()));
                }
                Ok(chart) if is_local(chart.name()) => {}
                Ok(_) => {
                    if let Err(error) = fs::remove_file(&path) {
                        self.say(format!("Could not delete {}: {error} (Skipping)", path.display()));
                    }
                }
            }
        }
        Ok(())
    }

    fn write_lock(&self, chart: &Chart, digest: String, dependencies: Vec<Dependency>) -> Result<(), Error> {
        let name = if chart.metadata().api_version == "v1" { "requirements.lock" } else { "Chart.lock" };
        let path = self.chart.join(name);
        if let Ok(target) = fs::read_link(&path) {
            // Writing through the symlink would change a file elsewhere.
            return Err(Error::Dependency(format!(
                "the {name} file is a symlink to {:?}",
                target.display().to_string()
            )));
        }
        let generated = jiff::Timestamp::now().to_string();
        let text = lock::to_yaml(&Lock { generated, digest, dependencies });
        write_atomically(&path, text.as_bytes())
    }
}

fn pack_directory(path: &Path, dependency: &mut Dependency) -> Result<Packed, Error> {
    let chart = load_chart(path)?;
    let Dependency { name, version, .. } = dependency;
    let matches = version::Matcher::of_dependency(version).map_err(|message| {
        Error::Dependency(format!("dependency {name} has an invalid version/constraint format: {message}"))
    })?;
    let found = &chart.metadata().version;
    if !matches.accepts(found) {
        return Err(Error::Dependency(format!("can't get a valid version for dependency {name}")));
    }
    *version = found.clone();
    let file_name = format!("{}-{found}.tgz", chart.name());
    let data = package::pack(&chart).map_err(|source| Error::file(path, source))?;
    Ok(Packed { file_name, data })
}

fn load_chart(path: &Path) -> Result<Chart, Error> {
    Chart::load(path).map_err(|error| Error::Dependency(error.to_string()))
}

/// Returns Helm's name for the cached index of a repository that was not added.
fn unmanaged_name(url: &str) -> String {
    format!("helm-manager-{}", sha256(url.as_bytes()))
}

fn list(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut paths: Vec<_> =
        entries.map_err(|source| Error::file(directory, source))?.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    Ok(paths)
}

/// Cleans a path lexically, as Helm shows paths: without `.`, and without `..` where possible.
pub fn clean_path(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut cleaned = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(cleaned.components().next_back(), Some(Component::Normal(_))) =>
            {
                cleaned.pop();
            }
            Component::ParentDir if cleaned.has_root() => {}
            part => cleaned.push(part),
        }
    }
    if cleaned.as_os_str().is_empty() { PathBuf::from(".") } else { cleaned }
}
