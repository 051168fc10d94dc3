//! `.Chart`, `.Capabilities`, `.Template` and the type of `.Values`, with Go's fields and methods.

use std::any::Any;
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

use steersman_gotemplate::{
    Budget, CallError, Kind, List, ListType, Map, MapType, Method, Object, Signature, Str, Type, Value,
};

use crate::capabilities::{Capabilities, HelmVersion};
use crate::dependencies::{table_at, value_at};
use crate::gofmt;
use crate::metadata::{Dependency, ImportValue, Maintainer, Metadata};

/// `chartutil.Values`: the type of `.Values`, of `.Template` and of `.` itself.
pub(super) const VALUES: &MapType = &MapType {
    name: "chartutil.Values",
    elem: Type::Any,
    methods: &[
        Method { name: "AsMap", signature: NO_ARGUMENTS, call: |map, _, _| Ok(Value::Map(as_map(map))) },
        Method { name: "YAML", signature: NO_ARGUMENTS, call: |map, _, budget| values_yaml(budget, map) },
        Method {
            name: "Table",
            signature: ONE_STRING,
            call: |map, args, _| match table_at(map, &text(args)) {
                Ok(table) => Ok(Value::Map(table.converted(VALUES))),
                Err(key) => Err(CallError::new(format!("{} is not a table", gofmt::quote(&Str::from(key))))),
            },
        },
        Method {
            name: "PathValue",
            signature: ONE_STRING,
            call: |map, args, _| {
                let path = text(args);
                if path.is_empty() {
                    return Err(CallError::new("YAML path cannot be empty"));
                }
                let key = path.rsplit('.').next().unwrap_or_default();
                value_at(map, &path).ok_or_else(|| {
                    CallError::new(format!("{} is not a value", gofmt::quote(&Str::from(key))))
                })
            },
        },
    ],
};

/// `chartutil.VersionSet`: the type of `.Capabilities.APIVersions`.
const VERSION_SET: &ListType = &ListType {
    name: "chartutil.VersionSet",
    elem: Type::String,
    methods: &[Method {
        name: "Has",
        signature: ONE_STRING,
        call: |versions, args, _| {
            let Some(Value::String(wanted)) = args.first() else { return Ok(Value::Bool(false)) };
            let is_wanted = |version: &Value| matches!(version, Value::String(version) if version == wanted);
            Ok(Value::Bool(versions.iter().any(is_wanted)))
        },
    }],
};

const MAINTAINERS: &ListType =
    &ListType { name: "[]*chart.Maintainer", elem: Type::Named("*chart.Maintainer"), methods: &[] };
const DEPENDENCIES: &ListType =
    &ListType { name: "[]*chart.Dependency", elem: Type::Named("*chart.Dependency"), methods: &[] };

pub(super) const NO_ARGUMENTS: Signature = Signature { params: &[], variadic: None };
pub(super) const ONE_STRING: Signature = Signature { params: &[Type::String], variadic: None };

/// Returns the first argument as a string.
pub(super) fn text(args: &[Value]) -> String {
    match args.first() {
        Some(Value::String(text)) => text.to_str_lossy().into_owned(),
        _ => String::new(),
    }
}

/// Formats values as YAML; templates may have made them contain themselves.
fn values_yaml(budget: &Budget, map: &Map) -> Result<Value, CallError> {
    let values = Value::Map(map.clone());
    let yaml = steersman_yaml::to_string_within(budget.remaining_memory(), &values.within(budget));
    budget.check()?;
    let yaml = yaml.or_else(|error| match error {
        steersman_yaml::Error::TooLarge { .. } => {
            budget.charge_memory(usize::MAX)?;
            Ok(String::new())
        }
        other => Err(CallError::new(other.to_string())),
    })?;
    budget.charge_memory(yaml.len())?;
    Ok(Value::string(yaml))
}

fn as_map(map: &Map) -> Map {
    if map.is_empty() { Map::new() } else { map.converted(MapType::ANY) }
}

/// Builds `.Template`.
pub(super) fn template(path: &str, base_path: &str) -> Value {
    let entries = [("Name", path), ("BasePath", base_path)];
    let entries = entries.into_iter().map(|(key, text)| (key.into(), Value::string(text))).collect();
    Value::Map(Map::with_type(VALUES, entries))
}

/// Builds `.Chart`.
pub(super) fn chart(metadata: Arc<Metadata>, is_root: bool) -> Value {
    Value::Object(Rc::new(ChartObject { metadata: Rc::new(MetadataObject::new(metadata)), is_root }))
}

