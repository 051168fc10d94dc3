//! The server attacked by a user with few rights, and with malicious requests.

use std::{convert::Infallible, future::Future, pin::Pin, sync::Arc, time::Duration};

use http::{Request, Response};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use steersman_apiserver::{Body, Server, User};
use tower_service::Service as _;

type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

const RBAC: &str = "rbac.authorization.k8s.io";
const NAMESPACE: &str = "/api/v1/namespaces/default";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";

/// Sends a request and returns the response before its body is complete.
async fn send(server: &Server, user: User, request: &str, media: &str, body: &Value) -> Response<Body> {
    let (method, path) = request.split_once(' ').unwrap();
    let builder = Request::builder().method(method).uri(path).extension(user).header("content-type", media);
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer: Answer = server.service().call(builder.body(body).unwrap());
    answer.await.unwrap()
}

async fn ask_by(server: &Server, user: User, request: &str, media: &str, body: Value) -> (u16, Value) {
    let answer = send(server, user, request, media, &body).await;
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn ask(server: &Server, user: User, request: &str, body: Value) -> (u16, Value) {
    let media =
        if request.starts_with("PATCH") { "application/merge-patch+json" } else { "application/json" };
    ask_by(server, user, request, media, body).await
}

async fn apply(server: &Server, user: User, path: &str, body: Value) -> (u16, Value) {
    let request = format!("PATCH {path}?fieldManager=hostile&force=true");
    ask_by(server, user, &request, "application/apply-patch+yaml", body).await
}

async fn made(server: &Server, path: &str, object: Value) {
    let (code, answer) = ask(server, User::admin(), &format!("POST {path}"), object).await;
    assert_eq!(code, 201, "{answer}");
}

fn mallory() -> User {
    User::named("mallory", [])
}

fn subject() -> Value {
    json!([{"apiGroup": RBAC, "kind": "User", "name": "mallory"}])
}

/// Replaces the attacker's rights in the namespace `default`.
async fn grant(server: &Server, rules: Value) {
    for kind in ["roles", "rolebindings"] {
        let (code, answer) = ask(server, User::admin(), &format!("DELETE {ROLES}/{kind}"), Value::Null).await;
        assert_eq!(code, 200, "{answer}");
    }
    made(server, &format!("{ROLES}/roles"), json!({"metadata": {"name": "r"}, "rules": rules})).await;
    let role = json!({"apiGroup": RBAC, "kind": "Role", "name": "r"});
    let binding = json!({"metadata": {"name": "b"}, "roleRef": role, "subjects": subject()});
    made(server, &format!("{ROLES}/rolebindings"), binding).await;
}

/// Adds rights of the attacker in the whole cluster.
async fn grant_everywhere(server: &Server, name: &str, rules: Value) {
    let base = "/apis/rbac.authorization.k8s.io/v1";
    made(server, &format!("{base}/clusterroles"), json!({"metadata": {"name": name}, "rules": rules})).await;
    let role = json!({"apiGroup": RBAC, "kind": "ClusterRole", "name": name});
    let binding = json!({"metadata": {"name": name}, "roleRef": role, "subjects": subject()});
    made(server, &format!("{base}/clusterrolebindings"), binding).await;
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "verbs": verbs})
}

fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    })
}

async fn define_widgets(server: &Server) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": scale},
    });
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "versions": [version],
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        },
    });
    made(server, DEFINITIONS, definition).await;
}

