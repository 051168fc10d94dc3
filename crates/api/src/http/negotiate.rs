//! Content negotiation: the form in which a client wants its answer.

use http::{HeaderMap, HeaderValue, header};

use crate::status::{ApiError, ApiResult};

/// The form of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Output {
    /// The object itself.
    #[default]
    Object,
    /// A Table.
    Table(Meta),
    /// Metadata alone: of one object, as `PartialObjectMetadata`.
    Metadata(Meta),
    /// Metadata alone: of a list, as `PartialObjectMetadataList`.
    MetadataList(Meta),
}

/// The version of `meta.k8s.io` that an answer is written in.
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

    /// The apiVersion.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// Content of a Table's rows besides cells (`includeObject`).
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

/// Which discovery form the client asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discovery {
    /// The aggregated document.
    V2,
    /// The older lists.
    Legacy,
    /// A form that is not served.
    Unknown,
}

struct Clause<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl Clause<'_> {
    /// Whether it takes one of the encodings that need no conversion.
    fn is_text(&self) -> bool {
        matches!(self.media, JSON | YAML | "*/*")
    }

    /// Whether it takes protobuf, of which there are no Tables.
    fn is_protobuf(&self) -> bool {
        self.media == PROTOBUF && self.parameter("as") != "Table"
    }

    fn parameter(&self, name: &str) -> &str {
        self.parameters.iter().find(|(k, _)| *k == name).map(|(_, v)| *v).unwrap_or_default()
    }
}

/// The clauses of Accept headers, best first.
enum Clauses<'a> {
    /// Most requests have one header with one media type in it.
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
    // Stable, so that the client's order decides among equals.
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    Clauses::Many(all.into_iter().map(|(_, c)| c).collect())
}

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
/// The media type of Kubernetes' protobuf messages in their envelope.
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const SERVED: [&str; 3] = [JSON, YAML, PROTOBUF];

/// The encoding of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Encoding {
    /// `application/json`.
    #[default]
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`, for clients that take nothing else.
    Protobuf,
}

impl Encoding {
    /// The encoding of answers that come in one form only.
    pub fn of(headers: &HeaderMap) -> Self {
        let clauses = clauses(headers);
        match clauses.iter().find(|clause| clause.is_text()) {
            Some(clause) if clause.media == YAML => Self::Yaml,
            None if clauses.iter().any(|c| c.is_protobuf() && c.parameter("as").is_empty()) => Self::Protobuf,
            _ => Self::Json,
        }
    }
}

/// The protobuf form of OpenAPI v2, as answers name it.
pub const OPENAPI_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// And as clients ask for it besides.
const OPENAPI_PROTOBUF_OLD: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// Whether OpenAPI v2 is wanted as protobuf.
pub fn wants_openapi_protobuf(headers: &HeaderMap) -> bool {
    let protobuf = |media: &str| matches!(media, OPENAPI_PROTOBUF | OPENAPI_PROTOBUF_OLD);
    let known = |c: &Clause<'_>| protobuf(c.media) || matches!(c.media, JSON | "*/*");
    clauses(headers).iter().find(|clause| known(clause)).is_some_and(|c| protobuf(c.media))
}

/// Chooses the form and the encoding of an answer. Objects rest as JSON: a client that takes both gets that rather than protobuf.
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

/// Which discovery form the client asked for.
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

/// The refusal of a form that there is none of.
pub fn no_such_form() -> ApiError {
    ApiError::no_such_form(&SERVED)
}

/// The media type of a body, without parameters.
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
}
