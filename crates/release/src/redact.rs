//! Redaction: keeps the values of a chart's Secrets out of text that others can read.
//!
//! Those who can read a resource, its events or an operator's logs may not be allowed to read Secrets. Objects of kind
//! Secret are reduced to their names in manifests, and their values are replaced wherever they occur in a string.

use std::borrow::Cow;
use std::collections::BTreeSet;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use steersman_chart::split;

use crate::object::documents;
use crate::record::Release;

/// Replacement of a secret value.
const MASK: &str = "REDACTED";
/// Minimum length of a value to redact; shorter ones are too common in other text.
const SHORTEST: usize = 4;
/// Minimum length of a line of a value; shorter ones are too common in other text.
const SHORTEST_LINE: usize = 8;
/// Values of switches, which are not secret.
const COMMON: [&str; 4] = ["true", "false", "null", "none"];

/// Replaces the values of a release's Secrets in strings.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    /// Finds the longest value at each position, so that no remainder is left. `None` without values.
    values: Option<AhoCorasick>,
    /// Whether there are too many values to search for: every string is redacted as a whole.
    is_blind: bool,
}

impl Redactor {
    /// Creates a redactor for the Secrets among the objects and hooks of a release.
    pub fn new(release: &Release) -> Self {
        let mut values = BTreeSet::new();
        let hooks = release.hooks.iter().map(|hook| hook.manifest.as_str());
        for manifest in std::iter::once(release.manifest.as_str()).chain(hooks) {
            // A manifest that does not parse is neither installed nor shown.
            for document in documents(manifest).unwrap_or_default().iter().filter(|one| is_secret(one)) {
                collect(document, &mut values);
            }
        }
        if values.is_empty() {
            return Self::default();
        }
        let built = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&values);
        Self { is_blind: built.is_err(), values: built.ok() }
    }

    /// Returns a string without the values.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.values {
            _ if self.is_blind => Cow::Borrowed(MASK),
            Some(values) if values.is_match(text) => {
                let mut shown = String::new();
                values.replace_all_with(text, &mut shown, |_, _, shown| {
                    shown.push_str(MASK);
                    true
                });
                Cow::Owned(shown)
            }
            _ => Cow::Borrowed(text),
        }
    }

    /// Returns a manifest with Secrets reduced to their names, and without their values elsewhere.
    pub fn redact_manifest(&self, manifest: &str) -> String {
        let mut shown = String::new();
        for text in split(manifest) {
            shown.push_str("---\n");
            let found = documents(text).unwrap_or_default();
            if !found.iter().any(is_secret) {
                shown.push_str(self.redact(text.trim_end_matches('\n')).as_ref());
                shown.push('\n');
                continue;
            }
            // Comments may contain values too, so a document with a Secret is serialized again.
            let parts: Vec<Value> =
                found.into_iter().map(|one| if is_secret(&one) { bare(&one) } else { one }).collect();
            let texts = parts.iter().filter_map(|part| steersman_yaml::to_string(part).ok());
            shown.push_str(self.redact(&texts.collect::<Vec<_>>().join("---\n")).as_ref());
        }
        shown
    }
}

fn is_secret(document: &Value) -> bool {
    let text = |key: &str| document.get(key).and_then(Value::as_str);
    text("kind") == Some("Secret") && text("apiVersion") == Some("v1")
}

/// Returns a Secret without its values.
fn bare(secret: &Value) -> Value {
    let mut metadata = json!({});
    for field in ["name", "namespace"] {
        if let Some(value) = secret.pointer(&format!("/metadata/{field}")) {
            metadata[field] = value.clone();
        }
    }
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata })
}

