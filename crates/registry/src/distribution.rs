//! The pull half of the OCI distribution API: manifests, blobs, tags, and the tokens that registries ask for.
//!
//! Written by hand: the existing crate bounds neither manifests nor lists of tags, knows neither client certificates nor
//! identity tokens, and brings thirty crates for four GET requests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use tokio::sync::OnceCell;
use url::{Url, form_urlencoded};

use crate::cache::{is_sha256, sha256};
use crate::oci::{OciReference, SCHEME};
use crate::{Access, Credential, Error, Limits, http, urls};

/// Most bytes of a token service's or registry's answer that is not content.
const MAX_ANSWER: u64 = 1 << 20;
/// Most bytes of a manifest: what registries themselves must accept at least.
const MAX_MANIFEST: u64 = 4 << 20;
/// Most bytes of a list of tags. Registries that know no paging give all at once.
const MAX_TAGS: u64 = 16 << 20;

/// Media types of manifests and of indexes of manifests.
const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, \
                         application/vnd.docker.distribution.manifest.v2+json, \
                         application/vnd.docker.distribution.manifest.list.v2+json";

const CONTENT_DIGEST: &str = "docker-content-digest";

/// A connection to one repository of a registry.
pub(crate) struct Client {
    http: reqwest::Client,
    /// Scheme and host, without a slash at the end.
    base: String,
    /// Host as the user spells it.
    registry: String,
    credential: Option<Credential>,
    authorization: OnceCell<Option<HeaderValue>>,
}

#[derive(Deserialize)]
struct Tags {
    /// Null in some registries if there are none.
    #[serde(default)]
    tags: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Token {
    access_token: Option<String>,
    token: Option<String>,
}

/// The errors in a registry's answer.
#[derive(Deserialize)]
struct Envelope {
    errors: Vec<RegistryError>,
}

#[derive(Deserialize)]
struct RegistryError {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

impl Client {
    /// A client for the registry at `host`. Nothing is sent yet.
    pub(crate) fn new(
        host: &str,
        credential: Option<Credential>,
        access: &Access,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let scheme = if access.plain_http { "http" } else { "https" };
        // Docker Hub answers for its API under another name.
        let address = if host == "docker.io" { "registry-1.docker.io" } else { host };
        Ok(Self {
            http: http::client(access, limits)?,
            base: format!("{scheme}://{address}"),
            registry: host.to_owned(),
            credential,
            authorization: OnceCell::new(),
        })
    }

    /// A page of tags, those after `last`.
    pub(crate) async fn tags(
        &self,
        reference: &OciReference,
        count: usize,
        last: Option<&str>,
    ) -> Result<Vec<String>, Error> {
        let mut url = self.url(reference, "tags/list")?;
        url.query_pairs_mut().append_pair("n", &count.to_string());
        if let Some(last) = last {
            url.query_pairs_mut().append_pair("last", last);
        }
        let place = place(reference);
        let response = self.send(reference, Method::GET, url, "application/json").await?;
        let body = http::read_body(response, &place, MAX_TAGS).await?;
        let page: Tags = serde_json::from_slice(&body).map_err(|error| Error::Registry {
            reference: place,
            message: format!("the list of tags cannot be read: {error}"),
        })?;
        Ok(page.tags.unwrap_or_default())
    }

    /// The bytes of the manifest that the reference names, and their digest.
    pub(crate) async fn manifest(&self, reference: &OciReference) -> Result<(Vec<u8>, String), Error> {
        let response = self.send(reference, Method::GET, self.manifest_url(reference)?, MANIFESTS).await?;
        let promised = content_digest(response.headers());
        let data = http::read_body(response, &place(reference), MAX_MANIFEST).await?;
        let actual = sha256(&data);
        if let Some(expected) = promised.filter(|promised| *promised != actual) {
            return Err(Error::Digest { url: place(reference), expected, actual });
        }
        Ok((data, format!("sha256:{actual}")))
    }

    /// The digest of the manifest that the reference names.
    pub(crate) async fn manifest_digest(&self, reference: &OciReference) -> Result<String, Error> {
        let response = self.send(reference, Method::HEAD, self.manifest_url(reference)?, MANIFESTS).await?;
        match content_digest(response.headers()) {
            Some(digest) => Ok(format!("sha256:{digest}")),
            None => Ok(self.manifest(reference).await?.1),
        }
    }

