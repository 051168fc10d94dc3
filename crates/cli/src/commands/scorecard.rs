//! `steer scorecard`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use kube::api::PostParams;
use serde_json::{Value, json};
use steersman_cluster::Cluster;
use steersman_release::Kinds;
use steersman_scaffold::{BundleContent, ScorecardResult, ScorecardState, ScorecardTest, scorecard_tests};

use super::dev::project::{NAMESPACE, install_definitions};
use crate::failure::{Failure, Result};
use crate::output::Output;

const ABOUT: &str = "\
Run the scorecard's basic and OLM test suites on a bundle

The tests are those of operator-sdk's scorecard, selected by the configuration in the bundle. They run in this process: the \
CRDs and examples of the bundle are created on an embedded cluster, so no other cluster and no \
images are needed.";

const EXAMPLES: &str = "\
The command fails if a test does not pass.

Examples:
  steer scorecard bundle
  steer scorecard bundle --selector suite=olm -o json
  steer scorecard bundle --list
  steer scorecard bundle -c my-config.yaml -o xunit > report.xml";

/// Run the scorecard's basic and OLM test suites on a bundle
#[derive(Args, Debug)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub(crate) struct Scorecard {
    /// Directory of the bundle
    #[arg(value_name = "BUNDLE", default_value = "bundle")]
    bundle: PathBuf,

    /// Path to the scorecard config file [default: tests/scorecard/config.yaml in the bundle]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Label selector of the tests to run, such as suite=olm or 'test in (a,b)' [default: all]
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    selector: String,

    /// List the tests without running them
    #[arg(short = 'L', long)]
    list: bool,

    /// Output format of the results
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Format,

    /// Time to wait for the tests to complete
    #[arg(short, long, value_name = "DURATION", default_value = "30s", value_parser = crate::flags::duration)]
    wait_time: Duration,

    #[command(flatten)]
    ignored: IgnoredArgs,
}

/// Flags of operator-sdk's scorecard that are about pods: there are none here.
#[derive(Args, Debug)]
struct IgnoredArgs {
    #[arg(short, long, hide = true)]
    service_account: Option<String>,
    #[arg(short = 'x', long, hide = true)]
    skip_cleanup: bool,
    #[arg(short, long, hide = true)]
    test_output: Option<PathBuf>,
    #[arg(long, hide = true)]
    pod_security: Option<String>,
    #[arg(long, hide = true)]
    storage_image: Option<String>,
    #[arg(long, hide = true)]
    untar_image: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Xunit,
}

impl Scorecard {
    pub(crate) fn run(self, output: &mut Output) -> Result {
        let helped = |error: steersman_scaffold::Error| {
            Failure::from(error).help("`steer generate bundle` makes a bundle")
        };
        let requirements = Requirement::parse_all(&self.selector)
            .map_err(|reason| Failure::new(format!("--selector {:?}: {reason}", self.selector)))?;
        let mut tests = scorecard_tests(&self.bundle, self.config.as_deref()).map_err(helped)?;
        tests.retain(|test| requirements.iter().all(|requirement| requirement.matches(&test.labels)));
        let content = BundleContent::load(&self.bundle).map_err(helped)?;
        let refused = if self.list || tests.is_empty() { Vec::new() } else { self.examples(&content)? };
        let results: Vec<(ScorecardTest, Option<ScorecardResult>)> = tests
            .into_iter()
            .map(|test| {
                let result = (!self.list).then(|| content.run(&test, &refused));
                (test, result)
            })
            .collect();
        match self.output {
            Format::Text => output.push(&as_text(&results)),
            Format::Json => output.line(format_args!("{:#}", as_json(&results))),
            Format::Xunit => output.push(&as_xunit(&results)),
        }
        let is_passed = |result: &ScorecardResult| result.state == ScorecardState::Pass;
        match results.iter().filter_map(|(_, result)| result.as_ref()).all(is_passed) {
            true => Ok(()),
            false => Err(Failure::of_tests()),
        }
    }

    /// Creates definitions and examples on an embedded cluster, and returns the rejected examples.
    fn examples(&self, content: &BundleContent) -> Result<Vec<String>> {
        crate::runtime::multi_thread()?.block_on(async {
            match tokio::time::timeout(self.wait_time, refused(content)).await {
                Ok(refused) => refused,
                Err(_) => {
                    Err(Failure::new(format!("the tests timed out after {} s", self.wait_time.as_secs()))
                        .help("raise the limit with --wait-time"))
                }
            }
        })
    }
}

