//! kuttl's own kinds, decoded as Go does: unknown fields are ignored, null is the zero value.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The API group of kuttl's kinds.
pub(crate) const GROUP: &str = "kuttl.dev";

/// Deserializes null as the default.
fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(reader: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(reader)?.unwrap_or_default())
}

/// Deserializes an integer, which may be written as a whole float.
fn integer<'de, D: Deserializer<'de>>(reader: D) -> Result<i64, D::Error> {
    let whole = |number: f64| (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64);
    match Value::deserialize(reader)? {
        Value::Null => Ok(0),
        Value::Number(number) => number
            .as_i64()
            .or_else(|| number.as_f64().and_then(whole))
            .ok_or_else(|| serde::de::Error::custom(format!("{number} is not an integer"))),
        other => Err(serde::de::Error::custom(format!("{other} is not an integer"))),
    }
}

/// The metadata of a test object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// The name; for a step, it overrides the one in the file name.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
}

/// Settings of a run: `kuttl-test.yaml`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TestSuite {
    /// The suite's name, which reports include.
    #[serde(deserialize_with = "nullable")]
    pub metadata: Metadata,
    /// Directory with definitions to install before the tests. Default: none.
    #[serde(deserialize_with = "nullable")]
    pub crd_dir: String,
    /// Directories with manifests to install before the tests.
    #[serde(deserialize_with = "nullable")]
    pub manifest_dirs: Vec<String>,
    /// Directories whose subdirectories are test cases.
    #[serde(deserialize_with = "nullable")]
    pub test_dirs: Vec<String>,
    /// Whether to start a control plane without controllers for the run. Default: no.
    #[serde(deserialize_with = "nullable")]
    pub start_control_plane: bool,
    /// Whether to show the control plane's log. Default: no.
    #[serde(deserialize_with = "nullable")]
    pub attach_control_plane_output: bool,
    /// Whether to start a kind cluster for the run. Default: no.
    #[serde(rename = "startKIND", deserialize_with = "nullable")]
    pub start_kind: bool,
    /// File with kind's configuration.
    #[serde(deserialize_with = "nullable")]
    pub kind_config: String,
    /// Name of kind's cluster. Default: `kind`.
    #[serde(deserialize_with = "nullable")]
    pub kind_context: String,
    /// Whether kind's nodes keep images in volumes. Default: no.
    #[serde(deserialize_with = "nullable")]
    pub kind_node_cache: bool,
    /// Images to load into kind's nodes.
    #[serde(deserialize_with = "nullable")]
    pub kind_containers: Vec<String>,
    /// Whether to keep objects and namespaces after the tests. Default: no.
    #[serde(deserialize_with = "nullable")]
    pub skip_delete: bool,
    /// Whether to keep a cluster that was started for the run. Default: no.
    #[serde(deserialize_with = "nullable")]
    pub skip_cluster_delete: bool,
    /// Timeout of a step, in seconds. Default: 30.
    #[serde(deserialize_with = "integer")]
    pub timeout: i64,
    /// Number of test cases that run concurrently. Default: 8.
    #[serde(deserialize_with = "integer")]
    pub parallel: i64,
    /// Directory for reports. Default: the working directory.
    #[serde(deserialize_with = "nullable")]
    pub artifacts_dir: String,
    /// Commands to run before the tests.
    #[serde(deserialize_with = "nullable")]
    pub commands: Vec<Command>,
    /// The report's format, `json` or `xml`. Default: no report.
    #[serde(deserialize_with = "nullable")]
    pub report_format: String,
    /// The report's file name without its extension. Default: `kuttl-report`.
    #[serde(deserialize_with = "nullable")]
    pub report_name: String,
    /// What a test case of the report represents: a `step` or a `test`. Default: `step`.
    #[serde(deserialize_with = "nullable")]
    pub report_granularity: String,
    /// The namespace of all test cases. Default: a generated one for each.
    #[serde(deserialize_with = "nullable")]
    pub namespace: String,
    /// Kinds of logs to leave out: `events`.
    #[serde(deserialize_with = "nullable")]
    pub suppress: Vec<String>,
    /// Patterns of file names to ignore. Default: `README*`.
    pub ignore_files: Option<Vec<String>>,
}

