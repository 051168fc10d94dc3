//! What is particular to the built-in kinds: one module per kind or family, behind [`Rules`].

mod allocate;
mod config;
mod convert;
mod facts;
mod namespace;
mod pod;
mod print;
mod service;
mod workload;

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, LazyLock, OnceLock},
};

use serde_json::Value;
use steersman_patch::{
    StrategicError,
    apply::{TypeId, Types},
    strategic_merge_patch,
};

pub(crate) use allocate::Allocators;

use crate::{
    catalog::split_api_version,
    fields::FieldError,
    names::NameRule,
    object,
    schema::{self, Schema},
    server::Core,
    status::ApiResult,
    strategy::{Hook, Strategy},
    table::{Cell, Column},
};

/// What a kind adds to the common behaviour. Every method does nothing by default.
///
/// Status isolation, generations, metadata and conversion are handled before these are called.
pub(crate) trait Rules: Send + Sync {
    /// Fills in defaults.
    fn default(&self, _version: &str, _object: &mut Value) {}

    /// Prepares a new object.
    fn prepare_create(&self, _hook: Hook<'_>, _object: &mut Value) -> ApiResult<()> {
        Ok(())
    }

    /// Prepares a new version of `old`.
    fn prepare_update(&self, _hook: Hook<'_>, _object: &mut Value, _old: &Value) -> ApiResult<()> {
        Ok(())
    }

    /// Judges a new object.
    fn validate(&self, _object: &Value, _errors: &mut Vec<FieldError>) {}

    /// Judges a change.
    fn validate_update(&self, _object: &Value, _old: &Value, _errors: &mut Vec<FieldError>) {}

    /// Gives back what a preparation took.
    fn release(&self, _core: &Core, _object: &Value) {}

    /// Cells of one row, in the order of the kind's columns; `None` leaves it to the common ones.
    fn cells(&self, _core: &Core, _object: &Value) -> Option<Vec<Cell>> {
        None
    }
}

/// A kind without anything particular.
struct Plain;

impl Rules for Plain {}

fn rules(group: &str, plural: &str) -> &'static dyn Rules {
    match (group, plural) {
        ("", "namespaces") => &namespace::Namespace,
        ("", "services") => &service::Service,
        ("", "secrets") => &config::Secret,
        ("", "configmaps") => &config::ConfigMap,
        ("", "pods") => &pod::Pod,
        ("apps", "deployments") => &workload::Deployment,
        ("apps", "replicasets") => &workload::ReplicaSet,
        ("apps", "statefulsets") => &workload::StatefulSet,
        ("apps", "daemonsets") => &workload::DaemonSet,
        ("batch", "jobs") => &workload::Job,
        ("batch", "cronjobs") => &workload::CronJob,
        ("apiextensions.k8s.io", "customresourcedefinitions") => &crate::crd::DefinitionRules,
        _ => &Plain,
    }
}

/// The strategy of a built-in resource.
pub(crate) struct Builtin {
    group: String,
    plural: String,
    kind: String,
    rules: &'static dyn Rules,
    versions: OnceLock<Vec<Known>>,
}

impl Builtin {
    pub(crate) fn new(group: &str, plural: &str, kind: &str) -> Self {
        Self {
            group: group.to_owned(),
            plural: plural.to_owned(),
            kind: kind.to_owned(),
            rules: rules(group, plural),
            versions: OnceLock::new(),
        }
    }

    fn known(&self, version: &str) -> Option<&Known> {
        let versions = self.versions.get_or_init(|| versions(&self.group, &self.kind));
        versions.iter().find(|k| k.version == version)
    }

    fn key(&self) -> (&str, &str) {
        (&self.group, &self.plural)
    }
}

/// What is known of a kind in one version.
struct Known {
    version: String,
    name: &'static str,
    schema: Arc<Schema>,
}

/// The versions of a kind, from the OpenAPI definitions.
fn versions(group: &str, kind: &str) -> Vec<Known> {
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
        .filter_map(|(version, name)| {
            Some(Known { version: (*version).to_owned(), name, schema: schema::definition(name)? })
        })
        .collect()
}

/// The types by which fields are owned.
static TYPES: LazyLock<Types> = LazyLock::new(|| Types::from_components(schema::definitions()));

/// The type of a kind by its name in the OpenAPI definitions.
pub(crate) fn types(name: &str) -> Option<(&'static Types, TypeId)> {
    Some((&TYPES, TYPES.named(name)?))
}

