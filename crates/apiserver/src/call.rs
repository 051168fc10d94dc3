//! A request to a resource.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_api::{
    environment::EnvironmentExt as _,
    fields::FieldError,
    http::{FieldValidation, Include, Options, Output, Propagation},
    status::{ApiError, ApiResult},
    store::Entry,
    strategy::Hook,
};

use crate::{
    auth::{Attributes, User},
    catalog::{Resource, Verb},
    convert,
    core::Core,
};

/// A request to a resource: its target, user, options and output format.
///
/// Created once the request is authorized, and not changed afterwards. What a body or a write adds has a type of its
/// own: [`Decoded`], [`Attempt`](crate::admission::Attempt), [`Written`](crate::commit::Written).
pub(crate) struct Call {
    pub(crate) core: Arc<Core>,
    pub(crate) verb: Verb,
    pub(crate) resource: Arc<Resource>,
    pub(crate) subresource: Option<String>,
    pub(crate) namespace: String,
    /// The name in the path; empty for a collection, and for a create, where the object has the name.
    pub(crate) name: String,
    pub(crate) user: User,
    /// The default field manager of writes.
    pub(crate) user_agent: String,
    pub(crate) options: Options,
    /// Options of writes only.
    pub(crate) write: WriteOptions,
    pub(crate) output: Output,
}

/// An object from a request body, or the result of patching the stored one.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) object: Value,
    /// Paths of lists (with a trailing `[]`) and maps that were sent empty.
    pub(crate) emptied: Vec<String>,
}

impl From<Value> for Decoded {
    fn from(object: Value) -> Self {
        Self { object, emptied: Vec::new() }
    }
}

/// The validated options of a write.
#[derive(Debug, Default)]
pub(crate) struct WriteOptions {
    /// Whether the request is a dry run: nothing is stored.
    pub(crate) dry_run: bool,
    pub(crate) field_validation: FieldValidation,
    /// The options as an object, for admission.
    pub(crate) object: Value,
}

impl WriteOptions {
    /// Validates the query options of a write.
    pub(crate) fn new(verb: Verb, options: &Options) -> ApiResult<Self> {
        let kind = match verb {
            Verb::Create => "CreateOptions",
            Verb::Update => "UpdateOptions",
            Verb::Patch => "PatchOptions",
            _ => "DeleteOptions",
        };
        let mut errors = Vec::new();
        check_dry_run(&options.dry_run, &mut errors);
        let field_validation = match options.field_validation.as_str() {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported("fieldValidation", other, &supported));
                FieldValidation::default()
            }
        };
        if options.field_manager.len() > 128 {
            errors.push(FieldError::too_long("fieldManager", 128));
        }
        for (at, odd) in options.field_manager.char_indices().filter(|(_, c)| c.is_control()) {
            let why = format!("invalid character U+{:04X} (at position {at})", u32::from(odd));
            errors.push(FieldError::invalid("fieldManager", options.field_manager.as_str(), why));
        }
        if let Some(policy) = &options.propagation_policy
            && Propagation::parse(policy).is_none()
        {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(FieldError::not_supported("propagationPolicy", policy.as_str(), &supported));
        }
        if !errors.is_empty() {
            return Err(ApiError::invalid_kind("meta.k8s.io", kind, "", errors));
        }
        let dry_run = !options.dry_run.is_empty();
        Ok(Self { dry_run, field_validation, object: options_object(kind, options) })
    }
}

/// Validates `dryRun`: `All` is the only allowed value.
pub(crate) fn check_dry_run(dry_run: &[String], errors: &mut Vec<FieldError>) {
    if dry_run.iter().any(|d| d != "All") {
        let given: Value = dry_run.iter().map(|d| Value::from(d.as_str())).collect();
        errors.push(FieldError::not_supported("dryRun", given, &["All"]));
    }
}

/// Returns the query options as an object of their kind.
fn options_object(kind: &str, query: &Options) -> Value {
    let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    if !query.field_manager.is_empty() {
        options["fieldManager"] = query.field_manager.as_str().into();
    }
    if !query.field_validation.is_empty() {
        options["fieldValidation"] = query.field_validation.as_str().into();
    }
    if !query.dry_run.is_empty() {
        options["dryRun"] = json!(["All"]);
    }
    if let Some(grace) = query.grace_period_seconds {
        options["gracePeriodSeconds"] = grace.into();
    }
    if let Some(policy) = &query.propagation_policy {
        options["propagationPolicy"] = policy.as_str().into();
    }
    if let Some(orphan) = query.orphan_dependents {
        options["orphanDependents"] = orphan.into();
    }
    options
}

