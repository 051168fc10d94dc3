//! Validates bundles by the Operator Lifecycle Manager's rules.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{SUPPORTED, is_version, text};
use crate::error::{Error, Result};
use crate::names;

const ANNOTATION: &str = "operators.operatorframework.io.bundle.";
const MODES: [&str; 4] = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
/// Maximum size of a bundle in bytes: it is stored in a ConfigMap while it is unpacked.
const MAX_SIZE: usize = 1 << 20;

/// An error or a warning about a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleFinding {
    /// Whether the bundle cannot be installed because of it.
    pub is_error: bool,
    /// The file.
    pub file: String,
    /// The field; empty if the finding is not about one.
    pub field: String,
    /// The description of the problem.
    pub problem: String,
}

impl fmt::Display for BundleFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        write!(f, "{}", self.problem)
    }
}

#[derive(Default)]
struct Findings(Vec<BundleFinding>);

impl Findings {
    fn error(&mut self, file: &str, field: &str, problem: impl Into<String>) {
        let (file, field) = (file.to_owned(), field.to_owned());
        self.0.push(BundleFinding { is_error: true, file, field, problem: problem.into() });
    }

    fn warn(&mut self, file: &str, field: &str, problem: impl Into<String>) {
        let (file, field) = (file.to_owned(), field.to_owned());
        self.0.push(BundleFinding { is_error: false, file, field, problem: problem.into() });
    }
}

/// Validates the bundle in a directory and returns the findings.
///
/// # Errors
/// Fails if there is no bundle, or a file cannot be read.
pub fn validate_bundle(directory: &Path) -> Result<Vec<BundleFinding>> {
    let mut findings = Findings::default();
    let manifests = annotations(directory, &mut findings)?;
    let mut objects: Vec<(String, Value)> = Vec::new();
    let mut size = 0;
    for path in files(&directory.join(&manifests))? {
        let name = path.strip_prefix(directory).unwrap_or(&path).display().to_string();
        let data = std::fs::read_to_string(&path).map_err(Error::io(&path))?;
        size += data.len();
        let documents = steersman_chart::split(&data);
        if documents.len() != 1 {
            findings.error(&name, "", format!("expected one object, found {}", documents.len()));
        }
        for document in documents {
            match steersman_yaml::from_str(document) {
                Ok(object) => objects.push((name.clone(), object)),
                Err(error) => findings.error(&name, "", error.to_string()),
            }
        }
    }
    if size > MAX_SIZE {
        findings.warn(
            &manifests,
            "",
            format!("{size} bytes may be too large: the limit is {MAX_SIZE} bytes, compressed"),
        );
    }
    let is_version = |object: &Value| object["kind"] == "ClusterServiceVersion";
    let versions: Vec<&(String, Value)> = objects.iter().filter(|(_, object)| is_version(object)).collect();
    match versions.as_slice() {
        [(file, version)] => check_version(file, version, &objects, &mut findings),
        several => findings.error(
            &manifests,
            "",
            format!("expected one ClusterServiceVersion, found {}", several.len()),
        ),
    }
    check_objects(&objects, &mut findings);
    Ok(findings.0)
}

