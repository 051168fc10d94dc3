//! Generates the schema of a kind whose spec is a chart's values.
//!
//! Its source is values.schema.json if the chart has one, else values.yaml.
//!
//! **Invariant:** the schema is structural, accepts the chart's own values, and is open wherever the chart does not
//! restrict a value: it never rejects what the chart would accept.

mod comments;
mod convert;
mod infer;

use serde_json::{Map, Value, json};
use steersman_chart::Chart;
use steersman_structural::{CustomSchema, definition};

use self::comments::Comments;
use crate::crd;
use crate::project::Resource;

/// Maximum depth of described values; deeper ones are open.
const MAX_DEPTH: usize = 12;
/// Maximum number of described fields; further ones are open, so that the definition is not too large.
const MAX_FIELDS: usize = 2000;
/// Maximum length of a description, in characters.
const MAX_DESCRIPTION: usize = 400;
/// Maximum size of a default, in bytes of JSON.
///
/// Longer ones, such as configuration files, are not copied into every object.
const MAX_DEFAULT: usize = 200;

/// Returns the schema of a kind's spec for a chart.
pub(crate) fn of_chart(chart: &Chart, resource: &Resource) -> Value {
    let values = chart_values(chart);
    let comments = Comments::read(chart.file("values.yaml").unwrap_or_default());
    let written = chart.schema().and_then(|text| serde_json::from_slice::<Value>(text).ok());
    let mut builder = Builder { comments: &comments, fields: 0 };
    let mut spec = match &written {
        Some(root) => convert::convert(root, &values, &mut builder),
        None => builder.infer_root(&values),
    };
    spec["description"] = format!("Values of the chart {}.", chart.name()).into();
    settle(&mut spec, &values, resource);
    spec
}

/// Returns the chart's own values as JSON.
pub(crate) fn chart_values(chart: &Chart) -> Value {
    Value::from(&chart.values())
}

