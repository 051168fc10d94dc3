//! Authentication and authorization, tested through a client.

use std::{convert::Infallible, future::Future, pin::Pin, sync::Arc};

use http::{Request, Response};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use steersman_apiserver::{AccessLog, Body, Server, User};
use tower_service::Service as _;

type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// One request, by its credentials.
enum By<'a> {
    Admin,
    User(User),
    Token(&'a str),
}

async fn ask(server: &Server, by: By<'_>, request: &str, body: Value) -> (u16, Value) {
    let (method, path) = request.split_once(' ').unwrap();
    let mut builder = Request::builder().method(method).uri(path);
    builder = match by {
        By::Admin => builder.extension(User::admin()),
        By::User(user) => builder.extension(user),
        By::Token(token) => builder.header("authorization", format!("Bearer {token}")),
    };
    if method == "PATCH" {
        builder = builder.header("content-type", "application/merge-patch+json");
    }
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer: Answer = server.service().call(builder.body(body).unwrap());
    let answer = answer.await.unwrap();
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

fn jane() -> User {
    User::named("jane", [])
}

async fn grant(server: &Server, rules: Value, subject: Value) {
    let base = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let role = json!({"metadata": {"name": "r"}, "rules": rules});
    assert_eq!(ask(server, By::Admin, &format!("POST {base}/roles"), role).await.0, 201);
    let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"});
    let binding = json!({"metadata": {"name": "b"}, "roleRef": reference, "subjects": [subject]});
    assert_eq!(ask(server, By::Admin, &format!("POST {base}/rolebindings"), binding).await.0, 201);
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";

#[tokio::test]
async fn rights_come_and_go_with_roles_and_bindings() {
    let server = Server::default();
    let list = format!("GET {MAPS}");
    let (code, status) = ask(&server, By::User(jane()), &list, Value::Null).await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        r#"configmaps is forbidden: User "jane" cannot list resource "configmaps" in API group "" in the namespace "default""#
    );
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]);
    grant(&server, rules, json!({"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}))
        .await;
    assert_eq!(ask(&server, By::User(jane()), &list, Value::Null).await.0, 200);
    assert_eq!(ask(&server, By::User(User::named("joe", [])), &list, Value::Null).await.0, 403);
    assert_eq!(ask(&server, By::User(jane()), "GET /api/v1/configmaps", Value::Null).await.0, 403);
    // A changed role takes effect immediately, and so does a deleted one, which the error names.
    let more = json!({"rules": [{"apiGroups": [""], "resources": ["*"], "verbs": ["get"]}]});
    assert_eq!(ask(&server, By::Admin, &format!("PATCH {ROLES}/r"), more).await.0, 200);
    assert_eq!(ask(&server, By::User(jane()), &list, Value::Null).await.0, 403);
    assert_eq!(ask(&server, By::User(jane()), &format!("GET {MAPS}/x"), Value::Null).await.0, 404);
    assert_eq!(ask(&server, By::Admin, &format!("DELETE {ROLES}/r"), Value::Null).await.0, 200);
    let (code, status) = ask(&server, By::User(jane()), &format!("GET {MAPS}/x"), Value::Null).await;
    assert_eq!(code, 403);
    let message = status["message"].as_str().unwrap();
    assert!(message.ends_with(r#": RBAC: role.rbac.authorization.k8s.io "r" not found"#), "{message}");
    let binding = "DELETE /apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    assert_eq!(ask(&server, By::Admin, binding, Value::Null).await.0, 200);
    let (_, status) = ask(&server, By::User(jane()), &format!("GET {MAPS}/x"), Value::Null).await;
    assert!(!status["message"].as_str().unwrap().contains("RBAC"));
}

#[tokio::test]
async fn a_token_speaks_for_its_service_account_while_it_is_there() {
    let server = Server::builder().without_credentials(User::anonymous()).build();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let made = json!({"metadata": {"name": "operator"}});
    assert_eq!(ask(&server, By::Admin, &format!("POST {accounts}"), made.clone()).await.0, 201);
    let subject = json!({"kind": "ServiceAccount", "name": "operator", "namespace": "default"});
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]);
    grant(&server, rules, subject).await;
    let request = json!({"spec": {"expirationSeconds": 600}});
    let (code, request) = ask(&server, By::Admin, &format!("POST {accounts}/operator/token"), request).await;
    assert_eq!(code, 201, "{request}");
    let token = request["status"]["token"].as_str().unwrap().to_owned();
    assert_eq!(ask(&server, By::Token(&token), &format!("GET {MAPS}"), Value::Null).await.0, 200);
    assert_eq!(ask(&server, By::Token(&token), "GET /api/v1/nodes", Value::Null).await.0, 403);
    let whoami = "POST /apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (_, me) = ask(&server, By::Token(&token), whoami, json!({})).await;
    assert_eq!(me["status"]["userInfo"]["username"], "system:serviceaccount:default:operator");
    assert_eq!(
        me["status"]["userInfo"]["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"])
    );
    // A token is not valid for a new account with the same name.
    assert_eq!(ask(&server, By::Admin, &format!("DELETE {accounts}/operator"), Value::Null).await.0, 200);
    assert_eq!(ask(&server, By::Token(&token), &format!("GET {MAPS}"), Value::Null).await.0, 401);
    assert_eq!(ask(&server, By::Admin, &format!("POST {accounts}"), made).await.0, 201);
    assert_eq!(ask(&server, By::Token(&token), &format!("GET {MAPS}"), Value::Null).await.0, 401);
    let review = json!({"spec": {"token": token}});
    let (_, review) =
        ask(&server, By::Admin, "POST /apis/authentication.k8s.io/v1/tokenreviews", review).await;
    assert_eq!(review["status"]["authenticated"], Value::Null);
    assert!(review["status"]["error"].as_str().unwrap().contains("does not match claim"), "{review}");
}

#[tokio::test]
async fn only_who_may_do_everything_collects_rules_of_other_roles() {
    let server = Server::default();
    let base = "/apis/rbac.authorization.k8s.io/v1";
    let group = "rbac.authorization.k8s.io";
    let everywhere = json!({"nonResourceURLs": ["*"], "verbs": ["*"]});
    let anything = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
    let roles = json!({"apiGroups": [group], "resources": ["clusterroles"], "verbs": ["create"]});
    for (user, rules) in [("half", json!([everywhere, roles])), ("whole", json!([everywhere, anything]))] {
        let role = json!({"metadata": {"name": user}, "rules": rules});
        assert_eq!(ask(&server, By::Admin, &format!("POST {base}/clusterroles"), role).await.0, 201);
        let binding = json!({"metadata": {"name": user},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": user},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}]});
        assert_eq!(
            ask(&server, By::Admin, &format!("POST {base}/clusterrolebindings"), binding).await.0,
            201
        );
    }
    let collect = async |user: &str| {
        let selectors = json!([{"matchLabels": {"a": "b"}}]);
        let role = json!({"metadata": {"name": format!("of-{user}")},
            "aggregationRule": {"clusterRoleSelectors": selectors}});
        ask(&server, By::User(User::named(user, [])), &format!("POST {base}/clusterroles"), role).await
    };
    let (code, refused) = collect("half").await;
    assert_eq!(code, 403, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("must have cluster-admin privileges"), "{refused}");
    assert_eq!(collect("whole").await.0, 201);
}

#[tokio::test(start_paused = true)]
async fn tokens_end_in_time() {
    let start = jiff::Timestamp::UNIX_EPOCH;
    let server = Server::builder().environment(steersman_apiserver::SeededEnvironment::new(start, 1)).build();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"metadata": {"name": "s"}});
    assert_eq!(ask(&server, By::Admin, &format!("POST {accounts}"), account).await.0, 201);
    let request = json!({"spec": {"expirationSeconds": 600}});
    let (_, request) = ask(&server, By::Admin, &format!("POST {accounts}/s/token"), request).await;
    let token = request["status"]["token"].as_str().unwrap().to_owned();
    let probe = "GET /api/v1/nodes";
    tokio::time::advance(std::time::Duration::from_secs(650)).await;
    assert_eq!(ask(&server, By::Token(&token), probe, Value::Null).await.0, 403);
    tokio::time::advance(std::time::Duration::from_secs(20)).await;
    assert_eq!(ask(&server, By::Token(&token), probe, Value::Null).await.0, 401);
}

#[tokio::test]
async fn decisions_are_recorded() {
    let log = Arc::new(AccessLog::default());
    let server = Server::builder().recorder(Arc::clone(&log)).build();
    for _ in 0..2 {
        ask(&server, By::User(jane()), &format!("GET {MAPS}"), Value::Null).await;
    }
    ask(&server, By::User(jane()), "GET /version", Value::Null).await;
    ask(&server, By::Admin, "DELETE /apis/apps/v1/namespaces/default/deployments/x", Value::Null).await;
    let entries = log.entries();
    let find = |verb: &str| entries.iter().find(|(access, _)| access.verb == verb).unwrap();
    let (access, count) = find("list");
    assert_eq!(
        (access.user.as_str(), access.resource.as_str(), access.allowed, *count),
        ("jane", "configmaps", false, 2)
    );
    let (access, count) = find("get");
    assert_eq!((access.path.as_str(), access.allowed, *count), ("/version", true, 1));
    let (access, _) = find("delete");
    assert_eq!((access.group.as_str(), access.name.as_str(), access.allowed), ("apps", "x", true));
}

#[tokio::test]
async fn a_full_record_still_counts_what_it_has() {
    let log = Arc::new(AccessLog::default().limit(1));
    let server = Server::builder().recorder(Arc::clone(&log)).build();
    for path in [MAPS, ROLES, MAPS] {
        ask(&server, By::User(jane()), &format!("GET {path}"), Value::Null).await;
    }
    let counted: Vec<_> = log.entries().into_iter().map(|(access, count)| (access.resource, count)).collect();
    assert_eq!(counted, [("configmaps".to_owned(), 2)]);
}

#[tokio::test]
async fn what_is_allowed_later_is_not_denied() {
    let log = Arc::new(AccessLog::default());
    let server = Server::builder().recorder(Arc::clone(&log)).build();
    let denied = || log.denied("jane").into_iter().map(|access| access.resource).collect::<Vec<_>>();
    ask(&server, By::User(jane()), &format!("GET {MAPS}"), Value::Null).await;
    ask(&server, By::User(jane()), &format!("GET {ROLES}"), Value::Null).await;
    ask(&server, By::User(jane()), "GET /version", Value::Null).await;
    ask(&server, By::User(User::named("janet", [])), "GET /api/v1/pods", Value::Null).await;
    assert_eq!(denied(), ["configmaps", "roles"]);
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]);
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"});
    grant(&server, rules, subject).await;
    assert_eq!(denied(), ["configmaps", "roles"], "no further request");
    assert_eq!(ask(&server, By::User(jane()), &format!("GET {MAPS}"), Value::Null).await.0, 200);
    assert_eq!(denied(), ["roles"]);
}

