//! Replaces values that legitimately differ between two servers by placeholders that preserve equality.
//!
//! The first UID in a case becomes `<uid:1>`, wherever it occurs again; so two servers match exactly if they create
//! new values, and repeat old ones, in the same places.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

static UID: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
static TIME: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\b(\d{4})-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"));
static JWT: LazyLock<Regex> = LazyLock::new(|| pattern(r"eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"));
static SERVICE_IP: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b10\.96\.\d{1,3}\.\d{1,3}\b"));
static OPENAPI_HASH: LazyLock<Regex> = LazyLock::new(|| pattern(r"hash=[0-9A-F]{64,}"));
static TOKEN_VOLUME: LazyLock<Regex> = LazyLock::new(|| pattern(r"kube-api-access-[a-z0-9]{5}"));
/// A whole object quoted in an error, with the real server's internal order of fields.
static QUOTED_OBJECT: LazyLock<Regex> = LazyLock::new(|| pattern(r#"(?s)Invalid value: "\{\\".*\}": "#));
static MODIFIED_REVISION: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b\d+ \((\d+)\)"));
static AGE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(\d+[smhdy]){1,2}$"));
static RECORD: LazyLock<Regex> = LazyLock::new(|| pattern(r"in record \(\d+\)"));
static PREFIX: LazyLock<Regex> = LazyLock::new(|| pattern(r#""generateName":"([^"]*)""#));
/// The suffix added for generateName.
static GENERATED: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[bcdfghjklmnpqrstvwxz2456789]{5}$"));

#[allow(clippy::expect_used, reason = "the patterns above are constants")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a constant pattern compiles")
}

/// Times from this year on are from the server's clock; earlier ones are from a case.
const FIRST_SERVER_YEAR: u32 = 2024;

/// The placeholders assigned so far in one case on one server.
#[derive(Debug, Default)]
pub struct Mask {
    uids: BTreeMap<String, usize>,
    versions: BTreeMap<String, usize>,
    /// Generated names and their placeholders.
    names: BTreeMap<String, String>,
    /// The text of the case's requests: numbers in it are not the server's.
    said: String,
    /// The unique word of the case in this run.
    id: String,
    /// The generateName prefixes in the case.
    prefixes: Vec<String>,
}

impl Mask {
    /// Creates a mask for a case with the given request text and the given word for `{id}`.
    #[must_use]
    pub fn new(said: String, id: String) -> Self {
        let prefixes = PREFIX.captures_iter(&said).map(|found| found[1].replace("{id}", &id)).collect();
        Self { said, id, prefixes, ..Self::default() }
    }

    /// Masks a response body in place.
    pub fn body(&mut self, body: &mut Value) {
        self.find_generated_names(body);
        if let Some(groups) = body.get_mut("groups").and_then(Value::as_array_mut) {
            // Groups of other cases are added and removed concurrently.
            groups.retain(|group| {
                !group.get("name").and_then(Value::as_str).is_some_and(|name| name.ends_with(".example.com"))
            });
        }
        let is_list = body.get("items").is_some() || body.get("rows").is_some();
        self.value(body, "", is_list);
        settle_causes(body);
        leave_out_prose(body);
        // Also in the order of a hash table.
        for rules in ["/status/resourceRules", "/status/nonResourceRules"] {
            if let Some(rules) = body.pointer_mut(rules).and_then(Value::as_array_mut) {
                rules.sort_by_key(ToString::to_string);
            }
        }
    }

    /// Masks a string that is not JSON: a header or a plain body.
    #[must_use]
    pub fn text(&mut self, text: &str) -> String {
        if text.len() < 6 {
            return text.to_owned();
        }
        let mut text = self.replace_uids(text);
        for (generated, name) in &self.names {
            if text.contains(generated.as_str()) {
                text = text.replace(generated.as_str(), name);
            }
        }
        if !self.id.is_empty() && text.contains(&self.id) {
            text = text.replace(&self.id, "<id>");
        }
        if text.contains("kube-api-access-") {
            text = TOKEN_VOLUME.replace_all(&text, "kube-api-access-<suffix>").into_owned();
        }
        if TIME.is_match(&text) {
            text = TIME
                .replace_all(&text, |found: &regex::Captures<'_>| {
                    let year: u32 = found[1].parse().unwrap_or(0);
                    match (year >= FIRST_SERVER_YEAR && !self.said.contains(&found[0]), found.get(2)) {
                        (false, _) => found[0].to_owned(),
                        (true, None) => "<time>".to_owned(),
                        (true, Some(_)) => "<micro time>".to_owned(),
                    }
                })
                .into_owned();
        }
        if text.contains("eyJ") {
            text = JWT.replace_all(&text, "<token>").into_owned();
        }
        if text.contains("10.96.") {
            text = SERVICE_IP
                .replace_all(&text, |found: &regex::Captures<'_>| {
                    if self.said.contains(&found[0]) {
                        found[0].to_owned()
                    } else {
                        "<service ip>".to_owned()
                    }
                })
                .into_owned();
        }
        if text.contains("Invalid value: \"{") {
            text = QUOTED_OBJECT.replace_all(&text, "Invalid value: <object>: ").into_owned();
        }
        if text.contains("hash=") {
            text = OPENAPI_HASH.replace_all(&text, "hash=<hash>").into_owned();
        }
        if text.contains("errors:\n  ") {
            text = sort_errors(&text);
        }
        if text.contains("in record (") {
            text = RECORD.replace_all(&text, "in record (<version>)").into_owned();
        }
        if text.contains("too old resource version") || text.contains("Too large resource version") {
            text = MODIFIED_REVISION.replace_all(&text, "<revision> (<revision>)").into_owned();
        }
        text
    }

    fn replace_uids(&mut self, text: &str) -> String {
        if !UID.is_match(text) {
            return text.to_owned();
        }
        UID.replace_all(text, |found: &regex::Captures<'_>| {
            if self.said.contains(&found[0]) {
                return found[0].to_owned();
            }
            let next = self.uids.len() + 1;
            let number = *self.uids.entry(found[0].to_owned()).or_insert(next);
            format!("<uid:{number}>")
        })
        .into_owned()
    }

    fn value(&mut self, value: &mut Value, key: &str, inside_list_head: bool) {
        match value {
            Value::Object(fields) => {
                // Sorted, so that placeholders are assigned in the same order regardless of the server's order.
                let mut keys: Vec<String> = fields.keys().cloned().collect();
                keys.sort_unstable();
                for field in keys {
                    let Some(child) = fields.get_mut(&field) else { continue };
                    match (field.as_str(), &*child) {
                        ("resourceVersion", Value::String(version))
                            if !version.is_empty() && version != "0" =>
                        {
                            *child =
                                Value::String(self.version(version, inside_list_head && key == "metadata"));
                        }
                        ("continue", Value::String(token)) if !token.is_empty() => {
                            *child = Value::String("<continue>".to_owned());
                        }
                        ("remainingItemCount", Value::Number(_)) if key == "metadata" => {}
                        ("nodePort" | "healthCheckNodePort", Value::Number(port))
                            if !self.said.contains(&port.to_string()) =>
                        {
                            *child = Value::String("<node port>".to_owned());
                        }
                        ("caBundle", Value::String(_)) => *child = Value::String("<ca>".to_owned()),
                        ("items" | "rows", _) => self.value(child, &field, false),
                        _ => self.value(child, &field, inside_list_head && field == "metadata"),
                    }
                    self.rename_key(fields, &field);
                }
                if let Some(Value::Array(entries)) = fields.get_mut("managedFields") {
                    // The server sorts them by time first, and the second may change between two requests.
                    entries.sort_by_key(|entry| {
                        ["operation", "manager", "apiVersion", "subresource"]
                            .map(|field| entry.get(field).map(ToString::to_string))
                    });
                }
            }
            Value::Array(items) => {
                for item in items {
                    self.value(item, key, false);
                }
            }
            Value::String(text) if key == "cells" && AGE.is_match(text) => *text = "<age>".to_owned(),
            Value::String(text) => {
                let masked = self.text(text);
                if masked != *text {
                    *text = masked;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Masks keys too: managedFields identifies owners by UID.
    fn rename_key(&mut self, fields: &mut serde_json::Map<String, Value>, key: &str) {
        let masked = self.text(key);
        if masked != key
            && let Some(value) = fields.remove(key)
        {
            fields.insert(masked, value);
        }
    }

    fn version(&mut self, version: &str, of_list: bool) -> String {
        // A list's version is that of the whole store, which other cases change.
        if of_list {
            return "<list version>".to_owned();
        }
        let next = self.versions.len() + 1;
        format!("<version:{}>", self.versions.entry(version.to_owned()).or_insert(next))
    }

    /// Finds generated names: in objects, and in errors about objects.
    fn find_generated_names(&mut self, body: &Value) {
        if let Some(metadata) = body.get("metadata") {
            self.note_generated(metadata);
        }
        for item in body.get("items").and_then(Value::as_array).into_iter().flatten() {
            if let Some(metadata) = item.get("metadata") {
                self.note_generated(metadata);
            }
        }
        if let Some(name) = body.pointer("/details/name").and_then(Value::as_str) {
            for prefix in self.prefixes.clone() {
                self.note_name(&prefix, name);
            }
        }
    }

    fn note_generated(&mut self, metadata: &Value) {
        let text = |field: &str| metadata.get(field).and_then(Value::as_str);
        if let (Some(prefix), Some(name)) = (text("generateName"), text("name")) {
            self.note_name(prefix, name);
        }
    }

    fn note_name(&mut self, prefix: &str, name: &str) {
        // Long prefixes are truncated, so that the name fits a label.
        let kept: String = prefix.chars().take(58).collect();
        if let Some(suffix) = name.strip_prefix(kept.as_str())
            && GENERATED.is_match(suffix)
            && !self.names.contains_key(name)
        {
            let number = self.names.len() + 1;
            self.names.insert(
                name.to_owned(),
                format!(
                    "{}<generated:{number}>",
                    if self.id.is_empty() { kept.clone() } else { kept.replace(&self.id, "<id>") }
                ),
            );
        }
    }
}

/// Sorts the causes of a failure, and removes them from its message. The real server reports conflicts, and errors
/// in maps, in the order of a hash table.
fn settle_causes(body: &mut Value) {
    let Some(causes) = body.pointer_mut("/details/causes").and_then(Value::as_array_mut) else { return };
    if causes.len() < 2 {
        return;
    }
    causes.sort_by_key(ToString::to_string);
    let messages: Vec<String> =
        causes.iter().filter_map(|cause| cause.get("message")?.as_str().map(str::to_owned)).collect();
    if let Some(Value::String(message)) = body.get_mut("message")
        && let Some(start) = message.find("is invalid: [")
        && messages.iter().all(|cause| message.contains(cause.as_str()))
    {
        message.truncate(start);
        message.push_str("is invalid: <causes>");
    }
}

/// Sorts the lines of a list of typing errors, which are in the order of a hash table, too.
fn sort_errors(text: &str) -> String {
    let Some((head, list)) = text.split_once("errors:\n") else { return text.to_owned() };
    let mut lines: Vec<&str> = list.lines().collect();
    lines.sort_unstable();
    format!("{head}errors:\n{}", lines.join("\n"))
}

/// Removes what no client evaluates: descriptions of columns, and a digest of storage versions.
fn leave_out_prose(body: &mut Value) {
    let list = |body: &mut Value, name: &str, field: &str| {
        for item in body.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten() {
            item.as_object_mut().and_then(|item| item.remove(field));
        }
    };
    list(body, "columnDefinitions", "description");
    list(body, "resources", "storageVersionHash");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_values_get_equal_names() {
        let mut mask = Mask::new(String::new(), String::new());
        let uid = "0f8fad5b-d9cb-469f-a165-70867728950e";
        let mut first = json!({"metadata": {"uid": uid, "resourceVersion": "17", "creationTimestamp": "2026-02-03T04:05:06Z"}});
        mask.body(&mut first);
        assert_eq!(
            first,
            json!({"metadata": {"uid": "<uid:1>", "resourceVersion": "<version:1>", "creationTimestamp": "<time>"}})
        );
        let mut second = json!({"metadata": {"resourceVersion": "18"}, "message": format!("owner {uid}")});
        mask.body(&mut second);
        assert_eq!(
            second,
            json!({"metadata": {"resourceVersion": "<version:2>"}, "message": "owner <uid:1>"})
        );
    }

    #[test]
    fn what_the_case_says_stays() {
        let mut mask = Mask::new("30080 2031-01-01T00:00:00Z".to_owned(), String::new());
        let mut body = json!({"nodePort": 30080, "other": {"nodePort": 31000}, "at": "2031-01-01T00:00:00Z"});
        mask.body(&mut body);
        assert_eq!(
            body,
            json!({"nodePort": 30080, "other": {"nodePort": "<node port>"}, "at": "2031-01-01T00:00:00Z"})
        );
    }

    #[test]
    fn generated_names_are_named() {
        let mut mask = Mask::new(String::new(), String::new());
        let mut body = json!({"metadata": {"generateName": "web-", "name": "web-x7k2b"}});
        mask.body(&mut body);
        assert_eq!(body["metadata"]["name"], "web-<generated:1>");
        assert_eq!(mask.text("pods \"web-x7k2b\" not found"), "pods \"web-<generated:1>\" not found");
    }
}
