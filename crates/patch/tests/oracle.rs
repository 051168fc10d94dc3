//! Differential tests of random patches and applies against Kubernetes' own libraries.
//!
//! With the libraries themselves (`oracles/kubernetes/build libs`) and the schemas in `../shared/kubernetes` by
//! `make oracle-kubernetes`, with recorded answers and schemas by `make test`.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use serde_json::{Map, Value, json};
use steersman_libs_oracle::{Area, Judgement, cases, version};
use steersman_patch::apply::{self, ApplyError, FieldSet, Request, Resource, TypeId, Types};
use steersman_patch::{json_patch, merge_patch, strategic_merge_patch};
use steersman_recordings::Recordings;

const APPLY: Area = area("apply", 700);
const STRATEGIC: Area = area("strategic", 1_500);
const MERGE: Area = area("merge", 800);
const JSON: Area = area("json", 2_000);

const fn area(name: &'static str, recorded: usize) -> Area {
    Area { name, package: env!("CARGO_MANIFEST_DIR"), recorded }
}

/// The kinds that objects are made of, with the names of their schemas.
const KINDS: &[(&str, &str, &str)] = &[
    ("apps/v1", "Deployment", "io.k8s.api.apps.v1.Deployment"),
    ("v1", "Service", "io.k8s.api.core.v1.Service"),
    ("v1", "Pod", "io.k8s.api.core.v1.Pod"),
    ("v1", "ConfigMap", "io.k8s.api.core.v1.ConfigMap"),
    ("batch/v1", "CronJob", "io.k8s.api.batch.v1.CronJob"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", "io.k8s.api.rbac.v1.ClusterRole"),
    ("networking.k8s.io/v1", "Ingress", "io.k8s.api.networking.v1.Ingress"),
];

fn shared() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::env::var_os("STEERSMAN_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from)
}

/// The schemas that objects are made from.
fn components() -> Map<String, Value> {
    let path = shared().join("kubernetes/openapi-schemas.json");
    let text = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let all: Map<String, Value> = serde_json::from_slice(&text).expect("schemas are a JSON object");
    let mut used = Map::new();
    let mut wanted: Vec<String> = KINDS.iter().map(|(_, _, schema)| (*schema).to_owned()).collect();
    while let Some(name) = wanted.pop() {
        if let Some(schema) = all.get(&name).filter(|_| !used.contains_key(&name)) {
            references(schema, &mut wanted);
            used.insert(name, schema.clone());
        }
    }
    used
}

/// Adds the names of the schemas that a schema refers to.
fn references(schema: &Value, names: &mut Vec<String>) {
    match schema {
        Value::Object(map) => {
            for (key, value) in map {
                match value.as_str() {
                    Some(target) if key == "$ref" => {
                        names.push(target.rsplit('/').next().unwrap_or(target).to_owned());
                    }
                    _ => references(value, names),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, names)),
        _ => {}
    }
}

/// The schemas at the time the cases were recorded.
fn recorded_components() -> Map<String, Value> {
    Recordings::of(env!("CARGO_MANIFEST_DIR")).read("schemas").into_iter().next().expect("one line")
}

/// Generates random objects of a schema from a small vocabulary, so that values often collide.
struct Maker<'a> {
    rng: Rng,
    components: &'a Map<String, Value>,
}

impl Maker<'_> {
    fn word(&mut self) -> String {
        self.rng.choice(["a", "b", "c", "web", "app"]).map_or_else(String::new, str::to_owned)
    }

    fn scalar(&mut self) -> Value {
        match self.rng.u8(..6) {
            0 => json!(self.rng.i32(0..3)),
            1 => json!(self.rng.bool()),
            2 => json!(1.5),
            _ => json!(self.word()),
        }
    }

    fn object(&mut self, api_version: &str, kind: &str, schema: &str) -> Value {
        let mut object = self.of(&json!({"$ref": schema}), 0);
        if let Some(map) = object.as_object_mut() {
            map.insert("apiVersion".into(), json!(api_version));
            map.insert("kind".into(), json!(kind));
            let mut metadata =
                self.of(&json!({"$ref": "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}), 1);
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.remove("managedFields");
                metadata.insert("name".into(), json!("x"));
                metadata.insert("namespace".into(), json!("n"));
            }
            map.insert("metadata".into(), metadata);
        }
        object
    }

    fn of(&mut self, schema: &Value, depth: usize) -> Value {
        let reference = schema.get("$ref").or_else(|| schema.get("allOf")?.get(0)?.get("$ref"));
        if let Some(name) = reference.and_then(Value::as_str) {
            let name = name.rsplit('/').next().unwrap_or(name);
            if name.ends_with("Quantity") {
                return json!(self.rng.choice(["1", "100m", "1Gi"]).expect("one"));
            }
            if name.ends_with(".Time") || name.ends_with(".MicroTime") {
                return json!("2026-01-02T03:04:05Z");
            }
            let target = self.components.get(name).cloned().unwrap_or(Value::Null);
            return self.of(&target, depth);
        }
        if depth > 0 && self.rng.u8(..60) == 0 {
            return Value::Null;
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => {
                let mut map = Map::new();
                if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
                    // Deep objects thin out, so that a pod stays small.
                    let wanted = if depth < 2 { 4 } else { 3 };
                    let required: Vec<&str> = schema["required"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .filter_map(Value::as_str)
                        .collect();
                    for (name, property) in properties {
                        let chance = self.rng.usize(..properties.len()) < wanted;
                        let keep = required.contains(&name.as_str()) || chance;
                        if keep && (depth < 7 || required.contains(&name.as_str())) {
                            map.insert(name.clone(), self.of(property, depth + 1));
                        }
                    }
                } else if let Some(additional) = schema.get("additionalProperties") {
                    for _ in 0..self.rng.usize(..3) {
                        let value = self.of(additional, depth + 1);
                        map.insert(self.word(), value);
                    }
                }
                Value::Object(map)
            }
            Some("array") => {
                let items = schema.get("items").cloned().unwrap_or(Value::Null);
                let mut list: Vec<Value> =
                    (0..self.rng.usize(..4)).map(|_| self.of(&items, depth + 1)).collect();
                list.retain(|item| !item.is_null());
                Value::Array(list)
            }
            Some("integer") => json!(self.rng.i32(0..4)),
            Some("number") => json!(0.5),
            Some("boolean") => json!(self.rng.bool()),
            Some("string") => json!(self.word()),
            _ => self.scalar(),
        }
    }

    /// The object with a few things changed, added and taken away.
    fn changed(&mut self, value: &Value, depth: usize) -> Value {
        match value {
            Value::Object(map) => {
                let mut out = Map::new();
                for (key, value) in map {
                    match self.rng.u8(..12) {
                        0 if depth > 0 => {}
                        _ => {
                            out.insert(key.clone(), self.changed(value, depth + 1));
                        }
                    }
                }
                Value::Object(out)
            }
            Value::Array(items) => {
                let mut out: Vec<Value> = items.iter().map(|item| self.changed(item, depth + 1)).collect();
                if self.rng.u8(..4) == 0 {
                    self.rng.shuffle(&mut out);
                }
                if self.rng.u8(..6) == 0 {
                    out.pop();
                }
                Value::Array(out)
            }
            Value::String(_) if depth > 1 && self.rng.u8(..8) == 0 => json!(self.word()),
            Value::Number(_) if self.rng.u8(..8) == 0 => json!(self.rng.i32(0..4)),
            Value::Bool(_) if self.rng.u8(..8) == 0 => json!(self.rng.bool()),
            other => other.clone(),
        }
    }
}

struct BuiltIn<'a> {
    api_version: &'a str,
    types: &'a Types,
    ty: TypeId,
    reset: FieldSet<'static>,
    subresource: &'a str,
}

impl Resource for BuiltIn<'_> {
    fn api_version(&self) -> &str {
        self.api_version
    }
    fn typed(&self, api_version: &str) -> Option<(&Types, TypeId)> {
        (api_version == self.api_version).then_some((self.types, self.ty))
    }
    fn convert<'v>(&self, object: &'v Value, api_version: &str) -> Option<Cow<'v, Value>> {
        (api_version == self.api_version).then_some(Cow::Borrowed(object))
    }
    fn finish(&self, _: &mut Value) -> Result<(), String> {
        Ok(())
    }
    fn reset_fields(&self, _: &str) -> Option<&FieldSet<'static>> {
        Some(&self.reset)
    }
    fn subresource(&self) -> &str {
        self.subresource
    }
}

