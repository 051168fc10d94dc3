//! Why values do not meet a schema, in the words and the order of the validator that Helm uses.

use serde_json::{Map, Value as Json};

use super::documents::Documents;
use super::format;
use super::words::{display, float, grouped, quote};

/// How deep schemas may refer to each other on one value.
const MAX_DEPTH: usize = 200;

/// The reasons, one line each with further ones indented below it; `None` if none was found.
pub(super) fn explain(documents: &Documents, values: &Json) -> Option<String> {
    let checker = Checker { documents, document: documents.root(), depth: 0 };
    let failure = checker.check(documents.root(), values, "")?;
    let mut text = String::new();
    let causes = failure.into_causes();
    for cause in &causes {
        cause.print(1, &mut text);
    }
    Some(text.trim_start_matches('\n').to_owned())
}

/// A reason.
struct Failure {
    /// The JSON pointer of the value.
    at: String,
    message: String,
    kind: Kind,
    causes: Vec<Failure>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    /// Several reasons for one value.
    Group,
    /// A reason behind a reference.
    Reference,
}

impl Failure {
    fn plain(at: &str, message: String, causes: Vec<Failure>) -> Self {
        Self { at: at.to_owned(), message, kind: Kind::Plain, causes }
    }

    /// The reasons themselves, where this only holds several together.
    fn into_causes(self) -> Vec<Failure> {
        if self.kind == Kind::Group { self.causes } else { vec![self] }
    }

    fn print(&self, indent: usize, text: &mut String) {
        let mut inner = indent;
        // A reference to a schema that failed for one reason is not worth a line.
        if self.kind != Kind::Reference || self.causes.len() != 1 {
            let spaces = "  ".repeat(indent - 1);
            text.push_str(&format!("\n{spaces}- at {}: {}", quote(&self.at), self.message));
            inner += 1;
        }
        for cause in &self.causes {
            cause.print(inner, text);
        }
    }
}

#[derive(Clone, Copy)]
struct Checker<'a> {
    documents: &'a Documents,
    /// The document that references without an address point into.
    document: &'a Json,
    depth: usize,
}

impl<'a> Checker<'a> {
    fn check(mut self, schema: &'a Json, value: &Json, at: &str) -> Option<Failure> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let fail = |message: String| Failure::plain(at, message, Vec::new());
        let schema = match schema {
            Json::Bool(false) => return Some(fail("false schema".into())),
            Json::Object(schema) => schema,
            _ => return None,
        };
        let reference = schema.get("$ref").and_then(Json::as_str);
        if let Some(reference) = reference.filter(|_| self.documents.draft() < 2019) {
            // Nothing but a constant counts beside a reference in the older drafts.
            let constant = self.constant(schema, value).map(fail);
            return constant.or_else(|| self.reference(reference, value, at));
        }
        if let Some(message) = self.at_once(schema, value) {
            return Some(fail(message));
        }
        let mut failures = Vec::new();
        failures.extend(reference.and_then(|reference| self.reference(reference, value, at)));
        match value {
            Json::Object(object) => self.object(schema, object, at, &mut failures),
            Json::Array(items) => self.array(schema, items, at, &mut failures),
            Json::String(text) => {
                string(schema, text).into_iter().for_each(|message| failures.push(fail(message)));
            }
            Json::Number(number) => {
                let number = number.as_f64().unwrap_or_default();
                self.number(schema, number).into_iter().for_each(|message| failures.push(fail(message)));
            }
            _ => {}
        }
        if self.documents.draft() >= 2019 {
            for keyword in ["$recursiveRef", "$dynamicRef"] {
                if let Some(reference) = schema.get(keyword).and_then(Json::as_str) {
                    failures.extend(self.dynamic_reference(keyword, reference, value, at));
                }
            }
        }
        self.conditions(schema, value, at, &mut failures);
        if self.documents.draft() >= 2019 {
            self.unevaluated(schema, value, at, &mut failures);
        }
        match failures.len() {
            0 | 1 => failures.pop(),
            _ => Some(Failure {
                at: at.to_owned(),
                message: "validation failed".into(),
                kind: Kind::Group,
                causes: failures,
            }),
        }
    }