/// Expected status codes for a user with the right to one verb only.
/// For an existing object, for a missing one, and for a missing one if the user may also create. The oracle's `rights.yaml`
/// sends the same requests to the real server.
const MATRIX: &str = "
resource     part    verb              there  absent  absent, may create
configmaps   -       get               200    404     404
configmaps   -       list              200    200     200
configmaps   -       watch             200    200     200
configmaps   -       create            409    201     201
configmaps   -       update            200    404     404
configmaps   -       patch             200    404     404
configmaps   -       apply             200    403     201
configmaps   -       delete            200    404     404
configmaps   -       deletecollection  200    200     200
configmaps   status  get               404    404     404
configmaps   status  create            404    404     404
configmaps   status  update            404    404     404
configmaps   status  patch             404    404     404
configmaps   status  apply             404    404     404
configmaps   status  delete            404    404     404
services     -       update            200    403     201
services     -       apply             200    403     201
deployments  -       get               200    404     404
deployments  -       list              200    200     200
deployments  -       watch             200    200     200
deployments  -       create            409    201     201
deployments  -       update            200    404     404
deployments  -       patch             200    404     404
deployments  -       apply             200    403     201
deployments  -       delete            200    404     404
deployments  -       deletecollection  200    200     200
deployments  status  get               200    404     404
deployments  status  create            405    405     405
deployments  status  update            200    404     404
deployments  status  patch             200    404     404
deployments  status  apply             200    404     404
deployments  status  delete            405    405     405
deployments  scale   get               200    404     404
deployments  scale   create            405    405     405
deployments  scale   update            200    404     404
deployments  scale   patch             200    404     404
deployments  scale   apply             200    404     404
deployments  scale   delete            405    405     405
widgets      -       get               200    404     404
widgets      -       list              200    200     200
widgets      -       watch             200    200     200
widgets      -       create            409    201     201
widgets      -       update            200    404     404
widgets      -       patch             200    404     404
widgets      -       apply             200    403     201
widgets      -       delete            200    404     404
widgets      -       deletecollection  200    200     200
widgets      status  get               200    404     404
widgets      status  create            405    405     405
widgets      status  update            200    404     404
widgets      status  patch             200    404     404
widgets      status  apply             200    404     404
widgets      status  delete            405    405     405
widgets      scale   get               200    404     404
widgets      scale   create            405    405     405
widgets      scale   update            200    404     404
widgets      scale   patch             200    404     404
widgets      scale   apply             500    404     404
widgets      scale   delete            405    405     405
";

/// Path of the collection, API group, and an object.
fn kind(resource: &str) -> (&'static str, &'static str, Value) {
    match resource {
        "configmaps" => (
            "/api/v1/namespaces/default/configmaps",
            "",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}),
        ),
        "services" => (
            "/api/v1/namespaces/default/services",
            "",
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {"ports": [{"port": 80}]}}),
        ),
        "deployments" => ("/apis/apps/v1/namespaces/default/deployments", "apps", deployment("x")),
        _ => (
            "/apis/example.com/v1/namespaces/default/widgets",
            "example.com",
            json!({
                "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "x"}, "spec": {"replicas": 1},
            }),
        ),
    }
}

async fn attempt(server: &Server, resource: &str, part: &str, verb: &str) -> (u16, Value) {
    let (path, _, object) = kind(resource);
    let scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "x", "namespace": "default"},
        "spec": {"replicas": 2},
    });
    let mut whole = if part == "scale" { scale } else { object };
    if verb == "update" {
        // Custom resources require a resourceVersion.
        let (_, stored) = ask(server, User::admin(), &format!("GET {path}/x"), Value::Null).await;
        if let Some(version) = stored["metadata"].get("resourceVersion") {
            whole["metadata"]["resourceVersion"] = version.clone();
        }
    }
    let place = if part == "-" { format!("{path}/x") } else { format!("{path}/x/{part}") };
    let change = json!({"metadata": {"labels": {"a": "b"}}});
    let user = mallory();
    match verb {
        "get" => ask(server, user, &format!("GET {place}"), Value::Null).await,
        "list" => ask(server, user, &format!("GET {path}"), Value::Null).await,
        "watch" => {
            let request = format!("GET {path}?watch=1&timeoutSeconds=1");
            (send(server, user, &request, "", &Value::Null).await.status().as_u16(), Value::Null)
        }
        "create" if part == "-" => ask(server, user, &format!("POST {path}"), whole).await,
        "create" => ask(server, user, &format!("POST {place}"), whole).await,
        "update" => ask(server, user, &format!("PUT {place}"), whole).await,
        "patch" => ask(server, user, &format!("PATCH {place}"), change).await,
        "apply" => apply(server, user, &place, whole).await,
        "delete" => ask(server, user, &format!("DELETE {place}"), Value::Null).await,
        _ => ask(server, user, &format!("DELETE {path}"), Value::Null).await,
    }
}

