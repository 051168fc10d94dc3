//! Request parsing: path, parameters and body.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, header};
use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::{
    Shared,
    identity::Caller,
    kinds::Kind,
    problem::{Problem, Result},
};

/// The resource that a path names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Me,
    Session,
    /// Redirects a browser to the OpenID provider.
    Oidc,
    /// The path to which the provider redirects back.
    OidcCallback,
    Overview,
    Audit,
    Operator,
    OpenApi,
    Kinds,
    Kind(String),
    Access(String),
    Instances {
        kind: String,
        namespace: Option<String>,
    },
    Instance {
        kind: String,
        namespace: Option<String>,
        name: String,
        part: Part,
    },
}

/// A part of one instance.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    Status,
    Events,
    Tree,
    Logs,
    Actions,
    Action(String),
    History,
    Revision(String),
}

impl Route {
    /// Parses the path of an API request. None if it is not part of the API, but a page.
    pub(crate) fn parse(path: &str) -> Option<Result<Self>> {
        if embedded_action(path).is_some() {
            return None;
        }
        if path == "/openapi.json" {
            return Some(Ok(Self::OpenApi));
        }
        let rest = path.strip_prefix("/v1/").or_else(|| (path == "/v1").then_some(""))?;
        Some(Self::segments(rest))
    }

    fn segments(rest: &str) -> Result<Self> {
        let unknown = || Problem::not_found("no such endpoint; docs/rest.md lists the endpoints");
        let segments: Vec<String> =
            rest.split('/').map(segment).collect::<Option<_>>().ok_or_else(unknown)?;
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let own = |text: &str| text.to_owned();
        Ok(match segments.as_slice() {
            ["me"] => Self::Me,
            ["session"] => Self::Session,
            ["session", "oidc"] => Self::Oidc,
            ["session", "oidc", "callback"] => Self::OidcCallback,
            ["overview"] => Self::Overview,
            ["audit"] => Self::Audit,
            ["operator"] => Self::Operator,
            ["kinds"] => Self::Kinds,
            ["kinds", kind] => Self::Kind(own(kind)),
            ["kinds", kind, "access"] => Self::Access(own(kind)),
            ["kinds", kind, "instances"] => Self::Instances { kind: own(kind), namespace: None },
            ["kinds", kind, "namespaces", namespace, "instances"] => {
                Self::Instances { kind: own(kind), namespace: Some(own(namespace)) }
            }
            ["kinds", kind, "instances", name, part @ ..] => Self::Instance {
                kind: own(kind),
                namespace: None,
                name: own(name),
                part: Part::parse(part).ok_or_else(unknown)?,
            },
            ["kinds", kind, "namespaces", namespace, "instances", name, part @ ..] => Self::Instance {
                kind: own(kind),
                namespace: Some(own(namespace)),
                name: own(name),
                part: Part::parse(part).ok_or_else(unknown)?,
            },
            _ => return Err(unknown()),
        })
    }

    /// The supported methods, for `Allow`.
    pub(crate) fn methods(&self) -> &'static [Method] {
        match self {
            Self::Session => &[Method::GET, Method::POST, Method::DELETE],
            Self::Oidc | Self::OidcCallback => &[Method::GET],
            Self::Instances { .. } => &[Method::GET, Method::HEAD, Method::POST],
            Self::Instance { part: Part::Whole, .. } => {
                &[Method::GET, Method::HEAD, Method::PUT, Method::PATCH, Method::DELETE]
            }
            Self::Instance { part: Part::Action(_), .. } => &[Method::POST],
            _ => &[Method::GET, Method::HEAD],
        }
    }
}

impl Part {
    fn parse(segments: &[&str]) -> Option<Self> {
        Some(match segments {
            [] => Self::Whole,
            ["status"] => Self::Status,
            ["events"] => Self::Events,
            ["tree"] => Self::Tree,
            ["logs"] => Self::Logs,
            ["actions"] => Self::Actions,
            ["actions", action] => Self::Action((*action).to_owned()),
            ["history"] => Self::History,
            ["history", revision] => Self::Revision((*revision).to_owned()),
            _ => return None,
        })
    }
}

/// Returns the action of `/v1/embed/{action}`, a page with a button.
pub(crate) fn embedded_action(path: &str) -> Option<String> {
    segment(path.strip_prefix("/v1/embed/")?)
}

/// Decodes a path segment once. Rejects segments that would change the path of a request to the cluster.
fn segment(raw: &str) -> Option<String> {
    let text = percent_decode_str(raw).decode_utf8().ok()?;
    let is_name = !text.is_empty()
        && text.len() <= 253
        && text != "."
        && text != ".."
        && !text
            .chars()
            .any(|character| matches!(character, '/' | '%' | '\\' | '?' | '#') || character.is_control());
    is_name.then(|| text.into_owned())
}