    /// What is checked first, and hides all that would be checked after it.
    fn at_once(&self, schema: &Map<String, Json>, value: &Json) -> Option<String> {
        if let Some(wanted) = schema.get("type") {
            let wanted: Vec<&str> = match wanted {
                Json::String(one) => vec![one],
                Json::Array(many) => many.iter().filter_map(Json::as_str).collect(),
                _ => Vec::new(),
            };
            let got = type_of(value);
            let fits = wanted.contains(&got) || (wanted.contains(&"integer") && is_integer(value));
            if !wanted.is_empty() && !fits {
                const ORDER: [&str; 7] =
                    ["null", "boolean", "number", "integer", "string", "array", "object"];
                let wanted: Vec<&str> = ORDER.into_iter().filter(|name| wanted.contains(name)).collect();
                return Some(format!("got {got}, want {}", wanted.join(" or ")));
            }
        }
        if let Some(message) = self.constant(schema, value) {
            return Some(message);
        }
        if let Some(Json::Array(wanted)) = schema.get("enum")
            && !wanted.iter().any(|item| equal(value, item))
        {
            let shown: Vec<String> = wanted.iter().map(display).collect();
            return Some(match shown.as_slice() {
                _ if wanted.iter().any(|item| item.is_array() || item.is_object()) => "'enum' failed".into(),
                [one] => format!("value must be {one}"),
                many => format!("value must be one of {}", many.join(", ")),
            });
        }
        if let (Some(Json::String(format)), Json::String(text)) = (schema.get("format"), value)
            && self.documents.draft() < 2019
            && let Some(why) = format::problem(format, text)
        {
            return Some(format!("{} is not valid {format}: {why}", quote(text)));
        }
        None
    }

    fn constant(&self, schema: &Map<String, Json>, value: &Json) -> Option<String> {
        let wanted =
            schema.get("const").filter(|wanted| self.documents.draft() > 4 && !equal(value, wanted))?;
        Some(match wanted {
            Json::Array(_) | Json::Object(_) => "'const' failed".into(),
            wanted => format!("value must be {}", display(wanted)),
        })
    }

    fn reference(self, reference: &str, value: &Json, at: &str) -> Option<Failure> {
        let (document, schema) = self.documents.resolve(self.document, reference)?;
        self.referred(document, schema, value, at)
    }

    /// A reference that the outermost schema may have taken over.
    fn dynamic_reference(self, keyword: &str, reference: &str, value: &Json, at: &str) -> Option<Failure> {
        let root = self.documents.root();
        let taken_over = match keyword {
            "$recursiveRef" => root.get("$recursiveAnchor") == Some(&Json::Bool(true)),
            _ => root.get("$dynamicAnchor").and_then(Json::as_str) == reference.strip_prefix('#'),
        };
        if taken_over { self.referred(root, root, value, at) } else { self.reference(reference, value, at) }
    }

    fn referred(self, document: &'a Json, schema: &'a Json, value: &Json, at: &str) -> Option<Failure> {
        let failure = Self { document, ..self }.check(schema, value, at)?;
        let causes = failure.into_causes();
        Some(Failure {
            at: at.to_owned(),
            message: "validation failed".into(),
            kind: Kind::Reference,
            causes,
        })
    }