/// The outcome of a step, in the oracle's format.
fn outcome(result: Result<&Value, &ApplyError>) -> Value {
    match result {
        Ok(object) => {
            let mut object = object.clone();
            apply::unpack(&mut object);
            let mut managed = Vec::new();
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
                && let Some(Value::Array(entries)) = metadata.remove("managedFields")
            {
                managed = entries;
            }
            for entry in &mut managed {
                if let Some(entry) = entry.as_object_mut() {
                    entry.remove("time");
                    entry.remove("fieldsType");
                }
            }
            normal(json!({"object": object, "managedFields": managed}))
        }
        Err(error) => normal(json!({"error": error.to_string()})),
    }
}

/// Sorts managedFields entries: the oracle's timestamps, and so its order, differ.
fn normal(mut outcome: Value) -> Value {
    if let Some(Value::Array(entries)) = outcome.get_mut("managedFields") {
        entries.sort_by_key(|e| {
            format!("{} {} {} {}", e["operation"], e["manager"], e["apiVersion"], e["subresource"])
        });
    }
    if let Some(metadata) = outcome.pointer_mut("/object/metadata").and_then(Value::as_object_mut) {
        if metadata.get("creationTimestamp").is_some_and(Value::is_null) {
            metadata.remove("creationTimestamp");
        }
        if metadata.is_empty()
            && let Some(object) = outcome["object"].as_object_mut()
        {
            object.remove("metadata");
        }
    }
    let error = outcome.get("error").cloned();
    match error {
        // Fields are visited in another order, so of several errors the first ones may differ.
        Some(Value::String(text)) if text.contains("field not declared") => json!({"error": "not declared"}),
        Some(Value::String(text)) => {
            let mut lines: Vec<_> = text.lines().collect();
            if text.contains("errors:") {
                lines.sort_unstable();
            }
            json!({"error": lines})
        }
        Some(other) => json!({"error": other}),
        None => json!({
            "object": outcome["object"],
            "managedFields": outcome.get("managedFields").cloned().unwrap_or_else(|| json!([]))
        }),
    }
}

