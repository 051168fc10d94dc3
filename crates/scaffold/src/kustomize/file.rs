//! Reads kustomization files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// The valid names of a kustomization file.
const NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// The supported fields of a kustomization.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Kustomization {
    pub(super) resources: Vec<String>,
    bases: Vec<String>,
    pub(super) namespace: String,
    pub(super) name_prefix: String,
    pub(super) name_suffix: String,
    pub(super) labels: Vec<Labels>,
    pub(super) common_labels: BTreeMap<String, String>,
    pub(super) common_annotations: BTreeMap<String, String>,
    pub(super) images: Vec<Image>,
    pub(super) patches: Vec<Patch>,
    patches_strategic_merge: Vec<String>,
    #[serde(rename = "patchesJson6902")]
    pub(super) patches_json: Vec<Patch>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct Labels {
    pub(super) pairs: BTreeMap<String, String>,
    pub(super) include_selectors: bool,
    pub(super) include_templates: bool,
}

/// An image override: a new name, tag or digest.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Image {
    /// The image without its tag.
    pub name: String,
    /// The new name. Default: unchanged.
    pub new_name: String,
    /// The new tag or digest, which replaces both. Default: unchanged.
    pub new_tag: String,
    /// The new tag or digest, which replaces both. Default: unchanged.
    pub digest: String,
}

impl Image {
    /// Replaces the image `name`, with any tag, by `image`.
    #[must_use]
    pub fn replace(name: &str, image: &str) -> Self {
        let (new_name, new_tag, digest) = super::transform::split_image(image);
        Self { name: name.to_owned(), new_name, new_tag, digest }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Patch {
    pub(super) path: String,
    pub(super) patch: String,
    pub(super) target: Option<Target>,
}

/// The target selector of a patch. Names are regular expressions that must match completely.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct Target {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) namespace: String,
}

/// The accepted fields of a kustomization.
const FIELDS: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata",
    "resources",
    "bases",
    "namespace",
    "namePrefix",
    "nameSuffix",
    "labels",
    "commonLabels",
    "commonAnnotations",
    "images",
    "patches",
    "patchesStrategicMerge",
    "patchesJson6902",
];

impl Kustomization {
    /// Loads the kustomization of a directory, and returns it with its file's path.
    pub(super) fn load(directory: &Path) -> Result<(PathBuf, Self)> {
        let file = NAMES.iter().map(|name| directory.join(name)).find(|path| path.is_file());
        let Some(file) = file else {
            let reason = format!("no {} in it", NAMES.join(", "));
            return Err(Error::Broken { path: directory.to_owned(), reason });
        };
        let text = std::fs::read(&file).map_err(Error::io(&file))?;
        let broken = |reason: String| Error::Broken { path: file.clone(), reason };
        let mut fields: Map<String, Value> =
            steersman_yaml::object_from_slice(&text).map_err(|error| broken(error.to_string()))?;
        fields.retain(|_, value| !value.is_null());
        if let Some(other) = fields.keys().find(|field| !FIELDS.contains(&field.as_str())) {
            return Err(broken(format!(
                "{other} is not supported; supported fields: {}. Use `kubectl kustomize` for the others",
                FIELDS.join(", ")
            )));
        }
        if fields.get("kind").is_some_and(|kind| kind != "Kustomization") {
            return Err(broken(format!("kind {} is not supported, only Kustomization is", fields["kind"])));
        }
        let mut read: Self =
            serde_json::from_value(Value::Object(fields)).map_err(|error| broken(error.to_string()))?;
        read.resources.extend(std::mem::take(&mut read.bases));
        let strategic = std::mem::take(&mut read.patches_strategic_merge).into_iter().map(|text| {
            // A file path, or an inline patch.
            if text.contains('\n') {
                Patch { patch: text, ..Patch::default() }
            } else {
                Patch { path: text, ..Patch::default() }
            }
        });
        read.patches.splice(0..0, strategic);
        Ok((file, read))
    }
}
