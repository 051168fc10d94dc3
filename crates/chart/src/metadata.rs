//! Chart.yaml, requirements.yaml and the lock files.

use std::collections::BTreeMap;

use serde::Serialize;

use steersman_yaml::Node;

use crate::error::Error;
use crate::gofmt;
use crate::load::decode::{self, Decoder, Struct};
use crate::values::Data;
use crate::version;
use crate::yaml;

/// The contents of Chart.yaml.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "named as in Chart.yaml")]
pub struct Metadata {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub home: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub maintainers: Vec<Maintainer>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub icon: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub condition: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tags: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deprecated: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kube_version: String,
    /// `None` if the key is absent, which Helm distinguishes from an empty list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<Vec<Dependency>>,
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub chart_type: String,
    #[serde(skip)]
    pub(crate) nulls: Nulls,
}

/// A maintainer of a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "named as in Chart.yaml")]
pub struct Maintainer {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub email: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
}

/// A dependency on another chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Dependency {
    /// Name in the dependency's Chart.yaml.
    pub name: String,
    /// A version or a version range.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// URL of its repository.
    pub repository: String,
    /// Comma-separated paths in the values; the first that is set enables or disables it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub condition: String,
    /// Names below `tags` in the values that enable or disable it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Whether it is enabled, as determined from the values.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub enabled: bool,
    /// Values that the parent imports from it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub import_values: Vec<ImportValue>,
    /// Name that the parent uses for it, if different.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub alias: String,
}

/// One entry of a dependency's `import-values`.
#[derive(Clone, Debug, PartialEq)]
pub enum ImportValue {
    /// Unprocessed: the name of an export, or a table with `child` and `parent`.
    Written(Data),
    /// Processed: Helm records the paths and does not import again.
    Done {
        /// Path in the dependency's values.
        child: String,
        /// Path in the parent's values.
        parent: String,
    },
}

impl Serialize for ImportValue {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Written(data) => serde_json::Value::from(data).serialize(serializer),
            Self::Done { child, parent } => {
                BTreeMap::from([("child", child), ("parent", parent)]).serialize(serializer)
            }
        }
    }
}

/// The contents of Chart.lock or requirements.lock.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Lock {
    /// Creation time, as written.
    pub generated: String,
    /// Digest of the dependencies in Chart.yaml.
    pub digest: String,
    /// The resolved versions.
    pub dependencies: Vec<Dependency>,
}

impl Metadata {
    /// Whether it is a library chart, of which only the partials are used.
    pub fn is_library(&self) -> bool {
        self.chart_type.eq_ignore_ascii_case("library")
    }

    /// Sanitizes the strings and validates the metadata.
    pub(crate) fn validate(&mut self) -> Result<(), Error> {
        let plain = [
            &mut self.name,
            &mut self.description,
            &mut self.home,
            &mut self.icon,
            &mut self.condition,
            &mut self.tags,
            &mut self.app_version,
            &mut self.kube_version,
        ];
        plain.into_iter().chain(&mut self.sources).chain(&mut self.keywords).for_each(sanitize);
        if self.api_version.is_empty() {
            return Err(invalid("chart.metadata.apiVersion is required"));
        }
        if self.name.is_empty() {
            return Err(invalid("chart.metadata.name is required"));
        }
        let quoted = |text: &str| gofmt::quote(&text.into());
        if self.name == "." || self.name == ".." {
            return Err(invalid(format!("chart.metadata.name {} is not allowed", quoted(&self.name))));
        }
        if self.name != base_name(&self.name) {
            return Err(invalid(format!("chart.metadata.name {} is invalid", quoted(&self.name))));
        }
        if self.version.is_empty() {
            return Err(invalid("chart.metadata.version is required"));
        }
        if !version::is_version(&self.version) {
            return Err(invalid(format!("chart.metadata.version {} is invalid", quoted(&self.version))));
        }
        if !matches!(self.chart_type.as_str(), "" | "application" | "library") {
            return Err(invalid("chart.metadata.type must be application or library"));
        }
        if self.nulls.maintainer {
            return Err(invalid("maintainers must not contain empty or null nodes"));
        }
        for maintainer in &mut self.maintainers {
            let Maintainer { name, email, url } = maintainer;
            [name, email, url].into_iter().for_each(sanitize);
        }
        if self.nulls.dependency {
            return Err(invalid("dependencies must not contain empty or null nodes"));
        }
        let mut names: Vec<&str> = Vec::new();
        for dependency in self.dependencies.iter_mut().flatten() {
            dependency.validate()?;
            let name = if dependency.alias.is_empty() { &dependency.name } else { &dependency.alias };
            if names.contains(&name.as_str()) {
                return Err(invalid(format!("more than one dependency with name or alias {}", quoted(name))));
            }
            names.push(name);
        }
        Ok(())
    }
}

impl Dependency {
    fn validate(&mut self) -> Result<(), Error> {
        let plain = [&mut self.name, &mut self.version, &mut self.repository, &mut self.condition];
        plain.into_iter().chain(&mut self.tags).for_each(sanitize);
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if !self.alias.bytes().all(allowed) {
            let name = gofmt::quote(&self.name.as_str().into());
            return Err(invalid(format!("dependency {name} has disallowed characters in the alias")));
        }
        Ok(())
    }
}

fn invalid(message: impl std::fmt::Display) -> Error {
    Error::Load(format!("validation: {message}"))
}

/// Replaces white space by spaces and removes characters that do not print.
fn sanitize(text: &mut String) {
    if text.bytes().all(|b| matches!(b, b' '..=b'~')) {
        return;
    }
    *text = text
        .chars()
        .filter_map(|c| if gofmt::is_space(c) { Some(' ') } else { gofmt::is_print(c).then_some(c) })
        .collect();
}

