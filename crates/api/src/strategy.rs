//! The seam between the generic pipeline and the behaviour of a kind.

use std::{borrow::Cow, sync::Arc};

use jiff::Timestamp;
use serde_json::Value;
use steersman_patch::{
    StrategicError,
    apply::{TypeId, Types},
};
pub use steersman_structural::Judged;

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

/// The request that a hook runs in.
#[derive(Clone, Copy)]
pub struct Hook<'a> {
    /// Time and randomness.
    pub environment: &'a dyn Environment,
    /// Cluster IPs and node ports.
    pub allocators: &'a Allocators,
    /// The user of the request.
    pub user: &'a User,
    /// The version that the client speaks.
    pub version: &'a str,
    /// The subresource written, if any.
    pub subresource: Option<&'a str>,
    /// Whether the request is a dry run, so that nothing may be allocated.
    pub dry_run: bool,
    /// Places of lists and maps that were sent empty.
    pub emptied: &'a [String],
}

/// Paths to the fields that a `Scale` reads and writes.
#[derive(Debug)]
pub struct ScalePaths {
    /// Path to the wanted number of replicas.
    pub replicas: Vec<String>,
    /// Path to the present number of replicas.
    pub status: Vec<String>,
    /// Path to the label selector of the replicas, as text.
    pub selector: Vec<String>,
}

impl ScalePaths {
    /// Takes dotted paths; one that is empty leads nowhere.
    pub fn new(replicas: &str, status: &str, selector: &str) -> Self {
        let split = |path: &str| path.trim_start_matches('.').split('.').map(str::to_owned).collect();
        Self { replicas: split(replicas), status: split(status), selector: split(selector) }
    }
}

/// Rewrites objects from one version into another outside of the server, as a conversion webhook does.
pub trait Converter: Send + Sync {
    /// Rewrites objects into version `to`, and says of each whether that changed it.
    ///
    /// # Errors
    /// Why that did not work, in the real server's words.
    fn convert<'a>(
        &'a self,
        objects: Vec<Value>,
        to: &'a str,
    ) -> BoxFuture<'a, Result<Vec<(Value, bool)>, String>>;
}

/// The behaviour of one kind. Built-in kinds and custom resources differ only behind this trait.
///
/// Objects are passed in the version in which the kind's rules speak: that of the client for custom resources, the stored one for
/// built-in kinds, except to [`Strategy::default`] and [`Strategy::schema`], which belong to the version that the client speaks.
/// The methods come in the order in which the pipeline calls them.
pub trait Strategy: Send + Sync {
    /// The type of an object in `version`, for decoding, patching and applying; `None` accepts anything.
    fn schema(&self, version: &str) -> Option<Arc<Schema>>;

    /// Does to an object of `version` what its decoder does: types are checked, and what is empty or not known is dropped.
    /// The error is the decoder's.
    fn decode(&self, version: &str, object: &mut Value, decoder: Decoder) -> Result<Decoded, String> {
        match self.schema(version) {
            Some(schema) => schema.decode(object, decoder),
            None => Ok(Decoded::default()),
        }
    }

    /// The type of a stored object; differs from [`Strategy::schema`] where two groups share a storage.
    fn stored_schema(&self, version: &str) -> Option<Arc<Schema>> {
        self.schema(version)
    }

    /// The OpenAPI document of `version`, where it comes from the object's own definition.
    fn openapi(&self, _version: &str) -> Option<Value> {
        None
    }

    /// Paths to the fields of a `Scale` in `version`, where they are not the usual ones.
    fn scale_paths(&self, _version: &str) -> Option<&ScalePaths> {
        None
    }

    /// The types by which fields of `version` are owned; `None` if the version is not served.
    fn types(&self, version: &str) -> Option<(&Types, TypeId)>;