#[tokio::test]
async fn a_verb_gives_what_it_gives_on_the_real_server() {
    let server = Server::default();
    define_widgets(&server).await;
    for line in MATRIX.trim().lines().skip(1) {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [resource, part, verb, there, absent, may_create] = columns[..] else { panic!("{line}") };
        let (path, group, object) = kind(resource);
        let target = if part == "-" { resource.to_owned() } else { format!("{resource}/{part}") };
        let own = if verb == "apply" { "patch" } else { verb };
        let alone = json!([rule(group, &target, &[own])]);
        let create = json!([rule(group, &target, &[own, "create"]), rule(group, resource, &["create"])]);
        let all = [("there", &alone, there), ("absent", &alone, absent), ("may create", &create, may_create)];
        for (what, rules, expected) in all {
            grant(&server, rules.clone()).await;
            let _ = ask(&server, User::admin(), &format!("DELETE {path}/x"), Value::Null).await;
            if what == "there" {
                made(&server, path, object.clone()).await;
            }
            let (code, answer) = attempt(&server, resource, part, verb).await;
            assert_eq!(code.to_string(), expected, "{line}: {what}: {answer}");
            let (found, _) = ask(&server, User::admin(), &format!("GET {path}/x"), Value::Null).await;
            let stays = match what {
                "there" => !verb.starts_with("delete") || code != 200,
                _ => code == 201,
            };
            assert_eq!(found == 200, stays, "{line}: {what}: {answer}");
        }
        // Without the right, the response does not reveal whether the object exists.
        grant(&server, json!([])).await;
        let (code, answer) = attempt(&server, resource, part, verb).await;
        assert_eq!(code, 403, "{line}: {answer}");
    }
}

#[tokio::test]
async fn the_refusal_to_create_names_the_right_that_is_missing() {
    let server = Server::default();
    grant(&server, json!([rule("", "configmaps", &["patch"])])).await;
    let (path, _, object) = kind("configmaps");
    let (code, status) = apply(&server, mallory(), &format!("{path}/x"), object.clone()).await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        r#"configmaps "x" is forbidden: User "mallory" cannot create resource "configmaps" in API group "" in the namespace "default""#
    );
    // An invalid object is rejected as invalid, not as forbidden.
    let odd =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a b": "c"}});
    assert_eq!(apply(&server, mallory(), &format!("{path}/x"), odd).await.0, 422);
    let dry = format!("PATCH {path}/x?fieldManager=m&dryRun=All");
    let (code, _) = ask_by(&server, mallory(), &dry, "application/apply-patch+yaml", object).await;
    assert_eq!(code, 403);
}