    /// The bytes of a blob, which are refused beyond `size`.
    pub(crate) async fn blob(
        &self,
        reference: &OciReference,
        digest: &str,
        size: u64,
    ) -> Result<Vec<u8>, Error> {
        let url = self.url(reference, &format!("blobs/{digest}"))?;
        let response = self.send(reference, Method::GET, url, "*/*").await?;
        http::read_body(response, &place(reference), size).await
    }

    fn url(&self, reference: &OciReference, path: &str) -> Result<Url, Error> {
        urls::parse(&format!("{}/v2/{}/{path}", self.base, reference.repository))
    }

    fn manifest_url(&self, reference: &OciReference) -> Result<Url, Error> {
        let name = reference.digest.as_deref().or(reference.tag.as_deref()).unwrap_or_default();
        self.url(reference, &format!("manifests/{name}"))
    }

    /// Sends a request with the authorization that the registry asks for; an answer other than 200 is an error.
    async fn send(
        &self,
        reference: &OciReference,
        method: Method,
        url: Url,
        accept: &'static str,
    ) -> Result<Response, Error> {
        let authorization = self.authorization.get_or_try_init(|| self.authorize(reference)).await?;
        let mut request = self.http.request(method, url).header(header::ACCEPT, accept);
        if let Some(authorization) = authorization {
            // Not followed to another host by redirects.
            request = request.header(header::AUTHORIZATION, authorization.clone());
        }
        let response = transfer(request, reference).await?;
        if response.status() == StatusCode::OK {
            return Ok(response);
        }
        Err(self.refusal(reference, response).await)
    }

