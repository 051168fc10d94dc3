//! The portal's files, served from an archive embedded in the binary.

use std::{
    collections::HashMap,
    io::{Read as _, Write as _},
    sync::OnceLock,
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use crate::{
    answer::{self, Body},
    identity,
    problem::Result,
};

const ARCHIVE: &[u8] = include_bytes!("../portal.tar.gz");
/// Placeholder in `index.html` for the response's CSP nonce.
const NONCE: &str = "__CSP_NONCE__";

const FALLBACK: &str = "<!doctype html>
<html lang=\"en\"><meta charset=\"utf-8\"><title>Steersman</title>
<h1>Steersman</h1>
<p>This program was built without the portal. The REST API is here:</p>
<ul>
<li><a href=\"/v1/kinds\">/v1/kinds</a>: the kinds of the cluster</li>
<li><a href=\"/v1/overview\">/v1/overview</a>: the health of their instances</li>
<li><a href=\"/v1/me\">/v1/me</a>: who you are</li>
<li><a href=\"/v1/audit\">/v1/audit</a>: recent changes</li>
<li><a href=\"/openapi.json\">/openapi.json</a>: the OpenAPI description</li>
</ul></html>
";

/// A file of the portal.
struct File {
    content: Bytes,
    /// The gzipped content, compressed on first use. None if the format is already compressed.
    gzipped: OnceLock<Option<Bytes>>,
}

impl File {
    fn new(content: Vec<u8>) -> Self {
        Self { content: Bytes::from(content), gzipped: OnceLock::new() }
    }

    fn gzipped(&self, content_type: &str) -> Option<Bytes> {
        let compress = || {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(&self.content).and_then(|()| encoder.finish()).ok().map(Bytes::from)
        };
        self.gzipped.get_or_init(|| is_text(content_type).then(compress).flatten()).clone()
    }
}

fn files() -> &'static HashMap<String, File> {
    static FILES: OnceLock<HashMap<String, File>> = OnceLock::new();
    FILES.get_or_init(|| {
        let mut files = HashMap::new();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(ARCHIVE));
        for mut entry in archive.entries().into_iter().flatten().flatten() {
            let name = String::from_utf8_lossy(&entry.path_bytes()).trim_start_matches("./").to_owned();
            let mut content = Vec::new();
            if entry.header().entry_type().is_file() && entry.read_to_end(&mut content).is_ok() {
                files.insert(name, File::new(content));
            }
        }
        files
    })
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json; charset=utf-8",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "wasm" => "application/wasm",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// Whether a content type benefits from compression; images and fonts are already compressed.
fn is_text(content_type: &str) -> bool {
    content_type.contains("charset=utf-8") || matches!(content_type, "image/svg+xml" | "application/wasm")
}

/// Whether the client accepts gzip: `Accept-Encoding` lists it, or `*`, with a weight other than 0.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let weight = |wanted: &str| {
        let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).find_map(|coding| {
            let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
            let weight = parameters.trim().strip_prefix("q=").and_then(|weight| weight.trim().parse().ok());
            name.trim().eq_ignore_ascii_case(wanted).then_some(weight.unwrap_or(1.0_f32))
        })
    };
    weight("gzip").or_else(|| weight("*")).is_some_and(|weight| weight > 0.0)
}

/// Serves a file, or `index.html` for an address of the portal. None if the path is neither.
pub(crate) fn serve(path: &str, headers: &HeaderMap) -> Option<Result<Response<Body>>> {
    let name = path.trim_start_matches('/');
    if let Some(file) = files().get(name).filter(|_| name != "index.html") {
        let content_type = content_type(name);
        let gzipped = accepts_gzip(headers).then(|| file.gzipped(content_type)).flatten();
        let is_gzipped = gzipped.is_some();
        let content = gzipped.unwrap_or_else(|| file.content.clone());
        let mut response = answer::bytes(StatusCode::OK, content_type, content);
        // Asset names contain a hash of their content.
        let caching =
            if name.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        if is_gzipped {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        // Other origins load scripts from here, such as the button. The files are public, and never responses of the API.
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        headers.insert("cross-origin-resource-policy", HeaderValue::from_static("cross-origin"));
        return Some(Ok(response));
    }
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let is_page = name.is_empty() || name == "index.html" || accept.contains("text/html");
    (is_page && !name.starts_with("assets/")).then(page)
}

fn page() -> Result<Response<Body>> {
    let nonce = identity::random()?;
    let page = files()
        .get("index.html")
        .and_then(|page| std::str::from_utf8(&page.content).ok())
        .unwrap_or(FALLBACK);
    let mut response = answer::bytes(StatusCode::OK, content_type("index.html"), page.replace(NONCE, &nonce));
    let policy = format!(
        "default-src 'self'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; connect-src 'self'; \
         font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    );
    let headers = response.headers_mut();
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(path: &str, encodings: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(encodings));
        let answered = serve(path, &headers).and_then(std::result::Result::ok);
        answered.map(|answer| answer.headers().clone()).unwrap_or_default()
    }

    fn encoding(path: &str, encodings: &'static str) -> Option<String> {
        let headers = ask(path, encodings);
        headers.get(header::CONTENT_ENCODING).and_then(|name| name.to_str().ok()).map(str::to_owned)
    }

    #[test]
    fn files_are_gzipped_for_clients_that_take_it() {
        let script = "embed/steer-button.js";
        assert_eq!(encoding(script, "gzip, deflate, br").as_deref(), Some("gzip"));
        assert_eq!(encoding(script, "br;q=1.0, *;q=0.5").as_deref(), Some("gzip"));
        assert_eq!(encoding(script, "gzip;q=0, *"), None);
        assert_eq!(encoding(script, "br"), None);
        assert_eq!(
            ask(script, "br").get(header::VARY).and_then(|v| v.to_str().ok()),
            Some("Accept-Encoding")
        );
    }

    #[test]
    fn what_is_compressed_already_is_sent_as_it_is() {
        let font =
            files().keys().find(|name| name.ends_with(".woff2")).map(String::as_str).unwrap_or_default();
        assert!(!font.is_empty(), "the portal has a font");
        assert_eq!(encoding(font, "gzip"), None);
    }
}
