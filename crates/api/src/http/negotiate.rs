//! Content negotiation by the `Accept` header.

use http::{HeaderMap, HeaderValue, header};

use crate::status::{ApiError, ApiResult};

/// Representation of a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Output {
    /// The object itself.
    #[default]
    Object,
    /// A Table.
    Table(Meta),
    /// Only the metadata of an object: `PartialObjectMetadata`.
    Metadata(Meta),
    /// Only the metadata of a list's items: `PartialObjectMetadataList`.
    MetadataList(Meta),
}

/// Version of `meta.k8s.io` used in a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Meta {
    /// `v1`.
    #[default]
    V1,
    /// `v1beta1`.
    V1Beta1,
}

impl Meta {
    fn parse(version: &str) -> Option<Self> {
        match version {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        }
    }

    /// Returns the apiVersion.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// What the rows of a Table include besides cells (`includeObject`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Include {
    /// Nothing.
    None,
    /// The object's metadata.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

/// Discovery format requested by the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discovery {
    /// Aggregated discovery.
    V2,
    /// Unaggregated discovery lists.
    Legacy,
    /// A format that is not supported.
    Unknown,
}

struct Clause<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl Clause<'_> {
    /// Whether it accepts JSON or YAML.
    fn is_text(&self) -> bool {
        matches!(self.media, JSON | YAML | "*/*")
    }

    /// Whether it accepts protobuf, which is not served for Tables.
    fn is_protobuf(&self) -> bool {
        self.media == PROTOBUF && self.parameter("as") != "Table"
    }

    fn parameter(&self, name: &str) -> &str {
        self.parameters.iter().find(|(k, _)| *k == name).map(|(_, v)| *v).unwrap_or_default()
    }
}

