//! Custom resources with a conversion webhook.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use steersman_apiserver::{BoxFuture, Server, WebhookCall, WebhookClient};
use tower_service::Service as _;

const V1: &str = "/apis/example.com/v1/shops";
const V2: &str = "/apis/example.com/v2/shops";

/// A change that makes a response invalid.
type Spoiling = fn(&mut Value);
type Spoil = Arc<Mutex<Spoiling>>;

/// A conversion webhook: v1 has an address `host:port`, v2 has separate fields.
#[derive(Clone, Default)]
struct Hook {
    asked: Arc<Mutex<Vec<Value>>>,
    /// Applied to every response.
    spoil: Option<Spoil>,
}

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hook")
    }
}

fn converted(mut object: Value, to: &str) -> Value {
    let (from, spec) = (object["apiVersion"].clone(), object["spec"].take());
    // Objects may be incomplete: partial ones are converted too.
    object["spec"] = match (from.as_str(), to) {
        (Some("example.com/v1"), "example.com/v2") => {
            let address = spec["address"].as_str().and_then(|address| address.split_once(':'));
            json!({"host": address.map(|a| a.0), "port": address.map(|a| a.1), "note": spec["note"]})
        }
        _ => {
            let address = spec["host"].as_str().zip(spec["port"].as_str());
            json!({"address": address.map(|(host, port)| format!("{host}:{port}")), "note": spec["note"]})
        }
    };
    object["spec"].as_object_mut().unwrap().retain(|_, value| !value.is_null());
    object["apiVersion"] = to.into();
    // Other changes of a webhook to metadata are ignored.
    object["metadata"]["generation"] = json!(99);
    object
}

impl WebhookClient for Hook {
    fn call<'a>(&'a self, call: WebhookCall<'a>) -> BoxFuture<'a, Result<Bytes, String>> {
        Box::pin(async move {
            assert_eq!(call.url(), "https://hooks.default.svc:443/convert?timeout=30s");
            let review: Value = serde_json::from_slice(call.body).unwrap();
            let request = &review["request"];
            self.asked.lock().unwrap().push(request.clone());
            let to = request["desiredAPIVersion"].as_str().unwrap();
            let objects: Vec<Value> =
                request["objects"].as_array().unwrap().iter().map(|o| converted(o.clone(), to)).collect();
            let mut answer = json!({
                "apiVersion": review["apiVersion"], "kind": "ConversionReview",
                "response": {"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}},
            });
            if let Some(spoil) = &self.spoil {
                (spoil.lock().unwrap())(&mut answer);
            }
            Ok(answer.to_string().into())
        })
    }
}

impl Hook {
    /// The number of objects in each request since the last call.
    fn asked(&self) -> Vec<usize> {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        asked.iter().map(|request| request["objects"].as_array().unwrap().len()).collect()
    }
}

async fn ask(server: &Server, request: &str, body: Value) -> (u16, Value) {
    let (method, path) = request.split_once(' ').unwrap();
    let media = match method {
        "PATCH" if path.contains("fieldManager") => "application/apply-patch+yaml",
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let builder = Request::builder().method(method).uri(path).header("content-type", media);
    let answer = server.service().call(builder.body(body).unwrap()).await.unwrap();
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&bytes);
    let value = serde_json::from_str(&text).unwrap_or_else(|_| {
        // A watch: one event per line.
        text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).collect()
    });
    (code, value)
}

fn version(name: &str, storage: bool, properties: Value) -> Value {
    json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {
        "type": "object", "properties": {"spec": {"type": "object", "properties": properties}},
    }}})
}

fn definition(stored: &str) -> Value {
    let text = json!({"type": "string"});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "shops.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "shops", "kind": "Shop"},
            "versions": [
                version("v1", stored == "v1", json!({"address": {"type": "string", "pattern": ":"}, "note": text})),
                version("v2", stored == "v2", json!({
                    "host": text, "port": {"type": "string", "maxLength": 4}, "note": text,
                })),
            ],
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v9", "v1"],
                "clientConfig": {"service": {"namespace": "default", "name": "hooks", "path": "/convert"}},
            }},
        },
    })
}

async fn start(hook: &Hook) -> Server {
    let server = Server::builder().webhook_client(hook.clone()).build();
    let path = "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, answer) = ask(&server, path, definition("v1")).await;
    assert_eq!(code, 201, "{answer}");
    server
}

fn shop(version: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("example.com/{version}"), "kind": "Shop",
        "metadata": {"name": name}, "spec": spec,
    })
}

