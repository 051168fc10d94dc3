//! Compares two servers' responses to a case.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::corpus::{Case, Compared, Step};
use crate::run::Answer;

/// A field that differs between the responses to a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The number of the step, starting at one; those after the last one read what the case wrote.
    pub step: usize,
    /// The request as it was sent.
    pub request: String,
    /// `status`, `header NAME` or a JSON pointer into the body.
    pub place: String,
    /// The real server's value.
    pub real: Option<Value>,
    /// The other server's value.
    pub ours: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show =
            |value: &Option<Value>| value.as_ref().map_or_else(|| "absent".to_owned(), ToString::to_string);
        writeln!(f, "  step {} {}", self.step, self.request)?;
        writeln!(f, "    {}", self.place)?;
        writeln!(f, "      real: {}", show(&self.real))?;
        write!(f, "      ours: {}", show(&self.ours))
    }
}

/// Compares the responses to a case.
#[must_use]
pub fn differences(case: &Case, real: &[Answer], ours: &[Answer]) -> Vec<Difference> {
    let mut found = Vec::new();
    let all = Step::default();
    for index in 0..real.len().max(ours.len()) {
        let step = case.steps.get(index).unwrap_or(&all);
        match (real.get(index), ours.get(index)) {
            (Some(real), Some(ours)) => compare_step(index + 1, step, real, ours, &mut found),
            (real, ours) => found.push(Difference {
                step: index + 1,
                request: real.or(ours).map(|answer| answer.request.clone()).unwrap_or_default(),
                place: "objects written".to_owned(),
                real: real.map(|answer| Value::from(answer.request.clone())),
                ours: ours.map(|answer| Value::from(answer.request.clone())),
            }),
        }
    }
    found
}

fn compare_step(number: usize, step: &Step, real: &Answer, ours: &Answer, found: &mut Vec<Difference>) {
    if step.compare == Compared::Nothing {
        return;
    }
    let request = ours.request.clone();
    let mut differ = |place: String, real: Option<Value>, ours: Option<Value>| {
        found.push(Difference { step: number, request: request.clone(), place, real, ours });
    };
    if real.status != ours.status {
        // The bodies of different outcomes are unrelated, so only the messages are shown.
        let outcome = |answer: &Answer| {
            let message = answer.body.get("message").cloned().unwrap_or(Value::Null);
            Some(Value::Array(vec![Value::from(answer.status), message]))
        };
        differ("status".to_owned(), outcome(real), outcome(ours));
        return;
    }
    if step.compare == Compared::Status {
        return;
    }
    let names: BTreeSet<&String> = real.headers.keys().chain(ours.headers.keys()).collect();
    for name in names {
        let (real, ours) = (header(real, name), header(ours, name));
        if real != ours {
            differ(format!("header {name}"), real.map(Value::from), ours.map(Value::from));
        }
    }
    let mut places = Vec::new();
    walk("", &real.body, &ours.body, &mut places);
    for (place, real, ours) in places {
        if !step.without.iter().any(|left_out| covers(left_out, &place)) {
            differ(place, real, ours);
        }
    }
}

/// Returns a header's value. Warnings are sorted: those about fields are in the order of a text that only the real
/// server has.
fn header(answer: &Answer, name: &str) -> Option<String> {
    let value = answer.headers.get(name)?;
    if name != "warning" {
        return Some(value.clone());
    }
    let mut warnings: Vec<&str> = value.lines().collect();
    warnings.sort_unstable();
    Some(warnings.join("\n"))
}

/// Whether a pointer, in which `*` matches any one segment, refers to a place or a parent of it.
fn covers(pointer: &str, place: &str) -> bool {
    let mut parts = place.split('/');
    pointer.split('/').all(|wanted| parts.next().is_some_and(|part| wanted == "*" || wanted == part))
}

type Place = (String, Option<Value>, Option<Value>);

fn walk(at: &str, real: &Value, ours: &Value, found: &mut Vec<Place>) {
    match (real, ours) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let place = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                match (a.get(key), b.get(key)) {
                    (Some(a), Some(b)) => walk(&place, a, b, found),
                    (a, b) => found.push((place, a.cloned(), b.cloned())),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                walk(&format!("{at}/{index}"), a, b, found);
            }
        }
        (a, b) if a == b => {}
        (a, b) => found.push((at.to_owned(), Some(a.clone()), Some(b.clone()))),
    }
}

/// Known differences with a reason, by feature and case.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Known(BTreeMap<String, BTreeMap<String, String>>);

impl Known {
    /// Loads the list; a missing file is an empty one.
    ///
    /// # Errors
    /// Describes the error in the file.
    pub fn load(path: &Path) -> Result<Self, String> {
        match std::fs::read_to_string(path) {
            Ok(text) => serde_saphyr::from_str(&text).map_err(|error| format!("{}: {error}", path.display())),
            Err(_) => Ok(Self::default()),
        }
    }

    /// Returns the reason why a case may differ, if there is one.
    #[must_use]
    pub fn reason(&self, case: &Case) -> Option<&str> {
        self.0.get(&case.feature)?.get(&case.name).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(status: u16, body: Value) -> Answer {
        Answer { request: "GET /x".to_owned(), status, headers: BTreeMap::new(), body }
    }

    #[test]
    fn fields_are_named() {
        let case = Case { feature: "f".to_owned(), name: "n".to_owned(), steps: vec![Step::default()] };
        let real = [answer(200, json!({"a": {"b/c": 1}, "d": [1, 2]}))];
        let ours = [answer(200, json!({"a": {"b/c": 2}, "d": [1]}))];
        let places: Vec<String> =
            differences(&case, &real, &ours).into_iter().map(|found| found.place).collect();
        assert_eq!(places, ["/a/b~1c", "/d"]);
    }

    #[test]
    fn what_is_left_out_is_left_out() {
        assert!(covers("/items/*/x", "/items/3/x/y"));
        assert!(!covers("/items/*/x", "/items/3"));
    }
}
