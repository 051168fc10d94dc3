//! Who asks, and whether they may.

pub(crate) mod review;

use std::{collections::BTreeMap, fmt};

use http::request::Parts;

use crate::status::ApiResult;

/// The person or program behind a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// Name such as `system:serviceaccount:default:builder`.
    pub name: String,
    /// Unique id, possibly empty.
    pub uid: String,
    /// Groups such as `system:authenticated`.
    pub groups: Vec<String>,
    /// Further attributes.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The in-process administrator: may do everything.
    #[must_use]
    pub fn admin() -> Self {
        Self {
            name: "system:admin".into(),
            uid: String::new(),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
            extra: BTreeMap::new(),
        }
    }
}

/// What a request wants to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// API verb such as `list`, or the lower case HTTP method for other paths.
    pub verb: &'a str,
    /// API group.
    pub group: &'a str,
    /// API version.
    pub version: &'a str,
    /// Plural resource name; empty for other paths.
    pub resource: &'a str,
    /// Subresource, or empty.
    pub subresource: &'a str,
    /// Namespace, or empty.
    pub namespace: &'a str,
    /// Object name, or empty.
    pub name: &'a str,
    /// The path.
    pub path: &'a str,
}

/// Finds out who asks.
pub trait Authenticator: Send + Sync + fmt::Debug {
    /// The user behind a request, or a refusal.
    ///
    /// # Errors
    /// Credentials that are there and wrong are refused.
    fn authenticate(&self, request: &Parts) -> ApiResult<User>;
}

/// Takes the [`User`] that a listener put into the request's extensions, and the administrator otherwise. The default.
#[derive(Debug, Default)]
pub struct TrustExtensions;

impl Authenticator for TrustExtensions {
    fn authenticate(&self, request: &Parts) -> ApiResult<User> {
        Ok(request.extensions.get::<User>().cloned().unwrap_or_else(User::admin))
    }
}

/// An authorizer's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Go ahead.
    Allow,
    /// Refused, with a reason for people (possibly empty).
    Deny(String),
}

/// Decides who may do what.
pub trait Authorizer: Send + Sync + fmt::Debug {
    /// Whether `user` may do what `attributes` say.
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Decision;
}

/// Everybody may do everything. The default.
#[derive(Debug, Default)]
pub struct AllowAll;

impl Authorizer for AllowAll {
    fn authorize(&self, _: &User, _: &Attributes<'_>) -> Decision {
        Decision::Allow
    }
}

/// The text of a refusal, as the API words it.
pub(crate) fn refusal(user: &User, a: &Attributes<'_>, reason: &str) -> String {
    use crate::status::quote;
    let mut text = format!("User {} cannot {} ", quote(&user.name), a.verb);
    if a.resource.is_empty() {
        text.push_str(&format!("path {}", quote(a.path)));
    } else {
        let resource = if a.subresource.is_empty() {
            a.resource.to_owned()
        } else {
            format!("{}/{}", a.resource, a.subresource)
        };
        text.push_str(&format!("resource {} in API group {}", quote(&resource), quote(a.group)));
        if a.namespace.is_empty() {
            text.push_str(" at the cluster scope");
        } else {
            text.push_str(&format!(" in the namespace {}", quote(a.namespace)));
        }
    }
    if !reason.is_empty() {
        text.push_str(": ");
        text.push_str(reason);
    }
    text
}