async fn refused(content: &BundleContent) -> Result<Vec<String>> {
    let cluster = Cluster::builder().workloads(false).start().await;
    let cluster = cluster.map_err(|error| Failure::new(error.to_string()))?;
    let client = cluster.client();
    if let Err(failure) = install_definitions(&client, content.definitions.clone()).await {
        return Ok(vec![failure.message().to_owned()]);
    }
    let kinds = Kinds::new(client.clone());
    let mut refused = Vec::new();
    for example in &content.examples {
        let text =
            |pointer: &str| example.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let title = format!("{}/{}", text("/kind"), text("/metadata/name"));
        let object = match steersman_release::resolve(example.clone(), NAMESPACE, &kinds).await {
            Ok(object) => object,
            Err(error) => {
                refused.push(format!("{title}: {error}"));
                continue;
            }
        };
        // An example's own namespace need not exist here, so it is created in another one, as a dry run.
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let mut body = object.content.clone();
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("namespace");
        }
        let api = kube::Api::<kube::api::DynamicObject>::namespaced_with(
            client.clone(),
            NAMESPACE,
            &object.kind.resource,
        );
        let api = if object.id.namespace.is_empty() { object.api(&client) } else { api };
        let created = match serde_json::from_value(body) {
            Ok(body) => api
                .create(&params, &body)
                .await
                .map(drop)
                .map_err(|error| Failure::of_kube(&error).message().to_owned()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(reason) = created {
            refused.push(format!("{title}: {reason}"));
        }
    }
    Ok(refused)
}

type Results = [(ScorecardTest, Option<ScorecardResult>)];

fn as_text(results: &Results) -> String {
    let mut text = String::new();
    for (test, result) in results {
        let _ = writeln!(text, "{}", "-".repeat(80));
        let _ = writeln!(text, "Image:      {}", test.image);
        let _ = writeln!(text, "Entrypoint: [{}]", test.entrypoint.join(" "));
        text.push_str("Labels:\n");
        for (key, value) in &test.labels {
            let _ = writeln!(text, "\t{key:?}:{value:?}");
        }
        let Some(result) = result else { continue };
        let _ = writeln!(text, "Results:\n\tName: {}\n\tState: {}\n", result.name, result.state.as_str());
        for (title, lines) in [("Suggestions", &result.suggestions), ("Errors", &result.errors)] {
            if !lines.is_empty() {
                let _ = writeln!(text, "\t{title}:");
                lines.iter().for_each(|line| text.push_str(&format!("\t\t{line}\n")));
            }
        }
        if !result.log.is_empty() {
            text.push_str("\tLog:\n");
            result.log.lines().for_each(|line| text.push_str(&format!("\t\t{line}\n")));
        }
        text.push('\n');
    }
    text
}

fn as_json(results: &Results) -> Value {
    const API: &str = "scorecard.operatorframework.io/v1alpha3";
    let items: Vec<Value> = results
        .iter()
        .map(|(test, result)| {
            let results: Vec<Value> = result.iter().map(result_json).collect();
            json!({
                "kind": "Test", "apiVersion": API,
                "spec": {"image": test.image, "entrypoint": test.entrypoint, "labels": test.labels},
                "status": {"results": results},
            })
        })
        .collect();
    json!({"kind": "TestList", "apiVersion": API, "items": items})
}

fn result_json(result: &ScorecardResult) -> Value {
    let mut value = json!({"name": result.name, "state": result.state.as_str()});
    for (key, lines) in [("errors", &result.errors), ("suggestions", &result.suggestions)] {
        if !lines.is_empty() {
            value[key] = json!(lines);
        }
    }
    if !result.log.is_empty() {
        value["log"] = result.log.as_str().into();
    }
    value
}

fn as_xunit(results: &Results) -> String {
    let mut text =
        String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"scorecard\">\n");
    for (test, result) in results {
        let name = test.labels.get("test").map(String::as_str).or(test.entrypoint.last().map(String::as_str));
        let name = escape(name.unwrap_or_default());
        let state = result.as_ref().map(|result| result.state);
        let count = |wanted: ScorecardState| usize::from(state == Some(wanted));
        let _ = writeln!(
            text,
            "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n    <properties>",
            1,
            count(ScorecardState::Fail),
            count(ScorecardState::Error),
            usize::from(state.is_none()),
        );
        let mut property = |key: &str, value: &str| {
            let _ = writeln!(
                text,
                "      <property name=\"{}\" value=\"{}\"></property>",
                escape(key),
                escape(value)
            );
        };
        property("spec.image", &test.image);
        property("spec.entrypoint", &test.entrypoint.join(" "));
        test.labels.iter().for_each(|(key, value)| property(&format!("labels.{key}"), value));
        text.push_str("    </properties>\n");
        let case = test.entrypoint.last().map(|name| escape(name)).unwrap_or_default();
        let _ = writeln!(text, "    <testcase name=\"{case}\" classname=\"scorecard\">");
        match result {
            None => text.push_str("      <skipped></skipped>\n"),
            Some(result) => {
                let element = match result.state {
                    ScorecardState::Pass => None,
                    ScorecardState::Fail => Some("failure"),
                    ScorecardState::Error => Some("error"),
                };
                if let Some(element) = element {
                    let message = escape(&result.errors.join("\n"));
                    let _ = writeln!(
                        text,
                        "      <{element} type=\"{element}\" message=\"{message}\"></{element}>"
                    );
                }
                if !result.log.is_empty() {
                    let _ = writeln!(text, "      <system-out>{}</system-out>", escape(&result.log));
                }
            }
        }
        text.push_str("    </testcase>\n  </testsuite>\n");
    }
    text + "</testsuites>\n"
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A requirement of a label selector.
#[derive(Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    /// The values to match; empty for any.
    values: Vec<String>,
    is_negated: bool,
}

