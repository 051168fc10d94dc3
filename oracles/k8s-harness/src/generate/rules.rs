//! Random CEL rules, mostly well typed, over a schema with bounds that keep their cost low.

use serde_json::{Map, Value, json};

use super::custom::{DEFINITIONS, crd, establish, thing};
use super::random::Random;
use super::schemas::Schemas;
use crate::corpus::Step;

/// Generates the dry run of a definition with one random rule.
pub(crate) fn definition(_: &Schemas, random: &mut Random) -> Vec<Step> {
    let mut rule = json!({"rule": condition(random, 0, true)});
    match random.below(8) {
        0 => rule["message"] = random.text(&["no good", "", " x ", "two\nlines"]),
        1 => rule["messageExpression"] = json!(string(random, 1, true)),
        2 => rule["fieldPath"] = random.text(&[".a", ".zz", ".list", ".m['x']", "a", ".parts[0]"]),
        3 => rule["reason"] = random.text(&["FieldValueInvalid", "FieldValueForbidden", "Nonsense"]),
        4 => rule["optionalOldSelf"] = json!(random.percent(50)),
        _ => {}
    }
    let mut schema = schema();
    schema["x-kubernetes-validations"] = json!([rule]);
    vec![Step {
        request: format!("POST {DEFINITIONS}?dryRun=All"),
        json: Some(crd(&schema)),
        without: vec!["/metadata/managedFields".to_owned()],
        ..Step::default()
    }]
}

/// Generates a definition with valid rules, and objects that satisfy or violate them.
pub(crate) fn case(_: &Schemas, random: &mut Random) -> Vec<Step> {
    let rules: Vec<Value> = (0..4 + random.below(4))
        .map(|number| {
            let mut rule = json!({"rule": condition(random, 0, false), "message": format!("rule {number}")});
            if random.percent(30) {
                rule["messageExpression"] = json!(string(random, 1, false));
            }
            rule
        })
        .collect();
    let mut schema = schema();
    schema["x-kubernetes-validations"] = Value::Array(rules);
    let mut steps = establish(&crd(&schema));
    for _ in 0..12 {
        steps.push(Step {
            request: "POST /apis/{id}.example.com/v1/namespaces/{ns}/things?dryRun=All".to_owned(),
            json: Some(thing(spec(random))),
            ..Step::default()
        });
    }
    steps
}

fn schema() -> Value {
    json!({"type": "object", "properties": {
        "a": {"type": "integer"},
        "b": {"type": "integer", "format": "int32"},
        "f": {"type": "number"},
        "on": {"type": "boolean"},
        "s": {"type": "string", "maxLength": 20},
        "my_text": {"type": "string", "maxLength": 20},
        "list": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 10}},
        "nums": {"type": "array", "maxItems": 5, "items": {"type": "integer"}},
        "m": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "integer"}},
        "parts": {
            "type": "array", "maxItems": 4, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "maxLength": 9}, "w": {"type": "integer"}}},
        },
        "port": {"x-kubernetes-int-or-string": true},
    }})
}

fn spec(random: &mut Random) -> Value {
    let mut fields = Map::new();
    let mut set = |random: &mut Random, name: &str, value: Value| {
        if random.percent(80) {
            fields.insert(name.to_owned(), value);
        }
    };
    let number = json!(random.between(-3, 9));
    set(random, "a", number);
    let number = json!(random.between(0, 5));
    set(random, "b", number);
    let number = json!(random.between(-8, 8) as f64 / 2.0);
    set(random, "f", number);
    let flag = json!(random.percent(50));
    set(random, "on", flag);
    let text = random.text(&[
        "abc",
        "",
        "Web-1",
        "10.0.0.1",
        "1Gi",
        "5m",
        "2001-02-03T04:05:06Z",
        "https://a.example:80/x",
    ]);
    set(random, "s", text);
    let text = random.text(&["abc", "x", "app"]);
    set(random, "my_text", text);
    let list: Value = (0..random.below(4)).map(|_| random.text(&["a", "b", "abc", "x"])).collect();
    set(random, "list", list);
    let list: Value = (0..random.below(4)).map(|_| json!(random.between(-2, 5))).collect();
    set(random, "nums", list);
    let map: Map<String, Value> =
        (0..random.below(4)).map(|_| (random.word().to_owned(), json!(random.between(-1, 4)))).collect();
    set(random, "m", Value::Object(map));
    let count = random.below(3);
    let parts: Value =
        (0..count).map(|index| json!({"name": format!("p{index}"), "w": random.between(0, 4)})).collect();
    set(random, "parts", parts);
    let port = if random.percent(50) { json!(80) } else { json!("http") };
    set(random, "port", port);
    Value::Object(fields)
}

