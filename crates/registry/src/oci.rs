//! Charts in OCI registries.

use std::fmt;
use std::time::Duration;

use futures_util::StreamExt;
use oci_client::client::{Certificate, CertificateEncoding, ClientConfig, ClientProtocol};
use oci_client::errors::{OciDistributionError, OciErrorCode};
use oci_client::manifest::{
    IMAGE_MANIFEST_LIST_MEDIA_TYPE, IMAGE_MANIFEST_MEDIA_TYPE, OCI_IMAGE_INDEX_MEDIA_TYPE,
    OCI_IMAGE_MEDIA_TYPE,
};
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference, RegistryOperation};
use serde::Deserialize;
use tokio::sync::OnceCell;

use crate::cache::{is_sha256, sha256};
use crate::{Access, Cache, Credential, Error, Limits, Paths, credentials, http, token, version};

/// The scheme of references to OCI registries, with its separator.
pub(crate) const SCHEME: &str = "oci://";

const CONFIG_MEDIA_TYPE: &str = "application/vnd.cncf.helm.config.v1+json";
const CHART_MEDIA_TYPE: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
const LEGACY_CHART_MEDIA_TYPE: &str = "application/tar+gzip";
const PROVENANCE_MEDIA_TYPE: &str = "application/vnd.cncf.helm.chart.provenance.v1.prov";

/// How many tags are asked for at once.
const TAGS_PER_PAGE: usize = 1000;
/// How many pages of tags are read before a registry is taken for endless.
const MAX_TAG_PAGES: usize = 100;
/// How many manifests of an index are tried for one that holds a chart.
const MAX_MANIFESTS: usize = 16;

/// A place in an OCI registry: `registry/repository`, with a tag, a digest, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OciReference {
    /// Host, and port if it has one.
    pub registry: String,
    /// The path within the registry.
    pub repository: String,
    /// The tag as the registry spells it, that is with `_` for `+`.
    pub tag: Option<String>,
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: Option<String>,
}

impl OciReference {
    /// Parses `registry/repository[:tag][@sha256:…]`, with or without `oci://` in front.
    pub fn parse(reference: &str) -> Result<Self, Error> {
        let invalid = |what: String| Error::InvalidReference(format!("{reference}: {what}"));
        let bare = reference.strip_prefix(SCHEME).unwrap_or(reference);
        let (registry, path) =
            bare.split_once('/').ok_or_else(|| invalid("missing registry or repository".into()))?;
        let (path, digest) = match path.rsplit_once('@') {
            Some((path, digest)) => (path, Some(digest)),
            None => (path, None),
        };
        let (repository, tag) = match path.rsplit_once(':') {
            // Registries know no `+` in tags: Helm writes `_` instead.
            Some((repository, tag)) => (repository, Some(tag.replace('+', "_"))),
            None => (path, None),
        };
        if registry.is_empty()
            || !registry.bytes().all(|b| b.is_ascii_alphanumeric() || b".:-_[]".contains(&b))
        {
            return Err(invalid(format!("invalid registry {registry:?}")));
        }
        if !is_repository(repository) {
            return Err(invalid(format!("invalid repository {repository:?}")));
        }
        if let Some(tag) = tag.as_deref().filter(|tag| !is_tag(tag)) {
            return Err(invalid(format!("invalid tag {tag:?}")));
        }
        if let Some(digest) = digest.filter(|digest| !digest.strip_prefix("sha256:").is_some_and(is_sha256)) {
            return Err(invalid(format!("invalid digest {digest:?}, only sha256 is known")));
        }
        Ok(Self {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            tag,
            digest: digest.map(str::to_owned),
        })
    }

    /// The last part of the repository, which is the chart's name.
    pub fn name(&self) -> &str {
        self.repository.rsplit('/').next().unwrap_or(&self.repository)
    }

    /// The name that Helm gives to the fetched file.
    pub fn file_name(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => format!("{}@{}.tgz", self.name(), digest.replacen(':', "-", 1)),
            // The file is named by the version, the `_` is the registry's affair.
            (None, Some(tag)) => format!("{}-{}.tgz", self.name(), tag.replace('_', "+")),
            (None, None) => format!("{}.tgz", self.name()),
        }
    }

    fn client_reference(&self) -> Reference {
        let (registry, repository) = (self.registry.clone(), self.repository.clone());
        match (&self.digest, &self.tag) {
            (Some(digest), _) => Reference::with_digest(registry, repository, digest.clone()),
            (None, tag) => Reference::with_tag(registry, repository, tag.clone().unwrap_or_default()),
        }
    }
}

impl fmt::Display for OciReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