    fn object(
        self,
        schema: &'a Map<String, Json>,
        object: &Map<String, Json>,
        at: &str,
        failures: &mut Vec<Failure>,
    ) {
        let draft = self.documents.draft();
        let plain = |message: String| Failure::plain(at, message, Vec::new());
        let size = object.len() as u64;
        if let Some(wanted) = count(schema, "minProperties").filter(|wanted| size < *wanted) {
            failures.push(plain(format!("minProperties: got {}, want {}", grouped(size), grouped(wanted))));
        }
        if let Some(wanted) = count(schema, "maxProperties").filter(|wanted| size > *wanted) {
            failures.push(plain(format!("maxProperties: got {}, want {}", grouped(size), grouped(wanted))));
        }
        let missing = |wanted: &Json| -> Vec<String> {
            let names = wanted.as_array().into_iter().flatten().filter_map(Json::as_str);
            names.filter(|name| !object.contains_key(*name)).map(quote).collect()
        };
        if let Some(required) = schema.get("required") {
            match missing(required).as_slice() {
                [] => {}
                [one] => failures.push(plain(format!("missing property {one}"))),
                many => failures.push(plain(format!("missing properties {}", many.join(", ")))),
            }
        }
        let required_by = |name: &str, required: &Json| {
            let missing = missing(required);
            let message = format!("properties {} required, if {} exists", missing.join(", "), quote(name));
            (!missing.is_empty()).then(|| plain(message))
        };
        let whole = || Json::Object(object.clone());
        for (name, dependency) in
            entries(schema, "dependencies").filter(|(name, _)| object.contains_key(*name))
        {
            failures.extend(if dependency.is_array() {
                required_by(name, dependency)
            } else {
                self.check(dependency, &whole(), at)
            });
        }
        self.properties(schema, object, at, failures);
        if draft == 4 {
            return;
        }
        if let Some(names) = schema.get("propertyNames") {
            for name in object.keys() {
                if let Some(failure) = self.check(names, &Json::String(name.clone()), "") {
                    let causes = failure.into_causes();
                    failures.push(Failure::plain(
                        at,
                        format!("invalid propertyName {}", quote(name)),
                        causes,
                    ));
                }
            }
        }
        if draft < 2019 {
            return;
        }
        for (_, schema) in entries(schema, "dependentSchemas").filter(|(name, _)| object.contains_key(*name))
        {
            failures.extend(self.check(schema, &whole(), at));
        }
        for (name, required) in
            entries(schema, "dependentRequired").filter(|(name, _)| object.contains_key(*name))
        {
            failures.extend(required_by(name, required));
        }
    }

    fn properties(
        self,
        schema: &'a Map<String, Json>,
        object: &Map<String, Json>,
        at: &str,
        failures: &mut Vec<Failure>,
    ) {
        let patterns: Vec<(regex::Regex, &Json)> = entries(schema, "patternProperties")
            .filter_map(|(pattern, schema)| Some((regex::Regex::new(pattern).ok()?, schema)))
            .collect();
        let properties = schema.get("properties").and_then(Json::as_object);
        let mut additional = Vec::new();
        for (name, value) in object {
            let inner = child(at, name);
            let mut known = false;
            if let Some(schema) = properties.and_then(|properties| properties.get(name)) {
                known = true;
                failures.extend(self.check(schema, value, &inner));
            }
            for (_, schema) in patterns.iter().filter(|(pattern, _)| pattern.is_match(name)) {
                known = true;
                failures.extend(self.check(schema, value, &inner));
            }
            match schema.get("additionalProperties") {
                _ if known => {}
                Some(Json::Bool(false)) => additional.push(quote(name)),
                Some(schema) => failures.extend(self.check(schema, value, &inner)),
                None => {}
            }
        }
        if !additional.is_empty() {
            let message = format!("additional properties {} not allowed", additional.join(", "));
            failures.push(Failure::plain(at, message, Vec::new()));
        }
    }

