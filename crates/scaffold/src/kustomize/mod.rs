//! Renders the subset of kustomize that operator projects use, with `kubectl kustomize`'s output.
//!
//! Resources, patches, namespace, names, labels, annotations and images are supported. Any other field of a kustomization
//! is an error that names it: nothing is ignored silently.

mod file;
mod order;
mod patch;
mod references;
mod resource;
mod transform;

use std::path::{Path, PathBuf};

use serde_json::Value;
use steersman_chart::split;

pub use self::file::Image;
use self::file::Kustomization;
use self::resource::Resource;
use crate::error::{Error, Result};

/// Maximum nesting depth of kustomizations.
const MAX_DEPTH: usize = 32;

/// Renders the kustomization in a directory. `images` override its own.
///
/// # Errors
/// Fails if a file cannot be read, uses an unsupported field, or refers to something that does not exist.
pub fn kustomize(directory: &Path, images: &[Image]) -> Result<Vec<Value>> {
    let mut resources = accumulate(directory, &mut Vec::new())?;
    references::fix(&mut resources, directory)?;
    for resource in &mut resources {
        transform::images(&mut resource.content, images);
    }
    order::sort(&mut resources);
    Ok(resources.into_iter().map(|resource| resource.content).collect())
}

/// Formats objects as a YAML stream, as `kubectl kustomize` does.
///
/// # Errors
/// Fails if an object is too large to be written.
pub fn to_yaml(objects: &[Value]) -> Result<String> {
    let mut text = String::new();
    for object in objects {
        if !text.is_empty() {
            text.push_str("---\n");
        }
        let document = steersman_yaml::to_string(object)
            .map_err(|error| Error::usage(error.to_string(), "write less into one object"))?;
        text.push_str(&document);
    }
    Ok(text)
}

/// Returns the resources of a kustomization after its own transformations.
fn accumulate(directory: &Path, parents: &mut Vec<PathBuf>) -> Result<Vec<Resource>> {
    let root = directory.canonicalize().map_err(Error::io(directory))?;
    let (file, kustomization) = Kustomization::load(directory)?;
    let broken = |reason: String| Error::Broken { path: file.clone(), reason };
    if parents.contains(&root) || parents.len() > MAX_DEPTH {
        return Err(broken("it refers to itself, directly or through others".into()));
    }
    parents.push(root.clone());
    let mut resources: Vec<Resource> = Vec::new();
    for name in &kustomization.resources {
        let path = directory.join(name);
        if name.contains("://") || name.contains("?ref=") || name.starts_with("git@") {
            return Err(broken(format!(
                "resources: {name} is remote; only files and directories are rendered"
            )));
        }
        let more = if path.is_dir() {
            accumulate(&path, parents)?
        } else {
            documents(&root, &path)?.into_iter().map(Resource::new).collect()
        };
        for resource in more {
            if resources.iter().any(|known| known.id().equals(&resource.id())) {
                return Err(broken(format!("resources: {name} has a second {}", resource.id())));
            }
            resources.push(resource);
        }
    }
    parents.pop();
    let context = transform::Context { file: &file, root: &root, directory };
    transform::apply(&kustomization, &mut resources, &context)?;
    Ok(resources)
}

/// Reads the objects of a file, which must be in or below the kustomization's directory, as in kustomize.
fn documents(root: &Path, path: &Path) -> Result<Vec<Value>> {
    let mut found = Vec::new();
    for document in parse(path, &read(root, path)?)? {
        match document.get("items").and_then(Value::as_array) {
            Some(items) if document["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) => {
                found.extend(items.iter().cloned());
            }
            _ => found.push(document),
        }
    }
    for document in &found {
        let has = |pointer: &str| {
            document.pointer(pointer).and_then(Value::as_str).is_some_and(|text| !text.is_empty())
        };
        if !has("/kind") || !(has("/metadata/name") || has("/metadata/generateName")) {
            let reason = "an object without kind or metadata.name".to_owned();
            return Err(Error::Broken { path: path.to_owned(), reason });
        }
    }
    Ok(found)
}

fn read(root: &Path, path: &Path) -> Result<String> {
    let real = path.canonicalize().map_err(Error::io(path))?;
    if !real.starts_with(root) {
        let reason = format!("is not in {} or below it", root.display());
        return Err(Error::Broken { path: path.to_owned(), reason });
    }
    std::fs::read_to_string(&real).map_err(Error::io(path))
}

fn parse(path: &Path, text: &str) -> Result<Vec<Value>> {
    let mut found = Vec::new();
    for document in split(text) {
        let value = steersman_yaml::from_str(&format!("{document}\n"))
            .map_err(|error| Error::Broken { path: path.to_owned(), reason: error.to_string() })?;
        if !value.is_null() {
            found.push(value);
        }
    }
    Ok(found)
}
