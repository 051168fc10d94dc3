//! Random expressions, compared with what Kubernetes' own CEL makes of them.
//!
//! With the libraries themselves (`oracles/kubernetes/build libs`) by `make oracle-kubernetes`, with recorded answers by `make test`.

use fastrand::Rng;
use serde_json::{Value as Json, json};
use steersman_cel::{Environment, Program, Type, Value};
use steersman_libs_oracle::{Area, Judgement, cases};

const CEL: Area = Area { name: "cel", package: env!("CARGO_MANIFEST_DIR"), recorded: 8_000 };

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(n) => n.as_i64().map_or_else(|| Value::Double(n.as_f64().unwrap_or(0.0)), Value::Int),
        Json::String(text) => Value::string(text.as_str()),
        Json::Array(items) => Value::list(items.iter().map(value).collect()),
        Json::Object(map) => {
            Value::map(map.iter().map(|(k, v)| (Value::string(k.as_str()), value(v))).collect())
        }
    }
}

/// The value as the oracle writes it; `None` for what JSON has no form for.
fn written(value: &Value) -> Option<Json> {
    Some(match value {
        Value::Null => Json::Null,
        Value::Bool(value) => json!(value),
        // Numbers beyond 2^53 are written as text there.
        Value::Int(value) if value.unsigned_abs() > 1 << 53 => json!(value.to_string()),
        Value::Uint(value) if *value > 1 << 53 => json!(value.to_string()),
        Value::Int(value) => json!(value),
        Value::Uint(value) => json!(value),
        Value::Double(value) if !value.is_finite() => return None,
        Value::Double(value) => json!(value),
        Value::String(text) => json!(&**text),
        Value::List(items) => Json::Array(items.iter().map(written).collect::<Option<_>>()?),
        Value::Map(entries) => {
            let mut map = serde_json::Map::new();
            for (key, value) in entries.iter() {
                let key = match key {
                    Value::String(text) => text.to_string(),
                    Value::Int(n) => n.to_string(),
                    Value::Uint(n) => n.to_string(),
                    Value::Bool(b) => b.to_string(),
                    _ => return None,
                };
                map.insert(key, written(value)?);
            }
            Json::Object(map)
        }
        _ => return None,
    })
}

/// Numbers as doubles, so that `1` and `1.0` are the same.
fn normal(json: &Json) -> Json {
    match json {
        Json::Number(n) => json!(n.as_f64()),
        Json::Array(items) => Json::Array(items.iter().map(normal).collect()),
        Json::Object(map) => Json::Object(map.iter().map(|(k, v)| (k.clone(), normal(v))).collect()),
        other => other.clone(),
    }
}

/// Makes expressions that mostly make sense.
struct Maker {
    rng: Rng,
}

impl Maker {
    fn pick(&mut self, from: &[&str]) -> String {
        from[self.rng.usize(..from.len())].to_owned()
    }

    fn any(&mut self, depth: usize) -> String {
        match self.rng.u8(..7) {
            0 => self.bool(depth),
            1 => self.int(depth),
            2 => self.string(depth),
            3 => self.list(depth),
            4 => self.pick(&["null", "1u", "2.5", "b'ab'", "self", "self.m", "[]", "{}", "-1", "1e3"]),
            5 => self.map(depth),
            _ => self.other(depth),
        }
    }

