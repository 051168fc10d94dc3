//! The [`Strategy`] of built-in kinds.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, LazyLock, OnceLock},
};

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::{
    allocator::Allocators,
    fields::FieldError,
    group_version::split_api_version,
    names::NameRule,
    object,
    schema::{self, Schema},
    status::ApiResult,
    strategy::{Hook, Strategy},
    table::{Cell, Column, age},
};
use steersman_patch::{
    StrategicError,
    apply::{TypeId, Types},
    strategic_merge_patch, strategic_remains,
};

use crate::kind::{Change, Kind};

/// The strategy of a built-in resource.
pub(crate) struct Builtin {
    group: String,
    name: String,
    kind: &'static Kind,
    versions: OnceLock<Vec<TypedVersion>>,
}

impl Builtin {
    /// Creates the strategy of the kind called `name` in a group.
    pub(crate) fn new(group: &str, name: &str, kind: &'static Kind) -> Self {
        Self { group: group.to_owned(), name: name.to_owned(), kind, versions: OnceLock::new() }
    }

    fn version(&self, version: &str) -> Option<&TypedVersion> {
        let versions = self.versions.get_or_init(|| versions(&self.group, &self.name));
        versions.iter().find(|v| v.version == version)
    }
}

/// Schema of a kind in one version.
struct TypedVersion {
    version: String,
    /// OpenAPI name of the type.
    definition: &'static str,
    schema: Arc<Schema>,
}

/// Returns the versions of a kind in the OpenAPI definitions.
fn versions(group: &str, kind: &str) -> Vec<TypedVersion> {
    type Index = HashMap<(&'static str, &'static str), Vec<(&'static str, &'static str)>>;
    static INDEX: LazyLock<Index> = LazyLock::new(|| {
        let mut index = Index::new();
        for (name, schema) in schema::definitions() {
            for gvk in schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
                let text = |key: &str| gvk[key].as_str().unwrap_or_default();
                index.entry((text("group"), text("kind"))).or_default().push((text("version"), name));
            }
        }
        index
    });
    let found = INDEX.get(&(group, kind)).into_iter().flatten();
    found
        .filter_map(|(version, definition)| {
            let schema = schema::definition(definition)?;
            Some(TypedVersion { version: (*version).to_owned(), definition, schema })
        })
        .collect()
}

/// Types of all built-in kinds for server-side apply.
static TYPES: LazyLock<Types> = LazyLock::new(|| Types::from_components(schema::definitions()));

/// Returns the server-side apply type with this OpenAPI name.
pub fn types(name: &str) -> Option<(&'static Types, TypeId)> {
    Some((&TYPES, TYPES.named(name)?))
}

impl Strategy for Builtin {
    fn schema(&self, version: &str) -> Option<Arc<Schema>> {
        Some(Arc::clone(&self.version(version)?.schema))
    }

    fn stored_schema(&self, version: &str) -> Option<Arc<Schema>> {
        match self.kind.stored.as_ref().and_then(|stored| stored.definition) {
            Some(definition) => schema::definition(definition),
            None => self.schema(version),
        }
    }

    fn types(&self, version: &str) -> Option<(&Types, TypeId)> {
        types(self.version(version)?.definition)
    }

    fn reset_fields(&self, subresource: &str) -> &'static [&'static [&'static str]] {
        self.kind.reset_fields(subresource)
    }

    fn strategic_remains(&self, version: &str, object: &Value, patch: &Value) -> Value {
        match self.version(version) {
            Some(typed) => strategic_remains(object, patch, schema::definitions(), typed.definition),
            None => patch.clone(),
        }
    }

    fn strategic(
        &self,
        version: &str,
        object: &Value,
        patch: &Value,
    ) -> Option<Result<Value, StrategicError>> {
        let definition = self.version(version)?.definition;
        Some(strategic_merge_patch(object, patch, schema::definitions(), definition))
    }

    fn typed(&self) -> bool {
        true
    }

    fn default(&self, version: &str, object: &mut Value) {
        self.kind.rules.default(version, object);
    }

    fn convert(&self, mut object: Value, from: &str, to: &str) -> ApiResult<Value> {
        if from == to {
            return Ok(object);
        }
        let (group, version) = split_api_version(to);
        self.kind.rules.convert(&mut object, split_api_version(from), (group, version));
        object::ensure(&mut object).insert("apiVersion".into(), to.into());
        // Which empty fields are written differs between versions.
        let schema = if group == self.group { self.schema(version) } else { self.stored_schema(version) };
        if let Some(schema) = schema {
            schema.encode(&mut object);
        }
        Ok(object)
    }

