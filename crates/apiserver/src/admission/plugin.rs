//! What plugins of the server's owner see of a write.

use std::fmt;

use serde_json::Value;
use steersman_api::{BoxFuture, status::ApiResult};

use crate::{auth::User, catalog::Resource};

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A new object.
    Create,
    /// A new version of an object.
    Update,
    /// The end of an object.
    Delete,
    /// A connection to a subresource such as `exec`.
    Connect,
}

/// A write as plugins see it.
#[derive(Debug)]
pub struct AdmissionRequest<'a> {
    /// Who asks.
    pub user: &'a User,
    /// What is being done.
    pub operation: Operation,
    /// The resource.
    pub resource: &'a Resource,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The namespace, or empty.
    pub namespace: &'a str,
    /// The object's name; empty while it is yet to be generated.
    pub name: &'a str,
    /// The stored object, for updates and deletions, in the version of the request.
    pub old: Option<&'a Value>,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// The options of the request (`CreateOptions`, `UpdateOptions`, ...).
    pub options: &'a Value,
}

/// A step on the way of every write.
pub trait Admission: Send + Sync + fmt::Debug {
    /// Whether this plugin has anything to say, asked first so that uninterested plugins cost nothing.
    fn handles(&self, request: &AdmissionRequest<'_>) -> bool;

    /// May change the object, or refuse it. Warnings are sent to the client.
    fn mutate<'a>(
        &'a self,
        request: &'a AdmissionRequest<'a>,
        object: &'a mut Value,
        warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, ApiResult<()>>;

    /// May refuse the object (null for a deletion). Warnings are sent to the client.
    fn validate<'a>(
        &'a self,
        request: &'a AdmissionRequest<'a>,
        object: &'a Value,
        warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, ApiResult<()>>;
}
