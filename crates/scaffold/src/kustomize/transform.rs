//! Transforms the resources of a kustomization, in kustomize's order.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::file::{Image, Kustomization};
use super::patch;
use super::resource::{Id, Resource};
use crate::error::{Error, Result};

/// The location of a kustomization.
pub(super) struct Context<'a> {
    pub(super) file: &'a Path,
    pub(super) directory: &'a Path,
    /// The directory with symbolic links resolved.
    pub(super) root: &'a Path,
}

impl Context<'_> {
    pub(super) fn broken(&self, reason: impl Into<String>) -> Error {
        Error::Broken { path: self.file.to_owned(), reason: reason.into() }
    }
}

/// A field spec, as in kustomize's configuration: lists along the path are traversed.
pub(super) struct FieldSpec {
    /// The API group; empty for any.
    pub(super) group: &'static str,
    /// The kind; empty for any.
    pub(super) kind: &'static str,
    pub(super) path: &'static str,
    /// Whether to create missing maps along the path.
    pub(super) create: bool,
}

const fn spec(group: &'static str, kind: &'static str, path: &'static str, create: bool) -> FieldSpec {
    FieldSpec { group, kind, path, create }
}

impl FieldSpec {
    pub(super) fn applies_to(&self, id: &Id) -> bool {
        (self.group.is_empty() || self.group == id.group) && (self.kind.is_empty() || self.kind == id.kind)
    }
}

/// Calls a function with each value at a path.
pub(super) fn visit(value: &mut Value, path: &str, create: bool, change: &mut dyn FnMut(&mut Value)) {
    if let Value::Array(items) = value {
        for item in items {
            visit(item, path, create, change);
        }
        return;
    }
    let (field, rest) = path.split_once('/').map_or((path, None), |(field, rest)| (field, Some(rest)));
    let (field, is_list) = field.strip_suffix("[]").map_or((field, false), |field| (field, true));
    let Some(fields) = value.as_object_mut() else { return };
    if fields.get(field).is_none_or(Value::is_null) {
        if !create || is_list {
            return;
        }
        fields.insert(field.to_owned(), json!({}));
    }
    let Some(next) = fields.get_mut(field) else { return };
    match (rest, next) {
        (Some(rest), next) => visit(next, rest, create, change),
        (None, next) => change(next),
    }
}

const SERVICE: &str = "Service";

/// The fields with the labels of selectors.
const SELECTORS: &[FieldSpec] = &[
    spec("", SERVICE, "spec/selector", true),
    spec("", "ReplicationController", "spec/selector", true),
    spec("", "Deployment", "spec/selector/matchLabels", true),
    spec("", "ReplicaSet", "spec/selector/matchLabels", true),
    spec("", "DaemonSet", "spec/selector/matchLabels", true),
    spec("apps", "StatefulSet", "spec/selector/matchLabels", true),
    spec("batch", "Job", "spec/selector/matchLabels", false),
    spec("batch", "CronJob", "spec/jobTemplate/spec/selector/matchLabels", false),
    spec("policy", "PodDisruptionBudget", "spec/selector/matchLabels", false),
    spec("networking.k8s.io", "NetworkPolicy", "spec/podSelector/matchLabels", false),
    spec("networking.k8s.io", "NetworkPolicy", "spec/ingress/from/podSelector/matchLabels", false),
    spec("networking.k8s.io", "NetworkPolicy", "spec/egress/to/podSelector/matchLabels", false),
];

/// The label selectors of pod affinity and anti-affinity in Deployments and StatefulSets.
const AFFINITIES: &[&str] = &[
    "spec/template/spec/affinity/podAffinity/preferredDuringSchedulingIgnoredDuringExecution/podAffinityTerm/labelSelector/matchLabels",
    "spec/template/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution/labelSelector/matchLabels",
    "spec/template/spec/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution/podAffinityTerm/labelSelector/matchLabels",
    "spec/template/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/labelSelector/matchLabels",
    "spec/template/spec/topologySpreadConstraints/labelSelector/matchLabels",
];

