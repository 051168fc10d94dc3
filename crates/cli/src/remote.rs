//! Fetches charts and files over the network: HTTP repositories, OCI registries and URLs.

use std::path::Path;
use std::time::Duration;

use steersman_chart::FetchSchema;
use steersman_registry::{Access, Error as FetchError, Fetcher, Limits, Manager, Paths, Request};

use crate::args::{AccessArgs, ChartArgs, GlobalArgs};
use crate::failure::{self, Failure, Result};
use crate::runtime;

/// Timeout for fetching a schema, as in Helm.
const SCHEMA_TIMEOUT: Duration = Duration::from_secs(15);

/// Runs a future that accesses the network.
pub(crate) fn block_on<T>(future: impl Future<Output = std::result::Result<T, FetchError>>) -> Result<T> {
    Ok(runtime::current_thread()?.block_on(future)?)
}

/// Fetches the archive of a chart from a URL, a repository or a registry.
pub(crate) fn chart(name: &str, args: &ChartArgs, globals: &GlobalArgs) -> Result<Vec<u8>> {
    let (fetcher, access) = (Fetcher::new(globals.paths()), args.access()?);
    let fetched = block_on(fetcher.fetch(&args.request(name), &access))?;
    if let Some(digest) = &fetched.manifest_digest {
        failure::note(&format!("Pulled: {}\nDigest: {digest}", fetched.url.trim_start_matches("oci://")));
    }
    if globals.debug() {
        let how = if fetched.from_cache { "cached" } else { "fetched" };
        failure::note(&format!("debug: {how} {} sha256:{}", fetched.url, fetched.digest));
    }
    Ok(fetched.data)
}

/// Fetches the dependencies of the chart in a directory.
pub(crate) fn update_dependencies(path: &Path, args: &ChartArgs, globals: &GlobalArgs) -> Result {
    // Helm prints progress to standard output, among the manifests, where it would break their readers.
    let (fetcher, access) = (Fetcher::new(globals.paths()), args.access()?);
    let mut progress = failure::note;
    block_on(Manager::new(&fetcher, &access, path, &mut progress).update())
}

/// Fetches the file at a URL.
pub(crate) fn file(url: &str, globals: &GlobalArgs) -> Result<Vec<u8>> {
    let fetcher = Fetcher::new(globals.paths());
    block_on(fetcher.fetch_file(url))
}

/// Fetches the schemas that a values.schema.json refers to by URL.
pub(crate) fn schemas(globals: &GlobalArgs) -> FetchSchema {
    let paths = globals.paths();
    FetchSchema::new(move |url| {
        let limits = Limits { request: SCHEMA_TIMEOUT, ..Limits::default() };
        let fetcher = Fetcher::new(paths.clone()).with_limits(limits);
        let fetch = || block_on(fetcher.fetch_file(url)).map_err(|failure| failure.message().to_owned());
        // Rendering for a cluster runs inside a runtime, in which no other may be started, so fetch on a separate thread.
        let fetched = std::thread::scope(|scope| scope.spawn(fetch).join());
        let data = fetched.map_err(|_| format!("fetching {url} was interrupted"))??;
        serde_json::from_slice(&data).map_err(|error| error.to_string())
    })
}

impl GlobalArgs {
    /// Returns the paths of Helm's files.
    pub(crate) fn paths(&self) -> Paths {
        let mut paths = Paths::from_env();
        let overrides = [
            (&self.registry_config, &mut paths.registry_config),
            (&self.repository_config, &mut paths.repository_config),
            (&self.repository_cache, &mut paths.repository_cache),
        ];
        for (given, path) in overrides {
            if let Some(given) = given {
                path.clone_from(given);
            }
        }
        paths
    }
}

impl AccessArgs {
    /// Returns credentials and TLS settings for a repository or registry.
    pub(crate) fn access(&self) -> Result<Access> {
        self.check()?;
        Ok(Access {
            username: self.username.clone(),
            password: self.password.clone(),
            ca_file: self.ca_file.clone(),
            cert_file: self.cert_file.clone(),
            key_file: self.key_file.clone(),
            insecure_skip_tls_verify: self.insecure_skip_tls_verify,
            plain_http: self.plain_http,
            pass_credentials: false,
        })
    }
}

impl ChartArgs {
    pub(crate) fn access(&self) -> Result<Access> {
        Ok(Access { pass_credentials: self.pass_credentials, ..self.access.access()? })
    }

    /// Returns a request for `chart` with the flags applied.
    pub(crate) fn request(&self, chart: &str) -> Request {
        let version = match self.version.as_deref().unwrap_or_default().trim() {
            "" if self.devel => ">0.0.0-0",
            version => version,
        };
        let request = Request::new(chart).version(version);
        match self.repo.as_deref().filter(|url| !url.is_empty()) {
            Some(url) => request.repository(url),
            None => request,
        }
    }
}

impl From<FetchError> for Failure {
    fn from(error: FetchError) -> Self {
        let failure = Self::new(error.to_string());
        match error.help() {
            Some(help) => failure.help(help),
            None => failure,
        }
    }
}
