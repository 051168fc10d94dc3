//! Authentication: callers, their sessions and how they signed in.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::{
    oidc::{Grant, Oidc},
    problem::{Problem, Result},
    upstream::{Cluster, Credentials, Upstream},
};

/// The lifetime of a session.
pub(crate) const SESSION: Duration = Duration::from_secs(12 * 60 * 60);
/// The lifetime of a sign-in link.
const CODE: Duration = Duration::from_secs(10 * 60);
/// How long the cluster's authentication of a token is cached. Authorization is never cached: the cluster
/// decides on every call.
const TOKEN: Duration = Duration::from_secs(60);
/// The maximum number of sessions, of codes and of tokens kept.
const KEPT: usize = 10_000;

/// A user as the cluster authenticated it.
#[derive(Debug, Clone)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
}

/// How a caller signed in.
#[derive(Debug, Clone)]
pub(crate) enum Via {
    Bearer,
    Session { csrf: String, expires_at: Timestamp, end: SessionEnd },
}

/// The end of a session: by sign-out, or because it expired.
#[derive(Debug, Clone)]
pub(crate) struct SessionEnd {
    /// Closed together with the session.
    open: watch::Receiver<()>,
    expires: Instant,
}

/// The authenticated caller of a request.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) user: Arc<User>,
    pub(crate) via: Via,
    pub(crate) cluster: Cluster,
}

impl Caller {
    /// Waits until the caller's session ends. Never returns for a bearer token: only the cluster knows when
    /// that expires.
    pub(crate) fn session_end(&self) -> impl Future<Output = ()> + Send + use<> {
        let end = match &self.via {
            Via::Bearer => None,
            Via::Session { end, .. } => Some(end.clone()),
        };
        async move {
            let Some(SessionEnd { mut open, expires }) = end else { return std::future::pending().await };
            tokio::select! {
                // Nothing is ever sent; the channel closes.
                _ = open.changed() => {}
                () = sleep_until(expires) => {}
            }
        }
    }
}

/// The hash of a secret; the secret itself is not kept.
pub(crate) type Hash = [u8; 32];

pub(crate) fn hash(secret: &str) -> Hash {
    Sha256::digest(secret.as_bytes()).into()
}

/// Returns a random string of 256 bits.
pub(crate) fn random() -> Result<String> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "Internal",
            format!("the system's random number generator failed: {error}"),
        )
    })?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

struct Session {
    credentials: SessionCredentials,
    user: Arc<User>,
    csrf: String,
    expires_at: Timestamp,
    end: SessionEnd,
    /// Dropped with the session, which notifies everything that waits for its end.
    _open: watch::Sender<()>,
}

/// The credentials with which a session's calls are made.
enum SessionCredentials {
    Fixed(Credentials),
    /// Locked while the grant is renewed.
    Granted(tokio::sync::Mutex<Grant>),
}

/// Values with an expiry, limited in number.
pub(crate) struct Expiring<V>(HashMap<Hash, (V, Instant)>);

impl<V> Default for Expiring<V> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<V> Expiring<V> {
    pub(crate) fn put(&mut self, key: Hash, value: V, expires: Instant) {
        if self.0.len() >= KEPT {
            let now = Instant::now();
            self.0.retain(|_, (_, until)| *until > now);
        }
        if self.0.len() >= KEPT {
            let oldest = self.0.iter().min_by_key(|(_, (_, until))| *until).map(|(key, _)| *key);
            oldest.and_then(|key| self.0.remove(&key));
        }
        self.0.insert(key, (value, expires));
    }

    fn get(&self, key: &Hash) -> Option<&V> {
        self.0.get(key).filter(|(_, until)| *until > Instant::now()).map(|(value, _)| value)
    }

    pub(crate) fn take(&mut self, key: &Hash) -> Option<V> {
        self.0.remove(key).filter(|(_, until)| *until > Instant::now()).map(|(value, _)| value)
    }
}