    fn array(self, schema: &'a Map<String, Json>, items: &[Json], at: &str, failures: &mut Vec<Failure>) {
        let plain = |message: String, causes: Vec<Failure>| Failure::plain(at, message, causes);
        let size = items.len() as u64;
        if let Some(wanted) = count(schema, "minItems").filter(|wanted| size < *wanted) {
            failures.push(plain(
                format!("minItems: got {}, want {}", grouped(size), grouped(wanted)),
                Vec::new(),
            ));
        }
        if let Some(wanted) = count(schema, "maxItems").filter(|wanted| size > *wanted) {
            failures.push(plain(
                format!("maxItems: got {}, want {}", grouped(size), grouped(wanted)),
                Vec::new(),
            ));
        }
        if schema.get("uniqueItems") == Some(&Json::Bool(true))
            && let Some((first, second)) = duplicates(items)
        {
            failures.push(plain(format!("items at {first} and {second} are equal"), Vec::new()));
        }
        let indexed = |from: usize| items.iter().enumerate().skip(from);
        let prefix_keyword = if self.documents.draft() < 2020 { "items" } else { "prefixItems" };
        let rest_keyword = if self.documents.draft() < 2020 { "additionalItems" } else { "items" };
        let prefix = schema.get(prefix_keyword).and_then(Json::as_array);
        let mut evaluated = 0;
        if let Some(prefix) = prefix {
            for ((index, item), schema) in indexed(0).zip(prefix) {
                failures.extend(self.check(schema, item, &child(at, &index.to_string())));
                evaluated = index + 1;
            }
        } else if self.documents.draft() < 2020
            && let Some(schema) = schema.get("items")
        {
            for (index, item) in indexed(0) {
                failures.extend(self.check(schema, item, &child(at, &index.to_string())));
            }
            evaluated = items.len();
        }
        match schema.get(rest_keyword) {
            Some(Json::Bool(false)) if self.documents.draft() < 2020 && evaluated != items.len() => {
                let count = items.len() - evaluated;
                failures.push(plain(format!("last {count} additionalItem(s) not allowed"), Vec::new()));
            }
            Some(schema) if !schema.is_array() => {
                for (index, item) in indexed(evaluated) {
                    failures.extend(self.check(schema, item, &child(at, &index.to_string())));
                }
            }
            _ => {}
        }
        if let Some(contains) = schema.get("contains").filter(|_| self.documents.draft() > 4) {
            let mut causes = Vec::new();
            let mut matched = Vec::new();
            for (index, item) in indexed(0) {
                match self.check(contains, item, &child(at, &index.to_string())) {
                    Some(failure) => causes.push(failure),
                    None => matched.push(index.to_string()),
                }
            }
            let found = matched.len() as u64;
            let places = matched.join(" ");
            match count(schema, "minContains").filter(|_| self.documents.draft() >= 2019) {
                Some(wanted) if found < wanted && found == 0 => failures.push(plain(
                    format!(
                        "min {} items required to match contains schema, but none matched",
                        grouped(wanted)
                    ),
                    causes,
                )),
                Some(wanted) if found < wanted => failures.push(plain(
                    format!(
                        "min {} items required to match contains schema, but matched {} items at {places}",
                        grouped(wanted),
                        grouped(found)
                    ),
                    causes,
                )),
                None if found == 0 => failures.push(plain("no items match contains schema".into(), causes)),
                _ => {}
            }
            let most = count(schema, "maxContains").filter(|_| self.documents.draft() >= 2019);
            if let Some(wanted) = most.filter(|wanted| found > *wanted) {
                failures.push(plain(
                    format!(
                        "max {} items required to match contains schema, but matched {} items at {places}",
                        grouped(wanted),
                        grouped(found)
                    ),
                    Vec::new(),
                ));
            }
        }
    }

    fn number(&self, schema: &Map<String, Json>, got: f64) -> Vec<String> {
        let limit = |keyword: &str| schema.get(keyword).and_then(Json::as_f64);
        let strict = |keyword: &str| schema.get(keyword) == Some(&Json::Bool(true));
        let mut messages = Vec::new();
        let mut check = |keyword: &str, wanted: Option<f64>, fits: &dyn Fn(f64) -> bool| {
            if let Some(wanted) = wanted.filter(|wanted| !fits(*wanted)) {
                messages.push(format!("{keyword}: got {}, want {}", float(got), float(wanted)));
            }
        };
        // In draft 4 the exclusive bounds are flags beside the inclusive ones.
        let (exclusive_minimum, minimum) = if strict("exclusiveMinimum") {
            (limit("minimum"), None)
        } else {
            (limit("exclusiveMinimum"), limit("minimum"))
        };
        let (exclusive_maximum, maximum) = if strict("exclusiveMaximum") {
            (limit("maximum"), None)
        } else {
            (limit("exclusiveMaximum"), limit("maximum"))
        };
        check("minimum", minimum, &|wanted| got >= wanted);
        check("maximum", maximum, &|wanted| got <= wanted);
        check("exclusiveMinimum", exclusive_minimum, &|wanted| got > wanted);
        check("exclusiveMaximum", exclusive_maximum, &|wanted| got < wanted);
        check("multipleOf", limit("multipleOf"), &|wanted| is_multiple(got, wanted));
        messages
    }

