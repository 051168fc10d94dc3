//! Admission policies.

use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use steersman_apiserver::Server;
use tower_service::Service as _;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const BASE: &str = "/apis/admissionregistration.k8s.io/v1";

async fn ask(server: &Server, request: &str, body: Value) -> (u16, Value) {
    let (method, path) = request.split_once(' ').unwrap();
    let mut builder = Request::builder().method(method).uri(path);
    if method == "PATCH" {
        builder = builder.header("content-type", "application/merge-patch+json");
    }
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = server.service().call(builder.body(body).unwrap()).await.unwrap();
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

fn apply(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn steps(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

/// Creates and binds a mutating policy for ConfigMaps; `spec` is merged over the default one.
async fn enforce(server: &Server, name: &str, spec: Value) {
    let mut policy = json!({
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]},
        ]},
    });
    for (field, value) in spec.as_object().unwrap() {
        policy[field] = value.clone();
    }
    let policy = json!({"metadata": {"name": name}, "spec": policy});
    let (code, answer) = ask(server, &format!("POST {BASE}/mutatingadmissionpolicies"), policy).await;
    assert_eq!(code, 201, "{answer}");
    let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name}});
    let (code, answer) = ask(server, &format!("POST {BASE}/mutatingadmissionpolicybindings"), binding).await;
    assert_eq!(code, 201, "{answer}");
}

async fn create(server: &Server, data: Value) -> (u16, Value) {
    ask(server, &format!("POST {MAPS}"), json!({"metadata": {"name": "a"}, "data": data})).await
}

#[tokio::test]
async fn writes_are_changed_in_order() {
    let server = Server::default();
    enforce(
        &server,
        "p",
        json!({
            "variables": [{"name": "twice", "expression": "object.data.k + object.data.k"}],
            "mutations": [
                apply("Object{data: {'k': variables.twice}}"),
                apply("Object{metadata: Object.metadata{labels: {'l': variables.twice}}}"),
                apply("Object{metadata: Object.metadata{annotations: {'x': 'y'}}}"),
                steps(
                    "[JSONPatch{op: 'copy', from: '/data/k', path: '/metadata/annotations/' + jsonpatch.escapeKey('a/b')}]",
                ),
            ],
        }),
    )
    .await;
    let (code, made) = create(&server, json!({"k": "v"})).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["data"], json!({"k": "vv"}));
    assert_eq!(made["metadata"]["annotations"], json!({"x": "y", "a/b": "vv"}));
    // Each mutation sees the result of the previous ones.
    assert_eq!(made["metadata"]["labels"], json!({"l": "vvvv"}));
    // Fields set by a policy have no manager.
    assert_eq!(made["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:data": {".": {}, "f:k": {}}}));
    let (_, deleted) = ask(&server, &format!("DELETE {MAPS}/a"), Value::Null).await;
    assert_eq!(deleted["status"], "Success");
}

#[tokio::test]
async fn a_policy_that_asks_for_it_sees_what_comes_after_it() {
    let trace = |mark: &str| {
        let before = "(has(object.data.trace) ? object.data.trace : '')";
        json!([steps(&format!("[JSONPatch{{op: 'add', path: '/data/trace', value: {before} + '{mark}'}}]"))])
    };
    for (policy, expected) in [("Never", "ab"), ("IfNeeded", "aba")] {
        let server = Server::default();
        enforce(&server, "a", json!({"reinvocationPolicy": policy, "mutations": trace("a")})).await;
        enforce(&server, "b", json!({"mutations": trace("b")})).await;
        let (_, made) = create(&server, json!({"k": "v"})).await;
        assert_eq!(made["data"]["trace"], expected);
    }
}

