//! Packages an operator as a Helm chart, from a project's manifests.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::files::{Existing, Plan, Written};
use crate::helm::yaml;
use crate::project::Project;

/// The options of an operator's chart.
#[derive(Clone, Debug)]
pub struct ChartOptions {
    /// The chart's version. Default: `0.1.0`.
    pub version: String,
    /// The operator's version and default image tag. Default: `latest`.
    pub app_version: String,
    /// The directory of the chart, within the project. Default: `dist/chart`.
    pub directory: String,
    /// Whether to replace values.yaml if it was edited. Default: no.
    pub force: bool,
}

impl Default for ChartOptions {
    fn default() -> Self {
        Self {
            version: "0.1.0".into(),
            app_version: "latest".into(),
            directory: "dist/chart".into(),
            force: false,
        }
    }
}

/// A template action of the chart. Before serialization, a plain YAML scalar is its placeholder.
#[derive(Clone, Copy)]
enum Action {
    Namespace,
    ManagedBy,
    Chart,
    Image,
    PullPolicy,
    Resources,
    NodeSelector,
    Tolerations,
    Affinity,
    Replicas,
}

const ACTIONS: &[(Action, &str, &str)] = &[
    (Action::Namespace, "steersmanNamespaceAction", ".Release.Namespace"),
    (Action::ManagedBy, "steersmanManagedByAction", ".Release.Service"),
    (
        Action::Chart,
        "steersmanChartAction",
        "printf \"%s-%s\" .Chart.Name .Chart.Version | replace \"+\" \"_\" | trunc 63",
    ),
    (
        Action::Image,
        "steersmanImageAction",
        "printf \"%s:%s\" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion)",
    ),
    (Action::PullPolicy, "steersmanPullPolicyAction", ".Values.image.pullPolicy"),
    (Action::Resources, "steersmanResourcesAction", ".Values.resources | toJson"),
    (Action::NodeSelector, "steersmanNodeSelectorAction", ".Values.nodeSelector | toJson"),
    (Action::Tolerations, "steersmanTolerationsAction", ".Values.tolerations | toJson"),
    (Action::Affinity, "steersmanAffinityAction", ".Values.affinity | toJson"),
    (Action::Replicas, "steersmanReplicasAction", ".Values.replicas"),
];

impl Action {
    fn word(self) -> &'static str {
        ACTIONS[self as usize].1
    }
}

/// Generates a chart that installs the operator, from a project's manifests.
///
/// The objects are those that [`kustomize`](crate::kustomize()) renders. They are installed into the release's namespace,
/// with image, replicas, resources and definitions configured by the values.
///
/// # Errors
/// Fails if there is no project, the objects include no Deployment, or a file cannot be written.
pub fn generate_chart(root: &Path, objects: &[Value], options: &ChartOptions) -> Result<Vec<Written>> {
    let project = Project::load(root)?;
    let name = project.name();
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment");
    let Some(deployment) = deployment else {
        return Err(Error::usage(
            "the manifests have no Deployment",
            "config/manager has the operator's one",
        ));
    };
    let namespace = deployment.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    let mut plan = Plan::default();
    let mut put = |path: &str, text: String, existing| {
        plan.put(root, format!("{}/{path}", options.directory), text, existing)
    };
    let chart = json!({
        "apiVersion": "v2", "name": name, "type": "application", "version": options.version,
        "appVersion": options.app_version, "description": format!("The operator {name}"),
    });
    put("Chart.yaml", yaml(&chart)?, Existing::Replace)?;
    let keep = if options.force { Existing::Replace } else { Existing::Keep };
    put("values.yaml", values(deployment)?, keep)?;
    put(".helmignore", "*.swp\n*~\n.git/\n".into(), Existing::Replace)?;
    let mut taken: Vec<String> = Vec::new();
    for object in objects {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let kind = text("/kind");
        // The release's namespace is created by Helm or an administrator.
        if kind == "Namespace" && text("/metadata/name") == namespace {
            continue;
        }
        let mut object = object.clone();
        let is_definition = kind == "CustomResourceDefinition";
        if kind == "Deployment" {
            fill_in(&mut object);
        }
        if !namespace.is_empty() {
            replace_namespace(&mut object, namespace);
        }
        if let Some(labels) = object.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
            for (key, label) in
                [("app.kubernetes.io/managed-by", Action::ManagedBy), ("helm.sh/chart", Action::Chart)]
            {
                labels.insert(key.into(), label.word().into());
            }
        }
        let body = template_text(&yaml(&object)?);
        let body = if is_definition { definition_text(&body) } else { body };
        let mut path = format!("templates/{}-{}.yaml", kind.to_lowercase(), text("/metadata/name"));
        while taken.contains(&path) {
            path.insert_str(path.len() - ".yaml".len(), "-2");
        }
        put(&path, body, Existing::Replace)?;
        taken.push(path);
    }
    plan.write(root)
}

