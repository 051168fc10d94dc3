//! APIs of extension API servers: proxied requests, conditions, discovery and OpenAPI.

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use futures::{StreamExt as _, channel::mpsc};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Frame;
use k8s_openapi::{
    api::{
        core::v1::{ConfigMap, Service},
        rbac::v1::{ClusterRole, ClusterRoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    runtime::wait::await_condition,
};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use serde_json::{Value, json};
use steersman_cluster::{Cluster, User};
use steersman_listener::{Listener, RequestBody, Tunnel};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::TlsConnector;
use tower_service::Service as _;

type Answer = Response<UnsyncBoxBody<Bytes, std::convert::Infallible>>;

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// An extension API server of `example.org/v1`, which authenticates users only by front proxy headers.
struct OtherServer {
    address: SocketAddr,
    certificate: String,
    task: JoinHandle<()>,
}

impl Drop for OtherServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl OtherServer {
    /// Starts the server as real ones start: the front proxies' CA is read from the cluster.
    async fn start(client: &Client, watchers: mpsc::UnboundedSender<mpsc::UnboundedSender<String>>) -> Self {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
        let authentication = maps.get("extension-apiserver-authentication").await.unwrap().data.unwrap();
        assert_eq!(authentication["requestheader-username-headers"], r#"["X-Remote-User"]"#);
        assert_eq!(authentication["requestheader-allowed-names"], r#"["front-proxy-client"]"#);
        assert!(authentication["client-ca-file"].contains("BEGIN CERTIFICATE"));
        let authority = authentication["requestheader-client-ca-file"].as_bytes();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority).unwrap()).unwrap();
        let proxies =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build().unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let names = ["other.default.svc".to_owned()];
        let certificate = rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        let mut tls = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(proxies)
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            )
            .unwrap();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let listener = Listener::new(socket).tls(Arc::new(tls));
        let serve = listener.serve(move |proxy| {
            assert!(proxy.is_some(), "a connection without a certificate");
            let watchers = watchers.clone();
            move |request| respond(request, watchers.clone())
        });
        Self { address, certificate: certificate.pem(), task: tokio::spawn(serve) }
    }
}

fn whole(status: StatusCode, body: &Value) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body.to_string())).boxed_unsync());
    *answer.status_mut() = status;
    answer.headers_mut().insert("content-type", "application/json".parse().unwrap());
    answer
}

fn echo(headers: &HeaderMap) -> Value {
    let mut list: Vec<String> =
        headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    list.sort();
    json!({"kind": "Thing", "apiVersion": "example.org/v1", "metadata": {"name": "a"}, "headers": list})
}

async fn respond(
    request: Request<RequestBody>,
    watchers: mpsc::UnboundedSender<mpsc::UnboundedSender<String>>,
) -> Answer {
    let things = "/apis/example.org/v1/namespaces/default/things";
    let reference = json!({"$ref": "#/definitions/org.example.v1.Thing"});
    let answer = |body: Value| whole(StatusCode::OK, &body);
    match (request.method().as_str(), request.uri().path()) {
        ("GET", "/apis/example.org/v1") => answer(json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "example.org/v1",
            "resources": [{
                "name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing",
                "verbs": ["create", "get", "list", "watch"],
            }],
        })),
        ("GET", "/openapi/v2") => answer(json!({
            "swagger": "2.0",
            "paths": {things: {"get": reference}, "/apis/example.org/v1/things": {"get": reference}},
            "definitions": {"org.example.v1.Thing": {"type": "object"}, "unused": {}},
        })),
        ("GET", "/openapi/v3") => answer(json!({
            "paths": {"apis/example.org/v1": {"serverRelativeURL": "/openapi/v3/apis/example.org/v1?hash=1"}},
        })),
        ("GET", "/openapi/v3/apis/example.org/v1") => answer(json!({"openapi": "3.0.0", "info": "other"})),
        ("GET", path) if path == things && request.uri().query() == Some("watch=true") => {
            let (sender, receiver) = mpsc::unbounded();
            watchers.unbounded_send(sender).unwrap();
            let frames = receiver.map(|line: String| Ok(Frame::data(Bytes::from(line))));
            Response::new(StreamBody::new(frames).boxed_unsync())
        }
        ("POST", path) if path == things => {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            whole(StatusCode::CREATED, &serde_json::from_slice(&body).unwrap())
        }
        ("GET", path) if path.ends_with("/things/a") => answer(echo(request.headers())),
        // Echoes the bytes of an upgraded connection.
        ("GET", path) if path.ends_with("/things/a/connect") => {
            let (near, far) = tokio::io::duplex(64);
            tokio::spawn(async move {
                let (mut read, mut write) = tokio::io::split(far);
                tokio::io::copy(&mut read, &mut write).await
            });
            let mut answer = Response::new(Full::default().boxed_unsync());
            *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            for (name, value) in [("connection", "Upgrade"), ("upgrade", "echo")] {
                answer.headers_mut().insert(name, value.parse().unwrap());
            }
            answer.extensions_mut().insert(Tunnel::new(near));
            answer
        }
        _ => whole(StatusCode::NOT_FOUND, &json!({"kind": "Status", "code": 404})),
    }
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

