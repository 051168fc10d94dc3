//! The OpenAPI description of the gateway's API, generated for the kinds of this cluster.
//!
//! Every operation on instances is described once generically, under `/v1/kinds/{kind}`, and once per kind with that kind's
//! schema.

use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::{
    actions,
    answer::{self, Body},
    kinds::Kind,
    problem::Result,
    request::RequestContext,
};

/// Schemas of the bodies shared by all kinds.
const SCHEMAS: &str = include_str!("../data/schemas.yaml");

/// `GET /openapi.json`.
pub(crate) async fn get(ctx: &RequestContext) -> Result<Response<Body>> {
    ctx.query.allow(&["builtin"])?;
    let builtin = ctx.query.flag("builtin")?;
    let catalog = ctx.shared.kinds.now().await?;
    let shown = catalog.iter().filter(|kind| (builtin || kind.custom) && kind.has_verb("list"));
    let document = document(&ctx.shared.cluster_name, shown.map(|kind| &**kind));
    Ok(answer::json(StatusCode::OK, &document))
}

/// Builds the description for a cluster with these kinds.
fn document<'a>(cluster: &str, kinds: impl Iterator<Item = &'a Kind>) -> Value {
    let mut paths = general();
    let mut schemas = common_schemas();
    for namespaced in [true, false] {
        Subject::any(namespaced).describe(&mut paths);
    }
    for kind in kinds {
        let subject = Subject::of(kind);
        schemas.extend(subject.schemas(kind));
        subject.describe(&mut paths);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": format!("Kinds of {cluster}"), "version": env!("CARGO_PKG_VERSION"),
            "description": "REST API for the kinds of a Kubernetes cluster. Requests are made with the caller's own credentials.",
        },
        "security": [{"bearer": []}, {"session": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "steer_session"},
            },
        },
    })
}

fn common_schemas() -> Map<String, Value> {
    match steersman_yaml::from_str(SCHEMAS) {
        Ok(Value::Object(schemas)) => schemas,
        _ => Map::new(),
    }
}

fn parameter(place: &str, name: &str, schema: Value, description: &str) -> Value {
    let mut parameter = json!({"in": place, "name": name, "required": place == "path", "schema": schema});
    if !description.is_empty() {
        parameter["description"] = description.into();
    }
    parameter
}

fn text() -> Value {
    json!({"type": "string"})
}

fn flag() -> Value {
    json!({"type": "boolean"})
}

fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

/// Builds an operation that responds with a body of a schema, or with a problem.
fn operation(id: &str, summary: &str, tag: &str, parameters: &[Value], answer: Value) -> Value {
    answering(id, summary, tag, parameters, "200", json!({"application/json": {"schema": answer}}))
}

fn answering(
    id: &str,
    summary: &str,
    tag: &str,
    parameters: &[Value],
    status: &str,
    content: Value,
) -> Value {
    let problem = json!({
        "description": "An error", "content": {"application/problem+json": {"schema": reference("Problem")}},
    });
    json!({
        "operationId": id, "summary": summary, "tags": [tag], "parameters": parameters,
        "responses": {status: {"description": "The response", "content": content}, "4XX": problem, "5XX": problem},
    })
}

/// Builds an operation for browsers that are not signed in, which redirects.
fn redirecting(id: &str, summary: &str, parameters: &[Value]) -> Value {
    let mut operation = answering(id, summary, "general", parameters, "303", json!({}));
    operation["responses"]["303"] =
        json!({"description": "A redirect", "headers": {"Location": {"schema": text()}}});
    operation["security"] = json!([]);
    operation
}

/// Adds a further response to an operation.
fn or(mut operation: Value, status: &str, answer: Value) -> Value {
    operation["responses"][status] =
        json!({"description": "The response", "content": {"application/json": {"schema": answer}}});
    operation
}

fn with_body(mut operation: Value, bodies: &[(&str, Value)]) -> Value {
    let content: Map<String, Value> =
        bodies.iter().map(|(kind, schema)| ((*kind).to_owned(), json!({"schema": schema}))).collect();
    operation["requestBody"] = json!({"required": true, "content": content});
    operation
}