impl Requirement {
    /// Parses a label selector: `a=b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`, `!a`, separated by commas.
    fn parse_all(text: &str) -> std::result::Result<Vec<Self>, String> {
        let mut requirements = Vec::new();
        let (mut depth, mut start) = (0_usize, 0);
        for (at, c) in text.char_indices().chain([(text.len(), ',')]) {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.checked_sub(1).ok_or("unbalanced closing parenthesis")?,
                ',' if depth == 0 => {
                    let part = text.get(start..at).unwrap_or_default().trim();
                    if !part.is_empty() {
                        requirements.push(Self::parse(part)?);
                    }
                    start = at + 1;
                }
                _ => {}
            }
        }
        if depth > 0 { Err("unbalanced opening parenthesis".to_owned()) } else { Ok(requirements) }
    }

    fn parse(part: &str) -> std::result::Result<Self, String> {
        let one = |key: &str, value: &str, is_negated| Self {
            key: key.trim().to_owned(),
            values: vec![value.trim().to_owned()],
            is_negated,
        };
        let requirement = if let Some((head, values)) =
            part.strip_suffix(')').and_then(|part| part.split_once('('))
        {
            let mut words = head.split_whitespace();
            let (Some(key), Some(operator), None) = (words.next(), words.next(), words.next()) else {
                return Err(format!("{part:?} is not KEY in (VALUES)"));
            };
            let is_negated = match operator {
                "in" => false,
                "notin" => true,
                _ => return Err(format!("{operator:?} must be in or notin")),
            };
            let values = values.split(',').map(|value| value.trim().to_owned()).collect();
            Self { key: key.to_owned(), values, is_negated }
        } else if let Some((key, value)) = part.split_once("!=") {
            one(key, value, true)
        } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
            one(key, value, false)
        } else {
            let key = part.strip_prefix('!');
            Self { key: key.unwrap_or(part).trim().to_owned(), values: Vec::new(), is_negated: key.is_some() }
        };
        match requirement.key.is_empty() || requirement.key.contains(char::is_whitespace) {
            true => Err(format!("{part:?} has no label key")),
            false => Ok(requirement),
        }
    }

    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let is_met = value.is_some_and(|value| self.values.is_empty() || self.values.contains(value));
        is_met != self.is_negated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_choose_by_labels() {
        let labels: BTreeMap<String, String> =
            [("suite", "olm"), ("test", "a")].map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let matches = |selector: &str| {
            Requirement::parse_all(selector).unwrap().iter().all(|requirement| requirement.matches(&labels))
        };
        for selector in
            ["", "suite=olm", "suite==olm,test!=b", "test in (a, b),suite", "x notin (y)", "!x", "x!=y"]
        {
            assert!(matches(selector), "{selector}");
        }
        for selector in ["suite=basic", "test notin (a)", "!suite", "suite=olm,test in (b)", "x"] {
            assert!(!matches(selector), "{selector}");
        }
        for selector in ["a in b)", "a in (b", "a of (b)", "=b", "a b"] {
            assert!(Requirement::parse_all(selector).is_err(), "{selector}");
        }
    }

    #[test]
    fn text_is_safe_in_xml() {
        assert_eq!(escape("a<b & \"c\"\n\u{1}"), "a&lt;b &amp; &quot;c&quot;&#10;\u{fffd}");
    }
}
