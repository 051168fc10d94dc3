//! The interface of custom admission plugins.

use std::fmt;

use serde_json::Value;
use steersman_api::{BoxFuture, status::ApiResult};

use crate::{auth::User, catalog::Resource};

/// The operation of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Creates an object.
    Create,
    /// Updates or patches an object.
    Update,
    /// Deletes an object.
    Delete,
    /// Connects to a subresource such as `exec`.
    Connect,
}

/// A write as plugins see it.
#[derive(Debug)]
pub struct AdmissionRequest<'a> {
    /// The user who made the request.
    pub user: &'a User,
    /// The operation.
    pub operation: Operation,
    /// The resource.
    pub resource: &'a Resource,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The namespace, or empty.
    pub namespace: &'a str,
    /// The object's name; empty if it is yet to be generated.
    pub name: &'a str,
    /// The stored object, for updates and deletions, in the version of the request.
    pub old: Option<&'a Value>,
    /// Whether the request is a dry run: nothing will be stored.
    pub dry_run: bool,
    /// The options of the request (`CreateOptions`, `UpdateOptions`, ...).
    pub options: &'a Value,
}

/// An admission plugin, called for every write it handles.
pub trait Admission: Send + Sync + fmt::Debug {
    /// Whether the plugin handles this request; called first, so that uninterested plugins cost nothing.
    fn handles(&self, request: &AdmissionRequest<'_>) -> bool;

    /// Mutates or rejects the object. Warnings are sent to the client.
    fn mutate<'a>(
        &'a self,
        request: &'a AdmissionRequest<'a>,
        object: &'a mut Value,
        warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, ApiResult<()>>;

    /// Validates the object (null for a deletion). Warnings are sent to the client.
    fn validate<'a>(
        &'a self,
        request: &'a AdmissionRequest<'a>,
        object: &'a Value,
        warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, ApiResult<()>>;
}
