//! The scorecard: operator-sdk's tests of bundles, and their configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::validate::files;
use super::{text, validate_bundle};
use crate::error::{Error, Result};

/// Default path of a bundle's scorecard configuration, unless its annotations specify one.
const CONFIG: &str = "tests/scorecard/config.yaml";

/// A scorecard test, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScorecardTest {
    /// The image that operator-sdk runs for it.
    pub image: String,
    /// The command in the image; the last word is the test's name.
    pub entrypoint: Vec<String>,
    /// The labels that selectors match.
    pub labels: BTreeMap<String, String>,
}

/// The state of a finished test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScorecardState {
    /// The bundle passes the test.
    Pass,
    /// The bundle fails the test.
    Fail,
    /// The test could not be run.
    Error,
}

impl ScorecardState {
    /// Returns operator-sdk's name of the state.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Error => "error",
        }
    }
}

/// The result of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScorecardResult {
    /// The test's name.
    pub name: String,
    /// The state.
    pub state: ScorecardState,
    /// Suggested improvements.
    pub suggestions: Vec<String>,
    /// The errors.
    pub errors: Vec<String>,
    /// The log of what was checked.
    pub log: String,
}

/// Reads the tests from a bundle's scorecard configuration, or from another file.
///
/// # Errors
/// Fails if the file does not exist or is not a scorecard configuration.
pub fn scorecard_tests(bundle: &Path, config: Option<&Path>) -> Result<Vec<ScorecardTest>> {
    let path = config.map_or_else(|| bundle.join(CONFIG), Path::to_owned);
    let data = std::fs::read(&path).map_err(Error::io(&path))?;
    let broken = |reason: String| Error::Broken { path: path.clone(), reason };
    let config = steersman_yaml::from_slice(&data).map_err(|error| broken(error.to_string()))?;
    if !super::is_scorecard(&config) {
        return Err(broken("not a Configuration of scorecard.operatorframework.io".to_owned()));
    }
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let stages = config["stages"].as_array().into_iter().flatten();
    let tests = stages.flat_map(|stage| stage["tests"].as_array().into_iter().flatten());
    Ok(tests
        .map(|test| ScorecardTest {
            image: text(test, "/image").to_owned(),
            entrypoint: texts(&test["entrypoint"]),
            labels: test["labels"]
                .as_object()
                .into_iter()
                .flatten()
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect(),
        })
        .collect())
}

/// The content of a bundle: its ClusterServiceVersion, examples, and definitions.
#[derive(Clone, Debug)]
pub struct BundleContent {
    directory: PathBuf,
    version: Value,
    /// The examples of the ClusterServiceVersion (`alm-examples`).
    pub examples: Vec<Value>,
    /// The definitions, each with its file path.
    pub definitions: Vec<(PathBuf, Value)>,
}

impl BundleContent {
    /// Reads a bundle.
    ///
    /// # Errors
    /// Fails if there is no bundle, or one of its files is malformed.
    pub fn load(directory: &Path) -> Result<Self> {
        let mut content = Self {
            directory: directory.to_owned(),
            version: Value::Null,
            examples: Vec::new(),
            definitions: Vec::new(),
        };
        for path in files(&directory.join("manifests"))? {
            let data = std::fs::read_to_string(&path).map_err(Error::io(&path))?;
            for document in steersman_chart::split(&data) {
                let broken = |reason: String| Error::Broken { path: path.clone(), reason };
                let object = steersman_yaml::from_str(document).map_err(|error| broken(error.to_string()))?;
                match text(&object, "/kind") {
                    "ClusterServiceVersion" => {
                        let examples = text(&object, "/metadata/annotations/alm-examples");
                        let examples = if examples.is_empty() { "[]" } else { examples };
                        content.examples = serde_json::from_str(examples)
                            .map_err(|error| broken(format!("metadata.annotations.alm-examples: {error}")))?;
                        content.version = object;
                    }
                    "CustomResourceDefinition" => content.definitions.push((path.clone(), object)),
                    _ => {}
                }
            }
        }
        if content.version.is_null() {
            let reason = "no ClusterServiceVersion found".to_owned();
            return Err(Error::Broken { path: directory.join("manifests"), reason });
        }
        Ok(content)
    }

