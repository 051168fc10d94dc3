//! Loads objects from files: splits documents and decodes them as Kubernetes' client libraries do.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::actions::{self, ActionStep};
use crate::error::LoadError;
use crate::types::{GROUP, TestAssert, TestFile, TestStep, TestSuite};

/// An object of a file, also decoded into its type if it is one of kuttl's own kinds.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) value: Value,
    pub(crate) typed: Typed,
}

#[derive(Clone, Debug)]
pub(crate) enum Typed {
    File(Box<TestFile>),
    Step(Box<TestStep>),
    Assert(Box<TestAssert>),
    Suite(Box<TestSuite>),
    Actions(Box<ActionStep>),
    /// A cluster object: any kind other than the ones above.
    Object,
}

impl Document {
    fn new(value: Value) -> Result<Self, String> {
        let api_version = value["apiVersion"].as_str().unwrap_or_default();
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let typed = match (group, value["kind"].as_str().unwrap_or_default()) {
            (GROUP, "TestFile") => Typed::File(read(&value)?),
            (GROUP, "TestStep") => Typed::Step(read(&value)?),
            (GROUP, "TestAssert") => Typed::Assert(read(&value)?),
            (GROUP, "TestSuite") => Typed::Suite(read(&value)?),
            (actions::GROUP, "Step") => Typed::Actions(read(&value)?),
            (actions::GROUP, kind) => {
                return Err(format!("unknown kind {kind} of {api_version}: expected Step"));
            }
            _ => Typed::Object,
        };
        Ok(Self { value, typed })
    }

    pub(crate) fn kind(&self) -> &str {
        self.value["kind"].as_str().unwrap_or_default()
    }
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<Box<T>, String> {
    T::deserialize(value).map(Box::new).map_err(|error| {
        format!(
            "{} {}: {error}",
            value["kind"].as_str().unwrap_or_default(),
            value["apiVersion"].as_str().unwrap_or_default()
        )
    })
}

/// Reads the objects of a file.
pub(crate) fn from_file(path: &Path) -> Result<Vec<Document>, LoadError> {
    let text = std::fs::read(path).map_err(|error| LoadError::new(path, &error))?;
    from_bytes(path, &text)
}

/// Decodes the objects in a file's content; the path is for errors.
pub(crate) fn from_bytes(path: &Path, text: &[u8]) -> Result<Vec<Document>, LoadError> {
    let failed = |error: &dyn std::fmt::Display| LoadError::new(path, error);
    let mut documents = Vec::new();
    for (line, text) in split(text).map_err(|error| failed(&error))? {
        let value = steersman_yaml::from_slice(&text)
            .map_err(|error| failed(&format_args!("document at line {line}: {error}")))?;
        match &value {
            // A document of only comments.
            Value::Null => continue,
            Value::Object(_) if value["kind"].as_str().is_some_and(|kind| !kind.is_empty()) => {}
            _ => return Err(failed(&format_args!("document at line {line}: Object 'Kind' is missing"))),
        }
        let document = Document::new(value)
            .map_err(|error| failed(&format_args!("document at line {line}: {error}")))?;
        documents.push(document);
    }
    Ok(documents)
}

/// Splits at lines that begin with `---`, and returns each document with its first line's number.
fn split(text: &[u8]) -> Result<Vec<(usize, Vec<u8>)>, String> {
    let mut documents = Vec::new();
    let mut current = Vec::new();
    let mut start = 1;
    for (index, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if let Some(rest) = line.strip_prefix(b"---") {
            let rest = rest.trim_ascii();
            if rest.first().is_some_and(|byte| *byte != b'#') {
                let rest = String::from_utf8_lossy(rest);
                return Err(format!("line {}: invalid Yaml document separator: {rest}", index + 1));
            }
            if !current.is_empty() {
                documents.push((start, std::mem::take(&mut current)));
            }
            start = index + 2;
            continue;
        }
        current.extend_from_slice(line);
    }
    if !current.is_empty() {
        documents.push((start, current));
    }
    Ok(documents)
}

/// Reads the objects of a file, or of a directory's `*.yaml` files in the order of their names.
pub(crate) fn from_path(path: &Path) -> Result<Vec<Document>, LoadError> {
    let mut documents = Vec::new();
    for file in yaml_files(path)? {
        documents.extend(from_file(&file)?);
    }
    Ok(documents)
}

fn yaml_files(path: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let metadata = std::fs::metadata(path).map_err(|error| LoadError::new(path, &error))?;
    if !metadata.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let is_yaml = |path: &PathBuf| !path.is_dir() && path.to_string_lossy().ends_with(".yaml");
    Ok(entries(path)?.into_iter().filter(is_yaml).collect())
}

/// Returns the entries of a directory, sorted by name.
pub(crate) fn entries(directory: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let read = std::fs::read_dir(directory).map_err(|error| LoadError::new(directory, &error))?;
    let mut paths = Vec::new();
    for entry in read {
        paths.push(entry.map_err(|error| LoadError::new(directory, &error))?.path());
    }
    paths.sort();
    Ok(paths)
}

/// Returns the files below a directory that have one of the extensions, sorted by path.
pub(crate) fn walk(directory: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>, LoadError> {
    let mut found = Vec::new();
    for path in entries(directory)? {
        // A link to a directory is not followed.
        let is_directory = std::fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir());
        if is_directory {
            found.extend(walk(&path, extensions)?);
        } else if path
            .extension()
            .and_then(|extension| extension.to_str())
            .is_some_and(|extension| extensions.contains(&extension))
        {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Result<Vec<String>, String> {
        let documents =
            from_bytes(Path::new("f.yaml"), text.as_bytes()).map_err(|error| error.to_string())?;
        Ok(documents.iter().map(|document| document.kind().to_owned()).collect())
    }

    #[test]
    fn documents_are_split_at_separators() {
        assert_eq!(kinds("# a\n---\nkind: A\n--- # more\nkind: B\n---\n# nothing\n").unwrap(), ["A", "B"]);
        assert_eq!(kinds("").unwrap(), Vec::<String>::new());
        assert_eq!(kinds("kind: A\n---\n---\nkind: B").unwrap(), ["A", "B"]);
        assert!(
            kinds("kind: A\n--- kind: B\n").unwrap_err().contains("line 2: invalid Yaml document separator")
        );
        assert!(kinds("a: 1\n").unwrap_err().contains("'Kind' is missing"));
        assert!(kinds("kind: A\n---\nkind: [\n").unwrap_err().contains("f.yaml: document at line 3"));
    }

    #[test]
    fn kinds_of_the_group_are_read() {
        let text = "apiVersion: kuttl.dev/v1beta1\nkind: TestAssert\ntimeout: soon\n";
        assert!(kinds(text).unwrap_err().contains("not an integer"));
        let text = "apiVersion: other.dev/v1beta1\nkind: TestAssert\ntimeout: soon\n";
        assert_eq!(kinds(text).unwrap(), ["TestAssert"]);
    }
}