/// Parts of lower-case letters and digits, joined by single dots, one or two underscores or any dashes, between slashes.
fn is_repository(repository: &str) -> bool {
    repository.split('/').all(|part| {
        let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let edges = part.bytes().next().is_some_and(word) && part.bytes().last().is_some_and(word);
        edges
            && part
                .split(|character: char| character.is_ascii_lowercase() || character.is_ascii_digit())
                .all(|joint| matches!(joint, "" | "." | "_" | "__") || joint.bytes().all(|byte| byte == b'-'))
    })
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| word(byte) || byte == b'.' || byte == b'-')
}

/// What was found in a registry.
pub(crate) struct Pulled {
    pub(crate) reference: OciReference,
    pub(crate) manifest_digest: String,
    pub(crate) chart: Vec<u8>,
    pub(crate) digest: String,
    pub(crate) provenance: Option<Vec<u8>>,
    pub(crate) from_cache: bool,
}

/// A connection to one registry.
pub(crate) struct Registry {
    client: Client,
    auth: RegistryAuth,
    host: String,
    cache: Cache,
    limits: Limits,
    logged_in: OnceCell<()>,
}

impl Registry {
    /// Prepares to speak to `host` with the credentials in `access`, or else those in Helm's or Docker's files.
    pub(crate) async fn open(
        host: &str,
        repository: &str,
        access: &Access,
        paths: &Paths,
        cache: Cache,
        limits: Limits,
    ) -> Result<Self, Error> {
        http::use_ring();
        if access.client_certificate().is_some() {
            // oci-client has no way to take a client certificate.
            return Err(Error::Tls(
                "client certificates (--cert-file and --key-file) are not supported for OCI registries"
                    .into(),
            ));
        }
        let plain_http = access.plain_http || (is_loopback(host) && lacks_tls(host, access, &limits).await);
        let access = &Access { plain_http, ..access.clone() };
        let protocol = if plain_http { ClientProtocol::Http } else { ClientProtocol::Https };
        let authorities = access.authorities()?.map(split_pem).unwrap_or_default();
        let config = ClientConfig {
            protocol,
            accept_invalid_certificates: access.insecure_skip_tls_verify,
            tls_certs_only: authorities,
            connect_timeout: Some(limits.connect),
            read_timeout: Some(limits.request),
            user_agent: concat!("steersman/", env!("CARGO_PKG_VERSION")),
            ..ClientConfig::default()
        };
        let client = Client::try_from(config).map_err(|error| Error::Tls(error.to_string()))?;
        let credential = match access.basic() {
            Some((name, password)) => Some(Credential::Basic(name.to_owned(), password.to_owned())),
            None => credentials::find(paths, host).await?,
        };
        let auth = match credential {
            None => RegistryAuth::Anonymous,
            Some(Credential::Basic(name, password)) => RegistryAuth::Basic(name, password),
            Some(Credential::Access(token)) => RegistryAuth::Bearer(token),
            Some(Credential::Identity(token)) => {
                RegistryAuth::Bearer(token::exchange(host, repository, &token, access, &limits).await?)
            }
        };
        Ok(Self { client, auth, host: host.to_owned(), cache, limits, logged_in: OnceCell::new() })
    }

    /// Logs in before the first request that needs it: oci-client would go on without a name if that failed on the way.
    async fn log_in(&self, reference: &OciReference) -> Result<(), Error> {
        let place = reference.client_reference();
        let log_in = self.client.auth(&place, &self.auth, RegistryOperation::Pull);
        self.logged_in.get_or_try_init(|| async { self.bounded(reference, log_in).await.map(drop) }).await?;
        Ok(())
    }

    /// The tag for `version`: an exact version as it is, anything else as a constraint on the registry's tags.
    pub(crate) async fn resolve(
        &self,
        reference: &OciReference,
        version: &str,
    ) -> Result<OciReference, Error> {
        let tag = reference.tag.as_deref().unwrap_or_default();
        let wanted = version.replace('+', "_");
        if !tag.is_empty() && !wanted.is_empty() && tag != wanted {
            return Err(Error::TagMismatch { version: version.to_owned(), tag: tag.to_owned() });
        }
        if let Some(expected) = &reference.digest {
            let tag = if wanted.is_empty() { tag } else { &wanted };
            return self.check_pinned(reference, tag, expected).await;
        }
        if !tag.is_empty() {
            return Ok(reference.clone());
        }
        let tag = if version::is_version(version) {
            version.to_owned()
        } else {
            let tags = self.versions(reference).await?;
            if tags.is_empty() {
                return Err(Error::NoTags(format!("{SCHEME}{reference}")));
            }
            if tags.iter().any(|tag| tag == version) {
                version.to_owned()
            } else {
                version::first_match(tags.iter().map(String::as_str), version)
                    .map_err(Error::Constraint)?
                    .ok_or_else(|| Error::NoMatchingTag(version.to_owned()))?
                    .to_owned()
            }
        };
        Ok(OciReference { tag: Some(tag.replace('+', "_")), ..reference.clone() })
    }