/// Collects the values of a Secret, plain and in base64. Of multi-line ones also the longer lines and settings.
fn collect(secret: &Value, values: &mut BTreeSet<String>) {
    let texts = |field: &str| {
        let map = secret.get(field).and_then(Value::as_object).into_iter().flatten();
        map.filter_map(|(_, value)| value.as_str()).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut add = |text: &str| {
        let text = text.trim();
        if text.len() >= SHORTEST && !COMMON.contains(&text) {
            values.insert(text.to_owned());
        }
        for line in text.lines().map(str::trim).filter(|line| line.len() >= SHORTEST_LINE) {
            values.insert(line.to_owned());
            // The value of a setting may occur elsewhere without its key.
            if let Some((_, value)) = line.split_once(['=', ':']) {
                let value = value.trim().trim_matches(['"', '\'']);
                if value.len() >= SHORTEST_LINE {
                    values.insert(value.to_owned());
                }
            }
        }
    };
    for encoded in texts("data") {
        add(&encoded);
        if let Ok(Ok(plain)) = BASE64.decode(encoded.trim()).map(String::from_utf8) {
            add(&plain);
        }
    }
    for plain in texts("stringData") {
        add(&plain);
        add(&BASE64.encode(&plain));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Hook;

    #[test]
    fn values_of_secrets_are_nowhere() {
        let manifest = "---\n# Source: c/templates/a.yaml\napiVersion: v1\nkind: Secret\nmetadata: {name: a, labels: {x: hunter22}}\n\
            data: {password: aHVudGVyMjI=, enabled: dHJ1ZQ==}\nstringData:\n  file: |\n    user = root\n    key = correct-horse\n\
            ---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: b}, stringData: {t: tok-123}}\n\
            - {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {url: 'http://root:hunter22@db'}}\n\
            ---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: d} # tok-123\ndata: {enabled: 'true'}\n";
        let hooks = vec![Hook {
            manifest: "apiVersion: v1\nkind: Secret\nmetadata: {name: h}\nstringData: {z: hooked-secret}"
                .into(),
            ..Hook::default()
        }];
        let release = Release { manifest: manifest.into(), hooks, ..Release::default() };
        let redactor = Redactor::new(&release);
        let shown = redactor.redact_manifest(manifest);
        for value in ["hunter22", "aHVudGVyMjI=", "correct-horse", "tok-123", "hooked-secret"] {
            assert!(!shown.contains(value), "{value} is in {shown}");
            assert_eq!(redactor.redact(&format!("<{value}>")), "<REDACTED>");
        }
        let found = documents(&shown).unwrap();
        let names: Vec<_> =
            found.iter().map(|one| format!("{} {}", one["kind"], one["metadata"]["name"])).collect();
        assert_eq!(
            names,
            ["\"Secret\" \"a\"", "\"Secret\" \"b\"", "\"ConfigMap\" \"c\"", "\"ConfigMap\" \"d\""]
        );
        assert_eq!(found[3]["data"]["enabled"], "true", "a switch tells nothing");
        assert_eq!(redactor.redact("all is true"), "all is true");
    }

    fn secret(string_data: Value) -> Release {
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "stringData": string_data });
        Release { manifest: secret.to_string(), ..Release::default() }
    }

    #[test]
    fn values_that_are_common_are_shown() {
        for shown in ["abc", "true", "none", "null", "false", ""] {
            let redactor = Redactor::new(&secret(json!({ "a": shown })));
            assert_eq!(redactor.redact(&format!("<{shown}>")), format!("<{shown}>"));
        }
        for hidden in ["abcd", "True", "  tell me  "] {
            let redactor = Redactor::new(&secret(json!({ "a": hidden })));
            assert_eq!(redactor.redact(&format!("<{}>", hidden.trim())), "<REDACTED>", "{hidden}");
        }
        assert!(matches!(Redactor::default().redact("text"), Cow::Borrowed("text")));
        let redactor = Redactor::new(&secret(json!({ "a": "hidden" })));
        assert!(matches!(redactor.redact("text"), Cow::Borrowed("text")));
    }

    #[test]
    fn lines_and_settings_are_hidden_if_they_are_long() {
        let redactor = Redactor::new(&secret(
            json!({ "file": "key = longvalue\nname: \"eightlet\"\nx=1234567\nshort=a\n" }),
        ));
        for hidden in ["key = longvalue", "longvalue", "eightlet", "x=1234567"] {
            assert_eq!(redactor.redact(&format!("<{hidden}>")), "<REDACTED>", "{hidden}");
        }
        for shown in ["1234567", "short", "key", "name"] {
            assert_eq!(redactor.redact(&format!("<{shown}>")), format!("<{shown}>"));
        }
    }

    #[test]
    fn values_are_hidden_in_both_forms() {
        let redactor = Redactor::new(&secret(json!({ "a": "hunter22" })));
        assert_eq!(redactor.redact("aHVudGVyMjI= hunter22"), "REDACTED REDACTED");
        let encoded = json!({ "apiVersion": "v1", "kind": "Secret", "data": { "a": " aHVudGVyMjI= " } });
        let redactor = Redactor::new(&Release { manifest: encoded.to_string(), ..Release::default() });
        assert_eq!(redactor.redact("aHVudGVyMjI= hunter22"), "REDACTED REDACTED");
    }

    #[test]
    fn only_secrets_of_the_core_are_hidden() {
        for (api_version, kind) in [("example.com/v1", "Secret"), ("v1", "ConfigMap")] {
            let object =
                json!({ "apiVersion": api_version, "kind": kind, "stringData": { "a": "shown-text" } });
            let redactor = Redactor::new(&Release { manifest: object.to_string(), ..Release::default() });
            assert_eq!(redactor.redact("shown-text"), "shown-text", "{api_version} {kind}");
            assert!(redactor.redact_manifest(&object.to_string()).contains("shown-text"));
        }
    }

    #[test]
    fn a_secret_is_shown_by_its_name_alone() {
        let manifest =
            "apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: lab, labels: {x: y}}\ntype: odd\n";
        let redactor = Redactor::new(&Release { manifest: manifest.into(), ..Release::default() });
        let expected = "---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: a\n  namespace: lab\n";
        assert_eq!(redactor.redact_manifest(manifest), expected);
        let other = "# kept\nkind: ConfigMap\n\n---\nkind: Other";
        assert_eq!(redactor.redact_manifest(other), "---\n# kept\nkind: ConfigMap\n---\nkind: Other\n");
    }

    #[test]
    fn too_many_values_hide_everything() {
        let redactor = Redactor { values: None, is_blind: true };
        assert_eq!(redactor.redact("anything"), MASK);
    }
}
