//! Authentication and authorization.

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

/// The attributes of an action to authorize.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// API verb such as `list`; for non-resource paths, the lowercase HTTP method.
    pub verb: &'a str,
    /// API group.
    pub group: &'a str,
    /// API version.
    pub version: &'a str,
    /// Plural resource name; empty for non-resource paths.
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
    /// Whether this is a resource request.
    #[must_use]
    pub fn is_resource(&self) -> bool {
        !self.resource.is_empty()
    }
}

/// Authenticates requests, replacing the server's own authentication.
pub trait Authenticator: Send + Sync + fmt::Debug {
    /// Returns the user of a request.
    ///
    /// # Errors
    /// If credentials are present but invalid.
    fn authenticate(&self, request: &Parts) -> ApiResult<User>;
}

/// The decision of an authorizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Allowed.
    Allow,
    /// Denied, with a human-readable reason (possibly empty).
    Deny(String),
}

/// Authorizes actions.
pub trait Authorizer: Send + Sync + fmt::Debug {
    /// Decides whether `user` is allowed the action.
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Decision;

    /// Returns why an action is allowed, for access reviews. Default: no reason.
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

/// Request extension: its user may do everything.
/// For control plane components in the server's process. RBAC escalation checks still apply.
#[derive(Debug, Clone, Copy)]
pub struct Unrestricted;
