//! Records authorization decisions, from which a minimal role can be derived.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, PoisonError},
};

use super::{Attributes, User};

/// Receives every authorization decision.
pub trait Recorder: Send + Sync + fmt::Debug {
    /// Records a decision. Called while the request waits, so it must be fast.
    fn record(&self, user: &User, attributes: &Attributes<'_>, allowed: bool);
}

/// A request and whether it was allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Access {
    /// The user's name.
    pub user: String,
    /// Whether it was allowed.
    pub allowed: bool,
    /// API verb such as `list`; for non-resource paths, the lowercase HTTP method.
    pub verb: String,
    /// API group.
    pub group: String,
    /// Plural resource name; empty for non-resource paths.
    pub resource: String,
    /// Subresource, or empty.
    pub subresource: String,
    /// Namespace, or empty.
    pub namespace: String,
    /// Object name, or empty.
    pub name: String,
    /// The path; empty for resources.
    pub path: String,
}

impl Access {
    fn new(user: &User, asked: &Attributes<'_>, allowed: bool) -> Self {
        Self {
            user: user.name.clone(),
            allowed,
            verb: asked.verb.into(),
            group: asked.group.into(),
            resource: asked.resource.into(),
            subresource: asked.subresource.into(),
            namespace: asked.namespace.into(),
            name: asked.name.into(),
            path: if asked.is_resource() { String::new() } else { asked.path.into() },
        }
    }
}

/// An in-memory recorder that counts equal decisions.
#[derive(Debug)]
pub struct AccessLog {
    counts: Mutex<BTreeMap<Access, u64>>,
    limit: usize,
}

impl Default for AccessLog {
    fn default() -> Self {
        Self { counts: Mutex::default(), limit: 100_000 }
    }
}

impl AccessLog {
    /// Limits the number of distinct decisions; further ones are dropped. Default: 100,000.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Returns the decisions so far and their counts, ordered by user.
    #[must_use]
    pub fn entries(&self) -> Vec<(Access, u64)> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(access, count)| (access.clone(), *count)).collect()
    }

    /// Returns what a user was denied and never allowed, in order.
    /// Only that user's decisions are scanned, as every request waits meanwhile.
    #[must_use]
    pub fn denied(&self, user: &str) -> Vec<Access> {
        let first = Access { user: user.to_owned(), ..Access::default() };
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let denied = counts.range(first..).map(|(access, _)| access);
        denied
            .take_while(|access| access.user == user && !access.allowed)
            .filter(|access| !counts.contains_key(&Access { allowed: true, ..(*access).clone() }))
            .cloned()
            .collect()
    }

    /// Removes all recorded decisions.
    pub fn clear(&self) {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Recorder for AccessLog {
    fn record(&self, user: &User, attributes: &Attributes<'_>, allowed: bool) {
        let access = Access::new(user, attributes, allowed);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&access) {
            *count += 1;
        } else if counts.len() < self.limit {
            counts.insert(access, 1);
        }
    }
}

impl<R: Recorder + ?Sized> Recorder for std::sync::Arc<R> {
    fn record(&self, user: &User, attributes: &Attributes<'_>, allowed: bool) {
        (**self).record(user, attributes, allowed);
    }
}
