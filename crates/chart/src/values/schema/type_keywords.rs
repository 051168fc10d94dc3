//! Keywords for specific types: objects, arrays, strings and numbers.

use std::cmp::Ordering;

use super::draft::Draft;
use super::node::{Node, Number, Object, duplicates};
use super::subschema::{Additional, ArrayRules, Dependency, NumberRules, ObjectRules, SchemaId, StringRules};
use super::unevaluated::Unevaluated;
use super::validator::{Failed, Scope, Validator};
use super::words::{float, grouped, quote, quoted_list};

/// Converts a length for error messages.
fn size(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

impl Validator<'_> {
    /// Whether the first pass, which only needs a yes or no, is decided.
    fn is_decided(&self, failures: &[Failed]) -> bool {
        !self.explains && !failures.is_empty()
    }

    /// Checks a limit on the number of members, items or characters.
    fn limit(
        &self,
        keyword: &str,
        got: usize,
        wanted: Option<i64>,
        broken: Ordering,
        failures: &mut Vec<Failed>,
    ) {
        let got = size(got);
        if let Some(wanted) = wanted.filter(|wanted| got.cmp(wanted) == broken) {
            let message = || format!("{keyword}: got {}, want {}", grouped(got), grouped(wanted));
            failures.push(self.failure(message));
        }
    }

    pub(super) fn object(
        &mut self,
        rules: &ObjectRules,
        object: &Object,
        value: &Node,
        scope: &Scope<'_>,
        unevaluated: &mut Unevaluated,
        failures: &mut Vec<Failed>,
    ) {
        self.limit("minProperties", object.len(), rules.min_properties, Ordering::Less, failures);
        self.limit("maxProperties", object.len(), rules.max_properties, Ordering::Greater, failures);
        self.charge(rules.required.len());
        let missing = missing(object, &rules.required);
        if !missing.is_empty() {
            failures.push(self.failure(|| match missing.as_slice() {
                [one] => format!("missing property {}", quote(one)),
                many => format!("missing properties {}", quoted_list(many.iter().copied())),
            }));
        }
        if self.is_decided(failures) {
            return;
        }
        for (name, dependency) in rules.dependencies.iter().filter(|(name, _)| object.contains_key(name)) {
            match dependency {
                Dependency::Required(names) => failures.extend(self.dependent(object, name, names)),
                Dependency::Schema(schema) => {
                    failures.extend(self.apply_same(*schema, None, value, scope, unevaluated).err());
                }
            }
        }
        self.properties(rules, object, scope, unevaluated, failures);
        if self.is_decided(failures) {
            return;
        }
        if let Some(schema) = rules.property_names {
            self.property_names(schema, object, failures);
        }
        for (name, schema) in &rules.dependent_schemas {
            if object.contains_key(name) {
                failures.extend(self.apply_same(*schema, None, value, scope, unevaluated).err());
            }
        }
        for (name, names) in rules.dependent_required.iter().filter(|(name, _)| object.contains_key(name)) {
            failures.extend(self.dependent(object, name, names));
        }
    }

    /// Checks the properties that another property requires.
    fn dependent(&self, object: &Object, name: &str, names: &[String]) -> Option<Failed> {
        let missing = missing(object, names);
        let message = || {
            format!("properties {} required, if {} exists", quoted_list(missing.iter().copied()), quote(name))
        };
        (!missing.is_empty()).then(|| self.failure(message))
    }

    fn properties(
        &mut self,
        rules: &ObjectRules,
        object: &Object,
        scope: &Scope<'_>,
        unevaluated: &mut Unevaluated,
        failures: &mut Vec<Failed>,
    ) {
        let mut refused = Vec::new();
        for (index, (name, value)) in object.iter().enumerate() {
            if self.is_decided(failures) {
                return;
            }
            let mut is_evaluated = false;
            if let Some(schema) = rules.properties.get(name) {
                is_evaluated = true;
                failures.extend(self.apply_within(*schema, value, name, scope).err());
            }
            if !rules.pattern_properties.is_empty() {
                self.charge(rules.pattern_properties.len() * (16 + name.len()));
            }
            for (_, schema) in rules.pattern_properties.iter().filter(|(regex, _)| regex.is_match(name)) {
                is_evaluated = true;
                failures.extend(self.apply_within(*schema, value, name, scope).err());
            }
            match rules.additional_properties.filter(|_| !is_evaluated) {
                None if !is_evaluated => continue,
                None | Some(Additional::Allowed(true)) => {}
                Some(Additional::Allowed(false)) => refused.push(name.as_str()),
                Some(Additional::Schema(schema)) => {
                    failures.extend(self.apply_within(schema, value, name, scope).err());
                }
            }
            unevaluated.evaluate(index);
        }
        if !refused.is_empty() {
            let message = || format!("additional properties {} not allowed", quoted_list(refused));
            failures.push(self.failure(message));
        }
    }

    fn property_names(&mut self, schema: SchemaId, object: &Object, failures: &mut Vec<Failed>) {
        for name in object.keys() {
            if let Err(failure) = self.apply_fresh(schema, &Node::String(name.clone())) {
                let causes = failure.into_causes().into_iter().map(Box::new).collect();
                failures.push(self.failure_of(|| format!("invalid propertyName {}", quote(name)), causes));
            }
            if self.is_decided(failures) {
                return;
            }
        }
    }

    pub(super) fn array(
        &mut self,
        draft: Draft,
        rules: &ArrayRules,
        items: &[Node],
        scope: &Scope<'_>,
        unevaluated: &mut Unevaluated,
        failures: &mut Vec<Failed>,
    ) {
        self.limit("minItems", items.len(), rules.min_items, Ordering::Less, failures);
        self.limit("maxItems", items.len(), rules.max_items, Ordering::Greater, failures);
        if rules.unique_items
            && let Some((first, second)) = duplicates(items)
        {
            let (first, second) = (grouped(size(first)), grouped(size(second)));
            failures.push(self.failure(|| format!("items at {first} and {second} are equal")));
        }
        for (schema, (index, item)) in rules.prefix.iter().zip(items.iter().enumerate()) {
            failures.extend(self.apply_within(*schema, item, index.to_string(), scope).err());
        }
        let indexed = items.iter().enumerate().skip(rules.prefix.len());
        match rules.rest {
            Some(Additional::Allowed(false)) if indexed.len() > 0 => {
                let count = grouped(size(indexed.len()));
                failures.push(self.failure(|| format!("last {count} additionalItem(s) not allowed")));
            }
            Some(Additional::Schema(schema)) => {
                for (index, item) in indexed {
                    if self.is_decided(failures) {
                        return;
                    }
                    failures.extend(self.apply_within(schema, item, index.to_string(), scope).err());
                }
            }
            Some(Additional::Allowed(_)) | None => {}
        }
        if let Some(schema) = rules.contains {
            self.contains(draft, rules, schema, items, scope, unevaluated, failures);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what `array` has, and the schema")]
    fn contains(
        &mut self,
        draft: Draft,
        rules: &ArrayRules,
        schema: SchemaId,
        items: &[Node],
        scope: &Scope<'_>,
        unevaluated: &mut Unevaluated,
        failures: &mut Vec<Failed>,
    ) {
        let mut causes = Vec::new();
        let mut matched = Vec::new();
        for (index, item) in items.iter().enumerate() {
            match self.apply_within(schema, item, index.to_string(), scope) {
                Err(failure) => causes.push(failure),
                Ok(()) => {
                    matched.push(index);
                    if draft >= Draft::V2020 {
                        unevaluated.evaluate(index);
                    }
                }
            }
        }
        let count = size(matched.len());
        let places = || {
            let places: Vec<String> = matched.iter().map(usize::to_string).collect();
            format!("{} items at {}", grouped(count), places.join(" "))
        };
        let required = "items required to match contains schema, but";
        match rules.min_contains {
            Some(wanted) if count < wanted => {
                let message = || match count {
                    0 => format!("min {} {required} none matched", grouped(wanted)),
                    _ => format!("min {} {required} matched {}", grouped(wanted), places()),
                };
                failures.push(self.failure_of(message, causes));
            }
            None if count == 0 => {
                failures.push(self.failure_of(|| "no items match contains schema".to_owned(), causes));
            }
            _ => {}
        }
        if let Some(wanted) = rules.max_contains.filter(|wanted| count > *wanted) {
            let message = || format!("max {} {required} matched {}", grouped(wanted), places());
            failures.push(self.failure(message));
        }
    }

    pub(super) fn string(&mut self, rules: &StringRules, text: &str, failures: &mut Vec<Failed>) {
        if rules.min_length.is_some() || rules.max_length.is_some() {
            let length = text.chars().count();
            self.limit("minLength", length, rules.min_length, Ordering::Less, failures);
            self.limit("maxLength", length, rules.max_length, Ordering::Greater, failures);
        }
        if let Some(pattern) = &rules.pattern {
            self.charge(text.len());
            if !pattern.regex.is_match(text) {
                let message = || format!("{} does not match pattern {}", quote(text), pattern.quoted());
                failures.push(self.failure(message));
            }
        }
    }

    pub(super) fn number(&self, rules: &NumberRules, got: &Number, failures: &mut Vec<Failed>) {
        let mut check = |keyword: &str, wanted: &Option<Number>, breaks: &dyn Fn(&Number) -> bool| {
            if let Some(wanted) = wanted.as_ref().filter(|wanted| breaks(wanted)) {
                let message =
                    || format!("{keyword}: got {}, want {}", float(got.as_f64()), float(wanted.as_f64()));
                failures.push(self.failure(message));
            }
        };
        let is = |wanted: &Number, orders: &[Ordering]| {
            got.compare(wanted).is_some_and(|order| orders.contains(&order))
        };
        check("minimum", &rules.minimum, &|wanted| is(wanted, &[Ordering::Less]));
        check("maximum", &rules.maximum, &|wanted| is(wanted, &[Ordering::Greater]));
        let or_equal = |order| [order, Ordering::Equal];
        check("exclusiveMinimum", &rules.exclusive_minimum, &|wanted| is(wanted, &or_equal(Ordering::Less)));
        check("exclusiveMaximum", &rules.exclusive_maximum, &|wanted| {
            is(wanted, &or_equal(Ordering::Greater))
        });
        check("multipleOf", &rules.multiple_of, &|wanted| match (got.decimal(), wanted.decimal()) {
            (Some(got), Some(wanted)) => !got.is_multiple_of(&wanted),
            _ => false,
        });
    }
}

fn missing<'n>(object: &Object, names: &'n [String]) -> Vec<&'n str> {
    names.iter().map(String::as_str).filter(|name| !object.contains_key(*name)).collect()
}