    /// Runs a test. `refused` contains the API server's errors about examples, by kind and name.
    #[must_use]
    pub fn run(&self, test: &ScorecardTest, refused: &[String]) -> ScorecardResult {
        let name = test.entrypoint.last().cloned().unwrap_or_default();
        let mut result = ScorecardResult {
            name: name.clone(),
            state: ScorecardState::Pass,
            suggestions: Vec::new(),
            errors: Vec::new(),
            log: String::new(),
        };
        match name.as_str() {
            "basic-check-spec" => self.check_specs(refused, &mut result),
            "olm-bundle-validation" => self.check_bundle(&mut result),
            "olm-crds-have-validation" => self.check_validation(&mut result),
            "olm-crds-have-resources" => self.check_resources(&mut result),
            "olm-spec-descriptors" => self.check_descriptors("spec", &mut result),
            "olm-status-descriptors" => self.check_descriptors("status", &mut result),
            _ => {
                result.state = ScorecardState::Error;
                let known = "only the tests of the suites basic and olm are supported; \
                             others need operator-sdk and a cluster that runs images";
                result.errors.push(format!("unknown test {name:?}: {known}"));
            }
        }
        if result.state == ScorecardState::Pass && !result.errors.is_empty() {
            result.state = ScorecardState::Fail;
        }
        result
    }

    fn check_specs(&self, refused: &[String], result: &mut ScorecardResult) {
        if self.examples.is_empty() {
            result.errors.push("the ClusterServiceVersion has no alm-examples".to_owned());
        }
        for example in &self.examples {
            if !example["spec"].is_object() {
                result.errors.push(format!("{}: error: no spec", title(example)));
                result.suggestions.push("Add a spec to the example".to_owned());
            }
        }
        result.errors.extend(refused.iter().cloned());
        result.log = format!("{} examples were created on an embedded cluster\n", self.examples.len());
    }

    fn check_bundle(&self, result: &mut ScorecardResult) {
        match validate_bundle(&self.directory) {
            Ok(findings) => {
                for finding in findings {
                    let list = if finding.is_error { &mut result.errors } else { &mut result.suggestions };
                    list.push(finding.to_string());
                }
            }
            Err(error) => {
                result.state = ScorecardState::Error;
                result.errors.push(error.to_string());
            }
        }
    }

    /// Checks that the definition's schema declares every field of the examples.
    fn check_validation(&self, result: &mut ScorecardResult) {
        for example in &self.examples {
            let Some(schema) = self.schema(example) else {
                result.errors.push(format!("{}: no CRD defines its version with a schema", title(example)));
                continue;
            };
            for block in ["spec", "status"] {
                let fields = &schema["properties"][block]["properties"];
                for key in keys(&example[block]).filter(|key| fields.get(key).is_none()) {
                    result
                        .errors
                        .push(format!("{}: the schema does not describe {block}.{key}", title(example)));
                    let kind = text(example, "/kind");
                    result.suggestions.push(format!(
                        "Add CRD validation for {block} field `{key}` in {kind}/{}",
                        version_of(example)
                    ));
                }
            }
            result.log.push_str(&format!("{}: its definition has a schema\n", title(example)));
        }
    }

    fn check_resources(&self, result: &mut ScorecardResult) {
        for owned in self.owned() {
            let resources = owned["resources"].as_array().map_or(0, Vec::len);
            let kind = text(owned, "/kind");
            if resources == 0 {
                result.errors.push(format!("Owned CRDs do not have resources specified: {kind}"));
                result
                    .suggestions
                    .push(format!("Add the kinds that the operator makes for {kind} to its resources"));
            }
            result.log.push_str(&format!("{kind}: {resources} resources\n"));
        }
    }

    /// Checks that the fields of the examples have descriptors.
    fn check_descriptors(&self, block: &str, result: &mut ScorecardResult) {
        for example in &self.examples {
            let (kind, version) = (text(example, "/kind"), version_of(example));
            let owned = self.owned().find(|owned| owned["kind"] == kind && owned["version"] == version);
            let Some(owned) = owned else {
                result.errors.push(format!("{}: its kind is not among the owned CRDs", title(example)));
                continue;
            };
            let descriptors = &owned[format!("{block}Descriptors")];
            let paths: Vec<&str> =
                descriptors.as_array().into_iter().flatten().map(|one| text(one, "/path")).collect();
            // A status needs at least one descriptor, a spec one for each field.
            if block == "status" {
                let has_status = keys(&example[block]).next().is_some();
                let name = text(owned, "/name");
                if !has_status {
                    result.suggestions.push(format!("{name}: the example has no status"));
                } else if paths.is_empty() {
                    result.errors.push(format!("{name} does not have a status descriptor"));
                    result.suggestions.push(format!("Add a status descriptor for {name}"));
                }
            } else {
                for key in keys(&example[block]).filter(|key| !paths.contains(key)) {
                    result.errors.push(format!("{key} does not have a {block} descriptor"));
                    result.suggestions.push(format!("Add a {block} descriptor for {key}"));
                }
            }
            result.log.push_str(&format!("{}: {} {block} descriptors\n", title(example), paths.len()));
        }
    }

