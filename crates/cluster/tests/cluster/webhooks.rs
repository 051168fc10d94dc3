//! Webhooks, called in the process and over HTTPS.

use std::sync::{Arc, Mutex};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    core::v1::{ConfigMap, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use steersman_cluster::{Cluster, WebhookPolicy};

/// A webhook: the requests that it received, and its response.
#[derive(Clone)]
struct Hook {
    seen: Arc<Mutex<Vec<Value>>>,
    answer: Arc<dyn Fn(&Value) -> Value + Send + Sync>,
}

impl Hook {
    fn new(answer: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Self {
        Self { seen: Arc::default(), answer: Arc::new(answer) }
    }

    fn handle(&self, body: &Bytes) -> Bytes {
        let review: Value = serde_json::from_slice(body).unwrap();
        let mut response = (self.answer)(&review["request"]);
        response["uid"] = review["request"]["uid"].clone();
        self.seen.lock().unwrap().push(review["request"].clone());
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
            .to_string()
            .into()
    }

    fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    fn last(&self) -> Value {
        self.seen.lock().unwrap().last().cloned().unwrap()
    }
}

fn patch(operations: Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}

fn serve(cluster: &Cluster, service: &str, hook: &Hook) {
    let hook = hook.clone();
    cluster.webhooks_by("default", service, move |request| {
        let answer = hook.handle(request.body());
        async move { http::Response::new(answer) }
    });
}

fn config(name: &str, more: Value) -> Value {
    let mut hook = json!({
        "name": format!("{name}.example.com"),
        "clientConfig": {"service": {"namespace": "default", "name": name, "path": "/hook"}},
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        hook[key] = value.clone();
    }
    json!({"metadata": {"name": name}, "webhooks": [hook]})
}

async fn mutating(cluster: &Cluster, name: &str, more: Value) {
    let api: Api<MutatingWebhookConfiguration> = Api::all(cluster.client());
    api.create(&PostParams::default(), &serde_json::from_value(config(name, more)).unwrap()).await.unwrap();
}

async fn validating(cluster: &Cluster, name: &str, more: Value) {
    let api: Api<ValidatingWebhookConfiguration> = Api::all(cluster.client());
    api.create(&PostParams::default(), &serde_json::from_value(config(name, more)).unwrap()).await.unwrap();
}

fn map(value: Value) -> ConfigMap {
    serde_json::from_value(value).unwrap()
}

async fn cluster() -> Cluster {
    Cluster::builder().workloads(false).start().await.unwrap()
}

fn message(error: kube::Error) -> (u16, String) {
    match error {
        kube::Error::Api(status) => (status.code, status.message),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn hooks_change_and_refuse_writes() {
    let cluster = cluster().await;
    let adds = Hook::new(|_| patch(json!([{"op": "add", "path": "/data", "value": {"added": "yes"}}])));
    let judges = Hook::new(|request| {
        if request["object"]["data"]["bad"] == "yes" {
            json!({"allowed": false, "status": {"code": 422, "message": "bad data", "reason": "Invalid"}})
        } else {
            json!({"allowed": true, "warnings": ["look out"]})
        }
    });
    serve(&cluster, "adds", &adds);
    serve(&cluster, "judges", &judges);
    let writes = json!([{
        "operations": ["CREATE", "UPDATE"],
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "resources": ["configmaps"],
    }]);
    let empty = json!([{"name": "empty", "expression": "!has(object.data)"}]);
    mutating(&cluster, "adds", json!({"rules": writes, "matchConditions": empty})).await;
    validating(&cluster, "judges", json!({"objectSelector": {"matchLabels": {"judged": "yes"}}})).await;

    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let labels = json!({"judged": "yes"});
    let made = map(json!({"metadata": {"name": "a", "labels": labels}}));
    let made = maps.create(&PostParams::default(), &made).await.unwrap();
    assert_eq!(made.data.unwrap()["added"], "yes");
    let request = adds.last();
    assert_eq!(request["kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
    assert_eq!(request["resource"], json!({"group": "", "version": "v1", "resource": "configmaps"}));
    assert_eq!(
        [
            &request["operation"],
            &request["name"],
            &request["namespace"],
            &request["oldObject"],
            &request["dryRun"]
        ],
        [&json!("CREATE"), &json!("a"), &json!("default"), &Value::Null, &json!(false)]
    );
    assert_eq!(request["options"]["kind"], "CreateOptions");
    assert_eq!(request["userInfo"]["username"], "system:admin");
    // The validating webhook sees what the mutating one added, and the fields that the server set after it.
    let judged = &judges.last()["object"];
    assert_eq!(judged["data"]["added"], "yes");
    for field in ["uid", "creationTimestamp"] {
        assert_eq!(request["object"]["metadata"].get(field), None);
        assert!(judged["metadata"][field].is_string(), "{judged}");
    }

    let bad = json!({"data": {"bad": "yes"}});
    let error = maps.patch("a", &PatchParams::default(), &Patch::Merge(&bad)).await.unwrap_err();
    let expected = r#"admission webhook "judges.example.com" denied the request: bad data"#;
    assert_eq!(message(error), (422, expected.to_owned()));
    let request = judges.last();
    assert_eq!(
        (&request["operation"], &request["options"]["kind"]),
        (&json!("UPDATE"), &json!("UpdateOptions"))
    );
    assert_eq!(request["oldObject"]["data"], json!({"added": "yes"}));
    // The object already has data, so the match condition skipped the mutating webhook.
    assert_eq!(adds.count(), 1);

    let bad = map(json!({"metadata": {"name": "b"}, "data": {"bad": "yes"}}));
    maps.create(&PostParams::default(), &bad).await.unwrap();
    let before = judges.count();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(judges.count(), before + 1);
    assert_eq!((&judges.last()["operation"], &judges.last()["object"]), (&json!("DELETE"), &Value::Null));
}

#[tokio::test]
async fn hooks_that_do_not_answer_fail_writes_or_are_ignored() {
    let cluster = cluster().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    validating(&cluster, "absent", json!({"failurePolicy": "Ignore"})).await;
    maps.create(&PostParams::default(), &map(json!({"metadata": {"name": "a"}}))).await.unwrap();
    validating(&cluster, "gone", json!({"timeoutSeconds": 5})).await;
    let error =
        maps.create(&PostParams::default(), &map(json!({"metadata": {"name": "b"}}))).await.unwrap_err();
    let expected = r#"Internal error occurred: failed calling webhook "gone.example.com": failed to call webhook: Post "https://gone.default.svc:443/hook?timeout=5s": service "gone" not found"#;
    assert_eq!(message(error), (500, expected.to_owned()));
}

#[tokio::test]
async fn a_hook_is_asked_again_when_a_later_one_changed_something() {
    let cluster = cluster().await;
    let counts = Hook::new(|_| json!({"allowed": true}));
    let changes = Hook::new(|_| patch(json!([{"op": "add", "path": "/data", "value": {"a": "b"}}])));
    serve(&cluster, "counts", &counts);
    serve(&cluster, "zchanges", &changes);
    mutating(&cluster, "counts", json!({"reinvocationPolicy": "IfNeeded"})).await;
    mutating(&cluster, "zchanges", json!({})).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    maps.create(&PostParams::default(), &map(json!({"metadata": {"name": "a"}}))).await.unwrap();
    assert_eq!((counts.count(), changes.count()), (2, 1));
    assert_eq!(counts.last()["object"]["data"], json!({"a": "b"}));
}

#[tokio::test]
async fn what_is_sent_to_subresources_is_judged_as_what_it_is() {
    let cluster = cluster().await;
    let hook = Hook::new(|request| json!({"allowed": request["name"] != "refused"}));
    serve(&cluster, "parts", &hook);
    let parts = ["pods/exec", "pods/eviction", "pods/binding", "serviceaccounts/token", "pods"];
    let rules = json!([{
        "operations": ["CONNECT", "CREATE", "UPDATE", "DELETE"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": parts,
    }]);
    let client = cluster.client();
    let send = async |method: &str, path: &str, body: Value| {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(body.to_string().into_bytes())
            .unwrap();
        client.request_text(request).await
    };
    let core = "/api/v1/namespaces/default";
    let account = json!({"metadata": {"name": "default"}});
    send("POST", &format!("{core}/serviceaccounts"), account).await.unwrap();
    for name in ["p", "refused"] {
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        send("POST", &format!("{core}/pods"), pod).await.unwrap();
    }
    validating(&cluster, "parts", json!({"rules": rules})).await;
    let asked = || {
        let last = hook.last();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&last["operation"]), text(&last["kind"]["kind"]), text(&last["subResource"]))
    };
    let said = |operation: &str, kind: &str, part: &str| (operation.into(), kind.into(), part.into());

    // No container runs, so the connection itself is refused.
    let exec = format!("{core}/pods/p/exec?command=ls&command=-l&stdout=true&container=c&tty=false");
    send("POST", &exec, Value::Null).await.unwrap_err();
    assert_eq!(asked(), said("CONNECT", "PodExecOptions", "exec"));
    let options = json!({
        "kind": "PodExecOptions",
        "apiVersion": "v1",
        "stdout": true,
        "container": "c",
        "command": ["ls", "-l"],
    });
    assert_eq!((&hook.last()["object"], &hook.last()["oldObject"]), (&options, &Value::Null));

    send("POST", &format!("{core}/serviceaccounts/default/token"), json!({"spec": {}})).await.unwrap();
    assert_eq!(asked(), said("CREATE", "TokenRequest", "token"));
    assert_eq!(hook.last()["object"]["spec"]["expirationSeconds"], 3600);

    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    send("POST", &format!("{core}/pods/p/binding"), binding).await.unwrap();
    assert_eq!(asked(), said("CREATE", "Binding", "binding"));
    assert_eq!(hook.last()["object"]["target"]["name"], "n");

    // Webhooks are not called for the deletion that follows an eviction.
    let before = hook.count();
    let evict =
        |name: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    send("POST", &format!("{core}/pods/p/eviction"), evict("p")).await.unwrap();
    assert_eq!((asked(), hook.count()), (said("CREATE", "Eviction", "eviction"), before + 1));
    let refused = send("POST", &format!("{core}/pods/refused/eviction"), evict("refused")).await;
    assert!(message(refused.unwrap_err()).1.contains("denied the request"));
    send("GET", &format!("{core}/pods/refused"), Value::Null).await.unwrap();
}

#[tokio::test]
async fn what_is_sent_to_subresources_can_be_changed() {
    let cluster = cluster().await;
    let changes = Hook::new(|request| match request["subResource"].as_str() {
        Some("exec") => patch(json!([{"op": "replace", "path": "/command/0", "value": "true"}])),
        Some("binding") => patch(json!([{"op": "replace", "path": "/target/name", "value": "other"}])),
        Some("token") => patch(json!([{"op": "replace", "path": "/spec/expirationSeconds", "value": 7200}])),
        Some("eviction") => {
            patch(json!([{"op": "add", "path": "/deleteOptions", "value": {"dryRun": ["All"]}}]))
        }
        _ => json!({"allowed": true}),
    });
    let sees = Hook::new(|_| json!({"allowed": true}));
    serve(&cluster, "changes", &changes);
    serve(&cluster, "sees", &sees);
    let rules = json!([{
        "operations": ["*"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["pods/exec", "pods/eviction", "pods/binding", "serviceaccounts/token"],
    }]);
    let client = cluster.client();
    let send = async |path: &str, body: Value| {
        let request = http::Request::post(format!("/api/v1/namespaces/default/{path}"))
            .header("content-type", "application/json")
            .body(body.to_string().into_bytes());
        client.request::<Value>(request.unwrap()).await
    };
    send("serviceaccounts", json!({"metadata": {"name": "default"}})).await.unwrap();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    send("pods", pod).await.unwrap();
    mutating(&cluster, "changes", json!({"rules": rules})).await;
    validating(&cluster, "sees", json!({"rules": rules})).await;

    // No container runs, so the connection itself is refused.
    send("pods/p/exec?command=ls&container=c", Value::Null).await.unwrap_err();
    assert_eq!(sees.last()["object"]["command"], json!(["true"]));
    let token = send("serviceaccounts/default/token", json!({"spec": {}})).await.unwrap();
    assert_eq!(token["spec"]["expirationSeconds"], 7200);
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    send("pods/p/binding", binding).await.unwrap();
    assert_eq!(sees.last()["object"]["target"]["name"], "other");
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::default_namespaced(cluster.client());
    assert_eq!(pods.get("p").await.unwrap().spec.unwrap().node_name.as_deref(), Some("other"));
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    send("pods/p/eviction", eviction).await.unwrap();
    assert_eq!(sees.last()["object"]["deleteOptions"], json!({"dryRun": ["All"]}));
    assert!(pods.get("p").await.unwrap().metadata.deletion_timestamp.is_none());
    let wrong = json!({"metadata": {"name": "q"}, "target": {"name": "n"}});
    assert_eq!(message(send("pods/p/binding", wrong).await.unwrap_err()).0, 400);
}

#[tokio::test]
async fn controllers_act_under_their_own_names() {
    let cluster = Cluster::start().await.unwrap();
    cluster.settled().await;
    let hook = Hook::new(|_| json!({"allowed": true}));
    serve(&cluster, "sees", &hook);
    let rules = json!([{
        "operations": ["CREATE", "UPDATE"],
        "apiGroups": ["", "apps"],
        "apiVersions": ["v1"],
        "resources": ["pods", "pods/status", "pods/binding", "replicasets", "deployments/status"],
    }]);
    validating(&cluster, "sees", json!({"rules": rules})).await;
    let deployments: Api<k8s_openapi::api::apps::v1::Deployment> = Api::default_namespaced(cluster.client());
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    });
    let deployment = serde_json::from_value(deployment).unwrap();
    deployments.create(&PostParams::default(), &deployment).await.unwrap();
    cluster.settled().await;
    let who = |operation: &str, resource: &str, part: &str| {
        let seen = hook.seen.lock().unwrap();
        let request = seen.iter().find(|request| {
            request["operation"] == operation
                && request["resource"]["resource"] == resource
                && request["subResource"].as_str().unwrap_or_default() == part
        });
        let user = request.unwrap_or_else(|| panic!("{operation} {resource}/{part}"))["userInfo"].clone();
        assert!(!user["groups"].to_string().contains("system:masters"), "{user}");
        user["username"].as_str().unwrap().to_owned()
    };
    let account = |name: &str| format!("system:serviceaccount:kube-system:{name}");
    assert_eq!(who("CREATE", "replicasets", ""), account("deployment-controller"));
    assert_eq!(who("UPDATE", "deployments", "status"), account("deployment-controller"));
    assert_eq!(who("CREATE", "pods", ""), account("replicaset-controller"));
    assert_eq!(who("CREATE", "pods", "binding"), "system:kube-scheduler");
    assert!(who("UPDATE", "pods", "status").starts_with("system:node:"));
}

/// A service with a ready pod, as controllers create them.
async fn simulated(cluster: &Cluster, name: &str) {
    let slices: Api<EndpointSlice> = Api::default_namespaced(cluster.client());
    let services: Api<Service> = Api::default_namespaced(cluster.client());
    let service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 443}]}});
    services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
    let slice = json!({
        "metadata": {"name": format!("{name}-1"), "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.7"], "conditions": {"ready": true}}],
    });
    slices.create(&PostParams::default(), &serde_json::from_value(slice).unwrap()).await.unwrap();
}

