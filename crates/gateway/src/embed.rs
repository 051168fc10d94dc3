//! A page with a single button, for other sites to frame or link to.

use std::fmt::Write as _;

use http::{HeaderValue, Response, StatusCode, header};

use crate::{
    Shared,
    answer::{self, Body},
    problem::{Problem, Result},
    request::Query,
};

/// The query parameters that are passed on as attributes of the button.
const ATTRIBUTES: [&str; 4] = ["kind", "namespace", "name", "value"];

/// Serves `GET /v1/embed/{action}`: a page that shows an instance's health and a button for the action.
///
/// It needs no credentials: it reveals nothing about the cluster, and the button acts with the visitor's own
/// session.
pub(crate) fn page(shared: &Shared, action: &str, query: &Query) -> Result<Response<Body>> {
    query.allow(&["kind", "namespace", "name", "value", "label"])?;
    if let Some(missing) = ["kind", "name"].into_iter().find(|name| query.get(name).is_none()) {
        let example = format!("/v1/embed/{action}?kind=minimarts.example.com&namespace=team-a&name=shop");
        return Err(Problem::bad_request(format!("parameter {missing} is required, as in {example}")));
    }
    let mut attributes = format!(" action=\"{}\"", escape(action));
    for name in ATTRIBUTES {
        if let Some(value) = query.get(name) {
            let _ = write!(attributes, " {name}=\"{}\"", escape(value));
        }
    }
    let label = escape(query.get("label").unwrap_or(action));
    let page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{label}</title>\n<script type=\"module\" src=\"/embed/steer-button.js\"></script>\n\
         <steer-button{attributes}>{label}</steer-button></html>\n"
    );
    let mut response = answer::bytes(StatusCode::OK, "text/html; charset=utf-8", page);
    let policy = format!(
        "default-src 'none'; script-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'self' {}",
        shared.origins.join(" ")
    );
    if let Ok(policy) = HeaderValue::from_str(policy.trim_end()) {
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    Ok(response)
}

/// Escapes text for HTML, including attribute values.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}