    /// The header to send with every request, if the registry asks for one.
    async fn authorize(&self, reference: &OciReference) -> Result<Option<HeaderValue>, Error> {
        if let Some(Credential::Access(token)) = &self.credential {
            return self.header(reference, &format!("Bearer {token}")).map(Some);
        }
        let front = self.http.get(format!("{}/v2/", self.base));
        let challenges = challenges(transfer(front, reference).await?.headers());
        if let Some(challenge) = challenges.iter().find(|challenge| challenge.scheme == "bearer") {
            let token = self.buy_token(reference, challenge).await?;
            return self.header(reference, &format!("Bearer {token}")).map(Some);
        }
        match &self.credential {
            Some(Credential::Identity(_)) => {
                Err(self.unauthorized(reference, "the registry does not take identity tokens"))
            }
            Some(Credential::Basic(name, password)) if !challenges.is_empty() => {
                let value = format!("Basic {}", STANDARD.encode(format!("{name}:{password}")));
                self.header(reference, &value).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// A token for pulling, from the service that the registry points to.
    async fn buy_token(&self, reference: &OciReference, challenge: &Challenge) -> Result<String, Error> {
        let refused = |reason: &str| self.unauthorized(reference, reason);
        let realm =
            challenge.parameter("realm").ok_or_else(|| refused("the registry names no token service"))?;
        let service = challenge.parameter("service").unwrap_or_default();
        let scope = format!("repository:{}:pull", reference.repository);
        let mut url = Url::parse(realm).map_err(|_| refused("the registry's token service is not a URL"))?;
        // A secret that was meant for a registry behind TLS is not sent in the clear.
        if self.credential.is_some() && self.base.starts_with("https:") && url.scheme() != "https" {
            return Err(refused("the registry's token service does not use TLS"));
        }
        let request = match &self.credential {
            Some(Credential::Identity(identity)) => {
                let form = form_urlencoded::Serializer::new(String::new())
                    .append_pair("grant_type", "refresh_token")
                    .append_pair("client_id", "steersman")
                    .append_pair("service", service)
                    .append_pair("scope", &scope)
                    .append_pair("refresh_token", identity)
                    .finish();
                let kind = "application/x-www-form-urlencoded";
                self.http.post(url).header(header::CONTENT_TYPE, kind).body(form)
            }
            credential => {
                url.query_pairs_mut().append_pair("scope", &scope);
                if !service.is_empty() {
                    url.query_pairs_mut().append_pair("service", service);
                }
                match credential {
                    Some(Credential::Basic(name, password)) => {
                        self.http.get(url).basic_auth(name, Some(password))
                    }
                    _ => self.http.get(url),
                }
            }
        };
        let response = transfer(request, reference).await?;
        let status = response.status();
        let body = http::read_body(response, realm, MAX_ANSWER).await?;
        if !status.is_success() {
            let said = first_line(&String::from_utf8_lossy(&body));
            let reason = if said.is_empty() { format!("{realm} answered {status}") } else { said };
            return Err(refused(&reason));
        }
        let answer: Option<Token> = serde_json::from_slice(&body).ok();
        answer
            .and_then(|answer| answer.token.or(answer.access_token))
            .ok_or_else(|| refused(&format!("{realm} gave no token")))
    }

    fn header(&self, reference: &OciReference, value: &str) -> Result<HeaderValue, Error> {
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| self.unauthorized(reference, "the credential cannot be sent in a header"))?;
        value.set_sensitive(true);
        Ok(value)
    }

    fn unauthorized(&self, reference: &OciReference, reason: &str) -> Error {
        Error::Unauthorized {
            reference: place(reference),
            registry: self.registry.clone(),
            reason: reason.to_owned(),
        }
    }

    /// What an answer other than 200 means.
    async fn refusal(&self, reference: &OciReference, response: Response) -> Error {
        let status = response.status();
        let body = match http::read_body(response, &place(reference), MAX_ANSWER).await {
            Ok(body) => body,
            Err(error) => return error,
        };
        let errors = serde_json::from_slice::<Envelope>(&body).map(|envelope| envelope.errors);
        let errors = errors.unwrap_or_default();
        let has = |codes: &[&str]| errors.iter().any(|error| codes.contains(&error.code.as_str()));
        let messages: Vec<_> = errors.iter().map(|error| error.message.as_str()).collect();
        let said =
            if errors.is_empty() { first_line(&String::from_utf8_lossy(&body)) } else { messages.join("; ") };
        match status {
            StatusCode::UNAUTHORIZED => self.unauthorized(reference, ""),
            StatusCode::FORBIDDEN => self.unauthorized(reference, &said),
            _ if has(&["UNAUTHORIZED", "DENIED"]) => self.unauthorized(reference, &said),
            StatusCode::NOT_FOUND => Error::NotFound { reference: place(reference) },
            _ if has(&["MANIFEST_UNKNOWN", "NAME_UNKNOWN", "BLOB_UNKNOWN", "NOT_FOUND"]) => {
                Error::NotFound { reference: place(reference) }
            }
            _ => {
                let said = if said.is_empty() { said } else { format!(": {said}") };
                Error::Registry {
                    reference: place(reference),
                    message: format!("the registry answered {status}{said}"),
                }
            }
        }
    }
}

/// One way of authorization that a registry offers.
struct Challenge {
    /// In lower case.
    scheme: String,
    parameters: Vec<(String, String)>,
}

impl Challenge {
    fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

fn challenges(headers: &HeaderMap) -> Vec<Challenge> {
    let values = headers.get_all(header::WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
    let parsed = values.filter_map(|value| http_auth::parse_challenges(value).ok());
    parsed
        .flatten()
        .map(|challenge| Challenge {
            scheme: challenge.scheme.to_ascii_lowercase(),
            parameters: challenge
                .params
                .iter()
                .map(|(key, value)| ((*key).to_owned(), value.to_unescaped()))
                .collect(),
        })
        .collect()
}

/// The SHA-256 digest that the registry promises, in hexadecimal digits.
fn content_digest(headers: &HeaderMap) -> Option<String> {
    let digest = headers.get(CONTENT_DIGEST)?.to_str().ok()?.strip_prefix("sha256:")?;
    is_sha256(digest).then(|| digest.to_owned())
}

async fn transfer(request: RequestBuilder, reference: &OciReference) -> Result<Response, Error> {
    request.send().await.map_err(|error| http::transport(&place(reference), &error))
}

fn place(reference: &OciReference) -> String {
    format!("{SCHEME}{reference}")
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}
