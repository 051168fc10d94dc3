//! Who asks, and whether they may.

mod decide;
mod impersonate;
pub(crate) mod parameters;
pub(crate) mod rbac;
mod record;
pub(crate) mod review;
pub(crate) mod token;

use std::fmt;

use http::request::Parts;
use steersman_api::status::ApiResult;

pub(crate) use decide::{allow, authenticate, authorize, decide, explain};
pub(crate) use impersonate::impersonate;
pub use record::{Access, AccessLog, Recorder};
pub use steersman_api::user::User;
pub(crate) use steersman_api::user::{
    ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, account_groups, account_user, split_account,
};

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

impl Attributes<'_> {
    /// Whether this is about a resource, and not about another path.
    #[must_use]
    pub fn is_resource(&self) -> bool {
        !self.resource.is_empty()
    }
}

/// Finds out who asks, in place of the server itself.
pub trait Authenticator: Send + Sync + fmt::Debug {
    /// The user behind a request, or a refusal.
    ///
    /// # Errors
    /// Credentials that are there and wrong are refused.
    fn authenticate(&self, request: &Parts) -> ApiResult<User>;
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

    /// Why they may, for access reviews. Default: no reason.
    fn reason(&self, _user: &User, _attributes: &Attributes<'_>) -> String {
        String::new()
    }
}

/// Allows every request.
#[derive(Debug, Default)]
pub struct AllowAll;

impl Authorizer for AllowAll {
    fn authorize(&self, _: &User, _: &Attributes<'_>) -> Decision {
        Decision::Allow
    }
}

/// Among the extensions of a request: its user may do everything, as the parts of a control plane that share the server's process
/// may. Rights that a change of roles or a binding takes are judged all the same.
#[derive(Debug, Clone, Copy)]
pub struct Unrestricted;