    fn conditions(self, schema: &'a Map<String, Json>, value: &Json, at: &str, failures: &mut Vec<Failure>) {
        let plain = |message: String, causes: Vec<Failure>| Failure::plain(at, message, causes);
        let check = |schema: &'a Json| self.check(schema, value, at);
        let all = |keyword: &str| schema.get(keyword).and_then(Json::as_array).filter(|all| !all.is_empty());
        if let Some(not) = schema.get("not")
            && check(not).is_none()
        {
            failures.push(plain("'not' failed".into(), Vec::new()));
        }
        if let Some(schemas) = all("allOf") {
            let causes: Vec<Failure> = schemas.iter().filter_map(check).collect();
            if !causes.is_empty() {
                failures.push(plain("'allOf' failed".into(), causes));
            }
        }
        if let Some(schemas) = all("anyOf") {
            let causes: Option<Vec<Failure>> = schemas.iter().map(check).collect();
            failures.extend(causes.map(|causes| plain("'anyOf' failed".into(), causes)));
        }
        if let Some(schemas) = all("oneOf") {
            let outcomes: Vec<Option<Failure>> = schemas.iter().map(check).collect();
            let matched: Vec<usize> = outcomes
                .iter()
                .enumerate()
                .filter(|(_, failure)| failure.is_none())
                .map(|(index, _)| index)
                .collect();
            match matched.as_slice() {
                [] => failures.push(plain(
                    "'oneOf' failed, none matched".into(),
                    outcomes.into_iter().flatten().collect(),
                )),
                [first, second, ..] => failures
                    .push(plain(format!("'oneOf' failed, subschemas {first}, {second} matched"), Vec::new())),
                [_] => {}
            }
        }
        if let Some(condition) = schema.get("if").filter(|_| self.documents.draft() >= 7) {
            let branch = if check(condition).is_none() { "then" } else { "else" };
            failures.extend(schema.get(branch).and_then(check));
        }
    }

    fn unevaluated(self, schema: &'a Map<String, Json>, value: &Json, at: &str, failures: &mut Vec<Failure>) {
        if let (Some(rest), Json::Object(object)) = (schema.get("unevaluatedProperties"), value) {
            for (name, value) in object {
                if !self.evaluates(schema, object, name, 0) {
                    failures.extend(self.check(rest, value, &child(at, name)));
                }
            }
        }
        if let (Some(rest), Json::Array(items)) = (schema.get("unevaluatedItems"), value) {
            let draft = self.documents.draft();
            let prefix_keyword = if draft < 2020 { "items" } else { "prefixItems" };
            let rest_keyword = if draft < 2020 { "additionalItems" } else { "items" };
            let prefix = schema.get(prefix_keyword).and_then(Json::as_array).map(Vec::len);
            let everything = match prefix {
                Some(_) => schema.contains_key(rest_keyword),
                None => schema.contains_key("items"),
            };
            let looked_at = if everything { items.len() } else { prefix.unwrap_or(0) };
            for (index, item) in items.iter().enumerate().skip(looked_at) {
                failures.extend(self.check(rest, item, &child(at, &index.to_string())));
            }
        }
    }