/// Compares each step in the life of one object with the outcome in the libraries.
fn judge_apply(types: &Types, request: &Value, answer: &Value) -> Judgement {
    let (api_version, kind) = kind_of(request);
    let schema = schema_of(request);
    let steps = request["steps"].as_array().map_or(&[][..], Vec::as_slice);
    let theirs = answer["result"].as_array().map_or(&[][..], Vec::as_slice);
    assert_eq!(theirs.len(), steps.len(), "{answer}\n{request}");
    let mut live = json!({"apiVersion": api_version, "kind": kind});
    let mut judged = Judgement::default();
    for (number, (step, theirs)) in steps.iter().zip(theirs).enumerate() {
        judged.tried += 1;
        let (result, ours) = take_step(types, schema, api_version, &live, step);
        let theirs = normal(theirs.clone());
        if ours != theirs {
            judged
                .different
                .push(format!("step {number}\n  ours   {ours}\n  theirs {theirs}\n  request {request}"));
            // The following steps would start from a different object.
            break;
        }
        live = result.unwrap_or(live);
    }
    judged
}

/// Applies one step to an object. Returns the new object, unless it failed, and the outcome in the oracle's format.
fn take_step(
    types: &Types,
    schema: &str,
    api_version: &str,
    live: &Value,
    step: &Value,
) -> (Option<Value>, Value) {
    let subresource = step["subresource"].as_str().unwrap_or_default();
    let reset: &[&[&str]] =
        if subresource.is_empty() { &[&["status"]] } else { &[&["spec"], &["metadata", "labels"]] };
    let resource = BuiltIn {
        api_version,
        types,
        ty: types.named(schema).expect("a schema of that name"),
        reset: FieldSet::of_fields(reset.iter().copied()),
        subresource,
    };
    let manager = step["manager"].as_str().unwrap_or_default();
    let request = Request { manager, now: "2026-01-02T03:04:05Z" };
    let object = &step["object"];
    if step["do"] == "apply" {
        let result = apply::apply(&resource, live, object, request, step["force"] == true);
        let outcome = outcome(result.as_ref());
        (result.ok(), outcome)
    } else {
        let mut new = object.clone();
        apply::update(&resource, live, &mut new, request);
        let outcome = outcome(Ok(&new));
        (Some(new), outcome)
    }
}

