//! Callers: who they are, and how they signed in.

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

/// How long a session lasts.
pub(crate) const SESSION: Duration = Duration::from_secs(12 * 60 * 60);
/// How long a link to sign in works.
const CODE: Duration = Duration::from_secs(10 * 60);
/// How long the cluster's word on a token holds. What a token may do is asked anew with every call.
const TOKEN: Duration = Duration::from_secs(60);
/// How many sessions, codes and tokens are kept of each.
const KEPT: usize = 10_000;

/// A user, as the cluster knows it.
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

/// The end of a session: its user signs out, or its time is over.
#[derive(Debug, Clone)]
pub(crate) struct SessionEnd {
    /// Closed with the session.
    open: watch::Receiver<()>,
    expires: Instant,
}

/// Who makes a request.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) user: Arc<User>,
    pub(crate) via: Via,
    pub(crate) cluster: Cluster,
}

impl Caller {
    /// Waits for the end of the caller's session; forever with a token, whose end the cluster alone knows.
    pub(crate) fn session_end(&self) -> impl Future<Output = ()> + Send + use<> {
        let end = match &self.via {
            Via::Bearer => None,
            Via::Session { end, .. } => Some(end.clone()),
        };
        async move {
            let Some(SessionEnd { mut open, expires }) = end else { return std::future::pending().await };
            tokio::select! {
                // Nothing is ever sent.
                _ = open.changed() => {}
                () = sleep_until(expires) => {}
            }
        }
    }
}

/// A secret of which only the hash is kept.
pub(crate) type Hash = [u8; 32];

pub(crate) fn hash(secret: &str) -> Hash {
    Sha256::digest(secret.as_bytes()).into()
}

/// A random text of 256 bits.
pub(crate) fn random() -> Result<String> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal", format!("no randomness: {error}"))
    })?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

struct Session {
    credentials: SessionCredentials,
    user: Arc<User>,
    csrf: String,
    expires_at: Timestamp,
    end: SessionEnd,
    /// Dropped with the session, which tells those who wait for its end.
    _open: watch::Sender<()>,
}

/// What the calls of a session are made with.
enum SessionCredentials {
    Fixed(Credentials),
    /// Held while it is renewed.
    Granted(tokio::sync::Mutex<Grant>),
}

/// Values that end, of which only so many are kept.
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

/// Everyone who is signed in.
#[derive(Default)]
pub(crate) struct Identities {
    /// The OpenID provider, if users sign in by one.
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

    /// A code that signs in once, with the server's own credentials.
    pub(crate) fn code(&self) -> Result<String> {
        let code = random()?;
        lock(&self.codes).put(hash(&code), (), Instant::now() + CODE);
        Ok(code)
    }

    /// Opens a session for a code, which is used up.
    pub(crate) async fn redeem(&self, code: &str, upstream: &Upstream) -> Result<(String, Caller)> {
        lock(&self.codes).take(&hash(code)).ok_or_else(|| {
            Problem::unauthorized("the link was used already, or is too old: ask for a new one")
        })?;
        self.open(Credentials::Own, upstream).await
    }

    /// Opens a session for a token.
    pub(crate) async fn sign_in(&self, token: &str, upstream: &Upstream) -> Result<(String, Caller)> {
        self.open(Credentials::Token(bearer(token)?), upstream).await
    }

    /// Opens a session for what an OpenID provider has granted.
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

    /// What the calls of a session are made with from now on. One that the provider no longer grants has ended.
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

    /// Who makes a request, by its token or else its cookie.
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
                .ok_or_else(|| Problem::unauthorized("Authorization has to be `Bearer TOKEN`"))?;
            return self.by_token(token, upstream).await;
        }
        let unknown = || Problem::unauthorized("not signed in, or the session has ended");
        let id = Cookie::Session.of(headers, self.is_tls).ok_or_else(unknown)?;
        let session = lock(&self.sessions).get(&hash(id)).cloned().ok_or_else(unknown)?;
        if !matches!(*method, Method::GET | Method::HEAD) {
            let given = headers.get("x-csrf-token").map(HeaderValue::as_bytes).unwrap_or_default();
            // Compared by their hashes, whose order says nothing about the token.
            if Sha256::digest(given) != Sha256::digest(session.csrf.as_bytes()) {
                let detail = "with a session, requests that change something carry X-CSRF-Token, as GET /v1/me gives it";
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
    let refused = || Problem::unauthorized("the token is empty, or has characters that no token has");
    if token.is_empty() {
        return Err(refused());
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| refused())?;
    value.set_sensitive(true);
    Ok(value)
}

/// Asks the cluster who its caller is.
async fn review(cluster: &Cluster) -> Result<User> {
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let review = cluster.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &body).await;
    let review = review.map_err(|problem| match problem.status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            Problem::unauthorized("the cluster does not know these credentials")
        }
        _ => problem,
    })?;
    let info = &review["status"]["userInfo"];
    let name = info["username"].as_str().unwrap_or_default();
    if name.is_empty() || name == "system:anonymous" {
        return Err(Problem::unauthorized("the cluster does not know these credentials"));
    }
    let groups = info["groups"].as_array().into_iter().flatten().filter_map(Value::as_str);
    Ok(User { name: name.to_owned(), groups: groups.map(str::to_owned).collect() })
}

/// The cookies of this server.
#[derive(Clone, Copy)]
pub(crate) enum Cookie {
    Session,
    /// Knows a browser that was sent to an OpenID provider.
    SignIn,
}

impl Cookie {
    /// The name; with TLS one that browsers accept from this host alone.
    fn name(self, tls: bool) -> &'static str {
        match (self, tls) {
            (Self::Session, true) => "__Host-steer_session",
            (Self::Session, false) => "steer_session",
            (Self::SignIn, true) => "__Host-steer_sign_in",
            (Self::SignIn, false) => "steer_sign_in",
        }
    }

    /// What a request says. With TLS the other name counts for nothing: a neighbouring site may have set it.
    pub(crate) fn of(self, headers: &HeaderMap, tls: bool) -> Option<&str> {
        let values = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.name(tls)).map(|(_, value)| value)
    }

    /// The header that gives it to a browser for a time.
    pub(crate) fn set(self, value: &str, lasts: Duration, tls: bool) -> Option<HeaderValue> {
        let (name, secure, age) = (self.name(tls), if tls { "; Secure" } else { "" }, lasts.as_secs());
        HeaderValue::from_str(&format!(
            "{name}={value}; HttpOnly; SameSite=Lax; Path=/; Max-Age={age}{secure}"
        ))
        .ok()
    }

    /// The header that takes it back.
    pub(crate) fn clear(self, tls: bool) -> Option<HeaderValue> {
        self.set("", Duration::ZERO, tls)
    }
}