impl Call {
    /// Creates a call by the server itself.
    pub(crate) fn internal(
        core: Arc<Core>,
        resource: Arc<Resource>,
        verb: Verb,
        namespace: &str,
        subresource: Option<String>,
    ) -> Self {
        Self {
            core,
            verb,
            resource,
            subresource,
            namespace: namespace.into(),
            name: String::new(),
            user: User::admin(),
            user_agent: "kube-apiserver".into(),
            options: Options::default(),
            write: WriteOptions {
                dry_run: false,
                field_validation: FieldValidation::Ignore,
                object: Value::Null,
            },
            output: Output::Object,
        }
    }

    /// Returns the same call for another object of the resource.
    pub(crate) fn about(self, namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned(), ..self }
    }

    /// Returns the object's key in the store.
    pub(crate) fn key(&self) -> String {
        steersman_api::object::key(self.scope(), &self.name)
    }

    /// Returns the namespace part of keys: empty for cluster-scoped resources.
    pub(crate) fn scope(&self) -> &str {
        if self.resource.namespaced { &self.namespace } else { "" }
    }

    /// Returns the object as readers see it: without writes that are not durable yet.
    pub(crate) fn seen(&self) -> ApiResult<Arc<Entry>> {
        self.core
            .store
            .read(&self.resource.storage, &self.key())
            .ok_or_else(|| ApiError::not_found(&self.resource, &self.name))
    }

    /// Returns the stored object after the latest write.
    pub(crate) fn stored(&self) -> ApiResult<Arc<Entry>> {
        self.core
            .store
            .get(&self.resource.storage, &self.key())
            .ok_or_else(|| ApiError::not_found(&self.resource, &self.name))
    }

    /// Returns the authorizer attributes for another verb than the request's own.
    pub(crate) fn attributes(&self, verb: Verb) -> Attributes<'_> {
        Attributes {
            verb: verb.as_str(),
            group: &self.resource.group,
            version: &self.resource.version,
            resource: &self.resource.plural,
            subresource: self.subresource_name(),
            namespace: self.scope(),
            name: &self.name,
            path: "",
        }
    }

    /// Returns what strategies may know about this request.
    /// `emptied` are the paths of empty fields in its body.
    pub(crate) fn hook<'a>(&'a self, emptied: &'a [String]) -> Hook<'a> {
        Hook {
            environment: &*self.core.environment,
            allocators: &self.core.allocators,
            user: &self.user,
            version: &self.resource.version,
            subresource: self.subresource.as_deref(),
            dry_run: self.write.dry_run,
            emptied,
        }
    }

    /// Converts a stored object to the version of the request.
    pub(crate) async fn to_served(&self, stored: Value) -> ApiResult<Value> {
        convert::one(&self.resource, stored, &self.resource.api_version()).await
    }

    /// Converts an object to its storage version.
    pub(crate) async fn to_stored(&self, object: Value) -> ApiResult<Value> {
        convert::one(&self.resource, object, &self.resource.storage_api_version).await
    }

    /// Converts an object from the version of the request to the one used for validation.
    pub(crate) fn to_validated_version(&self, served: Value) -> ApiResult<Value> {
        if self.resource.custom {
            return Ok(served);
        }
        convert::directly(&self.resource, served, &self.resource.storage_api_version)
    }

    /// Converts an object from the version used for validation to that of the request.
    pub(crate) fn validated_to_served(&self, ruled: Value) -> ApiResult<Value> {
        convert::directly(&self.resource, ruled, &self.resource.api_version())
    }

    /// Returns the field manager of this write.
    pub(crate) fn manager(&self) -> String {
        if !self.options.field_manager.is_empty() {
            return self.options.field_manager.clone();
        }
        let prefix = self.user_agent.split('/').next().unwrap_or_default();
        prefix.chars().filter(|c| !c.is_control()).take(128).collect()
    }

    /// Returns what the rows of a Table include.
    pub(crate) fn include(&self) -> ApiResult<Include> {
        match self.options.include_object.as_str() {
            "" | "Metadata" => Ok(Include::Metadata),
            "None" => Ok(Include::None),
            "Object" => Ok(Include::Object),
            other => Err(ApiError::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', 'None', or empty",
                steersman_api::status::quote(other)
            ))),
        }
    }

    /// Returns the current time in the format of object timestamps.
    pub(crate) fn now(&self) -> String {
        self.core.environment.now_string()
    }

    /// Returns the subresource, or an empty string.
    pub(crate) fn subresource_name(&self) -> &str {
        self.subresource.as_deref().unwrap_or_default()
    }
}