async fn create_service(cluster: &Cluster, annotations: Value) {
    let services: Api<Service> = Api::default_namespaced(cluster.client());
    let service = object(json!({
        "metadata": {"name": "other", "annotations": annotations},
        "spec": {"ports": [{"port": 443}]},
    }));
    services.create(&PostParams::default(), &service).await.unwrap();
}

fn api_service(bundle: Option<&str>) -> APIService {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let mut service = json!({
        "metadata": {"name": "v1.example.org"},
        "spec": {
            "group": "example.org",
            "version": "v1",
            "groupPriorityMinimum": 2000,
            "versionPriority": 10,
            "service": {"namespace": "default", "name": "other"},
        },
    });
    match bundle {
        Some(bundle) => service["spec"]["caBundle"] = STANDARD.encode(bundle).into(),
        None => service["spec"]["insecureSkipTLSVerify"] = true.into(),
    }
    object(service)
}

/// Waits until the condition `Available` has a reason, and returns its status and message.
async fn condition(cluster: &Cluster, wanted: &str) -> (String, String) {
    let services: Api<APIService> = Api::all(cluster.client());
    let available = |service: &APIService| {
        let conditions = service.status.clone().and_then(|status| status.conditions).unwrap_or_default();
        conditions.into_iter().find(|condition| condition.type_ == "Available")
    };
    let met = await_condition(services, "v1.example.org", |service: Option<&APIService>| {
        service.and_then(available).is_some_and(|condition| condition.reason.as_deref() == Some(wanted))
    });
    let service = met.await.unwrap().unwrap();
    let condition = available(&service).unwrap();
    (condition.status, condition.message.unwrap())
}

