//! Rules about templates and their output.

use steersman_yaml::Node;

use super::{LintOptions, Linter, Severity, deprecations, names};
use crate::capabilities::Capabilities;
use crate::environment::System;
use crate::gofmt;
use crate::load::decode::{self, Struct};
use crate::load::extension;
use crate::options::{Release, RenderOptions};
use crate::values::Values;
use crate::yaml;

const DIRECTORY: &str = "templates/";

pub(super) fn lint(linter: &mut Linter, values: &Values, options: &LintOptions) {
    let source = &linter.source;
    let is_directory = if source.exists("templates") && !source.is_directory("templates") {
        Err("not a directory".to_owned())
    } else {
        Ok(())
    };
    if !linter.rule(Severity::Warning, DIRECTORY, is_directory) {
        return;
    }
    let chart = match linter.source.load() {
        Ok(chart) => chart,
        Err(error) => {
            linter.rule(Severity::Error, DIRECTORY, Err(error.to_string()));
            return;
        }
    };
    // Helm does not report values that contradict the charts.
    let Ok(values) = chart.compute_values(values) else { return };
    let mut capabilities = Capabilities::default();
    if let Some(version) = &options.kube_version {
        capabilities.kube_version = version.clone();
    }
    let (major, minor) = (&capabilities.kube_version.major, &capabilities.kube_version.minor);
    let kube_version = (major.parse().unwrap_or(1), minor.parse().unwrap_or(0));
    let render_options = RenderOptions {
        release: Release {
            name: "test-release".into(),
            namespace: options.namespace.clone(),
            revision: 0,
            is_upgrade: false,
        },
        capabilities,
        lint: true,
        skip_schema_validation: options.skip_schema_validation,
        ..RenderOptions::default()
    };
    let rendered = match chart.render_for_lint(&values, &render_options, Box::new(System::default())) {
        Ok(rendered) => rendered,
        Err(error) => {
            linter.rule(Severity::Error, DIRECTORY, Err(error.to_string()));
            return;
        }
    };
    for template in chart.templates() {
        let path = template.name.as_str();
        linter.rule(Severity::Error, path, allowed_extension(path));
        linter.rule(Severity::Warning, path, no_crd_hooks(&template.data));
        linter.rule(Severity::Error, path, no_release_time(&template.data));
        if extension(path) != ".yaml" {
            continue;
        }
        let Some(content) = rendered.get(&format!("{}/{path}", chart.name())) else { continue };
        let content = content.to_str_lossy();
        if !gofmt::trim_space(&content).is_empty() && !lint_content(linter, path, &content, kube_version) {
            // Helm stops at the first document that is not valid YAML.
            return;
        }
    }
}

/// Checks the documents of a rendered template. Returns false if one is not valid YAML.
fn lint_content(linter: &mut Linter, path: &str, content: &str, kube_version: (u32, u32)) -> bool {
    linter.rule(Severity::Warning, path, top_indent(content));
    for document in documents(content) {
        let object = document.and_then(|document| Object::read(&document));
        let object = match object {
            Ok(object) => object,
            Err(error) => {
                linter.rule(Severity::Error, path, Err(format!("unable to parse YAML: {error}")));
                return false;
            }
        };
        let Some(object) = object else { continue };
        linter.rule(Severity::Warning, path, metadata_name(&object));
        let (major, minor) = kube_version;
        let deprecation = deprecations::warning(&object.api_version, &object.kind, major, minor);
        linter.rule(Severity::Warning, path, deprecation.map_or(Ok(()), Err));
        linter.rule(Severity::Error, path, match_selector(&object, content));
        linter.rule(Severity::Error, path, list_annotations(&object, content));
    }
    true
}

fn top_indent(content: &str) -> Result<(), String> {
    let first = content.lines().find(|line| !gofmt::trim_space(line).is_empty());
    match first {
        Some(line) if line.starts_with([' ', '\t']) => Err(format!(
            "document starts with an illegal indent: {}, which may cause parsing problems",
            gofmt::quote(&line.into())
        )),
        _ => Ok(()),
    }
}

/// Splits the output at lines that begin with three dashes, as Kubernetes' own tools do.
fn documents(content: &str) -> Vec<Result<String, String>> {
    let mut documents = Vec::new();
    let mut document = String::new();
    for line in content.split_inclusive('\n') {
        let Some(after) = line.strip_prefix("---") else {
            document.push_str(line);
            continue;
        };
        let after = gofmt::trim_space(after);
        if !after.is_empty() && !after.starts_with('#') {
            documents.push(Err(format!("invalid Yaml document separator: {after}")));
            return documents;
        }
        if !document.is_empty() {
            documents.push(Ok(std::mem::take(&mut document)));
        }
    }
    if !document.is_empty() {
        documents.push(Ok(document));
    }
    documents
}

