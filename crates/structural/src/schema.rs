//! OpenAPI schemas as written in definitions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use regex::Regex;
use serde_json::{Map, Value};

use crate::go;

/// Schemas nested deeper than this are truncated. JSON decoded from a request is nested less.
const MAX_DEPTH: usize = 200;

/// The OpenAPI schema of a custom resource, or of a part of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schema {
    pub(crate) id: String,
    pub(crate) schema: String,
    pub(crate) reference: Option<String>,
    pub(crate) description: String,
    pub(crate) kind: String,
    pub(crate) nullable: bool,
    pub(crate) format: String,
    pub(crate) title: String,
    pub(crate) default: Option<Value>,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) max_length: Option<i64>,
    pub(crate) min_length: Option<i64>,
    pub(crate) pattern: Pattern,
    pub(crate) max_items: Option<i64>,
    pub(crate) min_items: Option<i64>,
    pub(crate) unique_items: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) enumeration: Vec<Value>,
    pub(crate) max_properties: Option<i64>,
    pub(crate) min_properties: Option<i64>,
    pub(crate) required: Vec<String>,
    pub(crate) items: Option<Items>,
    pub(crate) all_of: Vec<Schema>,
    pub(crate) one_of: Vec<Schema>,
    pub(crate) any_of: Vec<Schema>,
    pub(crate) not: Option<Box<Schema>>,
    pub(crate) properties: BTreeMap<String, Schema>,
    pub(crate) additional_properties: Option<Box<SchemaOrBool>>,
    pub(crate) pattern_properties: BTreeMap<String, Schema>,
    pub(crate) dependencies: BTreeMap<String, Dependency>,
    pub(crate) additional_items: Option<Box<SchemaOrBool>>,
    pub(crate) definitions: BTreeMap<String, Schema>,
    pub(crate) external_docs: Option<(String, String)>,
    pub(crate) example: Option<Value>,
    pub(crate) preserve_unknown: Option<bool>,
    pub(crate) embedded_resource: bool,
    pub(crate) int_or_string: bool,
    pub(crate) list_map_keys: Vec<String>,
    pub(crate) list_type: Option<String>,
    pub(crate) map_type: Option<String>,
    pub(crate) rules: Vec<Rule>,
}

/// One schema for all items, or one per index, which definitions may not use.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Items {
    One(Box<Schema>),
    Many(Vec<Schema>),
}

/// `additionalProperties`: a boolean or a schema.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SchemaOrBool {
    pub(crate) allows: bool,
    pub(crate) schema: Option<Schema>,
}

/// A value of `dependencies`: a schema or a list of required properties.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Dependency {
    Schema(Box<Schema>),
    Properties(Vec<String>),
}

/// One entry of `x-kubernetes-validations`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Rule {
    pub(crate) rule: String,
    pub(crate) message: String,
    pub(crate) message_expression: String,
    pub(crate) reason: Option<String>,
    pub(crate) field_path: String,
    pub(crate) optional_old_self: Option<bool>,
}

/// A regular expression, compiled on first use.
#[derive(Clone, Default)]
pub(crate) struct Pattern {
    pub(crate) text: String,
    compiled: OnceLock<Result<Regex, String>>,
}

impl Pattern {
    fn new(text: String) -> Self {
        Self { text, compiled: OnceLock::new() }
    }

