//! A client of the OCI distribution API. Every response is bounded, and credentials are sent to the registry
//! only.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use tokio::sync::OnceCell;
use url::{Host, Url, form_urlencoded};

use crate::cache::{is_sha256, sha256};
use crate::http::Redirects;
use crate::{Access, Credential, Error, Limits, http};

/// The maximum size of a manifest, as the specification recommends to registries.
const MAX_MANIFEST: u64 = 4 << 20;
/// The maximum size of a token response, and of an authentication challenge.
const MAX_ANSWER: u64 = 1 << 20;
/// The maximum size of an error body that is read.
const MAX_ERROR: u64 = 64 << 10;

/// The media types of manifests that may lead to a chart.
const MANIFEST_KINDS: &str = "application/vnd.oci.image.manifest.v1+json, \
    application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, \
    application/vnd.docker.distribution.manifest.list.v2+json";

/// A repository in a registry, and how to log in to it.
pub(crate) struct Distribution {
    client: reqwest::Client,
    access: Access,
    limits: Limits,
    credential: Option<Credential>,
    /// Scheme, host and port.
    origin: Url,
    host: String,
    repository: String,
    /// The actions of the token's scope.
    actions: &'static str,
    /// The `Authorization` header, obtained before the first request.
    authorization: OnceCell<Option<HeaderValue>>,
}

#[derive(Deserialize)]
struct Token {
    access_token: Option<String>,
    token: Option<String>,
}

#[derive(Deserialize)]
struct Tags {
    // Some registries return `null` for an empty list.
    tags: Option<Vec<String>>,
}

/// A registry's error response.
#[derive(Default, Deserialize)]
struct Errors {
    #[serde(default)]
    errors: Vec<RegistryError>,
}

#[derive(Deserialize)]
struct RegistryError {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

impl Distribution {
    /// Creates a client that pulls from `repository` at `host`.
    pub(crate) fn new(
        host: &str,
        repository: &str,
        credential: Option<Credential>,
        access: &Access,
        limits: Limits,
    ) -> Result<Self, Error> {
        let scheme = if access.plain_http { "http" } else { "https" };
        let invalid = |_| Error::InvalidReference(format!("{host}: invalid registry"));
        Ok(Self {
            client: http::client(access, &limits, Redirects::Follow)?,
            access: access.clone(),
            limits,
            credential,
            origin: Url::parse(&format!("{scheme}://{host}/")).map_err(invalid)?,
            host: host.to_owned(),
            repository: repository.to_owned(),
            actions: "pull",
            authorization: OnceCell::new(),
        })
    }

    /// Extends the client's scope to pushing.
    pub(crate) fn for_push(self) -> Self {
        Self { actions: "pull,push", ..self }
    }

