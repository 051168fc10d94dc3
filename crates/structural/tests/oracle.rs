//! Differential tests of random definitions and objects against Kubernetes' own libraries.
//!
//! With the libraries themselves (`oracles/kubernetes/build libs`) by `make oracle-kubernetes`, with recorded answers by `make test`.

use fastrand::Rng;
use serde_json::{Map, Value, json};
use steersman_libs_oracle::{Area, Judgement, cases};
use steersman_structural::{CustomSchema, FieldError, definition};

const DEFINITIONS: Area = Area { name: "definitions", package: env!("CARGO_MANIFEST_DIR"), recorded: 3_000 };
const OBJECTS: Area = Area { name: "objects", package: env!("CARGO_MANIFEST_DIR"), recorded: 300 };

const NAMES: [&str; 8] = ["a", "b", "my_field", "x-y", "spec", "kind", "namespace", "items"];

/// Makes schemas, and objects for them.
struct Maker {
    rng: Rng,
    /// Number of invalid parts per thousand.
    wrong: u32,
}

impl Maker {
    fn chance(&mut self, percent: u32) -> bool {
        self.rng.u32(..100) < percent
    }

    fn is_wrong(&mut self) -> bool {
        self.rng.u32(..1000) < self.wrong
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.rng.usize(..from.len())]
    }

    fn number(&mut self) -> Value {
        match self.rng.u8(..6) {
            0 => json!(1.5),
            1 => json!(-1),
            2 => json!(3_000_000_000_i64),
            3 => json!(2.0),
            _ => json!(self.rng.i64(-3..9)),
        }
    }

    fn text(&mut self) -> Value {
        json!(self.pick(&[
            "",
            "a",
            "abc",
            "héllo wörld",
            "aGk=",
            "1h",
            "10 min",
            "2001-02-03",
            "2001-02-03T04:05:06Z",
            "10.0.0.1",
            "fd00::1",
            "10.0.0.0/8",
            "https://a.example/b",
            "a@b.example",
            "x",
            "2Gi",
            "a.example",
            "<&>",
            "f47ac10b-58cc-4372-a567-0e02b2c3d479",
            "A_B",
            "12",
        ]))
    }

    fn scalar(&mut self) -> Value {
        match self.rng.u8(..6) {
            0 => Value::Null,
            1 => json!(self.rng.bool()),
            2 | 3 => self.number(),
            _ => self.text(),
        }
    }

    fn any(&mut self, depth: usize) -> Value {
        match self.rng.u8(..8) {
            0 if depth > 0 => json!([self.any(depth - 1), self.any(depth - 1)]),
            1 if depth > 0 => json!({"a": self.any(depth - 1), "zz": self.any(depth - 1)}),
            2 => json!({}),
            3 => json!([]),
            _ => self.scalar(),
        }
    }

    fn schema(&mut self, depth: usize) -> Value {
        let kinds =
            ["string", "string", "integer", "number", "boolean", "object", "array", "object", "map", "mixed"];
        let kind = if depth == 0 { self.pick(&kinds[..5]) } else { self.pick(&kinds) };
        let mut schema = Map::new();
        match kind {
            "mixed" => match self.rng.u8(..3) {
                0 => drop(schema.insert("x-kubernetes-preserve-unknown-fields".into(), json!(true))),
                1 => self.embedded(&mut schema, depth),
                _ => drop(schema.insert("x-kubernetes-int-or-string".into(), json!(true))),
            },
            "map" => {
                schema.insert("type".into(), json!("object"));
                schema.insert("additionalProperties".into(), self.schema(depth - 1));
                self.maybe(&mut schema, "maxProperties", 30, |m| json!(m.rng.i64(0..4)));
                self.maybe(&mut schema, "minProperties", 10, |m| json!(m.rng.i64(0..3)));
            }
            kind => {
                schema.insert("type".into(), json!(kind));
            }
        }
        match kind {
            "object" => self.properties(&mut schema, depth),
            "array" => self.items(&mut schema, depth),
            "string" => {
                self.maybe(&mut schema, "maxLength", 30, |m| json!(m.rng.i64(0..8)));
                self.maybe(&mut schema, "minLength", 15, |m| json!(m.rng.i64(0..4)));
                self.maybe(&mut schema, "pattern", 15, |m| {
                    json!(m.pick(&["^[a-z]+$", "x", r"^\d{2,}$", "[0-9]", "a|b", r"^\w*$"]))
                });
                self.maybe(&mut schema, "format", 30, |m| {
                    json!(m.pick(&[
                        "date",
                        "date-time",
                        "duration",
                        "byte",
                        "ipv4",
                        "ipv6",
                        "cidr",
                        "uri",
                        "email",
                        "uuid",
                        "hostname",
                        "nonsense",
                        "int32",
                        "password",
                        "k8s-short-name",
                        "k8s-long-name",
                    ]))
                });
                self.maybe(&mut schema, "enum", 15, |m| json!([m.text(), "a", "abc"]));
            }
            "integer" | "number" => {
                self.maybe(&mut schema, "maximum", 25, Self::number);
                self.maybe(&mut schema, "minimum", 25, Self::number);
                self.maybe(&mut schema, "exclusiveMaximum", 15, |_| json!(true));
                self.maybe(&mut schema, "exclusiveMinimum", 15, |_| json!(true));
                self.maybe(&mut schema, "multipleOf", 15, |m| json!(m.pick_number()));
                self.maybe(&mut schema, "format", 25, |m| {
                    json!(m.pick(&["int32", "int64", "float", "double"]))
                });
                self.maybe(&mut schema, "enum", 8, |m| json!([m.number(), 1, 2]));
            }
            _ => {}
        }
        self.maybe(&mut schema, "nullable", 15, |_| json!(true));
        self.maybe(&mut schema, "description", 8, |_| json!("what it is"));
        if self.chance(12) {
            let like = Value::Object(schema.clone());
            let default = if self.chance(80) { self.value(&like, 3) } else { self.any(2) };
            schema.insert("default".into(), default);
        }
        if self.chance(8) {
            self.combination(&mut schema);
        }
        if self.is_wrong() {
            self.spoil(&mut schema, depth);
        }
        Value::Object(schema)
    }

    fn pick_number(&mut self) -> f64 {
        [1.0, 2.0, 3.0, 0.5, 0.1][self.rng.usize(..5)]
    }

    fn maybe(
        &mut self,
        schema: &mut Map<String, Value>,
        key: &str,
        percent: u32,
        make: fn(&mut Self) -> Value,
    ) {
        if self.chance(percent) {
            let value = make(self);
            schema.insert(key.into(), value);
        }
    }

    fn properties(&mut self, schema: &mut Map<String, Value>, depth: usize) {
        let mut fields = Map::new();
        for _ in 0..self.rng.usize(1..4) {
            let name = self.pick(&NAMES);
            fields.insert(name.into(), self.schema(depth - 1));
        }
        if self.chance(20) {
            let name = fields.keys().next().cloned().unwrap_or_default();
            schema.insert("required".into(), json!([name, self.pick(&["b", "zz", "a"])]));
        }
        schema.insert("properties".into(), Value::Object(fields));
        self.maybe(schema, "x-kubernetes-preserve-unknown-fields", 8, |_| json!(true));
        self.maybe(schema, "x-kubernetes-map-type", 6, |m| json!(m.pick(&["atomic", "granular"])));
    }

    fn items(&mut self, schema: &mut Map<String, Value>, depth: usize) {
        self.maybe(schema, "maxItems", 30, |m| json!(m.rng.i64(0..4)));
        self.maybe(schema, "minItems", 12, |m| json!(m.rng.i64(0..3)));
        match self.rng.u8(..6) {
            0 => {
                schema.insert("items".into(), json!({"type": self.pick(&["string", "integer"])}));
                schema.insert("x-kubernetes-list-type".into(), json!("set"));
            }
            1 => {
                let mut item = json!({"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string"}, "port": {"type": "integer", "default": 80}, "v": self.schema(0),
                }});
                if self.chance(30) {
                    item["properties"]["v"] = self.schema(depth - 1);
                }
                let keys = if self.chance(60) { json!(["name"]) } else { json!(["name", "port"]) };
                schema.insert("items".into(), item);
                schema.insert("x-kubernetes-list-type".into(), json!("map"));
                schema.insert("x-kubernetes-list-map-keys".into(), keys);
            }
            _ => {
                schema.insert("items".into(), self.schema(depth - 1));
                self.maybe(schema, "x-kubernetes-list-type", 10, |_| json!("atomic"));
            }
        }
    }

    fn embedded(&mut self, schema: &mut Map<String, Value>, depth: usize) {
        schema.insert("type".into(), json!("object"));
        schema.insert("x-kubernetes-embedded-resource".into(), json!(true));
        if self.chance(60) {
            schema.insert("x-kubernetes-preserve-unknown-fields".into(), json!(true));
        }
        schema.insert("properties".into(), json!({"spec": self.schema(depth.saturating_sub(1))}));
    }

    fn combination(&mut self, schema: &mut Map<String, Value>) {
        let part = |m: &mut Self| match m.rng.u8(..5) {
            0 => json!({"maxLength": m.rng.i64(0..5)}),
            1 => json!({"minimum": m.rng.i64(-2..5)}),
            2 => json!({"enum": [m.text(), 1]}),
            3 => json!({"required": [m.pick(&NAMES)]}),
            _ => json!({"pattern": "a"}),
        };
        let key = self.pick(&["allOf", "anyOf", "oneOf", "not"]);
        let value = if key == "not" { part(self) } else { json!([part(self), part(self)]) };
        schema.insert(key.into(), value);
    }

    /// Breaks a rule about schemas.
    fn spoil(&mut self, schema: &mut Map<String, Value>, depth: usize) {
        let (key, value) = match self.rng.u8(..22) {
            0 => ("type", json!(self.pick(&["text", "null", "", "object", "array", "integer"]))),
            1 => ("uniqueItems", json!(true)),
            2 => ("$ref", json!("#/x")),
            3 => ("additionalProperties", json!(self.rng.bool())),
            4 => ("additionalProperties", json!({"type": "string"})),
            5 => ("x-kubernetes-list-type", json!(self.pick(&["set", "map", "atomic", "other"]))),
            6 => ("x-kubernetes-list-map-keys", json!(["name", "zz", "name"])),
            7 => ("x-kubernetes-map-type", json!(self.pick(&["atomic", "other"]))),
            8 => ("x-kubernetes-preserve-unknown-fields", json!(self.rng.bool())),
            9 => ("x-kubernetes-int-or-string", json!(true)),
            10 => ("x-kubernetes-embedded-resource", json!(true)),
            11 => ("pattern", json!(self.pick(&["(", "[a", "a**", r"\8", "(?=a)"]))),
            12 => ("anyOf", json!([{"type": "integer"}, {"type": "string"}])),
            13 => ("allOf", json!([{"properties": {"zz": {"minimum": 1}}, "description": "x"}])),
            14 => ("items", json!([self.schema(0)])),
            15 => ("not", json!({"nullable": true, "items": {"title": "x"}})),
            16 => ("definitions", json!({"a": {"type": "string"}})),
            17 => ("patternProperties", json!({"a": {"type": "string"}})),
            18 => ("properties", json!({"metadata": self.schema(depth.min(1))})),
            19 => ("default", self.any(2)),
            20 => (
                "oneOf",
                json!([{"additionalProperties": true}, {"x-kubernetes-validations": [{"rule": "true"}]}]),
            ),
            _ => ("nullable", json!(true)),
        };
        schema.insert(key.into(), value);
    }

    /// A value that mostly fits a schema.
    fn value(&mut self, schema: &Value, depth: usize) -> Value {
        if self.chance(4) {
            return self.any(1);
        }
        if let Some(words) = schema["enum"].as_array()
            && self.chance(70)
        {
            return words[self.rng.usize(..words.len())].clone();
        }
        match schema["type"].as_str() {
            Some("integer") if self.chance(85) => json!(self.rng.i64(-2..8)),
            Some("integer" | "number") => self.number(),
            Some("boolean") => json!(self.rng.bool()),
            Some("string") => self.text(),
            Some("array") => {
                let count = if depth == 0 { 0 } else { self.rng.usize(..4) };
                Value::Array((0..count).map(|_| self.value(&schema["items"], depth - 1)).collect())
            }
            Some("object") => self.object(schema, depth),
            _ if schema["x-kubernetes-int-or-string"] == true => {
                if self.rng.bool() {
                    json!(self.rng.i64(0..9))
                } else {
                    self.text()
                }
            }
            _ => self.any(2),
        }
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        let mut map = Map::new();
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let needed = schema["required"].as_array().is_some_and(|r| r.iter().any(|r| r == name));
            if depth > 0 && (self.chance(60) || (needed && self.chance(90))) {
                map.insert(name.clone(), self.value(field, depth - 1));
            }
        }
        if schema["additionalProperties"].is_object() && depth > 0 {
            for _ in 0..self.rng.usize(..3) {
                let name = self.pick(&NAMES);
                map.insert(name.into(), self.value(&schema["additionalProperties"], depth - 1));
            }
        }
        if schema["x-kubernetes-embedded-resource"] == true {
            if self.chance(90) {
                map.insert("apiVersion".into(), json!(self.pick(&["v1", "apps/v1", "a/b/c", ""])));
                map.insert("kind".into(), json!(self.pick(&["Pod", "Thing", "a b"])));
            }
            if self.chance(50) {
                let metadata = match self.rng.u8(..6) {
                    0 => json!({"name": "x/y"}),
                    1 => json!({"labels": {"a": "b c"}, "zz": 1}),
                    2 => json!({"labels": {"a": 1}}),
                    3 => json!("x"),
                    4 => json!({"ownerReferences": [{"name": "a", "zz": 1}]}),
                    _ => json!({"name": "x", "annotations": {"k": ""}, "creationTimestamp": null}),
                };
                map.insert("metadata".into(), metadata);
            }
        }
        if self.chance(6) {
            map.insert(self.pick(&["unknown", "b", "zz"]).into(), self.any(2));
        }
        Value::Object(map)
    }

    fn definition(&mut self, schema: &Value) -> Value {
        let mut version =
            json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
        if self.chance(30) {
            version["subresources"] = json!({"status": {}});
        }
        if self.is_wrong() {
            let (key, value) = match self.rng.u8(..8) {
                0 => ("additionalPrinterColumns", json!([{"name": "", "type": "text", "jsonPath": "x"}])),
                1 => (
                    "subresources",
                    json!({"scale": {"specReplicasPath": ".a", "statusReplicasPath": "", "labelSelectorPath": ".x"}}),
                ),
                2 => (
                    "selectableFields",
                    json!([{"jsonPath": ".spec"}, {"jsonPath": ".spec.a"}, {"jsonPath": ".metadata.x"}, {"jsonPath": "a"}]),
                ),
                3 => ("deprecationWarning", json!("old")),
                4 => ("name", json!("V_1")),
                5 => ("storage", json!(false)),
                6 => ("schema", json!({})),
                _ => (
                    "additionalPrinterColumns",
                    json!([{"name": "A", "type": "date", "format": "x", "jsonPath": ".a"}]),
                ),
            };
            version[key] = value;
        }
        let mut versions = vec![version];
        if self.chance(15) {
            let mut second = versions[0].clone();
            second["name"] = json!("v2");
            second["storage"] = json!(false);
            if self.rng.bool() {
                second["schema"]["openAPIV3Schema"] =
                    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            }
            versions.push(second);
        }
        let mut definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "versions": versions,
                "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
                "conversion": {"strategy": "None"},
            },
        });
        if self.is_wrong() {
            let (path, value) = match self.rng.u8(..8) {
                0 => ("/spec/scope", json!("World")),
                1 => ("/spec/group", json!("x")),
                2 => ("/spec/names/kind", json!("a b")),
                3 => ("/spec/names/plural", json!("Things")),
                4 => ("/spec/conversion", json!({"strategy": "Webhook"})),
                5 => (
                    "/spec/conversion",
                    json!({"strategy": "Webhook", "webhook": {
                    "conversionReviewVersions": ["v2", "v2"], "clientConfig": {"url": "http://u@/x?a#b"}}}),
                ),
                6 => ("/spec/names/listKind", json!("Thing")),
                _ => ("/metadata/name", json!("other")),
            };
            if let Some(slot) = definition.pointer_mut(path) {
                *slot = value;
            }
        }
        definition
    }

    fn root(&mut self) -> Value {
        let mut root = json!({"type": "object", "properties": {"spec": self.schema(3)}});
        if self.chance(30) {
            root["properties"]["status"] = self.schema(2);
        }
        if self.chance(6) {
            root["properties"]["metadata"] =
                json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}}});
        }
        if self.is_wrong() {
            let key = self.pick(&["nullable", "x-kubernetes-embedded-resource", "uniqueItems"]);
            root[key] = json!(true);
        }
        root
    }

    /// Rules about the fields of a schema, some of which are costly, wrong or fail.
    fn add_rules(&mut self, schema: &mut Value) {
        let fields: Vec<String> =
            schema["properties"].as_object().into_iter().flatten().map(|(k, _)| k.clone()).collect();
        let Some(name) = self.rng.choice(&fields).cloned() else { return };
        let field = &mut schema["properties"][&name];
        let kind = field["type"].as_str().unwrap_or_default().to_owned();
        let value = format!("self.{}", name.replace("x-y", "x__dash__y"));
        let rule = match (kind.as_str(), self.rng.u8(..5)) {
            ("string", 0) => format!("{value} == 'abc' || {value}.startsWith('a')"),
            ("string", 1) => format!("{value}.matches('^[a-z]+$')"),
            ("string", 2) => format!("{value}.contains('b') && {value} < 'c'"),
            ("string", _) => format!("size({value}) < 5"),
            ("integer" | "number", 0) => format!("{value} + {value} > {value}"),
            ("integer", _) => format!("{value} % 2 == 0"),
            ("number", _) => format!("{value} > 1.0"),
            ("array", 0) => format!("{value}.all(x, x == x)"),
            ("array", 1) => format!("{value}.exists(x, {value}.all(y, x == y))"),
            ("array", 2) => format!("{value}.map(x, x).size() > 0"),
            ("array", 3) => format!("{value} == oldSelf.{}", name.replace("x-y", "x__dash__y")),
            ("array", _) => format!("{value}.size() < 3"),
            ("object", 0) => format!("has({value}.a)"),
            ("object", 1) => format!("!has({value}) || {value} == {value}"),
            ("boolean", _) => value.clone(),
            (_, 0) => format!("has({value})"),
            (_, 1) => format!("type({value}) == string"),
            (_, 2) => "oldSelf == self".to_owned(),
            _ => format!("{value} == {value}"),
        };
        let mut rule = json!({"rule": rule});
        if self.chance(30) {
            rule["message"] = json!("is not right");
        }
        if self.chance(15) {
            rule["messageExpression"] = json!("'no: ' + (has(self.a) ? 'a' : 'none')");
        }
        if self.chance(20) {
            rule["reason"] = json!(self.pick(&[
                "FieldValueForbidden",
                "FieldValueRequired",
                "FieldValueDuplicate",
                "FieldValueInvalid",
                "Other"
            ]));
        }
        if self.chance(15) {
            rule["fieldPath"] = json!(self.pick(&[".a", ".b", ".zz", "a"]));
        }
        if self.chance(8) {
            rule["optionalOldSelf"] = json!(true);
        }
        schema["x-kubernetes-validations"] = json!([rule]);
    }
}