    fn bool(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.pick(&["true", "false", "self.t", "has(self.s)", "has(self.nope)", "has(self.m.a)"]);
        }
        let d = depth - 1;
        match self.rng.u8(..16) {
            0 => format!("{} && {}", self.bool(d), self.bool(d)),
            1 => format!("{} || {}", self.bool(d), self.bool(d)),
            2 => format!("!({})", self.bool(d)),
            3 => format!("{} == {}", self.any(d), self.any(d)),
            4 => {
                let op = self.pick(&["<", "<=", ">", ">=", "==", "!="]);
                format!("{} {op} {}", self.int(d), self.int(d))
            }
            5 => {
                let op = self.pick(&["<", ">=", "==", "!="]);
                format!("{} {op} {}", self.string(d), self.string(d))
            }
            6 => {
                let test = self.pick(&["startsWith", "endsWith", "contains", "matches"]);
                format!("{}.{test}({})", self.string(d), self.string(0))
            }
            7 => {
                let quantifier = self.pick(&["all", "exists", "exists_one"]);
                format!(
                    "{}.{quantifier}(x, {})",
                    self.list(d),
                    self.pick(&["x > 1", "x == 'a'", "x in self.l", "true", "size(x) > 0"])
                )
            }
            8 => format!("{} in {}", self.any(d), self.list(d)),
            9 => format!("{} in {}", self.string(d), self.map(d)),
            10 => format!("({}) ? ({}) : ({})", self.bool(d), self.bool(d), self.bool(d)),
            11 => self.pick(&[
                "isURL('https://a.b/c')",
                "isQuantity('1Gi')",
                "isQuantity('x')",
                "quantity('1k') == quantity('1000')",
                "quantity('500m').isLessThan(quantity('1'))",
                "isIP('10.0.0.1')",
                "isIP('10.0.0')",
                "ip('::1').isLoopback()",
                "cidr('10.0.0.0/8').containsIP('10.1.2.3')",
                "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')",
                "sets.contains([1,2,3],[2])",
                "sets.equivalent([1,2],[2,1,1])",
                "sets.intersects(['a'],['b'])",
                "duration('1h') > duration('59m')",
                "timestamp('2024-01-02T03:04:05Z') < timestamp('2025-01-02T03:04:05Z')",
                "format.dns1123Label().validate('abc').hasValue()",
                "!format.dns1123Label().validate('A_').hasValue()",
                "optional.of(1).hasValue()",
                "optional.none().hasValue()",
                "self.?s.hasValue()",
                "self.?zz.hasValue()",
            ]),
            12 => format!("{}.isSorted()", self.pick(&["[1,2,3]", "[3,1]", "['a','b']", "self.l", "[]"])),
            13 => format!(
                "type({}) == {}",
                self.any(d),
                self.pick(&["int", "string", "list", "map", "bool", "null_type", "double"])
            ),
            14 => format!("has(self.{})", self.pick(&["s", "i", "m.a", "m.z", "zz"])),
            _ => self.bool(0),
        }
    }

    fn int(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.pick(&[
                "0",
                "1",
                "-3",
                "42",
                "self.i",
                "self.l[0]",
                "size(self.l)",
                "9223372036854775807",
                "size('héllo')",
            ]);
        }
        let d = depth - 1;
        match self.rng.u8(..10) {
            0..=2 => {
                let op = self.pick(&["+", "-", "*", "/", "%"]);
                format!("({} {op} {})", self.int(d), self.int(d))
            }
            3 => format!("size({})", self.list(d)),
            4 => format!("{}.size()", self.string(d)),
            5 => format!("{}.indexOf({})", self.string(d), self.string(0)),
            6 => format!("int({})", self.pick(&["'12'", "'x'", "3.7", "5u", "-2.9", "1e30"])),
            7 => format!("{}[{}]", self.list(d), self.int(0)),
            8 => self.pick(&[
                "[1,2,3].sum()",
                "[3,1].min()",
                "[3,1].max()",
                "[1,2,1].lastIndexOf(1)",
                "duration('90m').getHours()",
                "timestamp('2024-02-29T03:04:05Z').getDayOfYear()",
                "timestamp('2024-02-29T03:04:05Z').getHours('+02:00')",
                "quantity('2').asInteger()",
                "quantity('1').compareTo(quantity('2'))",
                "ip('1.2.3.4').family()",
                "cidr('10.0.0.0/8').prefixLength()",
                "self.?i.orValue(7)",
                "self.?zz.orValue(7)",
                "optional.none().value()",
                "-self.i",
                "--self.i",
            ]),
            _ => self.int(0),
        }
    }

    fn string(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.pick(&[
                "'a'",
                "'abc'",
                "\"héllo\"",
                "self.s",
                "''",
                "self.m.a",
                "r'\\d+'",
                "'\\u00e9'",
            ]);
        }
        let d = depth - 1;
        match self.rng.u8(..9) {
            0 => format!("({} + {})", self.string(d), self.string(d)),
            1 => format!(
                "string({})",
                self.pick(&[
                    "1",
                    "2.5",
                    "true",
                    "1u",
                    "duration('1m30s')",
                    "timestamp('2024-01-02T03:04:05Z')",
                    "b'ab'",
                    "1e21",
                    "100000.0"
                ])
            ),
            2 => {
                let call = self.pick(&[
                    "lowerAscii()",
                    "upperAscii()",
                    "trim()",
                    "replace('l', 'L')",
                    "substring(1)",
                    "substring(1, 2)",
                    "charAt(0)",
                    "charAt(9)",
                    "find('[a-c]+')",
                ]);
                format!("{}.{call}", self.string(d))
            }
            3 => format!("{}.join(',')", self.pick(&["['a','b']", "self.ls", "[]"])),
            4 => format!("{}[{}]", self.map(d), self.string(0)),
            5 => self.pick(&[
                "url('https://a.b:80/c?d=e').getHost()",
                "url('https://a.b:80/c?d=e').getPort()",
                "url('/x').getEscapedPath()",
                "string(ip('::1'))",
            ]),
            6 => format!("({}) ? ({}) : ({})", self.bool(d), self.string(d), self.string(d)),
            _ => self.string(0),
        }
    }

    fn list(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.pick(&["self.l", "self.ls", "[1, 2, 3]", "['a', 'b']", "[]", "[1.5]"]);
        }
        let d = depth - 1;
        match self.rng.u8(..8) {
            0 => format!("[{}, {}]", self.int(d), self.int(d)),
            1 => format!("({} + {})", self.list(d), self.list(d)),
            2 => format!(
                "{}.map(x, {})",
                self.list(d),
                self.pick(&["x + 1", "x", "string(x)", "[x]", "x * 2"])
            ),
            3 => {
                format!("{}.filter(x, {})", self.list(d), self.pick(&["x > 1", "x == 'a'", "true", "x != 2"]))
            }
            4 => format!("{}.map(x, x > 1, x * 2)", self.list(d)),
            5 => format!("{}.split({})", self.string(d), self.string(0)),
            6 => self.pick(&[
                "'a1b22'.findAll('[0-9]+')",
                "[1,2,3].slice(1,2)",
                "[[1],[2]].flatten()",
                "[1,1].distinct()",
                "lists.range(3)",
                "[3,1,2].sort()",
                "[1,2].reverse()",
                "[1,2].transformList(i, v, i + v)",
                "[?self.?i, ?self.?zz]",
            ]),
            _ => self.list(0),
        }
    }

    fn map(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.pick(&["self.m", "{'a': 1}", "{}", "{'b': 'c'}"]);
        }
        match self.rng.u8(..4) {
            0 => format!("{{'k': {}}}", self.any(depth - 1)),
            1 => self.pick(&[
                "{'a': 1}.transformMap(k, v, v + 1)",
                "{?'a': self.?i, ?'z': self.?zz}",
                "[1,2].transformMap(i, v, v)",
            ]),
            _ => self.map(0),
        }
    }

    /// What makes no sense, now and then.
    fn other(&mut self, depth: usize) -> String {
        match self.rng.u8(..6) {
            0 => format!("{} + {}", self.string(depth.saturating_sub(1)), self.int(0)),
            1 => self.pick(&[
                "nope",
                "self.nope",
                "nope()",
                "self.l.nope()",
                "size(1)",
                "1 + 'a'",
                "[1, 'a']",
                "{1: 2, 'a': 3}",
                "has(self)",
                "self.l.all(1, true)",
                "int('1', 2)",
            ]),
            2 => self.pick(&[
                "1 / 0",
                "1 % 0",
                "self.l[99]",
                "self.m['zz']",
                "-9223372036854775808 - 1",
                "1u - 2u",
                "quantity('x')",
                "ip('x')",
                "duration('x')",
                "timestamp('x')",
            ]),
            3 => self.pick(&[
                "self.s + 1",
                "self.i + self.s",
                "self.l + self.m",
                "self.i && true",
                "self.i < self.s",
            ]),
            4 => self.pick(&[
                "optional.of(self.i).optMap(v, v + 1).value()",
                "optional.none().optMap(v, v).hasValue()",
                "self.?m.?a.orValue('d')",
                "self.m[?'a'].value()",
                "optional.ofNonZeroValue(0).hasValue()",
            ]),
            _ => self.int(depth.saturating_sub(1)),
        }
    }
}