#[tokio::test]
async fn limit_ranges_fill_in_and_refuse() {
    let server = Server::default();
    let namespace = "/api/v1/namespaces/default";
    let account = json!({"metadata": {"name": "default"}});
    assert_eq!(ask(&server, By::Admin, &format!("POST {namespace}/serviceaccounts"), account).await.0, 201);
    let range = json!({"metadata": {"name": "l"}, "spec": {"limits": [
        {"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}, "max": {"cpu": "1"}},
        {"type": "Pod", "max": {"cpu": "1500m"}},
    ]}});
    assert_eq!(ask(&server, By::Admin, &format!("POST {namespace}/limitranges"), range).await.0, 201);
    let pod = |name: &str, containers: Value| json!({"metadata": {"name": name}, "spec": {"containers": containers}});
    let pods = format!("POST {namespace}/pods");
    let (code, made) = ask(&server, By::Admin, &pods, pod("a", json!([{"name": "c", "image": "i"}]))).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(
        made["spec"]["containers"][0]["resources"],
        json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}})
    );
    assert_eq!(
        made["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    );
    let asks =
        |name: &str, cpu: &str| json!({"name": name, "image": "i", "resources": {"limits": {"cpu": cpu}}});
    let (code, refused) = ask(&server, By::Admin, &pods, pod("b", json!([asks("c", "2")]))).await;
    assert_eq!(code, 403);
    assert_eq!(
        refused["message"],
        r#"pods "b" is forbidden: [maximum cpu usage per Container is 1, but limit is 2, maximum cpu usage per Pod is 1500m, but limit is 2]"#
    );
    let two = json!([asks("c", "1"), asks("d", "1")]);
    let (_, refused) = ask(&server, By::Admin, &pods, pod("b", two)).await;
    assert_eq!(
        refused["message"],
        r#"pods "b" is forbidden: maximum cpu usage per Pod is 1500m, but limit is 2"#
    );
}

#[tokio::test]
async fn limit_ranges_have_lower_bounds_and_ratios() {
    let server = Server::default();
    let namespace = "/api/v1/namespaces/default";
    let account = json!({"metadata": {"name": "default"}});
    assert_eq!(ask(&server, By::Admin, &format!("POST {namespace}/serviceaccounts"), account).await.0, 201);
    let range = json!({"metadata": {"name": "l"}, "spec": {"limits": [
        {"type": "Container", "min": {"cpu": "200m"}, "maxLimitRequestRatio": {"cpu": "2"}},
    ]}});
    assert_eq!(ask(&server, By::Admin, &format!("POST {namespace}/limitranges"), range).await.0, 201);
    let make = async |request: &str, limit: &str| {
        let resources = json!({"requests": {"cpu": request}, "limits": {"cpu": limit}});
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [
            {"name": "c", "image": "i", "resources": resources},
        ]}});
        let (code, answer) = ask(&server, By::Admin, &format!("POST {namespace}/pods?dryRun=All"), pod).await;
        (code, answer["message"].as_str().unwrap_or_default().to_owned())
    };
    let forbidden = |why: &str| (403, format!(r#"pods "p" is forbidden: {why}"#));
    assert_eq!(make("200m", "400m").await, (201, String::new()));
    assert_eq!(
        make("100m", "150m").await,
        forbidden("minimum cpu usage per Container is 200m, but request is 100m")
    );
    assert_eq!(
        make("200m", "500m").await,
        forbidden("cpu max limit to request ratio per Container is 2, but provided ratio is 2.500000")
    );
}

#[tokio::test]
async fn a_default_class_is_for_new_ingresses() {
    let server = Server::default();
    let base = "/apis/networking.k8s.io/v1";
    let ingresses = format!("{base}/namespaces/default/ingresses");
    let ingress = |name: &str| {
        let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
        json!({"metadata": {"name": name}, "spec": {"defaultBackend": backend}})
    };
    assert_eq!(ask(&server, By::Admin, &format!("POST {ingresses}"), ingress("old")).await.0, 201);
    let annotations = json!({"ingressclass.kubernetes.io/is-default-class": "true"});
    let class = json!({"metadata": {"name": "main", "annotations": annotations},
        "spec": {"controller": "example.com/ingress"}});
    assert_eq!(ask(&server, By::Admin, &format!("POST {base}/ingressclasses"), class).await.0, 201);
    let (_, new) = ask(&server, By::Admin, &format!("POST {ingresses}"), ingress("new")).await;
    assert_eq!(new["spec"]["ingressClassName"], "main");
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let (code, old) = ask(&server, By::Admin, &format!("PATCH {ingresses}/old"), labels).await;
    assert_eq!((code, &old["spec"]["ingressClassName"]), (200, &Value::Null));
}

#[tokio::test]
async fn a_bound_claim_grows_where_its_class_lets_it() {
    let server = Server::default();
    let ask = async |request: &str, body: Value| ask(&server, By::Admin, request, body).await;
    let class = |name: &str, grows: bool| json!({"metadata": {"name": name}, "provisioner": "example.com/disk", "allowVolumeExpansion": grows});
    for class in [class("grows", true), class("fixed", false)] {
        assert_eq!(ask("POST /apis/storage.k8s.io/v1/storageclasses", class).await.0, 201);
    }
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let storage = |amount: &str| json!({"requests": {"storage": amount}});
    for class in ["grows", "fixed"] {
        let claim = json!({"metadata": {"name": class}, "spec": {"storageClassName": class,
            "accessModes": ["ReadWriteOnce"], "resources": storage("1Gi")}});
        assert_eq!(ask(&format!("POST {claims}"), claim).await.0, 201);
        let bound = json!({"status": {"phase": "Bound"}});
        assert_eq!(ask(&format!("PATCH {claims}/{class}/status"), bound).await.0, 200);
    }
    let grow = json!({"spec": {"resources": storage("2Gi")}});
    let (code, grown) = ask(&format!("PATCH {claims}/grows"), grow.clone()).await;
    assert_eq!((code, &grown["spec"]["resources"]), (200, &storage("2Gi")), "{grown}");
    let (code, refused) = ask(&format!("PATCH {claims}/fixed"), grow).await;
    assert_eq!(
        (code, refused["message"].as_str().unwrap()),
        (
            403,
            r#"persistentvolumeclaims "fixed" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"#
        )
    );
}

#[tokio::test]
async fn an_eviction_is_to_wait_only_where_time_helps() {
    let server = Server::default();
    let namespace = "/api/v1/namespaces/default";
    let ask = async |request: &str, body: Value| ask(&server, By::Admin, request, body).await;
    let account = json!({"metadata": {"name": "default"}});
    assert_eq!(ask(&format!("POST {namespace}/serviceaccounts"), account).await.0, 201);
    let pod = json!({"metadata": {"name": "p", "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(ask(&format!("POST {namespace}/pods"), pod).await.0, 201);
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    assert_eq!(ask(&format!("PATCH {namespace}/pods/p/status"), status).await.0, 200);
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({"metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}});
    assert_eq!(ask(&format!("POST {budgets}"), budget).await.0, 201);
    let evict = async || {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
        let (code, refused) = ask(&format!("POST {namespace}/pods/p/eviction"), eviction).await;
        (code, refused["details"]["retryAfterSeconds"].as_i64())
    };
    assert_eq!(evict().await, (429, Some(10)), "nothing has looked at the budget yet");
    let status = json!({"status": {"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1,
        "expectedPods": 1, "disruptionsAllowed": 0}});
    assert_eq!(ask(&format!("PATCH {budgets}/b/status"), status).await.0, 200);
    assert_eq!(evict().await, (429, None));
    let status = json!({"status": {"currentHealthy": 3, "expectedPods": 3, "disruptionsAllowed": 2}});
    assert_eq!(ask(&format!("PATCH {budgets}/b/status"), status).await.0, 200);
    assert_eq!(evict().await, (201, None));
    let (_, spent) = ask(&format!("GET {budgets}/b"), Value::Null).await;
    assert_eq!(spent["status"]["disruptionsAllowed"], 1);
    assert!(spent["status"]["disruptedPods"]["p"].is_string(), "{spent}");
}
