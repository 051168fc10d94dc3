//! Cases: the format of the files under `corpus/`, and the substitution of variables.
//!
//! A file is a feature:
//! ```yaml
//! let: {maps: "/api/v1/namespaces/{ns}/configmaps"}     # text variables, usable in every string
//! templates: {map: {apiVersion: v1, kind: ConfigMap}}   # bodies to build upon with $use
//! before: [...]                                         # steps put in front of every case
//! cases:
//! - case: a map can be made and read
//!   steps:
//!   - {do: "POST {maps}", json: {$use: map, metadata: {name: a}}, save: {rv: /metadata/resourceVersion}}
//!   - GET {maps}/a
//! - case: keys
//!   each: [{name: dot, data: {a.b: c}}, {name: blank, data: {a b: c}}]   # one case for each set of variables
//!   steps:
//!   - {do: "POST {maps}", json: {$use: map, metadata: {name: a}, $merge: {data: "{data}"}}}
//! ```
//! `{ns}` is the case's own namespace and `{id}` a unique word for the case, for cluster-scoped names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use thiserror::Error;

/// The reason why a corpus cannot be read.
#[derive(Debug, Error)]
pub enum CorpusError {
    /// A file or folder can't be read.
    #[error("{path}: {source}")]
    Read {
        /// The path.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// A file is not a valid feature.
    #[error("{path}: {message}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The error.
        message: String,
    },
}

/// A sequence of requests.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Case {
    /// The file's stem, or the name of the generator.
    pub feature: String,
    /// What it demonstrates.
    pub name: String,
    /// The requests in order.
    pub steps: Vec<Step>,
}

/// A request, and how its response is compared.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Method and path with query: `GET /api/v1/namespaces`.
    #[serde(rename = "do")]
    pub request: String,
    /// The body by content type; at most one of the following.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<Value>,
    /// A merge patch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<Value>,
    /// A strategic merge patch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategic: Option<Value>,
    /// A JSON patch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jsonpatch: Option<Value>,
    /// An apply configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply: Option<Value>,
    /// A raw body; its content type is in `type`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// A base64-encoded binary body; its content type is in `type`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// The content type. Default: that of the kind of body.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The Accept header, or one of the words table, partial, partial-list, discovery, yaml. Default: JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept: Option<String>,
    /// The user that the administrator impersonates. Default: none.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub impersonate: Option<Impersonate>,
    /// A bearer token instead of the administrator's credentials; empty for an anonymous request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Additional headers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Response headers to compare besides those that every client evaluates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shows: Vec<String>,
    /// Variables to set from the response: name to JSON pointer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub save: BTreeMap<String, String>,
    /// Repeats the request until the response has these values, for at most ten seconds. Maps JSON pointers to
    /// values. The word `established` waits for an established CustomResourceDefinition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Value>,
    /// The number of events to read from a watch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<usize>,
    /// The part to compare: all (default), status or nothing.
    #[serde(default, skip_serializing_if = "Compared::is_all")]
    pub compare: Compared,
    /// JSON pointers excluded from the comparison, with a reason next to them in the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
}

/// The user that the administrator impersonates.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Impersonate {
    /// A user without groups.
    User(String),
    /// A user with further attributes.
    Full {
        /// The name.
        user: String,
        /// The groups.
        #[serde(default)]
        groups: Vec<String>,
        /// The uid.
        #[serde(default)]
        uid: Option<String>,
        /// Extra keys.
        #[serde(default)]
        extra: BTreeMap<String, String>,
    },
}

/// The part of a response that is compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compared {
    /// Status, headers and body.
    #[default]
    All,
    /// Only the status code.
    Status,
    /// Nothing: the step is only setup.
    Nothing,
}

impl Compared {
    fn is_all(&self) -> bool {
        *self == Self::All
    }
}