/// Status code and body of a response.
async fn ask(cluster: &Cluster, user: User, path: &str) -> (u16, String) {
    let mut request = Request::get(path).body(String::new()).unwrap();
    request.extensions_mut().insert(user);
    let answer = cluster.server().service().call(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

async fn json_at(cluster: &Cluster, path: &str) -> Value {
    let (status, text) = ask(cluster, User::admin(), path).await;
    assert_eq!(status, 200, "{path}: {text}");
    serde_json::from_str(&text).unwrap()
}

const THING: &str = "/apis/example.org/v1/namespaces/default/things/a";

#[tokio::test]
async fn requests_are_passed_on_with_the_name_of_their_user() {
    let cluster = Cluster::builder().workloads(false).start().await.unwrap();
    let other = OtherServer::start(&cluster.client(), mpsc::unbounded().0).await;
    create_service(&cluster, json!({"cluster.steersman.dev/address": other.address.to_string()})).await;
    let services: Api<APIService> = Api::all(cluster.client());
    services.create(&PostParams::default(), &api_service(Some(&other.certificate))).await.unwrap();
    assert_eq!(condition(&cluster, "Passed").await, ("True".to_owned(), "all checks passed".to_owned()));

    // The cluster authorises requests.
    let mut jane = User::named("jane", ["developers"]);
    let (code, refusal) = ask(&cluster, jane.clone(), THING).await;
    assert_eq!(code, 403);
    assert!(refusal.contains(r#"cannot get resource \"things\" in API group \"example.org\""#), "{refusal}");
    let roles: Api<ClusterRole> = Api::all(cluster.client());
    let role = object(json!({
        "metadata": {"name": "things"},
        "rules": [{"apiGroups": ["example.org"], "resources": ["things"], "verbs": ["*"]}],
    }));
    roles.create(&PostParams::default(), &role).await.unwrap();
    let bindings: Api<ClusterRoleBinding> = Api::all(cluster.client());
    let binding = object(json!({
        "metadata": {"name": "things"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "things"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "developers"}],
    }));
    bindings.create(&PostParams::default(), &binding).await.unwrap();
    jane.extra.insert("example.com/scope".into(), vec!["all".into()]);
    // A query that the cluster's own resources reject: the server validates it.
    let mut request = Request::get(format!("{THING}?limit=many&pretty=maybe")).body(String::new()).unwrap();
    for (name, value) in
        [("x-remote-group", "system:masters"), ("authorization", "Bearer x"), ("te", "trailers")]
    {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    request.extensions_mut().insert(jane.clone());
    let answer = cluster.server().service().call(request).await.unwrap();
    let answer: Value =
        serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(
        answer["headers"],
        json!([
            "host: other.default.svc",
            "x-remote-extra-example.com%2fscope: all",
            "x-remote-group: developers",
            "x-remote-group: system:authenticated",
            "x-remote-user: jane",
        ])
    );
    let thing = json!({"kind": "Thing", "apiVersion": "example.org/v1", "metadata": {"name": "b"}});
    let request = Request::post(THING.trim_end_matches("/a")).body(serde_json::to_vec(&thing).unwrap());
    assert_eq!(cluster.client_as(jane).request::<Value>(request.unwrap()).await.unwrap(), thing);

    // It is part of discovery and OpenAPI like any other API.
    let groups = json_at(&cluster, "/apis").await;
    let names: Vec<&str> =
        groups["groups"].as_array().unwrap().iter().map(|g| g["name"].as_str().unwrap()).collect();
    assert_eq!((names.first(), names.last()), (Some(&"apiregistration.k8s.io"), Some(&"example.org")));
    assert_eq!(json_at(&cluster, "/apis/example.org").await["preferredVersion"]["version"], "v1");
    assert_eq!(json_at(&cluster, "/apis/example.org/v1").await["resources"][0]["kind"], "Thing");
    let discovery = kube::Discovery::new(cluster.client()).run_aggregated().await.unwrap();
    let (resource, _) = discovery.get("example.org").unwrap().recommended_kind("Thing").unwrap();
    assert_eq!(resource.plural, "things");
    let document = json_at(&cluster, "/openapi/v2").await;
    assert_eq!(document["definitions"]["org.example.v1.Thing"], json!({"type": "object"}));
    assert!(
        document["definitions"].get("unused").is_none()
            && document["definitions"].get("io.k8s.api.core.v1.Pod").is_some()
    );
    assert!(document["paths"]["/apis/example.org/v1/things"].is_object());
    let index = json_at(&cluster, "/openapi/v3").await;
    assert_eq!(
        index["paths"]["apis/example.org/v1"]["serverRelativeURL"],
        "/openapi/v3/apis/example.org/v1?hash=1"
    );
    assert_eq!(json_at(&cluster, "/openapi/v3/apis/example.org/v1?hash=1").await["info"], "other");

    // OpenAPI definitions of the former server are dropped.
    let elsewhere = json!({"spec": {"service": {"namespace": "default", "name": "elsewhere"}}});
    services.patch("v1.example.org", &PatchParams::default(), &Patch::Merge(elsewhere)).await.unwrap();
    let document = json_at(&cluster, "/openapi/v2").await;
    assert!(document["definitions"].get("org.example.v1.Thing").is_none());

    services.delete("v1.example.org", &DeleteParams::default()).await.unwrap();
    assert_eq!(ask(&cluster, User::admin(), THING).await, (404, "404 page not found\n".to_owned()));
    assert_eq!(ask(&cluster, User::admin(), "/apis/example.org").await.0, 404);
}

#[tokio::test]
async fn an_api_whose_server_does_not_answer_is_unavailable() {
    let cluster = Cluster::builder().workloads(false).start().await.unwrap();
    let services: Api<APIService> = Api::all(cluster.client());
    services.create(&PostParams::default(), &api_service(None)).await.unwrap();
    assert_eq!(
        condition(&cluster, "ServiceNotFound").await,
        ("False".to_owned(), r#"service/other in "default" is not present"#.to_owned())
    );
    assert_eq!(ask(&cluster, User::admin(), THING).await, (503, "service unavailable\n".to_owned()));
    let listed = json_at(&cluster, "/apis").await;
    assert!(listed["groups"].as_array().unwrap().iter().any(|group| group["name"] == "example.org"));

    create_service(&cluster, json!({})).await;
    assert_eq!(
        condition(&cluster, "EndpointsNotFound").await.1,
        r#"cannot find endpointslices for service/other in "default""#
    );
    // The address of a port that was just closed.
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let annotate = |address: SocketAddr| {
        Patch::Merge(
            json!({"metadata": {"annotations": {"cluster.steersman.dev/address": address.to_string()}}}),
        )
    };
    let backends: Api<Service> = Api::default_namespaced(cluster.client());
    backends.patch("other", &PatchParams::default(), &annotate(free)).await.unwrap();
    let (_, why) = condition(&cluster, "FailedDiscoveryCheck").await;
    assert!(why.contains("/apis/example.org/v1: Get \"https://10."), "{why}");
    assert!(why.ends_with(&format!("dial tcp {free}: connect: connection refused")), "{why}");

    let other = OtherServer::start(&cluster.client(), mpsc::unbounded().0).await;
    backends.patch("other", &PatchParams::default(), &annotate(other.address)).await.unwrap();
    condition(&cluster, "Passed").await;
    assert_eq!(ask(&cluster, User::admin(), THING).await.0, 200);

    // A certificate that is not signed by the bundle.
    let stranger = rcgen::KeyPair::generate().unwrap();
    let stranger = rcgen::CertificateParams::new(["x".to_owned()]).unwrap().self_signed(&stranger).unwrap();
    let mut changed = services.get("v1.example.org").await.unwrap();
    changed.spec = api_service(Some(&stranger.pem())).spec;
    services.replace("v1.example.org", &PostParams::default(), &changed).await.unwrap();
    let (_, why) = condition(&cluster, "FailedDiscoveryCheck").await;
    assert!(why.ends_with("x509: certificate signed by unknown authority"), "{why}");
    assert_eq!(ask(&cluster, User::admin(), THING).await.0, 503);
}

#[tokio::test]
async fn watches_and_other_protocols_are_passed_through() {
    let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let cluster = Cluster::builder().workloads(false).listen(address).start().await.unwrap();
    let (watchers, mut watching) = mpsc::unbounded();
    let other = OtherServer::start(&cluster.client(), watchers).await;
    create_service(&cluster, json!({"cluster.steersman.dev/address": other.address.to_string()})).await;
    let services: Api<APIService> = Api::all(cluster.client());
    services.create(&PostParams::default(), &api_service(Some(&other.certificate))).await.unwrap();
    condition(&cluster, "Passed").await;

    let path = THING.trim_end_matches("/a");
    let request = Request::get(format!("{path}?watch=true")).body(String::new()).unwrap();
    let mut service = cluster.server().service();
    let mut events = {
        let mut request = request;
        request.extensions_mut().insert(User::admin());
        service.call(request).await.unwrap().into_body().into_data_stream()
    };
    let other_end = watching.next().await.unwrap();
    for line in ["{\"type\":\"ADDED\"}\n", "{\"type\":\"DELETED\"}\n"] {
        other_end.unbounded_send(line.to_owned()).unwrap();
        assert_eq!(events.next().await.unwrap().unwrap(), line);
    }
    // When the client disconnects, the stream to the extension server is closed.
    drop(events);
    while !other_end.is_closed() {
        let _ = other_end.unbounded_send("{}\n".to_owned());
        tokio::task::yield_now().await;
    }

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(cluster.root_certificate().as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(cluster.address().unwrap()).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let kubeconfig = cluster.kubeconfig().unwrap();
    let token = kubeconfig.lines().find_map(|line| line.trim().strip_prefix("token: ")).unwrap();
    let request = format!(
        "GET {THING}/connect HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\nconnection: Upgrade\r\nupgrade: echo\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    assert!(head.starts_with("http/1.1 101") && head.contains("upgrade: echo"), "{head}");
    for word in ["hello", "again"] {
        stream.write_all(word.as_bytes()).await.unwrap();
        let mut back = [0; 5];
        stream.read_exact(&mut back).await.unwrap();
        assert_eq!(back, word.as_bytes());
    }
}

#[tokio::test]
async fn what_the_server_has_itself_has_api_services_too() {
    let cluster = Cluster::builder().workloads(false).start().await.unwrap();
    let services: Api<APIService> = Api::all(cluster.client());
    let apps = serde_json::to_value(services.get("v1.apps").await.unwrap()).unwrap();
    assert_eq!(apps["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"], "onstart");
    let spec =
        json!({"group": "apps", "version": "v1", "groupPriorityMinimum": 17800, "versionPriority": 15});
    assert_eq!(apps["spec"], spec);
    assert_eq!(apps["status"]["conditions"][0]["reason"], "Local");

    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
    let definition = object(json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    }));
    definitions.create(&PostParams::default(), &definition).await.unwrap();
    let custom = serde_json::to_value(services.get("v1.example.com").await.unwrap()).unwrap();
    assert_eq!(
        (&custom["spec"]["groupPriorityMinimum"], &custom["spec"]["versionPriority"]),
        (&json!(1000), &json!(100))
    );
    // The API server recreates the APIService while its definition exists.
    services.delete("v1.example.com", &DeleteParams::default()).await.unwrap();
    services.get("v1.example.com").await.unwrap();
    definitions.delete("widgets.example.com", &DeleteParams::default()).await.unwrap();
    assert!(services.get_opt("v1.example.com").await.unwrap().is_none());
    assert_eq!(services.list(&ListParams::default()).await.unwrap().items.len(), 21);

    let wrong = api_service(None);
    let mut wrong: Value = serde_json::to_value(wrong).unwrap();
    wrong["metadata"]["name"] = "other".into();
    wrong["spec"]["versionPriority"] = 0.into();
    let refusal = services.create(&PostParams::default(), &object(wrong)).await.unwrap_err().to_string();
    assert!(refusal.contains(r#"must be `spec.version+"."+spec.group`: "v1.example.org""#), "{refusal}");
    assert!(
        refusal.contains("spec.versionPriority: Invalid value: 0: must be positive and less than 1000"),
        "{refusal}"
    );
}