/// Returns a schema that accepts anything.
fn open() -> Value {
    json!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// Returns a schema that accepts any object.
pub(crate) fn open_object(description: &str) -> Value {
    json!({ "description": description, "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Builds schemas for a bounded number of values.
struct Builder<'a> {
    comments: &'a Comments,
    fields: usize,
}

impl Builder<'_> {
    /// Counts a field, and returns whether it can still be described.
    fn has_room(&mut self, path: &[&str]) -> bool {
        self.fields += 1;
        self.fields <= MAX_FIELDS && path.len() <= MAX_DEPTH
    }

    fn describe(&self, schema: &mut Value, path: &[&str]) {
        if schema.get("description").is_none()
            && let Some(text) = self.comments.of(path)
        {
            schema["description"] = shorten(text).into();
        }
    }
}

fn shorten(text: &str) -> String {
    if text.chars().count() <= MAX_DESCRIPTION {
        return text.to_owned();
    }
    let cut: String = text.chars().take(MAX_DESCRIPTION).collect();
    let end = cut.rfind(' ').unwrap_or(cut.len());
    format!("{}…", cut.get(..end).unwrap_or(&cut))
}

/// Sets the chart's default in a schema, if it is a short scalar that is not empty.
fn set_default(schema: &mut Value, value: Option<&Value>) {
    let Some(value) = value else { return };
    // In Helm, null deletes a key. The API server drops null values of fields that are not nullable.
    if schema.get("enum").is_none() {
        schema["nullable"] = true.into();
    }
    let says_something = match value {
        Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => !text.is_empty() && !text.contains('\n'),
        _ => false,
    };
    if says_something && value.to_string().len() <= MAX_DEFAULT {
        schema["default"] = value.clone();
    }
}

/// Opens each field whose schema is invalid, or rejects the chart's own value.
fn settle(spec: &mut Value, values: &Value, resource: &Resource) {
    let Some(Value::Object(properties)) = spec.get("properties").cloned() else { return };
    for (name, schema) in properties {
        let one = |schema: &Value| json!({ "type": "object", "properties": { &name: schema } });
        let value = values.get(&name).map_or(json!({}), |value| json!({ &name: value }));
        if fits(&one(&schema), &value, resource) {
            continue;
        }
        let mut opened = open();
        if let Some(description) = schema.get("description") {
            opened["description"] = description.clone();
        }
        spec["properties"][&name] = opened;
    }
    if !fits(spec, values, resource) {
        let description = spec.get("description").and_then(Value::as_str).unwrap_or_default();
        *spec = open_object(description);
    }
}

fn fits(spec: &Value, values: &Value, resource: &Resource) -> bool {
    let mut crd = crd::definition(resource, true, spec.clone(), serde_json::json!([]));
    // As defaulted by an API server before validation.
    crd["spec"]["conversion"] = json!({ "strategy": "None" });
    crd["status"] =
        json!({ "acceptedNames": { "plural": "", "kind": "" }, "storedVersions": [resource.version] });
    if !definition::check(&crd).is_empty() || !definition::non_structural(&crd).is_empty() {
        return false;
    }
    let root = json!({ "type": "object", "properties": { "spec": spec } });
    let mut object = json!({ "spec": values });
    let schema = CustomSchema::new(&root);
    let decoded = schema.decode(&mut object).is_ok();
    schema.default(&mut object);
    decoded && schema.check(&object).is_empty()
}

/// Object entries, or none.
fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

#[cfg(test)]
mod tests {
    use steersman_chart::File;

    use super::*;

    fn resource() -> Resource {
        Resource {
            group: "charts.example.com".into(),
            version: "v1alpha1".into(),
            kind: "Shop".into(),
            plural: "shops".into(),
            short_group: "charts".into(),
        }
    }

    fn schema(values: &str, json: Option<&str>) -> Value {
        let mut files = vec![
            File::new("Chart.yaml", "{apiVersion: v2, name: shop, version: 0.1.0}"),
            File::new("values.yaml", values),
        ];
        files.extend(json.map(|text| File::new("values.schema.json", text)));
        of_chart(&Chart::from_files(files).unwrap(), &resource())
    }

    #[test]
    fn types_defaults_and_comments_come_from_values() {
        let values = "\
# Number of replicas.
replicaCount: 2
image:
  # -- Where the image is.
  repository: nginx
  tag: \"\"
debug: false
ratio: 0.5
hosts: []
args: [a, b]
annotations: {}
port:
## @param maxUnavailable Pods that may be missing.
maxUnavailable: 1
";
        let spec = schema(values, None);
        let field = |name: &str| &spec["properties"][name];
        assert_eq!(
            *field("replicaCount"),
            json!({"type": "integer", "default": 2, "nullable": true, "description": "Number of replicas."})
        );
        let repository = &field("image")["properties"]["repository"];
        assert_eq!((&repository["type"], &repository["default"]), (&json!("string"), &json!("nginx")));
        assert_eq!(repository["description"], "Where the image is.");
        assert_eq!(field("image")["x-kubernetes-preserve-unknown-fields"], true);
        assert_eq!(field("debug")["type"], "boolean");
        assert_eq!(field("ratio")["type"], "number");
        assert_eq!(field("hosts")["items"], open());
        assert_eq!(field("args")["items"], json!({"type": "string"}));
        assert_eq!(field("annotations")["type"], "object");
        // Fields that may have another type are open.
        assert_eq!(field("port")["type"], Value::Null);
        assert_eq!(field("image")["properties"]["tag"]["type"], Value::Null);
        assert_eq!(field("maxUnavailable")["x-kubernetes-int-or-string"], true);
        assert_eq!(field("maxUnavailable")["description"], "Pods that may be missing.");
        assert_eq!(spec["x-kubernetes-preserve-unknown-fields"], true);
    }

    #[test]
    fn a_schema_of_the_chart_counts_more_than_values() {
        let json = r##"{
            "$defs": {"port": {"type": "integer", "minimum": 1, "exclusiveMaximum": 65536}},
            "type": "object", "required": ["name", "port"], "additionalProperties": false,
            "properties": {
                "port": {"$ref": "#/$defs/port", "description": "Where it listens."},
                "name": {"type": ["string", "null"], "minLength": 1, "pattern": "^(?!x).*$"},
                "level": {"enum": ["debug", "info"]},
                "either": {"type": ["integer", "string"]},
                "odd": {"oneOf": [{"type": "string"}, {"type": "object"}]},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "loop": {"$ref": "#/properties/loop"},
                "far": {"$ref": "https://example.com/schema.json"},
                "rules": {"type": "array", "items": {"properties": {"host": {"type": "string"}}, "required": ["host"]}},
                "tuple": {"type": "array", "items": [{"type": "string"}], "uniqueItems": true}
            }}"##;
        let spec = schema("port: 80\nlevel: info\n", Some(json));
        let field = |name: &str| &spec["properties"][name];
        assert_eq!(
            *field("port"),
            json!({"type": "integer", "minimum": 1, "maximum": 65536, "exclusiveMaximum": true, "default": 80,
                "nullable": true, "description": "Where it listens."})
        );
        assert_eq!(*field("name"), json!({"type": "string", "minLength": 1, "nullable": true}));
        assert_eq!(*field("level"), json!({"type": "string", "enum": ["debug", "info"], "default": "info"}));
        assert_eq!(field("either")["x-kubernetes-int-or-string"], true);
        for name in ["odd", "loop", "far"] {
            assert_eq!(*field(name), open(), "{name}");
        }
        assert_eq!(field("labels")["additionalProperties"], json!({"type": "string"}));
        assert_eq!(*field("tuple"), json!({"type": "array", "items": open()}));
        // The chart's own values complete objects; only where it has none are fields required.
        assert_eq!(spec["required"], Value::Null);
        assert_eq!(field("rules")["items"]["required"], json!(["host"]));
    }

    #[test]
    fn what_no_cluster_takes_is_opened() {
        // The chart's own value violates its own schema, as happens for values that users must provide.
        let json =
            r#"{"properties": {"replicas": {"type": "integer", "minimum": 1}, "name": {"type": "string"}}}"#;
        let spec = schema("replicas: 0\nname: a\n", Some(json));
        assert_eq!(spec["properties"]["replicas"], open());
        assert_eq!(spec["properties"]["name"]["type"], "string");
    }
}
