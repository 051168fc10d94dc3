//! Pushing images to registries.

use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::distribution::{self, Distribution};
use crate::image::Image;
use crate::{Access, Credential, Error, Limits, OciReference, Paths, credentials};

/// The timeout of one upload.
const UPLOAD: Duration = Duration::from_secs(30 * 60);

/// Pushes an image to the registry of a reference, under its tag, by default `latest`. Blobs that the registry
/// already has are not uploaded. Credentials are those in `access`, or else those in Helm's or Docker's files.
///
/// # Errors
/// Fails if the registry cannot be reached, or rejects the image.
pub fn push<'a>(
    image: &'a Image,
    reference: &'a OciReference,
    access: &'a Access,
    paths: &'a Paths,
) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let limits = Limits { request: UPLOAD, ..Limits::default() };
        let host = &reference.registry;
        let plain_http = access.plain_http
            || (distribution::is_loopback(host) && distribution::lacks_tls(host, access, &limits).await);
        let access = Access { plain_http, ..access.clone() };
        let credential = match access.basic() {
            Some((name, password)) => Some(Credential::Basic(name.to_owned(), password.to_owned())),
            None => credentials::find(paths, host).await?,
        };
        let registry =
            Distribution::new(host, &reference.repository, credential, &access, limits)?.for_push();
        let place = reference.to_string();
        let is_manifest = |digest: &str| {
            digest == image.root.digest || image.manifests.iter().any(|manifest| manifest.digest == digest)
        };
        for (digest, data) in image.blobs.iter().filter(|(digest, _)| !is_manifest(digest)) {
            registry.push_blob(&place, digest, data).await?;
        }
        let blob = |digest: &str| image.blobs.get(digest).cloned().unwrap_or_default();
        for manifest in image.manifests.iter().filter(|manifest| manifest.digest != image.root.digest) {
            registry
                .push_manifest(&place, &manifest.digest, &manifest.media_type, blob(&manifest.digest))
                .await?;
        }
        let tag = reference.tag.as_deref().unwrap_or("latest");
        registry.push_manifest(&place, tag, &image.root.media_type, blob(&image.root.digest)).await
    })
}