#[tokio::test(start_paused = true)]
async fn versions_are_read_and_written_by_way_of_the_webhook() {
    let hook = Hook::default();
    let server = start(&hook).await;
    let (code, made) =
        ask(&server, &format!("POST {V2}"), shop("v2", "a", json!({"host": "h", "port": "80"}))).await;
    assert_eq!((code, &made["spec"]), (201, &json!({"host": "h", "port": "80"})));
    assert_eq!((&made["apiVersion"], &made["metadata"]["generation"]), (&json!("example.com/v2"), &json!(1)));
    // Reads in the storage version do not call the webhook.
    hook.asked();
    let (_, read) = ask(&server, &format!("GET {V1}/a"), Value::Null).await;
    assert_eq!((&read["apiVersion"], &read["spec"]), (&json!("example.com/v1"), &json!({"address": "h:80"})));
    assert!(hook.asked().is_empty());
    // Patches are made in the version of the request.
    let (code, patched) = ask(&server, &format!("PATCH {V2}/a"), json!({"spec": {"port": "81"}})).await;
    assert_eq!((code, &patched["spec"]["port"]), (200, &json!("81")), "{patched}");
    assert_eq!(patched["metadata"]["generation"], 2);
    let (_, read) = ask(&server, &format!("GET {V1}/a"), Value::Null).await;
    assert_eq!(read["spec"], json!({"address": "h:81"}));
    // So are rules.
    let (code, refused) = ask(&server, &format!("PATCH {V2}/a"), json!({"spec": {"port": "81000"}})).await;
    assert_eq!(code, 422);
    assert!(refused["message"].as_str().unwrap().contains("spec.port"), "{refused}");
    // A list is one request, and so is each event of a watch.
    ask(&server, &format!("POST {V1}"), shop("v1", "b", json!({"address": "i:1"}))).await;
    hook.asked();
    let (_, list) = ask(&server, &format!("GET {V2}"), Value::Null).await;
    assert_eq!(list["items"][1]["spec"], json!({"host": "i", "port": "1"}));
    assert_eq!(hook.asked(), [2]);
    let (_, events) = ask(&server, &format!("GET {V2}?watch=true&timeoutSeconds=1"), Value::Null).await;
    assert_eq!(events[0]["object"]["spec"], json!({"host": "h", "port": "81"}));
    // A dry run is not stored.
    let tried = json!({"spec": {"port": "9"}});
    let (_, tried) = ask(&server, &format!("PATCH {V2}/a?dryRun=All"), tried).await;
    assert_eq!(tried["spec"]["port"], "9");
    let (code, _) = ask(&server, &format!("DELETE {V2}/a"), Value::Null).await;
    assert_eq!(code, 200);
}

#[tokio::test]
async fn fields_keep_their_owners_in_all_versions() {
    let hook = Hook::default();
    let server = start(&hook).await;
    let one = shop("v1", "a", json!({"address": "h:80"}));
    let (code, _) = ask(&server, &format!("PATCH {V1}/a?fieldManager=one"), one).await;
    assert_eq!(code, 201);
    // Another manager does not change the first one's fields, in any version.
    let two = shop("v2", "a", json!({"note": "n"}));
    let (code, applied) = ask(&server, &format!("PATCH {V2}/a?fieldManager=two"), two).await;
    assert_eq!(
        (code, &applied["spec"]),
        (200, &json!({"host": "h", "port": "80", "note": "n"})),
        "{applied}"
    );
    let two = shop("v2", "a", json!({"host": "other"}));
    let (code, refused) = ask(&server, &format!("PATCH {V2}/a?fieldManager=two"), two.clone()).await;
    assert_eq!(code, 409, "{refused}");
    assert_eq!(refused["message"], "Apply failed with 1 conflict: conflict with \"one\": .spec.address");
    let (code, _) = ask(&server, &format!("PATCH {V2}/a?fieldManager=two&force=true"), two).await;
    assert_eq!(code, 200);
    let (_, read) = ask(&server, &format!("GET {V1}/a"), Value::Null).await;
    assert_eq!(read["spec"], json!({"address": "other:80"}));
}

