//! Merge types of objects: what is atomic, what is merged item by item, and by which keys.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use serde_json::{Map, Value};

/// A type in a [`Types`] table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TypeId(u32);

/// The scalars that a type accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Numeric,
    String,
    Boolean,
    Untyped,
}

/// A list type.
#[derive(Clone, Debug)]
pub(crate) struct ListType {
    pub(crate) elem: TypeId,
    pub(crate) merge: ListMerge,
}

/// How the items of a list are identified.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ListMerge {
    /// The list is atomic.
    Atomic,
    /// Items are scalars, each identified by its value.
    Set,
    /// Items are maps identified by these fields.
    Map(Vec<String>),
}

/// A map or struct type.
#[derive(Clone, Debug)]
pub(crate) struct MapType {
    /// Looked up for every field of every object written, hence the fast hash.
    pub(crate) fields: HashMap<String, Field, RandomState>,
    /// The type of undeclared fields; without it, none are allowed.
    pub(crate) elem: Option<TypeId>,
    /// The map is atomic.
    pub(crate) atomic: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) ty: TypeId,
    pub(crate) default: Option<Value>,
}

impl MapType {
    /// Returns the type of a field, declared or not.
    pub(crate) fn field_type(&self, name: &str) -> Option<TypeId> {
        self.fields.get(name).map(|f| f.ty).or(self.elem)
    }
}

/// The forms that values of a type may take. Most types allow one of the three.
#[derive(Clone, Debug, Default)]
pub(crate) struct Atom {
    pub(crate) scalar: Option<Scalar>,
    pub(crate) list: Option<ListType>,
    pub(crate) map: Option<MapType>,
}

/// A table of merge types, built from OpenAPI or structural schemas.
#[derive(Clone, Debug)]
pub struct Types {
    atoms: Vec<Atom>,
    by_name: HashMap<String, TypeId, RandomState>,
}

/// Any value, atomic.
const ATOMIC: TypeId = TypeId(0);
/// Any value; maps are merged field by field.
const DEDUCED: TypeId = TypeId(1);
/// The target of a `$ref` that no schema defines: no value matches this type.
const MISSING: TypeId = TypeId(2);

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

impl Types {
    /// Builds types from OpenAPI component schemas, by name. `$ref`s among them are followed.
    pub fn from_components(schemas: &Map<String, Value>) -> Self {
        let mut types = Self::with_common_types();
        // Register all names first, so that schemas may refer to each other and to themselves.
        for name in schemas.keys() {
            let id = types.push(Atom::default());
            types.by_name.insert(name.clone(), id);
        }
        for (name, schema) in schemas {
            let atom = match name.as_str() {
                QUANTITY => Atom { scalar: Some(Scalar::Untyped), ..Atom::default() },
                RAW_EXTENSION => types.atom(ATOMIC).clone(),
                _ => types.parse(schema, false),
            };
            if let Some(&TypeId(index)) = types.by_name.get(name) {
                types.atoms[index as usize] = atom;
            }
        }
        types.fill_overrides();
        types
    }

    /// Builds the types of a custom resource from its structural schema.
    ///
    /// The type of `metadata` is taken from the component schemas of the built-in kinds, if given.
    pub fn from_structural(schema: &Value, metadata: Option<&Map<String, Value>>) -> (Self, TypeId) {
        let mut types = metadata.map_or_else(Self::with_common_types, Self::from_components);
        let mut schema = schema.clone();
        if let Some(root) = schema.as_object_mut() {
            let properties = root.entry("properties").or_insert_with(|| Value::Object(Map::new()));
            if let Some(properties) = properties.as_object_mut() {
                let string = serde_json::json!({"type": "string"});
                properties.insert("apiVersion".into(), string.clone());
                properties.insert("kind".into(), string);
                let object_meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
                if types.by_name.contains_key(object_meta) {
                    let reference = format!("#/components/schemas/{object_meta}");
                    properties.insert("metadata".into(), serde_json::json!({"$ref": reference}));
                }
            }
        }
        let preserve = preserves_unknown(&schema);
        let atom = types.parse(&schema, preserve);
        let id = types.push(atom);
        types.fill_overrides();
        (types, id)
    }

    /// Returns types for schemaless objects: maps are merged field by field, everything else is atomic.
    pub fn deduced() -> (Self, TypeId) {
        (Self::with_common_types(), DEDUCED)
    }

    /// Returns the type with this name.
    pub fn named(&self, name: &str) -> Option<TypeId> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn atom(&self, id: TypeId) -> &Atom {
        &self.atoms[id.0 as usize]
    }

    /// Whether the map is schemaless: no declared fields, and every field of the deduced type.
    pub(crate) fn is_deduced_map(map: &MapType) -> bool {
        map.fields.is_empty() && map.elem == Some(DEDUCED)
    }

    pub(crate) fn is_missing(id: TypeId) -> bool {
        id == MISSING
    }

    fn with_common_types() -> Self {
        let untyped = |elem, atomic| Atom {
            scalar: Some(Scalar::Untyped),
            list: Some(ListType { elem: ATOMIC, merge: ListMerge::Atomic }),
            map: Some(MapType { fields: HashMap::default(), elem: Some(elem), atomic }),
        };
        let atoms = vec![untyped(ATOMIC, true), untyped(DEDUCED, false), Atom::default()];
        Self { atoms, by_name: HashMap::default() }
    }

