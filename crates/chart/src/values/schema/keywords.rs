//! Decodes the keywords of a schema, depending on draft and vocabularies.

use super::compiler::Keywords;
use super::decimal::Decimal;
use super::draft::Draft;
use super::format;
use super::node::{Node, Number};
use super::subschema::{
    Additional, ArrayRules, Dependency, NumberRules, ObjectRules, Pattern, StringRules, Subschema, Types,
};
use super::url::{quote, split_fragment};

impl Keywords<'_, '_, '_> {
    pub(super) fn compile(&mut self, schema: &mut Subschema) -> Result<(), String> {
        let draft = self.dialect.draft;
        let mut object = ObjectRules::default();
        let mut array = ArrayRules::default();
        schema.reference = self.reference("$ref")?;
        let is_hidden = draft.ref_hides_siblings() && schema.reference.is_some();
        if !is_hidden {
            self.draft4(schema, &mut object, &mut array)?;
        }
        // Keywords of later drafts are read beside a `$ref` too; only `const` of these has an effect there.
        if draft >= Draft::V6 {
            if self.dialect.has("applicator") {
                array.contains = self.one("contains");
                object.property_names = self.one("propertyNames");
            }
            if self.dialect.has("validation") {
                schema.constant = self.get("const").cloned();
            }
        }
        if draft >= Draft::V7 && self.dialect.has("applicator") {
            schema.conditions.condition = self.one("if");
            if schema.conditions.condition.is_some() {
                let always = self.boolean("if");
                schema.conditions.then = if always == Some(false) { None } else { self.one("then") };
                schema.conditions.otherwise = if always == Some(true) { None } else { self.one("else") };
            }
        }
        if draft >= Draft::V2019 {
            self.draft2019(schema, &mut object, &mut array)?;
        }
        if draft >= Draft::V2020 {
            self.draft2020(schema, &mut array)?;
        }
        schema.evaluates.all_properties = object.additional_properties.is_some();
        schema.evaluates.all_items = array.rest.is_some();
        schema.evaluates.first_items = array.prefix.len();
        schema.object = object.is_used().then(|| Box::new(object));
        schema.array = array.is_used().then(|| Box::new(array));
        Ok(())
    }

    fn draft4(
        &mut self,
        schema: &mut Subschema,
        object: &mut ObjectRules,
        array: &mut ArrayRules,
    ) -> Result<(), String> {
        if self.dialect.has("applicator") {
            schema.conditions.all_of = self.items("allOf");
            schema.conditions.any_of = self.items("anyOf");
            schema.conditions.one_of = self.items("oneOf");
            schema.conditions.not = self.one("not");
            if self.dialect.draft < Draft::V2020 {
                if self.array("items").is_some() {
                    array.prefix = self.items("items");
                    array.rest = self.additional("additionalItems");
                } else {
                    array.rest = self.one("items").map(Additional::Schema);
                }
            }
            object.properties = self.members("properties").into_iter().collect();
            for (pattern, schema) in self.members("patternProperties") {
                object.pattern_properties.push((self.pattern("patternProperties", &pattern)?, schema));
            }
            object.additional_properties = self.additional("additionalProperties");
            object.dependencies = self.dependencies();
        }
        if self.dialect.has("validation") {
            self.assertions(schema, object, array)?;
        }
        if self.asserts_format {
            schema.format = self.get("format").and_then(Node::as_str).and_then(format::find);
        }
        Ok(())
    }

    fn assertions(
        &self,
        schema: &mut Subschema,
        object: &mut ObjectRules,
        array: &mut ArrayRules,
    ) -> Result<(), String> {
        schema.types = self.get("type").map(Types::decode).unwrap_or_default();
        schema.enumeration = self.array("enum").map(<[Node]>::to_vec);
        let mut number = NumberRules { multiple_of: self.number("multipleOf"), ..NumberRules::default() };
        // In draft 4 the exclusive bounds are booleans that modify the inclusive ones.
        let bounds = |keyword: &str, exclusive: &str| match self.boolean(exclusive) {
            Some(true) => (None, self.number(keyword)),
            _ => (self.number(keyword), self.number(exclusive)),
        };
        (number.maximum, number.exclusive_maximum) = bounds("maximum", "exclusiveMaximum");
        (number.minimum, number.exclusive_minimum) = bounds("minimum", "exclusiveMinimum");
        schema.number = number.is_used().then(|| Box::new(number));
        let mut string = StringRules {
            min_length: self.whole("minLength"),
            max_length: self.whole("maxLength"),
            pattern: None,
        };
        if let Some(pattern) = self.get("pattern").and_then(Node::as_str) {
            string.pattern = Some(Pattern::new(self.pattern("pattern", pattern)?, pattern));
        }
        schema.string = string.is_used().then(|| Box::new(string));
        array.min_items = self.whole("minItems");
        array.max_items = self.whole("maxItems");
        array.unique_items = self.boolean("uniqueItems") == Some(true);
        object.max_properties = self.whole("maxProperties");
        object.min_properties = self.whole("minProperties");
        object.required = self.array("required").map(strings).unwrap_or_default();
        Ok(())
    }

    fn draft2019(
        &mut self,
        schema: &mut Subschema,
        object: &mut ObjectRules,
        array: &mut ArrayRules,
    ) -> Result<(), String> {
        schema.recursive_ref = self.reference("$recursiveRef")?;
        schema.recursive_anchor = self.boolean("$recursiveAnchor") == Some(true);
        if self.dialect.has("validation") {
            if array.contains.is_some() {
                array.min_contains = self.whole("minContains");
                array.max_contains = self.whole("maxContains");
            }
            let required = self.get("dependentRequired").and_then(Node::as_object);
            object.dependent_required = required
                .into_iter()
                .flatten()
                .filter_map(|(key, names)| Some((key.clone(), strings(names.as_array()?))))
                .collect();
        }
        if self.dialect.has("applicator") {
            object.dependent_schemas = self.members("dependentSchemas");
        }
        let vocabulary = if self.dialect.draft == Draft::V2019 { "applicator" } else { "unevaluated" };
        if self.dialect.has(vocabulary) {
            schema.unevaluated_items = self.one("unevaluatedItems");
            schema.unevaluated_properties = self.one("unevaluatedProperties");
        }
        Ok(())
    }

    fn draft2020(&mut self, schema: &mut Subschema, array: &mut ArrayRules) -> Result<(), String> {
        if let Some(target) = self.reference("$dynamicRef")? {
            let reference = self.get("$dynamicRef").and_then(Node::as_str).unwrap_or_default();
            let (_, fragment) = split_fragment(reference)?;
            let anchor = if fragment.starts_with('/') { String::new() } else { fragment };
            schema.dynamic_ref = Some((target, anchor));
        }
        schema.dynamic_anchor = self.get("$dynamicAnchor").and_then(Node::as_str).map(str::to_owned);
        if self.dialect.has("applicator") {
            array.prefix = self.items("prefixItems");
            array.rest = self.one("items").map(Additional::Schema);
        }
        Ok(())
    }

    fn dependencies(&mut self) -> Vec<(String, Dependency)> {
        let entries = self.get("dependencies").and_then(Node::as_object).into_iter().flatten();
        let decode = |(key, value): (&String, &Node)| {
            let dependency = match value.as_array() {
                Some(names) => Dependency::Required(strings(names)),
                None => Dependency::Schema(self.member("dependencies", key)?),
            };
            Some((key.clone(), dependency))
        };
        entries.filter_map(decode).collect()
    }

    fn additional(&mut self, keyword: &str) -> Option<Additional> {
        match self.boolean(keyword) {
            Some(allowed) => Some(Additional::Allowed(allowed)),
            None => self.one(keyword).map(Additional::Schema),
        }
    }

    fn pattern(&self, keyword: &str, pattern: &str) -> Result<regex::Regex, String> {
        steersman_regexp::compile(pattern).map_err(|error| {
            format!("invalid regex {} at {}: {error}", quote(pattern), quote(&self.location(keyword)))
        })
    }

    fn boolean(&self, keyword: &str) -> Option<bool> {
        match self.get(keyword)? {
            Node::Bool(value) => Some(*value),
            _ => None,
        }
    }

    fn array(&self, keyword: &str) -> Option<&[Node]> {
        self.get(keyword)?.as_array()
    }

    fn number(&self, keyword: &str) -> Option<Number> {
        match self.get(keyword)? {
            Node::Number(number) => number.decimal().map(|_| number.clone()),
            _ => None,
        }
    }

    /// Returns an integer, which may be written as 3.0.
    fn whole(&self, keyword: &str) -> Option<i64> {
        match self.number(keyword)? {
            Number::Int(number) => Some(number),
            text @ Number::Text(_) => {
                text.decimal().filter(Decimal::is_integer).map(|number| number.low_bits())
            }
        }
    }
}

