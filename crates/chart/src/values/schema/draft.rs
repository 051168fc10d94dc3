//! Drafts of JSON Schema: addresses, keywords that contain subschemas, and vocabularies.

use std::sync::Arc;

use super::node::{Node, Object};

/// A draft of the JSON Schema specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Draft {
    V4,
    V6,
    V7,
    V2019,
    V2020,
}

/// Draft of schemas without `$schema`.
pub(super) const LATEST: Draft = Draft::V2020;

/// How a keyword contains subschemas.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    One,
    Items,
    Members,
}

/// Keywords that contain subschemas, each with the first draft that has it.
const SUBSCHEMAS: &[(Draft, &str, Shape)] = &[
    (Draft::V4, "definitions", Shape::Members),
    (Draft::V4, "not", Shape::One),
    (Draft::V4, "allOf", Shape::Items),
    (Draft::V4, "anyOf", Shape::Items),
    (Draft::V4, "oneOf", Shape::Items),
    (Draft::V4, "properties", Shape::Members),
    (Draft::V4, "additionalProperties", Shape::One),
    (Draft::V4, "patternProperties", Shape::Members),
    (Draft::V4, "items", Shape::One),
    (Draft::V4, "items", Shape::Items),
    (Draft::V4, "additionalItems", Shape::One),
    (Draft::V4, "dependencies", Shape::Members),
    (Draft::V6, "propertyNames", Shape::One),
    (Draft::V6, "contains", Shape::One),
    (Draft::V7, "if", Shape::One),
    (Draft::V7, "then", Shape::One),
    (Draft::V7, "else", Shape::One),
    (Draft::V2019, "$defs", Shape::Members),
    (Draft::V2019, "dependentSchemas", Shape::Members),
    (Draft::V2019, "unevaluatedProperties", Shape::One),
    (Draft::V2019, "unevaluatedItems", Shape::One),
    (Draft::V2019, "contentSchema", Shape::One),
    (Draft::V2020, "prefixItems", Shape::Items),
];

impl Draft {
    pub(super) const ALL: [Self; 5] = [Self::V4, Self::V6, Self::V7, Self::V2019, Self::V2020];

    /// Returns the draft that a `$schema` names.
    pub(super) fn from_url(url: &str) -> Option<Self> {
        let (url, fragment) = url.split_once('#').unwrap_or((url, ""));
        let place = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")).unwrap_or(url);
        match place.strip_prefix("json-schema.org/").filter(|_| fragment.is_empty())? {
            "schema" => Some(LATEST),
            "draft-04/schema" => Some(Self::V4),
            "draft-06/schema" => Some(Self::V6),
            "draft-07/schema" => Some(Self::V7),
            "draft/2019-09/schema" => Some(Self::V2019),
            "draft/2020-12/schema" => Some(Self::V2020),
            _ => None,
        }
    }

    /// Returns the address of the draft's metaschema.
    pub(super) fn url(self) -> &'static str {
        match self {
            Self::V4 => "http://json-schema.org/draft-04/schema",
            Self::V6 => "http://json-schema.org/draft-06/schema",
            Self::V7 => "http://json-schema.org/draft-07/schema",
            Self::V2019 => "https://json-schema.org/draft/2019-09/schema",
            Self::V2020 => "https://json-schema.org/draft/2020-12/schema",
        }
    }

    pub(super) fn subschemas(self) -> impl Iterator<Item = (&'static str, Shape)> {
        let known = SUBSCHEMAS.iter().filter(move |(since, ..)| *since <= self);
        known.map(|(_, keyword, shape)| (*keyword, *shape))
    }

    /// Returns the keyword for a schema's address.
    pub(super) fn id_keyword(self) -> &'static str {
        if self == Self::V4 { "id" } else { "$id" }
    }

    /// Whether a `$ref` hides its siblings.
    pub(super) fn ref_hides_siblings(self) -> bool {
        self < Self::V2019
    }

    /// Returns the address that a schema declares, without its fragment.
    pub(super) fn id(self, schema: &Object) -> Option<&str> {
        if self.ref_hides_siblings() && schema.contains_key("$ref") {
            return None;
        }
        let id = schema.get(self.id_keyword())?.as_str()?;
        let (id, _) = id.split_once('#').unwrap_or((id, ""));
        (!id.is_empty()).then_some(id)
    }

    fn vocabulary_prefix(self) -> &'static str {
        match self {
            Self::V2019 => "https://json-schema.org/draft/2019-09/vocab/",
            _ => "https://json-schema.org/draft/2020-12/vocab/",
        }
    }

    pub(super) fn vocabularies(self) -> &'static [&'static str] {
        match self {
            Self::V2019 => &["core", "applicator", "validation", "meta-data", "format", "content"],
            Self::V2020 => &[
                "core",
                "applicator",
                "unevaluated",
                "validation",
                "meta-data",
                "format-annotation",
                "format-assertion",
                "content",
            ],
            _ => &[],
        }
    }

    /// Returns the vocabularies that a metaschema requires, `None` if it lists none.
    ///
    /// The error is the URL of an unknown vocabulary.
    pub(super) fn required_vocabularies(
        self,
        metaschema: &Node,
    ) -> Result<Option<Arc<[&'static str]>>, &str> {
        let listed = metaschema.as_object().and_then(|object| object.get("$vocabulary")?.as_object());
        let Some(listed) = listed.filter(|_| self >= Self::V2019) else { return Ok(None) };
        let mut required = Vec::new();
        for (url, _) in listed.iter().filter(|(_, required)| matches!(required, Node::Bool(true))) {
            let name = url.strip_prefix(self.vocabulary_prefix()).ok_or(url.as_str())?;
            let known = self.vocabularies().iter().find(|known| **known == name);
            required.push(*known.ok_or(url.as_str())?);
        }
        if !required.contains(&"core") {
            required.push("core");
        }
        Ok(Some(required.into()))
    }
}

/// A draft with the vocabularies in use; `None` for the draft's defaults.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Dialect {
    pub(super) draft: Draft,
    pub(super) vocabularies: Option<Arc<[&'static str]>>,
}

impl From<Draft> for Dialect {
    fn from(draft: Draft) -> Self {
        Self { draft, vocabularies: None }
    }
}

impl Dialect {
    pub(super) fn has(&self, vocabulary: &str) -> bool {
        if vocabulary == "core" || self.draft < Draft::V2019 {
            return true;
        }
        match &self.vocabularies {
            Some(vocabularies) => vocabularies.contains(&vocabulary),
            None => match vocabulary {
                "applicator" | "validation" => true,
                "unevaluated" => self.draft == Draft::V2020,
                _ => false,
            },
        }
    }

    /// Whether `format` is an assertion rather than an annotation.
    pub(super) fn asserts_format(&self) -> bool {
        match self.draft {
            Draft::V2019 => self.has("format"),
            Draft::V2020 => self.has("format-assertion"),
            _ => true,
        }
    }
}
