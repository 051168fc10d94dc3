//! Validates the conversion strategy of a definition, and webhook client configurations.

use std::collections::HashSet;

use serde_json::Value;
use steersman_formats::names;

use super::check_word;
use super::model::{Conversion, shown_texts};
use crate::fields::FieldError;
use crate::path::{child, index};

pub(super) fn check_conversion(
    conversion: &Conversion,
    old: Option<&Conversion>,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    const ACCEPTED: [&str; 2] = ["v1", "v1beta1"];
    check_word(&child(path, "strategy"), &conversion.strategy, &["None", "Webhook"], errors);
    let client_path = child(path, "webhookClientConfig");
    let versions_path = child(path, "conversionReviewVersions");
    if conversion.strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if conversion.client.is_some() {
            errors.push(FieldError::forbidden(client_path, detail));
        }
        if !conversion.review_versions.is_empty() {
            errors.push(FieldError::forbidden(versions_path, detail));
        }
        return;
    }
    match &conversion.client {
        None => errors.push(FieldError::required(client_path, "required when strategy is set to Webhook")),
        Some(client) => {
            check_webhook_client(client.url.as_deref(), client.service.as_ref(), &client_path, errors);
        }
    }
    let versions = &conversion.review_versions;
    if versions.is_empty() {
        errors.push(FieldError::required(versions_path, ""));
        return;
    }
    let mut seen = HashSet::new();
    for (i, version) in versions.iter().enumerate() {
        let place = index(&versions_path, i);
        if !seen.insert(version) {
            errors.push(FieldError::invalid(place, version.as_str(), "duplicate version"));
            continue;
        }
        for complaint in names::label_1035(version) {
            errors.push(FieldError::invalid(place.as_str(), version.as_str(), complaint));
        }
    }
    let is_accepted = |list: &[String]| list.iter().any(|v| ACCEPTED.contains(&v.as_str()));
    let must_be = old.is_none_or(|old| old.review_versions.is_empty() || is_accepted(&old.review_versions));
    if must_be && !is_accepted(versions) {
        let detail = format!("must include at least one of {}", ACCEPTED.join(", "));
        errors.push(FieldError::invalid_shown(versions_path, shown_texts(versions), detail));
    }
}

/// Validates a webhook client configuration; `path` is the field path of that configuration.
pub fn check_webhook_client(
    url: Option<&str>,
    service: Option<&Value>,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    match (url, service) {
        (Some(url), None) => check_webhook_url(url, &child(path, "url"), errors),
        (None, Some(service)) => check_webhook_service(service, &child(path, "service"), errors),
        _ => errors.push(FieldError::required(path, "exactly one of url or service is required")),
    }
}

/// Validates a webhook's URL.
fn check_webhook_url(url: &str, path: &str, errors: &mut Vec<FieldError>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = match rest.split_once(':') {
        Some((scheme, rest)) if !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric()) => {
            (scheme.to_ascii_lowercase(), rest)
        }
        _ => (String::new(), rest),
    };
    let authority = rest.strip_prefix("//").map_or("", |rest| rest.split('/').next().unwrap_or(rest));
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    if scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{FORM}");
        errors.push(FieldError::invalid(path, scheme, detail));
    }
    if host.is_empty() {
        errors.push(FieldError::invalid(path, "", format!("host must be specified{FORM}")));
    }
    if let Some(user) = user {
        errors.push(FieldError::invalid(path, user, "user information is not permitted in the URL"));
    }
    if !fragment.is_empty() {
        errors.push(FieldError::invalid(path, fragment, "fragments are not permitted in the URL"));
    }
    if !query.is_empty() {
        errors.push(FieldError::invalid(path, query, "query parameters are not permitted in the URL"));
    }
}

/// Validates a webhook's service reference.
fn check_webhook_service(service: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let text = |key: &str| service.get(key).and_then(Value::as_str).unwrap_or_default();
    // Kubernetes swaps the two field paths.
    for (name, key) in [("name", "namespace"), ("namespace", "name")] {
        if text(key).is_empty() {
            errors.push(FieldError::required(child(path, name), ""));
        }
    }
    let port = service.get("port").and_then(Value::as_i64).unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(child(path, "port"), port, detail));
    }
    let url = text("path");
    let place = child(path, "path");
    if url.is_empty() || url == "/" {
        return;
    }
    if url == "//" {
        errors.push(FieldError::invalid(place, url, "segment[0] may not be empty"));
        return;
    }
    if !url.starts_with('/') {
        errors.push(FieldError::invalid(place.as_str(), url, "must start with a '/'"));
    }
    let mut rest = url.chars();
    rest.next();
    let rest = rest.as_str();
    for (i, segment) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if segment.is_empty() {
            let detail = format!("segment[{i}] may not be empty");
            errors.push(FieldError::invalid(place.as_str(), url, detail));
            continue;
        }
        for complaint in names::subdomain(segment) {
            let detail = format!("segment[{i}]: {complaint}");
            errors.push(FieldError::invalid(place.as_str(), url, detail));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_service_of_a_webhook_has_a_name_a_port_and_a_path() {
        let complaints = |service: Value| {
            let mut errors = Vec::new();
            check_webhook_service(&service, "service", &mut errors);
            errors.len()
        };
        assert_eq!(complaints(json!({"name": "a", "namespace": "b", "port": 8443, "path": "/convert"})), 0);
        assert_eq!(complaints(json!({"name": "a", "namespace": "b"})), 0);
        assert_eq!(complaints(json!({})), 2);
        for (field, value) in
            [("port", json!(0)), ("port", json!(65536)), ("path", json!("//")), ("path", json!("convert"))]
        {
            let mut service = json!({"name": "a", "namespace": "b"});
            service[field] = value;
            assert_eq!(complaints(service.clone()), 1, "{service}");
        }
    }
}