    pub(crate) fn compiled(&self) -> Result<&Regex, &str> {
        self.compiled.get_or_init(|| steersman_regexp::compile(&self.text)).as_ref().map_err(String::as_str)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl Schema {
    /// Parses a schema. Anything that is not an object yields the empty schema.
    #[must_use]
    pub fn parse(value: &Value) -> Self {
        Self::at_depth(value, 0)
    }

    fn at_depth(value: &Value, depth: usize) -> Self {
        let Some(map) = value.as_object().filter(|_| depth < MAX_DEPTH) else { return Self::default() };
        let read = Reader { map, depth: depth + 1 };
        Self {
            id: read.text("id"),
            schema: read.text("$schema"),
            reference: read.optional_text("$ref"),
            description: read.text("description"),
            kind: read.text("type"),
            nullable: read.flag("nullable"),
            format: read.text("format"),
            title: read.text("title"),
            default: read.value("default"),
            maximum: read.float("maximum"),
            exclusive_maximum: read.flag("exclusiveMaximum"),
            minimum: read.float("minimum"),
            exclusive_minimum: read.flag("exclusiveMinimum"),
            max_length: read.integer("maxLength"),
            min_length: read.integer("minLength"),
            pattern: Pattern::new(read.text("pattern")),
            max_items: read.integer("maxItems"),
            min_items: read.integer("minItems"),
            unique_items: read.flag("uniqueItems"),
            multiple_of: read.float("multipleOf"),
            enumeration: map.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
            max_properties: read.integer("maxProperties"),
            min_properties: read.integer("minProperties"),
            required: read.texts("required"),
            items: match map.get("items") {
                Some(Value::Array(items)) => Some(Items::Many(read.list(items))),
                Some(item @ Value::Object(_)) => Some(Items::One(Box::new(Self::at_depth(item, depth + 1)))),
                _ => None,
            },
            all_of: read.schemas("allOf"),
            one_of: read.schemas("oneOf"),
            any_of: read.schemas("anyOf"),
            not: map.get("not").filter(|v| v.is_object()).map(|v| Box::new(Self::at_depth(v, depth + 1))),
            properties: read.named("properties"),
            additional_properties: read.schema_or_bool("additionalProperties"),
            pattern_properties: read.named("patternProperties"),
            dependencies: read.dependencies(),
            additional_items: read.schema_or_bool("additionalItems"),
            definitions: read.named("definitions"),
            external_docs: map.get("externalDocs").and_then(Value::as_object).map(|docs| {
                let docs = Reader { map: docs, depth };
                (docs.text("description"), docs.text("url"))
            }),
            example: read.value("example"),
            preserve_unknown: map.get("x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool),
            embedded_resource: read.flag("x-kubernetes-embedded-resource"),
            int_or_string: read.flag("x-kubernetes-int-or-string"),
            list_map_keys: read.texts("x-kubernetes-list-map-keys"),
            list_type: read.optional_text("x-kubernetes-list-type"),
            map_type: read.optional_text("x-kubernetes-map-type"),
            rules: read.rules(),
        }
    }

    /// Returns the schema of the items.
    pub(crate) fn item(&self) -> Option<&Self> {
        match self.items.as_ref() {
            Some(Items::One(item)) => Some(item),
            _ => None,
        }
    }

    /// Returns the schema of undeclared fields.
    pub(crate) fn additional(&self) -> Option<&Self> {
        self.additional_properties.as_deref()?.schema.as_ref()
    }

    /// Returns the schema of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or_else(|| self.additional())
    }

    pub(crate) fn preserves_unknown(&self) -> bool {
        self.preserve_unknown == Some(true)
    }

    pub(crate) fn is_list_map(&self) -> bool {
        self.list_type.as_deref() == Some("map")
    }

    /// Whether `test` is true for this schema or any schema in it; stops at the first match.
    pub(crate) fn has(&self, test: &mut dyn FnMut(&Self) -> bool) -> bool {
        if test(self) {
            return true;
        }
        let items: &[Self] = match self.items.as_ref() {
            Some(Items::One(item)) => std::slice::from_ref(&**item),
            Some(Items::Many(items)) => items,
            None => &[],
        };
        let lists = [items, &self.all_of, &self.any_of, &self.one_of].into_iter().flatten();
        let others = self
            .not
            .as_deref()
            .into_iter()
            .chain(self.properties.values())
            .chain(self.additional())
            .chain(self.pattern_properties.values())
            .chain(self.additional_items.as_deref().and_then(|a| a.schema.as_ref()))
            .chain(self.definitions.values())
            .chain(self.dependencies.values().filter_map(|d| match d {
                Dependency::Schema(schema) => Some(&**schema),
                Dependency::Properties(_) => None,
            }));
        lists.chain(others).any(|schema| schema.has(test))
    }

    /// Formats the schema as error messages show it: as the server's Go struct.
    pub(crate) fn shown(&self) -> String {
        let mut out = String::new();
        Shown(&mut out).schema(self);
        out
    }
}

/// Reads fields of a JSON object.
struct Reader<'a> {
    map: &'a Map<String, Value>,
    depth: usize,
}

impl Reader<'_> {
    fn text(&self, key: &str) -> String {
        self.optional_text(key).unwrap_or_default()
    }

