//! Reports of a run as kuttl writes them: JSON and JUnit XML.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::outcome::{CaseOutcome, Outcome, StepOutcome, SuiteOutcome};
use crate::types::TestSuite;

/// Writes the report configured in the suite and returns its path; `None` if none is configured.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn write_report(suite: &TestSuite, outcome: &Result<Outcome, Error>) -> Result<Option<PathBuf>, Error> {
    let is_xml = match suite.report_format.as_str() {
        "" => return Ok(None),
        "xml" => true,
        _ => false,
    };
    let report = Report { by_test: suite.report_granularity == "test" };
    let document = report.document(suite, outcome);
    let (text, extension) = if is_xml { (xml(&document), "xml") } else { (json_text(&document), "json") };
    let name = if suite.report_name.is_empty() { "kuttl-report" } else { &suite.report_name };
    let directory = Path::new(&suite.artifacts_dir);
    let path = directory.join(format!("{name}.{extension}"));
    let failed = |source| Error::Report { path: path.clone(), source };
    if !suite.artifacts_dir.is_empty() {
        std::fs::create_dir_all(directory).map_err(failed)?;
    }
    std::fs::write(&path, text).map_err(failed)?;
    Ok(Some(path))
}

/// An element of the report. Its attributes become fields in JSON.
struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, Value)>,
    children: Vec<Element>,
    text: String,
}

struct Report {
    by_test: bool,
}

fn elapsed(duration: Duration) -> Value {
    format!("{:.3}", duration.as_secs_f64()).into()
}

fn timestamp(time: SystemTime) -> Value {
    jiff::Timestamp::try_from(time).map(|time| time.to_string()).unwrap_or_default().into()
}

impl Report {
    fn document(&self, suite: &TestSuite, outcome: &Result<Outcome, Error>) -> Element {
        let none = Vec::new();
        let suites = outcome.as_ref().map_or(&none, |outcome| &outcome.suites);
        let mut children: Vec<Element> = suites.iter().map(|suite| self.suite(suite)).collect();
        let sum = |key: &str| -> u64 {
            let of = |element: &Element| {
                let found = element.attributes.iter().find(|(name, _)| *name == key);
                found.and_then(|(_, value)| value.as_u64()).unwrap_or_default()
            };
            children.iter().map(of).sum()
        };
        let attributes = vec![
            ("name", suite.metadata.name.as_str().into()),
            ("tests", sum("tests").into()),
            ("failures", sum("failures").into()),
            ("time", elapsed(outcome.as_ref().map_or(Duration::ZERO, |outcome| outcome.duration))),
        ];
        if let Err(error) = outcome {
            let attributes = vec![("message", error.to_string().into())];
            children.push(Element { name: "failure", attributes, children: Vec::new(), text: String::new() });
        }
        Element { name: "testsuites", attributes, children, text: String::new() }
    }

    fn suite(&self, suite: &SuiteOutcome) -> Element {
        let class = Path::new(&suite.name).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let of_case = |case: &CaseOutcome| {
            if self.by_test { by_test(case, &class) } else { by_step(case) }
        };
        let end = suite.cases.iter().map(|case| case.started + case.duration).max().unwrap_or(suite.started);
        let (mut tests, mut failures) = (0, 0);
        for case in &suite.cases {
            let failed = case.steps.iter().filter(|step| !step.failures.is_empty()).count();
            tests += if self.by_test { 1 } else { case.steps.len() };
            failures += if self.by_test { failed.min(1) } else { failed };
        }
        let duration = end.duration_since(suite.started).unwrap_or_default();
        let attributes = testsuite(&suite.name, suite.started, duration, tests, failures);
        let children = suite.cases.iter().map(of_case).collect();
        Element { name: "testsuite", attributes, children, text: String::new() }
    }
}

fn testsuite(
    name: &str,
    started: SystemTime,
    duration: Duration,
    tests: usize,
    failures: usize,
) -> Vec<(&'static str, Value)> {
    vec![
        ("tests", tests.into()),
        ("failures", failures.into()),
        ("timestamp", timestamp(started)),
        ("time", elapsed(duration)),
        ("name", name.into()),
    ]
}