/// The query parameters of a request.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        Self(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    /// Rejects unknown parameters: a misspelt one would be ignored otherwise.
    pub(crate) fn allow(&self, known: &[&str]) -> Result<()> {
        match self.0.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some((name, _)) if known.is_empty() => {
                Err(Problem::bad_request(format!("parameter {name}: this endpoint has no parameters")))
            }
            Some((name, _)) => {
                let known = known.join(", ");
                Err(Problem::bad_request(format!("unknown parameter {name}; available: {known}")))
            }
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(known, _)| known == name)?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn flag(&self, name: &str) -> Result<bool> {
        match self.get(name) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1" | "All") => Ok(true),
            Some(other) => {
                Err(Problem::bad_request(format!("parameter {name}: {other:?} must be true or false")))
            }
        }
    }

    pub(crate) fn number(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        let wrong = || {
            Problem::bad_request(format!("parameter {name}: {text:?} is not a number from {least} to {most}"))
        };
        number.map(Some).ok_or_else(wrong)
    }

    /// Parses a duration such as `90s`, `5m` or `90`.
    pub(crate) fn duration(&self, name: &str, most: Duration) -> Result<Option<Duration>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let (digits, unit) = match text.strip_suffix('m') {
            Some(minutes) => (minutes, 60),
            None => (text.strip_suffix('s').unwrap_or(text), 1),
        };
        let seconds = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
        let time = seconds.map(Duration::from_secs).filter(|time| *time <= most);
        let wrong = || {
            Problem::bad_request(format!(
                "parameter {name}: {text:?} is not a duration such as 90s or 5m, up to {}s",
                most.as_secs()
            ))
        };
        time.map(Some).ok_or_else(wrong)
    }
}

/// An authenticated request, with everything needed to answer it.
pub(crate) struct RequestContext {
    pub(crate) shared: Arc<Shared>,
    pub(crate) caller: Caller,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) query: Query,
    pub(crate) body: Bytes,
    pub(crate) remote: String,
    pub(crate) id: String,
}

impl RequestContext {
    pub(crate) async fn kind(&self, name: &str) -> Result<Arc<Kind>> {
        self.shared.kinds.find(name, self.query.get("version")).await
    }

    pub(crate) fn header(&self, name: impl header::AsHeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub(crate) fn accepts(&self, media_type: &str) -> bool {
        self.header(header::ACCEPT).is_some_and(|accept| {
            accept.split(',').any(|one| one.split(';').next().is_some_and(|name| name.trim() == media_type))
        })
    }

    pub(crate) fn wants_stream(&self) -> bool {
        self.accepts("text/event-stream")
    }

    /// The media type of the body, without parameters.
    pub(crate) fn media_type(&self) -> String {
        let value = self.header(header::CONTENT_TYPE).unwrap_or("application/json");
        value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// Parses the body as JSON, or as YAML if its media type says so.
    pub(crate) fn json(&self) -> Result<Value> {
        match self.media_type().as_str() {
            "application/yaml" | "application/x-yaml" | "text/yaml" | "application/apply-patch+yaml" => {
                steersman_yaml::from_slice(&self.body)
                    .map_err(|error| Problem::bad_request(format!("the body is not valid YAML: {error}")))
            }
            "application/json" | "application/merge-patch+json" | "application/json-patch+json" => {
                serde_json::from_slice(&self.body)
                    .map_err(|error| Problem::bad_request(format!("the body is not valid JSON: {error}")))
            }
            other => Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "UnsupportedMediaType",
                format!("Content-Type {other} is not supported; use application/json or application/yaml"),
            )),
        }
    }

    /// Returns the resourceVersion of the `If-Match` header.
    pub(crate) fn if_match(&self) -> Result<Option<String>> {
        let Some(text) = self.header(header::IF_MATCH) else { return Ok(None) };
        if text.trim() == "*" {
            return Ok(None);
        }
        let tag = text.trim().trim_start_matches("W/").trim_matches('"');
        let is_tag = !tag.is_empty() && !tag.contains(['"', ',']);
        is_tag
            .then(|| Some(tag.to_owned()))
            .ok_or_else(|| Problem::bad_request("If-Match must be a single entity tag"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(path: &str) -> Option<(String, Option<String>, String, Part)> {
        match Route::parse(path)?.ok()? {
            Route::Instance { kind, namespace, name, part } => Some((kind, namespace, name, part)),
            _ => None,
        }
    }

    #[test]
    fn addresses_are_read() {
        let (kind, namespace, name, part) =
            instance("/v1/kinds/shops.example.com/namespaces/team-a/instances/shop/actions/scale").unwrap();
        assert_eq!(
            (kind.as_str(), namespace.as_deref(), name.as_str()),
            ("shops.example.com", Some("team-a"), "shop")
        );
        assert_eq!(part, Part::Action("scale".into()));
        assert_eq!(instance("/v1/kinds/nodes/instances/a").unwrap().1, None);
        assert!(Route::parse("/index.html").is_none());
        assert!(Route::parse("/v1").unwrap().is_err());
    }

    #[test]
    fn paths_that_lead_elsewhere_name_nothing() {
        for name in [
            "..",
            ".",
            "",
            "%2e%2e",
            "a%2fb",
            "%2e%2e%2fsecrets",
            "a%00",
            "a%5cb",
            "a%253fb",
            "a%3fb",
            "%ff",
            "%0a",
        ] {
            let path = format!("/v1/kinds/shops.example.com/namespaces/a/instances/{name}");
            assert!(Route::parse(&path).unwrap().is_err(), "{name}");
        }
    }

    #[test]
    fn times_and_numbers_have_bounds() {
        let query = Query::parse("timeout=5m&limit=0&x=1");
        let hour = Duration::from_secs(3600);
        assert_eq!(query.duration("timeout", hour).unwrap(), Some(Duration::from_secs(300)));
        assert!(query.duration("timeout", Duration::from_secs(60)).is_err());
        assert!(query.number("limit", 1, 10).is_err());
        assert!(query.allow(&["timeout", "limit"]).is_err());
    }
}