/// Judges our answer to a request by the libraries'.
fn judge(request: &Json, answer: &Json) -> Judgement {
    let theirs = &answer["result"];
    let expr = request["expr"].as_str().unwrap_or_default();
    let environment = Environment::new().with("self", Type::Dyn);
    let ours = match Program::compile(&environment, expr) {
        Err(error) => json!({"compileError": error.to_string()}),
        Ok(program) => {
            let (result, cost) = program.run([("self", value(&request["vars"]["self"]))], 1_000_000);
            match result {
                Err(error) => json!({"evalError": error.to_string()}),
                Ok(value) => json!({
                    "outputType": program.output().to_string(), "type": value.type_name(), "cost": cost,
                    "value": written(&value),
                }),
            }
        }
    };
    let same = if ours.get("compileError").is_some() {
        // Syntax errors of a generated parser name what it would have accepted in its own way.
        theirs.get("compileError") == ours.get("compileError")
            || theirs["compileError"].as_str().is_some_and(|text| text.contains("Syntax error"))
    } else if ours.get("evalError").is_some() {
        theirs.get("evalError") == ours.get("evalError")
    } else {
        let value = theirs.get("value").is_none()
            || ours["value"].is_null()
            || normal(&theirs["value"]) == normal(&ours["value"]);
        theirs.get("compileError").is_none()
            && theirs.get("evalError").is_none()
            && theirs["type"] == ours["type"]
            && theirs["cost"] == ours["cost"]
            && value
    };
    Judgement::one((!same).then(|| format!("{expr}\n  ours   {ours}\n  theirs {theirs}")))
}

#[test]
fn expressions_are_as_recorded() {
    CEL.replay(judge);
}

#[test]
#[ignore = "needs the Kubernetes oracle: make oracle-kubernetes"]
fn expressions_are_as_in_kubernetes() {
    let vars =
        json!({"s": "abc", "i": 5, "t": true, "l": [1, 2, 3], "ls": ["x", "y"], "m": {"a": "b", "n": 1}});
    let requests = (0..cases(60_000))
        .map(|seed| {
            let mut maker = Maker { rng: Rng::with_seed(seed as u64) };
            let depth = maker.rng.usize(0..4);
            json!({"op": "cel", "expr": maker.any(depth), "vars": {"self": vars}})
        })
        .collect();
    CEL.compare(requests, judge);
}