    fn owned(&self) -> impl Iterator<Item = &Value> {
        self.version
            .pointer("/spec/customresourcedefinitions/owned")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    }

    /// Returns the schema of an example.
    fn schema(&self, example: &Value) -> Option<&Value> {
        let (group, version) = text(example, "/apiVersion").split_once('/')?;
        let crd = self.definitions.iter().map(|(_, crd)| crd).find(|crd| {
            text(crd, "/spec/group") == group && text(crd, "/spec/names/kind") == text(example, "/kind")
        })?;
        let versions = crd.pointer("/spec/versions").and_then(Value::as_array)?;
        versions.iter().find(|one| one["name"] == version)?.pointer("/schema/openAPIV3Schema")
    }
}

fn keys(block: &Value) -> impl Iterator<Item = &str> {
    block.as_object().into_iter().flatten().map(|(key, _)| key.as_str())
}

fn version_of(object: &Value) -> &str {
    text(object, "/apiVersion").split_once('/').map_or("", |(_, version)| version)
}

fn title(object: &Value) -> String {
    format!("{}/{}", text(object, "/kind"), text(object, "/metadata/name"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn content() -> BundleContent {
        BundleContent {
            directory: "nowhere".into(),
            version: json!({"spec": {"customresourcedefinitions": {"owned": [{
                "kind": "Shop", "version": "v1", "name": "shops.example.com", "resources": [{"kind": "Pod"}],
                "specDescriptors": [{"path": "size"}, {"path": "image"}, {"path": "image.tag"}], "statusDescriptors": [],
            }]}}}),
            examples: vec![json!({
                "apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "a"},
                "spec": {"size": 1, "image": {"tag": "x"}},
            })],
            definitions: vec![(
                "crd.yaml".into(),
                json!({"spec": {
                    "group": "example.com", "names": {"kind": "Shop"},
                    "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"properties": {"spec": {"properties": {
                        "size": {"type": "integer"}, "image": {"type": "object"},
                    }}}}}}],
                }}),
            )],
        }
    }

    fn run(content: &BundleContent, name: &str) -> ScorecardResult {
        let entrypoint = vec!["scorecard-test".to_owned(), name.to_owned()];
        content.run(&ScorecardTest { image: String::new(), entrypoint, labels: BTreeMap::new() }, &[])
    }

    #[test]
    fn a_bundle_that_describes_everything_passes() {
        for name in [
            "basic-check-spec",
            "olm-crds-have-validation",
            "olm-crds-have-resources",
            "olm-spec-descriptors",
            "olm-status-descriptors",
        ] {
            let result = run(&content(), name);
            assert_eq!(result.state, ScorecardState::Pass, "{result:?}");
        }
        assert_eq!(run(&content(), "olm-bundle-validation").state, ScorecardState::Error);
        assert_eq!(run(&content(), "mine").state, ScorecardState::Error);
    }

    #[test]
    fn what_a_bundle_lacks_is_named() {
        let fails = |content: &BundleContent, name: &str, error: &str| {
            let result = run(content, name);
            assert_eq!(result.state, ScorecardState::Fail, "{result:?}");
            assert!(result.errors.iter().any(|one| one == error), "{result:?}");
        };
        let mut more = content();
        more.examples[0]["spec"]["extra"] = json!(1);
        fails(&more, "olm-spec-descriptors", "extra does not have a spec descriptor");
        fails(&more, "olm-crds-have-validation", "Shop/a: the schema does not describe spec.extra");
        more.examples[0]["status"] = json!({"phase": "x"});
        fails(&more, "olm-status-descriptors", "shops.example.com does not have a status descriptor");
        let mut less = content();
        less.examples[0].as_object_mut().unwrap().remove("spec");
        fails(&less, "basic-check-spec", "Shop/a: error: no spec");
        less.version["spec"]["customresourcedefinitions"]["owned"][0]["resources"] = json!([]);
        fails(&less, "olm-crds-have-resources", "Owned CRDs do not have resources specified: Shop");
    }
}