/// The media types of an object: JSON and YAML.
fn object_bodies(schema: &Value) -> [(&'static str, Value); 2] {
    [("application/json", schema.clone()), ("application/yaml", schema.clone())]
}

fn any_object() -> Value {
    json!({"type": "object", "additionalProperties": reference("Value")})
}

fn kind_parameter() -> Value {
    parameter("path", "kind", text(), "plural.group")
}

fn version_parameter() -> Value {
    parameter("query", "version", text(), "A served version [default: the preferred one]")
}

fn general() -> Map<String, Value> {
    let get = |id: &str, summary: &str, parameters: &[Value], schema: &str| json!({"get": operation(id, summary, "general", parameters, reference(schema))});
    let audit = [
        parameter("query", "kind", text(), ""),
        parameter("query", "namespace", text(), ""),
        parameter("query", "name", text(), ""),
        parameter("query", "user", text(), ""),
        parameter("query", "limit", json!({"type": "integer", "minimum": 1, "maximum": 1000}), ""),
        parameter(
            "query",
            "before",
            json!({"type": "integer", "minimum": 0}),
            "Only entries older than that with this ID",
        ),
    ];
    let place = [
        kind_parameter(),
        version_parameter(),
        parameter("query", "namespace", text(), ""),
        parameter("query", "name", text(), ""),
    ];
    let credentials = json!({"type": "object", "required": ["token"], "properties": {"token": {"type": "string", "minLength": 1}}});
    let json_me = json!({"application/json": {"schema": reference("Me")}});
    let sign_in =
        answering("sign-in", "Create a session from a cluster token", "general", &[], "201", json_me);
    let mut sign_in = with_body(sign_in, &[("application/json", credentials)]);
    sign_in["security"] = json!([]);
    let mut sign_out = operation("sign-out", "End the session", "general", &[], Value::Null);
    if let Some(responses) = sign_out["responses"].as_object_mut() {
        responses.remove("200");
        responses.insert("204".into(), json!({"description": "The session has ended"}));
    }
    let builtin = parameter("query", "builtin", flag(), "Include built-in kinds");
    let mut paths = Map::new();
    paths.insert("/v1/me".into(), get("me", "Get the caller's identity", &[], "Me"));
    let mut ways = operation(
        "sign-in-ways",
        "List the ways to sign in besides a token",
        "general",
        &[],
        reference("SignInWays"),
    );
    ways["security"] = json!([]);
    paths.insert("/v1/session".into(), json!({"get": ways, "post": sign_in, "delete": sign_out}));
    let next = [parameter("query", "next", text(), "Path to redirect to after signing in [default: /]")];
    paths.insert(
        "/v1/session/oidc".into(),
        json!({"get": redirecting("oidc-sign-in", "Redirect to the OpenID provider", &next)}),
    );
    let answer = ["code", "state", "error", "error_description", "iss"];
    let answer = answer.map(|name| parameter("query", name, text(), "Set by the OpenID provider"));
    paths.insert(
        "/v1/session/oidc/callback".into(),
        json!({"get": redirecting("oidc-callback", "Handle the redirect from the OpenID provider", &answer)}),
    );
    paths.insert("/v1/overview".into(), get("overview", "Get the health of all instances", &[], "Overview"));
    paths.insert(
        "/v1/operator".into(),
        get("operator", "Get queues, reconciles and errors of the operators", &[], "OperatorView"),
    );
    paths.insert("/v1/audit".into(), get("audit", "List audit entries", &audit, "Audit"));
    paths.insert("/v1/kinds".into(), get("kinds", "List the cluster's kinds", &[builtin], "Kinds"));
    let one = [kind_parameter(), version_parameter()];
    paths.insert("/v1/kinds/{kind}".into(), get("kind", "Get a kind with its schema", &one, "Kind"));
    paths.insert(
        "/v1/kinds/{kind}/access".into(),
        get("access", "Get the caller's permissions on a kind", &place, "Access"),
    );
    paths
}

/// The subject of the instance operations: one kind, or any kind.
struct Subject {
    /// The path prefix of the kind.
    base: String,
    tag: String,
    /// The name of the object's schema; those of items, lists and differences are derived from it.
    schema: String,
    /// The suffix of operation IDs.
    id: String,
    parameters: Vec<Value>,
    namespaced: bool,
    /// Names, titles and input schemas of the actions; None if the action is a path parameter.
    actions: Option<Vec<Value>>,
}

impl Subject {
    fn any(namespaced: bool) -> Self {
        Self {
            base: "/v1/kinds/{kind}".into(),
            tag: "any kind".into(),
            schema: "Object".into(),
            id: if namespaced { "" } else { "-cluster-scoped" }.into(),
            parameters: vec![kind_parameter(), version_parameter()],
            namespaced,
            actions: None,
        }
    }

    fn of(kind: &Kind) -> Self {
        let name = kind.name();
        Self {
            base: format!("/v1/kinds/{name}"),
            tag: kind.kind.clone(),
            schema: format!("{}.{}.{}", kind.group, kind.version, kind.kind)
                .trim_start_matches('.')
                .to_owned(),
            id: format!("-{name}"),
            parameters: vec![version_parameter()],
            namespaced: kind.namespaced,
            actions: Some(actions::documents(&actions::of(kind, None))),
        }
    }

    /// Returns the name of a schema that is specific to this kind.
    fn named(&self, schema: &str) -> String {
        if self.actions.is_none() { schema.to_owned() } else { format!("{}.{schema}", self.schema) }
    }

    /// Builds the schemas of a kind.
    fn schemas(&self, kind: &Kind) -> Vec<(String, Value)> {
        let object = kind.schema().cloned().map_or_else(|| json!({"type": "object"}), converted);
        let of_kind = |name: &str, field: &str, schema: Value| {
            let own = json!({"type": "object", "properties": {field: schema}});
            (self.named(name), json!({"allOf": [reference(name), own]}))
        };
        let items = json!({"type": "array", "items": reference(&self.named("Item"))});
        vec![
            (self.schema.clone(), object),
            of_kind("Item", "object", reference(&self.schema)),
            of_kind("InstanceList", "items", items),
        ]
    }

    fn describe(&self, paths: &mut Map<String, Value>) {
        let base = &self.base;
        let id = |verb: &str| format!("{verb}{}", self.id);
        let mut place = self.parameters.clone();
        if self.namespaced || self.actions.is_some() {
            let (list, create) = (self.list(&id("list-all"), &place), self.create(&id("create-any"), &place));
            paths.insert(format!("{base}/instances"), json!({"get": list, "post": create}));
        }
        let mut folder = base.clone();
        if self.namespaced {
            place.push(parameter("path", "namespace", text(), ""));
            folder = format!("{base}/namespaces/{{namespace}}");
            let (list, create) = (self.list(&id("list"), &place), self.create(&id("create"), &place));
            paths.insert(format!("{folder}/instances"), json!({"get": list, "post": create}));
        }
        place.push(parameter("path", "name", text(), ""));
        self.instance(&format!("{folder}/instances/{{name}}"), &place, paths);
    }

    fn list(&self, id: &str, place: &[Value]) -> Value {
        let filters = json!({"type": "array", "items": text()});
        let selection = [
            parameter("query", "labelSelector", text(), ""),
            parameter("query", "fieldSelector", text(), ""),
            parameter("query", "filter", filters, "Conditions that must all be met"),
            parameter("query", "sort", text(), "Field paths, with a leading - for descending order"),
            parameter("query", "limit", json!({"type": "integer", "minimum": 1, "maximum": 5000}), ""),
            parameter("query", "continue", text(), "Continue token of the previous page"),
            parameter("query", "fields", text(), "Paths of the fields to return"),
            parameter("query", "reveal", flag(), "Include secret values"),
            parameter("query", "lastEventId", text(), "ID of the event to resume a stream after"),
        ];
        let content = json!({
            "application/json": {"schema": reference(&self.named("InstanceList"))},
            "text/event-stream": {"schema": text()},
        });
        answering(id, "List instances", &self.tag, &[place, &selection].concat(), "200", content)
    }

    fn create(&self, id: &str, place: &[Value]) -> Value {
        let parameters = [place, &write_parameters()].concat();
        let object = reference(&self.schema);
        let content = json!({"application/json": {"schema": object}});
        let create = answering(id, "Create an instance", &self.tag, &parameters, "201", content);
        with_body(or(create, "200", reference("Diff")), &object_bodies(&object))
    }

    /// Adds the operations on one instance.
    fn instance(&self, one: &str, place: &[Value], paths: &mut Map<String, Value>) {
        let id = |verb: &str| format!("{verb}{}", self.id);
        let object = reference(&self.schema);
        let changing = [place, &write_parameters(), &[if_match()]].concat();
        let change = |verb: &str, summary: &str, parameters: &[Value]| {
            let answer = json!({"anyOf": [object, reference("Diff")]});
            operation(&id(verb), summary, &self.tag, parameters, answer)
        };
        let reveal = parameter("query", "reveal", flag(), "Include secret values");
        let content =
            json!({"application/json": {"schema": object}, "text/event-stream": {"schema": text()}});
        let get = [place, &[reveal]].concat();
        let get = answering(&id("get"), "Get an instance", &self.tag, &get, "200", content);
        let ways = json!({"enum": ["background", "foreground", "orphan"]});
        let propagation = parameter("query", "propagation", ways, "Deletion policy for owned objects");
        let deleting = [&changing[..], &[propagation]].concat();
        let patch = [
            ("application/merge-patch+json", any_object()),
            ("application/json-patch+json", json!({"type": "array", "items": any_object()})),
            ("application/apply-patch+yaml", any_object()),
        ];
        paths.insert(
            one.to_owned(),
            json!({
                "get": get,
                "put": with_body(change("replace", "Replace an instance", &changing), &object_bodies(&object)),
                "patch": with_body(change("patch", "Patch an instance", &changing), &patch),
                "delete": or(change("delete", "Delete an instance", &deleting), "202", object.clone()),
            }),
        );
        let tree = parameter("query", "tree", flag(), "Include events of owned objects");
        let revision = parameter("path", "revision", json!({"type": "integer", "minimum": 1}), "");
        let number = || json!({"type": "integer", "minimum": 1});
        let mut from = parameter("query", "from", number(), "Revision to compare from");
        from["required"] = true.into();
        let to = parameter("query", "to", number(), "Revision to compare with [default: the live object]");
        for (part, summary, more, schema) in [
            ("status", "Get an instance's health and conditions", vec![], "StatusView"),
            ("events", "List an instance's events", vec![tree], "Events"),
            ("tree", "Get an instance's tree of owned objects", vec![], "Tree"),
            ("history", "List an instance's revisions", vec![], "History"),
            ("history/{revision}", "Get a revision of an instance", vec![revision], "RevisionContent"),
            ("history/compare", "Compare two revisions of an instance", vec![from, to], "Comparison"),
            ("actions", "List the actions on an instance", vec![], "InstanceActions"),
        ] {
            let name = part.replace('/', "-").replace(['{', '}'], "");
            let parameters = [place, &more].concat();
            let get = operation(&id(&name), summary, &self.tag, &parameters, reference(schema));
            paths.insert(format!("{one}/{part}"), json!({"get": get}));
        }
        let logs = [place, &log_parameters()].concat();
        let content = json!({"text/plain": {"schema": text()}, "text/event-stream": {"schema": text()}});
        let logs =
            answering(&id("logs"), "Get the logs of an instance's pods", &self.tag, &logs, "200", content);
        paths.insert(format!("{one}/logs"), json!({"get": logs}));
        let Some(actions) = &self.actions else {
            let action = parameter("path", "action", text(), "");
            let operation =
                change("act", "Run an action on an instance", &[&changing[..], &[action]].concat());
            let body = json!({"type": "object", "properties": {"value": reference("Value")}});
            let post = with_body(operation, &[("application/json", body)]);
            paths.insert(format!("{one}/actions/{{action}}"), json!({"post": post}));
            return;
        };
        for action in actions {
            let name = action["name"].as_str().unwrap_or_default();
            let body = match &action["input"] {
                Value::Null => json!({"type": "object"}),
                input => {
                    json!({"type": "object", "properties": {"value": converted(input.clone())}, "required": ["value"]})
                }
            };
            let operation = change(name, action["title"].as_str().unwrap_or_default(), &changing);
            let post = with_body(operation, &[("application/json", body)]);
            paths.insert(format!("{one}/actions/{name}"), json!({"post": post}));
        }
    }
}

fn write_parameters() -> [Value; 4] {
    let difference = "Return the difference without applying it";
    [
        parameter("query", "dryRun", flag(), difference),
        parameter("query", "wait", json!({"enum": ["ready"]}), "Wait until the instance is ready"),
        parameter(
            "query",
            "timeout",
            json!({"type": "string", "pattern": "^[0-9]{1,3}s?$"}),
            "Maximum time to wait, such as 60s",
        ),
        parameter(
            "header",
            "Idempotency-Key",
            json!({"type": "string", "maxLength": 255}),
            "Key that makes retries of the request safe",
        ),
    ]
}

fn if_match() -> Value {
    parameter("header", "If-Match", text(), "ETag of the version to change")
}

fn log_parameters() -> [Value; 5] {
    [
        parameter("query", "pod", text(), "Name of a pod [default: all pods of the tree]"),
        parameter("query", "container", text(), ""),
        parameter(
            "query",
            "tail",
            json!({"type": "integer", "minimum": 0, "maximum": 100_000}),
            "Number of lines per container",
        ),
        parameter("query", "follow", flag(), "Follow the logs"),
        parameter("query", "previous", flag(), "Logs of the containers before their last restart"),
    ]
}

/// Converts a CustomResourceDefinition's schema from OpenAPI 3.0 to 3.1.
fn converted(mut schema: Value) -> Value {
    convert(&mut schema);
    schema
}

fn convert(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else { return };
    if members.remove("nullable") == Some(Value::Bool(true))
        && let Some(Value::String(name)) = members.get("type").cloned()
    {
        members.insert("type".into(), json!([name, "null"]));
    }
    if members.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        members.remove("anyOf");
        members.insert("type".into(), json!(["integer", "string"]));
    }
    for (limit, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        if members.remove(exclusive) == Some(Value::Bool(true))
            && let Some(value) = members.remove(limit)
        {
            members.insert(exclusive.into(), value);
        }
    }
    for (name, inner) in members.iter_mut() {
        match (name.as_str(), inner) {
            ("properties", Value::Object(properties)) => properties.values_mut().for_each(convert),
            ("items" | "additionalProperties" | "not", inner) => convert(inner),
            ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => schemas.iter_mut().for_each(convert),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_said_in_the_words_of_three_one() {
        let schema = json!({"properties": {
            "a": {"type": "string", "nullable": true},
            "b": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "c": {"type": "array", "items": {"type": "integer", "minimum": 1, "exclusiveMinimum": true}},
        }});
        let schema = converted(schema);
        assert_eq!(schema["properties"]["a"]["type"], json!(["string", "null"]));
        assert_eq!(schema["properties"]["b"]["type"], json!(["integer", "string"]));
        assert_eq!(schema["properties"]["c"]["items"], json!({"type": "integer", "exclusiveMinimum": 1}));
    }

    #[test]
    fn every_schema_that_is_named_is_there() {
        let document = document("a cluster", std::iter::empty());
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let text = document.to_string();
        let named = text.split("#/components/schemas/").skip(1);
        let missing: Vec<&str> = named
            .filter_map(|rest| rest.split('"').next())
            .filter(|name| !schemas.contains_key(*name))
            .collect();
        assert!(missing.is_empty() && schemas.contains_key("Object"), "{missing:?}");
    }
}
