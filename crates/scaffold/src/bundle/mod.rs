//! Bundles for the Operator Lifecycle Manager: generated from a project's manifests, and validated.

mod csv;
mod scorecard;
mod validate;

use std::path::Path;

use serde_json::{Value, json};

pub use self::scorecard::{BundleContent, ScorecardResult, ScorecardState, ScorecardTest, scorecard_tests};
pub use self::validate::{BundleFinding, validate_bundle};
use crate::error::{Error, Result};
use crate::files::{Existing, Plan, Written};
use crate::helm::yaml;
use crate::project::Project;

/// The kinds that a bundle may contain besides its ClusterServiceVersion.
const SUPPORTED: &[&str] = &[
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "ConsoleCLIDownload",
    "ConsoleLink",
    "ConsolePlugin",
    "ConsoleQuickStart",
    "ConsoleYAMLSample",
    "CustomResourceDefinition",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "PriorityClass",
    "PrometheusRule",
    "Role",
    "RoleBinding",
    "Secret",
    "Service",
    "ServiceAccount",
    "ServiceMonitor",
    "VerticalPodAutoscaler",
];

/// The options of a bundle.
#[derive(Clone, Debug)]
pub struct BundleOptions {
    /// The version of the bundle. Default: `0.0.1`.
    pub version: String,
    /// The name of the package. Default: the project's.
    pub package: Option<String>,
    /// The channels that it is published in. Default: `alpha`.
    pub channels: Vec<String>,
    /// The package's default channel. Default: the first one.
    pub default_channel: Option<String>,
    /// The directory of the bundle, within the project. Default: `bundle`.
    pub directory: String,
}

impl Default for BundleOptions {
    fn default() -> Self {
        Self {
            version: "0.0.1".into(),
            package: None,
            channels: vec!["alpha".into()],
            default_channel: None,
            directory: "bundle".into(),
        }
    }
}

/// Generates a bundle from a project's manifests.
///
/// The objects are those that [`kustomize`](crate::kustomize()) renders from config/manifests. The bundle contains a
/// ClusterServiceVersion, the definitions and other objects, metadata, and the scorecard's configuration.
///
/// # Errors
/// Fails if there is no project, its manifests cannot be installed by the Operator Lifecycle Manager, or a file cannot be written.
pub fn generate_bundle(root: &Path, objects: &[Value], options: &BundleOptions) -> Result<Vec<Written>> {
    let project = Project::load(root)?;
    let package = options.package.clone().unwrap_or_else(|| project.name().to_owned());
    let Some(first) = options.channels.first() else { return Err(Error::Missing("--channels")) };
    if !is_version(&options.version) {
        return Err(Error::Name {
            flag: "--version",
            value: options.version.clone(),
            reason: "must be a semantic version such as 0.0.1".to_owned(),
        });
    }
    let default_channel = options.default_channel.as_ref().unwrap_or(first);
    let csv::Parts { version, beside } = csv::of_objects(&project, &package, objects, options)?;
    let mut plan = Plan::default();
    let mut put = |path: String, text: String| {
        plan.put(root, format!("{}/{path}", options.directory), text, Existing::Replace)
    };
    put(format!("manifests/{package}.clusterserviceversion.yaml"), yaml(&version)?)?;
    for object in &beside {
        put(format!("manifests/{}", file_name(object)), yaml(object)?)?;
    }
    let scorecard = objects.iter().find(|object| is_scorecard(object));
    let mut annotations = json!({
        "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
        "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
        "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
        "operators.operatorframework.io.bundle.package.v1": package,
        "operators.operatorframework.io.bundle.channels.v1": options.channels.join(","),
        "operators.operatorframework.io.bundle.channel.default.v1": default_channel,
        "operators.operatorframework.io.metrics.builder": concat!("steer-v", env!("CARGO_PKG_VERSION")),
        "operators.operatorframework.io.metrics.mediatype.v1": "metrics+v1",
        "operators.operatorframework.io.metrics.project_layout": project.plugin()?.key(),
    });
    if let Some(scorecard) = scorecard {
        put("tests/scorecard/config.yaml".into(), yaml(scorecard)?)?;
        annotations["operators.operatorframework.io.test.config.v1"] = "tests/scorecard/".into();
        annotations["operators.operatorframework.io.test.mediatype.v1"] = "scorecard+v1".into();
    }
    put("metadata/annotations.yaml".into(), yaml(&json!({"annotations": annotations}))?)?;
    let labels: String = annotations
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("LABEL {key}={}\n", value.as_str().unwrap_or_default()))
        .collect();
    let copy = |from: &str| format!("COPY {}/{from} /{from}/\n", options.directory);
    let tests = if scorecard.is_some() { copy("tests/scorecard") } else { String::new() };
    let dockerfile = format!("FROM scratch\n\n{labels}\n{}{}{tests}", copy("manifests"), copy("metadata"));
    plan.put(root, "bundle.Dockerfile", dockerfile, Existing::Replace)?;
    plan.write(root)
}

fn is_scorecard(object: &Value) -> bool {
    object["kind"] == "Configuration"
        && object["apiVersion"]
            .as_str()
            .is_some_and(|version| version.starts_with("scorecard.operatorframework.io/"))
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the file name of an object in a bundle, as in operator-sdk.
fn file_name(object: &Value) -> String {
    let name = text(object, "/metadata/name");
    match text(object, "/kind") {
        "CustomResourceDefinition" => {
            format!("{}_{}.yaml", text(object, "/spec/group"), text(object, "/spec/names/plural"))
        }
        kind => {
            let api_version = text(object, "/apiVersion").replace('/', "_");
            format!("{name}_{api_version}_{}.yaml", kind.to_lowercase())
        }
    }
}

/// Whether a string is a semantic version.
fn is_version(text: &str) -> bool {
    let core = text.split(['-', '+']).next().unwrap_or_default();
    let is_number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let parts: Vec<&str> = core.split('.').collect();
    let rest = text.get(core.len()..).unwrap_or_default();
    let is_rest = rest.is_empty()
        || (rest.len() > 1
            && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-+.".contains(&byte)));
    parts.len() == 3 && parts.iter().all(|part| is_number(part)) && is_rest
}