impl Case {
    /// Returns a digest of the requests, the key of recorded responses.
    #[must_use]
    pub fn key(&self) -> String {
        // Through Value, which has sorted maps, so that the digest is independent of the order of fields.
        let steps = serde_json::to_value(&self.steps).unwrap_or_default();
        let digest = Sha256::digest(steps.to_string());
        digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns a word that is unique among cases and runs: the value of `{id}`.
    #[must_use]
    pub fn id(&self) -> String {
        let salt: String = (0..5).map(|_| fastrand::lowercase()).collect();
        format!("c{}{salt}", &self.key()[..6])
    }
}

/// The content of a corpus file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Feature {
    #[serde(default, rename = "let")]
    variables: BTreeMap<String, String>,
    #[serde(default)]
    templates: BTreeMap<String, Value>,
    #[serde(default)]
    before: Vec<Value>,
    cases: Vec<WrittenCase>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCase {
    case: String,
    /// Omits the file's `before`.
    #[serde(default)]
    bare: bool,
    /// Creates one case for each of these sets of variables.
    #[serde(default)]
    each: Vec<BTreeMap<String, Value>>,
    steps: Vec<Value>,
}

/// Loads every `*.yaml` below a directory, sorted by name.
///
/// # Errors
/// If a file cannot be read or is not a valid feature.
pub fn load(folder: &Path) -> Result<Vec<Case>, CorpusError> {
    let read = |source| CorpusError::Read { path: folder.to_owned(), source };
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .map_err(read)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    let mut cases = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path)
            .map_err(|source| CorpusError::Read { path: path.clone(), source })?;
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        cases.extend(parse(&name, &text).map_err(|message| CorpusError::Malformed { path, message })?);
    }
    Ok(cases)
}

/// Parses a feature.
///
/// # Errors
/// Describes the error in the text.
pub fn parse(feature: &str, text: &str) -> Result<Vec<Case>, String> {
    let file: Feature = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let mut cases: Vec<Case> = Vec::new();
    for written in &file.cases {
        let single = [BTreeMap::new()];
        let sets = if written.each.is_empty() { &single[..] } else { &written.each };
        for (index, set) in sets.iter().enumerate() {
            let name = match set.get("name").and_then(Value::as_str) {
                Some(name) => format!("{}: {name}", written.case),
                None if sets.len() > 1 => format!("{} ({})", written.case, index + 1),
                None => written.case.clone(),
            };
            let mut steps = Vec::new();
            let before = if written.bare { &[][..] } else { &file.before };
            for step in before.iter().chain(&written.steps) {
                let step = build_step(step, &file, set).map_err(|message| format!("{name}: {message}"))?;
                steps.push(step);
            }
            if cases.iter().any(|case| case.name == name) {
                return Err(format!("two cases are called {name:?}"));
            }
            cases.push(Case { feature: feature.to_owned(), name, steps });
        }
    }
    Ok(cases)
}

fn build_step(written: &Value, file: &Feature, set: &BTreeMap<String, Value>) -> Result<Step, String> {
    let mut value = match written {
        Value::String(request) => json!({ "do": request }),
        other => other.clone(),
    };
    expand_templates(&mut value, &file.templates, 0)?;
    let mut variables: BTreeMap<String, Value> =
        file.variables.iter().map(|(name, text)| (name.clone(), Value::String(text.clone()))).collect();
    variables.extend(set.clone());
    // Variables may refer to each other: two levels are enough in practice.
    for _ in 0..3 {
        substitute(&mut value, &variables);
    }
    merge_in_place(&mut value);
    let step: Step = serde_json::from_value(value).map_err(|error| format!("{error} in {written}"))?;
    if step.request.split_once(' ').is_none_or(|(_, path)| !path.starts_with('/')) {
        return Err(format!("{:?} is not METHOD /path", step.request));
    }
    Ok(step)
}