/// Generates a boolean expression; a careless one sometimes has a wrong type or name.
fn condition(random: &mut Random, depth: usize, careless: bool) -> String {
    if careless && random.percent(4) {
        return (*random.pick(&[
            "self.zz",
            "self.a",
            "self.s + 1 > 2",
            "self.list.all(x)",
            "oldSelf.a > 1",
            "foo(self.a)",
            "self.a >",
            "1",
            "has(self)",
            "self.m.x.y == 1",
        ]))
        .to_owned();
    }
    let next = depth + 1;
    let simple = depth > 2;
    match random.below(if simple { 9 } else { 18 }) {
        0 | 1 => format!(
            "{} {} {}",
            integer(random, next, careless),
            random.pick(&["==", "!=", "<", "<=", ">", ">="]),
            integer(random, next, careless)
        ),
        2 | 3 => format!(
            "{} {} {}",
            string(random, next, careless),
            random.pick(&["==", "!=", "<", ">="]),
            string(random, next, careless)
        ),
        4 => format!("has(self.{})", random.pick(&["a", "s", "list", "m", "on", "parts"])),
        5 => "self.on".to_owned(),
        6 => format!(
            "{}.{}({})",
            string(random, next, careless),
            random.pick(&["startsWith", "endsWith", "contains", "matches"]),
            string_literal(random)
        ),
        7 => format!("{} in {}", string(random, next, careless), strings(random)),
        8 => format!("{} in self.m", string_literal(random)),
        9 | 10 => {
            format!("({}) && ({})", condition(random, next, careless), condition(random, next, careless))
        }
        11 => format!("({}) || ({})", condition(random, next, careless), condition(random, next, careless)),
        12 => format!("!({})", condition(random, next, careless)),
        13 => format!(
            "({}) ? ({}) : ({})",
            condition(random, next, careless),
            condition(random, next, careless),
            condition(random, next, careless)
        ),
        14 => format!(
            "self.list.{}(x, x {} {})",
            random.pick(&["all", "exists", "exists_one"]),
            random.pick(&["==", "!=", "<"]),
            string_literal(random)
        ),
        15 => format!(
            "self.nums.{}(x, x {} {})",
            random.pick(&["all", "exists", "exists_one"]),
            random.pick(&["==", "<", ">="]),
            random.between(-1, 4)
        ),
        16 => format!("self.m.all(k, self.m[k] > {})", random.between(-1, 3)),
        _ => (*random.pick(&[
            "self.parts.all(p, p.w >= 1)",
            "self.parts.exists(p, p.name == 'p0')",
            "self.?a.orValue(5) > 3",
            "self.list.isSorted()",
            "self.nums.sum() > 2",
            "self.list == self.list.map(x, x)",
            "type(self.port) == int",
            "type(self.port) == string && self.port == 'http'",
            "isQuantity(self.s) && quantity(self.s).isGreaterThan(quantity('1M'))",
            "isIP(self.s)",
            "isURL(self.s) && url(self.s).getHost() == 'a.example:80'",
            "self.f * 2.0 > 1.5",
            "int(self.f) == 1",
            "self.s.size() > 3 && self.s.charAt(0) == 'a'",
            "sets.intersects(self.list, ['a', 'x'])",
            "self.nums.max() - self.nums.min() < 5",
            "timestamp(self.s) < timestamp('2010-01-01T00:00:00Z')",
            "duration(self.s).getMinutes() > 1",
            "format.dns1123Label().validate(self.s).hasValue()",
            "self.s.matches('^[a-z]+$')",
            "self.list.filter(x, x != 'a').size() == 1",
            "string(self.a) == '3' || double(self.b) > 2.5",
            "dyn(self.a) == 3",
            "[1, 2, 3].exists(x, x == self.a)",
            "{'a': 1}.exists(k, k == self.s)",
            "cel.bind(n, self.a, n * n > 4)",
            "self.s.split('').join('') == self.s",
            "self.list.indexOf('b') >= 0",
        ]))
        .to_owned(),
    }
}

fn integer(random: &mut Random, depth: usize, careless: bool) -> String {
    if careless && random.percent(3) {
        return (*random.pick(&["1.5", "'x'", "self.s", "1u"])).to_owned();
    }
    let next = depth + 1;
    match random.below(if depth > 2 { 5 } else { 9 }) {
        0 | 1 => "self.a".to_owned(),
        2 => "self.b".to_owned(),
        3 | 4 => random.between(-3, 9).to_string(),
        5 => format!(
            "({} {} {})",
            integer(random, next, careless),
            random.pick(&["+", "-", "*", "/", "%"]),
            integer(random, next, careless)
        ),
        6 => format!("size({})", string(random, next, careless)),
        7 => (*random.pick(&["self.list.size()", "size(self.m)", "self.nums.size()", "self.nums[0]"]))
            .to_owned(),
        _ => format!(
            "({} ? {} : {})",
            condition(random, depth + 2, careless),
            integer(random, next, careless),
            integer(random, next, careless)
        ),
    }
}

fn string(random: &mut Random, depth: usize, careless: bool) -> String {
    if careless && random.percent(3) {
        return (*random.pick(&["self.a", "true", "self.my__text", "null"])).to_owned();
    }
    let next = depth + 1;
    match random.below(if depth > 2 { 4 } else { 8 }) {
        0 | 1 => "self.s".to_owned(),
        2 => "self.my_text".to_owned(),
        3 => string_literal(random),
        4 => format!("({} + {})", string(random, next, careless), string(random, next, careless)),
        5 => format!("string({})", integer(random, next, careless)),
        6 => format!(
            "{}.{}()",
            string(random, next, careless),
            random.pick(&["lowerAscii", "upperAscii", "trim"])
        ),
        _ => (*random.pick(&[
            "self.list[0]",
            "self.list.join(',')",
            "self.s.replace('a', 'b')",
            "self.s.substring(1)",
        ]))
        .to_owned(),
    }
}

fn string_literal(random: &mut Random) -> String {
    (*random.pick(&["'abc'", "'a'", "\"x\"", "''", "'app'", "r'\\d+'"])).to_owned()
}

fn strings(random: &mut Random) -> String {
    (*random.pick(&["self.list", "['a', 'abc']", "[]", "['x', self.s]"])).to_owned()
}