/// Builds `.Capabilities`.
pub(super) fn capabilities(capabilities: &Capabilities) -> Value {
    let kube_version = KubeVersionObject {
        version: capabilities.kube_version.version.as_str().into(),
        major: capabilities.kube_version.major.as_str().into(),
        minor: capabilities.kube_version.minor.as_str().into(),
    };
    let versions = capabilities.api_versions.iter().map(|version| Value::string(version.as_str())).collect();
    Value::Object(Rc::new(CapabilitiesObject {
        kube_version: Rc::new(kube_version),
        api_versions: Value::List(List::new(VERSION_SET, versions)),
        helm_version: Rc::new(capabilities.helm_version.clone()),
    }))
}

/// Builds a `[]string` field, nil if empty.
fn strings(items: &[String]) -> Value {
    if items.is_empty() {
        return Value::List(List::nil(ListType::STRING));
    }
    Value::strings(items.iter().map(String::as_str))
}

fn objects<T: Object>(ty: &'static ListType, items: impl ExactSizeIterator<Item = T>) -> Value {
    if items.len() == 0 {
        return Value::List(List::nil(ty));
    }
    Value::List(List::new(ty, items.map(|item| Value::Object(Rc::new(item))).collect()))
}

/// Formats a struct as Go prints it.
fn print_struct(object: &dyn Object) -> String {
    let fields = object.fields().unwrap_or_default();
    let fields: Vec<String> = fields.iter().map(|(_, value)| gofmt::plain(value)).collect();
    format!("{{{}}}", fields.join(" "))
}

/// Returns the fields of a struct in order.
fn named<'a>(object: &dyn Object, names: &[&'a str]) -> Option<Vec<(&'a str, Value)>> {
    Some(names.iter().filter_map(|name| Some((*name, object.field(name)?))).collect())
}

/// The chart's metadata, extended by `IsRoot`.
struct ChartObject {
    metadata: Rc<MetadataObject>,
    is_root: bool,
}

impl Object for ChartObject {
    fn type_name(&self) -> &str {
        "struct { chart.Metadata; IsRoot bool }"
    }