/// The fields that are read from every document.
#[derive(Default)]
struct Object {
    api_version: String,
    kind: String,
    name: String,
}

impl Object {
    fn read(document: &str) -> Result<Option<Self>, String> {
        const OBJECT: Struct = Struct {
            name: "K8sYamlStruct",
            go_type: "rules.K8sYamlStruct",
            fields: &["apiVersion", "Kind", "Metadata"],
        };
        const METADATA: Struct = Struct {
            name: "k8sYamlMetadata",
            go_type: "rules.k8sYamlMetadata",
            fields: &["Namespace", "Name"],
        };
        let parsed = yaml::parse(document.as_bytes())?;
        if parsed == Node::Null {
            return Ok(None);
        }
        let mut object = Self::default();
        decode::run(&parsed, |decoder, data| {
            decoder.object(data, &OBJECT, |decoder, field, data| match field {
                "apiVersion" => decoder.string(data, &mut object.api_version),
                "Kind" => decoder.string(data, &mut object.kind),
                _ => decoder.object(data, &METADATA, |decoder, field, data| match field {
                    "Name" => decoder.string(data, &mut object.name),
                    _ => decoder.string(data, &mut String::new()),
                }),
            });
        })?;
        Ok(Some(object))
    }
}

fn allowed_extension(path: &str) -> Result<(), String> {
    match extension(path) {
        ".yaml" | ".yml" | ".tpl" | ".txt" => Ok(()),
        other => Err(format!(
            "file extension '{other}' not valid. Valid extensions are .yaml, .yml, .tpl, or .txt"
        )),
    }
}

fn no_crd_hooks(text: &[u8]) -> Result<(), String> {
    let blank = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\x0C' | b'\r' | b' ');
    let is_hook = memchr::memmem::find_iter(text, b"helm.sh/hook").any(|at| {
        let after = text.get(at + b"helm.sh/hook".len()..).unwrap_or_default();
        let after = after.strip_prefix(b"\"").unwrap_or(after);
        let Some(value) = after.strip_prefix(b":") else { return false };
        let spaces = value.iter().take_while(|byte| blank(byte)).count();
        spaces > 0 && value.get(spaces..).is_some_and(|value| value.starts_with(b"crd-install"))
    });
    if !is_hook {
        return Ok(());
    }
    Err("manifest is a crd-install hook. This hook is no longer supported in v3 and all CRDs should also exist the \
         crds/ directory at the top level of the chart"
        .into())
}

fn no_release_time(text: &[u8]) -> Result<(), String> {
    if memchr::memmem::find(text, b".Release.Time").is_none() {
        return Ok(());
    }
    Err(".Release.Time has been removed in v3, please replace with the `now` function in your templates"
        .into())
}

fn metadata_name(object: &Object) -> Result<(), String> {
    let quoted = gofmt::quote(&object.name.as_str().into());
    let problems: Vec<String> = names::problems(&object.kind, &object.name)
        .into_iter()
        .map(|problem| format!("metadata.name: Invalid value: {quoted}: {problem}"))
        .collect();
    let all = match problems.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    Err(format!("object name does not conform to Kubernetes naming requirements: {quoted}: {all}"))
}

fn match_selector(object: &Object, content: &str) -> Result<(), String> {
    let needs_one = matches!(object.kind.as_str(), "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet");
    if !needs_one || content.contains("matchLabels") || content.contains("matchExpressions") {
        return Ok(());
    }
    let name = gofmt::quote(&object.name.as_str().into());
    Err(format!("a {} must contain matchLabels or matchExpressions, and {name} does not", object.kind))
}

fn list_annotations(object: &Object, content: &str) -> Result<(), String> {
    if object.kind != "List" {
        return Ok(());
    }
    // As in Helm, the first document is checked, even if the list is another one.
    let parsed = yaml::parse(content.as_bytes()).map_err(|error| format!("unable to parse YAML: {error}"))?;
    let items = parsed.get("items").and_then(Node::as_sequence).unwrap_or_default();
    let is_kept = |item: &Node<'_>| {
        item.get("metadata")
            .and_then(|metadata| metadata.get("annotations")?.get("helm.sh/resource-policy"))
            .is_some()
    };
    if items.iter().any(is_kept) {
        return Err("Annotation 'helm.sh/resource-policy' within List objects are ignored".into());
    }
    Ok(())
}