    /// A tag beside a digest must name the same content; one that does not exist says nothing against it.
    async fn check_pinned(
        &self,
        reference: &OciReference,
        tag: &str,
        expected: &str,
    ) -> Result<OciReference, Error> {
        if !tag.is_empty() {
            let tagged = OciReference { tag: Some(tag.to_owned()), digest: None, ..reference.clone() };
            self.log_in(&tagged).await?;
            let found = self
                .bounded(&tagged, self.client.fetch_manifest_digest(&tagged.client_reference(), &self.auth))
                .await;
            if let Ok(actual) = found
                && actual != expected
            {
                return Err(Error::ReferenceDigest { expected: expected.to_owned(), actual });
            }
        }
        Ok(reference.clone())
    }

    /// All tags that are versions, the newest first.
    pub(crate) async fn versions(&self, reference: &OciReference) -> Result<Vec<String>, Error> {
        let target = OciReference { tag: None, digest: None, ..reference.clone() };
        let place = target.client_reference();
        self.log_in(&target).await?;
        let mut tags = Vec::new();
        let mut last: Option<String> = None;
        for _ in 0..MAX_TAG_PAGES {
            let page = self
                .bounded(
                    &target,
                    self.client.list_tags(&place, &self.auth, Some(TAGS_PER_PAGE), last.as_deref()),
                )
                .await?
                .tags;
            // Registries that know no paging give everything at once, and again and again.
            let more = page.len() >= TAGS_PER_PAGE && page.last() != last.as_ref();
            last = page.last().cloned();
            tags.extend(page);
            if !more {
                break;
            }
        }
        let versions = tags.into_iter().map(|tag| tag.replace('_', "+"));
        Ok(version::newest_first(versions.filter(|tag| version::is_strict_version(tag))))
    }

    /// Fetches a chart, and its provenance file if that is asked for and there.
    pub(crate) async fn pull(
        &self,
        reference: &OciReference,
        with_provenance: bool,
    ) -> Result<Pulled, Error> {
        let (manifest, manifest_digest) = self.manifest(reference).await?;
        let not_a_chart =
            |message: String| Error::NotAChart { reference: format!("{SCHEME}{reference}"), message };
        if manifest.config.media_type != CONFIG_MEDIA_TYPE {
            return Err(not_a_chart(format!("could not load config with mediatype {CONFIG_MEDIA_TYPE}")));
        }
        let layer = |kind: &str| manifest.layers.iter().find(|layer| layer.media_type == kind);
        let chart = layer(CHART_MEDIA_TYPE).or_else(|| layer(LEGACY_CHART_MEDIA_TYPE)).ok_or_else(|| {
            not_a_chart(format!("manifest does not contain a layer with mediatype {CHART_MEDIA_TYPE}"))
        })?;
        let (data, from_cache) = self.blob(reference, chart).await?;
        let provenance = match layer(PROVENANCE_MEDIA_TYPE).filter(|_| with_provenance) {
            Some(layer) => Some(self.blob(reference, layer).await?.0),
            None => None,
        };
        let digest = sha256(&data);
        Ok(Pulled {
            reference: reference.clone(),
            manifest_digest,
            chart: data,
            digest,
            provenance,
            from_cache,
        })
    }

    /// The manifest that a reference names; of an index, the first one that is about a chart.
    async fn manifest(&self, reference: &OciReference) -> Result<(Manifest, String), Error> {
        let (data, digest) = self.raw_manifest(reference).await?;
        let parsed: AnyManifest = self.parse(reference, &data)?;
        let entries = match parsed {
            AnyManifest { config: Some(config), layers, .. } => {
                return Ok((Manifest { config, layers }, digest));
            }
            AnyManifest { manifests, .. } => manifests,
        };
        for entry in entries.into_iter().take(MAX_MANIFESTS) {
            if !entry.digest.strip_prefix("sha256:").is_some_and(is_sha256) {
                continue;
            }
            let place = OciReference { digest: Some(entry.digest), ..reference.clone() };
            let (data, digest) = self.raw_manifest(&place).await?;
            let parsed: AnyManifest = self.parse(&place, &data)?;
            if let AnyManifest { config: Some(config), layers, .. } = parsed
                && config.media_type == CONFIG_MEDIA_TYPE
            {
                return Ok((Manifest { config, layers }, digest));
            }
        }
        Err(Error::NotAChart {
            reference: format!("{SCHEME}{reference}"),
            message: "no manifest in this index is about a chart".into(),
        })
    }