/// The version and kind that a request is about.
fn kind_of(request: &Value) -> (&str, &str) {
    request["kind"].as_str().and_then(|kind| kind.rsplit_once('/')).unwrap_or_default()
}

/// The name of the schema of the kind that a request is about.
fn schema_of(request: &Value) -> &'static str {
    let named = kind_of(request);
    let found = KINDS.iter().find(|(api_version, kind, _)| (*api_version, *kind) == named);
    found.map(|(_, _, schema)| *schema).expect("a kind of ours")
}

#[test]
fn applies_are_as_recorded() {
    let components = recorded_components();
    let types = Types::from_components(&components);
    APPLY.replay(|request, answer| judge_apply(&types, request, answer));
}

#[test]
#[ignore = "needs the Kubernetes oracle: make oracle-kubernetes"]
fn applies_are_as_in_kubernetes() {
    let components = components();
    let types = Types::from_components(&components);
    if steersman_recordings::recording() {
        Recordings::of(env!("CARGO_MANIFEST_DIR")).write("schemas", &version(), &[&components]);
    }
    let requests = (0..cases(4_000)).map(|seed| life(&components, &types, seed)).collect();
    APPLY.compare(requests, |request, answer| judge_apply(&types, request, answer));
}

/// Generates a few writes of one object, each based on the result of the previous ones.
fn life(components: &Map<String, Value>, types: &Types, seed: usize) -> Value {
    let mut maker = Maker { rng: Rng::with_seed(seed as u64), components };
    let (api_version, kind, schema) = KINDS[seed % KINDS.len()];
    let mut steps = Vec::new();
    let mut live = json!({"apiVersion": api_version, "kind": kind});
    let base = maker.object(api_version, kind, schema);
    for _ in 0..maker.rng.usize(2..6) {
        let manager = maker.rng.choice(["one", "two", "kubectl"]).expect("one");
        let is_apply = maker.rng.u8(..3) > 0;
        let force = maker.rng.u8(..3) == 0;
        let subresource = if !is_apply && maker.rng.u8(..5) == 0 { "status" } else { "" };
        let object = match maker.rng.u8(..4) {
            0 => maker.object(api_version, kind, schema),
            1 if live.get("metadata").is_some() => {
                let mut object = maker.changed(&live, 0);
                if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.remove("managedFields");
                }
                object
            }
            _ => maker.changed(&base, 0),
        };
        let verb = if is_apply { "apply" } else { "update" };
        let step = json!({
            "do": verb, "manager": manager, "force": force, "subresource": subresource, "object": object
        });
        let (result, _) = take_step(types, schema, api_version, &live, &step);
        live = result.unwrap_or(live);
        steps.push(step);
    }
    json!({"op": "apply", "kind": format!("{api_version}/{kind}"), "reset": ["status"], "steps": steps})
}