    /// Paths to the fields that a write through `subresource` (empty for none) can't change.
    fn reset_fields(&self, subresource: &str) -> &'static [&'static [&'static str]];

    /// The rest of a strategic merge patch once it has been applied, for messages that quote it.
    fn strategic_remains(&self, _version: &str, _object: &Value, patch: &Value) -> Value {
        patch.clone()
    }

    /// Applies a strategic merge patch; `None` where the kind has none.
    fn strategic(
        &self,
        version: &str,
        object: &Value,
        patch: &Value,
    ) -> Option<Result<Value, StrategicError>>;

    /// Whether decoding is typed: JSON of the wrong type is refused and unknown fields are dropped by the decoder.
    fn typed(&self) -> bool;

    /// Fills in defaults of an object in `version`.
    fn default(&self, version: &str, object: &mut Value);

    /// Whether what was stored at `revision` came before the kind took its present form, and has to be refreshed when it is read.
    fn outdates(&self, _revision: u64) -> bool {
        false
    }

    /// Brings an outdated object into the present form of the version in which it was stored.
    fn refresh(&self, _object: &mut Value) {}

    /// Rewrites an object from one served version into another. `from` and `to` are versions of the same group.
    fn convert(&self, object: Value, from: &str, to: &str) -> ApiResult<Value>;

    /// The converter that is used in place of [`Strategy::convert`]. Default: none.
    fn converter(&self) -> Option<&dyn Converter> {
        None
    }

    /// Prunes and defaults an object that a [`Converter`] returned.
    fn coerce(&self, _object: &mut Value) {}

    /// Drops what a client may not say and prepares a new object.
    fn prepare_create(&self, hook: Hook<'_>, object: &mut Value) -> ApiResult<()>;

    /// Drops what a client may not change and prepares a new version of `old`.
    fn prepare_update(&self, hook: Hook<'_>, object: &mut Value, old: &Value) -> ApiResult<()>;

    /// Validates a new object, names and metadata aside.
    fn validate_create(&self, hook: Hook<'_>, object: &Value) -> Vec<FieldError>;

    /// Validates a new version of `old`, metadata aside.
    fn validate_update(&self, hook: Hook<'_>, object: &Value, old: &Value) -> Vec<FieldError>;

    /// The same, with what is wrong and was wrong before, so that it is worth a warning only.
    fn judge_update(&self, hook: Hook<'_>, object: &Value, old: &Value) -> Judged {
        Judged { errors: self.validate_update(hook, object, old), tolerated: Vec::new() }
    }

    /// The warning that clients get whenever they use the kind: that it is deprecated.
    fn deprecation(&self, _version: &str) -> Option<&str> {
        None
    }

    /// Whether finalizers without a domain must be known ones.
    fn checks_finalizers(&self) -> bool {
        false
    }

    /// Whether the first update of an object is a change, though it changes nothing that can be seen.
    fn settles_late(&self, _object: &Value) -> bool {
        false
    }

    /// Warnings about a new object, or about a new version of `old`.
    fn warnings(&self, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// Takes what a stored object holds, such as addresses, when the store is restored.
    fn claim(&self, _allocators: &Allocators, _object: &Value) {}

    /// Gives back what [`Strategy::prepare_create`] took, once the object is gone or was not stored after all.
    fn release(&self, allocators: &Allocators, object: &Value);

    /// Which rule names follow.
    fn name_rule(&self) -> NameRule;

    /// Whether `metadata.generation` counts changes.
    fn has_generation(&self) -> bool;

    /// Whether a change of `old` into `object` counts as a new generation.
    fn is_new_generation(&self, object: &Value, old: &Value) -> bool;

    /// Drops what the schema of a custom resource does not know.
    fn prune(&self, _version: &str, _object: &mut Value) {}

    /// Whether a list or a map of the spec that is sent empty counts as a change.
    fn notices_empty(&self) -> bool {
        false
    }

    /// Whether an update may leave the resourceVersion out.
    fn allows_unconditional_update(&self) -> bool;

    /// Whether an update of an absent object creates it.
    fn allows_create_on_update(&self) -> bool;

    /// Seconds of grace for a deletion: `asked` is the client's wish. `None` deletes at once.
    fn grace_seconds(&self, object: &Value, asked: Option<i64>) -> Option<i64>;

    /// The fields besides name and namespace that field selectors can use, with their values.
    fn selectable(&self, object: &Value) -> Vec<(Cow<'static, str>, String)>;

    /// The names of those fields in field selectors.
    fn selectable_names(&self, version: &str) -> Vec<String>;

    /// The name of such a field in [`Strategy::selectable`], where it is another one.
    fn selected_as(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// The printed columns of `version`.
    fn columns(&self, version: &str) -> Vec<Column>;

    /// The cells of one object, one per column.
    fn cells(&self, version: &str, object: &Value, now: Timestamp) -> Vec<Cell>;
}
