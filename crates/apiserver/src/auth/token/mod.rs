//! Bearer tokens: static ones, and service account tokens signed by the cluster's key.

mod key;
mod request;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use key::Key;
pub(crate) use request::answer as answer_request;

use steersman_api::{object, status::quote, store::Store};

use super::{AUTHENTICATED, User, rbac::quote_list};

/// The issuer of tokens, and their default audience.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Allowed clock skew.
const LEEWAY: SignedDuration = SignedDuration::from_secs(60);

/// Size of the cache of verified tokens.
/// Verifying a signature takes far longer than the rest of a request.
const REMEMBERED: usize = 1024;

/// The static tokens and the signing key of a server.
pub(crate) struct Tokens {
    fixed: RwLock<Vec<(String, User)>>,
    pub(crate) key: Arc<Key>,
    verified: Mutex<HashMap<Box<str>, Arc<Claims>>>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

impl Tokens {
    pub(crate) fn new(fixed: Vec<(String, User)>, seed: [u8; 32]) -> Self {
        Self::with_key(fixed, Arc::new(Key::new(seed)))
    }

    /// Copies the signing key, with other static tokens.
    pub(crate) fn fork(&self, fixed: Vec<(String, User)>) -> Self {
        Self::with_key(fixed, Arc::clone(&self.key))
    }

    fn with_key(fixed: Vec<(String, User)>, key: Arc<Key>) -> Self {
        let tokens = Self { fixed: RwLock::default(), key, verified: Mutex::default() };
        for (token, user) in fixed {
            tokens.add(token, user);
        }
        tokens
    }

    /// Adds a static token for a user.
    pub(crate) fn add(&self, token: String, mut user: User) {
        if !user.is_in(AUTHENTICATED) {
            user.groups.push(AUTHENTICATED.to_owned());
        }
        self.fixed.write().unwrap_or_else(PoisonError::into_inner).push((token, user));
    }

    /// Returns the user of a static token. All tokens are compared, each in constant time.
    fn fixed(&self, token: &str) -> Option<User> {
        let known = self.fixed.read().unwrap_or_else(PoisonError::into_inner);
        let mut found = None;
        for (known, user) in known.iter() {
            if same(known.as_bytes(), token.as_bytes()) {
                found = Some(user);
            }
        }
        found.cloned()
    }

    /// Returns the claims of a token signed by this server.
    fn claims(&self, token: &str) -> Result<Arc<Claims>, Invalid> {
        let remembered = || self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(claims) = remembered().get(token) {
            return Ok(Arc::clone(claims));
        }
        let claims: Arc<Claims> = Arc::new(self.key.verify(token)?);
        let mut all = remembered();
        if all.len() >= REMEMBERED {
            all.clear();
        }
        all.insert(token.into(), Arc::clone(&claims));
        Ok(claims)
    }

    /// Returns the user of a request's token, whose audience must be the server itself.
    pub(crate) fn authenticate(&self, store: &Store, now: Timestamp, token: &str) -> Result<User, Invalid> {
        match self.fixed(token) {
            Some(user) => Ok(user),
            None => self.review(store, now, token, &[]).map(|reviewed| reviewed.user),
        }
    }

    /// Reviews a token for one of `audiences`, or for the server itself if empty.
    pub(crate) fn review(
        &self,
        store: &Store,
        now: Timestamp,
        token: &str,
        audiences: &[String],
    ) -> Result<Reviewed, Invalid> {
        let own = [ISSUER.to_owned()];
        let audiences = if audiences.is_empty() { &own[..] } else { audiences };
        if let Some(user) = self.fixed(token) {
            // Static tokens have no audience, so they are valid only for the server itself.
            return if audiences.iter().any(|a| a == ISSUER) {
                Ok(Reviewed { user, audiences: own.into() })
            } else {
                Err(Invalid::Unknown)
            };
        }
        let claims = self.claims(token)?;
        let meant: Vec<String> = claims.aud.iter().filter(|a| audiences.contains(a)).cloned().collect();
        if meant.is_empty() {
            return Err(Invalid::Because(format!(
                "token audiences {} is invalid for the target audiences {}",
                quote_list(&claims.aud),
                quote_list(audiences)
            )));
        }
        check(store, now, &claims).map_err(Invalid::Because)?;
        Ok(Reviewed { user: user(&claims), audiences: meant })
    }
}

/// The claims of a service account token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claims {
    aud: Vec<String>,
    exp: i64,
    iat: i64,
    iss: String,
    #[serde(default)]
    jti: String,
    #[serde(rename = "kubernetes.io")]
    bound: Bound,
    nbf: i64,
    sub: String,
}

