//! Description of a built-in kind: declared properties, and rules for behaviour that needs code.

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::{
    allocator::Allocators,
    metadata,
    names::NameRule,
    object,
    status::ApiResult,
    strategy::Hook,
    table::{self, Cell},
};

use crate::{
    check::{Errors, FieldErrors as _, IMMUTABLE, Read as _},
    internal,
};

/// A path to a field of an object.
pub(crate) type Path = &'static [&'static str];

/// A built-in kind, defined in its file and listed in the table of its group.
pub(crate) struct Kind {
    /// API group, empty for the core group.
    pub(crate) group: &'static str,
    /// Plural name as in paths.
    pub(crate) plural: &'static str,
    /// Defaults, preparation and validation. Default: none.
    pub(crate) rules: &'static dyn Rules,
    /// Validation rule for names. Default: DNS subdomain.
    pub(crate) names: NameRule,
    /// Whether objects have a `metadata.generation`. Default: no.
    pub(crate) has_generation: bool,
    /// Whether it has a status subresource, so that other writes can't change the status. Default: no.
    pub(crate) has_status: bool,
    /// Whether a create keeps the status it was sent with. Default: no.
    pub(crate) keeps_status: bool,
    /// Whether updates may omit the resourceVersion. Default: yes.
    pub(crate) allows_unconditional_update: bool,
    /// Whether an update of a missing object creates it. Default: no.
    pub(crate) allows_create_on_update: bool,
    /// Whether finalizers without a domain must be standard ones. Default: yes.
    pub(crate) checks_finalizers: bool,
    /// Whether sending an empty list or map in the spec counts as a change. Default: no.
    pub(crate) notices_empty: bool,
    /// Fields that a write through a subresource can't change, where they differ from the usual ones.
    pub(crate) reset_fields: &'static [(&'static str, &'static [Path])],
    /// Selectable fields besides name and namespace. Default: none.
    pub(crate) selectable: &'static [Selectable],
    /// Names of selectable fields in this group and in the storage group, if they differ. Default: none.
    pub(crate) renamed: &'static [(&'static str, &'static str)],
    /// Group and version in which objects are stored, if fixed. Default: those of the request.
    pub(crate) stored: Option<Stored>,
    /// Deprecation warning sent with every response. Default: none.
    pub(crate) deprecation: Option<&'static str>,
    /// Printer columns. Default: name and time of creation.
    pub(crate) columns: &'static [Column],
    /// Returns the cell of an object in a column. `None` falls back to the columns common to all kinds.
    pub(crate) cell: fn(column: &str, object: &Value, now: Timestamp) -> Option<Cell>,
}

impl Kind {
    /// Creates a kind with all defaults.
    pub(crate) const fn new(group: &'static str, plural: &'static str) -> Self {
        Self {
            group,
            plural,
            rules: &NoRules,
            names: NameRule::Subdomain,
            has_generation: false,
            has_status: false,
            keeps_status: false,
            allows_unconditional_update: true,
            allows_create_on_update: false,
            checks_finalizers: true,
            notices_empty: false,
            reset_fields: &[],
            selectable: &[],
            renamed: &[],
            stored: None,
            deprecation: None,
            columns: &[Column::NAME, Column::CREATED_AT],
            cell: |_, _, _| None,
        }
    }

    /// Returns the fields that a write through `subresource` (empty for none) can't change.
    pub(crate) fn reset_fields(&self, subresource: &str) -> &'static [Path] {
        let own = self.reset_fields.iter().find(|(name, _)| *name == subresource);
        match (own, subresource) {
            (Some((_, fields)), _) => fields,
            (None, "status") => &[&["spec"]],
            (None, "") if self.has_status => &[&["status"]],
            _ => &[],
        }
    }
}

/// Storage group and version of a kind.
pub(crate) struct Stored {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    /// OpenAPI name of the type, if it belongs to another group.
    pub(crate) definition: Option<&'static str>,
}

/// A selectable field.
pub(crate) struct Selectable {
    pub(crate) name: &'static str,
    path: Path,
    /// Value if the field is absent.
    default: &'static str,
    /// Path to use if the field is absent.
    fallback: Path,
}

impl Selectable {
    /// Creates a field that defaults to an empty string.
    pub(crate) const fn new(name: &'static str, path: Path) -> Self {
        Self { name, path, default: "", fallback: &[] }
    }

    /// Sets the value to use if the field is absent.
    pub(crate) const fn or(self, default: &'static str) -> Self {
        Self { default, ..self }
    }

    /// Sets another field to use if the field is absent.
    pub(crate) const fn or_field(self, fallback: Path) -> Self {
        Self { fallback, ..self }
    }

    /// Returns the field's value as a string.
    pub(crate) fn value(&self, object: &Value) -> String {
        let found =
            |path: Path| object::get(object, path).filter(|value| !path.is_empty() && !value.is_null());
        match found(self.path).or_else(|| found(self.fallback)) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => self.default.to_owned(),
        }
    }
}

/// A printer column.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    kind: &'static str,
    format: &'static str,
    priority: i64,
}

impl Column {
    pub(crate) const NAME: Self = Self::of("Name", "string").format("name");
    pub(crate) const AGE: Self = Self::string("Age");
    pub(crate) const CREATED_AT: Self = Self::of("Created At", "date");

    const fn of(name: &'static str, kind: &'static str) -> Self {
        Self { name, kind, format: "", priority: 0 }
    }

    pub(crate) const fn string(name: &'static str) -> Self {
        Self::of(name, "string")
    }