fn strings(items: &[Node]) -> Vec<String> {
    items.iter().filter_map(Node::as_str).map(str::to_owned).collect()
}

impl ObjectRules {
    fn is_used(&self) -> bool {
        self.min_properties.is_some()
            || self.max_properties.is_some()
            || !self.required.is_empty()
            || !self.dependencies.is_empty()
            || !self.properties.is_empty()
            || !self.pattern_properties.is_empty()
            || self.additional_properties.is_some()
            || self.property_names.is_some()
            || !self.dependent_schemas.is_empty()
            || !self.dependent_required.is_empty()
    }
}

impl ArrayRules {
    fn is_used(&self) -> bool {
        self.min_items.is_some()
            || self.max_items.is_some()
            || self.unique_items
            || !self.prefix.is_empty()
            || self.rest.is_some()
            || self.contains.is_some()
    }
}

impl StringRules {
    fn is_used(&self) -> bool {
        self.min_length.is_some() || self.max_length.is_some() || self.pattern.is_some()
    }
}

impl NumberRules {
    fn is_used(&self) -> bool {
        self.minimum.is_some()
            || self.maximum.is_some()
            || self.exclusive_minimum.is_some()
            || self.exclusive_maximum.is_some()
            || self.multiple_of.is_some()
    }
}