#[tokio::test]
async fn services_of_simulated_pods_fail_or_are_left_out() {
    for (policy, pods, outcome) in [
        (WebhookPolicy::Fail, true, Some("cluster.steersman.dev/address")),
        (WebhookPolicy::Auto, true, None),
        (WebhookPolicy::Auto, false, Some("service \"judges\" not found")),
        (WebhookPolicy::Ignore, false, None),
    ] {
        let cluster = Cluster::builder().workloads(false).webhooks(policy).start().await.unwrap();
        validating(&cluster, "judges", json!({})).await;
        mutating(&cluster, "adds", json!({"failurePolicy": "Ignore"})).await;
        if pods {
            simulated(&cluster, "judges").await;
        }
        let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
        let made = maps.create(&PostParams::default(), &map(json!({"metadata": {"name": "a"}}))).await;
        match (made, outcome) {
            (Ok(_), None) => {}
            (Err(error), Some(expected)) => {
                let (code, why) = message(error);
                assert!(code == 500 && why.contains(expected), "{policy:?}: {why}");
            }
            (made, _) => panic!("{policy:?}: {made:?}"),
        }
        // A webhook with a known address is called under any policy.
        let judges = Hook::new(|_| json!({"allowed": false}));
        serve(&cluster, "judges", &judges);
        maps.create(&PostParams::default(), &map(json!({"metadata": {"name": "b"}}))).await.unwrap_err();
        assert_eq!(judges.count(), 1);
    }
}