/// The clauses of `Accept` headers, most preferred first.
enum Clauses<'a> {
    /// Most requests send one header with one media type.
    One([Clause<'a>; 1]),
    Many(Vec<Clause<'a>>),
}

impl<'a> std::ops::Deref for Clauses<'a> {
    type Target = [Clause<'a>];

    fn deref(&self) -> &Self::Target {
        match self {
            Self::One(one) => one,
            Self::Many(many) => many,
        }
    }
}

fn clauses(headers: &HeaderMap) -> Clauses<'_> {
    let mut values = headers.get_all(header::ACCEPT).iter();
    if let (Some(Ok(media)), None) = (values.next().map(HeaderValue::to_str), values.next())
        && !media.is_empty()
        && memchr::memchr3(b',', b';', b' ', media.as_bytes()).is_none()
    {
        return Clauses::One([Clause { media, parameters: Vec::new() }]);
    }
    let mut all: Vec<(f32, Clause<'_>)> = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','))
        .filter_map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let media = parts.next().filter(|m| !m.is_empty())?;
            let parameters: Vec<_> = parts.filter_map(|p| p.split_once('=')).collect();
            let clause = Clause { media, parameters };
            let quality = clause.parameter("q").parse().unwrap_or(1.0);
            Some((quality, clause))
        })
        .collect();
    // The sort is stable: clauses of equal quality keep the client's order.
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    Clauses::Many(all.into_iter().map(|(_, c)| c).collect())
}

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
/// Media type of Kubernetes protobuf, wrapped in `runtime.Unknown`.
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const SERVED: [&str; 3] = [JSON, YAML, PROTOBUF];

/// Encoding of a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Encoding {
    /// `application/json`.
    #[default]
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`, for clients that accept neither JSON nor YAML.
    Protobuf,
}

impl Encoding {
    /// Returns the encoding for responses that have only one representation.
    pub fn of(headers: &HeaderMap) -> Self {
        let clauses = clauses(headers);
        match clauses.iter().find(|clause| clause.is_text()) {
            Some(clause) if clause.media == YAML => Self::Yaml,
            None if clauses.iter().any(|c| c.is_protobuf() && c.parameter("as").is_empty()) => Self::Protobuf,
            _ => Self::Json,
        }
    }
}

/// Media type of OpenAPI v2 in protobuf, as responses name it.
pub const OPENAPI_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// The older name of the same media type, which clients may request.
const OPENAPI_PROTOBUF_OLD: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// Whether the client prefers OpenAPI v2 in protobuf.
pub fn wants_openapi_protobuf(headers: &HeaderMap) -> bool {
    let protobuf = |media: &str| matches!(media, OPENAPI_PROTOBUF | OPENAPI_PROTOBUF_OLD);
    let known = |c: &Clause<'_>| protobuf(c.media) || matches!(c.media, JSON | "*/*");
    clauses(headers).iter().find(|clause| known(clause)).is_some_and(|c| protobuf(c.media))
}

/// Negotiates representation and encoding of a response. Since objects are stored as JSON, clients that accept both
/// JSON and protobuf get JSON.
pub fn negotiate(headers: &HeaderMap) -> ApiResult<(Output, Encoding)> {
    let clauses = clauses(headers);
    if clauses.is_empty() {
        return Ok((Output::Object, Encoding::Json));
    }
    let mut understood = false;
    let text = clauses.iter().filter(|clause| clause.is_text());
    for clause in text.chain(clauses.iter().filter(|clause| clause.is_protobuf())) {
        understood = true;
        let meta = Meta::parse(clause.parameter("v")).filter(|_| clause.parameter("g") == "meta.k8s.io");
        let output = match (clause.parameter("as"), meta) {
            ("", _) => Output::Object,
            ("Table", Some(meta)) => Output::Table(meta),
            ("PartialObjectMetadata", Some(meta)) => Output::Metadata(meta),
            ("PartialObjectMetadataList", Some(meta)) => Output::MetadataList(meta),
            _ => continue,
        };
        let encoding = match clause.media {
            YAML => Encoding::Yaml,
            PROTOBUF => Encoding::Protobuf,
            _ => Encoding::Json,
        };
        return Ok((output, encoding));
    }
    let understood = understood || clauses.iter().any(|clause| clause.media == PROTOBUF);
    Err(if understood { no_such_form() } else { ApiError::not_acceptable(&SERVED) })
}

/// Discovery format requested by the client.
pub fn wants_discovery(headers: &HeaderMap) -> Discovery {
    let clauses = clauses(headers);
    let mut asked = clauses.iter().filter(|c| c.media == "application/json").peekable();
    if asked.peek().is_none() {
        return Discovery::Legacy;
    }
    asked
        .find_map(|c| match (c.parameter("as"), c.parameter("v")) {
            ("", _) => Some(Discovery::Legacy),
            ("APIGroupDiscoveryList", "v2") => Some(Discovery::V2),
            _ => None,
        })
        .unwrap_or(Discovery::Unknown)
}

/// Returns the 406 error for a representation that is not supported.
pub fn no_such_form() -> ApiError {
    ApiError::no_such_form(&SERVED)
}

/// Returns the media type of a request body, without parameters.
pub fn media_type(headers: &HeaderMap) -> &str {
    let text = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(accept: &str) -> ApiResult<Output> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        negotiate(&headers).map(|(output, _)| output)
    }

    #[test]
    fn the_first_form_that_can_be_served_wins() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(output(kubectl).unwrap(), Output::Table(Meta::V1));
        let client_go = "application/vnd.kubernetes.protobuf, application/json";
        assert_eq!(output(client_go).unwrap(), Output::Object);
        assert_eq!(
            output("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").unwrap(),
            Output::MetadataList(Meta::V1)
        );
        assert_eq!(output("*/*").unwrap(), Output::Object);
        assert_eq!(output("text/html").unwrap_err().code.as_u16(), 406);
    }

    #[test]
    fn an_answer_is_written_as_the_form_that_was_chosen() {
        for (accept, expected) in [
            ("application/yaml;as=Unknown, application/json", Encoding::Json),
            ("application/json;as=Unknown, application/yaml", Encoding::Yaml),
            ("application/yaml;as=Table;v=v1;g=meta.k8s.io, application/json", Encoding::Yaml),
            ("*/*, application/yaml", Encoding::Json),
            ("application/vnd.kubernetes.protobuf, application/json", Encoding::Json),
            ("application/vnd.kubernetes.protobuf", Encoding::Protobuf),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            assert_eq!(negotiate(&headers).unwrap().1, expected, "{accept}");
        }
    }

    #[test]
    fn a_single_representation_is_encoded_as_accepted() {
        for (accept, expected) in [
            ("application/json", Encoding::Json),
            ("application/yaml", Encoding::Yaml),
            ("application/vnd.kubernetes.protobuf, application/yaml", Encoding::Yaml),
            ("application/vnd.kubernetes.protobuf", Encoding::Protobuf),
            ("application/vnd.kubernetes.protobuf;as=Table", Encoding::Json),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]);
            assert_eq!(Encoding::of(&headers), expected, "{accept}");
        }
    }
}