impl TestSuite {
    /// Timeout of a step in seconds, with the default applied.
    #[must_use]
    pub fn step_timeout(&self) -> i64 {
        if self.timeout == 0 { 30 } else { self.timeout }
    }
}

/// What a step does besides applying the objects in its files.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TestStep {
    /// The metadata; its name overrides the one in the file name.
    #[serde(deserialize_with = "nullable")]
    pub metadata: Metadata,
    /// Files or directories with objects to apply.
    #[serde(deserialize_with = "nullable")]
    pub apply: Vec<String>,
    /// Files or directories with objects that must match.
    #[serde(deserialize_with = "nullable")]
    pub assert: Vec<String>,
    /// Files or directories with objects that must not match.
    #[serde(deserialize_with = "nullable")]
    pub error: Vec<String>,
    /// Objects to delete first.
    #[serde(deserialize_with = "nullable")]
    pub delete: Vec<ObjectReference>,
    /// Whether the step runs without a cluster. Has no effect.
    #[serde(deserialize_with = "nullable")]
    pub unit_test: bool,
    /// Commands to run after deletions.
    #[serde(deserialize_with = "nullable")]
    pub commands: Vec<Command>,
    /// Kubeconfig of the cluster that the step runs against. Default: the run's.
    #[serde(deserialize_with = "nullable")]
    pub kubeconfig: String,
    /// When the kubeconfig is read: `Eager` (before the first step) or `Lazy`. Default: `Eager`.
    #[serde(deserialize_with = "nullable")]
    pub kubeconfig_loading: String,
    /// Context of the kubeconfig. Default: its current one.
    #[serde(deserialize_with = "nullable")]
    pub context: String,
}

/// What a step asserts besides the objects in its files.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TestAssert {
    /// Timeout of the step, in seconds. Default: the suite's.
    #[serde(deserialize_with = "integer")]
    pub timeout: i64,
    /// What to collect and show if the step fails.
    #[serde(deserialize_with = "nullable")]
    pub collectors: Vec<Option<Collector>>,
    /// Commands that must succeed.
    #[serde(deserialize_with = "nullable")]
    pub commands: Vec<AssertCommand>,
    /// Objects that expressions can refer to.
    #[serde(deserialize_with = "nullable")]
    pub resource_refs: Vec<ResourceRef>,
    /// Expressions; at least one must be true.
    #[serde(deserialize_with = "nullable")]
    pub assert_any: Vec<Assertion>,
    /// Expressions; all must be true.
    #[serde(deserialize_with = "nullable")]
    pub assert_all: Vec<Assertion>,
}

/// Selects the test runs that use a file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TestFile {
    /// Selector of run labels. An empty selector matches all runs, a missing one matches none.
    pub test_run_selector: Option<LabelSelector>,
}

/// A label selector.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels and the values that they must have.
    #[serde(deserialize_with = "nullable")]
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements.
    #[serde(deserialize_with = "nullable")]
    pub match_expressions: Vec<LabelRequirement>,
}

/// A requirement on one label.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct LabelRequirement {
    /// The label.
    #[serde(deserialize_with = "nullable")]
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    #[serde(deserialize_with = "nullable")]
    pub operator: String,
    /// The values of `In` and `NotIn`.
    #[serde(deserialize_with = "nullable")]
    pub values: Vec<String>,
}

impl LabelSelector {
    /// Whether the labels match.
    ///
    /// # Errors
    /// Fails if a requirement is not valid.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> Result<bool, String> {
        let mut matched = self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value));
        for LabelRequirement { key, operator, values } in &self.match_expressions {
            let needs_values = match operator.as_str() {
                "In" | "NotIn" => true,
                "Exists" | "DoesNotExist" => false,
                other => return Err(format!("{other:?} is not a valid label selector operator")),
            };
            if needs_values == values.is_empty() {
                let what = if needs_values { "needs values" } else { "takes no values" };
                return Err(format!("label {key}: operator {operator} {what}"));
            }
            let value = labels.get(key);
            matched &= match operator.as_str() {
                "In" => value.is_some_and(|value| values.contains(value)),
                "NotIn" => value.is_none_or(|value| !values.contains(value)),
                "Exists" => value.is_some(),
                _ => value.is_none(),
            };
        }
        Ok(matched)
    }
}