#[tokio::test]
async fn a_dry_run_spares_hooks_with_side_effects() {
    let cluster = cluster().await;
    let hook = Hook::new(|_| json!({"allowed": true}));
    serve(&cluster, "acts", &hook);
    validating(&cluster, "acts", json!({"sideEffects": "NoneOnDryRun"})).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    maps.create(&dry, &map(json!({"metadata": {"name": "a"}}))).await.unwrap();
    assert_eq!(hook.last()["dryRun"], true);
}

#[tokio::test]
async fn hooks_are_asked_by_https_and_must_be_trusted() {
    let hook = Hook::new(|_| json!({"allowed": false}));
    let key = rcgen::KeyPair::generate().unwrap();
    let names = ["far.default.svc".to_owned(), "127.0.0.1".to_owned()];
    let certificate = rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            rustls::pki_types::PrivateKeyDer::Pkcs8(key.serialize_der().into()),
        )
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = hook.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let hook = served.clone();
            let service = hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
                let hook = hook.clone();
                async move {
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    Ok::<_, std::convert::Infallible>(http::Response::new(Full::new(hook.handle(&body))))
                }
            });
            let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            tokio::spawn(async move {
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });

    let cluster = cluster().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let create = async || {
        let made = maps.create(&PostParams::default(), &map(json!({"metadata": {"name": "a"}}))).await;
        message(made.unwrap_err())
    };
    let bundle = STANDARD.encode(certificate.pem());
    cluster.webhooks_at("default", "far", address);
    let service = json!({"namespace": "default", "name": "far"});
    validating(&cluster, "far", json!({"clientConfig": {"service": service, "caBundle": bundle}})).await;
    let denied = r#"admission webhook "far.example.com" denied the request without explanation"#;
    assert_eq!(create().await, (400, denied.to_owned()));
    let api: Api<ValidatingWebhookConfiguration> = Api::all(cluster.client());
    api.delete("far", &DeleteParams::default()).await.unwrap();

    let url = format!("https://{address}/x");
    validating(&cluster, "near", json!({"clientConfig": {"url": url, "caBundle": bundle}})).await;
    assert_eq!(create().await.0, 400);
    api.delete("near", &DeleteParams::default()).await.unwrap();
    validating(&cluster, "stranger", json!({"clientConfig": {"url": url}})).await;
    let (code, why) = create().await;
    assert_eq!(code, 500);
    assert!(why.ends_with("x509: certificate signed by unknown authority"), "{why}");
}
