//! The description of a built-in kind: facts, and rules where facts do not suffice.

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

/// A built-in kind. Its file fills this in and adds it to the table of its group.
pub(crate) struct Kind {
    /// API group, empty for the core group.
    pub(crate) group: &'static str,
    /// Plural name as in paths.
    pub(crate) plural: &'static str,
    /// Defaults, preparation and validation. Default: none.
    pub(crate) rules: &'static dyn Rules,
    /// Rule that names follow. Default: a DNS subdomain.
    pub(crate) names: NameRule,
    /// Whether `metadata.generation` counts changes. Default: no.
    pub(crate) has_generation: bool,
    /// Whether there is a status that ordinary writes leave alone. Default: no.
    pub(crate) has_status: bool,
    /// Whether a new object may bring its status along. Default: no.
    pub(crate) keeps_status: bool,
    /// Whether an update may leave the resourceVersion out. Default: yes.
    pub(crate) allows_unconditional_update: bool,
    /// Whether an update of an absent object creates it. Default: no.
    pub(crate) allows_create_on_update: bool,
    /// Whether finalizers without a domain must be known ones. Default: yes.
    pub(crate) checks_finalizers: bool,
    /// Whether a list or a map of the spec that is sent empty counts as a change. Default: no.
    pub(crate) notices_empty: bool,
    /// Fields that a write through a subresource can't change, where they are not the usual ones.
    pub(crate) reset_fields: &'static [(&'static str, &'static [Path])],
    /// Fields besides name and namespace that field selectors can use. Default: none.
    pub(crate) selectable: &'static [Selectable],
    /// Names of those fields in this group, and in the group in whose form objects are stored. Default: the same.
    pub(crate) renamed: &'static [(&'static str, &'static str)],
    /// The form in which objects are stored, where it is not that of the request.
    pub(crate) stored: Option<Stored>,
    /// The warning that clients get whenever they use the kind. Default: none.
    pub(crate) deprecation: Option<&'static str>,
    /// Printed columns. Default: name and time of creation.
    pub(crate) columns: &'static [Column],
    /// The cell of an object in the column of that name; `None` leaves it to the columns that all kinds have.
    pub(crate) cell: fn(column: &str, object: &Value, now: Timestamp) -> Option<Cell>,
}

impl Kind {
    /// A kind without anything particular.
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

    /// Fields that a write through `subresource` (empty for none) can't change.
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

/// The form in which objects are stored.
pub(crate) struct Stored {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    /// OpenAPI name of the type, where it belongs to another group.
    pub(crate) definition: Option<&'static str>,
}

/// A field that field selectors can use.
pub(crate) struct Selectable {
    pub(crate) name: &'static str,
    path: Path,
    /// The value of an absent field.
    default: &'static str,
    /// Another field that is meant where this one is absent.
    fallback: Path,
}

impl Selectable {
    /// A field whose value is empty where it is absent.
    pub(crate) const fn new(name: &'static str, path: Path) -> Self {
        Self { name, path, default: "", fallback: &[] }
    }

    /// The same with a value for objects that do not have it.
    pub(crate) const fn or(self, default: &'static str) -> Self {
        Self { default, ..self }
    }

    /// The same with another field for objects that do not have it.
    pub(crate) const fn or_field(self, fallback: Path) -> Self {
        Self { fallback, ..self }
    }

    /// The field's value as text.
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

/// A printed column.
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

    /// The column for `-o wide` only.
    pub(crate) const fn wide(self) -> Self {
        Self { priority: 1, ..self }
    }
}

impl From<&Column> for table::Column {
    fn from(column: &Column) -> Self {
        Self::new(column.name, column.kind, column.format, column.priority)
    }
}

/// The behaviour of a kind that needs code. Every method does nothing by default.
///
/// Status isolation, generations and metadata are handled before these are called.
pub(crate) trait Rules: Send + Sync {
    /// Fills in defaults.
    fn default(&self, _version: &str, _object: &mut Value) {}

    /// Rewrites an object between groups and versions, except for its apiVersion.
    fn convert(&self, _object: &mut Value, _from: (&str, &str), _to: (&str, &str)) {}

    /// Prepares a new object.
    fn prepare_create(&self, _hook: Hook<'_>, _object: &mut Value) -> ApiResult<()> {
        Ok(())
    }

    /// Prepares a new version of `old`.
    fn prepare_update(&self, _hook: Hook<'_>, _object: &mut Value, _old: &Value) -> ApiResult<()> {
        Ok(())
    }

    /// Validates a new object, metadata aside.
    fn validate(&self, _object: &Value, _errors: &mut Errors) {}

    /// Validates a change, metadata included where the real server looks at it a second time.
    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        self.validate(change.object, errors);
    }

    /// Warnings about a new object, or about a new version of an old one.
    fn warnings(&self, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// Whether a change counts as a new generation.
    fn is_new_generation(&self, object: &Value, old: &Value) -> bool {
        !object::same_except(object, old, &["status"])
    }

    /// Whether defaults of an object show only when it is read: the first update writes them, though nothing else changes.
    fn settles_late(&self, _object: &Value) -> bool {
        false
    }

    /// Seconds of grace for a deletion: `asked` is the client's wish. `None` deletes at once.
    fn grace_seconds(&self, _object: &Value, _asked: Option<i64>) -> Option<i64> {
        None
    }

    /// Takes what a stored object holds when the store is restored.
    fn claim(&self, _allocators: &Allocators, _object: &Value) {}

    /// Gives back what a preparation took.
    fn release(&self, _allocators: &Allocators, _object: &Value) {}
}

/// The rules of a kind that has none.
struct NoRules;

impl Rules for NoRules {}

/// A change that is being validated.
#[derive(Clone, Copy)]
pub(crate) struct Change<'a> {
    pub(crate) object: &'a Value,
    pub(crate) old: &'a Value,
    pub(crate) subresource: Option<&'a str>,
    pub(crate) names: NameRule,
    pub(crate) checks_finalizers: bool,
    /// Places of lists and maps that were sent empty.
    pub(crate) emptied: &'a [String],
}

impl Change<'_> {
    /// Validates how metadata changed, as most kinds do once more after the generic code.
    pub(crate) fn metadata(&self, errors: &mut Errors) {
        self.plain_metadata(errors);
        if self.checks_finalizers {
            metadata::known_finalizers(self.object, errors);
        }
    }

    /// Validates how metadata changed, except for names of finalizers.
    pub(crate) fn plain_metadata(&self, errors: &mut Errors) {
        errors.extend(metadata::validate_update(self.object, self.old));
    }

    /// Validates the metadata as if the object were new, which some kinds do on a change as well.
    pub(crate) fn whole_metadata(&self, errors: &mut Errors) {
        let namespaced = !object::namespace(self.object).is_empty();
        errors.extend(metadata::validate(self.object, self.names, namespaced));
        metadata::known_finalizers(self.object, errors);
    }

    /// The difference at a place between two values of an internal type.
    pub(crate) fn diff(&self, at: &str, kind: &str, old: &Value, new: &Value) -> String {
        internal::diff(kind, old, new, at, self.emptied)
    }

    /// The new value at a place as an internal type.
    pub(crate) fn show(&self, at: &str, kind: &str, new: &Value) -> String {
        internal::show_with(kind, new, at, self.emptied)
    }

    /// Whether the status alone is written.
    pub(crate) fn is_status(&self) -> bool {
        self.subresource == Some("status")
    }

    /// Reports fields of the object that changed.
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
