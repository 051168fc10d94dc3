//! Locates and fetches packed charts.

use std::path::Path;

use futures_util::future::BoxFuture;

use crate::cache::sha256;
use crate::oci::{self, OciReference, Pulled, Registry};
use crate::{Access, Cache, Entry, Error, Index, Limits, Paths, Repositories, http, urls, write_atomically};

/// A request for a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// `oci://registry/repository`, the URL of a packed chart, or `repository/chart` for a repository added by `helm repo add`;
    /// with [`Request::repository`], only the chart's name.
    pub reference: String,
    /// A version or a constraint. Default: the newest version that is not a pre-release.
    pub version: String,
    /// The URL of the chart repository to search. Default: none.
    pub repository: Option<String>,
    /// Whether to fetch the provenance file too; it is not verified. Default: no.
    pub provenance: bool,
}

impl Request {
    /// Creates a request for the newest version of a chart.
    pub fn new(reference: impl Into<String>) -> Self {
        Self { reference: reference.into(), ..Self::default() }
    }

    /// Sets the version or constraint.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Sets the URL of the chart repository.
    #[must_use]
    pub fn repository(mut self, url: impl Into<String>) -> Self {
        self.repository = Some(url.into());
        self
    }

    /// Also requests the provenance file.
    #[must_use]
    pub fn with_provenance(mut self) -> Self {
        self.provenance = true;
        self
    }
}

/// A packed chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The file name that Helm uses; without directories.
    pub file_name: String,
    /// The URL that it was fetched from.
    pub url: String,
    /// The packed chart.
    pub data: Vec<u8>,
    /// Its SHA-256 in hexadecimal digits.
    pub digest: String,
    /// The manifest's digest, with its algorithm, for a chart from an OCI registry.
    pub manifest_digest: Option<String>,
    /// The provenance file, if it was requested and exists.
    pub provenance: Option<Vec<u8>>,
    /// Whether it came from the cache.
    pub from_cache: bool,
}

/// Fetches charts.
#[derive(Clone, Debug)]
pub struct Fetcher {
    paths: Paths,
    limits: Limits,
    cache: Cache,
}

/// The location of a packed chart.
struct ChartLocation {
    url: String,
    /// The URL to which the credentials in `access` belong.
    origin: String,
    access: Access,
    /// The digest in the index.
    digest: Option<String>,
}

impl Fetcher {
    /// Creates a fetcher with Helm's files at `paths` and the default [`Limits`].
    pub fn new(paths: Paths) -> Self {
        let cache = Cache::new(paths.content_cache.clone());
        Self { paths, limits: Limits::default(), cache }
    }