/// The metadata of templates, which labels or annotations are added to.
const TEMPLATES: &[FieldSpec] = &[
    spec("", "ReplicationController", "spec/template/metadata", true),
    spec("", "Deployment", "spec/template/metadata", true),
    spec("", "ReplicaSet", "spec/template/metadata", true),
    spec("", "DaemonSet", "spec/template/metadata", true),
    spec("apps", "StatefulSet", "spec/template/metadata", true),
    spec("batch", "Job", "spec/template/metadata", true),
    spec("batch", "CronJob", "spec/jobTemplate/metadata", true),
    spec("batch", "CronJob", "spec/jobTemplate/spec/template/metadata", true),
];
const CLAIM_TEMPLATES: FieldSpec = spec("apps", "StatefulSet", "spec/volumeClaimTemplates[]/metadata", true);

pub(super) fn apply(
    kustomization: &Kustomization,
    resources: &mut Vec<Resource>,
    context: &Context<'_>,
) -> Result<()> {
    for entry in &kustomization.patches {
        patch::apply(entry, resources, context)?;
    }
    if !kustomization.namespace.is_empty() {
        namespace(&kustomization.namespace, resources);
    }
    affixes(&kustomization.name_prefix, &kustomization.name_suffix, resources);
    for resource in resources.iter_mut() {
        let id = resource.id();
        for labels in &kustomization.labels {
            let templates = labels.include_templates || labels.include_selectors;
            add_labels(&mut resource.content, &id, &labels.pairs, labels.include_selectors, templates);
        }
        add_labels(&mut resource.content, &id, &kustomization.common_labels, true, true);
        add_annotations(&mut resource.content, &id, &kustomization.common_annotations);
    }
    for entry in &kustomization.patches_json {
        patch::apply(entry, resources, context)?;
    }
    for resource in resources {
        images(&mut resource.content, &kustomization.images);
    }
    Ok(())
}

fn namespace(namespace: &str, resources: &mut [Resource]) {
    for resource in resources {
        resource.store_id();
        let id = resource.id();
        if !id.is_cluster_scoped() {
            resource.set_metadata("namespace", namespace);
        }
        let content = &mut resource.content;
        let mut set = |path: &str, create: bool| {
            visit(content, path, create, &mut |value| *value = namespace.into());
        };
        match (id.group.as_str(), id.kind.as_str()) {
            ("", "Namespace") => set("metadata/name", true),
            ("apiregistration.k8s.io", "APIService") => set("spec/service/namespace", true),
            ("apiextensions.k8s.io", "CustomResourceDefinition") => {
                set("spec/conversion/webhook/clientConfig/service/namespace", false);
            }
            (_, "RoleBinding" | "ClusterRoleBinding") => {
                let subjects =
                    content.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten();
                for subject in subjects.filter_map(Value::as_object_mut) {
                    if subject.get("name").is_some_and(|name| name == "default") {
                        subject.insert("namespace".into(), namespace.into());
                    }
                }
            }
            _ => {}
        }
    }
}

fn affixes(prefix: &str, suffix: &str, resources: &mut [Resource]) {
    for resource in resources {
        let id = resource.original_id();
        if matches!(
            (id.group.as_str(), id.kind.as_str()),
            (_, "CustomResourceDefinition" | "Namespace") | ("apiregistration.k8s.io", "APIService")
        ) {
            continue;
        }
        for (affix, is_prefix) in [(prefix, true), (suffix, false)] {
            if affix.is_empty() {
                continue;
            }
            resource.store_id();
            let name = resource.id().name;
            let name = if is_prefix { format!("{affix}{name}") } else { format!("{name}{affix}") };
            resource.set_metadata("name", &name);
            let known = if is_prefix { &mut resource.prefixes } else { &mut resource.suffixes };
            known.push(affix.to_owned());
        }
    }
}

fn add(value: &mut Value, pairs: &BTreeMap<String, String>) {
    if let Some(fields) = value.as_object_mut() {
        fields.extend(pairs.iter().map(|(key, value)| (key.clone(), value.as_str().into())));
    }
}