#[tokio::test]
async fn failures_refuse_unless_they_are_ignored() {
    let mutations =
        json!([apply("Object{data: {'x': object.data.none}}"), apply("Object{data: {'y': 'y'}}")]);
    let server = Server::default();
    enforce(&server, "p", json!({"failurePolicy": "Ignore", "mutations": mutations})).await;
    let (_, made) = create(&server, json!({"k": "v"})).await;
    assert_eq!(made["data"], json!({"k": "v", "y": "y"}));

    let server = Server::default();
    enforce(&server, "p", json!({"mutations": mutations})).await;
    let (code, refused) = create(&server, json!({"k": "v"})).await;
    assert_eq!((code, &refused["reason"]), (403, &json!("Invalid")));
    assert_eq!(
        refused["message"],
        "policy 'p' with binding 'p' denied request: expression 'Object{data: {'x': object.data.none}}' resulted in error: no such key: none"
    );
}

#[tokio::test]
async fn what_is_one_leaf_is_not_merged() {
    let server = Server::default();
    let expression = "Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {'a': 'b'}}}}";
    let rules = json!({"resourceRules": [
        {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]},
    ]});
    enforce(&server, "p", json!({"matchConstraints": rules, "mutations": [apply(expression)]})).await;
    let deployment = json!({"metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }});
    let (code, refused) = ask(&server, "POST /apis/apps/v1/namespaces/default/deployments", deployment).await;
    assert_eq!(code, 403);
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.ends_with("error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.selector"),
        "{message}"
    );
}

#[tokio::test]
async fn custom_resources_are_merged_by_their_schema() {
    let server = Server::default();
    let list = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string"}, "size": {"type": "integer", "default": 1}}}});
    let definition = json!({
        "metadata": {"name": "shops.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "shops", "kind": "Shop"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": {"type": "object", "properties": {"parts": list}}},
            }}}],
        },
    });
    let path = "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(ask(&server, path, definition).await.0, 201);
    let rules = json!({"resourceRules": [
        {"apiGroups": ["example.com"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["shops"]},
    ]});
    let expression = "Object{spec: Object.spec{parts: [Object.spec.parts{name: 'b'}]}}";
    enforce(&server, "p", json!({"matchConstraints": rules, "mutations": [apply(expression)]})).await;
    let shop = json!({"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "s"},
        "spec": {"parts": [{"name": "a", "size": 3}]}});
    let (_, made) = ask(&server, "POST /apis/example.com/v1/shops", shop).await;
    assert_eq!(made["spec"]["parts"], json!([{"name": "a", "size": 3}, {"name": "b", "size": 1}]));
}

/// Creates and binds a validating policy for ConfigMaps.
async fn refuse(server: &Server, variables: Value, validations: &[Value]) {
    let spec = json!({
        "matchConstraints": {"resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]},
        ]},
        "variables": variables,
        "validations": validations,
    });
    put_into_force(server, spec).await;
}