impl Strategy for Builtin {
    fn schema(&self, version: &str) -> Option<Arc<Schema>> {
        Some(Arc::clone(&self.known(version)?.schema))
    }

    fn stored_schema(&self, version: &str) -> Option<Arc<Schema>> {
        if self.key() == ("events.k8s.io", "events") {
            return schema::definition("io.k8s.api.core.v1.Event");
        }
        self.schema(version)
    }

    fn types(&self, version: &str) -> Option<(&Types, TypeId)> {
        Some((&TYPES, TYPES.named(self.known(version)?.name)?))
    }

    fn reset_fields(&self, subresource: &str) -> &'static [&'static [&'static str]] {
        facts::reset_fields(self.key(), subresource)
    }

    fn strategic(
        &self,
        version: &str,
        object: &Value,
        patch: &Value,
    ) -> Option<Result<Value, StrategicError>> {
        let name = self.known(version)?.name;
        Some(strategic_merge_patch(object, patch, schema::definitions(), name))
    }

    fn typed(&self) -> bool {
        true
    }

    fn default(&self, version: &str, object: &mut Value) {
        self.rules.default(version, object);
    }

    fn convert(&self, object: Value, from: &str, to: &str) -> ApiResult<Value> {
        if from == to {
            return Ok(object);
        }
        let (group, version) = split_api_version(to);
        let mut object = convert::convert(object, split_api_version(from), (group, version), to);
        // What is written when empty differs between versions.
        let schema = if group == self.group { self.schema(version) } else { self.stored_schema(version) };
        if let Some(schema) = schema {
            schema.encode(&mut object);
        }
        Ok(object)
    }

    fn prepare_create(&self, hook: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        if facts::resets_status(self.key())
            && let Some(root) = object.as_object_mut()
        {
            root.remove("status");
        }
        self.rules.prepare_create(hook, object)
    }

    fn prepare_update(&self, hook: Hook<'_>, object: &mut Value, old: &Value) -> ApiResult<()> {
        match hook.subresource {
            Some("status") => {
                // Only the status moves; metadata has been dealt with before.
                let status = object.get("status").cloned();
                let metadata = object.get("metadata").cloned().unwrap_or_default();
                *object = old.clone();
                let root = object::ensure(object);
                root.insert("metadata".into(), metadata);
                match status {
                    Some(status) => root.insert("status".into(), status),
                    None => root.remove("status"),
                };
            }
            _ if facts::has_status(self.key()) => object::carry(old, object, "status"),
            _ => {}
        }
        self.rules.prepare_update(hook, object, old)
    }

    fn validate_create(&self, _: Hook<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        self.rules.validate(object, &mut errors);
        errors
    }

    fn validate_update(&self, _: Hook<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        self.rules.validate(object, &mut errors);
        self.rules.validate_update(object, old, &mut errors);
        errors
    }

    fn release(&self, core: &Core, object: &Value) {
        self.rules.release(core, object);
    }

    fn name_rule(&self) -> NameRule {
        facts::name_rule(self.key())
    }

    fn has_generation(&self) -> bool {
        facts::has_generation(self.key())
    }

    fn is_new_generation(&self, object: &Value, old: &Value) -> bool {
        !object::same_except(object, old, &["status"])
    }

    fn allows_unconditional_update(&self) -> bool {
        facts::allows_unconditional_update(self.key())
    }

    fn allows_create_on_update(&self) -> bool {
        facts::allows_create_on_update(self.key())
    }

    fn grace_seconds(&self, object: &Value, asked: Option<i64>) -> Option<i64> {
        (self.key() == ("", "pods")).then(|| pod::grace_seconds(object, asked))
    }

    fn selectable(&self, object: &Value) -> Vec<(Cow<'static, str>, String)> {
        let fields = facts::selectable(self.key());
        fields.iter().map(|(name, path)| (Cow::Borrowed(*name), facts::value(object, path))).collect()
    }

    fn selectable_names(&self, _: &str) -> Vec<String> {
        facts::selectable(self.key()).iter().map(|(name, _)| (*name).to_owned()).collect()
    }

    fn columns(&self, version: &str) -> Vec<Column> {
        facts::columns(&self.group, version, &self.plural)
    }

    fn cells(&self, core: &Core, version: &str, object: &Value) -> Vec<Cell> {
        if let Some(cells) = self.rules.cells(core, object) {
            return cells;
        }
        let now = core.environment.now();
        self.columns(version)
            .iter()
            .map(|column| {
                let known = print::cell(self.key(), &column.name, object, now);
                known.unwrap_or_else(|| "<none>".into())
            })
            .collect()
    }
}