/// Compares our result of a patch with the libraries'.
fn judge_patch(ours: Result<Value, String>, request: &Value, answer: &Value) -> Judgement {
    let ours = match ours {
        Ok(object) => json!({"result": object}),
        Err(error) => json!({"error": error}),
    };
    let result = &answer["result"];
    let theirs = match (result.get("error"), answer.get("panic")) {
        (_, Some(_)) => return Judgement::default(),
        (Some(error), _) => json!({"error": error}),
        _ => json!({"result": result["result"]}),
    };
    // The libraries report a random one of several errors in a strategic patch.
    let both_fail =
        request["op"] == "patch.strategic" && ours.get("error").is_some() && theirs.get("error").is_some();
    Judgement::one(
        (ours != theirs && !both_fail)
            .then(|| format!("  ours   {ours}\n  theirs {theirs}\n  request {request}")),
    )
}

fn judge_strategic(components: &Map<String, Value>, request: &Value, answer: &Value) -> Judgement {
    let (original, patch) = (&request["original"], &request["patch"]);
    let ours = strategic_merge_patch(original, patch, components, schema_of(request));
    judge_patch(ours.map_err(|error| error.to_string()), request, answer)
}

#[test]
fn strategic_patches_are_as_recorded() {
    let components = recorded_components();
    STRATEGIC.replay(|request, answer| judge_strategic(&components, request, answer));
}

#[test]
#[ignore = "needs the Kubernetes oracle: make oracle-kubernetes"]
fn strategic_patches_are_as_in_kubernetes() {
    let components = components();
    let requests = (0..cases(15_000)).map(|seed| {
        let mut maker = Maker { rng: Rng::with_seed(seed as u64), components: &components };
        let (api_version, kind, schema) = KINDS[seed % KINDS.len()];
        let original = unique(maker.object(api_version, kind, schema));
        let other = if maker.rng.bool() { maker.object(api_version, kind, schema) } else { original.clone() };
        let mut patch = maker.changed(&other, 1);
        directives(&mut maker, &mut patch);
        json!({
            "op": "patch.strategic", "kind": format!("{api_version}/{kind}"), "original": original, "patch": patch
        })
    });
    STRATEGIC.compare(requests.collect(), |request, answer| judge_strategic(&components, request, answer));
}

/// Removes duplicate scalars from lists. The oracle shares the memory of lists decoded from JSON with the result,
/// which then differs; the server never does.
fn unique(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(map.into_iter().map(|(k, v)| (k, unique(v))).collect()),
        Value::Array(items) => {
            let mut out: Vec<Value> = Vec::new();
            for item in items {
                if item.is_object() || !out.contains(&item) {
                    out.push(unique(item));
                }
            }
            Value::Array(out)
        }
        scalar => scalar,
    }
}

/// Inserts directives of strategic merge patches at random.
fn directives(maker: &mut Maker<'_>, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for value in map.values_mut() {
                directives(maker, value);
            }
            if maker.rng.u8(..40) == 0 {
                let directive = maker.rng.choice(["replace", "delete", "merge", "replace"]).expect("one");
                map.insert("$patch".into(), json!(directive));
            }
            if maker.rng.u8(..40) == 0 {
                let keys: Vec<&String> = map.keys().collect();
                let keys = json!(keys);
                map.insert("$retainKeys".into(), keys);
            }
            let lists: Vec<String> =
                map.iter().filter(|(_, v)| v.is_array()).map(|(k, _)| k.clone()).collect();
            for list in lists {
                match maker.rng.u8(..12) {
                    0 => {
                        let order = map[&list].clone();
                        map.insert(format!("$setElementOrder/{list}"), order);
                    }
                    1 => {
                        if let Some(items) = map.remove(&list) {
                            map.insert(format!("$deleteFromPrimitiveList/{list}"), items);
                        }
                    }
                    2 => {
                        map.insert(list, Value::Null);
                    }
                    _ => {}
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| directives(maker, item)),
        _ => {}
    }
}

fn judge_merge(request: &Value, answer: &Value) -> Judgement {
    let ours = merge_patch(&request["original"], &request["patch"]);
    judge_patch(ours.map_err(|error| error.to_string()), request, answer)
}

