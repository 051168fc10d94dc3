//! Charts in OCI registries.

use std::fmt;

use serde::Deserialize;

use crate::cache::{is_sha256, sha256};
use crate::distribution::{self, Distribution};
use crate::{Access, Cache, Credential, Error, Limits, Paths, credentials, version};

/// The scheme of OCI references, with its separator.
pub(crate) const SCHEME: &str = "oci://";

const CONFIG_MEDIA_TYPE: &str = "application/vnd.cncf.helm.config.v1+json";
const CHART_MEDIA_TYPE: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
const LEGACY_CHART_MEDIA_TYPE: &str = "application/tar+gzip";
const PROVENANCE_MEDIA_TYPE: &str = "application/vnd.cncf.helm.chart.provenance.v1.prov";

/// The page size of a tag list.
const TAGS_PER_PAGE: usize = 1000;
/// The maximum number of tag pages read, against registries that never end.
const MAX_TAG_PAGES: usize = 100;
/// The maximum total size of the tag pages read.
const MAX_TAG_BYTES: u64 = 32 << 20;
/// The maximum number of an index's manifests that are tried for a chart.
const MAX_MANIFESTS: usize = 16;

/// An OCI reference: `registry/repository`, with a tag, a digest, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OciReference {
    /// Host, and port if it has one.
    pub registry: String,
    /// The path within the registry.
    pub repository: String,
    /// The tag as the registry stores it, that is with `_` for `+`.
    pub tag: Option<String>,
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: Option<String>,
}

impl OciReference {
    /// Parses `registry/repository[:tag][@sha256:…]`, with or without the prefix `oci://`.
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
            // Registry tags cannot contain `+`: Helm writes `_` instead.
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

    /// Returns the last segment of the repository, which is the chart's name.
    pub fn name(&self) -> &str {
        self.repository.rsplit('/').next().unwrap_or(&self.repository)
    }

    /// Returns the file name that Helm uses for the fetched chart.
    pub fn file_name(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => format!("{}@{}.tgz", self.name(), digest.replacen(':', "-", 1)),
            // The file is named by the version; `_` is only used in the tag.
            (None, Some(tag)) => format!("{}-{}.tgz", self.name(), tag.replace('_', "+")),
            (None, None) => format!("{}.tgz", self.name()),
        }
    }

    /// Returns the manifest's reference within the repository: its digest or tag.
    fn manifest_name(&self) -> &str {
        self.digest.as_deref().or(self.tag.as_deref()).unwrap_or_default()
    }

    /// Returns the reference as errors show it.
    fn place(&self) -> String {
        format!("{SCHEME}{self}")
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

/// Whether a repository name is valid: parts separated by slashes. A part has lower-case letters and digits, joined by
/// single dots, one or two underscores or any number of dashes.
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

/// A chart pulled from a registry.
pub(crate) struct Pulled {
    pub(crate) reference: OciReference,
    pub(crate) manifest_digest: String,
    pub(crate) chart: Vec<u8>,
    pub(crate) digest: String,
    pub(crate) provenance: Option<Vec<u8>>,
    pub(crate) from_cache: bool,
}

/// A client of one repository in a registry.
pub(crate) struct Registry {
    distribution: Distribution,
    cache: Cache,
    limits: Limits,
}

impl Registry {
    /// Creates a client of `host`. Credentials are those in `access`, or else in Helm's or Docker's files.
    pub(crate) async fn open(
        host: &str,
        repository: &str,
        access: &Access,
        paths: &Paths,
        cache: Cache,
        limits: Limits,
    ) -> Result<Self, Error> {
        let plain_http = access.plain_http
            || (distribution::is_loopback(host) && distribution::lacks_tls(host, access, &limits).await);
        let access = Access { plain_http, ..access.clone() };
        let credential = match access.basic() {
            Some((name, password)) => Some(Credential::Basic(name.to_owned(), password.to_owned())),
            None => credentials::find(paths, host).await?,
        };
        let distribution = Distribution::new(host, repository, credential, &access, limits)?;
        Ok(Self { distribution, cache, limits })
    }

    /// Resolves `version` to a tag. Anything but an exact version is a constraint on the registry's tags.
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

    /// Checks that the tag next to a digest identifies the same content; a missing tag is accepted.
    async fn check_pinned(
        &self,
        reference: &OciReference,
        tag: &str,
        expected: &str,
    ) -> Result<OciReference, Error> {
        if !tag.is_empty() {
            let tagged = OciReference { tag: Some(tag.to_owned()), digest: None, ..reference.clone() };
            let found = self.distribution.manifest_digest(&tagged.place(), tag).await;
            if let Ok(actual) = found
                && actual != expected
            {
                return Err(Error::ReferenceDigest { expected: expected.to_owned(), actual });
            }
        }
        Ok(reference.clone())
    }

    /// Lists all tags that are versions, newest first.
    pub(crate) async fn versions(&self, reference: &OciReference) -> Result<Vec<String>, Error> {
        let place = OciReference { tag: None, digest: None, ..reference.clone() }.place();
        let mut tags = Vec::new();
        let mut last: Option<String> = None;
        let mut left = MAX_TAG_BYTES;
        for _ in 0..MAX_TAG_PAGES {
            let (page, size) = self.distribution.tags(&place, TAGS_PER_PAGE, last.as_deref(), left).await?;
            left = left.saturating_sub(size);
            // Registries without pagination return the complete list for every page.
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

    /// Fetches a chart, and its provenance file if it is requested and exists.
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

    /// Fetches the manifest of a reference; of an index, the first manifest with a chart.
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
            message: "no manifest in this index is a chart".into(),
        })
    }

    async fn raw_manifest(&self, reference: &OciReference) -> Result<(Vec<u8>, String), Error> {
        // Content under a digest never changes, so the cached copy is current.
        let pinned = reference.digest.as_deref().and_then(|digest| digest.strip_prefix("sha256:"));
        if let Some((digest, data)) = pinned.and_then(|digest| Some((digest, self.cache.get(digest)?))) {
            return Ok((data, format!("sha256:{digest}")));
        }
        let (data, digest) =
            self.distribution.manifest(&reference.place(), reference.manifest_name()).await?;
        if let Some(expected) = pinned {
            verify(reference, expected, &data)?;
        }
        self.cache.put(&data);
        Ok((data, digest))
    }

    fn parse<'a, T: Deserialize<'a>>(&self, reference: &OciReference, data: &'a [u8]) -> Result<T, Error> {
        serde_json::from_slice(data).map_err(|error| Error::NotAChart {
            reference: format!("{SCHEME}{reference}"),
            message: format!("the manifest cannot be read: {error}"),
        })
    }

    /// Fetches a blob of at most the descriptor's size, and verifies its digest.
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
        if layer.size > self.limits.chart {
            return Err(Error::TooLarge { url: place, limit: self.limits.chart });
        }
        let data = self.distribution.blob(&place, &layer.digest, layer.size).await?;
        verify(reference, expected, &data)?;
        self.cache.put(&data);
        Ok((data, false))
    }
}

fn verify(reference: &OciReference, expected: &str, data: &[u8]) -> Result<(), Error> {
    let actual = sha256(data);
    if actual == expected {
        return Ok(());
    }
    Err(Error::Digest { url: format!("{SCHEME}{reference}"), expected: expected.to_owned(), actual })
}

struct Manifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

/// A manifest or an index of manifests, distinguished by their fields.
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