pub(super) fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(Error::io(directory))? {
        let path = entry.map_err(Error::io(directory))?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml" || extension == "yml" || extension == "json")
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Checks metadata/annotations.yaml and returns the path of the manifests.
fn annotations(directory: &Path, findings: &mut Findings) -> Result<String> {
    const FILE: &str = "metadata/annotations.yaml";
    let path = directory.join(FILE);
    let data = std::fs::read(&path).map_err(Error::io(&path))?;
    let broken =
        |error: steersman_yaml::Error| Error::Broken { path: path.clone(), reason: error.to_string() };
    let content = steersman_yaml::from_slice(&data).map_err(broken)?;
    let get = |key: &str| {
        content["annotations"][format!("{ANNOTATION}{key}")].as_str().unwrap_or_default().to_owned()
    };
    let mut need = |key: &str| {
        if get(key).is_empty() {
            findings.error(FILE, &format!("{ANNOTATION}{key}"), "missing");
        }
        get(key)
    };
    let (media, manifests, package) = (need("mediatype.v1"), need("manifests.v1"), need("package.v1"));
    let (channels, _) = (need("channels.v1"), need("metadata.v1"));
    if !media.is_empty() && media != "registry+v1" {
        findings.error(FILE, &format!("{ANNOTATION}mediatype.v1"), format!("{media:?} is not registry+v1"));
    }
    if !package.is_empty() && names::check_project_name(&package).is_err() {
        findings.error(FILE, &format!("{ANNOTATION}package.v1"), format!("{package:?} is not a valid name"));
    }
    let default = get("channel.default.v1");
    if !default.is_empty() && !channels.split(',').any(|channel| channel.trim() == default) {
        findings.error(
            FILE,
            &format!("{ANNOTATION}channel.default.v1"),
            format!("{default} is not among the channels {channels}"),
        );
    }
    let is_inside = !manifests.is_empty()
        && !manifests.starts_with('/')
        && !manifests.split('/').any(|part| part == "..");
    Ok(if is_inside { manifests } else { "manifests/".to_owned() })
}

fn check_version(file: &str, csv: &Value, objects: &[(String, Value)], findings: &mut Findings) {
    let name = text(csv, "/metadata/name");
    let version = text(csv, "/spec/version");
    if !is_version(version) {
        findings.error(file, "spec.version", format!("{version:?} is not a semantic version"));
    }
    match name.split_once(".v") {
        Some((_, rest)) if rest == version => {}
        _ => findings.error(file, "metadata.name", format!("{name:?} is not NAME.v{version}")),
    }
    for (field, required) in [("displayName", true), ("description", false), ("maturity", false)] {
        if text(csv, &format!("/spec/{field}")).is_empty() {
            let field = format!("spec.{field}");
            if required {
                findings.error(file, &field, "missing");
            } else {
                findings.warn(file, &field, "missing");
            }
        }
    }
    if text(csv, "/spec/provider/name").is_empty() {
        findings.warn(file, "spec.provider.name", "missing");
    }
    if csv.pointer("/spec/icon/0/base64data").and_then(Value::as_str).is_none_or(str::is_empty) {
        findings.warn(file, "spec.icon", "missing");
    }
    let least = text(csv, "/spec/minKubeVersion");
    if !least.is_empty() && !is_version(least) {
        findings.error(file, "spec.minKubeVersion", format!("{least:?} is not a semantic version"));
    }
    check_modes(file, csv, findings);
    check_install(file, csv, findings);
    check_owned(file, csv, objects, findings);
    check_accounts(csv, objects, findings);
}

/// Checks that no service account in the bundle is one that the Operator Lifecycle Manager creates.
fn check_accounts(csv: &Value, objects: &[(String, Value)], findings: &mut Findings) {
    let permissions = ["permissions", "clusterPermissions"]
        .into_iter()
        .filter_map(|field| csv.pointer(&format!("/spec/install/spec/{field}")).and_then(Value::as_array));
    let made: Vec<&str> = permissions.flatten().map(|one| text(one, "/serviceAccountName")).collect();
    for (file, object) in objects {
        let name = text(object, "/metadata/name");
        if object["kind"] == "ServiceAccount" && made.contains(&name) {
            findings.error(
                file,
                "metadata.name",
                format!(
                    "{name} must not be in the bundle: \
                     OLM creates it from the ClusterServiceVersion's spec.install"
                ),
            );
        }
    }
}

fn check_modes(file: &str, csv: &Value, findings: &mut Findings) {
    let modes = csv.pointer("/spec/installModes").and_then(Value::as_array).cloned().unwrap_or_default();
    for mode in &modes {
        let kind = text(mode, "/type");
        if !MODES.contains(&kind) {
            findings.error(file, "spec.installModes", format!("{kind:?} is not one of {}", MODES.join(", ")));
        }
    }
    if !modes.iter().any(|mode| mode["supported"] == true) {
        findings.error(file, "spec.installModes", "none is supported");
    }
}

fn check_install(file: &str, csv: &Value, findings: &mut Findings) {
    if text(csv, "/spec/install/strategy") != "deployment" {
        findings.error(file, "spec.install.strategy", "must be deployment");
    }
    let deployments = csv.pointer("/spec/install/spec/deployments").and_then(Value::as_array);
    if deployments.is_none_or(Vec::is_empty) {
        findings.error(file, "spec.install.spec.deployments", "must not be empty");
    }
    for deployment in deployments.into_iter().flatten() {
        let containers = deployment.pointer("/spec/template/spec/containers").and_then(Value::as_array);
        for container in
            containers.into_iter().flatten().filter(|one| one.pointer("/resources/requests").is_none())
        {
            let field = format!("spec.install.spec.deployments[{}]", text(deployment, "/name"));
            findings.warn(
                file,
                &field,
                format!("container {} requests no resources", text(container, "/name")),
            );
        }
    }
}

/// Checks that the owned definitions are exactly those in the bundle, and that each has an example.
fn check_owned(file: &str, csv: &Value, objects: &[(String, Value)], findings: &mut Findings) {
    const FIELD: &str = "spec.customresourcedefinitions.owned";
    let owned = csv
        .pointer("/spec/customresourcedefinitions/owned")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let definitions: Vec<&(String, Value)> =
        objects.iter().filter(|(_, object)| object["kind"] == "CustomResourceDefinition").collect();
    for one in &owned {
        let (name, version) = (text(one, "/name"), text(one, "/version"));
        let found = definitions.iter().find(|(_, crd)| text(crd, "/metadata/name") == name);
        let Some((_, crd)) = found else {
            findings.error(file, FIELD, format!("{name} is not in the bundle"));
            continue;
        };
        let versions = crd.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
        if !versions.into_iter().any(|known| known["name"] == version) {
            findings.error(file, FIELD, format!("{name} has no version {version}"));
        }
        if text(one, "/displayName").is_empty() || text(one, "/description").is_empty() {
            findings.warn(file, FIELD, format!("{name} {version} has no displayName or description"));
        }
    }
    for (path, crd) in definitions {
        let name = text(crd, "/metadata/name");
        for version in crd.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten() {
            let version = text(version, "/name");
            if !owned.iter().any(|one| text(one, "/name") == name && text(one, "/version") == version) {
                findings.error(path, "", format!("version {version} of {name} is not among {FIELD}"));
            }
        }
    }
    let examples = csv.pointer("/metadata/annotations/alm-examples").and_then(Value::as_str).unwrap_or("[]");
    match serde_json::from_str::<Vec<Value>>(examples) {
        Err(error) => {
            findings.error(file, "metadata.annotations.alm-examples", format!("not a JSON list: {error}"));
        }
        Ok(examples) => {
            for one in &owned {
                let (kind, version) = (text(one, "/kind"), text(one, "/version"));
                let fits = |example: &Value| {
                    example["kind"] == kind && text(example, "/apiVersion").ends_with(&format!("/{version}"))
                };
                if !examples.iter().any(fits) {
                    findings.warn(
                        file,
                        "metadata.annotations.alm-examples",
                        format!("no example of {kind} {version}"),
                    );
                }
            }
        }
    }
}

fn check_objects(objects: &[(String, Value)], findings: &mut Findings) {
    let mut seen: Vec<(String, String)> = Vec::new();
    for (file, object) in objects {
        let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
        if kind == "ClusterServiceVersion" {
            continue;
        }
        if !SUPPORTED.contains(&kind) {
            findings.error(file, "kind", format!("{kind} cannot be part of a bundle"));
        }
        if object.pointer("/metadata/namespace").is_some() {
            findings.error(
                file,
                "metadata.namespace",
                "must not be set: the Operator Lifecycle Manager chooses the namespace",
            );
        }
        if kind == "CustomResourceDefinition" && text(object, "/apiVersion") != "apiextensions.k8s.io/v1" {
            findings.error(file, "apiVersion", "must be apiextensions.k8s.io/v1");
        }
        let key = (kind.to_owned(), name.to_owned());
        if seen.contains(&key) {
            findings.error(file, "metadata.name", format!("duplicate {kind} {name}"));
        }
        seen.push(key);
    }
}
