//! The OpenAPI schemas of the built-in kinds, and plausible values for them.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use thiserror::Error;

use super::random::Random;

/// The reason why the schemas cannot be used.
#[derive(Debug, Error)]
pub enum SchemaError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// The file is not a map of schemas.
    #[error("{path}: {source}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The parse error.
        source: serde_json::Error,
    },
}

/// Component schemas by name.
pub struct Schemas(Map<String, Value>);

/// The maximum depth of a generated value.
const DEPTH: usize = 5;

impl Schemas {
    /// Loads the schemas.
    ///
    /// # Errors
    /// If the file is missing or invalid.
    pub fn load(path: &Path) -> Result<Self, SchemaError> {
        let text =
            std::fs::read(path).map_err(|source| SchemaError::Read { path: path.to_owned(), source })?;
        serde_json::from_slice(&text)
            .map(Self)
            .map_err(|source| SchemaError::Malformed { path: path.to_owned(), source })
    }

    /// Returns the schema of a kind.
    pub(crate) fn of_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Value> {
        self.0.values().find(|schema| {
            schema.get("x-kubernetes-group-version-kind").and_then(Value::as_array).into_iter().flatten().any(
                |gvk| {
                    gvk.get("group") == Some(&json!(group))
                        && gvk.get("version") == Some(&json!(version))
                        && gvk.get("kind") == Some(&json!(kind))
                },
            )
        })
    }

    /// Follows references until there are none.
    pub(crate) fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let mut schema = schema;
        for _ in 0..8 {
            let target =
                schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref")).and_then(Value::as_str);
            match target.and_then(|target| self.0.get(target.rsplit('/').next().unwrap_or(target))) {
                Some(found) => schema = found,
                None => break,
            }
        }
        schema
    }

    /// Whether a reference targets a schema with a name that ends in `name`.
    fn refers(schema: &Value, name: &str) -> bool {
        let target = schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref")).and_then(Value::as_str);
        target.is_some_and(|target| target.ends_with(name))
    }

    /// Generates a value that mostly matches the schema of a field.
    pub(crate) fn value(&self, schema: &Value, field: &str, random: &mut Random, depth: usize) -> Value {
        if Self::refers(schema, ".Quantity") {
            return random.text(&[
                "100m", "1", "1.5", "1Gi", "128Mi", "2e3", "0", "500m", "0.1", "10Ki", "1536Mi", "x",
            ]);
        }
        if Self::refers(schema, ".Time") {
            return random.text(&[
                "2001-02-03T04:05:06Z",
                "2001-02-03T04:05:06+02:00",
                "2001-02-03T04:05:06.5Z",
                "soon",
            ]);
        }
        if Self::refers(schema, ".MicroTime") {
            return random.text(&[
                "2001-02-03T04:05:06.000000Z",
                "2001-02-03T04:05:06Z",
                "2001-02-03T04:05:06.1234567Z",
            ]);
        }
        let schema = self.resolve(schema);
        if schema.get("format") == Some(&json!("int-or-string")) {
            return if random.percent(50) {
                json!(random.between(0, 100))
            } else {
                random.text(&["25%", "http", "100%", "x%", "80"])
            };
        }
        if let Some(words) = schema.get("enum").and_then(Value::as_array)
            && !random.percent(6)
        {
            return random.pick(words).clone();
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("integer") => integer(random),
            Some("number") => json!(random.between(0, 100) as f64 / 4.0),
            Some("boolean") => json!(random.percent(50)),
            Some("array") => {
                let items = schema.get("items").unwrap_or(&Value::Null);
                let count = random.below(3);
                Value::Array((0..count).map(|_| self.value(items, field, random, depth + 1)).collect())
            }
            Some("object") if schema.get("properties").is_some() => self.object(schema, random, depth),
            Some("object") => {
                let values = schema.get("additionalProperties").unwrap_or(&Value::Null);
                let mut map = Map::new();
                for _ in 0..random.below(3) {
                    map.insert(random.word().to_owned(), self.value(values, field, random, depth + 1));
                }
                Value::Object(map)
            }
            Some("string") if schema.get("format") == Some(&json!("byte")) => {
                random.text(&["aGk=", "", "aGVsbG8=", "%"])
            }
            Some("string") => string(field, random),
            _ => random.text(&["x"]),
        }
    }

    fn object(&self, schema: &Value, random: &mut Random, depth: usize) -> Value {
        let required = schema.get("required").and_then(Value::as_array);
        let mut map = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        let chance = if depth >= DEPTH { 0 } else { 22 };
        for (name, property) in properties.into_iter().flatten() {
            let needed = required.is_some_and(|required| required.iter().any(|entry| entry == name));
            if (needed && depth < DEPTH + 3) || random.percent(chance) {
                map.insert(name.clone(), self.value(property, name, random, depth + 1));
            }
        }
        Value::Object(map)
    }

    /// Sets a random field of an object to a value of its type, or removes one.
    pub(crate) fn mutate(&self, object: &mut Value, schema: &Value, random: &mut Random) {
        let mut at = object;
        let mut schema = self.resolve(schema);
        for depth in 0..8 {
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
            let names: Vec<&String> = properties.keys().filter(|name| !skipped(name, depth)).collect();
            if names.is_empty() {
                return;
            }
            // Prefers existing fields when descending, over new ones.
            let present: Vec<&String> =
                names.iter().copied().filter(|name| at.get(name.as_str()).is_some()).collect();
            let name = if !present.is_empty() && random.percent(70) {
                *random.pick(&present)
            } else {
                *random.pick(&names)
            };
            let Some(property) = properties.get(name) else { return };
            let Some(fields) = at.as_object_mut() else { return };
            let inner = self.resolve(property);
            let items = inner.get("items").map(|items| self.resolve(items));
            let goes_on = random.percent(80);
            if goes_on && fields.get(name).is_some_and(Value::is_object) && inner.get("properties").is_some()
            {
                let Some(next) = fields.get_mut(name) else { return };
                (at, schema) = (next, inner);
                continue;
            }
            if goes_on
                && let Some(items) = items.filter(|items| items.get("properties").is_some())
                && fields.get(name).and_then(Value::as_array).is_some_and(|list| !list.is_empty())
            {
                let Some(list) = fields.get_mut(name).and_then(Value::as_array_mut) else { return };
                let index = random.below(list.len());
                (at, schema) = (&mut list[index], items);
                continue;
            }
            // A whole new branch near the root would be rejected for its many errors.
            if depth == 0 && inner.get("properties").is_some() && fields.contains_key(name) {
                let Some(next) = fields.get_mut(name) else { return };
                (at, schema) = (next, inner);
                continue;
            }
            match random.below(10) {
                0 => drop(fields.remove(name)),
                1 => drop(fields.insert(name.clone(), odd(random))),
                _ => drop(fields.insert(name.clone(), self.value(property, name, random, 3))),
            }
            return;
        }
    }
}

