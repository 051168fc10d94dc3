//! The interface to logs, exec, port-forward and proxies, which are served outside of the server.

use std::fmt;

use http::{Response, request::Parts};
use serde_json::Value;
use steersman_api::{BoxFuture, http::Body, resource::Resource, status::ApiResult, user::User};

/// A request for a subresource that is served outside of the server, such as logs.
#[derive(Debug)]
pub struct Connection<'a> {
    /// The user of the request.
    pub user: &'a User,
    /// The resource, such as `pods`.
    pub resource: &'a Resource,
    /// The subresource, such as `log`.
    pub subresource: &'a str,
    /// What follows it in the path, for proxies.
    pub rest: &'a str,
    /// The object that it belongs to, as served.
    pub object: &'a Value,
    /// The HTTP request; its extensions carry what an upgrade needs.
    pub request: &'a Parts,
}

/// Serves logs, exec, port-forward and proxies. Without one, such requests are answered with 501.
pub trait Connector: Send + Sync + fmt::Debug {
    /// Answers a request. The object is known to exist.
    ///
    /// # Errors
    /// The refusal is sent to the client.
    fn connect<'a>(&'a self, connection: Connection<'a>) -> BoxFuture<'a, ApiResult<Response<Body>>>;
}