/// Replaces `{$use: name, ...}` by the template with the other fields merged into it (null removes).
fn expand_templates(
    value: &mut Value,
    templates: &BTreeMap<String, Value>,
    depth: usize,
) -> Result<(), String> {
    if depth > 64 {
        return Err("templates nest too deep".to_owned());
    }
    match value {
        Value::Object(fields) => {
            if let Some(name) = fields.remove("$use") {
                let name = name.as_str().unwrap_or_default().to_owned();
                let mut base =
                    templates.get(&name).cloned().ok_or_else(|| format!("no template {name:?}"))?;
                merge(&mut base, Value::Object(std::mem::take(fields)));
                *value = base;
                return expand_templates(value, templates, depth + 1);
            }
            fields.values_mut().try_for_each(|child| expand_templates(child, templates, depth + 1))
        }
        Value::Array(items) => {
            items.iter_mut().try_for_each(|item| expand_templates(item, templates, depth + 1))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// Merges the object under `$merge`, which came from a variable, into its parent.
fn merge_in_place(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(merge_in_place);
            if let Some(over) = fields.remove("$merge") {
                merge(value, over);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(merge_in_place),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Merges as a JSON merge patch does.
pub(crate) fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                if value.is_null() {
                    base.remove(&key);
                } else if let Some(inner) = base.get_mut(&key) {
                    merge(inner, value);
                } else {
                    base.insert(key, value);
                }
            }
        }
        (base, over) => *base = over,
    }
}

/// Substitutes `{name}` in every string and key. A string that consists of it takes the value with its type.
pub fn substitute(value: &mut Value, variables: &BTreeMap<String, Value>) {
    match value {
        Value::String(text) => {
            if let Some(name) = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'))
                && let Some(whole) = variables.get(name)
            {
                *value = whole.clone();
            } else if text.contains('{') {
                *text = substitute_text(text, variables);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| substitute(item, variables)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|child| substitute(child, variables));
            if fields.keys().any(|key| key.contains('{')) {
                let renamed: Map<String, Value> = std::mem::take(fields)
                    .into_iter()
                    .map(|(key, child)| (substitute_text(&key, variables), child))
                    .collect();
                *fields = renamed;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Substitutes `{name}` in a string; unknown names are left unchanged.
#[must_use]
pub fn substitute_text(text: &str, variables: &BTreeMap<String, Value>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        out.push_str(&rest[..open]);
        rest = &rest[open..];
        let Some(close) = rest.find('}') else { break };
        match variables.get(&rest[1..close]) {
            Some(Value::String(text)) => out.push_str(text),
            Some(value) => out.push_str(&value.to_string()),
            None => {
                // Not a variable: the brace is literal, but a variable may follow.
                out.push('{');
                rest = &rest[1..];
                continue;
            }
        }
        rest = &rest[close + 1..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_becomes_cases() {
        let text = r#"
let: {maps: "/api/v1/namespaces/{ns}/configmaps"}
templates: {map: {apiVersion: v1, kind: ConfigMap, data: {a: b}}}
before: ["GET /version"]
cases:
- case: made
  each: [{name: one, value: 1}, {name: two, value: x}]
  steps:
  - {do: "POST {maps}", json: {$use: map, data: {a: null, k: "{value}"}}}
"#;
        let cases = parse("maps", text).expect("parses");
        assert_eq!(cases.len(), 2);
        assert_eq!(cases[0].name, "made: one");
        assert_eq!(cases[0].steps.len(), 2);
        assert_eq!(cases[0].steps[1].request, "POST /api/v1/namespaces/{ns}/configmaps");
        assert_eq!(
            cases[0].steps[1].json,
            Some(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": 1}}))
        );
        assert_ne!(cases[0].key(), cases[1].key());
    }

    #[test]
    fn unknown_braces_stay() {
        let variables = BTreeMap::from([("a".to_owned(), Value::from("1"))]);
        assert_eq!(substitute_text("{x {a} {b} {", &variables), "{x 1 {b} {");
    }
}