    async fn raw_manifest(&self, reference: &OciReference) -> Result<(Vec<u8>, String), Error> {
        // What a digest names never changes: no need to ask again.
        let pinned = reference.digest.as_deref().and_then(|digest| digest.strip_prefix("sha256:"));
        if let Some((digest, data)) = pinned.and_then(|digest| Some((digest, self.cache.get(digest)?))) {
            return Ok((data, format!("sha256:{digest}")));
        }
        let kinds = [
            OCI_IMAGE_MEDIA_TYPE,
            OCI_IMAGE_INDEX_MEDIA_TYPE,
            IMAGE_MANIFEST_MEDIA_TYPE,
            IMAGE_MANIFEST_LIST_MEDIA_TYPE,
        ];
        self.log_in(reference).await?;
        let place = reference.client_reference();
        let (data, digest) =
            self.bounded(reference, self.client.pull_manifest_raw(&place, &self.auth, &kinds)).await?;
        if let Some(expected) = pinned {
            verify(reference, expected, &data)?;
        }
        self.cache.put(&data);
        Ok((data.into(), digest))
    }

    fn parse<'a, T: Deserialize<'a>>(&self, reference: &OciReference, data: &'a [u8]) -> Result<T, Error> {
        serde_json::from_slice(data).map_err(|error| Error::NotAChart {
            reference: format!("{SCHEME}{reference}"),
            message: format!("the manifest cannot be read: {error}"),
        })
    }

    /// Fetches a blob, no more of it than its descriptor announces, and checks its digest.
    async fn blob(&self, reference: &OciReference, layer: &Descriptor) -> Result<(Vec<u8>, bool), Error> {
        let place = format!("{SCHEME}{reference}");
        let expected =
            layer.digest.strip_prefix("sha256:").filter(|digest| is_sha256(digest)).ok_or_else(|| {
                let message = format!("invalid digest {:?}, only sha256 is known", layer.digest);
                Error::NotAChart { reference: place.clone(), message }
            })?;
        if let Some(data) = self.cache.get(expected) {
            return Ok((data, true));
        }
        let too_large = |limit| Error::TooLarge { url: place.clone(), limit };
        if layer.size > self.limits.chart {
            return Err(too_large(self.limits.chart));
        }
        let wanted = oci_client::manifest::OciDescriptor {
            media_type: layer.media_type.clone(),
            digest: layer.digest.clone(),
            size: i64::try_from(layer.size).unwrap_or(i64::MAX),
            ..Default::default()
        };
        self.log_in(reference).await?;
        let fetch = async {
            let mut stream = self.client.pull_blob_stream(&reference.client_reference(), &wanted).await?;
            let mut data = Vec::new();
            while let Some(chunk) = stream.next().await {
                data.extend_from_slice(&chunk?);
                if data.len() as u64 > layer.size {
                    return Ok(None);
                }
            }
            Ok(Some(data))
        };
        let data = self.bounded(reference, fetch).await?.ok_or_else(|| too_large(layer.size))?;
        verify(reference, expected, &data)?;
        self.cache.put(&data);
        Ok((data, false))
    }

    /// Runs one exchange with the registry within the time for a request.
    async fn bounded<T>(
        &self,
        reference: &OciReference,
        exchange: impl Future<Output = Result<T, OciDistributionError>>,
    ) -> Result<T, Error> {
        let limit: Duration = self.limits.request;
        match tokio::time::timeout(limit, exchange).await {
            Ok(result) => result.map_err(|error| self.explain(reference, error)),
            Err(_) => {
                Err(Error::Transport { url: format!("{SCHEME}{reference}"), message: "timed out".into() })
            }
        }
    }