    /// Sets other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns the paths of Helm's files.
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// Locates and fetches a chart.
    pub fn fetch<'a>(
        &'a self,
        request: &'a Request,
        access: &'a Access,
    ) -> BoxFuture<'a, Result<Fetched, Error>> {
        Box::pin(async move {
            let place = self.locate(request, access).await?;
            // An index may refer to an OCI registry: then the version is in that reference.
            let version =
                if request.reference.starts_with(oci::SCHEME) { request.version.trim() } else { "" };
            self.fetch_from(place, version, request.provenance).await
        })
    }

    /// Fetches the chart of an entry in the index of `repository`.
    pub(crate) async fn fetch_entry(
        &self,
        repository: &str,
        entry: &Entry,
        access: Access,
    ) -> Result<Fetched, Error> {
        let place = self.place(repository, &entry.name, entry, access)?;
        self.fetch_from(place, "", false).await
    }

    async fn fetch_from(
        &self,
        place: ChartLocation,
        version: &str,
        provenance: bool,
    ) -> Result<Fetched, Error> {
        if place.url.starts_with(oci::SCHEME) {
            return self.pull(&place, version, provenance).await;
        }
        let (data, from_cache) = self.download(&place).await?;
        let provenance = match provenance {
            // Like Helm, tolerates a missing provenance file.
            true => self.get_from(&place, &format!("{}.prov", place.url)).await.ok(),
            false => None,
        };
        let file_name = match urls::file_name(&urls::parse(&place.url)?) {
            "" => return Err(Error::InvalidUrl(place.url)),
            name => name.to_owned(),
        };
        let digest = self.cache.put(&data);
        Ok(Fetched { file_name, url: place.url, data, digest, manifest_digest: None, provenance, from_cache })
    }

    /// Fetches any file by its URL, as `-f https://…` does.
    pub fn fetch_file<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Vec<u8>, Error>> {
        Box::pin(
            async move { http::get(url, url, &Access::default(), &self.limits, self.limits.chart).await },
        )
    }

    /// Fetches the index of the repository at `url`.
    pub fn index<'a>(&'a self, url: &'a str, access: &'a Access) -> BoxFuture<'a, Result<Index, Error>> {
        Box::pin(async move {
            let (index, _) = self.raw_index(url, access).await?;
            Ok(index)
        })
    }

    /// Fetches and caches the index of a repository, where Helm does. `name` is generated for a repository that was not added.
    pub(crate) async fn refresh_index(&self, name: &str, url: &str, access: &Access) -> Result<Index, Error> {
        let (index, data) = self.raw_index(url, access).await?;
        let names: String = index.names().flat_map(|name| [name, "\n"]).collect();
        write_atomically(&self.paths.repository_cache.join(format!("{name}-charts.txt")), names.as_bytes())?;
        write_atomically(&self.paths.cached_index(name), &data)?;
        Ok(index)
    }

    async fn raw_index(&self, url: &str, access: &Access) -> Result<(Index, Vec<u8>), Error> {
        let place = urls::resolve(url, "index.yaml")?;
        let data = http::get(&place, url, access, &self.limits, self.limits.index).await?;
        Ok((Index::parse(&data, url)?, data))
    }

    /// Loads the index of an added repository, as cached by `helm repo update`. Fetches it if there is none.
    pub(crate) async fn known_index(&self, name: &str, url: &str, access: &Access) -> Result<Index, Error> {
        let path = self.paths.cached_index(name);
        if path.exists() {
            return Index::load(&path).map_err(|error| Error::NoCachedIndex { source: Box::new(error) });
        }
        self.refresh_index(name, url, access)
            .await
            .map_err(|error| Error::NotARepository { url: url.to_owned(), source: Box::new(error) })
    }

    /// Lists the tags of an OCI repository that are versions, newest first.
    pub(crate) async fn tags(&self, reference: &str, access: &Access) -> Result<Vec<String>, Error> {
        let reference = OciReference::parse(reference)?;
        self.open(&reference, access).await?.versions(&reference).await
    }

    async fn locate(&self, request: &Request, access: &Access) -> Result<ChartLocation, Error> {
        let (reference, version) = (request.reference.trim(), request.version.trim());
        if let Some(repository) = &request.repository {
            return self.locate_in(repository, reference, version, access).await;
        }
        let here = || ChartLocation {
            url: reference.to_owned(),
            origin: reference.to_owned(),
            access: access.clone(),
            digest: None,
        };
        if reference.starts_with(oci::SCHEME) {
            return Ok(here());
        }
        let repositories = Repositories::load(&self.paths.repository_config)?;
        match url::Url::parse(reference) {
            Ok(url) if url.has_host() => {
                Ok(self.locate_owner(reference, access, &repositories).unwrap_or_else(here))
            }
            _ => self.locate_known(reference, version, access, &repositories).await,
        }
    }

    /// Locates a chart in a repository given by URL.
    async fn locate_in(
        &self,
        repository: &str,
        chart: &str,
        version: &str,
        access: &Access,
    ) -> Result<ChartLocation, Error> {
        if repository.starts_with(oci::SCHEME) {
            return Err(Error::InvalidReference(format!(
                "--repo takes the URL of an index; the chart in a registry is {}/{chart} without --repo",
                repository.trim_end_matches('/')
            )));
        }
        let index = self
            .index(repository, access)
            .await
            .map_err(|error| Error::NotARepository { url: repository.to_owned(), source: Box::new(error) })?;
        let entry = index.find(chart, version).map_err(|_| Error::NotInRepository {
            chart: chart.to_owned(),
            version: version.to_owned(),
            repository: repository.to_owned(),
        })?;
        self.place(repository, chart, entry, access.clone())
    }

    /// Locates `repository/chart`.
    async fn locate_known(
        &self,
        reference: &str,
        version: &str,
        access: &Access,
        repositories: &Repositories,
    ) -> Result<ChartLocation, Error> {
        let (name, chart) =
            reference.split_once('/').ok_or_else(|| Error::NotAReference(reference.to_owned()))?;
        let repository = repositories.by_name(name)?;
        let access = repository.access(access);
        let index = self.known_index(name, &repository.url, &access).await?;
        let entry = index.find(chart, version).map_err(|reason| Error::NotInIndex {
            chart: chart.to_owned(),
            version: version.to_owned(),
            repository: name.to_owned(),
            reason,
        })?;
        self.place(&repository.url, reference, entry, access)
    }

    /// Finds the added repository that a chart URL belongs to, so that its credentials are used.
    fn locate_owner(&self, url: &str, access: &Access, repositories: &Repositories) -> Option<ChartLocation> {
        repositories.entries.iter().filter(|repository| repository.is_special()).find_map(|repository| {
            let index = Index::load(&self.paths.cached_index(&repository.name)).ok()?;
            let entry =
                index.entries().find(|entry| entry.urls.iter().any(|known| urls::equal(known, url)))?;
            Some(ChartLocation {
                url: url.to_owned(),
                origin: repository.url.clone(),
                access: repository.access(access),
                digest: entry.sha256(),
            })
        })
    }

    fn place(
        &self,
        repository: &str,
        chart: &str,
        entry: &Entry,
        access: Access,
    ) -> Result<ChartLocation, Error> {
        let url = entry.urls.first().ok_or_else(|| Error::NoDownload(chart.to_owned()))?;
        let url = urls::resolve(repository, url)?;
        Ok(ChartLocation { url, origin: repository.to_owned(), access, digest: entry.sha256() })
    }

    async fn download(&self, place: &ChartLocation) -> Result<(Vec<u8>, bool), Error> {
        if let Some(data) = place.digest.as_deref().and_then(|digest| self.cache.get(digest)) {
            return Ok((data, true));
        }
        let data = self.get_from(place, &place.url).await?;
        if let Some(expected) = &place.digest {
            let actual = sha256(&data);
            if &actual != expected {
                return Err(Error::Digest { url: place.url.clone(), expected: expected.clone(), actual });
            }
        }
        Ok((data, false))
    }

    async fn get_from(&self, place: &ChartLocation, url: &str) -> Result<Vec<u8>, Error> {
        http::get(url, &place.origin, &place.access, &self.limits, self.limits.chart).await
    }

    async fn pull(&self, place: &ChartLocation, version: &str, provenance: bool) -> Result<Fetched, Error> {
        let reference = OciReference::parse(&place.url)?;
        // Credentials for a repository's index must not be sent to a registry that it refers to.
        let foreign = place.origin != place.url && !place.access.pass_credentials;
        let access = match foreign {
            true => Access { username: None, password: None, ..place.access.clone() },
            false => place.access.clone(),
        };
        let registry = self.open(&reference, &access).await?;
        let reference = registry.resolve(&reference, version).await?;
        let Pulled { reference, manifest_digest, chart, digest, provenance, from_cache } =
            registry.pull(&reference, provenance).await?;
        Ok(Fetched {
            file_name: reference.file_name(),
            url: format!("{}{reference}", oci::SCHEME),
            data: chart,
            digest,
            manifest_digest: Some(manifest_digest),
            provenance,
            from_cache,
        })
    }

    async fn open(&self, reference: &OciReference, access: &Access) -> Result<Registry, Error> {
        let (host, repository) = (&reference.registry, &reference.repository);
        Registry::open(host, repository, access, &self.paths, self.cache.clone(), self.limits).await
    }
}

impl Fetched {
    /// Writes the packed chart, and its provenance file if any, into a directory. Returns the chart's path.
    pub fn save(&self, directory: &Path) -> Result<std::path::PathBuf, Error> {
        let path = directory.join(&self.file_name);
        write_atomically(&path, &self.data)?;
        if let Some(provenance) = &self.provenance {
            write_atomically(&directory.join(format!("{}.prov", self.file_name)), provenance)?;
        }
        Ok(path)
    }
}
