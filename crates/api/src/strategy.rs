//! The interface between the generic request pipeline and the behaviour of a kind.

use std::{borrow::Cow, sync::Arc};

use jiff::Timestamp;
use serde_json::Value;
use steersman_patch::{
    StrategicError,
    apply::{TypeId, Types},
};
pub use steersman_structural::UpdateErrors;

use crate::{
    BoxFuture,
    allocator::Allocators,
    environment::Environment,
    fields::FieldError,
    names::NameRule,
    schema::{Decoded, Decoder, Schema},
    status::ApiResult,
    table::{Cell, Column},
    user::User,
};

/// Context of the request that calls a hook.
#[derive(Clone, Copy)]
pub struct Hook<'a> {
    /// Time and randomness.
    pub environment: &'a dyn Environment,
    /// Cluster IPs and node ports.
    pub allocators: &'a Allocators,
    /// User who makes the request.
    pub user: &'a User,
    /// API version of the request.
    pub version: &'a str,
    /// Subresource that is written, if any.
    pub subresource: Option<&'a str>,
    /// Whether the request is a dry run, which must not allocate anything.
    pub dry_run: bool,
    /// Paths of lists and maps that were sent empty.
    pub emptied: &'a [String],
}

/// Paths to the fields of the `scale` subresource.
#[derive(Debug)]
pub struct ScalePaths {
    /// Path to the desired number of replicas.
    pub replicas: Vec<String>,
    /// Path to the observed number of replicas.
    pub status: Vec<String>,
    /// Path to the replicas' label selector, in string form.
    pub selector: Vec<String>,
}

impl ScalePaths {
    /// Creates paths from dotted ones. An empty path matches no field.
    pub fn new(replicas: &str, status: &str, selector: &str) -> Self {
        let split = |path: &str| path.trim_start_matches('.').split('.').map(str::to_owned).collect();
        Self { replicas: split(replicas), status: split(status), selector: split(selector) }
    }
}

/// Converts objects between versions outside of the server, as a conversion webhook does.
pub trait Converter: Send + Sync {
    /// Converts objects to version `to`. The flag of each tells whether it was changed.
    ///
    /// # Errors
    /// If the conversion fails, with kube-apiserver's error message.
    fn convert<'a>(
        &'a self,
        objects: Vec<Value>,
        to: &'a str,
    ) -> BoxFuture<'a, Result<Vec<(Value, bool)>, String>>;
}

/// The behaviour of one kind. Built-in kinds and custom resources differ only behind this trait.
/// Objects are passed in the request's version for custom resources and in the storage version for built-in kinds.
/// [`Strategy::default`] and [`Strategy::schema`] always use the request's version. Methods are listed in the order in
/// which the pipeline calls them.
pub trait Strategy: Send + Sync {
    /// Returns the schema of `version`, for decoding, patching and applying. `None` accepts any object.
    fn schema(&self, version: &str) -> Option<Arc<Schema>>;

    /// Decodes an object of `version`: validates types, and drops empty and unknown fields.
    ///
    /// Fails with the decoder's error message. Default: decodes by [`Strategy::schema`].
    fn decode(&self, version: &str, object: &mut Value, decoder: Decoder) -> Result<Decoded, String> {
        match self.schema(version) {
            Some(schema) => schema.decode(object, decoder),
            None => Ok(Decoded::default()),
        }
    }

    /// Returns the schema of stored objects. Differs from [`Strategy::schema`] if two groups share their storage.
    fn stored_schema(&self, version: &str) -> Option<Arc<Schema>> {
        self.schema(version)
    }

    /// Returns the OpenAPI document of `version`, if the kind's definition provides it. Default: none.
    fn openapi(&self, _version: &str) -> Option<Value> {
        None
    }

    /// Returns the paths of the `scale` subresource in `version`. Default: `None`, the paths of built-in kinds.
    fn scale_paths(&self, _version: &str) -> Option<&ScalePaths> {
        None
    }

    /// Returns the types for server-side apply in `version`; `None` if the version is not served.
    fn types(&self, version: &str) -> Option<(&Types, TypeId)>;