#[tokio::test]
async fn rights_in_a_namespace_do_not_reach_other_namespaces() {
    let server = Server::default();
    made(&server, "/api/v1/namespaces", json!({"metadata": {"name": "other"}})).await;
    grant(&server, json!([rule("*", "*", &["*"])])).await;
    assert_eq!(ask(&server, mallory(), "GET /api/v1/namespaces/other", Value::Null).await.0, 403);
    for request in [
        "GET /api/v1/namespaces/default/namespaces",
        "GET /api/v1/namespaces/default/namespaces/other",
        "DELETE /api/v1/namespaces/default/namespaces/other",
        "DELETE /api/v1/namespaces/default/namespaces",
        "PATCH /api/v1/namespaces/default/namespaces/other",
        "PUT /api/v1/namespaces/default/namespaces/other/finalize",
        "POST /api/v1/namespaces/default/namespaces",
        "GET /api/v1/namespaces/default/nodes",
        "POST /apis/rbac.authorization.k8s.io/v1/namespaces/default/clusterrolebindings",
        "GET /api/v1/watch/namespaces/default/namespaces/other",
        "DELETE /api/v1/watch/namespaces/default/namespaces/other",
    ] {
        let body = json!({"metadata": {"name": "other", "labels": {"a": "b"}}});
        let (code, answer) = ask(&server, mallory(), request, body).await;
        assert!(matches!(code, 404 | 405), "{request}: {code} {answer}");
    }
    let (_, other) = ask(&server, User::admin(), "GET /api/v1/namespaces/other", Value::Null).await;
    assert_eq!(other["status"]["phase"], "Active");
    assert_eq!(other["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "other"}));
    // For authorization, a namespace is in itself.
    assert_eq!(ask(&server, mallory(), "GET /api/v1/namespaces/default", Value::Null).await.0, 200);
}

#[tokio::test]
async fn paths_that_put_more_where_nothing_is_lead_nowhere() {
    let server = Server::default();
    let (path, _, object) = kind("deployments");
    made(&server, path, object).await;
    for request in [
        format!("GET {path}/x/status/more"),
        format!("DELETE {path}/x/more/more"),
        "GET /api/v1/namespaces/default/status/x".to_owned(),
        "GET /api/v1/namespaces/default/namespaces/default".to_owned(),
        "DELETE /api/v1/namespaces/default/namespaces/default".to_owned(),
        "GET /apis/apps/v1/watch/namespaces/default/deployments/x/status".to_owned(),
    ] {
        let (code, answer) = ask(&server, User::admin(), &request, Value::Null).await;
        assert_eq!(code, 404, "{request}: {answer}");
    }
    let old = "DELETE /apis/apps/v1/watch/namespaces/default/deployments/x";
    assert_eq!(ask(&server, User::admin(), old, Value::Null).await.0, 405);
    // Collections are deleted in one namespace at a time.
    let everywhere = "DELETE /apis/apps/v1/deployments";
    assert_eq!(ask(&server, User::admin(), everywhere, Value::Null).await.0, 405);
    assert_eq!(ask(&server, User::admin(), &format!("GET {path}/x"), Value::Null).await.0, 200);
}

#[tokio::test]
async fn reading_a_part_that_runs_commands_does_not_run_them() {
    let server = Server::default();
    grant(&server, json!([rule("", "pods/exec", &["get"]), rule("", "pods/log", &["get"])])).await;
    made(&server, &format!("{NAMESPACE}/serviceaccounts"), json!({"metadata": {"name": "default"}})).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    made(&server, &format!("{NAMESPACE}/pods"), pod).await;
    let exec = format!("GET {NAMESPACE}/pods/p/exec?command=id");
    let (code, status) = ask(&server, mallory(), &exec, Value::Null).await;
    assert_eq!((code, &status["message"]), (403, &json!(r#"pods "p" is forbidden: "#)));
    assert_eq!(ask(&server, mallory(), &format!("GET {NAMESPACE}/pods/p/log"), Value::Null).await.0, 204);
    grant(&server, json!([rule("", "pods/exec", &["get", "create"])])).await;
    assert_eq!(ask(&server, mallory(), &exec, Value::Null).await.0, 501);
}

const SIGNING: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
/// For the common name `mallory` and the organisation `system:masters`.
const MASTERS_REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIbk1JR05BZ0VBTUNzeEZ6QVZCZ05WQkFvTURuTjVjM1JsYlRwdFlYTjBaWEp6TVJBd0RnWURWUVFEREFkdApZV3hzYjNKNU1Ga3dFd1lIS29aSXpqMENBUVlJS29aSXpqMERBUWNEUWdBRVZ5VXRaUWp2U2FRLy9Pa3ZzdG83CktzMFFIWVV4YlkyejEwbUR0alNnU2RXZXVwWnd6ckwwOXlEQ3B0WHhEZ2x5M0xGOXBsaWcrTTlKTjVuTUk2T24KREtBQU1Bb0dDQ3FHU000OUJBTUNBMGtBTUVZQ0lRQzVyb3lObU8vM3h5VElGR0tGTGYyZW01TUJ5dUNBNytLdgpVdmNjNmtLTmlRSWhBS0J4NU9OVnZRTzNJRUo1MzVEUE1LNmNiNFoyNzllTE9FaHA5cER4UkQ0RQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";

#[tokio::test]
async fn decisions_about_certificates_are_rights_of_their_own() {
    let server = Server::default();
    let parts = ["certificatesigningrequests/approval", "certificatesigningrequests/status"];
    let rules: Vec<Value> =
        parts.iter().map(|part| rule("certificates.k8s.io", part, &["patch", "update"])).collect();
    grant_everywhere(&server, "deciders", json!(rules)).await;
    let request = |name: &str, signer: &str| {
        json!({
            "metadata": {"name": name},
            "spec": {"signerName": signer, "usages": ["client auth"], "request": MASTERS_REQUEST},
        })
    };
    made(&server, SIGNING, request("a", "example.com/signer")).await;
    let approve = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}]}});
    let approval = format!("PATCH {SIGNING}/a/approval");
    let (code, status) = ask(&server, mallory(), &approval, approve.clone()).await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        r#"certificatesigningrequests.certificates.k8s.io "a" is forbidden: user not permitted to approve requests with signerName "example.com/signer""#
    );
    let fail = json!({"status": {"conditions": [{"type": "Failed", "status": "True"}]}});
    let (code, status) = ask(&server, mallory(), &format!("PATCH {SIGNING}/a/status"), fail).await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        r#"certificatesigningrequests.certificates.k8s.io "a" is forbidden: user not permitted to sign requests with signerName "example.com/signer""#
    );
    let mut signers = rule("certificates.k8s.io", "signers", &["approve", "sign"]);
    signers["resourceNames"] = json!(["example.com/*"]);
    grant_everywhere(&server, "signers", json!([signers])).await;
    assert_eq!(ask(&server, mallory(), &approval, approve).await.0, 200);
    let conditions = ["Approved", "Failed"].map(|kind| json!({"type": kind, "status": "True"}));
    let both = json!({"status": {"conditions": conditions}});
    assert_eq!(ask(&server, mallory(), &format!("PATCH {SIGNING}/a/status"), both).await.0, 200);
    // A certificate for `system:masters` could not be revoked, so none is issued.
    let masters = request("b", "kubernetes.io/kube-apiserver-client");
    let (code, status) = ask(&server, User::admin(), &format!("POST {SIGNING}"), masters).await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        r#"certificatesigningrequests.certificates.k8s.io "b" is forbidden: use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"#
    );
}

