//! Sign-in by OpenID Connect: discovery, the authorization code flow with PKCE, and renewal.
//!
//! The provider's ID token is the user's credential: it goes along with every call to the cluster, which verifies it. Checked here is
//! that a token answers what this browser was sent to ask: by state, cookie, code verifier and nonce.

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

/// The path that the provider sends browsers back to.
pub(crate) const CALLBACK: &str = "/v1/session/oidc/callback";

/// How long signing in may take.
pub(crate) const SIGN_IN: Duration = Duration::from_secs(10 * 60);
/// How long the provider's description is used before it is read again.
const DESCRIPTION: Duration = Duration::from_secs(60 * 60);
/// How long the provider may take to answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// The largest answer of a provider that is read.
const LARGEST_ANSWER: usize = 1 << 20;
/// How long before its end a token is renewed.
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
    /// A provider by its issuer's address, and the id that it knows the gateway by.
    ///
    /// # Errors
    /// Fails if the address is none, or is not reached by TLS and not on this machine.
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

    /// The client's secret. Default: none, for a public client.
    #[must_use]
    pub fn client_secret(mut self, secret: impl Into<String>) -> Self {
        self.client_secret = Some(secret.into());
        self
    }

    /// A scope to ask for, such as `email` or `groups`. Default: none but `openid`, and `offline_access` where it is offered.
    #[must_use]
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scopes.push(scope.into());
        self
    }

    /// The certificate authorities of the provider, in PEM. Default: those of the system.
    ///
    /// # Errors
    /// Fails if there is no certificate.
    pub fn certificate_authority(mut self, pem: &[u8]) -> Result<Self, Error> {
        let certificates = reqwest::Certificate::from_pem_bundle(pem);
        self.certificates = certificates
            .ok()
            .filter(|all| !all.is_empty())
            .ok_or_else(|| Error::Oidc("the certificate authority is no certificate in PEM".into()))?;
        Ok(self)
    }

    /// The gateway's address as browsers know it, to which the provider sends them back. Default: what the browser asked for.
    ///
    /// # Errors
    /// Fails if the address is none, or is not reached by TLS and not on this machine.
    pub fn external_url(mut self, url: &str) -> Result<Self, Error> {
        let parsed = parse_secure(url).map_err(|reason| Error::Oidc(format!("{url}: {reason}")))?;
        self.external_url = Some(parsed);
        Ok(self)
    }
}

/// What a provider says of itself.
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

/// A sign-in under way.
struct Pending {
    /// Of the secret in the browser's cookie.
    browser: Hash,
    nonce: String,
    verifier: String,
    redirect_uri: String,
    next: String,
}

/// Where to send a browser, and the secret by which it is known when it comes back.
pub(crate) struct Departure {
    pub(crate) location: String,
    pub(crate) browser: String,
}

/// What a provider has granted a session.
pub(crate) struct Grant {
    pub(crate) id_token: String,
    pub(crate) expires_at: Timestamp,
    subject: String,
    nonce: String,
    refresh_token: Option<String>,
}

impl Grant {
    /// Whether a new token can be had after this one.
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

/// What an ID token says.
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

/// A client of a provider.
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
        // Another issuer's description would send users there.
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
                return Err(unavailable("its answer is too large"));
            }
        }
        if status.is_success() {
            return serde_json::from_slice(&body)
                .map_err(|error| unavailable(format_args!("its answer cannot be read: {error}")));
        }
        match serde_json::from_slice::<RefusedAnswer>(&body) {
            Ok(refused) if status.is_client_error() => {
                let RefusedAnswer { error, error_description } = refused;
                let detail = format!("the OpenID provider refuses: {error} {error_description}");
                Err(Problem::unauthorized(detail.trim_end()))
            }
            _ => Err(unavailable(format_args!("it answered {status}"))),
        }
    }

    /// Begins a sign-in of a browser that asked for `origin`, and that goes to `next` afterwards.
    pub(crate) async fn begin(&self, origin: &str, next: &str) -> Result<Departure> {
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
        Ok(Departure { location: location.into(), browser })
    }

    /// Ends the sign-in that a browser comes back from: what was granted, and where the browser wanted to go.
    pub(crate) async fn finish(&self, state: &str, code: &str, browser: &str) -> Result<(Grant, String)> {
        let pending =
            lock(&self.pending).take(&hash(state)).filter(|pending| pending.browser == hash(browser));
        // A state that another browser was given would sign this one in as another user.
        let pending = pending.ok_or_else(|| {
            Problem::unauthorized("this sign-in was not begun here, or took too long: begin again")
        })?;
        let answer = self
            .tokens(&[
                ("grant_type", "authorization_code"),
                ("code", code),
                ("redirect_uri", &pending.redirect_uri),
                ("code_verifier", &pending.verifier),
            ])
            .await?;
        let id_token = answer.id_token.ok_or_else(|| unavailable("it gave no ID token"))?;
        let claims = self.claims(&id_token)?;
        if claims.nonce.as_deref() != Some(&pending.nonce) {
            return Err(unavailable("its token answers another question"));
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

    /// Renews a token that is about to end. A provider that does not answer is no harm while the token lasts.
    pub(crate) async fn renew(&self, grant: &mut Grant) -> Result<()> {
        let now = Timestamp::now();
        if now < grant.expires_at - RENEW_BEFORE {
            return Ok(());
        }
        let renewed = self.try_renew(grant).await;
        match renewed {
            Err(problem) if problem.status != StatusCode::UNAUTHORIZED && now < grant.expires_at => {
                tracing::warn!(problem = problem.detail, "a token could not be renewed yet");
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
        // The same user as before; a nonce need not be repeated.
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
            // Both are encoded as in forms first (RFC 6749, section 2.3.1).
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

    /// What a token says that came from the provider over TLS. Its signature is for the cluster to verify.
    fn claims(&self, id_token: &str) -> Result<Claims> {
        let payload = id_token.split('.').nth(1).and_then(|payload| URL_SAFE_NO_PAD.decode(payload).ok());
        let claims: Option<Claims> = payload.and_then(|payload| serde_json::from_slice(&payload).ok());
        let claims = claims.ok_or_else(|| unavailable("its ID token cannot be read"))?;
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
