//! Hand-written cases that are unlikely to be generated: edge cases of functions, schemas and `--set`.

use std::sync::LazyLock;

use serde_json::{Value as Json, json};

use super::function::question;

/// Templates, one per paragraph; lines that begin with `#` are comments.
const TEMPLATES: &[&str] = &[
    include_str!("../../corpus/chance.txt"),
    include_str!("../../corpus/data.txt"),
    include_str!("../../corpus/dates.txt"),
    include_str!("../../corpus/encoding.txt"),
    include_str!("../../corpus/lists.txt"),
    include_str!("../../corpus/maps.txt"),
    include_str!("../../corpus/numbers.txt"),
    include_str!("../../corpus/regexes.txt"),
    include_str!("../../corpus/texts.txt"),
    include_str!("../../corpus/toml.txt"),
    include_str!("../../corpus/urls.txt"),
    include_str!("../../corpus/versions.txt"),
];

/// Schemas, one per line. A line has a `schema`, or its `text`, with `values` for it, or one to validate each of
/// [`VALUES`] against.
const SCHEMAS: &str = include_str!("../../corpus/schemas.jsonl");

/// Values of every type and size.
const VALUES: &str = r#"[0, 1, 2, 3, -1, 0.5, 2.5, 1e+20, "", "a", "ab", "abc", "é", "ééé", true, false, null, [], [1], [1, 2], [1, 1], [1, "a", null], {}, {"a": 1}, {"a": 1, "b": 2}, {"b": [1]}, "1", [[1], [1]], [{"a": 1}, {"a": 1.0}]]"#;

/// Charts to render, one request per line.
const CHARTS: &str = include_str!("../../corpus/rendered.jsonl");

/// Charts for `helm template`, one request per line.
const TEMPLATED: &str = include_str!("../../corpus/templated.jsonl");

/// Charts to lint, one request per line.
const LINTS: &str = include_str!("../../corpus/linted.jsonl");

/// Arguments of `--set` and its relatives, one request per line.
const SETS: &str = include_str!("../../corpus/set.jsonl");

/// The hand-written cases of one type.
pub struct Written(LazyLock<Vec<Json>>);

impl Written {
    /// Returns the number of cases.
    pub fn cases(&self) -> usize {
        self.0.len()
    }

    /// Returns a case by number.
    pub fn request(&self, case: usize) -> Json {
        self.0[case % self.0.len()].clone()
    }
}

/// Templates to render, and charts with such templates.
pub static RENDERED: Written = Written(LazyLock::new(|| {
    let templates = TEMPLATES.iter().flat_map(|text| paragraphs(text));
    templates.map(|text| question(&text, json!({}))).chain(lines(CHARTS)).collect()
}));

/// Charts for `helm template`, and values to validate against schemas.
pub static MANIFESTS: Written =
    Written(LazyLock::new(|| lines(SCHEMAS).map(|case| validation(&case)).chain(lines(TEMPLATED)).collect()));

/// Charts to lint.
pub static LINTED: Written = Written(LazyLock::new(|| lines(LINTS).collect()));

/// Values to set.
pub static SET: Written = Written(LazyLock::new(|| {
    let mut sets: Vec<Json> = lines(SETS).collect();
    sets.iter_mut().for_each(|set| set["op"] = "strvals".into());
    sets
}));

/// Splits a string into paragraphs, without comments.
fn paragraphs(text: &str) -> impl Iterator<Item = String> {
    let lines = |paragraph: &str| {
        let lines = paragraph.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        lines.collect::<Vec<_>>().join("\n")
    };
    text.split("\n\n").map(lines).filter(|paragraph| !paragraph.is_empty())
}

fn lines(text: &'static str) -> impl Iterator<Item = Json> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
}

/// Builds a chart with a schema in one of the drafts, and values for it.
fn validation(case: &Json) -> Json {
    let values = match case.get("each") {
        Some(_) => format!(r#"{{"l": {VALUES}}}"#),
        None => case["values"].to_string(),
    };
    let mut schema = match case.get("each") {
        Some(rule) => json!({ "properties": { "l": { "items": rule } } }),
        None => case["schema"].clone(),
    };
    if let Some(draft) = case["draft"].as_u64() {
        schema["$schema"] = match draft {
            2019 => "https://json-schema.org/draft/2019-09/schema".into(),
            2020 => "https://json-schema.org/draft/2020-12/schema".into(),
            old => format!("http://json-schema.org/draft-0{old}/schema#").into(),
        };
    }
    let text = case["text"].as_str().map_or_else(|| schema.to_string(), str::to_owned);
    super::schema::question(&text, &values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_is_a_case_and_comments_are_none() {
        let text = "# About\n\n{{ 1 }}\n{{ 2 }}\n\n# More\n{{ 3 }}\n\n\n";
        assert_eq!(paragraphs(text).collect::<Vec<_>>(), ["{{ 1 }}\n{{ 2 }}", "{{ 3 }}"]);
    }

    #[test]
    fn every_kind_has_cases() {
        for written in [&RENDERED, &MANIFESTS, &LINTED, &SET] {
            assert!(written.cases() > 100);
        }
    }
}