/// Reports the whole case as one test case.
fn by_test(case: &CaseOutcome, class: &str) -> Element {
    let assertions = case.steps.iter().map(|step| step.assertions).sum();
    testcase(class, &case.name, case.started, case.duration, assertions, case.failed_step())
}

/// Reports the case as a test suite with a test case per step.
fn by_step(case: &CaseOutcome) -> Element {
    let failures = case.steps.iter().filter(|step| !step.failures.is_empty()).count();
    let of_step = |step: &StepOutcome| {
        let failed = Some(step).filter(|step| !step.failures.is_empty());
        testcase(&case.name, &step.name, step.started, step.duration, step.assertions, failed)
    };
    let mut steps: Vec<&StepOutcome> = case.steps.iter().collect();
    steps.sort_by(|one, other| one.name.cmp(&other.name));
    Element {
        name: "testsuite",
        attributes: testsuite(&case.name, case.started, case.duration, case.steps.len(), failures),
        children: steps.into_iter().map(of_step).collect(),
        text: String::new(),
    }
}

fn testcase(
    class: &str,
    name: &str,
    started: SystemTime,
    duration: Duration,
    assertions: usize,
    failed: Option<&StepOutcome>,
) -> Element {
    let attributes = vec![
        ("classname", class.into()),
        ("name", name.into()),
        ("timestamp", timestamp(started)),
        ("time", elapsed(duration)),
        ("assertions", assertions.into()),
    ];
    let failure = failed.map(|step| {
        let message = match step.name.strip_prefix("step ") {
            Some(title) => format!("failed in step {title}"),
            None => step.failures.last().map(|failure| failure.message.clone()).unwrap_or_default(),
        };
        let text = step.failures.last().map(|failure| failure.message.clone()).unwrap_or_default();
        let attributes = vec![("message", message.into()), ("type", "".into())];
        Element { name: "failure", attributes, children: Vec::new(), text }
    });
    Element { name: "testcase", attributes, children: failure.into_iter().collect(), text: String::new() }
}

fn json_text(document: &Element) -> String {
    let mut text = serde_json::to_string_pretty(&json_value(document)).unwrap_or_default();
    text.push('\n');
    text
}

fn json_value(element: &Element) -> Value {
    let mut fields = Map::new();
    for (name, value) in &element.attributes {
        let is_omitted =
            (*name == "assertions" && *value == json!(0)) || (*name == "type" && *value == json!(""));
        if !is_omitted {
            fields.insert((*name).to_owned(), value.clone());
        }
    }
    if !element.text.is_empty() {
        fields.insert("text".to_owned(), element.text.as_str().into());
    }
    for child in &element.children {
        match child.name {
            "failure" => {
                fields.insert("failure".to_owned(), json_value(child));
            }
            name => {
                let list = fields.entry(name).or_insert_with(|| json!([]));
                if let Value::Array(items) = list {
                    items.push(json_value(child));
                }
            }
        }
    }
    Value::Object(fields)
}

fn xml(document: &Element) -> String {
    let mut text = String::new();
    write_xml(&mut text, document, 0);
    text
}

fn write_xml(out: &mut String, element: &Element, depth: usize) {
    let indent = "  ".repeat(depth);
    // Writing to a string cannot fail.
    let _ = write!(out, "{indent}<{}", element.name);
    for (name, value) in &element.attributes {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let _ = write!(out, " {name}=\"{}\"", escape(&value));
    }
    out.push('>');
    out.push_str(&escape(&element.text));
    for child in &element.children {
        out.push('\n');
        write_xml(out, child, depth + 1);
    }
    if !element.children.is_empty() {
        let _ = write!(out, "\n{indent}");
    }
    let _ = write!(out, "</{}>", element.name);
}

fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&#34;"),
            '\n' => escaped.push_str("&#xA;"),
            '\t' => escaped.push_str("&#x9;"),
            '\r' => escaped.push_str("&#xD;"),
            // XML cannot represent these.
            control if control.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}