#[tokio::test]
async fn policies_do_not_read_for_those_who_may_not() {
    let server = Server::default();
    let group = "admissionregistration.k8s.io";
    let base = "/apis/admissionregistration.k8s.io/v1";
    grant_everywhere(&server, "policies", json!([rule(group, "*", &["*"])])).await;
    let policy = json!({
        "metadata": {"name": "p"},
        "spec": {
            "paramKind": {"apiVersion": "v1", "kind": "Secret"},
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]},
            ]},
            "validations": [{"expression": "params.data.password == 'guess'"}],
        },
    });
    let policies = format!("POST {base}/validatingadmissionpolicies");
    let (code, status) = ask(&server, mallory(), &policies, policy.clone()).await;
    assert_eq!(code, 422);
    assert_eq!(
        status["details"]["causes"][0]["message"],
        r#"Forbidden: user &{mallory  [system:authenticated] map[]} must have "get" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)"#
    );
    assert_eq!(ask(&server, User::admin(), &policies, policy).await.0, 201);
    let binding = json!({
        "metadata": {"name": "b"},
        "spec": {
            "policyName": "p", "validationActions": ["Deny"],
            "paramRef": {"name": "s", "namespace": "default", "parameterNotFoundAction": "Deny"},
        },
    });
    let bindings = format!("POST {base}/validatingadmissionpolicybindings");
    let (code, status) = ask(&server, mallory(), &bindings, binding.clone()).await;
    assert_eq!(code, 422);
    assert_eq!(
        status["details"]["causes"][0]["message"],
        r#"Forbidden: user &{mallory  [system:authenticated] map[]} does not have "get" permission on the object referenced by paramRef"#
    );
    grant_everywhere(&server, "secrets", json!([rule("", "secrets", &["get"])])).await;
    assert_eq!(ask(&server, mallory(), &bindings, binding).await.0, 201);
}