#[tokio::test]
async fn objects_stay_in_the_version_in_which_they_were_stored() {
    let hook = Hook::default();
    let server = start(&hook).await;
    ask(&server, &format!("POST {V1}"), shop("v1", "a", json!({"address": "h:80"}))).await;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/shops.example.com";
    let (_, before) = ask(&server, &format!("GET {path}"), Value::Null).await;
    let mut next = definition("v2");
    next["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
    let (code, answer) = ask(&server, &format!("PUT {path}"), next).await;
    assert_eq!(code, 200, "{answer}");
    hook.asked();
    let (_, read) = ask(&server, &format!("GET {V1}/a"), Value::Null).await;
    assert_eq!(read["spec"], json!({"address": "h:80"}));
    assert!(hook.asked().is_empty());
    let (_, read) = ask(&server, &format!("GET {V2}/a"), Value::Null).await;
    assert_eq!(read["spec"], json!({"host": "h", "port": "80"}));
    assert_eq!(hook.asked(), [1]);
    // The next write stores them in the new version.
    ask(&server, &format!("PATCH {V2}/a"), json!({"spec": {"note": "n"}})).await;
    hook.asked();
    let (_, read) = ask(&server, &format!("GET {V2}/a"), Value::Null).await;
    assert_eq!(read["spec"], json!({"host": "h", "port": "80", "note": "n"}));
    assert!(hook.asked().is_empty());
}

#[tokio::test]
async fn odd_answers_are_told() {
    let spoil: Spoil = Arc::new(Mutex::new(|_| {}));
    let hook = Hook { spoil: Some(Arc::clone(&spoil)), ..Hook::default() };
    let server = start(&hook).await;
    ask(&server, &format!("POST {V1}"), shop("v1", "a", json!({"address": "h:80"}))).await;
    let cases: [(Spoiling, &str); 10] = [
        (|a| a["response"]["result"] = json!({"status": "Failure", "message": "no way"}), "failed: no way"),
        (|a| a["response"]["result"] = json!({}), "failed: response.result.status was '', not 'Success'"),
        (|a| drop(a["response"].take()), "failed: no response provided"),
        (|a| a["response"]["uid"] = json!("x"), ", got \"x\""),
        (
            |a| a["apiVersion"] = json!("apiextensions.k8s.io/v1beta1"),
            "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got apiextensions.k8s.io/v1beta1, Kind=ConversionReview",
        ),
        (|a| a["response"]["convertedObjects"] = json!([]), "returned 0 objects, expected 1"),
        (
            |a| a["response"]["convertedObjects"][0]["apiVersion"] = json!("example.com/v1"),
            "returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v1)",
        ),
        (
            |a| a["response"]["convertedObjects"][0]["kind"] = json!("Shed"),
            "returned invalid object at index 0: invalid kind (expected Shop, received Shed)",
        ),
        (
            |a| a["response"]["convertedObjects"][0]["metadata"]["name"] = json!("b"),
            "returned invalid object: must have the same name: a != b",
        ),
        (
            |a| a["response"]["convertedObjects"][0]["metadata"]["labels"] = json!({"a b": "c"}),
            "returned invalid metadata: metadata.labels: Invalid value: \"a b\"",
        ),
    ];
    for (case, expected) in cases {
        *spoil.lock().unwrap() = case;
        let (code, refused) = ask(&server, &format!("GET {V2}/a"), Value::Null).await;
        let message = refused["message"].as_str().unwrap_or_default();
        assert_eq!(code, 500, "{refused}");
        assert!(message.starts_with("conversion webhook for example.com/v1, Kind=Shop "), "{message}");
        assert!(message.contains(expected), "{message}");
    }
    *spoil.lock().unwrap() =
        |a| a["response"]["convertedObjects"][0]["metadata"]["labels"] = json!({"l": "v"});
    let (_, read) = ask(&server, &format!("GET {V2}/a"), Value::Null).await;
    assert_eq!(read["metadata"]["labels"], json!({"l": "v"}));
}

#[tokio::test]
async fn an_answer_need_not_be_an_object() {
    let spoil: Spoil = Arc::new(Mutex::new(|_| {}));
    let hook = Hook { spoil: Some(Arc::clone(&spoil)), ..Hook::default() };
    let server = start(&hook).await;
    ask(&server, &format!("POST {V1}"), shop("v1", "a", json!({"address": "h:80"}))).await;
    // v1beta1 responses need not contain the uid of the request.
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/shops.example.com";
    let older = json!({"spec": {"conversion": {"webhook": {"conversionReviewVersions": ["v1beta1"]}}}});
    let (code, answer) = ask(&server, &format!("PATCH {path}"), older).await;
    assert_eq!(code, 200, "{answer}");
    let cases: [Spoiling; 4] =
        [|a| *a = json!(5), |a| *a = json!(["response"]), |a| *a = json!("response"), |a| *a = Value::Null];
    for case in cases {
        *spoil.lock().unwrap() = case;
        let (code, refused) = ask(&server, &format!("GET {V2}/a"), Value::Null).await;
        let expected = "conversion webhook for example.com/v1, Kind=Shop failed: no response provided";
        assert_eq!((code, &refused["message"]), (500, &json!(expected)));
    }
    *spoil.lock().unwrap() = |a| a["response"]["convertedObjects"] = json!({});
    let (_, refused) = ask(&server, &format!("GET {V2}/a"), Value::Null).await;
    let expected = "conversion webhook for example.com/v1, Kind=Shop returned 0 objects, expected 1";
    assert_eq!(refused["message"], expected);
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_the_first_object_that_is_not_converted() {
    let spoil: Spoil = Arc::new(Mutex::new(|_| {}));
    let hook = Hook { spoil: Some(Arc::clone(&spoil)), ..Hook::default() };
    let server = start(&hook).await;
    let watch = Request::builder().uri(format!("{V2}?watch=true&timeoutSeconds=5")).body(String::new());
    let watch = server.service().call(watch.unwrap()).await.unwrap();
    for name in ["a", "b", "c"] {
        ask(&server, &format!("POST {V1}"), shop("v1", name, json!({"address": "h:80"}))).await;
    }
    *spoil.lock().unwrap() = |a| drop(a["response"].take());
    hook.asked();
    let bytes = watch.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&bytes);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.starts_with("{\"object\":{") && text.contains("\"type\":\"ERROR\""), "{text}");
    assert_eq!(hook.asked(), [1]);
}