    fn optional_text(&self, key: &str) -> Option<String> {
        self.map.get(key).and_then(Value::as_str).map(str::to_owned)
    }

    fn flag(&self, key: &str) -> bool {
        self.map.get(key).and_then(Value::as_bool).unwrap_or_default()
    }

    fn value(&self, key: &str) -> Option<Value> {
        self.map.get(key).filter(|v| !v.is_null()).cloned()
    }

    fn float(&self, key: &str) -> Option<f64> {
        self.map.get(key).and_then(Value::as_f64)
    }

    fn integer(&self, key: &str) -> Option<i64> {
        self.map.get(key).and_then(Value::as_i64)
    }

    fn texts(&self, key: &str) -> Vec<String> {
        let list = self.map.get(key).and_then(Value::as_array).into_iter().flatten();
        list.map(|v| v.as_str().unwrap_or_default().to_owned()).collect()
    }

    fn list(&self, values: &[Value]) -> Vec<Schema> {
        values.iter().map(|v| Schema::at_depth(v, self.depth)).collect()
    }

    fn schemas(&self, key: &str) -> Vec<Schema> {
        self.list(self.map.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default())
    }

    fn named(&self, key: &str) -> BTreeMap<String, Schema> {
        let map = self.map.get(key).and_then(Value::as_object).into_iter().flatten();
        map.map(|(k, v)| (k.clone(), Schema::at_depth(v, self.depth))).collect()
    }

    fn schema_or_bool(&self, key: &str) -> Option<Box<SchemaOrBool>> {
        let read = match self.map.get(key)? {
            Value::Bool(allows) => SchemaOrBool { allows: *allows, schema: None },
            v @ Value::Object(_) => {
                SchemaOrBool { allows: true, schema: Some(Schema::at_depth(v, self.depth)) }
            }
            _ => return None,
        };
        Some(Box::new(read))
    }

    fn dependencies(&self) -> BTreeMap<String, Dependency> {
        let map = self.map.get("dependencies").and_then(Value::as_object).into_iter().flatten();
        let read = |v: &Value| match v {
            Value::Array(names) => Dependency::Properties(
                names.iter().map(|n| n.as_str().unwrap_or_default().to_owned()).collect(),
            ),
            other => Dependency::Schema(Box::new(Schema::at_depth(other, self.depth))),
        };
        map.map(|(k, v)| (k.clone(), read(v))).collect()
    }

    fn rules(&self) -> Vec<Rule> {
        let list = self.map.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_object)
            .map(|map| {
                let read = Reader { map, depth: self.depth };
                Rule {
                    rule: read.text("rule"),
                    message: read.text("message"),
                    message_expression: read.text("messageExpression"),
                    reason: read.optional_text("reason"),
                    field_path: read.text("fieldPath"),
                    optional_old_self: map.get("optionalOldSelf").and_then(Value::as_bool),
                }
            })
            .collect()
    }
}

impl Rule {
    /// Formats the rule as error messages show it.
    pub(crate) fn shown(&self) -> String {
        let mut out = String::new();
        Shown(&mut out).rule(self);
        out
    }
}

