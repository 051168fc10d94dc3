//! The internal version of a definition: fields equal in all versions are moved to the top level.

use serde_json::Value;

use crate::go;
use crate::schema::{Schema, Shown};

/// A definition.
#[derive(Debug, Clone, Default)]
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) approval: Option<String>,
    pub(super) group: String,
    pub(super) scope: String,
    pub(super) names: Names,
    pub(super) versions: Vec<Version>,
    /// Fields that are equal in all versions.
    pub(super) common: Common,
    pub(super) conversion: Option<Conversion>,
    pub(super) preserve_unknown: bool,
    pub(super) accepted_names: Names,
    pub(super) stored_versions: Vec<String>,
    pub(super) is_established: bool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    pub(super) plural: String,
    pub(super) singular: String,
    pub(super) short_names: Vec<String>,
    pub(super) kind: String,
    pub(super) list_kind: String,
    pub(super) categories: Vec<String>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Version {
    pub(super) name: String,
    pub(super) served: bool,
    pub(super) storage: bool,
    pub(super) deprecated: bool,
    pub(super) deprecation_warning: Option<String>,
    pub(super) own: Common,
}

/// Fields of one version, or shared by all versions.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Common {
    /// `schema`, and `openAPIV3Schema` in it.
    pub(super) schema: Option<Option<Schema>>,
    pub(super) subresources: Option<Subresources>,
    pub(super) columns: Vec<Column>,
    pub(super) selectable: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Subresources {
    pub(super) status: bool,
    pub(super) scale: Option<Scale>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Scale {
    pub(super) spec_replicas: String,
    pub(super) status_replicas: String,
    pub(super) label_selector: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) format: String,
    pub(super) description: String,
    pub(super) priority: i64,
    pub(super) json_path: String,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Conversion {
    pub(super) strategy: String,
    pub(super) client: Option<Client>,
    pub(super) review_versions: Vec<String>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Client {
    pub(super) url: Option<String>,
    pub(super) service: Option<Value>,
}

fn text(value: &Value, key: &str) -> String {
    optional_text(value, key).unwrap_or_default()
}

fn optional_text(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or_default()
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn texts(value: &Value, key: &str) -> Vec<String> {
    list(value, key).iter().map(|v| v.as_str().unwrap_or_default().to_owned()).collect()
}

impl Definition {
    pub(super) fn parse(value: &Value) -> Self {
        let (spec, status) = (&value["spec"], &value["status"]);
        let metadata = &value["metadata"];
        let mut definition = Self {
            name: text(metadata, "name"),
            approval: metadata
                .get("annotations")
                .and_then(|a| optional_text(a, "api-approved.kubernetes.io")),
            group: text(spec, "group"),
            scope: text(spec, "scope"),
            names: Names::parse(&spec["names"]),
            versions: list(spec, "versions").iter().map(Version::parse).collect(),
            common: Common::default(),
            conversion: spec.get("conversion").filter(|c| c.is_object()).map(Conversion::parse),
            preserve_unknown: flag(spec, "preserveUnknownFields"),
            accepted_names: Names::parse(&status["acceptedNames"]),
            stored_versions: texts(status, "storedVersions"),
            is_established: list(status, "conditions")
                .iter()
                .any(|c| c["type"] == "Established" && c["status"] == "True"),
        };
        definition.hoist();
        definition
    }

    /// Moves fields that are equal in all versions to `common`.
    fn hoist(&mut self) {
        let Some(first) = self.versions.first().map(|v| v.own.clone()) else { return };
        macro_rules! hoist {
            ($($field:ident),*) => {$(
                if self.versions.iter().all(|v| v.own.$field == first.$field) {
                    self.versions.iter_mut().for_each(|v| v.own.$field = Default::default());
                    self.common.$field = first.$field;
                }
            )*};
        }
        hoist!(schema, subresources, columns, selectable);
    }

    /// Returns the schema of a version: its own or the common one.
    pub(super) fn schema<'a>(&'a self, version: &'a Version) -> Option<&'a Schema> {
        let own = version.own.schema.as_ref().and_then(Option::as_ref);
        own.or_else(|| self.common_schema())
    }

    pub(super) fn common_schema(&self) -> Option<&Schema> {
        self.common.schema.as_ref().and_then(Option::as_ref)
    }

    /// Iterates over all schemas.
    pub(super) fn schemas(&self) -> impl Iterator<Item = &Schema> {
        let own = self.versions.iter().filter_map(|v| v.own.schema.as_ref().and_then(Option::as_ref));
        self.common_schema().into_iter().chain(own)
    }

    /// Formats the versions as error messages show them.
    pub(super) fn shown_versions(&self) -> String {
        let mut out = String::new();
        let mut shown = Shown(&mut out);
        shown.raw("[");
        for (i, version) in self.versions.iter().enumerate() {
            if i > 0 {
                shown.raw(",");
            }
            version.show(&mut shown);
        }
        shown.raw("]");
        out
    }
}

impl Names {
    fn parse(value: &Value) -> Self {
        Self {
            plural: text(value, "plural"),
            singular: text(value, "singular"),
            short_names: texts(value, "shortNames"),
            kind: text(value, "kind"),
            list_kind: text(value, "listKind"),
            categories: texts(value, "categories"),
        }
    }
}

impl Version {
    fn parse(value: &Value) -> Self {
        let schema = value
            .get("schema")
            .filter(|s| s.is_object())
            .map(|validation| validation.get("openAPIV3Schema").filter(|s| s.is_object()).map(Schema::parse));
        let subresources = value.get("subresources").filter(|s| s.is_object()).map(|s| Subresources {
            status: s.get("status").is_some_and(Value::is_object),
            scale: s.get("scale").filter(|s| s.is_object()).map(|scale| Scale {
                spec_replicas: text(scale, "specReplicasPath"),
                status_replicas: text(scale, "statusReplicasPath"),
                label_selector: optional_text(scale, "labelSelectorPath"),
            }),
        });
        let column = |column: &Value| Column {
            name: text(column, "name"),
            kind: text(column, "type"),
            format: text(column, "format"),
            description: text(column, "description"),
            priority: column.get("priority").and_then(Value::as_i64).unwrap_or_default(),
            json_path: text(column, "jsonPath"),
        };
        Self {
            name: text(value, "name"),
            served: flag(value, "served"),
            storage: flag(value, "storage"),
            deprecated: flag(value, "deprecated"),
            deprecation_warning: optional_text(value, "deprecationWarning"),
            own: Common {
                schema,
                subresources,
                columns: list(value, "additionalPrinterColumns").iter().map(column).collect(),
                selectable: list(value, "selectableFields").iter().map(|f| text(f, "jsonPath")).collect(),
            },
        }
    }

    fn show(&self, out: &mut Shown<'_>) {
        out.raw("{");
        out.text("Name", &self.name);
        out.flag("Served", self.served);
        out.flag("Storage", self.storage);
        out.flag("Deprecated", self.deprecated);
        out.optional_text("DeprecationWarning", self.deprecation_warning.as_deref());
        match &self.own.schema {
            Some(schema) => {
                out.field("Schema");
                out.raw("{");
                out.optional_schema("OpenAPIV3Schema", schema.as_ref());
                out.raw("}");
            }
            None => out.null("Schema"),
        }
        match &self.own.subresources {
            Some(subresources) => {
                out.field("Subresources");
                subresources.show(out);
            }
            None => out.null("Subresources"),
        }
        out.list("AdditionalPrinterColumns", &self.own.columns, |out, column| column.show(out));
        out.list("SelectableFields", &self.own.selectable, |out, path| {
            out.raw("{");
            out.text("JSONPath", path);
            out.raw("}");
        });
        out.raw("}");
    }
}

impl Subresources {
    fn show(&self, out: &mut Shown<'_>) {
        out.raw("{");
        out.field("Status");
        out.raw(if self.status { "{}" } else { "null" });
        match &self.scale {
            Some(scale) => {
                out.field("Scale");
                out.raw("{");
                out.text("SpecReplicasPath", &scale.spec_replicas);
                out.text("StatusReplicasPath", &scale.status_replicas);
                out.optional_text("LabelSelectorPath", scale.label_selector.as_deref());
                out.raw("}");
            }
            None => out.null("Scale"),
        }
        out.raw("}");
    }
}

impl Column {
    fn show(&self, out: &mut Shown<'_>) {
        out.raw("{");
        out.text("Name", &self.name);
        out.text("Type", &self.kind);
        out.text("Format", &self.format);
        out.text("Description", &self.description);
        out.integer("Priority", Some(self.priority));
        out.text("JSONPath", &self.json_path);
        out.raw("}");
    }
}

impl Conversion {
    fn parse(value: &Value) -> Self {
        let webhook = &value["webhook"];
        let client = webhook.get("clientConfig").filter(|c| c.is_object()).map(|client| Client {
            url: optional_text(client, "url"),
            service: client.get("service").filter(|s| s.is_object()).cloned(),
        });
        Self {
            strategy: text(value, "strategy"),
            client,
            review_versions: texts(webhook, "conversionReviewVersions"),
        }
    }
}

/// Formats a list of strings as error messages show it: null if empty.
pub(super) fn shown_texts(list: &[String]) -> String {
    if list.is_empty() { "null".to_owned() } else { go::json(&serde_json::json!(list)) }
}