    /// Returns paths to the fields that a write through `subresource` (empty for none) can't change.
    fn reset_fields(&self, subresource: &str) -> &'static [&'static [&'static str]];

    /// Returns what kube-apiserver leaves of an applied strategic merge patch, for errors that quote it.
    fn strategic_remains(&self, _version: &str, _object: &Value, patch: &Value) -> Value {
        patch.clone()
    }

    /// Applies a strategic merge patch; `None` if the kind does not support it.
    fn strategic(
        &self,
        version: &str,
        object: &Value,
        patch: &Value,
    ) -> Option<Result<Value, StrategicError>>;

    /// Whether decoding is typed: the decoder rejects JSON of the wrong type and drops unknown fields.
    fn typed(&self) -> bool;

    /// Sets defaults of an object in `version`.
    fn default(&self, version: &str, object: &mut Value);

    /// Whether an object stored at `revision` predates the current definition. It is then refreshed when read. Default:
    /// no.
    fn outdates(&self, _revision: u64) -> bool {
        false
    }

    /// Brings an outdated object in line with the current definition, in its storage version.
    fn refresh(&self, _object: &mut Value) {}

    /// Converts an object between served versions of a group.
    fn convert(&self, object: Value, from: &str, to: &str) -> ApiResult<Value>;

    /// Returns the converter to use instead of [`Strategy::convert`]. Default: none.
    fn converter(&self) -> Option<&dyn Converter> {
        None
    }

    /// Prunes and defaults an object that a [`Converter`] returned.
    fn coerce(&self, _object: &mut Value) {}

    /// Prepares a new object, and clears fields that clients can't set on create.
    fn prepare_create(&self, hook: Hook<'_>, object: &mut Value) -> ApiResult<()>;

    /// Prepares an update of `old`, and resets fields that clients can't change.
    fn prepare_update(&self, hook: Hook<'_>, object: &mut Value, old: &Value) -> ApiResult<()>;

    /// Validates a new object, except for names and metadata.
    fn validate_create(&self, hook: Hook<'_>, object: &Value) -> Vec<FieldError>;

    /// Validates an update of `old`, except for metadata.
    fn validate_update(&self, hook: Hook<'_>, object: &Value, old: &Value) -> Vec<FieldError>;

    /// Like [`Strategy::validate_update`], with tolerated errors: those that `old` has as well, reported as warnings
    /// (ratcheting).
    fn judge_update(&self, hook: Hook<'_>, object: &Value, old: &Value) -> UpdateErrors {
        UpdateErrors { errors: self.validate_update(hook, object, old), tolerated: Vec::new() }
    }

    /// Returns the deprecation warning sent with every response. Default: none.
    fn deprecation(&self, _version: &str) -> Option<&str> {
        None
    }

    /// Whether finalizers without a domain must be standard ones. Default: no.
    fn checks_finalizers(&self) -> bool {
        false
    }

    /// Whether the first update of an object is stored even if it changes no visible field. Default: no.
    fn stores_first_update(&self, _object: &Value) -> bool {
        false
    }

    /// Returns warnings about a new object, or about an update of `old`. Default: none.
    fn warnings(&self, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// Re-allocates what a stored object holds, such as cluster IPs, on restore or rollback of the store.
    fn claim(&self, _allocators: &Allocators, _object: &Value) {}

    /// Releases what [`Strategy::prepare_create`] allocated, after a deletion or failed creation.
    fn release(&self, allocators: &Allocators, object: &Value);

    /// Returns the validation rule for names.
    fn name_rule(&self) -> NameRule;

    /// Whether objects have a `metadata.generation`.
    fn has_generation(&self) -> bool;

    /// Whether the update of `old` to `object` increments the generation.
    fn is_new_generation(&self, object: &Value, old: &Value) -> bool;

    /// Prunes fields that a custom resource's schema does not specify. Default: nothing.
    fn prune(&self, _version: &str, _object: &mut Value) {}

    /// Whether sending an empty list or map in the spec counts as a change. Default: no.
    fn notices_empty(&self) -> bool {
        false
    }

    /// Whether updates may omit the resourceVersion.
    fn allows_unconditional_update(&self) -> bool;

    /// Whether an update of a missing object creates it.
    fn allows_create_on_update(&self) -> bool;

    /// Returns the grace period of a deletion in seconds, given the requested one. `None` deletes immediately.
    fn grace_seconds(&self, object: &Value, asked: Option<i64>) -> Option<i64>;

    /// Returns an object's selectable fields with their values, except for name and namespace.
    fn selectable(&self, object: &Value) -> Vec<(Cow<'static, str>, String)>;

    /// Returns the names of selectable fields in `version`, except for name and namespace.
    fn selectable_names(&self, version: &str) -> Vec<String>;

    /// Returns a selectable field's name in [`Strategy::selectable`], if it differs.
    fn selected_as(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// Returns the printer columns of `version`.
    fn columns(&self, version: &str) -> Vec<Column>;

    /// Returns the cells of an object, one per column.
    fn cells(&self, version: &str, object: &Value, now: Timestamp) -> Vec<Cell>;
}