    fn kind(&self) -> Kind {
        Kind::Struct
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "IsRoot" => Some(Value::Bool(self.is_root)),
            "Metadata" => Some(Value::Object(Rc::clone(&self.metadata) as Rc<dyn Object>)),
            name => self.metadata.field(name),
        }
    }

    fn fields(&self) -> Option<Vec<(&str, Value)>> {
        named(self, &["Metadata", "IsRoot"])
    }

    fn display(&self) -> String {
        print_struct(self)
    }

    fn json_fields(&self) -> Option<Vec<(&'static str, Value)>> {
        let mut fields = self.metadata.json_fields()?;
        fields.push(("IsRoot", Value::Bool(self.is_root)));
        Some(fields)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// `chart.Metadata`. Its fields are created once, as the labels of every object read some of them.
struct MetadataObject {
    metadata: Arc<Metadata>,
    fields: [OnceCell<Value>; METADATA_FIELDS.len()],
}

const METADATA_FIELDS: [&str; 17] = [
    "Name",
    "Home",
    "Sources",
    "Version",
    "Description",
    "Keywords",
    "Maintainers",
    "Icon",
    "APIVersion",
    "Condition",
    "Tags",
    "AppVersion",
    "Deprecated",
    "Annotations",
    "KubeVersion",
    "Dependencies",
    "Type",
];

impl MetadataObject {
    fn new(metadata: Arc<Metadata>) -> Self {
        Self { metadata, fields: Default::default() }
    }

    fn make_field(&self, name: &str) -> Value {
        let metadata = &self.metadata;
        match name {
            "Name" => Value::string(metadata.name.as_str()),
            "Home" => Value::string(metadata.home.as_str()),
            "Sources" => strings(&metadata.sources),
            "Version" => Value::string(metadata.version.as_str()),
            "Description" => Value::string(metadata.description.as_str()),
            "Keywords" => strings(&metadata.keywords),
            "Maintainers" => objects(MAINTAINERS, metadata.maintainers.iter().cloned()),
            "Icon" => Value::string(metadata.icon.as_str()),
            "APIVersion" => Value::string(metadata.api_version.as_str()),
            "Condition" => Value::string(metadata.condition.as_str()),
            "Tags" => Value::string(metadata.tags.as_str()),
            "AppVersion" => Value::string(metadata.app_version.as_str()),
            "Deprecated" => Value::Bool(metadata.deprecated),
            "Annotations" if metadata.annotations.is_empty() => Value::Map(Map::nil(MapType::STRING)),
            "Annotations" => {
                let entries = metadata.annotations.iter();
                let entries = entries.map(|(key, text)| (key.as_str().into(), Value::string(text.as_str())));
                Value::Map(Map::with_type(MapType::STRING, entries.collect()))
            }
            "KubeVersion" => Value::string(metadata.kube_version.as_str()),
            "Dependencies" => {
                objects(DEPENDENCIES, metadata.dependencies.as_deref().unwrap_or_default().iter().cloned())
            }
            _ => Value::string(metadata.chart_type.as_str()),
        }
    }
}

impl Object for MetadataObject {
    fn type_name(&self) -> &str {
        "chart.Metadata"
    }

    fn kind(&self) -> Kind {
        Kind::Struct
    }

    fn field(&self, name: &str) -> Option<Value> {
        let (_, field) = METADATA_FIELDS.iter().zip(&self.fields).find(|(known, _)| **known == name)?;
        Some(field.get_or_init(|| self.make_field(name)).clone())
    }

    fn fields(&self) -> Option<Vec<(&str, Value)>> {
        named(self, &METADATA_FIELDS)
    }

    fn display(&self) -> String {
        print_struct(self)
    }

    fn json_fields(&self) -> Option<Vec<(&'static str, Value)>> {
        const KEYS: [&str; METADATA_FIELDS.len()] = [
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
        let fields =
            KEYS.into_iter().zip(METADATA_FIELDS).filter_map(|(key, name)| Some((key, self.field(name)?)));
        // Empty fields are omitted.
        Some(fields.filter(|(_, value)| value.truth()).collect())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Object for Maintainer {
    fn type_name(&self) -> &str {
        "*chart.Maintainer"
    }

    fn kind(&self) -> Kind {
        Kind::Ptr
    }

    fn field(&self, name: &str) -> Option<Value> {
        Some(Value::string(match name {
            "Name" => self.name.as_str(),
            "Email" => &self.email,
            "URL" => &self.url,
            _ => return None,
        }))
    }

    fn fields(&self) -> Option<Vec<(&str, Value)>> {
        named(self, &["Name", "Email", "URL"])
    }

    fn display(&self) -> String {
        print_struct(self)
    }

    fn json_fields(&self) -> Option<Vec<(&'static str, Value)>> {
        let keys = [("name", "Name"), ("email", "Email"), ("url", "URL")];
        let fields = keys.into_iter().filter_map(|(key, name)| Some((key, self.field(name)?)));
        Some(fields.filter(|(_, value)| value.truth()).collect())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Object for Dependency {
    fn type_name(&self) -> &str {
        "*chart.Dependency"
    }

    fn kind(&self) -> Kind {
        Kind::Ptr
    }

    fn field(&self, name: &str) -> Option<Value> {
        Some(match name {
            "Name" => Value::string(self.name.as_str()),
            "Version" => Value::string(self.version.as_str()),
            "Repository" => Value::string(self.repository.as_str()),
            "Condition" => Value::string(self.condition.as_str()),
            "Tags" => strings(&self.tags),
            "Enabled" => Value::Bool(self.enabled),
            "ImportValues" if self.import_values.is_empty() => Value::List(List::nil(ListType::ANY)),
            "ImportValues" => Value::list(self.import_values.iter().map(import_value).collect()),
            "Alias" => Value::string(self.alias.as_str()),
            _ => return None,
        })
    }

    fn fields(&self) -> Option<Vec<(&str, Value)>> {
        named(
            self,
            &["Name", "Version", "Repository", "Condition", "Tags", "Enabled", "ImportValues", "Alias"],
        )
    }

    fn display(&self) -> String {
        print_struct(self)
    }

    fn json_fields(&self) -> Option<Vec<(&'static str, Value)>> {
        let keys = [
            ("name", "Name"),
            ("version", "Version"),
            ("repository", "Repository"),
            ("condition", "Condition"),
            ("tags", "Tags"),
            ("enabled", "Enabled"),
            ("import-values", "ImportValues"),
            ("alias", "Alias"),
        ];
        let fields = keys.into_iter().filter_map(|(key, name)| Some((key, self.field(name)?)));
        let is_kept = |(key, value): &(&str, Value)| matches!(*key, "name" | "repository") || value.truth();
        Some(fields.filter(is_kept).collect())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn import_value(import: &ImportValue) -> Value {
    match import {
        ImportValue::Written(data) => data.to_value(),
        ImportValue::Done { child, parent } => {
            let entries = [("child", child), ("parent", parent)];
            let entries = entries.into_iter().map(|(key, path)| (key.into(), Value::string(path.as_str())));
            Value::Map(Map::with_type(MapType::STRING, entries.collect()))
        }
    }
}

/// `*chartutil.Capabilities`.
struct CapabilitiesObject {
    kube_version: Rc<KubeVersionObject>,
    api_versions: Value,
    helm_version: Rc<HelmVersion>,
}

impl Object for CapabilitiesObject {
    fn type_name(&self) -> &str {
        "*chartutil.Capabilities"
    }

    fn kind(&self) -> Kind {
        Kind::Ptr
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "KubeVersion" => Some(Value::Object(Rc::clone(&self.kube_version) as Rc<dyn Object>)),
            "APIVersions" => Some(self.api_versions.clone()),
            "HelmVersion" => Some(Value::Object(Rc::clone(&self.helm_version) as Rc<dyn Object>)),
            _ => None,
        }
    }

    fn method(&self, name: &str) -> Option<Signature> {
        (name == "Copy").then_some(NO_ARGUMENTS)
    }

    fn call(&self, _: &str, _: &[Value]) -> Result<Value, CallError> {
        Ok(Value::Object(Rc::new(Self {
            kube_version: Rc::clone(&self.kube_version),
            api_versions: self.api_versions.clone(),
            helm_version: Rc::clone(&self.helm_version),
        })))
    }

    fn fields(&self) -> Option<Vec<(&str, Value)>> {
        named(self, &["KubeVersion", "APIVersions", "HelmVersion"])
    }

    fn display(&self) -> String {
        print_struct(self)
    }

    fn json_fields(&self) -> Option<Vec<(&'static str, Value)>> {
        ["KubeVersion", "APIVersions", "HelmVersion"]
            .map(|name| Some((name, self.field(name)?)))
            .into_iter()
            .collect()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// `chartutil.KubeVersion`.
struct KubeVersionObject {
    version: Str,
    major: Str,
    minor: Str,
}

impl Object for KubeVersionObject {
    fn type_name(&self) -> &str {
        "chartutil.KubeVersion"
    }

    fn kind(&self) -> Kind {
        Kind::Struct
    }

    fn field(&self, name: &str) -> Option<Value> {
        Some(Value::String(match name {
            "Version" => self.version.clone(),
            "Major" => self.major.clone(),
            "Minor" => self.minor.clone(),
            _ => return None,
        }))
    }

    fn method(&self, name: &str) -> Option<Signature> {
        matches!(name, "String" | "GitVersion").then_some(NO_ARGUMENTS)
    }

    fn call(&self, _: &str, _: &[Value]) -> Result<Value, CallError> {
        Ok(Value::String(self.version.clone()))
    }

    fn fields(&self) -> Option<Vec<(&str, Value)>> {
        named(self, &["Version", "Major", "Minor"])
    }

    fn display(&self) -> String {
        print_struct(self)
    }

    fn addressed(&self) -> Option<String> {
        Some(self.version.to_string())
    }

    fn json_fields(&self) -> Option<Vec<(&'static str, Value)>> {
        let entries = [("Version", &self.version), ("Major", &self.major), ("Minor", &self.minor)];
        Some(entries.map(|(key, text)| (key, Value::String(text.clone()))).into())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Object for HelmVersion {
    fn type_name(&self) -> &str {
        "version.BuildInfo"
    }

    fn kind(&self) -> Kind {
        Kind::Struct
    }

    fn field(&self, name: &str) -> Option<Value> {
        Some(Value::string(match name {
            "Version" => self.version.as_str(),
            "GitCommit" => &self.git_commit,
            "GitTreeState" => &self.git_tree_state,
            "GoVersion" => &self.go_version,
            _ => return None,
        }))
    }

    fn fields(&self) -> Option<Vec<(&str, Value)>> {
        named(self, &["Version", "GitCommit", "GitTreeState", "GoVersion"])
    }

    fn display(&self) -> String {
        print_struct(self)
    }

    fn json_fields(&self) -> Option<Vec<(&'static str, Value)>> {
        let entries = [
            ("version", &self.version),
            ("git_commit", &self.git_commit),
            ("git_tree_state", &self.git_tree_state),
            ("go_version", &self.go_version),
        ];
        let entries = entries.into_iter().filter(|(_, text)| !text.is_empty());
        Some(entries.map(|(key, text)| (key, Value::string(text.as_str()))).collect())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