/// Creates and binds a validating policy.
async fn put_into_force(server: &Server, spec: Value) {
    let policy = json!({"metadata": {"name": "p"}, "spec": spec});
    let (code, answer) = ask(server, &format!("POST {BASE}/validatingadmissionpolicies"), policy).await;
    assert_eq!(code, 201, "{answer}");
    let binding =
        json!({"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    let (code, answer) =
        ask(server, &format!("POST {BASE}/validatingadmissionpolicybindings"), binding).await;
    assert_eq!(code, 201, "{answer}");
}

/// Costs most of the limit of a single expression.
const COSTLY: &str = "object.data.k.contains(object.data.k)";

#[tokio::test]
async fn nothing_counts_but_the_budget_once_it_is_used_up() {
    let server = Server::default();
    let mut validations = vec![json!({"expression": "false"})];
    validations.resize(14, json!({"expression": COSTLY}));
    refuse(&server, json!([]), &validations).await;
    let (code, refused) = create(&server, json!({"k": "x".repeat(9500)})).await;
    assert_eq!(code, 422);
    let why = "validation failed due to running out of cost budget, no further validation rules will be run";
    let expected = format!("ValidatingAdmissionPolicy 'p' with binding 'p' denied request: {why}");
    let message = refused["message"].as_str().unwrap();
    assert!(message.ends_with(&expected), "{message}");
    let (_, refused) = create(&server, json!({"k": "x"})).await;
    let message = refused["message"].as_str().unwrap();
    assert!(message.ends_with("denied request: failed expression: false"), "{message}");
}

#[tokio::test]
async fn a_variable_is_paid_for_once() {
    let server = Server::default();
    let variables = json!([{"name": "costly", "expression": COSTLY}]);
    let validations = vec![json!({"expression": "variables.costly"}); 14];
    refuse(&server, variables, &validations).await;
    let (code, made) = create(&server, json!({"k": "x".repeat(9500)})).await;
    assert_eq!(code, 201, "{made}");
}

#[tokio::test]
async fn messages_come_out_of_what_is_left() {
    let server = Server::default();
    let mut validations = vec![json!({"expression": "false", "messageExpression": "'told'"})];
    validations.resize(14, json!({"expression": "true", "messageExpression": format!("string({COSTLY})")}));
    refuse(&server, json!([]), &validations).await;
    let (_, refused) = create(&server, json!({"k": "x"})).await;
    let message = refused["message"].as_str().unwrap();
    assert!(message.ends_with("denied request: told"), "{message}");
    let (_, refused) = create(&server, json!({"k": "x".repeat(9500)})).await;
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("denied request: failed messageExpression: validation failed"), "{message}");
}

#[tokio::test]
async fn a_policy_hears_of_all_versions_unless_it_wants_one_alone() {
    let scaler = json!({"metadata": {"name": "a"}, "spec": {
        "maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
    }});
    for (policy, expected) in [("Equivalent", 422), ("Exact", 201)] {
        let server = Server::default();
        let rule = json!({"apiGroups": ["autoscaling"], "apiVersions": ["v1"], "operations": ["CREATE"],
            "resources": ["horizontalpodautoscalers"]});
        let spec = json!({
            "matchConstraints": {"matchPolicy": policy, "resourceRules": [rule]},
            "validations": [{"expression": "object.apiVersion != 'autoscaling/v1'"}],
        });
        put_into_force(&server, spec).await;
        let path = "POST /apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
        let (code, answer) = ask(&server, path, scaler.clone()).await;
        assert_eq!(code, expected, "{policy}: {answer}");
    }
}

#[tokio::test]
async fn expressions_ask_what_users_may_do() {
    let server = Server::default();
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let role = json!({"metadata": {"name": "r"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]});
    assert_eq!(ask(&server, &format!("POST {rbac}/roles"), role).await.0, 201);
    let binding = json!({"metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}]});
    assert_eq!(ask(&server, &format!("POST {rbac}/rolebindings"), binding).await.0, 201);
    let robot = "authorizer.serviceAccount('default', 'robot').group('').resource('configmaps')";
    let ask_robot =
        |verb: &str, what: &str| format!("string({robot}.namespace('default').check('{verb}').{what})");
    let mutations = json!([
        apply(&format!("Object{{data: {{'list': {}}}}}", ask_robot("list", "allowed()"))),
        apply(&format!("Object{{data: {{'delete': {}}}}}", ask_robot("delete", "allowed()"))),
        apply(&format!("Object{{data: {{'why': {}}}}}", ask_robot("list", "reason()"))),
        apply("Object{data: {'own': string(authorizer.requestResource.check('create').allowed())}}"),
        apply("Object{data: {'path': string(authorizer.path('/metrics').check('get').errored())}}"),
    ]);
    enforce(&server, "p", json!({"mutations": mutations})).await;
    let (code, made) = create(&server, json!({})).await;
    assert_eq!(code, 201, "{made}");
    let why = r#"RBAC: allowed by RoleBinding "b/default" of Role "r" to ServiceAccount "robot/default""#;
    let expected = json!({"list": "true", "delete": "false", "why": why, "own": "true", "path": "false"});
    assert_eq!(made["data"], expected);
}

#[tokio::test]
async fn an_expression_can_afford_two_checks_of_access() {
    for (checks, expected) in [(2, 201), (3, 422)] {
        let server = Server::default();
        let check = "authorizer.requestResource.check('create').allowed()";
        let expression = vec![check; checks].join(" && ");
        refuse(&server, json!([]), &[json!({"expression": expression})]).await;
        let (code, answer) = create(&server, json!({})).await;
        assert_eq!(code, expected, "{answer}");
    }
}
