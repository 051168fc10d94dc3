//! The portal's files, out of one archive in the program.

use std::{collections::HashMap, io::Read as _, sync::OnceLock};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use crate::{
    answer::{self, Body},
    identity,
    problem::Result,
};

const ARCHIVE: &[u8] = include_bytes!("../portal.tar.gz");
/// Replaced in `index.html` by the nonce of the answer.
const NONCE: &str = "__CSP_NONCE__";

const FALLBACK: &str = "<!doctype html>
<html lang=\"en\"><meta charset=\"utf-8\"><title>Steersman</title>
<h1>Steersman</h1>
<p>This program was built without the portal. The REST API is here:</p>
<ul>
<li><a href=\"/v1/kinds\">/v1/kinds</a>: the kinds of the cluster</li>
<li><a href=\"/v1/overview\">/v1/overview</a>: how their instances are</li>
<li><a href=\"/v1/me\">/v1/me</a>: who you are</li>
<li><a href=\"/v1/audit\">/v1/audit</a>: what was done</li>
<li><a href=\"/openapi.json\">/openapi.json</a>: the API's description</li>
</ul></html>
";

fn files() -> &'static HashMap<String, Bytes> {
    static FILES: OnceLock<HashMap<String, Bytes>> = OnceLock::new();
    FILES.get_or_init(|| {
        let mut files = HashMap::new();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(ARCHIVE));
        for mut entry in archive.entries().into_iter().flatten().flatten() {
            let name = String::from_utf8_lossy(&entry.path_bytes()).trim_start_matches("./").to_owned();
            let mut content = Vec::new();
            if entry.header().entry_type().is_file() && entry.read_to_end(&mut content).is_ok() {
                files.insert(name, Bytes::from(content));
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

/// Answers with a file, or with the page that shows every address of the portal. None if it is neither.
pub(crate) fn serve(path: &str, headers: &HeaderMap) -> Option<Result<Response<Body>>> {
    let name = path.trim_start_matches('/');
    if let Some(content) = files().get(name).filter(|_| name != "index.html") {
        let mut response = answer::bytes(StatusCode::OK, content_type(name), content.clone());
        // Names of assets change with their content.
        let caching = if name.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
        return Some(Ok(response));
    }
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let is_page = name.is_empty() || name == "index.html" || accept.contains("text/html");
    (is_page && !name.starts_with("assets/")).then(page)
}

fn page() -> Result<Response<Body>> {
    let nonce = identity::random()?;
    let page = files().get("index.html").and_then(|page| std::str::from_utf8(page).ok()).unwrap_or(FALLBACK);
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