    /// Pushes a blob, unless the registry already has it.
    pub(crate) async fn push_blob(&self, place: &str, digest: &str, data: &[u8]) -> Result<(), Error> {
        match self.send(place, Method::HEAD, &format!("blobs/{digest}"), &[]).await {
            Ok(_) => return Ok(()),
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let authorization = self.authorization.get_or_try_init(|| self.log_in(place)).await?.clone();
        let mut start = self.client.post(self.url(&format!("v2/{}/blobs/uploads/", self.repository)));
        if let Some(authorization) = &authorization {
            start = start.header(header::AUTHORIZATION, authorization);
        }
        let response = self.answer(place, start.header(header::CONTENT_LENGTH, 0)).await?;
        if response.status() != StatusCode::ACCEPTED {
            return Err(self.refusal(place, response).await);
        }
        let broken =
            |message: &str| Error::Registry { reference: place.to_owned(), message: message.to_owned() };
        let location = response.headers().get(header::LOCATION).and_then(|location| location.to_str().ok());
        let location = location.ok_or_else(|| broken("the registry returned no upload location"))?;
        let mut url = self
            .origin
            .join(location)
            .map_err(|_| broken("the registry returned an invalid upload location"))?;
        if url.scheme() != "https" && !self.access.plain_http {
            return Err(broken("the registry returned an upload location without https"));
        }
        url.query_pairs_mut().append_pair("digest", digest);
        let is_own = url.origin() == self.origin.origin();
        let mut upload = self.client.put(url).header(header::CONTENT_TYPE, "application/octet-stream");
        // The upload URL may be on another host, which must not receive the registry's credentials.
        if let Some(authorization) = authorization.filter(|_| is_own) {
            upload = upload.header(header::AUTHORIZATION, authorization);
        }
        self.expect_created(place, upload.body(data.to_vec())).await
    }

    /// Pushes a manifest under a tag or its digest.
    pub(crate) async fn push_manifest(
        &self,
        place: &str,
        name: &str,
        media_type: &str,
        data: Vec<u8>,
    ) -> Result<(), Error> {
        let authorization = self.authorization.get_or_try_init(|| self.log_in(place)).await?;
        let url = self.url(&format!("v2/{}/manifests/{name}", self.repository));
        let mut request = self.client.put(url).header(header::CONTENT_TYPE, media_type);
        if let Some(authorization) = authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        self.expect_created(place, request.body(data)).await
    }

    async fn expect_created(&self, place: &str, request: RequestBuilder) -> Result<(), Error> {
        let response = self.answer(place, request).await?;
        if response.status() == StatusCode::CREATED {
            return Ok(());
        }
        Err(self.refusal(place, response).await)
    }

    /// Fetches a manifest by tag or digest, and returns it with its digest. `place` names it in errors.
    pub(crate) async fn manifest(&self, place: &str, name: &str) -> Result<(Vec<u8>, String), Error> {
        let response = self.send(place, Method::GET, &format!("manifests/{name}"), &[]).await?;
        let announced = digest_header(response.headers());
        let data = http::read_body(response, place, MAX_MANIFEST).await?;
        let actual = sha256(&data);
        if let Some(expected) = announced.filter(|expected| *expected != actual) {
            return Err(Error::Digest { url: place.to_owned(), expected, actual });
        }
        Ok((data, format!("sha256:{actual}")))
    }

    /// Returns the digest of the manifest with a tag.
    pub(crate) async fn manifest_digest(&self, place: &str, tag: &str) -> Result<String, Error> {
        let response = self.send(place, Method::HEAD, &format!("manifests/{tag}"), &[]).await?;
        match digest_header(response.headers()) {
            Some(digest) => Ok(format!("sha256:{digest}")),
            None => Ok(self.manifest(place, tag).await?.1),
        }
    }

    /// Fetches the page of tags after `last`, of at most `max_bytes`; returns it with its size.
    pub(crate) async fn tags(
        &self,
        place: &str,
        count: usize,
        last: Option<&str>,
        max_bytes: u64,
    ) -> Result<(Vec<String>, u64), Error> {
        let count = count.to_string();
        let mut query = vec![("n", count.as_str())];
        query.extend(last.map(|last| ("last", last)));
        let response = self.send(place, Method::GET, "tags/list", &query).await?;
        let data = http::read_body(response, place, max_bytes).await?;
        let page: Tags = serde_json::from_slice(&data).map_err(|error| Error::Registry {
            reference: place.to_owned(),
            message: format!("the list of tags cannot be read: {error}"),
        })?;
        Ok((page.tags.unwrap_or_default(), data.len() as u64))
    }

    /// Fetches a blob of at most `size` bytes. The caller verifies its digest.
    pub(crate) async fn blob(&self, place: &str, digest: &str, size: u64) -> Result<Vec<u8>, Error> {
        let response = self.send(place, Method::GET, &format!("blobs/{digest}"), &[]).await?;
        http::read_body(response, place, size).await
    }

    async fn send(
        &self,
        place: &str,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<Response, Error> {
        let authorization = self.authorization.get_or_try_init(|| self.log_in(place)).await?;
        let mut url = self.url(&format!("v2/{}/{path}", self.repository));
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let mut request = self.client.request(method, url).header(header::ACCEPT, MANIFEST_KINDS);
        if let Some(authorization) = authorization {
            // The client removes the header when it is redirected to another host.
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let response = self.answer(place, request).await?;
        if response.status() == StatusCode::OK {
            return Ok(response);
        }
        Err(self.refusal(place, response).await)
    }

    fn url(&self, path: &str) -> Url {
        let mut url = self.origin.clone();
        url.set_path(path);
        url
    }

    async fn answer(&self, place: &str, request: RequestBuilder) -> Result<Response, Error> {
        request.send().await.map_err(|error| http::transport(place, &error))
    }

    // Logging in.

    /// Authenticates and returns the `Authorization` header that the registry requires.
    async fn log_in(&self, place: &str) -> Result<Option<HeaderValue>, Error> {
        if let Some(Credential::Access(token)) = &self.credential {
            return self.secret(place, format!("Bearer {token}")).map(Some);
        }
        let response = self.answer(place, self.client.get(self.url("v2/"))).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(None);
        }
        let challenges = response.headers().get_all(header::WWW_AUTHENTICATE).iter();
        let challenges: Vec<_> = challenges
            .filter_map(|header| http_auth::parse_challenges(header.to_str().ok()?).ok())
            .flatten()
            .map(|challenge| Challenge {
                scheme: challenge.scheme.to_ascii_lowercase(),
                parameters: challenge
                    .params
                    .iter()
                    .map(|(key, value)| (key.to_ascii_lowercase(), value.to_unescaped()))
                    .collect(),
            })
            .collect();
        if let Some(bearer) = challenges.iter().find(|challenge| challenge.scheme == "bearer") {
            let token = self.buy_token(place, bearer).await?;
            return self.secret(place, format!("Bearer {token}")).map(Some);
        }
        match &self.credential {
            Some(Credential::Basic(name, password)) => {
                let pair = STANDARD.encode(format!("{name}:{password}"));
                self.secret(place, format!("Basic {pair}")).map(Some)
            }
            Some(Credential::Identity(_)) => {
                Err(self.unauthorized(place, "the registry does not accept identity tokens".into()))
            }
            _ => Ok(None),
        }
    }

    /// Requests an access token from the registry's token service, which may be on another host.
    async fn buy_token(&self, place: &str, challenge: &Challenge) -> Result<String, Error> {
        let realm = challenge
            .parameter("realm")
            .ok_or_else(|| self.unauthorized(place, "the registry names no token service".into()))?;
        let mut url = self.token_service(realm).map_err(|reason| self.unauthorized(place, reason))?;
        let service = challenge.parameter("service").unwrap_or_default();
        let scope = format!("repository:{}:{}", self.repository, self.actions);
        // A redirect would forward the form, and the token in it, to another host.
        let client = http::client(&self.access, &self.limits, Redirects::Refuse)?;
        let request = match &self.credential {
            Some(Credential::Identity(identity)) => {
                let form = form_urlencoded::Serializer::new(String::new())
                    .append_pair("grant_type", "refresh_token")
                    .append_pair("client_id", "steersman")
                    .append_pair("service", service)
                    .append_pair("scope", &scope)
                    .append_pair("refresh_token", identity)
                    .finish();
                client.post(url).header(header::CONTENT_TYPE, "application/x-www-form-urlencoded").body(form)
            }
            credential => {
                if !service.is_empty() {
                    url.query_pairs_mut().append_pair("service", service);
                }
                url.query_pairs_mut().append_pair("scope", &scope);
                let request = client.get(url);
                match credential {
                    Some(Credential::Basic(name, password)) => request.basic_auth(name, Some(password)),
                    _ => request,
                }
            }
        };
        let response = self.answer(realm, request).await?;
        let status = response.status();
        if !status.is_success() {
            let said = http::read_body(response, realm, MAX_ERROR).await.unwrap_or_default();
            let reason = match first_line(&String::from_utf8_lossy(&said)) {
                line if line.is_empty() => format!("{realm} answered {status}"),
                line => line,
            };
            return Err(self.unauthorized(place, reason));
        }
        let body = http::read_body(response, realm, MAX_ANSWER).await?;
        let token: Token = serde_json::from_slice(&body)
            .map_err(|error| self.unauthorized(place, format!("{realm} returned no token: {error}")))?;
        token
            .token
            .or(token.access_token)
            .filter(|token| !token.is_empty())
            .ok_or_else(|| self.unauthorized(place, format!("{realm} returned no token")))
    }

    /// Validates the token service's URL. Credentials may be sent over TLS, to this machine, or with `plain_http`
    /// to the registry itself.
    fn token_service(&self, realm: &str) -> Result<Url, String> {
        let url = Url::parse(realm).map_err(|_| format!("the token service {realm:?} is not a URL"))?;
        let is_registry = self.access.plain_http && url.origin() == self.origin.origin();
        match url.scheme() {
            "https" => Ok(url),
            "http" if is_registry || url.host().is_some_and(is_loopback_host) => Ok(url),
            _ => Err(format!("the token service {realm:?} does not use https: refusing to send credentials")),
        }
    }

    fn secret(&self, place: &str, text: String) -> Result<HeaderValue, Error> {
        let mut value = HeaderValue::try_from(text)
            .map_err(|_| self.unauthorized(place, "the credentials are not a valid header value".into()))?;
        value.set_sensitive(true);
        Ok(value)
    }

    // Errors.

    fn unauthorized(&self, place: &str, reason: String) -> Error {
        Error::Unauthorized { reference: place.to_owned(), registry: self.host.clone(), reason }
    }

    /// Converts the registry's error response.
    async fn refusal(&self, place: &str, response: Response) -> Error {
        let status = response.status();
        let said = http::read_body(response, place, MAX_ERROR).await.unwrap_or_default();
        let Errors { errors } = serde_json::from_slice(&said).unwrap_or_default();
        let messages: Vec<_> = errors.iter().map(|error| error.message.as_str()).collect();
        let message = first_line(&messages.join("; "));
        let says = |codes: &[&str]| errors.iter().any(|error| codes.contains(&error.code.as_str()));
        let is_refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if is_refused || says(&["UNAUTHORIZED", "DENIED"]) {
            return self.unauthorized(place, message);
        }
        let missing = ["MANIFEST_UNKNOWN", "NAME_UNKNOWN", "BLOB_UNKNOWN", "NOT_FOUND"];
        if status == StatusCode::NOT_FOUND || says(&missing) {
            return Error::NotFound { reference: place.to_owned() };
        }
        let message = if message.is_empty() { format!("the registry answered {status}") } else { message };
        Error::Registry { reference: place.to_owned(), message }
    }
}

/// A `WWW-Authenticate` challenge.
struct Challenge {
    scheme: String,
    parameters: Vec<(String, String)>,
}

impl Challenge {
    fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Returns the SHA-256 digest of the `Docker-Content-Digest` header.
fn digest_header(headers: &HeaderMap) -> Option<String> {
    let digest = headers.get("docker-content-digest")?.to_str().ok()?;
    digest.strip_prefix("sha256:").filter(|digest| is_sha256(digest)).map(str::to_owned)
}

/// Whether a registry is on this machine, where no attacker in between can make it appear to lack TLS.
pub(crate) fn is_loopback(registry: &str) -> bool {
    Url::parse(&format!("https://{registry}/")).is_ok_and(|url| url.host().is_some_and(is_loopback_host))
}

/// Judged by the address: `127.example.com` is a name that may resolve to anything.
fn is_loopback_host(host: Host<&str>) -> bool {
    match host {
        Host::Domain(name) => name.eq_ignore_ascii_case("localhost"),
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

/// Whether the server at `host` answers, but not with TLS: local registries usually do not have it.
pub(crate) async fn lacks_tls(host: &str, access: &Access, limits: &Limits) -> bool {
    let url = format!("https://{host}/v2/");
    let anonymous = Access { username: None, password: None, ..access.clone() };
    let answer = http::get(&url, &url, &anonymous, limits, MAX_ANSWER).await;
    matches!(answer, Err(Error::Transport { message, .. }) if message.contains(http::NOT_TLS))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_judged_by_the_address() {
        for host in ["localhost", "localhost:5000", "127.0.0.1", "127.8.9.1:5000", "[::1]:5000", "[::1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["127.evil.com", "127.0.0.1.evil.com", "localhost.evil.com", "10.0.0.1", "[::2]", "", "["]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn tokens_are_bought_over_tls_or_on_this_machine() {
        let place = |host: &str, plain_http: bool| {
            let access = Access { plain_http, ..Access::default() };
            Distribution::new(host, "shop", None, &access, Limits::default()).unwrap()
        };
        let registry = place("r.example.com", false);
        for realm in ["https://auth.example.com/token", "http://127.0.0.1:1/token", "http://localhost/token"]
        {
            assert!(registry.token_service(realm).is_ok(), "{realm}");
        }
        for realm in [
            "http://auth.example.com/token",
            "http://127.evil.com/token",
            "http://r.example.com/token",
            "ftp://localhost/token",
            "/token",
        ] {
            assert!(registry.token_service(realm).is_err(), "{realm}");
        }
        let plain = place("r.example.com:5000", true);
        assert!(plain.token_service("http://r.example.com:5000/token").is_ok());
        assert!(plain.token_service("http://r.example.com/token").is_err());
    }
}