#[tokio::test(start_paused = true)]
async fn no_number_of_a_query_ends_the_server() {
    let server = Server::default();
    let (path, _, object) = kind("configmaps");
    made(&server, path, object).await;
    for number in
        ["9223372036854775807", "-9223372036854775808", "18446744073709551615", "0", "-1", "", "1e9"]
    {
        for parameter in ["timeoutSeconds", "limit", "gracePeriodSeconds", "resourceVersion", "continue"] {
            for (verb, more) in
                [("GET", ""), ("GET", "&watch=1&allowWatchBookmarks=1"), ("DELETE", "&dryRun=All")]
            {
                let request = format!("{verb} {path}?{parameter}={number}{more}");
                let answer = send(&server, User::admin(), &request, "", &Value::Null).await;
                assert!(answer.status().as_u16() < 600, "{request}");
            }
        }
    }
    // A watch with the longest timeout stays open.
    let request = format!("GET {path}?watch=1&timeoutSeconds=9223372036854775807");
    let mut body = send(&server, User::admin(), &request, "", &Value::Null).await.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(br#"{"type":"ADDED""#));
    let week = Duration::from_secs(7 * 24 * 3600);
    assert!(tokio::time::timeout(week, body.frame()).await.is_err(), "the watch ended");
}

#[tokio::test]
async fn numbers_of_objects_are_taken_as_they_come() {
    let server = Server::default();
    let extreme = [i64::MAX, i64::MIN, 0, -1];
    for number in extreme {
        let (path, _, mut object) = kind("configmaps");
        object["metadata"]["generation"] = number.into();
        object["metadata"]["finalizers"] = json!(["example.com/stay"]);
        object["metadata"]["deletionGracePeriodSeconds"] = number.into();
        let (code, _) = ask(&server, User::admin(), &format!("POST {path}"), object).await;
        assert!(matches!(code, 201 | 422), "{code}");
        for grace in extreme {
            let options = json!({"gracePeriodSeconds": grace});
            let _ = ask(&server, User::admin(), &format!("DELETE {path}/x"), options).await;
        }
        let release = json!({"metadata": {"finalizers": null}});
        let _ = ask(&server, User::admin(), &format!("PATCH {path}/x"), release).await;
    }
    for number in extreme {
        let mut pod =
            json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        pod["spec"]["terminationGracePeriodSeconds"] = number.into();
        pod["spec"]["activeDeadlineSeconds"] = number.into();
        pod["spec"]["nodeName"] = "n".into();
        let (code, _) = ask(&server, User::admin(), &format!("POST {NAMESPACE}/pods"), pod).await;
        assert!(matches!(code, 201 | 403 | 422), "{code}");
        for grace in extreme {
            let options = json!({"gracePeriodSeconds": grace});
            let _ = ask(&server, User::admin(), &format!("DELETE {NAMESPACE}/pods/p"), options).await;
        }
        let _ = ask(
            &server,
            User::admin(),
            &format!("DELETE {NAMESPACE}/pods/p?gracePeriodSeconds=0"),
            Value::Null,
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_quota_is_kept_by_updates_at_the_same_time() {
    let server = Arc::new(Server::default());
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"services.nodeports": "10"}}});
    made(&server, &format!("{NAMESPACE}/resourcequotas"), quota).await;
    let services = format!("{NAMESPACE}/services");
    for round in 0..20 {
        for number in 0..16 {
            let object =
                json!({"metadata": {"name": format!("s-{number}")}, "spec": {"ports": [{"port": 80}]}});
            made(&server, &services, object).await;
        }
        let writers: Vec<_> = (0..16)
            .map(|number| {
                let (server, services) = (Arc::clone(&server), services.clone());
                tokio::spawn(async move {
                    let open = json!({"spec": {"type": "NodePort"}});
                    ask(&server, User::admin(), &format!("PATCH {services}/s-{number}"), open).await.0
                })
            })
            .collect();
        let mut opened = 0;
        for writer in writers {
            opened += usize::from(writer.await.unwrap() == 200);
        }
        assert_eq!(opened, 10, "round {round}");
        let (code, _) = ask(&server, User::admin(), &format!("DELETE {services}"), Value::Null).await;
        assert_eq!(code, 200);
    }
}

