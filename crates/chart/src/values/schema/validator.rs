//! Validates a value against a compiled schema.
//!
//! Keywords are checked in the order of Go's santhosh-tekuri/jsonschema. A first pass only decides validity; if the
//! value is invalid, a second one collects the errors.

use std::collections::HashMap;

use super::failure::Failure;
use super::node::{Node, Object};
use super::resource::{Documents, PlaceId};
use super::subschema::{Conditions, SchemaId, Subschema, type_name};
use super::unevaluated::Unevaluated;
use super::url::{encode, escape_token};
use super::words::{display, grouped, quote};

/// Maximum nesting of applied schemas.
const MAX_DEPTH: usize = 10_000;
/// Maximum number of steps of a validation. A step is one schema applied to one value, or a comparable amount of work.
const MAX_STEPS: usize = if cfg!(test) { 500_000 } else { 20_000_000 };

/// Error of a step; empty in the first pass.
pub(super) type Failed = Box<Failure>;

/// Validation of one value.
pub(super) struct Validator<'s> {
    schemas: &'s [Subschema],
    /// Documents, for the addresses of schemas in a reference cycle.
    documents: &'s Documents,
    meta: Option<Meta<'s>>,
    /// Place in the checked document, if the value is itself a schema.
    at: Option<PlaceId>,
    is_start: bool,
    /// Whether errors are collected (second pass).
    pub(super) explains: bool,
    /// JSON pointer of the current value, in the second pass.
    pub(super) location: String,
    /// For each schema, the number of the value that it is being applied to.
    active: Vec<usize>,
    /// Counter from which values get their numbers.
    values: usize,
    /// Resources being applied, outermost first, each with the first of its schemas that was applied.
    dynamic_scope: Vec<(SchemaId, SchemaId)>,
    /// Position of each resource in the dynamic scope.
    positions: HashMap<SchemaId, usize>,
    /// Start of the current value's dynamic scope.
    base: usize,
    depth: usize,
    steps: usize,
}

/// Context for checking a schema against its metaschema.
///
/// Resources embedded in the schema may select another metaschema.
#[derive(Clone, Copy)]
pub(super) struct Meta<'s> {
    pub(super) documents: &'s Documents,
    pub(super) switches: &'s HashMap<PlaceId, SchemaId>,
    pub(super) root: PlaceId,
    pub(super) schema: SchemaId,
}

/// A schema being applied, with the schemas that led to it.
pub(super) struct Scope<'p> {
    schema: SchemaId,
    /// Keyword of the reference that led here.
    keyword: Option<&'static str>,
    value: usize,
    parent: Option<&'p Scope<'p>>,
}

impl<'s> Validator<'s> {
    pub(super) fn new(schemas: &'s [Subschema], documents: &'s Documents) -> Self {
        Self {
            schemas,
            documents,
            meta: None,
            at: None,
            is_start: false,
            explains: false,
            location: String::new(),
            active: vec![0; schemas.len()],
            values: 0,
            dynamic_scope: Vec::new(),
            positions: HashMap::new(),
            base: 0,
            depth: 0,
            steps: 0,
        }
    }

    /// Creates a validator that checks a schema against its metaschema.
    pub(super) fn of_schemas(schemas: &'s [Subschema], meta: Meta<'s>) -> Self {
        Self { meta: Some(meta), ..Self::new(schemas, meta.documents) }
    }

    /// Validates a value: `None` if it is valid, otherwise its errors. Fails if that takes too many steps.
    pub(super) fn check(mut self, schema: SchemaId, value: &Node) -> Result<Option<String>, String> {
        let mut outcome = self.start(schema, value);
        if outcome.is_err() && !self.is_exhausted() {
            self.explains = true;
            self.steps = 0;
            outcome = self.start(schema, value);
        }
        if self.is_exhausted() {
            return Err("unable to validate schema: validation exceeds the step limit".to_owned());
        }
        Ok(outcome.err().map(|failure| failure.print()))
    }

    /// Applies the initial schema, which is never switched to another metaschema.
    fn start(&mut self, schema: SchemaId, value: &Node) -> Result<(), Failed> {
        self.is_start = true;
        self.apply_fresh(schema, value)
    }