/// Writes values as JSON of Go structs without JSON tags: Go field names, no field omitted.
pub(crate) struct Shown<'a>(pub(crate) &'a mut String);

impl Shown<'_> {
    pub(crate) fn raw(&mut self, text: &str) {
        self.0.push_str(text);
    }

    /// Writes a field name, preceded by a comma unless it is the first field.
    pub(crate) fn field(&mut self, name: &str) {
        if !self.0.ends_with('{') {
            self.0.push(',');
        }
        self.0.push('"');
        self.0.push_str(name);
        self.0.push_str("\":");
    }

    pub(crate) fn text(&mut self, name: &str, value: &str) {
        self.field(name);
        go::json_string(self.0, value);
    }

    pub(crate) fn optional_text(&mut self, name: &str, value: Option<&str>) {
        match value {
            Some(value) => self.text(name, value),
            None => self.null(name),
        }
    }

    pub(crate) fn null(&mut self, name: &str) {
        self.field(name);
        self.raw("null");
    }

    pub(crate) fn flag(&mut self, name: &str, value: bool) {
        self.field(name);
        self.raw(if value { "true" } else { "false" });
    }

    pub(crate) fn optional_flag(&mut self, name: &str, value: Option<bool>) {
        match value {
            Some(value) => self.flag(name, value),
            None => self.null(name),
        }
    }

    pub(crate) fn integer(&mut self, name: &str, value: Option<i64>) {
        self.field(name);
        match value {
            Some(value) => self.raw(&value.to_string()),
            None => self.raw("null"),
        }
    }

    fn float(&mut self, name: &str, value: Option<f64>) {
        self.field(name);
        match value {
            Some(value) => go::json_float(self.0, value),
            None => self.raw("null"),
        }
    }

    fn value(&mut self, name: &str, value: Option<&Value>) {
        self.field(name);
        go::write_json(self.0, value.unwrap_or(&Value::Null));
    }

    /// Writes a list in brackets, or null if it is empty.
    pub(crate) fn list<T>(&mut self, name: &str, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.field(name);
        if items.is_empty() {
            return self.raw("null");
        }
        self.raw("[");
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.raw(",");
            }
            write(self, item);
        }
        self.raw("]");
    }

    pub(crate) fn texts(&mut self, name: &str, items: &[String]) {
        self.list(name, items, |out, item| go::json_string(out.0, item));
    }

    fn schemas(&mut self, name: &str, items: &[Schema]) {
        self.list(name, items, Self::schema);
    }

    fn named(&mut self, name: &str, items: &BTreeMap<String, Schema>) {
        self.field(name);
        if items.is_empty() {
            return self.raw("null");
        }
        self.raw("{");
        for (key, item) in items {
            if !self.0.ends_with('{') {
                self.raw(",");
            }
            go::json_string(self.0, key);
            self.raw(":");
            self.schema(item);
        }
        self.raw("}");
    }

    fn schema_or_bool(&mut self, name: &str, value: Option<&SchemaOrBool>) {
        let Some(value) = value else { return self.null(name) };
        self.field(name);
        self.raw("{");
        self.flag("Allows", value.allows);
        self.optional_schema("Schema", value.schema.as_ref());
        self.raw("}");
    }

    pub(crate) fn optional_schema(&mut self, name: &str, value: Option<&Schema>) {
        self.field(name);
        match value {
            Some(schema) => self.schema(schema),
            None => self.raw("null"),
        }
    }

    pub(crate) fn items(&mut self, items: &Items) {
        self.raw("{");
        match items {
            Items::One(schema) => {
                self.optional_schema("Schema", Some(schema));
                self.null("JSONSchemas");
            }
            Items::Many(schemas) => {
                self.null("Schema");
                self.schemas("JSONSchemas", schemas);
            }
        }
        self.raw("}");
    }

    fn rule(&mut self, rule: &Rule) {
        self.raw("{");
        self.text("Rule", &rule.rule);
        self.text("Message", &rule.message);
        self.text("MessageExpression", &rule.message_expression);
        self.optional_text("Reason", rule.reason.as_deref());
        self.text("FieldPath", &rule.field_path);
        self.optional_flag("OptionalOldSelf", rule.optional_old_self);
        self.raw("}");
    }

    pub(crate) fn schema(&mut self, schema: &Schema) {
        self.raw("{");
        self.text("ID", &schema.id);
        self.text("Schema", &schema.schema);
        self.optional_text("Ref", schema.reference.as_deref());
        self.text("Description", &schema.description);
        self.text("Type", &schema.kind);
        self.flag("Nullable", schema.nullable);
        self.text("Format", &schema.format);
        self.text("Title", &schema.title);
        self.value("Default", schema.default.as_ref());
        self.float("Maximum", schema.maximum);
        self.flag("ExclusiveMaximum", schema.exclusive_maximum);
        self.float("Minimum", schema.minimum);
        self.flag("ExclusiveMinimum", schema.exclusive_minimum);
        self.integer("MaxLength", schema.max_length);
        self.integer("MinLength", schema.min_length);
        self.text("Pattern", &schema.pattern.text);
        self.integer("MaxItems", schema.max_items);
        self.integer("MinItems", schema.min_items);
        self.flag("UniqueItems", schema.unique_items);
        self.float("MultipleOf", schema.multiple_of);
        self.list("Enum", &schema.enumeration, |out, value| go::write_json(out.0, value));
        self.integer("MaxProperties", schema.max_properties);
        self.integer("MinProperties", schema.min_properties);
        self.texts("Required", &schema.required);
        match schema.items.as_ref() {
            Some(items) => {
                self.field("Items");
                self.items(items);
            }
            None => self.null("Items"),
        }
        self.schemas("AllOf", &schema.all_of);
        self.schemas("OneOf", &schema.one_of);
        self.schemas("AnyOf", &schema.any_of);
        self.optional_schema("Not", schema.not.as_deref());
        self.named("Properties", &schema.properties);
        self.schema_or_bool("AdditionalProperties", schema.additional_properties.as_deref());
        self.named("PatternProperties", &schema.pattern_properties);
        self.dependencies(&schema.dependencies);
        self.schema_or_bool("AdditionalItems", schema.additional_items.as_deref());
        self.named("Definitions", &schema.definitions);
        self.field("ExternalDocs");
        match &schema.external_docs {
            Some((description, url)) => {
                self.raw("{");
                self.text("Description", description);
                self.text("URL", url);
                self.raw("}");
            }
            None => self.raw("null"),
        }
        self.value("Example", schema.example.as_ref());
        self.optional_flag("XPreserveUnknownFields", schema.preserve_unknown);
        self.flag("XEmbeddedResource", schema.embedded_resource);
        self.flag("XIntOrString", schema.int_or_string);
        self.texts("XListMapKeys", &schema.list_map_keys);
        self.optional_text("XListType", schema.list_type.as_deref());
        self.optional_text("XMapType", schema.map_type.as_deref());
        self.list("XValidations", &schema.rules, Self::rule);
        self.raw("}");
    }

    fn dependencies(&mut self, items: &BTreeMap<String, Dependency>) {
        self.field("Dependencies");
        if items.is_empty() {
            return self.raw("null");
        }
        self.raw("{");
        for (key, item) in items {
            if !self.0.ends_with('{') {
                self.raw(",");
            }
            go::json_string(self.0, key);
            self.raw(":{");
            match item {
                Dependency::Schema(schema) => {
                    self.optional_schema("Schema", Some(schema));
                    self.null("Property");
                }
                Dependency::Properties(names) => {
                    self.null("Schema");
                    self.texts("Property", names);
                }
            }
            self.raw("}");
        }
        self.raw("}");
    }
}
