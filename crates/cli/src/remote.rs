//! Charts and files over the network: HTTP repositories, OCI registries and URLs.

use std::path::Path;
use std::time::Duration;

use steersman_chart::FetchSchema;
use steersman_registry::{Access, Error as FetchError, Fetcher, Limits, Manager, Paths, Request};

use crate::args::{AccessArgs, ChartArgs, GlobalArgs};
use crate::failure::{self, Failure, Result};
use crate::runtime;

/// How long a schema may take, as in Helm.
const SCHEMA_TIMEOUT: Duration = Duration::from_secs(15);

/// Runs something on the network.
pub(crate) fn block_on<T>(future: impl Future<Output = std::result::Result<T, FetchError>>) -> Result<T> {
    Ok(runtime::current_thread()?.block_on(future)?)
}

/// The archive of the chart that a URL, a repository or a registry has under a name.
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
    // Helm says this on standard output, among the manifests: there it would break whatever reads them.
    let (fetcher, access) = (Fetcher::new(globals.paths()), args.access()?);
    let mut progress = failure::note;
    block_on(Manager::new(&fetcher, &access, path, &mut progress).update())
}

/// The file at a URL.
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
        // Rendering for a cluster happens within a runtime, where no other may be started: the fetch has its own thread.
        let fetched = std::thread::scope(|scope| scope.spawn(fetch).join());
        let data = fetched.map_err(|_| format!("fetching {url} broke off"))??;
        serde_json::from_slice(&data).map_err(|error| error.to_string())
    })
}

impl GlobalArgs {
    /// Where Helm's files are.
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
    /// How to speak to a repository or registry.
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

    /// A request for `chart` as the flags want it.
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
