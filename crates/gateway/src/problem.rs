//! Errors as clients see them: `application/problem+json`.

use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

use crate::answer::{self, Body};

/// The reason why a request was refused or failed.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) reason: String,
    pub(crate) detail: String,
    causes: Vec<Value>,
    /// Additional members of the document.
    extra: Map<String, Value>,
    retry_after: Option<u64>,
}

pub(crate) type Result<T, E = Problem> = std::result::Result<T, E>;

impl Problem {
    pub(crate) fn new(status: StatusCode, reason: &str, detail: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.to_owned(),
            detail: detail.into(),
            causes: Vec::new(),
            extra: Map::new(),
            retry_after: None,
        }
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", detail)
    }

    pub(crate) fn invalid(field: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let mut problem =
            Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", format!("{field}: {message}"));
        problem.causes.push(json!({"field": field, "reason": "FieldValueInvalid", "message": message}));
        problem
    }

    pub(crate) fn unauthorized(detail: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", detail)
    }

    pub(crate) fn too_many(detail: &str, seconds: u64) -> Self {
        let mut problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", detail);
        problem.retry_after = Some(seconds);
        problem
    }

    /// The cluster could not be reached.
    pub(crate) fn unreachable(error: &dyn std::fmt::Display) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "Unavailable",
            format!("the cluster is unreachable: {error}"),
        )
    }

    /// Converts a `Status` of the API server.
    pub(crate) fn from_status(code: StatusCode, status: &Value) -> Self {
        let text = |name: &str| status[name].as_str().unwrap_or_default().to_owned();
        let mut reason = text("reason");
        if reason.is_empty() {
            reason = code.canonical_reason().unwrap_or("Unknown").replace(' ', "");
        }
        let mut detail = text("message");
        if detail.is_empty() {
            detail = format!("the cluster answered {code}");
        }
        // Anything but an error would be a response that this server never makes.
        let status_code =
            if code.is_client_error() || code.is_server_error() { code } else { StatusCode::BAD_GATEWAY };
        let mut problem = Self::new(status_code, &reason, detail);
        let causes = status.pointer("/details/causes").and_then(Value::as_array);
        problem.causes = causes.into_iter().flatten().map(cause).collect();
        problem.retry_after = status.pointer("/details/retryAfterSeconds").and_then(Value::as_u64);
        problem
    }

    /// Adds an extension member to the document.
    pub(crate) fn with(mut self, name: &str, value: Value) -> Self {
        self.extra.insert(name.to_owned(), value);
        self
    }

    /// Replaces the status and reason, such as 412 for a conflict on a precondition that the caller
    /// set.
    pub(crate) fn with_status(mut self, status: StatusCode, reason: &str) -> Self {
        self.status = status;
        reason.clone_into(&mut self.reason);
        self
    }

    pub(crate) fn document(&self, request_id: &str) -> Value {
        let mut document = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "reason": self.reason,
            "detail": self.detail,
            "causes": self.causes,
            "requestId": request_id,
        });
        if let Some(members) = document.as_object_mut() {
            members.extend(self.extra.clone());
        }
        document
    }

    pub(crate) fn response(&self, request_id: &str) -> Response<Body> {
        let mut response =
            answer::bytes(self.status, "application/problem+json", self.document(request_id).to_string());
        let headers = response.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

fn cause(cause: &Value) -> Value {
    json!({
        "field": cause["field"].as_str().unwrap_or_default(),
        "reason": cause["reason"].as_str().unwrap_or_default(),
        "message": cause["message"].as_str().unwrap_or_default(),
    })
}