/// All sessions, sign-in codes and authenticated tokens.
#[derive(Default)]
pub(crate) struct Identities {
    /// The OpenID provider, if one is configured.
    pub(crate) oidc: Option<Oidc>,
    is_tls: bool,
    sessions: Mutex<Expiring<Arc<Session>>>,
    codes: Mutex<Expiring<()>>,
    tokens: Mutex<Expiring<Arc<User>>>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Identities {
    pub(crate) fn new(oidc: Option<Oidc>, is_tls: bool) -> Self {
        Self { oidc, is_tls, ..Self::default() }
    }

    /// Creates a one-time code that signs in with the server's own credentials.
    pub(crate) fn code(&self) -> Result<String> {
        let code = random()?;
        lock(&self.codes).put(hash(&code), (), Instant::now() + CODE);
        Ok(code)
    }

    /// Opens a session for a code, which is consumed.
    pub(crate) async fn redeem(&self, code: &str, upstream: &Upstream) -> Result<(String, Caller)> {
        lock(&self.codes).take(&hash(code)).ok_or_else(|| {
            Problem::unauthorized("the sign-in link has expired or was already used: request a new one")
        })?;
        self.open(Credentials::Own, upstream).await
    }

    /// Opens a session for a bearer token.
    pub(crate) async fn sign_in(&self, token: &str, upstream: &Upstream) -> Result<(String, Caller)> {
        self.open(Credentials::Token(bearer(token)?), upstream).await
    }

    /// Opens a session for the tokens that an OpenID provider granted.
    pub(crate) async fn sign_in_by_oidc(
        &self,
        grant: Grant,
        upstream: &Upstream,
    ) -> Result<(String, Caller)> {
        let credentials = Credentials::Token(bearer(&grant.id_token)?);
        let lasts = if grant.is_renewable() {
            SESSION
        } else {
            let left = Timestamp::now().duration_until(grant.expires_at);
            Duration::try_from(left).unwrap_or_default().min(SESSION)
        };
        let held = SessionCredentials::Granted(tokio::sync::Mutex::new(grant));
        self.open_for(credentials, held, lasts, upstream).await
    }

    async fn open(&self, credentials: Credentials, upstream: &Upstream) -> Result<(String, Caller)> {
        let held = SessionCredentials::Fixed(credentials.clone());
        self.open_for(credentials, held, SESSION, upstream).await
    }

    async fn open_for(
        &self,
        credentials: Credentials,
        held: SessionCredentials,
        lasts: Duration,
        upstream: &Upstream,
    ) -> Result<(String, Caller)> {
        let cluster = upstream.calls_as(&credentials);
        let user = Arc::new(review(&cluster).await?);
        let (id, csrf) = (random()?, random()?);
        let expires = Instant::now() + lasts;
        let expires_at = Timestamp::now() + lasts;
        let (sender, open) = watch::channel(());
        let end = SessionEnd { open, expires };
        let session = Arc::new(Session {
            credentials: held,
            user: Arc::clone(&user),
            csrf: csrf.clone(),
            expires_at,
            end: end.clone(),
            _open: sender,
        });
        lock(&self.sessions).put(hash(&id), session, expires);
        Ok((id, Caller { user, via: Via::Session { csrf, expires_at, end }, cluster }))
    }

    /// Returns the credentials for a session's calls, renewed if necessary. A session that the provider refuses
    /// to renew is closed.
    async fn credentials(&self, id: &str, session: &Session) -> Result<Credentials> {
        let grant = match &session.credentials {
            SessionCredentials::Fixed(credentials) => return Ok(credentials.clone()),
            SessionCredentials::Granted(grant) => grant,
        };
        let mut grant = grant.lock().await;
        if let Some(oidc) = &self.oidc
            && let Err(problem) = oidc.renew(&mut grant).await
        {
            if problem.status == StatusCode::UNAUTHORIZED {
                lock(&self.sessions).take(&hash(id));
            }
            return Err(problem);
        }
        Ok(Credentials::Token(bearer(&grant.id_token)?))
    }

    pub(crate) fn close(&self, headers: &HeaderMap) {
        if let Some(id) = Cookie::Session.of(headers, self.is_tls) {
            lock(&self.sessions).take(&hash(id));
        }
    }

    /// Authenticates a request by its bearer token, or else by its session cookie.
    pub(crate) async fn caller(
        &self,
        method: &Method,
        headers: &HeaderMap,
        upstream: &Upstream,
    ) -> Result<Caller> {
        if let Some(authorization) = headers.get(header::AUTHORIZATION) {
            let token = authorization
                .to_str()
                .ok()
                .and_then(|text| text.trim().split_once(' '))
                .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
                .map(|(_, token)| token.trim())
                .ok_or_else(|| Problem::unauthorized("the Authorization header must be `Bearer TOKEN`"))?;
            return self.by_token(token, upstream).await;
        }
        let unknown = || Problem::unauthorized("not signed in, or the session has expired");
        let id = Cookie::Session.of(headers, self.is_tls).ok_or_else(unknown)?;
        let session = lock(&self.sessions).get(&hash(id)).cloned().ok_or_else(unknown)?;
        if !matches!(*method, Method::GET | Method::HEAD) {
            let given = headers.get("x-csrf-token").map(HeaderValue::as_bytes).unwrap_or_default();
            // Compares hashes, so that timing reveals nothing about the token.
            if Sha256::digest(given) != Sha256::digest(session.csrf.as_bytes()) {
                let detail = "session requests that modify anything require the X-CSRF-Token header; \
                              GET /v1/me returns its value";
                return Err(Problem::new(StatusCode::FORBIDDEN, "CSRF", detail));
            }
        }
        Ok(Caller {
            user: Arc::clone(&session.user),
            via: Via::Session {
                csrf: session.csrf.clone(),
                expires_at: session.expires_at,
                end: session.end.clone(),
            },
            cluster: upstream.calls_as(&self.credentials(id, &session).await?),
        })
    }

    async fn by_token(&self, token: &str, upstream: &Upstream) -> Result<Caller> {
        let cluster = upstream.calls_as(&Credentials::Token(bearer(token)?));
        let key = hash(token);
        let known = lock(&self.tokens).get(&key).cloned();
        let user = match known {
            Some(user) => user,
            None => {
                let user = Arc::new(review(&cluster).await?);
                lock(&self.tokens).put(key, Arc::clone(&user), Instant::now() + TOKEN);
                user
            }
        };
        Ok(Caller { user, via: Via::Bearer, cluster })
    }
}

fn bearer(token: &str) -> Result<HeaderValue> {
    let refused = || Problem::unauthorized("the token is empty or has invalid characters");
    if token.is_empty() {
        return Err(refused());
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| refused())?;
    value.set_sensitive(true);
    Ok(value)
}

/// Queries the cluster for the user behind the credentials (SelfSubjectReview).
async fn review(cluster: &Cluster) -> Result<User> {
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let review = cluster.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &body).await;
    let review = review.map_err(|problem| match problem.status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            Problem::unauthorized("the cluster rejected these credentials")
        }
        _ => problem,
    })?;
    let info = &review["status"]["userInfo"];
    let name = info["username"].as_str().unwrap_or_default();
    if name.is_empty() || name == "system:anonymous" {
        return Err(Problem::unauthorized("the cluster rejected these credentials"));
    }
    let groups = info["groups"].as_array().into_iter().flatten().filter_map(Value::as_str);
    Ok(User { name: name.to_owned(), groups: groups.map(str::to_owned).collect() })
}

