//! Errors as the API speaks them: `metav1.Status` with reason, code, details and causes.

use http::StatusCode;
use serde_json::{Map, Value, json};

pub use steersman_structural::go::quote;

use crate::{
    fields::FieldError,
    group_version::{GroupKind, GroupResource, qualified},
    store::JournalError,
};

/// A refusal, rendered as a `Status` object. Boxed, since results carry it everywhere and it is rarely there.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError(Box<Refusal>);

/// The content of an [`ApiError`].
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// HTTP status code.
    pub code: StatusCode,
    /// Machine readable cause.
    pub reason: Reason,
    /// Text for people.
    pub message: String,
    /// Name of the object concerned.
    pub name: String,
    /// API group of the object concerned.
    pub group: String,
    /// Resource or kind concerned (the API puts either here).
    pub kind: String,
    /// Uid of the object concerned, when a precondition named one.
    pub uid: String,
    /// Details of an invalid object.
    pub causes: Vec<Cause>,
    /// Seconds that a client should wait before it tries again.
    pub retry_after_seconds: Option<u32>,
    /// Whether `details` is written though it is empty.
    pub always_details: bool,
    /// The `Status` that a webhook returned, to which code and message are added; else null.
    pub status: Value,
}

/// Machine readable cause of a refusal: `reason` of a `Status`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// No cause is given.
    #[default]
    Unknown,
    /// 409: an object of that name exists.
    AlreadyExists,
    /// 400: the request makes no sense.
    BadRequest,
    /// 409: the object is not in the state that the request expects.
    Conflict,
    /// 410: the version is no longer remembered.
    Expired,
    /// 403: the request is understood and refused.
    Forbidden,
    /// 500: a fault of the server.
    InternalError,
    /// 422: the object breaks rules of its kind.
    Invalid,
    /// 405: the resource has no such verb.
    MethodNotAllowed,
    /// 406: no accepted form can be written.
    NotAcceptable,
    /// 404: the object does not exist.
    NotFound,
    /// 501: the server does not have the feature.
    NotImplemented,
    /// 413: the body is too large.
    RequestEntityTooLarge,
    /// 503: the server can not do it at the moment.
    ServiceUnavailable,
    /// 504: it takes too long.
    Timeout,
    /// 429: too many requests, or a disruption budget does not allow it.
    TooManyRequests,
    /// 401: the credentials are missing or wrong.
    Unauthorized,
    /// 415: the media type of the body is unknown.
    UnsupportedMediaType,
}

impl Reason {
    /// The word on the wire; empty for [`Reason::Unknown`].
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
    /// Machine readable cause such as `FieldValueInvalid`.
    pub reason: String,
    /// Text for people.
    pub message: String,
    /// Path of the field concerned.
    pub field: String,
}

/// Several errors in one message, each text once, as Go's `errors.NewAggregate` prints them.
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

/// The result of everything that can be refused.
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
    /// An error with nothing but a code, a reason and a message.
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

    /// A refusal by a webhook, with a message of this server.
    pub fn passed_on(code: StatusCode, message: String, status: Value) -> Self {
        let mut error = Self::new(code, Reason::Unknown, message);
        error.status = status;
        error
    }

    /// Names the object concerned by its resource.
    #[must_use]
    pub fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        (self.group, self.kind, self.name) = (group.into(), kind.into(), name.into());
        self
    }

    /// 404: the named object is not there.
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

    /// 409: an object of that name is there already.
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

    /// 409: the object changed in the meantime.
    #[must_use]
    pub fn modified<'a>(resource: impl Into<GroupResource<'a>>, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 422: the object breaks rules of its kind.
    #[must_use]
    pub fn invalid<'a>(resource: impl Into<GroupKind<'a>>, name: &str, errors: Vec<FieldError>) -> Self {
        let GroupKind { group, kind } = resource.into();
        Self::invalid_kind(group, kind, name, errors)
    }

    /// 422 for a kind that is not a resource of its own (options of a request, for instance).
    #[must_use]
    pub fn invalid_kind(group: &str, kind: &str, name: &str, errors: Vec<FieldError>) -> Self {
        // The message says everything once, the causes as often as it was found.
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

    /// 400: the request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Reason::BadRequest, message)
    }

    /// 403: the request is understood and refused.
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

    /// 401: the credentials are missing or wrong.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, Reason::Unauthorized, "Unauthorized")
    }

    /// 405: the resource has no such verb.
    #[must_use]
    pub fn method_not_supported(group: &str, resource: &str, action: &str) -> Self {
        let qualified = qualified(resource, group);
        let message = format!("{action} is not supported on resources of kind {}", quote(&qualified));
        Self::new(StatusCode::METHOD_NOT_ALLOWED, Reason::MethodNotAllowed, message)
            .about(group, resource, "")
    }

    /// 405: the path has no such method.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, Reason::MethodNotAllowed, message)
    }

    /// 410: the version asked for is no longer remembered.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, Reason::Expired, message)
    }

    /// 500 without a reason: the real server did not foresee this either.
    pub fn unforeseen(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, Reason::Unknown, message)
    }

    /// 500: a fault on the server's side.
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

    /// 503: the write was undone, because it can't be kept; it may be tried again.
    #[must_use]
    pub fn read_only(error: &JournalError) -> Self {
        let mut refusal =
            Self::new(StatusCode::SERVICE_UNAVAILABLE, Reason::ServiceUnavailable, error.to_string());
        refusal.retry_after_seconds = Some(1);
        refusal
    }

    /// 415: the patch's media type is unknown.
    #[must_use]
    pub fn unsupported_patch_type() -> Self {
        let message = "415: Unsupported Media Type";
        let mut error = Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Reason::UnsupportedMediaType, message);
        error.always_details = true;
        error
    }

    /// 415: the body's media type is unknown.
    #[must_use]
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Reason::UnsupportedMediaType, message)
    }

    /// 406: the client asks for a form that is not served.
    #[must_use]
    pub fn no_such_form(accepted: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Self::new(StatusCode::NOT_ACCEPTABLE, Reason::NotAcceptable, message)
    }

    /// 406: the client accepts nothing that the server can write.
    #[must_use]
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {}", accepted.join(", "));
        let mut error = Self::new(StatusCode::NOT_ACCEPTABLE, Reason::NotAcceptable, message);
        error.always_details = true;
        error
    }

    /// 504: a version was asked for that this server has not reached.
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

    /// The `Status` object.
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
        // The API leaves details out for errors about nothing in particular.
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