    fn prepare_create(&self, hook: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        if self.kind.has_status
            && !self.kind.keeps_status
            && let Some(root) = object.as_object_mut()
        {
            root.remove("status");
        }
        self.kind.rules.prepare_create(hook, object)
    }

    fn prepare_update(&self, hook: Hook<'_>, object: &mut Value, old: &Value) -> ApiResult<()> {
        match hook.subresource {
            Some("status" | "approval") => {
                // Only the status changes; metadata was handled before.
                let mut root = object::copy_without(old, &["metadata", "status"]);
                let mut written = std::mem::take(object::ensure(object));
                root.insert("metadata".into(), written.remove("metadata").unwrap_or_default());
                root.extend(written.remove("status").map(|status| ("status".into(), status)));
                *object = Value::Object(root);
            }
            // A binding also sets a condition in the status.
            Some("binding") => {}
            _ if self.kind.has_status => object::carry(old, object, "status"),
            _ => {}
        }
        self.kind.rules.prepare_update(hook, object, old)
    }

    fn validate_create(&self, _: Hook<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        self.kind.rules.validate(object, &mut errors);
        errors
    }

    fn validate_update(&self, hook: Hook<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let change = Change {
            object,
            old,
            subresource: hook.subresource,
            names: self.kind.names,
            checks_finalizers: self.kind.checks_finalizers,
            emptied: hook.emptied,
        };
        self.kind.rules.validate_update(change, &mut errors);
        errors
    }

    fn checks_finalizers(&self) -> bool {
        self.kind.checks_finalizers
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        self.kind.rules.warnings(object, old)
    }

    fn deprecation(&self, _: &str) -> Option<&str> {
        self.kind.deprecation
    }

    fn stores_first_update(&self, object: &Value) -> bool {
        self.kind.rules.stores_first_update(object)
    }

    fn claim(&self, allocators: &Allocators, object: &Value) {
        self.kind.rules.claim(allocators, object);
    }

    fn release(&self, allocators: &Allocators, object: &Value) {
        self.kind.rules.release(allocators, object);
    }

    fn name_rule(&self) -> NameRule {
        self.kind.names
    }

    fn has_generation(&self) -> bool {
        self.kind.has_generation
    }

    fn is_new_generation(&self, object: &Value, old: &Value) -> bool {
        self.kind.rules.is_new_generation(object, old)
    }

    fn notices_empty(&self) -> bool {
        self.kind.notices_empty
    }

    fn allows_unconditional_update(&self) -> bool {
        self.kind.allows_unconditional_update
    }

    fn allows_create_on_update(&self) -> bool {
        self.kind.allows_create_on_update
    }

    fn grace_seconds(&self, object: &Value, asked: Option<i64>) -> Option<i64> {
        self.kind.rules.grace_seconds(object, asked)
    }

    fn selectable(&self, object: &Value) -> Vec<(Cow<'static, str>, String)> {
        let fields = self.kind.selectable.iter();
        fields.map(|field| (Cow::Borrowed(field.name), field.value(object))).collect()
    }

    fn selectable_names(&self, _: &str) -> Vec<String> {
        if self.kind.renamed.is_empty() {
            return self.kind.selectable.iter().map(|field| field.name.to_owned()).collect();
        }
        self.kind.renamed.iter().map(|(name, _)| (*name).to_owned()).collect()
    }

    fn selected_as(&self, name: &str) -> Option<&'static str> {
        self.kind.renamed.iter().find(|(served, _)| *served == name).map(|(_, stored)| *stored)
    }

    fn columns(&self, _: &str) -> Vec<Column> {
        self.kind.columns.iter().map(Column::from).collect()
    }

    fn cells(&self, _: &str, object: &Value, now: Timestamp) -> Vec<Cell> {
        let cell = |column: &str| {
            let own = (self.kind.cell)(column, object, now);
            own.or_else(|| common_cell(column, object, now)).unwrap_or_else(|| "<none>".into())
        };
        self.kind.columns.iter().map(|column| cell(column.name)).collect()
    }
}

/// Returns the cell of a column common to all kinds.
fn common_cell(column: &str, object: &Value, now: Timestamp) -> Option<Cell> {
    match column {
        "Name" => Some(object::name(object).into()),
        "Age" => Some(age(now, object::meta_text(object, "creationTimestamp")).into()),
        "Created At" => Some(object::meta_text(object, "creationTimestamp").into()),
        _ => None,
    }
}