    fn explain(&self, reference: &OciReference, error: OciDistributionError) -> Error {
        let place = format!("{SCHEME}{reference}");
        let unauthorized = |reason: String| Error::Unauthorized {
            reference: place.clone(),
            registry: self.host.clone(),
            reason,
        };
        match error {
            OciDistributionError::UnauthorizedError { .. } => unauthorized(String::new()),
            OciDistributionError::AuthenticationFailure(reason) => unauthorized(first_line(&reason)),
            OciDistributionError::ServerError { code: 401 | 403, message, .. } => {
                unauthorized(first_line(&message))
            }
            OciDistributionError::ServerError { code: 404, .. }
            | OciDistributionError::ImageManifestNotFoundError(_) => Error::NotFound { reference: place },
            OciDistributionError::RegistryError { envelope, .. } => {
                let refused =
                    |code: &OciErrorCode| matches!(code, OciErrorCode::Unauthorized | OciErrorCode::Denied);
                let missing = |code: &OciErrorCode| {
                    matches!(
                        code,
                        OciErrorCode::ManifestUnknown
                            | OciErrorCode::NameUnknown
                            | OciErrorCode::BlobUnknown
                            | OciErrorCode::NotFound
                    )
                };
                let messages: Vec<_> = envelope.errors.iter().map(|error| error.message.clone()).collect();
                let message = messages.join("; ");
                if envelope.errors.iter().any(|error| refused(&error.code)) {
                    unauthorized(message)
                } else if envelope.errors.iter().any(|error| missing(&error.code)) {
                    Error::NotFound { reference: place }
                } else {
                    Error::Registry { reference: place, message }
                }
            }
            OciDistributionError::RequestError(error) => {
                Error::Transport { url: place, message: http::root_cause(&error) }
            }
            other => Error::Registry { reference: place, message: other.to_string() },
        }
    }
}

/// Whether a host is this machine, where nobody can come between and make a registry seem to lack TLS.
fn is_loopback(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name == "localhost" || name == "[::1]" || name.starts_with("127.")
}

/// Whether the server at `host` answers, but not with TLS: registries on one's own machine mostly do not have it.
async fn lacks_tls(host: &str, access: &Access, limits: &Limits) -> bool {
    let url = format!("https://{host}/v2/");
    let answer =
        http::get(&url, &url, &Access { username: None, ..access.clone() }, limits, limits.index).await;
    matches!(answer, Err(Error::Transport { message, .. }) if message.contains(http::NOT_TLS))
}

fn verify(reference: &OciReference, expected: &str, data: &[u8]) -> Result<(), Error> {
    let actual = sha256(data);
    if actual == expected {
        return Ok(());
    }
    Err(Error::Digest { url: format!("{SCHEME}{reference}"), expected: expected.to_owned(), actual })
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}

/// oci-client takes each certificate by itself.
fn split_pem(pem: Vec<u8>) -> Vec<Certificate> {
    const END: &str = "-----END CERTIFICATE-----";
    String::from_utf8_lossy(&pem)
        .split_inclusive(END)
        .filter(|part| part.contains(END))
        .map(|part| Certificate { encoding: CertificateEncoding::Pem, data: part.as_bytes().to_vec() })
        .collect()
}

struct Manifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

/// A manifest or an index of manifests: the fields tell which.
#[derive(Deserialize)]
struct AnyManifest {
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn references_come_apart() {
        let reference = OciReference::parse("oci://r.example.com:5000/charts/shop:1.2.3+meta").unwrap();
        assert_eq!(reference.registry, "r.example.com:5000");
        assert_eq!(reference.repository, "charts/shop");
        assert_eq!(reference.tag.as_deref(), Some("1.2.3_meta"));
        assert_eq!(reference.to_string(), "r.example.com:5000/charts/shop:1.2.3_meta");
        assert_eq!(reference.file_name(), "shop-1.2.3+meta.tgz");

        let pinned = OciReference::parse(&format!("r/shop@{DIGEST}")).unwrap();
        assert_eq!((pinned.tag.as_deref(), pinned.digest.as_deref()), (None, Some(DIGEST)));
        assert_eq!(pinned.file_name(), format!("shop@{}.tgz", DIGEST.replace(':', "-")));

        let both = OciReference::parse(&format!("r:1/a/shop:1.0@{DIGEST}")).unwrap();
        assert_eq!((both.tag.as_deref(), both.digest.as_deref()), (Some("1.0"), Some(DIGEST)));
    }

    #[test]
    fn what_is_no_reference_is_refused() {
        for bad in [
            "",
            "shop",
            "oci://r",
            "oci:///shop",
            "oci://r/",
            "oci://r/Shop",
            "oci://r/a//b",
            "oci://r/a..b",
            "oci://r/a___b",
            "oci://r/-a",
            "oci://r/../etc",
            "oci://r/shop:",
            "oci://r/shop:-1",
            "oci://r/shop@sha256:1234",
            "oci://r/shop@md5:1234",
            "oci://user@r/shop",
            "oci://r?q/shop",
        ] {
            assert!(OciReference::parse(bad).is_err(), "{bad}");
        }
        for good in ["oci://r/a--b", "oci://r/a__b.c/d", "oci://[::1]:5000/a"] {
            assert!(OciReference::parse(good).is_ok(), "{good}");
        }
    }
}