/// The objects a token is bound to: it becomes invalid when they are deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Bound {
    namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pod: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<Reference>,
    serviceaccount: Reference,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    warnafter: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Reference {
    name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    uid: String,
}

/// The reasons a token is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Invalid {
    /// The token is unknown.
    #[error("invalid bearer token")]
    Unknown,
    /// It is a service account token, but not valid.
    #[error("[invalid bearer token, {0}]")]
    Because(String),
}

/// The user of a token, and the requested audiences it is valid for.
#[derive(Debug)]
pub(crate) struct Reviewed {
    pub(crate) user: User,
    pub(crate) audiences: Vec<String>,
}

fn same(given: &[u8], wanted: &[u8]) -> bool {
    given.len() == wanted.len() && given.iter().zip(wanted).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// Checks that a token is not expired and that all objects it is bound to exist.
fn check(store: &Store, now: Timestamp, claims: &Claims) -> Result<(), String> {
    let (early, late) = (now.saturating_sub(LEEWAY), now.saturating_add(LEEWAY));
    let (early, late) = (early.map_err(|e| e.to_string())?, late.map_err(|e| e.to_string())?);
    let moment = |second: i64| Timestamp::from_second(second).unwrap_or(Timestamp::MIN);
    if late < moment(claims.nbf) {
        return Err("service account token is not valid yet".into());
    }
    if early > moment(claims.exp) {
        return Err("service account token has expired".into());
    }
    if late < moment(claims.iat) {
        return Err("service account token is issued in the future".into());
    }
    let Bound { namespace, serviceaccount, .. } = &claims.bound;
    let name = &serviceaccount.name;
    let Some(account) = stored(store, "serviceaccounts", &object::key(namespace, name)) else {
        return Err(format!("serviceaccounts {} not found", quote(name)));
    };
    let uid = object::uid(&account);
    if uid != serviceaccount.uid {
        return Err(format!("service account UID ({uid}) does not match claim ({})", serviceaccount.uid));
    }
    if long_deleted(&account, early) {
        return Err(format!("service account {namespace}/{name} has been deleted"));
    }
    let check = |what: &str, storage: &str, namespace: &str, reference: &Reference| {
        let invalidated = "service account token has been invalidated";
        let found = stored(store, storage, &object::key(namespace, &reference.name)).ok_or(invalidated)?;
        let uid = object::uid(&found);
        if uid != reference.uid {
            let lower = what.to_lowercase();
            return Err(format!(
                "{what} UID ({uid}) does not match service account {lower} ref claim ({})",
                reference.uid
            ));
        }
        if long_deleted(&found, early) { Err(invalidated.to_owned()) } else { Ok(()) }
    };
    if let Some(secret) = &claims.bound.secret {
        check("secret", "secrets", namespace, secret)?;
    }
    if let Some(pod) = &claims.bound.pod {
        check("pod", "pods", namespace, pod)?;
    } else if let Some(node) = &claims.bound.node {
        check("node", "nodes", "", node)?;
    }
    Ok(())
}

fn stored(store: &Store, storage: &str, key: &str) -> Option<Value> {
    store.get(storage, key).map(|entry| entry.value())
}

fn long_deleted(object: &Value, before: Timestamp) -> bool {
    let at: Option<Timestamp> = object::meta_text(object, "deletionTimestamp").parse().ok();
    at.is_some_and(|at| at < before)
}

/// Returns the service account user of a token.
fn user(claims: &Claims) -> User {
    let Bound { namespace, serviceaccount, pod, node, .. } = &claims.bound;
    let mut user = User::service_account(namespace, &serviceaccount.name);
    user.uid.clone_from(&serviceaccount.uid);
    let mut say = |key: &str, value: &str| {
        if !value.is_empty() {
            user.extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value.to_owned()]);
        }
    };
    if !claims.jti.is_empty() {
        say("credential-id", &format!("JTI={}", claims.jti));
    }
    if let Some(pod) = pod {
        say("pod-name", &pod.name);
        say("pod-uid", &pod.uid);
    }
    if let Some(node) = node {
        say("node-name", &node.name);
        say("node-uid", &node.uid);
    }
    user
}