/// Go's `filepath.Base`.
pub(crate) fn base_name(path: &str) -> &str {
    let trimmed = path.trim_end_matches('/');
    match (path.is_empty(), trimmed) {
        (true, _) => ".",
        (false, "") => "/",
        (false, trimmed) => trimmed.rsplit('/').next().unwrap_or(trimmed),
    }
}

/// Null entries in lists, which Helm rejects on validation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Nulls {
    pub(crate) maintainer: bool,
    pub(crate) dependency: bool,
}

impl Metadata {
    /// Decodes Chart.yaml, or requirements.yaml on top of it.
    pub(crate) fn read(&mut self, text: &[u8]) -> Result<(), String> {
        let document = yaml::parse(text)?;
        decode::run(&document, |decoder, data| self.decode(decoder, data))
    }

    fn decode(&mut self, decoder: &mut Decoder, data: &Node<'_>) {
        const FIELDS: &[&str] = &[
            "name",
            "home",
            "sources",
            "version",
            "description",
            "keywords",
            "maintainers",
            "icon",
            "apiVersion",
            "condition",
            "tags",
            "appVersion",
            "deprecated",
            "annotations",
            "kubeVersion",
            "dependencies",
            "type",
        ];
        let strukt = Struct { name: "Metadata", go_type: "chart.Metadata", fields: FIELDS };
        decoder.object(data, &strukt, |decoder, field, data| match field {
            "name" => decoder.string(data, &mut self.name),
            "home" => decoder.string(data, &mut self.home),
            "sources" => decoder.strings(data, &mut self.sources),
            "version" => decoder.string(data, &mut self.version),
            "description" => decoder.string(data, &mut self.description),
            "keywords" => decoder.strings(data, &mut self.keywords),
            "maintainers" => {
                let items = decoder.list(data, "[]*chart.Maintainer", Maintainer::decode).unwrap_or_default();
                self.nulls.maintainer |= items.iter().any(Option::is_none);
                self.maintainers = items.into_iter().flatten().collect();
            }
            "icon" => decoder.string(data, &mut self.icon),
            "apiVersion" => decoder.string(data, &mut self.api_version),
            "condition" => decoder.string(data, &mut self.condition),
            "tags" => decoder.string(data, &mut self.tags),
            "appVersion" => decoder.string(data, &mut self.app_version),
            "deprecated" => decoder.bool(data, &mut self.deprecated),
            "annotations" => decoder.string_map(data, &mut self.annotations),
            "kubeVersion" => decoder.string(data, &mut self.kube_version),
            "dependencies" => {
                let items = decoder.list(data, "[]*chart.Dependency", Dependency::decode);
                self.nulls.dependency |= items.iter().flatten().any(Option::is_none);
                self.dependencies = items.map(|items| items.into_iter().flatten().collect());
            }
            _ => decoder.string(data, &mut self.chart_type),
        });
    }
}

impl Maintainer {
    fn decode(decoder: &mut Decoder, data: &Node<'_>) -> Self {
        let mut maintainer = Self::default();
        let strukt =
            Struct { name: "Maintainer", go_type: "chart.Maintainer", fields: &["name", "email", "url"] };
        decoder.object(data, &strukt, |decoder, field, data| match field {
            "name" => decoder.string(data, &mut maintainer.name),
            "email" => decoder.string(data, &mut maintainer.email),
            _ => decoder.string(data, &mut maintainer.url),
        });
        maintainer
    }
}

impl Dependency {
    fn decode(decoder: &mut Decoder, data: &Node<'_>) -> Self {
        const FIELDS: &[&str] =
            &["name", "version", "repository", "condition", "tags", "enabled", "import-values", "alias"];
        let mut dependency = Self::default();
        let strukt = Struct { name: "Dependency", go_type: "chart.Dependency", fields: FIELDS };
        decoder.object(data, &strukt, |decoder, field, data| match field {
            "name" => decoder.string(data, &mut dependency.name),
            "version" => decoder.string(data, &mut dependency.version),
            "repository" => decoder.string(data, &mut dependency.repository),
            "condition" => decoder.string(data, &mut dependency.condition),
            "tags" => decoder.strings(data, &mut dependency.tags),
            "enabled" => decoder.bool(data, &mut dependency.enabled),
            "import-values" => {
                let items = decoder.list(data, "[]interface {}", |_, item| yaml::data(item));
                let written = items.unwrap_or_default().into_iter().map(Option::unwrap_or_default);
                dependency.import_values = written.map(ImportValue::Written).collect();
            }
            _ => decoder.string(data, &mut dependency.alias),
        });
        dependency
    }
}

impl Lock {
    /// Decodes Chart.lock or requirements.lock.
    pub(crate) fn read(text: &[u8]) -> Result<Self, String> {
        let document = yaml::parse(text)?;
        let mut lock = Self::default();
        let strukt =
            Struct { name: "Lock", go_type: "chart.Lock", fields: &["generated", "digest", "dependencies"] };
        decode::run(&document, |decoder, data| {
            decoder.object(data, &strukt, |decoder, field, data| match field {
                "generated" => decoder.time(data, &mut lock.generated),
                "digest" => decoder.string(data, &mut lock.digest),
                _ => {
                    let items = decoder.list(data, "[]*chart.Dependency", Dependency::decode);
                    lock.dependencies = items.unwrap_or_default().into_iter().flatten().collect();
                }
            });
        })?;
        Ok(lock)
    }
}
