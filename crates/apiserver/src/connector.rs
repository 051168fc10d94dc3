//! The interface for serving logs, exec, port-forward and proxies outside of the server.

use std::fmt;

use http::{Response, request::Parts};
use serde_json::Value;
use steersman_api::{BoxFuture, http::Body, resource::Resource, status::ApiResult, user::User};

/// A request for a subresource served outside of the server, such as logs.
#[derive(Debug)]
pub struct Connection<'a> {
    /// The user of the request.
    pub user: &'a User,
    /// The resource, such as `pods`.
    pub resource: &'a Resource,
    /// The subresource, such as `log`.
    pub subresource: &'a str,
    /// The remaining path after the subresource, for proxies.
    pub rest: &'a str,
    /// The parent object, in the version of the request.
    pub object: &'a Value,
    /// The HTTP request; its extensions carry what an upgrade needs.
    pub request: &'a Parts,
}

/// Serves logs, exec, port-forward and proxies. Without one, such requests fail with 501.
pub trait Connector: Send + Sync + fmt::Debug {
    /// Responds to a request. The object exists.
    ///
    /// # Errors
    /// The error is returned to the client.
    fn connect<'a>(&'a self, connection: Connection<'a>) -> BoxFuture<'a, ApiResult<Response<Body>>>;
}