#[tokio::test]
async fn quotas_and_limits_count_what_a_pod_is_resized_to() {
    let server = Server::default();
    made(&server, &format!("{NAMESPACE}/serviceaccounts"), json!({"metadata": {"name": "default"}})).await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "1"}}});
    made(&server, &format!("{NAMESPACE}/resourcequotas"), quota).await;
    let container = |cpu: &str| {
        let resources = json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
        json!([{"name": "c", "image": "i", "resources": resources}])
    };
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": container("500m")}});
    made(&server, &format!("{NAMESPACE}/pods"), pod).await;
    let resize = |cpu: &str| json!({"spec": {"containers": container(cpu)}});
    let request = format!("PATCH {NAMESPACE}/pods/p/resize");
    let strategic = "application/strategic-merge-patch+json";
    let (code, refused) = ask_by(&server, User::admin(), &request, strategic, resize("2")).await;
    assert_eq!(code, 403, "{refused}");
    assert_eq!(
        refused["message"],
        r#"pods "p" is forbidden: exceeded quota: q, requested: requests.cpu=1500m, used: requests.cpu=500m, limited: requests.cpu=1"#
    );
    let range = json!({"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "600m"}}]}});
    made(&server, &format!("{NAMESPACE}/limitranges"), range).await;
    let (code, refused) = ask_by(&server, User::admin(), &request, strategic, resize("700m")).await;
    assert_eq!(code, 403, "{refused}");
    let (code, answer) =
        ask(&server, User::admin(), &format!("DELETE {NAMESPACE}/limitranges/l"), Value::Null).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!(ask_by(&server, User::admin(), &request, strategic, resize("1")).await.0, 200);
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[tokio::test]
async fn what_etcd_would_not_take_is_not_taken() {
    let server = Server::default();
    define_widgets(&server).await;
    let (path, _, mut object) = kind("widgets");
    made(&server, path, object.clone()).await;
    // Far less than a request may have.
    object["spec"]["text"] = "x".repeat(1_600_000).into();
    let (code, status) = ask(&server, User::admin(), &format!("PATCH {path}/x"), object.clone()).await;
    assert_eq!((code, &status["message"]), (500, &json!("etcdserver: request is too large")));
    object["metadata"]["name"] = "y".into();
    assert_eq!(ask(&server, User::admin(), &format!("POST {path}"), object).await.0, 500);
    assert_eq!(ask(&server, User::admin(), &format!("GET {path}/y"), Value::Null).await.0, 404);
    let schema = json!({"type": "null", "description": "x".repeat(1_600_000)});
    let definition = json!({
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    // It is rejected before its invalid schema is validated.
    let (code, status) =
        ask(&server, User::admin(), &format!("POST {DEFINITIONS}"), definition.clone()).await;
    assert_eq!((code, &status["message"]), (500, &json!("etcdserver: request is too large")));
    let more = json!({"spec": definition["spec"]});
    let request = format!("PATCH {DEFINITIONS}/widgets.example.com");
    let (code, status) = ask(&server, User::admin(), &request, more).await;
    assert_eq!((code, &status["message"]), (500, &json!("etcdserver: request is too large")));
}

#[tokio::test]
async fn a_role_that_stays_as_it_is_gives_nothing_away() {
    let server = Server::default();
    grant(&server, json!([rule(RBAC, "roles", &["patch", "update"])])).await;
    let role = json!({"metadata": {"name": "strong"}, "rules": [rule("", "secrets", &["*"])]});
    made(&server, &format!("{ROLES}/roles"), role.clone()).await;
    let request = format!("PATCH {ROLES}/roles/strong");
    assert_eq!(ask(&server, mallory(), &request, json!({})).await.0, 200);
    let finalize = json!({"metadata": {"finalizers": ["example.com/a"]}});
    assert_eq!(ask(&server, mallory(), &request, finalize).await.0, 200);
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(ask(&server, mallory(), &request, label).await.0, 403);
    // Without a resourceVersion, it may be another role by now.
    assert_eq!(ask(&server, mallory(), &format!("PUT {ROLES}/roles/strong"), role).await.0, 403);
}

#[tokio::test]
async fn a_scale_is_that_of_the_object_that_is_meant() {
    let server = Server::default();
    let (path, _, object) = kind("deployments");
    made(&server, path, object).await;
    let scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "x", "namespace": "default", "uid": "other"},
        "spec": {"replicas": 2},
    });
    let (code, status) = ask(&server, User::admin(), &format!("PUT {path}/x/scale"), scale).await;
    assert_eq!(code, 409);
    assert!(status["message"].as_str().unwrap().contains("UID in precondition: other"), "{status}");
}