    /// Whether a keyword of the schema, or of one that applies in its place, looks at this property.
    fn evaluates(
        self,
        schema: &'a Map<String, Json>,
        object: &Map<String, Json>,
        name: &str,
        depth: usize,
    ) -> bool {
        if depth > MAX_DEPTH {
            return false;
        }
        if entries(schema, "properties").any(|(known, _)| known == name)
            || schema.contains_key("additionalProperties")
        {
            return true;
        }
        let matches = |pattern: &str| regex::Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(name));
        if entries(schema, "patternProperties").any(|(pattern, _)| matches(pattern)) {
            return true;
        }
        let whole = Json::Object(object.clone());
        let applies = |inner: &'a Json| match inner.as_object() {
            Some(fields) => {
                self.check(inner, &whole, "").is_none()
                    && (fields.contains_key("unevaluatedProperties")
                        || self.evaluates(fields, object, name, depth + 1))
            }
            None => false,
        };
        let lists = ["allOf", "anyOf", "oneOf"];
        let listed = lists.iter().filter_map(|keyword| schema.get(*keyword)?.as_array()).flatten();
        let condition = schema.get("if");
        let branch = condition.and_then(|condition| {
            let met = self.check(condition, &whole, "").is_none();
            schema.get(if met { "then" } else { "else" })
        });
        let single = condition.into_iter().chain(branch);
        let referred = ["$ref", "$recursiveRef", "$dynamicRef"]
            .iter()
            .filter_map(|keyword| schema.get(*keyword)?.as_str())
            .filter_map(|reference| self.documents.resolve(self.document, reference))
            .map(|(_, schema)| schema);
        let dependent = entries(schema, "dependentSchemas")
            .filter(|(name, _)| object.contains_key(*name))
            .map(|(_, schema)| schema);
        listed.chain(single).chain(referred).chain(dependent).any(applies)
    }
}

fn string(schema: &Map<String, Json>, text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    let size = text.chars().count() as u64;
    if let Some(wanted) = count(schema, "minLength").filter(|wanted| size < *wanted) {
        messages.push(format!("minLength: got {}, want {}", grouped(size), grouped(wanted)));
    }
    if let Some(wanted) = count(schema, "maxLength").filter(|wanted| size > *wanted) {
        messages.push(format!("maxLength: got {}, want {}", grouped(size), grouped(wanted)));
    }
    if let Some(pattern) = schema.get("pattern").and_then(Json::as_str)
        && regex::Regex::new(pattern).is_ok_and(|regex| !regex.is_match(text))
    {
        messages.push(format!("{} does not match pattern {}", quote(text), quote(pattern)));
    }
    messages
}

/// Whether a number is a multiple of another, both as they are written: 0.3 is one of 0.1.
fn is_multiple(number: f64, of: f64) -> bool {
    let (Some((number, exponent)), Some((of, of_exponent))) = (decimal(number), decimal(of)) else {
        return false;
    };
    if of == 0 {
        return false;
    }
    let by_ten = |number: u128, _| number * 10 % of;
    match u32::try_from(exponent - of_exponent) {
        Ok(tens) => (0..tens).fold(number % of, by_ten) == 0,
        // A number has seventeen digits at most.
        Err(_) => match 10_u128.checked_pow((of_exponent - exponent).unsigned_abs()) {
            Some(power) if power < 1 << 64 => number % (of * power) == 0,
            _ => number == 0,
        },
    }
}

/// A number's digits without its sign, and the power of ten that they count.
fn decimal(number: f64) -> Option<(u128, i32)> {
    let written = format!("{:e}", number.abs());
    let (mantissa, exponent) = written.split_once('e')?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let places = i32::try_from(fraction.len()).ok()?;
    Some((format!("{whole}{fraction}").parse().ok()?, exponent.parse::<i32>().ok()? - places))
}

fn entries<'a>(schema: &'a Map<String, Json>, keyword: &str) -> impl Iterator<Item = (&'a String, &'a Json)> {
    schema.get(keyword).and_then(Json::as_object).into_iter().flatten()
}

fn count(schema: &Map<String, Json>, keyword: &str) -> Option<u64> {
    let number = schema.get(keyword)?;
    // 3.0 counts as 3.
    number.as_u64().or_else(|| number.as_f64().filter(|n| n.fract() == 0.0 && *n >= 0.0).map(|n| n as u64))
}

fn child(at: &str, token: &str) -> String {
    format!("{at}/{}", token.replace('~', "~0").replace('/', "~1"))
}

fn type_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

fn is_integer(value: &Json) -> bool {
    value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn equal(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        (a, b) => a == b,
    }
}

fn duplicates(items: &[Json]) -> Option<(usize, usize)> {
    let mut numbered = items.iter().enumerate();
    while let Some((first, item)) = numbered.next() {
        if let Some((second, _)) = numbered.clone().find(|(_, other)| equal(item, other)) {
            return Some((first, second));
        }
    }
    None
}