/// A reference to an object by name, or to objects by labels.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectReference {
    /// The API version, such as `apps/v1`.
    #[serde(deserialize_with = "nullable")]
    pub api_version: String,
    /// The kind.
    #[serde(deserialize_with = "nullable")]
    pub kind: String,
    /// The name. Default: all objects that the labels select.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// The namespace. Default: that of the test case.
    #[serde(deserialize_with = "nullable")]
    pub namespace: String,
    /// Labels that select objects if no name is given. Default: all objects.
    #[serde(deserialize_with = "nullable")]
    pub labels: BTreeMap<String, String>,
}

/// A program or shell script to run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Command {
    /// A program with its arguments, split as a shell splits words, with variables expanded.
    #[serde(deserialize_with = "nullable")]
    pub command: String,
    /// Whether `--namespace` is added to the arguments. Default: no.
    #[serde(deserialize_with = "nullable")]
    pub namespaced: bool,
    /// A script for `sh`.
    #[serde(deserialize_with = "nullable")]
    pub script: String,
    /// Whether to ignore a failing exit code. Default: no.
    #[serde(deserialize_with = "nullable")]
    pub ignore_failure: bool,
    /// Whether it runs in the background until the suite or test case ends. Its exit code is ignored.
    /// Default: no.
    #[serde(deserialize_with = "nullable")]
    pub background: bool,
    /// Timeout in seconds; negative for none. Default: the suite's.
    #[serde(deserialize_with = "integer")]
    pub timeout: i64,
    /// Whether to omit its output from the log. Default: no.
    #[serde(deserialize_with = "nullable")]
    pub skip_log_output: bool,
}

/// A command that must succeed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AssertCommand {
    /// As [`Command::command`].
    #[serde(deserialize_with = "nullable")]
    pub command: String,
    /// As [`Command::namespaced`].
    #[serde(deserialize_with = "nullable")]
    pub namespaced: bool,
    /// As [`Command::script`].
    #[serde(deserialize_with = "nullable")]
    pub script: String,
    /// As [`Command::skip_log_output`].
    #[serde(deserialize_with = "nullable")]
    pub skip_log_output: bool,
}

/// What to collect and show of a failed step.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Collector {
    /// `pod`, `command` or `events`. Default: `command` if there is one, else `pod`.
    #[serde(rename = "type", deserialize_with = "nullable")]
    pub kind: String,
    /// Name of the pod, or of the event.
    #[serde(deserialize_with = "nullable")]
    pub pod: String,
    /// The namespace. Default: that of the test case.
    #[serde(deserialize_with = "nullable")]
    pub namespace: String,
    /// The container. Default: all.
    #[serde(deserialize_with = "nullable")]
    pub container: String,
    /// Labels that select pods.
    #[serde(deserialize_with = "nullable")]
    pub selector: String,
    /// Number of lines. Default: 10 with a selector, else all.
    #[serde(deserialize_with = "integer")]
    pub tail: i64,
    /// A command whose output is shown.
    #[serde(deserialize_with = "nullable")]
    pub command: String,
}

