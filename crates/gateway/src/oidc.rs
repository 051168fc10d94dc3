//! OpenID Connect sign-in: discovery, the authorization code flow with PKCE, and token refresh.
//!
//! The provider's ID token is the user's credential: it is sent with every call to the cluster, which verifies it. The gateway
//! only checks that a token answers the request of this browser: by state, cookie, code verifier and nonce.

use std::{sync::Mutex, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use form_urlencoded::Serializer;
use http::{StatusCode, header};
use jiff::{SignedDuration, Timestamp};
use reqwest::{RequestBuilder, Url};
use serde::{Deserialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::{
    Error,
    identity::{Expiring, Hash, hash, lock, random},
    problem::{Problem, Result},
    url::parse_secure,
};

/// The path that the provider redirects browsers back to.
pub(crate) const CALLBACK: &str = "/v1/session/oidc/callback";

/// The time limit for a sign-in.
pub(crate) const SIGN_IN: Duration = Duration::from_secs(10 * 60);
/// How long the provider's discovery document is cached.
const DESCRIPTION: Duration = Duration::from_secs(60 * 60);
/// The timeout of a request to the provider.
const PATIENCE: Duration = Duration::from_secs(15);
/// The largest response of a provider that is read.
const LARGEST_ANSWER: usize = 1 << 20;
/// How long before its expiry a token is refreshed.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_secs(60);

/// An OpenID provider that signs users in. The cluster has to accept its ID tokens for this client, as kube-apiserver does with
/// `--oidc-issuer-url` and `--oidc-client-id`.
#[derive(Clone)]
pub struct OidcProvider {
    issuer: String,
    client_id: String,
    client_secret: Option<String>,
    scopes: Vec<String>,
    certificates: Vec<reqwest::Certificate>,
    external_url: Option<Url>,
}

impl std::fmt::Debug for OidcProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OidcProvider")
            .field("issuer", &self.issuer)
            .field("client_id", &self.client_id)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

impl OidcProvider {
    /// Creates a provider from its issuer URL, and the gateway's client ID.
    ///
    /// # Errors
    /// Fails if the URL is invalid, or is neither HTTPS nor on this machine.
    pub fn new(issuer: impl Into<String>, client_id: impl Into<String>) -> Result<Self, Error> {
        let issuer = issuer.into();
        parse_secure(&issuer).map_err(|reason| Error::Oidc(format!("issuer {issuer}: {reason}")))?;
        Ok(Self {
            issuer,
            client_id: client_id.into(),
            client_secret: None,
            scopes: Vec::new(),
            certificates: Vec::new(),
            external_url: None,
        })
    }

    /// Sets the client secret. Default: none, for a public client.
    #[must_use]
    pub fn client_secret(mut self, secret: impl Into<String>) -> Self {
        self.client_secret = Some(secret.into());
        self
    }

    /// Requests an additional scope, such as `email` or `groups`. Default: only `openid`, and `offline_access` where it is
    /// offered.
    #[must_use]
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scopes.push(scope.into());
        self
    }

    /// Sets the provider's certificate authorities, in PEM. Default: those of the system.
    ///
    /// # Errors
    /// Fails if the PEM has no certificate.
    pub fn certificate_authority(mut self, pem: &[u8]) -> Result<Self, Error> {
        let certificates = reqwest::Certificate::from_pem_bundle(pem);
        self.certificates = certificates
            .ok()
            .filter(|all| !all.is_empty())
            .ok_or_else(|| Error::Oidc("the certificate authority is not a PEM certificate".into()))?;
        Ok(self)
    }

    /// Sets the gateway's URL as browsers know it, which the provider redirects to. Default: the origin that the browser used.
    ///
    /// # Errors
    /// Fails if the URL is invalid, or is neither HTTPS nor on this machine.
    pub fn external_url(mut self, url: &str) -> Result<Self, Error> {
        let parsed = parse_secure(url).map_err(|reason| Error::Oidc(format!("{url}: {reason}")))?;
        self.external_url = Some(parsed);
        Ok(self)
    }
}

/// The provider's discovery document.
#[derive(Debug, Clone, Deserialize)]
struct Description {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    #[serde(default)]
    scopes_supported: Vec<String>,
    #[serde(default = "basic")]
    token_endpoint_auth_methods_supported: Vec<String>,
}

fn basic() -> Vec<String> {
    vec!["client_secret_basic".into()]
}

/// A sign-in in progress.
struct Pending {
    /// The hash of the secret in the browser's cookie.
    browser: Hash,
    nonce: String,
    verifier: String,
    redirect_uri: String,
    next: String,
}

/// Where to redirect a browser, and the secret that identifies it when it returns.
pub(crate) struct LoginRedirect {
    pub(crate) location: String,
    pub(crate) browser: String,
}

/// The tokens that a provider granted to a session.
pub(crate) struct Grant {
    pub(crate) id_token: String,
    pub(crate) expires_at: Timestamp,
    subject: String,
    nonce: String,
    refresh_token: Option<String>,
}

impl Grant {
    /// Whether the provider granted a refresh token.
    pub(crate) fn is_renewable(&self) -> bool {
        self.refresh_token.is_some()
    }
}

#[derive(Deserialize)]
struct TokenAnswer {
    id_token: Option<String>,
    refresh_token: Option<String>,
}

#[derive(Deserialize)]
struct RefusedAnswer {
    error: String,
    #[serde(default)]
    error_description: String,
}

/// The claims of an ID token.
#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: Audience,
    azp: Option<String>,
    exp: i64,
    nonce: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    fn all(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

fn unavailable(detail: impl std::fmt::Display) -> Problem {
    Problem::new(StatusCode::BAD_GATEWAY, "OpenIDProvider", format!("the OpenID provider: {detail}"))
}

/// An OpenID Connect client of a provider.
pub(crate) struct Oidc {
    provider: OidcProvider,
    http: reqwest::Client,
    description: tokio::sync::Mutex<Option<(Description, Instant)>>,
    pending: Mutex<Expiring<Pending>>,
}

impl Oidc {
    pub(crate) fn new(provider: OidcProvider) -> Result<Self, reqwest::Error> {
        let mut http = reqwest::Client::builder()
            .user_agent(concat!("steersman/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .timeout(PATIENCE);
        if !provider.certificates.is_empty() {
            http = http.tls_certs_only(provider.certificates.clone());
        }
        Ok(Self {
            http: http.build()?,
            provider,
            description: Default::default(),
            pending: Default::default(),
        })
    }

    pub(crate) fn issuer(&self) -> &str {
        &self.provider.issuer
    }

    async fn description(&self) -> Result<Description> {
        let mut known = self.description.lock().await;
        if let Some((description, read)) = &*known
            && read.elapsed() < DESCRIPTION
        {
            return Ok(description.clone());
        }
        let url = format!("{}/.well-known/openid-configuration", self.provider.issuer.trim_end_matches('/'));
        let description: Description = self.ask(self.http.get(url)).await?;
        // The document of another issuer would send users there.
        if description.issuer != self.provider.issuer {
            return Err(unavailable(format_args!(
                "its issuer is {:?}, not {:?}",
                description.issuer, self.provider.issuer
            )));
        }
        for url in [&description.authorization_endpoint, &description.token_endpoint] {
            parse_secure(url).map_err(|reason| unavailable(format_args!("{url}: {reason}")))?;
        }
        *known = Some((description.clone(), Instant::now()));
        Ok(description)
    }

    async fn ask<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T> {
        let request = request.header(header::ACCEPT, "application/json");
        let mut answer = request.send().await.map_err(|error| unavailable(error.without_url()))?;
        let status = answer.status();
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| unavailable(error.without_url()))? {
            body.extend_from_slice(&chunk);
            if body.len() > LARGEST_ANSWER {
                return Err(unavailable("its response is too large"));
            }
        }
        if status.is_success() {
            return serde_json::from_slice(&body)
                .map_err(|error| unavailable(format_args!("its response cannot be parsed: {error}")));
        }
        match serde_json::from_slice::<RefusedAnswer>(&body) {
            Ok(refused) if status.is_client_error() => {
                let RefusedAnswer { error, error_description } = refused;
                let detail = format!("the OpenID provider returned an error: {error} {error_description}");
                Err(Problem::unauthorized(detail.trim_end()))
            }
            _ => Err(unavailable(format_args!("it answered {status}"))),
        }
    }

    /// Begins the sign-in of a browser that reached the gateway at `origin`. It returns to `next` afterwards.
    pub(crate) async fn begin(&self, origin: &str, next: &str) -> Result<LoginRedirect> {
        let description = self.description().await?;
        let (state, nonce, verifier, browser) = (random()?, random()?, random()?, random()?);
        let base = self.provider.external_url.as_ref().map_or(origin, Url::as_str).trim_end_matches('/');
        let redirect_uri = format!("{base}{CALLBACK}");
        let mut scopes = vec!["openid"];
        scopes.extend(self.provider.scopes.iter().map(String::as_str).filter(|scope| *scope != "openid"));
        let offline = "offline_access";
        if description.scopes_supported.iter().any(|scope| scope == offline) && !scopes.contains(&offline) {
            scopes.push(offline);
        }
        let mut location = parse_secure(&description.authorization_endpoint).map_err(unavailable)?;
        location
            .query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.provider.client_id)
            .append_pair("redirect_uri", &redirect_uri)
            .append_pair("scope", &scopes.join(" "))
            .append_pair("state", &state)
            .append_pair("nonce", &nonce)
            .append_pair("code_challenge", &URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes())))
            .append_pair("code_challenge_method", "S256");
        let pending =
            Pending { browser: hash(&browser), nonce, verifier, redirect_uri, next: next.to_owned() };
        lock(&self.pending).put(hash(&state), pending, Instant::now() + SIGN_IN);
        Ok(LoginRedirect { location: location.into(), browser })
    }

    /// Completes the sign-in of a returning browser. Returns the grant, and the path to redirect the browser to.
    pub(crate) async fn finish(&self, state: &str, code: &str, browser: &str) -> Result<(Grant, String)> {
        let pending =
            lock(&self.pending).take(&hash(state)).filter(|pending| pending.browser == hash(browser));
        // A state that was issued to another browser would sign this one in as another user.
        let pending = pending
            .ok_or_else(|| Problem::unauthorized("unknown or expired sign-in request: sign in again"))?;
        let answer = self
            .tokens(&[
                ("grant_type", "authorization_code"),
                ("code", code),
                ("redirect_uri", &pending.redirect_uri),
                ("code_verifier", &pending.verifier),
            ])
            .await?;
        let id_token = answer.id_token.ok_or_else(|| unavailable("it returned no ID token"))?;
        let claims = self.claims(&id_token)?;
        if claims.nonce.as_deref() != Some(&pending.nonce) {
            return Err(unavailable("the nonce of its ID token does not match"));
        }
        let grant = Grant {
            expires_at: expiry(&claims)?,
            subject: claims.sub,
            nonce: pending.nonce,
            refresh_token: answer.refresh_token,
            id_token,
        };
        Ok((grant, pending.next))
    }

    /// Refreshes a token that is about to expire. A provider that does not answer is tolerated while the token is valid.
    pub(crate) async fn renew(&self, grant: &mut Grant) -> Result<()> {
        let now = Timestamp::now();
        if now < grant.expires_at - RENEW_BEFORE {
            return Ok(());
        }
        let renewed = self.try_renew(grant).await;
        match renewed {
            Err(problem) if problem.status != StatusCode::UNAUTHORIZED && now < grant.expires_at => {
                tracing::warn!(problem = problem.detail, "cannot renew a token yet");
                Ok(())
            }
            renewed => renewed,
        }
    }

    async fn try_renew(&self, grant: &mut Grant) -> Result<()> {
        let ended = || Problem::unauthorized("the session has ended: sign in again");
        let refresh_token = grant.refresh_token.as_deref().ok_or_else(ended)?;
        let answer =
            self.tokens(&[("grant_type", "refresh_token"), ("refresh_token", refresh_token)]).await?;
        let id_token = answer.id_token.ok_or_else(ended)?;
        let claims = self.claims(&id_token)?;
        // The subject must not change; a refreshed token need not repeat the nonce.
        if claims.sub != grant.subject || claims.nonce.as_ref().is_some_and(|nonce| *nonce != grant.nonce) {
            return Err(ended());
        }
        grant.expires_at = expiry(&claims)?;
        grant.id_token = id_token;
        if answer.refresh_token.is_some() {
            grant.refresh_token = answer.refresh_token;
        }
        Ok(())
    }

    async fn tokens(&self, parameters: &[(&str, &str)]) -> Result<TokenAnswer> {
        let request = self.token_request(&self.description().await?, parameters);
        self.ask(request).await
    }

    fn token_request(&self, description: &Description, parameters: &[(&str, &str)]) -> RequestBuilder {
        let provider = &self.provider;
        let mut form = Serializer::new(String::new());
        form.extend_pairs(parameters);
        let mut request = self.http.post(&description.token_endpoint);
        let methods = &description.token_endpoint_auth_methods_supported;
        match &provider.client_secret {
            // Both are form-encoded first (RFC 6749, section 2.3.1).
            Some(secret) if methods.contains(&basic()[0]) => {
                let encoded =
                    |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
                request = request.basic_auth(encoded(&provider.client_id), Some(encoded(secret)));
            }
            Some(secret) => {
                form.append_pair("client_id", &provider.client_id).append_pair("client_secret", secret);
            }
            None => {
                form.append_pair("client_id", &provider.client_id);
            }
        }
        request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded").body(form.finish())
    }

    /// Returns the claims of a token that was received from the provider over TLS. The cluster verifies its signature.
    fn claims(&self, id_token: &str) -> Result<Claims> {
        let payload = id_token.split('.').nth(1).and_then(|payload| URL_SAFE_NO_PAD.decode(payload).ok());
        let claims: Option<Claims> = payload.and_then(|payload| serde_json::from_slice(&payload).ok());
        let claims = claims.ok_or_else(|| unavailable("its ID token cannot be parsed"))?;
        let client = &self.provider.client_id;
        let is_for_us =
            claims.aud.all().contains(client) && claims.azp.as_ref().is_none_or(|azp| azp == client);
        if claims.iss != self.provider.issuer || !is_for_us {
            return Err(unavailable("its ID token is for another client"));
        }
        Ok(claims)
    }
}

fn expiry(claims: &Claims) -> Result<Timestamp> {
    let expires_at = Timestamp::from_second(claims.exp).ok().filter(|at| *at > Timestamp::now());
    expires_at.ok_or_else(|| unavailable("its ID token has expired"))
}