/// Masks type names, which the libraries generate anew each time.
fn masked(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("selfType") {
        out.push_str(before);
        out.push_str("selfType");
        rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    out + rest
}

fn texts(errors: &Value) -> Vec<String> {
    let mut texts: Vec<String> = errors
        .as_array()
        .into_iter()
        .flatten()
        .map(|e| masked(e["text"].as_str().unwrap_or_default()))
        .collect();
    texts.sort();
    texts
}

fn own_texts(errors: &[FieldError]) -> Vec<String> {
    let mut texts: Vec<String> = errors.iter().map(|e| masked(&e.to_string())).collect();
    texts.sort();
    texts
}

/// Adds the fields that a server sets in a new definition.
fn completed(mut definition: Value) -> Value {
    let stored: Vec<Value> = definition["spec"]["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|v| v["storage"] == true)
        .take(1)
        .map(|v| v["name"].clone())
        .collect();
    definition["status"] = json!({"storedVersions": stored});
    definition
}

/// Compares our violations of a definition with the libraries'.
fn judge_definition(request: &Value, answer: &Value) -> Judgement {
    // Paths into non-structural schemas make the libraries, and so the real server, panic.
    if answer.get("panic").is_some() {
        return Judgement::default();
    }
    let mut errors = Vec::new();
    let given = completed(request["crd"].clone());
    let rules = steersman_structural::meta::Rules {
        name: Some(steersman_formats::names::NameRule::Subdomain),
        namespaced: false,
    };
    steersman_structural::meta::check(&given["metadata"], rules, "metadata", &mut errors);
    errors.extend(definition::check(&given));
    let (ours, theirs) = (own_texts(&errors), texts(&answer["result"]["errors"]));
    Judgement::one((ours != theirs).then(|| {
        let missing: Vec<_> = theirs.iter().filter(|t| !ours.contains(t)).collect();
        let extra: Vec<_> = ours.iter().filter(|t| !theirs.contains(t)).collect();
        format!("{}\n  missing {missing:?}\n  extra   {extra:?}", given["spec"]["versions"])
    }))
}

#[test]
fn definitions_are_judged_as_recorded() {
    DEFINITIONS.replay(judge_definition);
}

#[test]
#[ignore = "needs the Kubernetes oracle: make oracle-kubernetes"]
fn definitions_are_judged_as_in_kubernetes() {
    let requests = (0..cases(30_000))
        .map(|seed| {
            let mut rng = Rng::with_seed(seed as u64);
            let wrong = [0, 20, 60, 150][rng.usize(..4)];
            let mut maker = Maker { rng, wrong };
            let mut root = maker.root();
            if maker.chance(40) {
                maker.add_rules(&mut root["properties"]["spec"]);
            }
            json!({"op": "crd", "crd": maker.definition(&root)})
        })
        .collect();
    DEFINITIONS.compare(requests, judge_definition);
}

/// Compares the outcomes for a definition's objects with the libraries'.
fn judge_objects(request: &Value, answer: &Value) -> Judgement {
    let source = &request["crd"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let schema = CustomSchema::new(source);
    let mut judged = Judgement::default();
    // There is no outcome if the old object could not be decoded, which cannot happen in a server.
    let outcomes = answer["result"].as_array().into_iter().flatten();
    for (case, theirs) in request["objects"].as_array().into_iter().flatten().zip(outcomes) {
        judged.tried += 1;
        let ours = outcome(&schema, case);
        let theirs = json!({
            "decodeError": theirs.get("decodeError"),
            "unknown": theirs.get("unknown").cloned().unwrap_or(json!([])),
            "pruned": theirs.get("pruned").map(steersman_structural::go::json),
            "defaulted": theirs.get("defaulted").map(steersman_structural::go::json),
            "errors": texts(&theirs["errors"]),
        });
        if ours != theirs {
            let parts = ["decodeError", "unknown", "pruned", "defaulted", "errors"];
            let parts: Vec<String> = parts
                .iter()
                .filter(|p| ours[**p] != theirs[**p])
                .map(|p| format!("  {p}\n    ours   {}\n    theirs {}", ours[*p], theirs[*p]))
                .collect();
            judged.different.push(format!("{source}\n{case}\n{}", parts.join("\n")));
        }
    }
    judged
}

#[test]
fn objects_are_judged_as_recorded() {
    OBJECTS.replay(judge_objects);
}

#[test]
#[ignore = "needs the Kubernetes oracle: make oracle-kubernetes"]
fn objects_are_judged_as_in_kubernetes() {
    const PER_DEFINITION: usize = 12;
    let count = cases(60_000) / PER_DEFINITION;
    let mut requests = Vec::new();
    let mut seed = 1_000_000;
    while requests.len() < count {
        seed += 1;
        let mut maker = Maker { rng: Rng::with_seed(seed), wrong: 0 };
        let mut root = maker.root();
        if maker.chance(50) {
            maker.add_rules(&mut root["properties"]["spec"]);
        }
        let mut given = maker.definition(&root);
        given["spec"]["versions"] = json!([given["spec"]["versions"][0]]);
        if !definition::check(&completed(given.clone())).is_empty() {
            continue;
        }
        let object = |maker: &mut Maker| {
            let mut object = maker.object(&root, 5);
            object["apiVersion"] = json!("example.com/v1");
            object["kind"] = json!("Thing");
            object["metadata"] = json!({"name": "thing", "namespace": "n", "resourceVersion": "1"});
            object
        };
        let objects: Vec<Value> = (0..PER_DEFINITION)
            .map(|_| {
                let new = object(&mut maker);
                match maker.rng.u8(..3) {
                    0 => json!({"object": new, "old": object(&mut maker)}),
                    1 => {
                        let mut old = new.clone();
                        old["metadata"]["labels"] = json!({"a": "b"});
                        if maker.rng.bool() {
                            old["spec"] = maker.value(&root["properties"]["spec"], 4);
                        }
                        json!({"object": new, "old": old})
                    }
                    _ => json!({"object": new}),
                }
            })
            .collect();
        requests.push(json!({"op": "cr", "crd": given, "objects": objects}));
    }
    OBJECTS.compare(requests, judge_objects);
}

/// The outcome for an object, in the oracle's format.
fn outcome(schema: &CustomSchema, case: &Value) -> Value {
    let read = |object: &Value| {
        let mut object = object.clone();
        let unknown = schema.decode(&mut object)?;
        let pruned = object.clone();
        schema.default(&mut object);
        Ok::<_, String>((object, pruned, unknown))
    };
    let (object, pruned, mut unknown) = match read(&case["object"]) {
        Ok(read) => read,
        Err(why) => {
            return json!({"decodeError": why, "unknown": [], "pruned": null, "defaulted": null, "errors": []});
        }
    };
    unknown.sort();
    let errors = match case.get("old").map(read) {
        Some(Ok((old, _, _))) => schema.check_update(&object, &old).errors,
        Some(Err(_)) => Vec::new(),
        None => schema.check(&object),
    };
    json!({
        "decodeError": null,
        "unknown": unknown,
        "pruned": steersman_structural::go::json(&pruned),
        "defaulted": steersman_structural::go::json(&object),
        "errors": own_texts(&errors),
    })
}
