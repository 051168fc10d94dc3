//! What can go wrong between a chart's name and its bytes.

use std::io;
use std::path::PathBuf;

/// Why a chart could not be had. [`Error::help`] says what would mend it, where that is known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The reference is neither a URL nor `repository/chart`.
    #[error("non-absolute URLs should be in form of repo_name/path_to_chart, got: {0}")]
    NotAReference(String),
    /// A URL that does not parse, or cannot be joined to its repository's.
    #[error("invalid chart URL format: {0}")]
    InvalidUrl(String),
    /// A URL of a kind that charts cannot be fetched from.
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
    /// A repository, asked for its index, did not give one.
    #[error("looks like {url:?} is not a valid chart repository or cannot be reached: {source}")]
    NotARepository {
        /// The repository's URL.
        url: String,
        /// Why there is no index.
        source: Box<Error>,
    },
    /// An index or a repositories file that is not what it should be.
    #[error("error loading {path}: {message}")]
    InvalidFile {
        /// The file or URL.
        path: String,
        /// What is wrong with it.
        message: String,
    },
    /// The repository given by URL does not hold the chart, or not in that version.
    #[error("chart {chart:?}{} not found in {repository} repository", version_words(.version))]
    NotInRepository {
        /// The chart's name.
        chart: String,
        /// The version that was asked for; empty for any.
        version: String,
        /// The repository's URL.
        repository: String,
    },
    /// The cached index of an added repository does not hold the chart, or not in that version.
    #[error(
        "chart {chart:?} matching {version} not found in {repository} index. (try 'helm repo update'): {reason}"
    )]
    NotInIndex {
        /// The chart's name.
        chart: String,
        /// The version that was asked for; empty for any.
        version: String,
        /// The repository's name.
        repository: String,
        /// Which of the two is missing.
        reason: String,
    },
    /// The index has the chart, but does not say where it is.
    #[error("chart {0:?} has no downloadable URLs")]
    NoDownload(String),
    /// The server answered, but not with the file.
    #[error("failed to fetch {url} : {status}")]
    Status {
        /// What was asked for.
        url: String,
        /// The status line, such as `404 Not Found`.
        status: String,
    },
    /// No answer, or one that broke off.
    #[error("Get {url:?}: {message}")]
    Transport {
        /// What was asked for.
        url: String,
        /// What the connection ran into.
        message: String,
    },
    /// The answer is larger than the limit for its kind.
    #[error("{url} is larger than {limit} bytes")]
    TooLarge {
        /// What was asked for.
        url: String,
        /// The limit in [`Limits`](crate::Limits).
        limit: u64,
    },
    /// The bytes are not the ones that were promised.
    #[error("digest mismatch for {url}: expected sha256:{expected}, got sha256:{actual}")]
    Digest {
        /// Where the bytes came from.
        url: String,
        /// The digest in the index, manifest or reference.
        expected: String,
        /// The digest of what came.
        actual: String,
    },
    /// An image cannot be made, or is none.
    #[error("{0}")]
    Image(String),
    /// A certificate or key file that cannot be used.
    #[error("can't create TLS config for client: {0}")]
    Tls(String),
    /// A reference to an OCI registry that does not parse.
    #[error("invalid reference: {0}")]
    InvalidReference(String),
    /// The tag in the reference and the version asked for are different ones.
    #[error("chart reference and version mismatch: {version} is not {tag}")]
    TagMismatch {
        /// The version that was asked for.
        version: String,
        /// The tag in the reference.
        tag: String,
    },
    /// The tag that goes with a pinned digest names other content.
    #[error("chart reference digest mismatch: {actual} is not {expected}")]
    ReferenceDigest {
        /// The digest in the reference.
        expected: String,
        /// The digest that the tag names.
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
    /// The registry refuses these credentials, or none were found.
    #[error("{reference}: not authorized{}", reason_words(.reason))]
    Unauthorized {
        /// What was asked for.
        reference: String,
        /// The registry's host.
        registry: String,
        /// What the registry says; may be empty.
        reason: String,
    },
    /// The registry has no such repository, tag or digest.
    #[error("{reference}: not found")]
    NotFound {
        /// What was asked for.
        reference: String,
    },
    /// What the registry holds under that name is not a chart.
    #[error("{reference}: {message}")]
    NotAChart {
        /// What was asked for.
        reference: String,
        /// What is missing.
        message: String,
    },
    /// Anything else that a registry answers.
    #[error("{reference}: {message}")]
    Registry {
        /// What was asked for.
        reference: String,
        /// The registry's or the client's words.
        message: String,
    },
    /// A credentials file that cannot be read.
    #[error("failed to read credentials from {}: {message}", .path.display())]
    CredentialsFile {
        /// Helm's or Docker's file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// A credential helper that cannot be started, fails, or answers nonsense.
    #[error("credential helper docker-credential-{helper}: {message}")]
    CredentialHelper {
        /// The helper's name without its prefix.
        helper: String,
        /// What went wrong.
        message: String,
    },
    /// A file that cannot be read or written.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A dependency whose repository is not known by that name.
    #[error("{0}")]
    NoRepositoryDefinition(String),
    /// A dependency's constraint does not parse.
    #[error("dependency {name:?} has an invalid version/constraint format: {message}")]
    DependencyConstraint {
        /// The dependency's name.
        name: String,
        /// What is wrong with the constraint.
        message: String,
    },
    /// Dependencies of which no acceptable version exists.
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
    /// Anything else about dependencies, in Helm's words.
    #[error("{0}")]
    Dependency(String),
    /// A step for one dependency failed.
    #[error("{context}: {source}")]
    Context {
        /// The step.
        context: String,
        /// Why.
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

    /// What would mend this, where that is known: one line without a final stop.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::UnknownRepository(name) => {
                Some(format!("add it with `helm repo add {name} URL`, or name its URL with --repo"))
            }
            Self::NotAReference(chart) => Some(format!(
                "there is no file or directory {chart:?} here; a chart elsewhere is repo/{chart}, a URL, or {chart} with --repo URL"
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
                if url.starts_with("oci:") { "the registry does not speak TLS: --plain-http does without" }
                else { "the server does not speak TLS: is it http:// instead of https://?" }.into(),
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
