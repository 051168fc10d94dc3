//! Compiled schemas: keywords decoded, and references to other schemas as indexes.

use std::collections::BTreeMap;

use regex::Regex;

use super::draft::Draft;
use super::format::Format;
use super::node::{Node, Number};
use super::resource::PlaceId;
use super::words::quote;

/// The index of a compiled schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SchemaId(pub(super) usize);

/// A compiled schema.
#[derive(Clone, Debug)]
pub(super) struct Subschema {
    pub(super) draft: Draft,
    pub(super) place: Option<PlaceId>,
    /// Schema at the root of the resource.
    pub(super) resource: SchemaId,
    /// Fixed result for every value: for the schemas `true`, `false` and `{}`.
    pub(super) always: Option<bool>,
    pub(super) evaluates: Evaluates,
    pub(super) reference: Option<SchemaId>,
    pub(super) recursive_ref: Option<SchemaId>,
    pub(super) recursive_anchor: bool,
    pub(super) dynamic_ref: Option<(SchemaId, String)>,
    pub(super) dynamic_anchor: Option<String>,
    /// Dynamic anchors of the resource; only set at its root.
    pub(super) dynamic_anchors: BTreeMap<String, SchemaId>,
    pub(super) types: Types,
    pub(super) constant: Option<Node>,
    pub(super) enumeration: Option<Vec<Node>>,
    pub(super) format: Option<&'static Format>,
    pub(super) conditions: Conditions,
    pub(super) object: Option<Box<ObjectRules>>,
    pub(super) array: Option<Box<ArrayRules>>,
    pub(super) string: Option<Box<StringRules>>,
    pub(super) number: Option<Box<NumberRules>>,
    pub(super) unevaluated_properties: Option<SchemaId>,
    pub(super) unevaluated_items: Option<SchemaId>,
}

impl Subschema {
    /// Creates a schema that accepts every value.
    pub(super) fn new(draft: Draft, place: Option<PlaceId>, resource: SchemaId) -> Self {
        Self {
            draft,
            place,
            resource,
            always: None,
            evaluates: Evaluates::default(),
            reference: None,
            recursive_ref: None,
            recursive_anchor: false,
            dynamic_ref: None,
            dynamic_anchor: None,
            dynamic_anchors: BTreeMap::new(),
            types: Types::default(),
            constant: None,
            enumeration: None,
            format: None,
            conditions: Conditions::default(),
            object: None,
            array: None,
            string: None,
            number: None,
            unevaluated_properties: None,
            unevaluated_items: None,
        }
    }
}

/// What a schema's own keywords evaluate in every object or array.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evaluates {
    pub(super) all_properties: bool,
    pub(super) all_items: bool,
    pub(super) first_items: usize,
}

/// Keywords that apply other schemas to the same value.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    pub(super) not: Option<SchemaId>,
    pub(super) all_of: Vec<SchemaId>,
    pub(super) any_of: Vec<SchemaId>,
    pub(super) one_of: Vec<SchemaId>,
    pub(super) condition: Option<SchemaId>,
    pub(super) then: Option<SchemaId>,
    pub(super) otherwise: Option<SchemaId>,
}

/// Keywords for objects.
#[derive(Clone, Debug, Default)]
pub(super) struct ObjectRules {
    pub(super) min_properties: Option<i64>,
    pub(super) max_properties: Option<i64>,
    pub(super) required: Vec<String>,
    pub(super) dependencies: Vec<(String, Dependency)>,
    pub(super) properties: BTreeMap<String, SchemaId>,
    pub(super) pattern_properties: Vec<(Regex, SchemaId)>,
    pub(super) additional_properties: Option<Additional>,
    pub(super) property_names: Option<SchemaId>,
    pub(super) dependent_schemas: Vec<(String, SchemaId)>,
    pub(super) dependent_required: Vec<(String, Vec<String>)>,
}

/// What the presence of a property requires.
#[derive(Clone, Debug)]
pub(super) enum Dependency {
    Required(Vec<String>),
    Schema(SchemaId),
}

/// Rule for properties or items that no other keyword names.
#[derive(Clone, Copy, Debug)]
pub(super) enum Additional {
    Allowed(bool),
    Schema(SchemaId),
}

/// Keywords for arrays.
#[derive(Clone, Debug, Default)]
pub(super) struct ArrayRules {
    pub(super) min_items: Option<i64>,
    pub(super) max_items: Option<i64>,
    pub(super) unique_items: bool,
    /// Schemas of the first items: `prefixItems`, or `items` as an array.
    pub(super) prefix: Vec<SchemaId>,
    /// Rule for the items after those: `items` or `additionalItems`.
    pub(super) rest: Option<Additional>,
    pub(super) contains: Option<SchemaId>,
    pub(super) min_contains: Option<i64>,
    pub(super) max_contains: Option<i64>,
}

/// Keywords for strings.
#[derive(Clone, Debug, Default)]
pub(super) struct StringRules {
    pub(super) min_length: Option<i64>,
    pub(super) max_length: Option<i64>,
    pub(super) pattern: Option<Pattern>,
}

/// A regular expression with its source.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    pub(super) regex: Regex,
    text: Box<str>,
}

impl Pattern {
    pub(super) fn new(regex: Regex, text: &str) -> Self {
        Self { regex, text: text.into() }
    }

    pub(super) fn quoted(&self) -> String {
        quote(&self.text)
    }
}

/// Keywords for numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct NumberRules {
    pub(super) minimum: Option<Number>,
    pub(super) maximum: Option<Number>,
    pub(super) exclusive_minimum: Option<Number>,
    pub(super) exclusive_maximum: Option<Number>,
    pub(super) multiple_of: Option<Number>,
}

/// A set of JSON types; empty if the schema does not restrict them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Types(u8);

/// Type names in the order in which errors list them.
const TYPES: [&str; 7] = ["null", "boolean", "number", "integer", "string", "array", "object"];

impl Types {
    pub(super) fn decode(value: &Node) -> Self {
        match value {
            Node::String(name) => Self::of(name),
            Node::Array(names) => {
                Self(names.iter().filter_map(Node::as_str).fold(0, |types, name| types | Self::of(name).0))
            }
            _ => Self::default(),
        }
    }

    fn of(name: &str) -> Self {
        TYPES.iter().position(|known| *known == name).map_or_else(Self::default, |at| Self(1 << at))
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn allow(self, value: &Node) -> bool {
        let contains = |name: &str| self.0 & Self::of(name).0 != 0;
        contains(type_name(value))
            || matches!(value, Node::Number(number) if contains("integer") && number.is_integer())
    }

    pub(super) fn names(self) -> Vec<&'static str> {
        let chosen = TYPES.into_iter().enumerate().filter(|(at, _)| self.0 & (1 << at) != 0);
        chosen.map(|(_, name)| name).collect()
    }
}

/// Returns the JSON type of a value.
pub(super) fn type_name(value: &Node) -> &'static str {
    match value {
        Node::Null => "null",
        Node::Bool(_) => "boolean",
        Node::Number(_) => "number",
        Node::String(_) => "string",
        Node::Array(_) => "array",
        Node::Object(_) => "object",
    }
}