    pub(crate) const fn integer(name: &'static str) -> Self {
        Self::of(name, "integer")
    }

    pub(crate) const fn boolean(name: &'static str) -> Self {
        Self::of(name, "boolean")
    }

    pub(crate) const fn format(self, format: &'static str) -> Self {
        Self { format, ..self }
    }

    /// Shows the column only with `-o wide`.
    pub(crate) const fn wide(self) -> Self {
        Self { priority: 1, ..self }
    }
}

impl From<&Column> for table::Column {
    fn from(column: &Column) -> Self {
        Self::new(column.name, column.kind, column.format, column.priority)
    }
}

/// The behaviour of a kind that needs code. All methods are optional.
/// Called after the generic handling of status, generation and metadata.
pub(crate) trait Rules: Send + Sync {
    /// Sets defaults.
    fn default(&self, _version: &str, _object: &mut Value) {}

    /// Converts an object between groups and versions, except for its apiVersion.
    fn convert(&self, _object: &mut Value, _from: (&str, &str), _to: (&str, &str)) {}

    /// Prepares a new object for validation and storage.
    fn prepare_create(&self, _hook: Hook<'_>, _object: &mut Value) -> ApiResult<()> {
        Ok(())
    }

    /// Prepares an update of `old` for validation and storage.
    fn prepare_update(&self, _hook: Hook<'_>, _object: &mut Value, _old: &Value) -> ApiResult<()> {
        Ok(())
    }

    /// Validates a new object, except for metadata.
    fn validate(&self, _object: &Value, _errors: &mut Errors) {}

    /// Validates an update, including metadata where kube-apiserver validates it twice.
    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        self.validate(change.object, errors);
    }

    /// Returns warnings about a new object, or about an update of `old`.
    fn warnings(&self, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// Whether an update increments the generation. Default: if anything but status and metadata changed.
    fn is_new_generation(&self, object: &Value, old: &Value) -> bool {
        !object::same_except(object, old, &["status"])
    }

    /// Whether some defaults are applied only on read, so that the first update stores them in any case.
    fn stores_first_update(&self, _object: &Value) -> bool {
        false
    }

    /// Returns the grace period of a deletion in seconds, given the requested one. `None` deletes immediately.
    fn grace_seconds(&self, _object: &Value, _asked: Option<i64>) -> Option<i64> {
        None
    }

    /// Re-allocates what a stored object holds, such as cluster IPs, when the store is restored.
    fn claim(&self, _allocators: &Allocators, _object: &Value) {}

    /// Releases what a preparation allocated.
    fn release(&self, _allocators: &Allocators, _object: &Value) {}
}

/// Rules of kinds without any.
struct NoRules;

impl Rules for NoRules {}

/// An update being validated.
#[derive(Clone, Copy)]
pub(crate) struct Change<'a> {
    pub(crate) object: &'a Value,
    pub(crate) old: &'a Value,
    pub(crate) subresource: Option<&'a str>,
    pub(crate) names: NameRule,
    pub(crate) checks_finalizers: bool,
    /// Paths of lists and maps that were sent empty.
    pub(crate) emptied: &'a [String],
}

impl Change<'_> {
    /// Validates the update of metadata. Most kinds repeat this after the generic validation, as kube-apiserver does.
    pub(crate) fn metadata(&self, errors: &mut Errors) {
        self.plain_metadata(errors);
        if self.checks_finalizers {
            metadata::known_finalizers(self.object, errors);
        }
    }

    /// Validates the update of metadata, except for names of finalizers.
    pub(crate) fn plain_metadata(&self, errors: &mut Errors) {
        errors.extend(metadata::validate_update(self.object, self.old));
    }

    /// Validates metadata as on create, which some kinds do on update as well.
    pub(crate) fn whole_metadata(&self, errors: &mut Errors) {
        let namespaced = !object::namespace(self.object).is_empty();
        errors.extend(metadata::validate(self.object, self.names, namespaced));
        metadata::known_finalizers(self.object, errors);
    }

    /// Returns the diff between two values of an internal type, at the path `at`.
    pub(crate) fn diff(&self, at: &str, kind: &str, old: &Value, new: &Value) -> String {
        internal::diff(kind, old, new, at, self.emptied)
    }

    /// Formats the new value at the path `at` as an internal type.
    pub(crate) fn show(&self, at: &str, kind: &str, new: &Value) -> String {
        internal::show_with(kind, new, at, self.emptied)
    }

    /// Whether the update is of the status subresource.
    pub(crate) fn is_status(&self) -> bool {
        self.subresource == Some("status")
    }

    /// Reports changes of immutable fields.
    pub(crate) fn immutable(&self, fields: &[&str], errors: &mut Errors) {
        for field in fields {
            if self.object.at(field) != self.old.at(field) {
                errors.invalid(*field, self.object.shown(field), IMMUTABLE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn absent_fields_have_their_default() {
        let flag = Selectable::new("spec.hostNetwork", &["spec", "hostNetwork"]).or("false");
        assert_eq!(flag.value(&json!({})), "false");
        assert_eq!(flag.value(&json!({"spec": {"hostNetwork": true}})), "true");
        let source = Selectable::new("source", &["source", "component"]).or_field(&["reportingComponent"]);
        let old = json!({"source": {"component": "old"}, "reportingComponent": "new"});
        assert_eq!(source.value(&old), "old");
        assert_eq!(source.value(&json!({"reportingComponent": "new"})), "new");
        assert_eq!(source.value(&json!({})), "");
    }
}