fn add_labels(
    content: &mut Value,
    id: &Id,
    pairs: &BTreeMap<String, String>,
    selectors: bool,
    templates: bool,
) {
    if pairs.is_empty() {
        return;
    }
    visit(content, "metadata/labels", true, &mut |value| add(value, pairs));
    if templates {
        for spec in TEMPLATES.iter().chain([&CLAIM_TEMPLATES]).filter(|spec| spec.applies_to(id)) {
            let path = format!("{}/labels", spec.path);
            visit(content, &path, spec.create, &mut |value| add(value, pairs));
        }
    }
    if selectors {
        for spec in SELECTORS.iter().filter(|spec| spec.applies_to(id)) {
            // Services of other groups, such as Knative's, have no such selector.
            if spec.kind != SERVICE || id.version == "v1" {
                visit(content, spec.path, spec.create, &mut |value| add(value, pairs));
            }
        }
        if id.group == "apps" && matches!(id.kind.as_str(), "Deployment" | "StatefulSet") {
            for path in AFFINITIES {
                visit(content, path, false, &mut |value| add(value, pairs));
            }
        }
    }
}

fn add_annotations(content: &mut Value, id: &Id, pairs: &BTreeMap<String, String>) {
    if pairs.is_empty() {
        return;
    }
    visit(content, "metadata/annotations", true, &mut |value| add(value, pairs));
    for spec in TEMPLATES.iter().filter(|spec| spec.applies_to(id)) {
        let path = format!("{}/annotations", spec.path);
        visit(content, &path, spec.create, &mut |value| add(value, pairs));
    }
}

/// Overrides the images of all containers in an object.
pub(super) fn images(content: &mut Value, images: &[Image]) {
    if images.is_empty() || content["kind"] == "CustomResourceDefinition" {
        return;
    }
    walk_images(content, images);
}

fn walk_images(value: &mut Value, images: &[Image]) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields.iter_mut() {
                walk_images(value, images);
                if matches!(key.as_str(), "containers" | "initContainers") {
                    let containers = value.as_array_mut().into_iter().flatten();
                    containers.filter_map(Value::as_object_mut).for_each(|one| set_image(one, images));
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| walk_images(item, images)),
        _ => {}
    }
}

fn set_image(container: &mut Map<String, Value>, images: &[Image]) {
    let Some(Value::String(current)) = container.get_mut("image") else { return };
    for image in images {
        let (mut name, mut tag, mut digest) = split_image(current);
        if name != image.name {
            continue;
        }
        if !image.new_name.is_empty() {
            name.clone_from(&image.new_name);
        }
        if !image.new_tag.is_empty() || !image.digest.is_empty() {
            tag.clone_from(&image.new_tag);
            digest.clone_from(&image.digest);
        }
        if !tag.is_empty() {
            name = format!("{name}:{tag}");
        }
        if !digest.is_empty() {
            name = format!("{name}@{digest}");
        }
        *current = name;
    }
}

/// Splits an image into name, tag and digest; missing parts are empty.
pub(super) fn split_image(image: &str) -> (String, String, String) {
    let (rest, digest) = image.split_once('@').unwrap_or((image, ""));
    let (name, tag) = match rest.rfind(':') {
        // A colon before the last slash belongs to the registry's port.
        Some(colon) if !rest[colon..].contains('/') => (&rest[..colon], &rest[colon + 1..]),
        _ => (rest, ""),
    };
    (name.to_owned(), tag.to_owned(), digest.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_split_at_tag_and_digest() {
        let split = |image: &str| {
            let (name, tag, digest) = split_image(image);
            format!("{name} {tag} {digest}")
        };
        assert_eq!(split("controller:latest"), "controller latest ");
        assert_eq!(split("localhost:5000/a/b"), "localhost:5000/a/b  ");
        assert_eq!(split("localhost:5000/a/b:v1@sha256:00"), "localhost:5000/a/b v1 sha256:00");
    }
}
