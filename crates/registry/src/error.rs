//! Errors of finding, fetching and pushing charts and images.

use std::io;
use std::path::PathBuf;

/// The reason why a chart could not be fetched. [`Error::help`] suggests a remedy, where one is
/// known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The reference is neither a URL nor `repository/chart`.
    #[error("non-absolute URLs should be in form of repo_name/path_to_chart, got: {0}")]
    NotAReference(String),
    /// A URL that does not parse, or cannot be joined to its repository's.
    #[error("invalid chart URL format: {0}")]
    InvalidUrl(String),
    /// A URL with a scheme that charts cannot be fetched from.
    #[error("scheme {0:?} not supported")]
    UnsupportedScheme(String),
    /// No repository of that name has been added.
    #[error("repo {0} not found")]
    UnknownRepository(String),
    /// The repository's entry lacks its URL.
    #[error("no URL found for repository {0}")]
    RepositoryWithoutUrl(String),
    /// The index of an added repository has not been fetched, or cannot be read.
    #[error("no cached repo found. (try 'helm repo update'): {source}")]
    NoCachedIndex {
        /// Why the cached index could not be used.
        source: Box<Error>,
    },
    /// A repository did not return an index.
    #[error("looks like {url:?} is not a valid chart repository or cannot be reached: {source}")]
    NotARepository {
        /// The repository's URL.
        url: String,
        /// Why there is no index.
        source: Box<Error>,
    },
    /// An index or a repositories file is invalid.
    #[error("error loading {path}: {message}")]
    InvalidFile {
        /// The file or URL.
        path: String,
        /// What is wrong with it.
        message: String,
    },
    /// The repository given by URL does not have the chart, or not in that version.
    #[error("chart {chart:?}{} not found in {repository} repository", version_words(.version))]
    NotInRepository {
        /// The chart's name.
        chart: String,
        /// The requested version; empty for any.
        version: String,
        /// The repository's URL.
        repository: String,
    },
    /// The cached index of an added repository does not have the chart, or not in that version.
    #[error(
        "chart {chart:?} matching {version} not found in {repository} index. (try 'helm repo update'): {reason}"
    )]
    NotInIndex {
        /// The chart's name.
        chart: String,
        /// The requested version; empty for any.
        version: String,
        /// The repository's name.
        repository: String,
        /// Whether the chart or the version is missing.
        reason: String,
    },
    /// The index has the chart, but no URL for it.
    #[error("chart {0:?} has no downloadable URLs")]
    NoDownload(String),
    /// The server responded with an error status.
    #[error("failed to fetch {url} : {status}")]
    Status {
        /// The requested URL.
        url: String,
        /// The status line, such as `404 Not Found`.
        status: String,
    },
    /// The request failed, or the response was cut off.
    #[error("Get {url:?}: {message}")]
    Transport {
        /// The requested URL.
        url: String,
        /// The connection's error.
        message: String,
    },
    /// The response exceeds the limit.
    #[error("{url} is larger than {limit} bytes")]
    TooLarge {
        /// The requested URL.
        url: String,
        /// The limit in [`Limits`](crate::Limits).
        limit: u64,
    },
    /// The content does not have the expected digest.
    #[error("digest mismatch for {url}: expected sha256:{expected}, got sha256:{actual}")]
    Digest {
        /// The URL of the content.
        url: String,
        /// The digest in the index, manifest or reference.
        expected: String,
        /// The digest of the content received.
        actual: String,
    },
    /// An image that cannot be built, or is invalid.
    #[error("{0}")]
    Image(String),
    /// A certificate or key file is invalid.
    #[error("can't create TLS config for client: {0}")]
    Tls(String),
    /// A reference to an OCI registry that does not parse.
    #[error("invalid reference: {0}")]
    InvalidReference(String),
    /// The tag in the reference differs from the requested version.
    #[error("chart reference and version mismatch: {version} is not {tag}")]
    TagMismatch {
        /// The requested version.
        version: String,
        /// The tag in the reference.
        tag: String,
    },
    /// The tag of a reference with a digest identifies other content.
    #[error("chart reference digest mismatch: {actual} is not {expected}")]
    ReferenceDigest {
        /// The digest in the reference.
        expected: String,
        /// The digest that the tag identifies.
        actual: String,
    },
    /// No tag is a version.
    #[error("Unable to locate any tags in provided repository: {0}")]
    NoTags(String),
    /// No tag is a version that satisfies the constraint.
    #[error("Could not locate a version matching provided version string {0}")]
    NoMatchingTag(String),
    /// A version constraint that does not parse.
    #[error("{0}")]
    Constraint(String),
    /// The registry rejects the credentials, or there are none.
    #[error("{reference}: not authorized{}", reason_words(.reason))]
    Unauthorized {
        /// The requested reference.
        reference: String,
        /// The registry's host.
        registry: String,
        /// The registry's explanation; may be empty.
        reason: String,
    },
    /// The registry has no such repository, tag or digest.
    #[error("{reference}: not found")]
    NotFound {
        /// The requested reference.
        reference: String,
    },
    /// The content under that reference is not a chart.
    #[error("{reference}: {message}")]
    NotAChart {
        /// The requested reference.
        reference: String,
        /// What it lacks.
        message: String,
    },
    /// Any other error of a registry.
    #[error("{reference}: {message}")]
    Registry {
        /// The requested reference.
        reference: String,
        /// The registry's or the client's message.
        message: String,
    },
    /// A credentials file that cannot be read.
    #[error("failed to read credentials from {}: {message}", .path.display())]
    CredentialsFile {
        /// Helm's or Docker's file.
        path: PathBuf,
        /// The error.
        message: String,
    },
    /// A credential helper cannot be started, fails, or returns invalid output.
    #[error("credential helper docker-credential-{helper}: {message}")]
    CredentialHelper {
        /// The helper's name without its prefix.
        helper: String,
        /// The error.
        message: String,
    },
    /// A file that cannot be read or written.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// A dependency refers to a repository name that has not been added.
    #[error("{0}")]
    NoRepositoryDefinition(String),
    /// A dependency's constraint does not parse.
    #[error("dependency {name:?} has an invalid version/constraint format: {message}")]
    DependencyConstraint {
        /// The dependency's name.
        name: String,
        /// The error in the constraint.
        message: String,
    },
    /// Dependencies without any acceptable version.
    #[error(
        "can't get a valid version for {} subchart(s): {}. Make sure a matching chart version exists in the repo, or change the version constraint in Chart.yaml",
        .0.len(), .0.join(", ")
    )]
    NoValidVersion(Vec<String>),
    /// The lock file was made for other dependencies.
    #[error(
        "the lock file ({lock}) is out of sync with the dependencies file ({source_file}). Please update the dependencies"
    )]
    LockOutOfSync {
        /// `Chart.lock` or `requirements.lock`.
        lock: &'static str,
        /// `Chart.yaml` or `requirements.yaml`.
        source_file: &'static str,
    },
    /// Any other error of a dependency, in Helm's words.
    #[error("{0}")]
    Dependency(String),
    /// A step failed for one dependency.
    #[error("{context}: {source}")]
    Context {
        /// The step.
        context: String,
        /// The error.
        source: Box<Error>,
    },
}