impl Collector {
    /// Returns the command that collects the output; `None` if the collector is not valid.
    #[must_use]
    pub fn to_command(&self) -> Option<Command> {
        let kind = match self.kind.to_lowercase() {
            kind if !kind.is_empty() => kind,
            _ if self.command.is_empty() => "pod".to_owned(),
            _ => "command".to_owned(),
        };
        let namespace = if self.namespace.is_empty() { "$NAMESPACE" } else { &self.namespace };
        let text = match kind.as_str() {
            "command" => {
                let others = [&self.pod, &self.namespace, &self.container, &self.selector];
                if self.command.is_empty() || others.iter().any(|field| !field.is_empty()) {
                    return None;
                }
                self.command.clone()
            }
            "pod" => {
                if !self.command.is_empty() || (self.pod.is_empty() && self.selector.is_empty()) {
                    return None;
                }
                let mut text = "kubectl logs --prefix".to_owned();
                if !self.pod.is_empty() {
                    text += &format!(" {}", self.pod);
                }
                if !self.selector.is_empty() {
                    text += &format!(" -l {}", self.selector);
                }
                text += &format!(" -n {namespace}");
                match self.container.as_str() {
                    "" => text += " --all-containers",
                    container => text += &format!(" -c {container}"),
                }
                let tail = match (self.tail, self.selector.is_empty()) {
                    (0, true) => -1,
                    (0, false) => 10,
                    (tail, _) => tail,
                };
                format!("{text} --tail={tail}")
            }
            "events" => {
                let others = [&self.command, &self.selector, &self.container];
                if others.iter().any(|field| !field.is_empty()) {
                    return None;
                }
                let pod = if self.pod.is_empty() { String::new() } else { format!(" {}", self.pod) };
                format!("kubectl get events{pod} -n {namespace}")
            }
            _ => return None,
        };
        Some(Command { command: text, ignore_failure: true, ..Command::default() })
    }
}

/// An object that expressions can refer to.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceRef {
    /// The API version, such as `apps/v1`.
    #[serde(deserialize_with = "nullable")]
    pub api_version: String,
    /// The kind.
    #[serde(deserialize_with = "nullable")]
    pub kind: String,
    /// The namespace. Default: that of the test case.
    #[serde(deserialize_with = "nullable")]
    pub namespace: String,
    /// The name.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// The variable that holds the object.
    #[serde(rename = "ref", deserialize_with = "nullable")]
    pub variable: String,
}

impl ResourceRef {
    pub(crate) fn validate(&self) -> Result<(), &'static str> {
        if self.api_version.is_empty() || self.api_version.matches('/').count() > 1 {
            return Err("apiVersion not of the format (<group>/)<version>");
        }
        let required = [
            (&self.kind, "kind not specified"),
            (&self.name, "name not specified"),
            (&self.variable, "ref not specified"),
        ];
        required.into_iter().find(|(field, _)| field.is_empty()).map_or(Ok(()), |(_, why)| Err(why))
    }
}

/// An expression that must be true.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Assertion {
    /// The expression, in Kubernetes' Common Expression Language.
    #[serde(deserialize_with = "nullable")]
    pub cel_expr: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn collectors_become_commands() {
        let command = |json: Value| {
            let collector: Collector = serde_json::from_value(json).unwrap();
            collector.to_command().map(|command| command.command)
        };
        let is = |text: &str| Some(text.to_owned());
        assert_eq!(
            command(json!({"pod": "p"})),
            is("kubectl logs --prefix p -n $NAMESPACE --all-containers --tail=-1")
        );
        assert_eq!(
            command(json!({"selector": "a=b", "namespace": "n", "container": "c"})),
            is("kubectl logs --prefix -l a=b -n n -c c --tail=10")
        );
        assert_eq!(command(json!({"command": "echo hi"})), is("echo hi"));
        assert_eq!(command(json!({"type": "Events", "pod": "e"})), is("kubectl get events e -n $NAMESPACE"));
        for wrong in [
            json!({}),
            json!({"type": "x"}),
            json!({"command": "a", "pod": "b"}),
            json!({"type": "events", "selector": "a"}),
        ] {
            assert_eq!(command(wrong), None);
        }
    }

    #[test]
    fn fields_are_read_as_go_reads_them() {
        let step: TestStep = serde_json::from_value(json!({"commands": null, "unknown": 1})).unwrap();
        assert!(step.commands.is_empty());
        let timeout = |json: Value| {
            serde_json::from_value::<TestAssert>(json!({"timeout": json})).map(|read| read.timeout)
        };
        assert_eq!(timeout(json!(5)).unwrap(), 5);
        assert_eq!(timeout(json!(5.0)).unwrap(), 5);
        assert!(timeout(json!("5")).is_err() && timeout(json!(5.5)).is_err());
    }
}