    fn is_exhausted(&self) -> bool {
        self.steps > MAX_STEPS
    }

    /// Counts work other than applying a schema.
    pub(super) fn charge(&mut self, work: usize) {
        self.steps = self.steps.saturating_add(work / 16);
    }

    #[expect(clippy::indexing_slicing, reason = "the compiler makes all ids")]
    pub(super) fn schema(&self, id: SchemaId) -> &'s Subschema {
        &self.schemas[id.0]
    }

    /// Applies a schema to a value with a dynamic scope of its own.
    pub(super) fn apply_fresh(&mut self, schema: SchemaId, value: &Node) -> Result<(), Failed> {
        let root = self.meta.filter(|meta| !meta.switches.is_empty()).map(|meta| meta.root);
        let at = std::mem::replace(&mut self.at, root);
        let base = std::mem::replace(&mut self.base, self.dynamic_scope.len());
        let location = std::mem::take(&mut self.location);
        let scope = Scope { schema, keyword: None, value: self.next_value(), parent: None };
        let outcome = self.apply(value, &scope, false).map(drop);
        (self.at, self.base, self.location) = (at, base, location);
        outcome
    }

    fn next_value(&mut self) -> usize {
        self.values += 1;
        self.values
    }

    /// Applies another schema to the same value.
    pub(super) fn apply_same(
        &mut self,
        schema: SchemaId,
        keyword: Option<&'static str>,
        value: &Node,
        scope: &Scope<'_>,
        unevaluated: &mut Unevaluated,
    ) -> Result<(), Failed> {
        let inner = Scope { schema, keyword, value: scope.value, parent: Some(scope) };
        let evaluated = self.apply(value, &inner, !unevaluated.is_empty())?;
        unevaluated.merge(&evaluated);
        Ok(())
    }

    /// As [`Self::apply_same`], but only returns whether the value is valid.
    fn meets(
        &mut self,
        schema: SchemaId,
        value: &Node,
        scope: &Scope<'_>,
        unevaluated: &mut Unevaluated,
    ) -> bool {
        let explains = std::mem::replace(&mut self.explains, false);
        let outcome = self.apply_same(schema, None, value, scope, unevaluated);
        self.explains = explains;
        outcome.is_ok()
    }

    /// Applies a schema to a member or item of the current value.
    pub(super) fn apply_within(
        &mut self,
        schema: SchemaId,
        value: &Node,
        token: impl AsRef<str>,
        scope: &Scope<'_>,
    ) -> Result<(), Failed> {
        let token = token.as_ref();
        let length = self.location.len();
        if self.explains {
            self.location.push('/');
            self.location.push_str(&escape_token(token));
        }
        let at = self.at;
        self.at = at.and_then(|at| self.meta?.documents.known_child(at, token));
        let inner = Scope { schema, keyword: None, value: self.next_value(), parent: Some(scope) };
        let outcome = self.apply(value, &inner, false);
        self.at = at;
        self.location.truncate(length);
        outcome.map(drop)
    }

    fn apply(&mut self, value: &Node, scope: &Scope<'_>, caller_needs: bool) -> Result<Unevaluated, Failed> {
        self.steps += 1;
        if self.depth >= MAX_DEPTH {
            self.steps = usize::MAX;
        }
        if self.is_exhausted() {
            return Err(Failed::default());
        }
        let named = self.schema(scope.schema);
        let unevaluated = Unevaluated::new(value, named, caller_needs);
        self.charge(unevaluated.count());
        match named.always {
            Some(true) => return Ok(unevaluated),
            Some(false) => return Err(self.failure(|| "false schema".to_owned())),
            None => {}
        }
        let before = match self.active.get_mut(scope.schema.0) {
            Some(active) => std::mem::replace(active, scope.value),
            None => 0,
        };
        if before == scope.value {
            return Err(self.failure(|| self.cycle(scope)));
        }
        let outer_meta = self.meta;
        let schema = self.switched(scope.schema).map_or(named, |other| self.schema(other));
        let position = self.enter_resource(scope.schema);
        self.depth += 1;
        let outcome = super::deeper(|| self.keywords(schema, value, scope, unevaluated));
        self.depth -= 1;
        if let Some(position) = position {
            self.leave_resource(position);
        }
        if let Some(active) = self.active.get_mut(scope.schema.0) {
            *active = before;
        }
        self.meta = outer_meta;
        outcome
    }

    /// Returns the metaschema that an embedded resource of the checked schema selects.
    fn switched(&mut self, schema: SchemaId) -> Option<SchemaId> {
        let is_start = std::mem::take(&mut self.is_start);
        let meta = self.meta.as_mut().filter(|meta| meta.schema == schema && !is_start)?;
        let chosen = *meta.switches.get(&self.at?)?;
        meta.schema = chosen;
        Some(chosen)
    }

    /// Adds the schema's resource to the dynamic scope, unless present. Returns its position in an outer value's scope.
    fn enter_resource(&mut self, schema: SchemaId) -> Option<Option<usize>> {
        let resource = self.schema(schema).resource;
        let position = self.positions.get(&resource).copied();
        if position.is_some_and(|position| position >= self.base) {
            return None;
        }
        self.positions.insert(resource, self.dynamic_scope.len());
        self.dynamic_scope.push((resource, schema));
        Some(position)
    }

    fn leave_resource(&mut self, outer: Option<usize>) {
        let Some((resource, _)) = self.dynamic_scope.pop() else { return };
        match outer {
            Some(position) => self.positions.insert(resource, position),
            None => self.positions.remove(&resource),
        };
    }

    fn keywords(
        &mut self,
        schema: &'s Subschema,
        value: &Node,
        scope: &Scope<'_>,
        mut unevaluated: Unevaluated,
    ) -> Result<Unevaluated, Failed> {
        self.value_keywords(schema, value)?;
        let mut failures = Vec::new();
        if let Some(target) = schema.reference {
            let outcome = self.reference(target, "$ref", value, scope, &mut unevaluated);
            if schema.draft.ref_hides_siblings() {
                return outcome.map(|()| unevaluated);
            }
            failures.extend(outcome.err());
        }
        match value {
            Node::Object(object) => {
                if let Some(rules) = &schema.object {
                    self.object(rules, object, value, scope, &mut unevaluated, &mut failures);
                }
            }
            Node::Array(items) => {
                if let Some(rules) = &schema.array {
                    self.array(schema.draft, rules, items, scope, &mut unevaluated, &mut failures);
                }
            }
            Node::String(text) => {
                if let Some(rules) = &schema.string {
                    self.string(rules, text, &mut failures);
                }
            }
            Node::Number(number) => {
                if let Some(rules) = &schema.number {
                    self.number(rules, number, &mut failures);
                }
            }
            Node::Null | Node::Bool(_) => {}
        }
        if failures.is_empty() || self.explains {
            self.dynamic_references(schema, value, scope, &mut unevaluated, &mut failures);
            self.conditions(&schema.conditions, value, scope, &mut unevaluated, &mut failures);
            self.unevaluated(schema, value, scope, &mut unevaluated, &mut failures);
        }
        let first = failures.pop();
        match first {
            None => Ok(unevaluated),
            Some(only) if failures.is_empty() => Err(only),
            Some(last) => {
                failures.push(last);
                let causes = failures.into_iter().map(|failure| *failure).collect();
                Err(Box::new(Failure::group(&self.location, causes)))
            }
        }
    }

    /// Checks the keywords whose failure suppresses all others.
    fn value_keywords(&mut self, schema: &'s Subschema, value: &Node) -> Result<(), Failed> {
        if !schema.types.is_empty() && !schema.types.allow(value) {
            let message = || format!("got {}, want {}", type_name(value), schema.types.names().join(" or "));
            return Err(self.failure(message));
        }
        if let Some(constant) = &schema.constant
            && !value.equals(constant)
        {
            return Err(self.failure(|| match constant.is_container() {
                true => "'const' failed".to_owned(),
                false => format!("value must be {}", display(constant)),
            }));
        }
        if let Some(values) = &schema.enumeration {
            self.charge(values.len());
            if !values.iter().any(|wanted| value.equals(wanted)) {
                return Err(self.failure(|| enumeration(values)));
            }
        }
        if let (Some(format), Node::String(text)) = (schema.format, value)
            && let Err(why) = (format.check)(text)
        {
            return Err(self.failure(|| format!("{} is not valid {}: {why}", quote(text), format.name)));
        }
        Ok(())
    }

    fn reference(
        &mut self,
        target: SchemaId,
        keyword: &'static str,
        value: &Node,
        scope: &Scope<'_>,
        unevaluated: &mut Unevaluated,
    ) -> Result<(), Failed> {
        self.apply_same(target, Some(keyword), value, scope, unevaluated)
            .map_err(|failure| Box::new(Failure::behind_reference(&self.location, *failure)))
    }

    /// Applies `$recursiveRef` and `$dynamicRef`, which the outermost resource may redirect.
    fn dynamic_references(
        &mut self,
        schema: &'s Subschema,
        value: &Node,
        scope: &Scope<'_>,
        unevaluated: &mut Unevaluated,
        failures: &mut Vec<Failed>,
    ) {
        let in_scope = self.base..;
        if let Some(target) = schema.recursive_ref {
            let mut scopes = self.dynamic_scope.get(in_scope.clone()).unwrap_or_default().iter();
            let outermost = scopes.find(|(resource, _)| self.schema(*resource).recursive_anchor);
            let target = match outermost {
                Some((_, schema)) if self.schema(target).recursive_anchor => *schema,
                _ => target,
            };
            failures.extend(self.reference(target, "$recursiveRef", value, scope, unevaluated).err());
        }
        if let Some((target, anchor)) = &schema.dynamic_ref {
            let mut scopes = self.dynamic_scope.get(in_scope).unwrap_or_default().iter();
            let is_dynamic =
                !anchor.is_empty() && self.schema(*target).dynamic_anchor.as_ref() == Some(anchor);
            let anchored = |resource: SchemaId| self.schema(resource).dynamic_anchors.get(anchor).copied();
            let outermost = scopes.find_map(|(resource, _)| anchored(*resource)).filter(|_| is_dynamic);
            let target = outermost.unwrap_or(*target);
            failures.extend(self.reference(target, "$dynamicRef", value, scope, unevaluated).err());
        }
    }

    fn conditions(
        &mut self,
        conditions: &'s Conditions,
        value: &Node,
        scope: &Scope<'_>,
        unevaluated: &mut Unevaluated,
        failures: &mut Vec<Failed>,
    ) {
        if let Some(not) = conditions.not
            && self.meets(not, value, scope, unevaluated)
        {
            failures.push(self.failure(|| "'not' failed".to_owned()));
        }
        let mut causes = Vec::new();
        for schema in &conditions.all_of {
            causes.extend(self.apply_same(*schema, None, value, scope, unevaluated).err());
            if !causes.is_empty() && !self.explains {
                break;
            }
        }
        if !causes.is_empty() {
            failures.push(self.failure_of(|| "'allOf' failed".to_owned(), causes));
        }
        if !conditions.any_of.is_empty() {
            let mut causes = Vec::new();
            let mut matched = false;
            for schema in &conditions.any_of {
                match self.apply_same(*schema, None, value, scope, unevaluated) {
                    Err(failure) => causes.push(failure),
                    Ok(()) => {
                        matched = true;
                        // Another schema may evaluate what is still unevaluated.
                        if unevaluated.is_empty() {
                            break;
                        }
                    }
                }
            }
            if !matched {
                failures.push(self.failure_of(|| "'anyOf' failed".to_owned(), causes));
            }
        }
        if !conditions.one_of.is_empty() {
            failures.extend(self.one_of(&conditions.one_of, value, scope, unevaluated).err());
        }
        if let Some(condition) = conditions.condition {
            let met = self.meets(condition, value, scope, unevaluated);
            if let Some(branch) = if met { conditions.then } else { conditions.otherwise } {
                failures.extend(self.apply_same(branch, None, value, scope, unevaluated).err());
            }
        }
    }

    fn one_of(
        &mut self,
        schemas: &[SchemaId],
        value: &Node,
        scope: &Scope<'_>,
        unevaluated: &mut Unevaluated,
    ) -> Result<(), Failed> {
        let mut causes = Vec::new();
        let mut matched = None;
        for (index, schema) in (0..).zip(schemas) {
            if let Some(first) = matched {
                if self.meets(*schema, value, scope, unevaluated) {
                    let (first, second) = (grouped(first), grouped(index));
                    let message = || format!("'oneOf' failed, subschemas {first}, {second} matched");
                    return Err(self.failure(message));
                }
                continue;
            }
            match self.apply_same(*schema, None, value, scope, unevaluated) {
                Ok(()) => matched = Some(index),
                Err(failure) => causes.push(failure),
            }
        }
        match matched {
            Some(_) => Ok(()),
            None => Err(self.failure_of(|| "'oneOf' failed, none matched".to_owned(), causes)),
        }
    }

    fn unevaluated(
        &mut self,
        schema: &Subschema,
        value: &Node,
        scope: &Scope<'_>,
        unevaluated: &mut Unevaluated,
        failures: &mut Vec<Failed>,
    ) {
        match (value, schema.unevaluated_properties, schema.unevaluated_items) {
            (Node::Object(object), Some(rest), _) => {
                let object: &Object = object;
                for (_, (name, value)) in unevaluated.take().zip(object).filter(|(is_left, _)| *is_left) {
                    failures.extend(self.apply_within(rest, value, name, scope).err());
                }
            }
            (Node::Array(items), _, Some(rest)) => {
                let left = unevaluated.take().zip(items.iter().enumerate()).filter(|(is_left, _)| *is_left);
                for (_, (index, value)) in left {
                    failures.extend(self.apply_within(rest, value, index.to_string(), scope).err());
                }
            }
            _ => {}
        }
    }

    /// Builds an error of the current value, without a message in the first pass.
    pub(super) fn failure(&self, message: impl FnOnce() -> String) -> Failed {
        self.failure_of(message, Vec::new())
    }

    pub(super) fn failure_of(&self, message: impl FnOnce() -> String, causes: Vec<Failed>) -> Failed {
        if !self.explains {
            return Failed::default();
        }
        let causes = causes.into_iter().map(|cause| *cause).collect();
        Box::new(Failure::new(&self.location, message(), causes))
    }

    /// Builds the message for a schema that is applied to the same value again while being applied.
    fn cycle(&self, scope: &Scope<'_>) -> String {
        let mut outer = scope.parent;
        while let Some(earlier) = outer.filter(|earlier| earlier.schema != scope.schema) {
            outer = earlier.parent;
        }
        let second = outer.map(|outer| self.keyword_location(outer)).unwrap_or_default();
        let place = self.schema(scope.schema).place;
        let url = place.map(|place| self.documents.location(place)).unwrap_or_default();
        format!(
            "both {} and {second} resolve to {} causing reference cycle",
            self.keyword_location(scope),
            super::url::quote(&url)
        )
    }

    /// Returns the path of keywords from the root to a schema.
    fn keyword_location(&self, scope: &Scope<'_>) -> String {
        let mut steps = Vec::new();
        let mut inner = scope;
        while let Some(parent) = inner.parent {
            steps.push(match inner.keyword {
                Some(keyword) => format!("/{keyword}"),
                None => self.steps_between(parent.schema, inner.schema),
            });
            inner = parent;
        }
        steps.reverse();
        steps.concat()
    }

    /// Returns the tokens from a schema to one nested in it.
    fn steps_between(&self, outer: SchemaId, inner: SchemaId) -> String {
        let (outer, mut at) = (self.schema(outer).place, self.schema(inner).place);
        let mut tokens = Vec::new();
        while let Some((parent, token)) = at.filter(|_| at != outer).and_then(|at| self.documents.parent(at))
        {
            tokens.push(format!("/{}", encode(&escape_token(token))));
            at = Some(parent);
        }
        tokens.reverse();
        tokens.concat()
    }
}

fn enumeration(values: &[Node]) -> String {
    if values.iter().any(Node::is_container) {
        return "'enum' failed".to_owned();
    }
    let shown: Vec<String> = values.iter().map(display).collect();
    match shown.as_slice() {
        [one] => format!("value must be {one}"),
        many => format!("value must be one of {}", many.join(", ")),
    }
}
