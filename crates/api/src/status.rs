//! API errors: `metav1.Status` with reason, code, details and causes.

use http::StatusCode;
use serde_json::{Map, Value, json};

pub use steersman_structural::go::quote;

use crate::{
    fields::FieldError,
    group_version::{GroupKind, GroupResource, qualified},
    store::JournalError,
};

/// An API error, rendered as a `Status`. Boxed to keep the many `Result`s that carry it small.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError(Box<Refusal>);

/// The content of an [`ApiError`].
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// HTTP status code.
    pub code: StatusCode,
    /// Machine-readable reason.
    pub reason: Reason,
    /// Human-readable message.
    pub message: String,
    /// Name of the affected object.
    pub name: String,
    /// API group of the affected object.
    pub group: String,
    /// Affected resource or kind (the API uses either here).
    pub kind: String,
    /// Uid of the affected object, if a precondition named one.
    pub uid: String,
    /// Errors of an invalid object, by field.
    pub causes: Vec<Cause>,
    /// Seconds that a client should wait before retrying.
    pub retry_after_seconds: Option<u32>,
    /// Whether `details` is written even if empty.
    pub always_details: bool,
    /// `Status` returned by a webhook, to which code and message are added; null if there is none.
    pub status: Value,
}

/// Machine-readable reason of an error: `reason` of a `Status`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// No reason is given.
    #[default]
    Unknown,
    /// 409: an object of that name already exists.
    AlreadyExists,
    /// 400: the request is malformed.
    BadRequest,
    /// 409: the object is not in the state that the request expects.
    Conflict,
    /// 410: the resourceVersion is too old.
    Expired,
    /// 403: the request is not allowed.
    Forbidden,
    /// 500: an internal error.
    InternalError,
    /// 422: the object fails validation.
    Invalid,
    /// 405: the resource does not support the verb.
    MethodNotAllowed,
    /// 406: none of the accepted media types is supported.
    NotAcceptable,
    /// 404: the object does not exist.
    NotFound,
    /// 501: the feature is not implemented.
    NotImplemented,
    /// 413: the body is too large.
    RequestEntityTooLarge,
    /// 503: the server is temporarily unable to handle the request.
    ServiceUnavailable,
    /// 504: the request timed out.
    Timeout,
    /// 429: too many requests, or a disruption budget does not allow it.
    TooManyRequests,
    /// 401: the credentials are missing or invalid.
    Unauthorized,
    /// 415: the media type of the body is not supported.
    UnsupportedMediaType,
}

impl Reason {
    /// Returns the reason as written in a `Status`; empty for [`Reason::Unknown`].
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::AlreadyExists => "AlreadyExists",
            Self::BadRequest => "BadRequest",
            Self::Conflict => "Conflict",
            Self::Expired => "Expired",
            Self::Forbidden => "Forbidden",
            Self::InternalError => "InternalError",
            Self::Invalid => "Invalid",
            Self::MethodNotAllowed => "MethodNotAllowed",
            Self::NotAcceptable => "NotAcceptable",
            Self::NotFound => "NotFound",
            Self::NotImplemented => "NotImplemented",
            Self::RequestEntityTooLarge => "RequestEntityTooLarge",
            Self::ServiceUnavailable => "ServiceUnavailable",
            Self::Timeout => "Timeout",
            Self::TooManyRequests => "TooManyRequests",
            Self::Unauthorized => "Unauthorized",
            Self::UnsupportedMediaType => "UnsupportedMediaType",
        }
    }
}

/// One entry of `details.causes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Machine-readable cause such as `FieldValueInvalid`.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
    /// Path of the affected field.
    pub field: String,
}