/// Returns values.yaml, with the manifests' settings as defaults.
fn values(deployment: &Value) -> Result<String> {
    let container = deployment.pointer("/spec/template/spec/containers/0").cloned().unwrap_or_default();
    let image = container["image"].as_str().unwrap_or_default();
    let (repository, tag) = match image.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, tag),
        _ => (image, ""),
    };
    let or_empty = |value: &Value| if value.is_null() { json!({}) } else { value.clone() };
    let block =
        |comment: &str, value: Value| -> Result<String> { Ok(format!("# {comment}\n{}", yaml(&value)?)) };
    let replicas = deployment.pointer("/spec/replicas").cloned().unwrap_or(json!(1));
    let parts = [
        block("Number of operator pods; one of them leads.", json!({"replicas": replicas}))?,
        block(
            "Image of the operator; without a tag, the chart's appVersion.",
            json!({"image": {"repository": repository, "tag": tag, "pullPolicy": "IfNotPresent"}}),
        )?,
        block(
            "What the operator's container may use.",
            json!({"resources": or_empty(&container["resources"])}),
        )?,
        block(
            "Which nodes the operator runs on.",
            json!({"nodeSelector": {}, "tolerations": [], "affinity": {}}),
        )?,
        block(
            "Definitions of the operator's kinds: whether the release has them, and whether they stay, with all\n# objects of theirs, when it is uninstalled.",
            json!({"crds": {"enabled": true, "keep": true}}),
        )?,
    ];
    Ok(parts.join("\n"))
}

/// Replaces the settings that differ between clusters by template actions.
fn fill_in(deployment: &mut Value) {
    let fields = [
        ("/spec/template/spec/containers/0", "image", Action::Image),
        ("/spec/template/spec/containers/0", "imagePullPolicy", Action::PullPolicy),
        ("/spec/template/spec/containers/0", "resources", Action::Resources),
        ("/spec/template/spec", "nodeSelector", Action::NodeSelector),
        ("/spec/template/spec", "tolerations", Action::Tolerations),
        ("/spec/template/spec", "affinity", Action::Affinity),
        ("/spec", "replicas", Action::Replicas),
    ];
    for (parent, key, action) in fields {
        if let Some(parent) = deployment.pointer_mut(parent).and_then(Value::as_object_mut) {
            parent.insert(key.into(), action.word().into());
        }
    }
}

/// Replaces the project's namespace by the release's.
fn replace_namespace(value: &mut Value, namespace: &str) {
    match value {
        Value::String(text) if text == namespace => *text = Action::Namespace.word().into(),
        Value::Array(items) => items.iter_mut().for_each(|item| replace_namespace(item, namespace)),
        Value::Object(fields) => replace_in(fields, namespace),
        _ => {}
    }
}

fn replace_in(fields: &mut Map<String, Value>, namespace: &str) {
    fields.values_mut().for_each(|value| replace_namespace(value, namespace));
}

/// Converts a manifest to a template, with literal braces escaped and placeholders replaced by actions.
fn template_text(text: &str) -> String {
    let escaped = text.replace("{{", "{{ \"{{\" }}");
    ACTIONS.iter().fold(escaped, |text, (_, word, action)| text.replace(word, &format!("{{{{ {action} }}}}")))
}

/// Converts a definition to a template that values can disable, or keep on uninstall.
fn definition_text(text: &str) -> String {
    let keep = "    {{- if .Values.crds.keep }}\n    helm.sh/resource-policy: keep\n    {{- end }}\n";
    let text = if text.contains("\n  annotations:\n") {
        text.replacen("\n  annotations:\n", &format!("\n  annotations:\n{keep}"), 1)
    } else {
        let annotations = "  {{- if .Values.crds.keep }}\n  annotations:\n    helm.sh/resource-policy: keep\n  {{- end }}\n";
        text.replacen("metadata:\n", &format!("metadata:\n{annotations}"), 1)
    };
    format!("{{{{- if .Values.crds.enabled }}}}\n{text}{{{{- end }}}}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_looks_like_an_action_stays_text() {
        let yaml = format!("a: 'say {{{{ x }}}}'\nb: {}\n", Action::Namespace.word());
        for (index, (action, ..)) in ACTIONS.iter().enumerate() {
            assert_eq!(*action as usize, index);
        }
        assert_eq!(template_text(&yaml), "a: 'say {{ \"{{\" }} x }}'\nb: {{ .Release.Namespace }}\n");
    }
}
