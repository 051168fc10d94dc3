//! Parts of objects that live outside of the server: logs, exec, port-forward, proxies.

use std::fmt;

use http::{Response, StatusCode, request::Parts};
use serde_json::Value;

use crate::{
    admission::{BoxFuture, Operation},
    auth::User,
    call::Call,
    catalog::Resource,
    http::Body,
    pipeline,
    status::{ApiError, ApiResult},
};

/// A request for such a part.
#[derive(Debug)]
pub struct Connection<'a> {
    /// Who asks.
    pub user: &'a User,
    /// The resource, such as `pods`.
    pub resource: &'a Resource,
    /// The part, such as `log`.
    pub subresource: &'a str,
    /// What follows it in the path, for proxies.
    pub rest: &'a str,
    /// The object that it belongs to, as served.
    pub object: &'a Value,
    /// The HTTP request; its extensions carry what an upgrade needs.
    pub request: &'a Parts,
}

/// Answers for what the server itself does not keep. Without one, such requests are answered with 501.
pub trait Connector: Send + Sync + fmt::Debug {
    /// Answers a request. The object is known to exist.
    ///
    /// # Errors
    /// The refusal is sent to the client.
    fn connect<'a>(&'a self, connection: Connection<'a>) -> BoxFuture<'a, ApiResult<Response<Body>>>;
}

/// Whether a subresource is a connection.
pub(crate) fn is_connection(subresource: &str) -> bool {
    matches!(subresource, "log" | "exec" | "attach" | "portforward" | "proxy")
}

/// Leads a request to the connector.
pub(crate) async fn connect(call: &mut Call, request: &Parts, rest: &str) -> ApiResult<Response<Body>> {
    let object = call.to_served(call.stored()?.value())?;
    if call.subresource_name() != "log" {
        pipeline::validate(call, Operation::Connect, &Value::Null, Some(&object)).await?;
    }
    let Some(connector) = &call.core.connector else {
        let part = format!("{}/{}", call.resource.plural, call.subresource_name());
        return Err(ApiError::new(
            StatusCode::NOT_IMPLEMENTED,
            "",
            format!("{part} is not served: nothing runs here"),
        ));
    };
    let connection = Connection {
        user: &call.user,
        resource: &call.resource,
        subresource: call.subresource_name(),
        rest,
        object: &object,
        request,
    };
    connector.connect(connection).await
}