/// Whether random changes of a field tell nothing.
fn skipped(name: &str, depth: usize) -> bool {
    matches!(
        name,
        "apiVersion"
            | "kind"
            | "managedFields"
            | "uid"
            | "selfLink"
            | "creationTimestamp"
            | "resourceVersion"
            | "deletionTimestamp"
            | "generateName"
    ) || (depth == 0 && name == "status")
        || (name == "namespace" || name == "name") && depth == 1
}

fn integer(random: &mut Random) -> Value {
    match random.below(12) {
        0 => json!(-1),
        1 => json!(0),
        2 => json!(70_000),
        3 => json!(i64::from(i32::MAX) + 1),
        _ => json!(random.between(1, 100)),
    }
}

/// Generates a value of a type that hardly any field has.
fn odd(random: &mut Random) -> Value {
    random
        .pick(&[
            json!(null),
            json!(1.5),
            json!("x"),
            json!(true),
            json!([]),
            json!({}),
            json!([1]),
            json!({"a": 1}),
        ])
        .clone()
}

fn string(field: &str, random: &mut Random) -> Value {
    if random.percent(7) {
        return random.text(&["", "UPPER", "a b", "a_b", "-x", "ä", "x/y/z"]);
    }
    let lower = field.to_ascii_lowercase();
    if lower.contains("image") {
        random.text(&[
            "nginx",
            "nginx:1.2",
            "nginx:latest",
            "r.example.com:5000/a/b@sha256:0000000000000000000000000000000000000000000000000000000000000000",
        ])
    } else if lower.contains("path") || lower.contains("dir") {
        random.text(&["/", "/data", "data", "/a/../b", "a/b"])
    } else if lower.ends_with("ip") || lower.ends_with("ips") || lower.contains("address") {
        random.text(&["10.1.2.3", "192.168.0.1", "::1", "1.2.3", "fd00::1"])
    } else if lower.contains("cidr") {
        random.text(&["10.0.0.0/8", "10.0.0.1/8", "fd00::/64", "x"])
    } else if lower.contains("host") || lower.contains("domain") {
        random.text(&["a.example.com", "*.example.com", "web", "A.b"])
    } else if lower.contains("schedule") {
        random.text(&["* * * * *", "@daily", "*/5 0 * * 1-5", "nonsense"])
    } else if lower.contains("key") {
        random.text(&["app", "example.com/role", "tier", "app.kubernetes.io/name"])
    } else {
        Value::from(random.word())
    }
}