/// Joins errors into one message without duplicates, like Go's `errors.NewAggregate`.
pub fn aggregate<E: std::fmt::Display>(errors: &[E]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for text in errors.iter().map(ToString::to_string) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// Result with an [`ApiError`].
pub type ApiResult<T> = Result<T, ApiError>;

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for ApiError {}

impl std::ops::Deref for ApiError {
    type Target = Refusal;

    fn deref(&self) -> &Refusal {
        &self.0
    }
}

impl std::ops::DerefMut for ApiError {
    fn deref_mut(&mut self) -> &mut Refusal {
        &mut self.0
    }
}

impl ApiError {
    /// Creates an error with a code, a reason and a message.
    pub fn new(code: StatusCode, reason: Reason, message: impl Into<String>) -> Self {
        Self(Box::new(Refusal {
            code,
            reason,
            message: message.into(),
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds: None,
            always_details: false,
            status: Value::Null,
        }))
    }

    /// Creates an error from a webhook's `Status`, with this server's code and message.
    pub fn passed_on(code: StatusCode, message: String, status: Value) -> Self {
        let mut error = Self::new(code, Reason::Unknown, message);
        error.status = status;
        error
    }

    /// Sets group, resource or kind, and name of the affected object.
    #[must_use]
    pub fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        (self.group, self.kind, self.name) = (group.into(), kind.into(), name.into());
        self
    }

    /// 404: the object does not exist.
    #[must_use]
    pub fn not_found<'a>(resource: impl Into<GroupResource<'a>>, name: &str) -> Self {
        let resource = resource.into();
        let message = format!("{} {} not found", resource.qualified(), quote(name));
        Self::new(StatusCode::NOT_FOUND, Reason::NotFound, message).about(
            resource.group,
            resource.resource,
            name,
        )
    }

    /// 409: an object of that name already exists.
    #[must_use]
    pub fn already_exists<'a>(resource: impl Into<GroupResource<'a>>, name: &str) -> Self {
        let resource = resource.into();
        let message = format!("{} {} already exists", resource.qualified(), quote(name));
        Self::new(StatusCode::CONFLICT, Reason::AlreadyExists, message).about(
            resource.group,
            resource.resource,
            name,
        )
    }

    /// 409: the object is not in the state that the request expects.
    #[must_use]
    pub fn conflict<'a>(resource: impl Into<GroupResource<'a>>, name: &str, why: &str) -> Self {
        let resource = resource.into();
        let message =
            format!("Operation cannot be fulfilled on {} {}: {why}", resource.qualified(), quote(name));
        Self::new(StatusCode::CONFLICT, Reason::Conflict, message).about(
            resource.group,
            resource.resource,
            name,
        )
    }

    /// 409: the object was modified concurrently.
    #[must_use]
    pub fn modified<'a>(resource: impl Into<GroupResource<'a>>, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 422: the object fails validation.
    #[must_use]
    pub fn invalid<'a>(resource: impl Into<GroupKind<'a>>, name: &str, errors: Vec<FieldError>) -> Self {
        let GroupKind { group, kind } = resource.into();
        Self::invalid_kind(group, kind, name, errors)
    }

    /// 422: an object of a kind that is not a resource, such as `DeleteOptions`, fails validation.
    #[must_use]
    pub fn invalid_kind(group: &str, kind: &str, name: &str, errors: Vec<FieldError>) -> Self {
        // The message lists each error once, the causes list every occurrence.
        let mut texts: Vec<String> = Vec::new();
        for error in &errors {
            let text = error.to_string();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let list = match texts.as_slice() {
            [] => "<nil>".to_owned(),
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let qualified = qualified(kind, group);
        let message = format!("{qualified} {} is invalid: {list}", quote(name));
        let mut error =
            Self::new(StatusCode::UNPROCESSABLE_ENTITY, Reason::Invalid, message).about(group, kind, name);
        error.causes = errors
            .into_iter()
            .map(|e| Cause { reason: e.kind.reason().into(), message: e.body(), field: e.field })
            .collect();
        error
    }

    /// 400: the request is malformed.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Reason::BadRequest, message)
    }

    /// 403: the request is not allowed.
    #[must_use]
    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let qualified = qualified(resource, group);
        let message = match (resource.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (false, true) => format!("{qualified} is forbidden: {why}"),
            (false, false) => format!("{qualified} {} is forbidden: {why}", quote(name)),
        };
        Self::new(StatusCode::FORBIDDEN, Reason::Forbidden, message).about(group, resource, name)
    }

    /// 401: the credentials are missing or invalid.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, Reason::Unauthorized, "Unauthorized")
    }

    /// 405: the resource does not support the verb.
    #[must_use]
    pub fn method_not_supported(group: &str, resource: &str, action: &str) -> Self {
        let qualified = qualified(resource, group);
        let message = format!("{action} is not supported on resources of kind {}", quote(&qualified));
        Self::new(StatusCode::METHOD_NOT_ALLOWED, Reason::MethodNotAllowed, message)
            .about(group, resource, "")
    }

    /// 405: the path does not support the method.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, Reason::MethodNotAllowed, message)
    }

    /// 410: the requested resourceVersion is too old.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, Reason::Expired, message)
    }

    /// 500 without a reason: an error that kube-apiserver does not classify either.
    pub fn unforeseen(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, Reason::Unknown, message)
    }

    /// 500: an internal error.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        let message = format!("Internal error occurred: {message}");
        let mut error = Self::new(StatusCode::INTERNAL_SERVER_ERROR, Reason::InternalError, message.clone());
        error.causes.push(Cause {
            reason: String::new(),
            message: message.trim_start_matches("Internal error occurred: ").into(),
            field: String::new(),
        });
        error
    }

    /// 503: the write was rolled back because the journal failed. Clients may retry.
    #[must_use]
    pub fn read_only(error: &JournalError) -> Self {
        let mut refusal =
            Self::new(StatusCode::SERVICE_UNAVAILABLE, Reason::ServiceUnavailable, error.to_string());
        refusal.retry_after_seconds = Some(1);
        refusal
    }

    /// 415: the patch's media type is not supported.
    #[must_use]
    pub fn unsupported_patch_type() -> Self {
        let message = "415: Unsupported Media Type";
        let mut error = Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Reason::UnsupportedMediaType, message);
        error.always_details = true;
        error
    }

    /// 415: the body's media type is not supported.
    #[must_use]
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Reason::UnsupportedMediaType, message)
    }

    /// 406: the client requests a representation that is not supported, such as an unknown `as=`.
    #[must_use]
    pub fn no_such_form(accepted: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Self::new(StatusCode::NOT_ACCEPTABLE, Reason::NotAcceptable, message)
    }

    /// 406: the client accepts none of the supported media types.
    #[must_use]
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {}", accepted.join(", "));
        let mut error = Self::new(StatusCode::NOT_ACCEPTABLE, Reason::NotAcceptable, message);
        error.always_details = true;
        error
    }

    /// 504: the requested resourceVersion is newer than the current one.
    #[must_use]
    pub fn too_large_resource_version(asked: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {asked}, current: {current}");
        let mut error =
            Self::new(StatusCode::GATEWAY_TIMEOUT, Reason::Timeout, format!("Timeout: {message}"));
        error.causes.push(Cause {
            reason: "ResourceVersionTooLarge".into(),
            message: "Too large resource version".into(),
            field: String::new(),
        });
        error.retry_after_seconds = Some(1);
        error
    }

    /// Returns the `Status` object.
    #[must_use]
    pub fn to_value(&self) -> Value {
        if let Value::Object(given) = &self.status {
            let mut status = given.clone();
            status.insert("kind".into(), "Status".into());
            status.insert("apiVersion".into(), "v1".into());
            status.entry("metadata").or_insert_with(|| json!({}));
            status.insert("status".into(), "Failure".into());
            status.insert("message".into(), self.message.as_str().into());
            status.insert("code".into(), self.code.as_u16().into());
            return Value::Object(status);
        }
        let mut details = Map::new();
        for (key, text) in
            [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)]
        {
            if !text.is_empty() {
                details.insert(key.into(), Value::String(text.clone()));
            }
        }
        if !self.causes.is_empty() {
            details.insert("causes".into(), self.causes.iter().map(Cause::to_value).collect());
        }
        if let Some(wait) = self.retry_after_seconds {
            details.insert("retryAfterSeconds".into(), wait.into());
        }
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code.as_u16(),
        });
        if self.reason != Reason::Unknown {
            status["reason"] = self.reason.as_str().into();
        }
        // The API omits details of errors that concern no object.
        let by_reason = matches!(
            self.reason,
            Reason::NotFound | Reason::Invalid | Reason::MethodNotAllowed | Reason::Forbidden
        );
        if !details.is_empty() || by_reason || self.always_details {
            status["details"] = Value::Object(details);
        }
        status
    }
}

impl Cause {
    fn to_value(&self) -> Value {
        let mut out = Map::new();
        for (key, text) in [("reason", &self.reason), ("message", &self.message), ("field", &self.field)] {
            if !text.is_empty() {
                out.insert(key.into(), Value::String(text.clone()));
            }
        }
        Value::Object(out)
    }
}
