//! Keeps what a run read from or wrote into Secrets out of logs, conditions and events.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

/// Shorter values are not hidden: they would be found in every other word.
const SHORTEST: usize = 5;
/// Limit on the values that are remembered of a run.
const MOST: usize = 2000;
const HIDDEN: &str = "********";

/// The values of Secrets that a run has come across.
#[derive(Debug, Default)]
pub(crate) struct Redactor(Mutex<BTreeSet<String>>);

impl Redactor {
    /// Remembers the values of a Secret, or of those in a list.
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
        // Output has line ends of its own, so that the lines of a value are looked for one by one.
        let lines = value.lines().map(str::trim).filter(|line| line.len() >= SHORTEST);
        for line in std::iter::once(value.trim()).chain(lines).filter(|text| text.len() >= SHORTEST) {
            if values.len() < MOST {
                values.insert(line.to_owned());
            }
        }
    }

    /// A text without these values.
    pub(crate) fn redact(&self, text: &str) -> String {
        let values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut values: Vec<&String> = values.iter().filter(|value| text.contains(value.as_str())).collect();
        // A value may be a part of another one.
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
