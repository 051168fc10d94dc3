//! The metrics server, plain or secure. Secure is TLS, then TokenReview and SubjectAccessReview, as in controller-runtime.

use std::{collections::HashMap, hash::Hash, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use http::{HeaderMap, StatusCode, header::AUTHORIZATION};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use sha2::{Digest as _, Sha256};
use tokio::{sync::Mutex, task::JoinSet, time::Instant};

use crate::{
    certificate::{Certificates, Source},
    environment::SystemEnvironment,
    error::Result,
    http as server,
    metrics::Metrics,
};

/// Port on which metrics are secure by default, as in kubebuilder's projects.
pub(super) const SECURE_METRICS_PORT: u16 = 8443;

/// How long responses of the API server are cached, as in controller-runtime.
const TOKEN_TTL: Duration = Duration::from_secs(60);
const ALLOWED_TTL: Duration = Duration::from_secs(5 * 60);
const DENIED_TTL: Duration = Duration::from_secs(30);
/// Maximum number of cached responses of each kind.
const CACHED: usize = 1024;

/// TLS and access control of the metrics server.
#[derive(Clone, Debug, Default)]
pub(super) struct MetricsSecurity {
    /// Whether to serve over TLS. Default: no.
    pub(super) secure: bool,
    /// Whether secure metrics are open to everyone. Default: no, only to those who may `get` the path.
    pub(super) open: bool,
    /// Directory with the certificate. Default: a self-signed one.
    pub(super) certificates: Option<PathBuf>,
}

impl MetricsSecurity {
    /// Whether readers of the metrics are authorized by the API server.
    pub(super) fn reviews_access(&self) -> bool {
        self.secure && !self.open
    }

    /// Listens on the metrics' port, and serves as long as `servers` lives.
    pub(super) async fn serve(
        self,
        address: SocketAddr,
        client: &Client,
        metrics: &Metrics,
        servers: &mut JoinSet<()>,
    ) -> Result<()> {
        let listener = server::bind(address).await?;
        let access = self.reviews_access().then(|| Arc::new(MetricsAccess::new(client.clone())));
        let mut tls = None;
        if self.secure {
            let source = self.certificates.map_or(Source::SelfSigned, Source::Files);
            let environment = Arc::new(SystemEnvironment);
            // Scrapers learn by other means which CA to trust.
            let announce = Box::new(|_| Box::pin(std::future::ready(Ok(()))) as _);
            let certificates =
                Certificates::load(source, client.clone(), environment, metrics.clone(), announce).await?;
            tls = Some(certificates.server_config()?);
            servers.spawn(certificates.watch());
        }
        let metrics = metrics.clone();
        servers.spawn(server::serve(listener, tls, move |request| {
            let (metrics, access) = (metrics.clone(), access.clone());
            async move {
                let (parts, _) = request.into_parts();
                if let Some(access) = access
                    && let Err((status, reason)) =
                        access.check(&parts.headers, parts.method.as_str(), parts.uri.path()).await
                {
                    return server::text(status, "text/plain", reason);
                }
                answer(&metrics, parts.uri.path())
            }
        }));
        Ok(())
    }
}

fn answer(metrics: &Metrics, path: &str) -> server::Answer {
    if path == "/metrics" {
        let format = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        server::text(StatusCode::OK, format, metrics.render())
    } else {
        server::text(StatusCode::NOT_FOUND, "text/plain", "metrics are at /metrics\n")
    }
}

/// Status and message of a refused request.
type Refusal = (StatusCode, String);

/// Authorization of metrics readers by the API server.
struct MetricsAccess {
    client: Client,
    /// By the SHA-256 of the token, so that no token stays in memory.
    users: Mutex<TtlCache<[u8; 32], Option<UserInfo>>>,
    /// By the review's spec in JSON.
    decisions: Mutex<TtlCache<String, bool>>,
}

impl MetricsAccess {
    fn new(client: Client) -> Self {
        Self { client, users: Mutex::default(), decisions: Mutex::default() }
    }

    async fn check(&self, headers: &HeaderMap, method: &str, path: &str) -> Result<(), Refusal> {
        let unauthenticated = || (StatusCode::UNAUTHORIZED, "Unauthorized\n".to_owned());
        let token = bearer_token(headers).ok_or_else(unauthenticated)?;
        let failed = |what: &str, error: &kube::Error| {
            tracing::warn!(%error, "{what} of a metrics request failed");
            (StatusCode::INTERNAL_SERVER_ERROR, format!("{what} failed\n"))
        };
        let user = self.user(token).await.map_err(|error| failed("Authentication", &error))?;
        let user = user.ok_or_else(unauthenticated)?;
        let name = user.username.clone().unwrap_or_default();
        let is_allowed =
            self.is_allowed(user, method, path).await.map_err(|error| failed("Authorization", &error))?;
        if is_allowed {
            Ok(())
        } else {
            Err((StatusCode::FORBIDDEN, format!("Authorization denied for user {name}\n")))
        }
    }

    /// Returns the user of a token; `None` if the token is invalid.
    async fn user(&self, token: &str) -> Result<Option<UserInfo>, kube::Error> {
        let key: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some(user) = self.users.lock().await.get(&key) {
            return Ok(user);
        }
        let review = TokenReview {
            spec: TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() },
            ..TokenReview::default()
        };
        let reviewed =
            Api::<TokenReview>::all(self.client.clone()).create(&PostParams::default(), &review).await?;
        let user = reviewed
            .status
            .filter(|status| status.authenticated == Some(true))
            .map(|status| status.user.unwrap_or_default());
        self.users.lock().await.put(key, user.clone(), TOKEN_TTL);
        Ok(user)
    }

    async fn is_allowed(&self, user: UserInfo, method: &str, path: &str) -> Result<bool, kube::Error> {
        let spec = SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(path.to_owned()),
                verb: Some(method.to_lowercase()),
            }),
            ..SubjectAccessReviewSpec::default()
        };
        let key = serde_json::to_string(&spec).map_err(kube::Error::SerdeError)?;
        if let Some(is_allowed) = self.decisions.lock().await.get(&key) {
            return Ok(is_allowed);
        }
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let reviewed = Api::<SubjectAccessReview>::all(self.client.clone())
            .create(&PostParams::default(), &review)
            .await?;
        let is_allowed = reviewed.status.is_some_and(|status| status.allowed && status.denied != Some(true));
        let ttl = if is_allowed { ALLOWED_TTL } else { DENIED_TTL };
        self.decisions.lock().await.put(key, is_allowed, ttl);
        Ok(is_allowed)
    }
}

fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// A bounded cache of values that expire.
struct TtlCache<K, V>(HashMap<K, (V, Instant)>);

impl<K, V> Default for TtlCache<K, V> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Hash + Eq, V: Clone> TtlCache<K, V> {
    fn get(&self, key: &K) -> Option<V> {
        self.0.get(key).filter(|(_, until)| Instant::now() < *until).map(|(value, _)| value.clone())
    }

    fn put(&mut self, key: K, value: V, ttl: Duration) {
        let now = Instant::now();
        if self.0.len() >= CACHED {
            self.0.retain(|_, (_, until)| now < *until);
        }
        if self.0.len() >= CACHED {
            self.0.clear();
        }
        self.0.insert(key, (value, now + ttl));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn answers_hold_for_their_time_and_are_bounded() {
        let mut cache = TtlCache::default();
        cache.put("a".to_owned(), 1, DENIED_TTL);
        assert_eq!(cache.get(&"a".to_owned()), Some(1));
        tokio::time::advance(DENIED_TTL).await;
        assert_eq!(cache.get(&"a".to_owned()), None);
        for number in 0..CACHED * 3 {
            cache.put(number.to_string(), 2, TOKEN_TTL);
            assert!(cache.0.len() <= CACHED);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_hold_no_longer_make_room_for_others() {
        let mut cache = TtlCache::default();
        cache.put("holds".to_owned(), 1, TOKEN_TTL);
        for number in 1..CACHED {
            cache.put(number.to_string(), 2, DENIED_TTL);
        }
        tokio::time::advance(DENIED_TTL).await;
        cache.put("new".to_owned(), 3, DENIED_TTL);
        assert_eq!((cache.get(&"holds".to_owned()), cache.0.len()), (Some(1), 2));
    }

    #[test]
    fn tokens_are_read_from_the_bearer_scheme_alone() {
        let token = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, text.parse().unwrap());
            bearer_token(&headers).map(str::to_owned)
        };
        assert_eq!(token("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(token("bearer  abc ").as_deref(), Some("abc"));
        for other in ["Basic abc", "Bearer ", "Bearer", "abc"] {
            assert_eq!(token(other), None, "{other}");
        }
    }
}
