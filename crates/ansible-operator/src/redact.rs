//! Redacts what a run read from or wrote to Secrets from logs, conditions and events.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

/// The minimum length of redacted values: shorter ones would match parts of unrelated words.
const SHORTEST: usize = 5;
/// The maximum number of values per run.
const MOST: usize = 2000;
const HIDDEN: &str = "********";

/// The values of Secrets that a run has accessed.
#[derive(Debug, Default)]
pub(crate) struct Redactor(Mutex<BTreeSet<String>>);

impl Redactor {
    /// Adds the values of a Secret, or of the Secrets in a list.
    pub(crate) fn learn(&self, object: &Value) {
        for item in object["items"].as_array().into_iter().flatten() {
            self.learn(item);
        }
        for value in object["data"].as_object().into_iter().flatten().filter_map(|(_, value)| value.as_str())
        {
            self.add(value);
            let decoded = BASE64_STANDARD.decode(value).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            self.add(&decoded.unwrap_or_default());
        }
        let texts = object["stringData"].as_object().into_iter().flatten();
        texts.filter_map(|(_, value)| value.as_str()).for_each(|text| self.add(text));
    }

    fn add(&self, value: &str) {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The output may wrap a value's lines differently, so each line is redacted individually.
        let lines = value.lines().map(str::trim).filter(|line| line.len() >= SHORTEST);
        for line in std::iter::once(value.trim()).chain(lines).filter(|text| text.len() >= SHORTEST) {
            if values.len() < MOST {
                values.insert(line.to_owned());
            }
        }
    }

    /// Returns a string with these values redacted.
    pub(crate) fn redact(&self, text: &str) -> String {
        let values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut values: Vec<&String> = values.iter().filter(|value| text.contains(value.as_str())).collect();
        // Longest first, as a value may contain another one.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.into_iter().fold(text.to_owned(), |text, value| text.replace(value.as_str(), HIDDEN))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_secrets_are_hidden_in_every_form() {
        let redactor = Redactor::default();
        redactor.learn(&json!({ "data": { "a": "aHVudGVyMg==" } }));
        redactor
            .learn(&json!({ "items": [{ "stringData": { "b": "first line\nsecond line", "c": "tiny" } }] }));
        let text = "tiny hunter2 aHVudGVyMg== and second line";
        assert_eq!(redactor.redact(text), "tiny ******** ******** and ********");
        assert_eq!(redactor.redact("first line\nsecond line"), HIDDEN);
    }
}