    fn push(&mut self, atom: Atom) -> TypeId {
        // A request cannot hold more than four billion types.
        let id = TypeId(u32::try_from(self.atoms.len()).unwrap_or(MISSING.0));
        self.atoms.push(atom);
        id
    }

    /// Returns the type of a schema used in `properties`, `items` or `additionalProperties`.
    fn reference(&mut self, schema: &Value, preserve: bool) -> TypeId {
        let target = schema.get("$ref").or_else(|| match schema.get("allOf")?.as_array()?.as_slice() {
            [single] => single.get("$ref"),
            _ => None,
        });
        let Some(target) = target.and_then(Value::as_str) else {
            let atom = self.parse(schema, preserve);
            return self.push(atom);
        };
        let name = target.rsplit('/').next().unwrap_or(target);
        let Some(id) = self.named(name) else { return MISSING };
        let Some(map_type) = schema.get("x-kubernetes-map-type").and_then(Value::as_str) else { return id };
        // A field can make the type that it refers to atomic or granular. That type may not be parsed yet, so
        // register a copy, which `fill_overrides` completes.
        self.overridden(name, map_type == "atomic")
    }

    fn overridden(&mut self, name: &str, atomic: bool) -> TypeId {
        let key = format!("{name}?atomic={atomic}");
        if let Some(id) = self.named(&key) {
            return id;
        }
        let id = self.push(Atom::default());
        self.by_name.insert(key, id);
        id
    }

    fn parse(&mut self, schema: &Value, preserve: bool) -> Atom {
        let preserve = preserve || preserves_unknown(schema);
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => Atom { map: Some(self.parse_map(schema, preserve)), ..Atom::default() },
            Some("array") => Atom { list: Some(self.parse_list(schema, preserve)), ..Atom::default() },
            Some("integer" | "number") => Atom { scalar: Some(Scalar::Numeric), ..Atom::default() },
            Some("boolean") => Atom { scalar: Some(Scalar::Boolean), ..Atom::default() },
            Some("string") => {
                let plain = matches!(schema.get("format").and_then(Value::as_str), None | Some("" | "byte"));
                let scalar = if plain { Scalar::String } else { Scalar::Untyped };
                Atom { scalar: Some(scalar), ..Atom::default() }
            }
            None | Some("") => Atom {
                scalar: Some(Scalar::Untyped),
                list: Some(self.parse_list(schema, preserve)),
                map: Some(self.parse_map(schema, preserve)),
            },
            Some(_) => Atom { scalar: Some(Scalar::Untyped), ..Atom::default() },
        }
    }

    fn parse_map(&mut self, schema: &Value, preserve: bool) -> MapType {
        let mut fields = HashMap::default();
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let ty = self.reference(property, preserve);
            fields.insert(name.clone(), Field { ty, default: property.get("default").cloned() });
        }
        let elem = match schema.get("additionalProperties") {
            None if preserve || fields.is_empty() => Some(DEDUCED),
            None | Some(Value::Bool(false)) => None,
            Some(Value::Bool(true)) => Some(DEDUCED),
            Some(additional) => Some(self.reference(additional, preserve)),
        };
        let atomic = schema.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic");
        MapType { fields, elem, atomic }
    }

    fn parse_list(&mut self, schema: &Value, preserve: bool) -> ListType {
        let elem = match schema.get("items") {
            Some(items) => self.reference(items, preserve),
            None => ATOMIC,
        };
        ListType { elem, merge: list_merge(schema) }
    }

    /// Completes the copies with overridden atomicity, once the types that they refer to are parsed.
    fn fill_overrides(&mut self) {
        let overrides: Vec<(String, TypeId)> =
            self.by_name.iter().filter(|(k, _)| k.contains('?')).map(|(k, &id)| (k.clone(), id)).collect();
        for (key, TypeId(index)) in overrides {
            let Some((name, flag)) = key.split_once('?') else { continue };
            let Some(base) = self.named(name) else { continue };
            let mut atom = self.atom(base).clone();
            if let Some(map) = &mut atom.map {
                map.atomic = flag == "atomic=true";
            }
            self.atoms[index as usize] = atom;
        }
    }
}

fn preserves_unknown(schema: &Value) -> bool {
    schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
}

fn list_merge(schema: &Value) -> ListMerge {
    let text = |key: &str| schema.get(key).and_then(Value::as_str);
    match text("x-kubernetes-list-type") {
        Some("set") => ListMerge::Set,
        Some("map") => {
            let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            let keys = keys.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
            ListMerge::Map(keys)
        }
        Some(_) => ListMerge::Atomic,
        None => match text("x-kubernetes-patch-strategy") {
            Some("merge" | "merge,retainKeys") => match text("x-kubernetes-patch-merge-key") {
                Some(key) => ListMerge::Map(vec![key.to_owned()]),
                None => ListMerge::Set,
            },
            _ => ListMerge::Atomic,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deduced_map_has_no_fields_and_deduced_values() {
        let field = || HashMap::from_iter([("a".to_owned(), Field { ty: DEDUCED, default: None })]);
        let map = |fields, elem| MapType { fields, elem, atomic: false };
        assert!(Types::is_deduced_map(&map(HashMap::default(), Some(DEDUCED))));
        assert!(!Types::is_deduced_map(&map(HashMap::default(), Some(ATOMIC))));
        assert!(!Types::is_deduced_map(&map(field(), Some(DEDUCED))));
    }
}