impl Error {
    pub(crate) fn file(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::File { path: path.into(), source }
    }

    pub(crate) fn context(self, context: impl Into<String>) -> Self {
        Self::Context { context: context.into(), source: Box::new(self) }
    }

    /// Returns a suggested remedy, where one is known: one line without a final full stop.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::UnknownRepository(name) => {
                Some(format!("add it with `helm repo add {name} URL`, or name its URL with --repo"))
            }
            Self::NotAReference(chart) => Some(format!(
                "no file or directory {chart:?} found; name a remote chart as repo/{chart}, a URL, or \
                 {chart} with --repo URL"
            )),
            Self::NotARepository { url, source } => source
                .help()
                .or_else(|| Some(format!("a chart repository answers at {}/index.yaml", url.trim_end_matches('/')))),
            Self::Status { status, .. } if status.starts_with("401") || status.starts_with("403") => {
                Some("give a name and password with --username and --password".into())
            }
            Self::Transport { message, .. } if message.contains("certificate") => Some(
                "give the authority that signed the server's certificate with --ca-file, or trust any with --insecure-skip-tls-verify"
                    .into(),
            ),
            Self::Transport { url, message } if message.contains(crate::http::NOT_TLS) => Some(
                if url.starts_with("oci:") { "the registry does not use TLS: use --plain-http" }
                else { "the server does not use TLS: is it http:// instead of https://?" }.into(),
            ),
            Self::Unauthorized { registry, .. } => Some(format!(
                "log in with `helm registry login {registry}` or `docker login {registry}`, or use --username and --password"
            )),
            Self::NotInRepository { version, .. } | Self::NoMatchingTag(version) => {
                (version.is_empty()).then(|| "--devel also looks at pre-releases".into())
            }
            Self::Digest { .. } => {
                Some("the file changed after its digest was published, or was altered on the way; do not use it".into())
            }
            Self::CredentialHelper { helper, .. } => {
                Some(format!("is docker-credential-{helper} installed and in PATH?"))
            }
            Self::LockOutOfSync { .. } => Some("steer chart dependency update".into()),
            Self::Context { source, .. } | Self::NoCachedIndex { source } => source.help(),
            _ => None,
        }
    }
}

fn version_words(version: &str) -> String {
    if version.is_empty() { String::new() } else { format!(" version {version:?}") }
}

fn reason_words(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}