/// The cookies of the gateway.
#[derive(Clone, Copy)]
pub(crate) enum Cookie {
    Session,
    /// Identifies a browser that was redirected to an OpenID provider.
    SignIn,
}

impl Cookie {
    /// Returns the cookie's name. With TLS it has the `__Host-` prefix, which browsers accept from this host
    /// only.
    fn name(self, tls: bool) -> &'static str {
        match (self, tls) {
            (Self::Session, true) => "__Host-steer_session",
            (Self::Session, false) => "steer_session",
            (Self::SignIn, true) => "__Host-steer_sign_in",
            (Self::SignIn, false) => "steer_sign_in",
        }
    }

    /// Reads the cookie from a request. With TLS the unprefixed name is ignored: a sibling domain could have
    /// set it.
    pub(crate) fn of(self, headers: &HeaderMap, tls: bool) -> Option<&str> {
        let values = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.name(tls)).map(|(_, value)| value)
    }

    /// Returns the `Set-Cookie` header that sets it for a duration.
    pub(crate) fn set(self, value: &str, lasts: Duration, tls: bool) -> Option<HeaderValue> {
        let (name, secure, age) = (self.name(tls), if tls { "; Secure" } else { "" }, lasts.as_secs());
        HeaderValue::from_str(&format!(
            "{name}={value}; HttpOnly; SameSite=Lax; Path=/; Max-Age={age}{secure}"
        ))
        .ok()
    }

    /// Returns the `Set-Cookie` header that removes it.
    pub(crate) fn clear(self, tls: bool) -> Option<HeaderValue> {
        self.set("", Duration::ZERO, tls)
    }
}