#[test]
fn merge_patches_are_as_recorded() {
    MERGE.replay(judge_merge);
}

#[test]
#[ignore = "needs the Kubernetes oracle: make oracle-kubernetes"]
fn merge_patches_are_as_in_kubernetes() {
    let components = components();
    let requests = (0..cases(15_000)).map(|seed| {
        let mut maker = Maker { rng: Rng::with_seed(seed as u64), components: &components };
        let (api_version, kind, schema) = KINDS[seed % KINDS.len()];
        let original = maker.object(api_version, kind, schema);
        let other = if maker.rng.bool() { maker.object(api_version, kind, schema) } else { original.clone() };
        let mut patch = maker.changed(&other, 1);
        directives(&mut maker, &mut patch);
        json!({"op": "patch.merge", "original": original, "patch": patch})
    });
    MERGE.compare(requests.collect(), judge_merge);
}

fn judge_json(request: &Value, answer: &Value) -> Judgement {
    let patch = request["patchText"].as_str().unwrap_or_default();
    let ours = json_patch(&request["original"], patch.as_bytes());
    judge_patch(ours.map_err(|error| error.to_string()), request, answer)
}

#[test]
fn json_patches_are_as_recorded() {
    JSON.replay(judge_json);
}

#[test]
#[ignore = "needs the Kubernetes oracle: make oracle-kubernetes"]
fn json_patches_are_as_in_kubernetes() {
    let components = components();
    let requests = (0..cases(20_000)).map(|seed| {
        let mut maker = Maker { rng: Rng::with_seed(seed as u64), components: &components };
        let (api_version, kind, schema) = KINDS[seed % KINDS.len()];
        let original = maker.object(api_version, kind, schema);
        let paths = pointers(&original);
        let operations: Vec<Value> =
            (0..maker.rng.usize(1..4)).map(|_| operation(&mut maker, &original, &paths)).collect();
        json!({"op": "patch.json", "original": original, "patchText": Value::Array(operations).to_string()})
    });
    JSON.compare(requests.collect(), judge_json);
}

fn pointers(value: &Value) -> Vec<String> {
    let mut out = vec![String::new()];
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(k, v)| (k.replace('~', "~0").replace('/', "~1"), v)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(i, v)| (i.to_string(), v)).collect(),
        _ => Vec::new(),
    };
    for (key, value) in children {
        out.extend(pointers(value).into_iter().map(|path| format!("/{key}{path}")));
    }
    out
}

fn operation(maker: &mut Maker<'_>, original: &Value, paths: &[String]) -> Value {
    let path = |maker: &mut Maker<'_>| {
        let path = maker.rng.choice(paths).cloned().unwrap_or_default();
        match maker.rng.u8(..8) {
            0 => format!("{path}/{}", maker.word()),
            1 => format!("{path}/-"),
            2 => format!("{path}/{}", maker.rng.i32(-3..4)),
            3 => format!("{path}/a~1b"),
            4 => path.trim_start_matches('/').to_owned(),
            _ => path,
        }
    };
    let target = path(maker);
    let kind =
        maker.rng.choice(["add", "remove", "replace", "move", "copy", "test", "test", "frob"]).expect("one");
    let mut operation = json!({"op": kind, "path": target});
    match kind {
        "move" | "copy" => operation["from"] = json!(path(maker)),
        "test" => {
            let live = original.pointer(&target).cloned();
            let value = if maker.rng.bool() { live.unwrap_or(Value::Null) } else { maker.scalar() };
            operation["value"] = value;
        }
        "add" | "replace" => {
            operation["value"] = if maker.rng.bool() { maker.scalar() } else { json!({"a": [1]}) }
        }
        _ => {}
    }
    if maker.rng.u8(..30) == 0
        && let Some(map) = operation.as_object_mut()
    {
        let field = maker.rng.choice(["op", "path", "from", "value"]).expect("one");
        map.remove(field);
    }
    operation
}
