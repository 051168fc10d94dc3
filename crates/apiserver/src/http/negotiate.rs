//! What the client wants back.

use http::{HeaderMap, header};

use crate::status::{ApiError, ApiResult};

/// How an answer is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Output {
    /// The object itself.
    #[default]
    Object,
    /// A `meta.k8s.io/v1` Table.
    Table,
    /// Metadata alone.
    Metadata,
}

/// What a Table's rows carry besides cells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Include {
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
pub(crate) enum Discovery {
    /// The aggregated document.
    V2,
    /// The older lists.
    Legacy,
}

struct Clause<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl Clause<'_> {
    fn parameter(&self, name: &str) -> &str {
        self.parameters.iter().find(|(k, _)| *k == name).map(|(_, v)| *v).unwrap_or_default()
    }
}

/// The clauses of all Accept headers, best first.
fn clauses(headers: &HeaderMap) -> Vec<Clause<'_>> {
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
    all.into_iter().map(|(_, c)| c).collect()
}

const SERVED: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// Chooses the form of an answer.
pub(crate) fn negotiate(headers: &HeaderMap) -> ApiResult<Output> {
    let clauses = clauses(headers);
    if clauses.is_empty() {
        return Ok(Output::Object);
    }
    let mut understood = false;
    for clause in &clauses {
        if !matches!(clause.media, "application/json" | "*/*") {
            continue;
        }
        understood = true;
        match (clause.parameter("as"), clause.parameter("g"), clause.parameter("v")) {
            ("", _, _) => return Ok(Output::Object),
            ("Table", "meta.k8s.io", "v1" | "v1beta1") => return Ok(Output::Table),
            ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1" | "v1beta1") => {
                return Ok(Output::Metadata);
            }
            _ => {}
        }
    }
    Err(if understood { ApiError::no_such_form(&SERVED) } else { ApiError::not_acceptable(&SERVED) })
}

/// Which discovery form the client asked for.
pub(crate) fn wants_discovery(headers: &HeaderMap) -> Discovery {
    let aggregated = clauses(headers).into_iter().find(|c| c.media == "application/json");
    match aggregated {
        Some(c) if c.parameter("as") == "APIGroupDiscoveryList" && c.parameter("v") == "v2" => Discovery::V2,
        _ => Discovery::Legacy,
    }
}

/// The media type of a body, without parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let text = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(accept: &str) -> ApiResult<Output> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        negotiate(&headers)
    }

    #[test]
    fn the_first_form_that_can_be_served_wins() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(output(kubectl).unwrap(), Output::Table);
        let client_go = "application/vnd.kubernetes.protobuf, application/json";
        assert_eq!(output(client_go).unwrap(), Output::Object);
        assert_eq!(
            output("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").unwrap(),
            Output::Metadata
        );
        assert_eq!(output("*/*").unwrap(), Output::Object);
        assert_eq!(output("text/html").unwrap_err().code.as_u16(), 406);
    }
}
