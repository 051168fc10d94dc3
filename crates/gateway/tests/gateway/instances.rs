//! Kinds, instances, differences, actions and history.

use serde_json::{Value, json};

use crate::support::{EDITOR, Place, ROOT, SHOPS, VIEWER, definition, shop};

#[tokio::test(flavor = "multi_thread")]
async fn kinds_are_those_of_the_cluster() {
    let place = Place::new().await;
    let kinds = place.get(VIEWER, "/v1/kinds").await.expect(200);
    let kinds = kinds["items"].as_array().unwrap();
    assert_eq!(kinds.len(), 1);
    assert_eq!(kinds[0]["name"], "shops.example.com");
    assert_eq!(kinds[0]["columns"][0]["name"], "Replicas");
    let actions: Vec<&str> =
        kinds[0]["actions"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(actions, ["scale", "pause", "resume", "reconcile", "rollback", "upgrade", "drain"]);
    assert!(kinds[0].get("schema").is_none());

    let kind = place.get(VIEWER, "/v1/kinds/shops.example.com").await.expect(200);
    assert_eq!(kind["schema"]["properties"]["spec"]["properties"]["replicas"]["maximum"], 10);
    let all = place.get(VIEWER, "/v1/kinds?builtin=true").await.expect(200);
    assert!(all["items"].as_array().unwrap().iter().any(|kind| kind["name"] == "deployments.apps"));
    let none = place.get(VIEWER, "/v1/kinds/nothings.example.com").await;
    assert_eq!(none.expect(404)["reason"], "NotFound");
    assert_eq!(none.header("content-type"), Some("application/problem+json"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_was_never_seen_is_served_at_once() {
    let place = Place::new().await;
    place.get(ROOT, "/v1/kinds").await.expect(200);
    let definition = definition().to_string().replace("shop", "mall").replace("Shop", "Mall");
    let definition: Value = serde_json::from_str(&definition).unwrap();
    let definitions = "/v1/kinds/customresourcedefinitions.apiextensions.k8s.io/instances?wait=ready";
    place.post(ROOT, definitions, &definition).await.expect(201);
    let malls = "/v1/kinds/malls.example.com/namespaces/default/instances";
    place.post(ROOT, malls, &shop("big", 1)).await.expect(201);
    let kinds = place.get(ROOT, "/v1/kinds").await.expect(200);
    assert_eq!(kinds["items"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_made_read_changed_and_deleted() {
    let place = Place::new().await;
    let made = place.post(EDITOR, SHOPS, &shop("corner", 1)).await;
    let object = made.expect(201);
    assert_eq!(object["kind"], "Shop");
    assert!(object["metadata"].get("managedFields").is_none());
    let one = format!("{SHOPS}/corner");
    assert_eq!(made.header("location"), Some(one.as_str()));
    let tag = made.header("etag").unwrap().to_owned();
    assert_eq!(tag, format!("\"{}\"", object["metadata"]["resourceVersion"].as_str().unwrap()));

    let read = place.get(EDITOR, &one).await;
    assert_eq!(read.expect(200), object);
    let same = place
        .raw("GET", &one, &[("authorization", "Bearer editor-token"), ("if-none-match", &tag)], b"")
        .await;
    assert_eq!((same.status, same.body.len()), (304, 0));

    let patched = place.patch(EDITOR, &one, &json!({"spec": {"replicas": 3}})).await.expect(200);
    assert_eq!(patched["spec"]["replicas"], 3);
    let mut whole = patched.clone();
    whole["spec"] = json!({"replicas": 4});
    assert_eq!(place.put(EDITOR, &one, &whole).await.expect(200)["spec"], json!({"replicas": 4}));
    // Without a resourceVersion the latest is replaced.
    assert_eq!(place.put(EDITOR, &one, &shop("corner", 5)).await.expect(200)["spec"]["replicas"], 5);

    let list = place.get(EDITOR, SHOPS).await.expect(200);
    assert_eq!(list["items"][0]["cells"], json!([5, null]));
    assert_eq!(list["items"][0]["health"]["status"], "unknown");
    place
        .report("corner", &json!({"conditions": [{"type": "Ready", "status": "True", "reason": "Open"}]}))
        .await;
    let status = place.get(EDITOR, &format!("{one}/status")).await.expect(200);
    assert_eq!((&status["health"]["status"], &status["health"]["reason"]), (&json!("ready"), &json!("Open")));
    assert_eq!(status["conditions"][0]["type"], "Ready");

    place.delete(EDITOR, &one).await.expect(200);
    assert_eq!(place.get(EDITOR, &one).await.expect(404)["reason"], "NotFound");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_object_is_told_field_by_field() {
    let place = Place::new().await;
    let wrong = json!({"metadata": {"name": "a"}, "spec": {"replicas": 11, "version": "9"}});
    let problem = place.post(EDITOR, SHOPS, &wrong).await.expect(422);
    assert_eq!(problem["reason"], "Invalid");
    let mut fields: Vec<&str> =
        problem["causes"].as_array().unwrap().iter().map(|one| one["field"].as_str().unwrap()).collect();
    // The order of the causes is the API server's, and not deterministic.
    fields.sort_unstable();
    assert_eq!(fields, ["spec.replicas", "spec.version"]);

    let unknown = json!({"metadata": {"name": "a"}, "spec": {"replica": 1}});
    assert!(
        place.post(EDITOR, SHOPS, &unknown).await.expect(400)["detail"].as_str().unwrap().contains("replica")
    );
    let other = json!({"kind": "Mall", "metadata": {"name": "a"}});
    assert_eq!(place.post(EDITOR, SHOPS, &other).await.expect(422)["causes"][0]["field"], "kind");
    let nowhere = place.post(ROOT, "/v1/kinds/shops.example.com/instances", &shop("a", 1)).await;
    assert_eq!(nowhere.expect(422)["causes"][0]["field"], "metadata.namespace");
    let misspelt = place.get(EDITOR, &format!("{SHOPS}?labelselector=a")).await;
    assert!(misspelt.expect(400)["detail"].as_str().unwrap().contains("labelselector"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_shows_the_difference_and_changes_nothing() {
    let place = Place::new().await;
    let before = place.post(EDITOR, SHOPS, &shop("corner", 1)).await.expect(201);
    let one = format!("{SHOPS}/corner");
    let diff = place
        .patch(EDITOR, &format!("{one}?dryRun=true"), &json!({"spec": {"replicas": 3, "drain": true}}))
        .await
        .expect(200);
    assert_eq!(
        diff["changes"],
        json!([
            {"path": "spec.replicas", "op": "replace", "before": 1, "after": 3},
            {"path": "spec.drain", "op": "add", "before": null, "after": true},
        ])
    );
    let yaml = diff["yaml"].as_str().unwrap();
    assert!(yaml.contains("-  replicas: 1\n+  drain: true\n+  replicas: 3\n"), "{yaml}");
    assert_eq!(diff["object"]["spec"]["replicas"], 3);

    let scaled = place
        .post(EDITOR, &format!("{one}/actions/scale?dryRun=true"), &json!({"value": 7}))
        .await
        .expect(200);
    assert_eq!(scaled["changes"][0]["path"], "spec.replicas");
    let made = place.post(EDITOR, &format!("{SHOPS}?dryRun=true"), &shop("new", 2)).await.expect(200);
    assert_eq!(made["object"]["metadata"]["name"], "new");
    let gone = place.delete(EDITOR, &format!("{one}?dryRun=true")).await.expect(200);
    assert_eq!(gone["object"], Value::Null);
    assert_eq!(
        place.patch(EDITOR, &format!("{one}?dryRun=true"), &json!({"spec": {"replicas": 99}})).await.status,
        422
    );

    assert_eq!(place.get(EDITOR, &one).await.expect(200), before);
    assert_eq!(place.get(EDITOR, SHOPS).await.expect(200)["items"].as_array().unwrap().len(), 1);
    let audit = place.get(EDITOR, "/v1/audit").await.expect(200);
    assert_eq!(audit["items"].as_array().unwrap().len(), 1, "only the create counts: {audit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_what_was_not_seen_is_refused() {
    let place = Place::new().await;
    let made = place.post(EDITOR, SHOPS, &shop("corner", 1)).await;
    let (mut seen, old) = (made.expect(201), made.header("etag").unwrap().to_owned());
    let one = format!("{SHOPS}/corner");
    place.patch(ROOT, &one, &json!({"spec": {"replicas": 2}})).await.expect(200);

    let attempts = [
        ("PATCH", one.clone(), "application/merge-patch+json", json!({"spec": {"replicas": 3}})),
        (
            "PATCH",
            one.clone(),
            "application/json-patch+json",
            json!([{"op": "replace", "path": "/spec/replicas", "value": 3}]),
        ),
        ("PUT", one.clone(), "application/json", shop("corner", 3)),
        ("POST", format!("{one}/actions/scale"), "application/json", json!({"value": 3})),
        ("DELETE", one.clone(), "application/json", json!({})),
    ];
    for (method, path, kind, body) in attempts {
        let headers =
            [("authorization", "Bearer editor-token"), ("content-type", kind), ("if-match", old.as_str())];
        let answer = place.raw(method, &path, &headers, body.to_string().as_bytes()).await;
        let problem = answer.expect(412);
        assert_eq!(problem["reason"], "PreconditionFailed", "{method} {kind}");
        assert_eq!(problem["current"]["spec"]["replicas"], 2, "{method} {kind}");
    }
    assert_eq!(place.put(EDITOR, &one, &seen).await.expect(412)["current"]["spec"]["replicas"], 2);
    // A resourceVersion that the cluster cannot have issued.
    seen["metadata"]["resourceVersion"] = json!("nonsense");
    assert_eq!(place.put(EDITOR, &one, &seen).await.expect(412)["current"]["spec"]["replicas"], 2);
    let headers = [("authorization", "Bearer editor-token"), ("if-match", "W/\"nonsense\"")];
    assert_eq!(place.raw("DELETE", &one, &headers, b"").await.expect(412)["current"]["spec"]["replicas"], 2);

    let now = place.get(EDITOR, &one).await;
    let headers = [("authorization", "Bearer editor-token"), ("if-match", now.header("etag").unwrap())];
    assert_eq!(
        place.raw("PATCH", &one, &headers, br#"{"spec": {"replicas": 4}}"#).await.expect(200)["spec"]["replicas"],
        4
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn actions_are_one_request() {
    let place = Place::new().await;
    place.post(EDITOR, SHOPS, &shop("corner", 1)).await.expect(201);
    let one = format!("{SHOPS}/corner");
    let act =
        async |action: &str, body: Value| place.post(EDITOR, &format!("{one}/actions/{action}"), &body).await;
    assert_eq!(act("scale", json!({"value": 3})).await.expect(200)["spec"]["replicas"], 3);
    assert_eq!(act("pause", json!({})).await.expect(200)["spec"]["paused"], true);
    let status = place.get(EDITOR, &format!("{one}/status")).await.expect(200);
    assert_eq!(status["health"]["status"], "paused");
    assert_eq!(act("resume", Value::Null).await.expect(200)["spec"]["paused"], false);
    assert_eq!(act("upgrade", json!({"value": "2"})).await.expect(200)["spec"]["version"], "2");
    assert_eq!(act("drain", json!({})).await.expect(200)["spec"]["drain"], true);
    let stamped = act("reconcile", json!({})).await.expect(200);
    assert!(stamped["metadata"]["annotations"]["steersman.dev/reconcile-requested-at"].is_string());

    assert_eq!(act("upgrade", json!({"value": "3"})).await.expect(422)["causes"][0]["field"], "value");
    assert_eq!(act("scale", json!({"value": "3"})).await.status, 422);
    assert_eq!(act("scale", json!({"value": -1})).await.status, 422);
    assert_eq!(act("scale", json!({"value": 11})).await.expect(422)["causes"][0]["field"], "spec.replicas");
    assert_eq!(act("scale", json!({"valeu": 3})).await.status, 422);
    assert_eq!(act("drain", json!({"value": 3})).await.status, 422);
    assert_eq!(act("explode", json!({})).await.status, 404);

    let actions = place.get(VIEWER, &format!("{one}/actions")).await.expect(200);
    assert!(actions["items"].as_array().unwrap().iter().all(|action| action["allowed"] == false));
    assert_eq!(actions["items"][0]["reason"], "viewer may not patch shops.example.com in namespace default");
    let actions = place.get(EDITOR, &format!("{one}/actions")).await.expect(200);
    assert!(actions["items"].as_array().unwrap().iter().all(|action| action["allowed"] == true));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_of_spec_can_be_compared_and_restored() {
    let place = Place::new().await;
    place.post(EDITOR, SHOPS, &shop("corner", 1)).await.expect(201);
    let one = format!("{SHOPS}/corner");
    place.patch(EDITOR, &one, &json!({"spec": {"replicas": 2, "version": "1"}})).await.expect(200);
    place.patch(EDITOR, &one, &json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
    place.post(ROOT, &format!("{one}/actions/scale"), &json!({"value": 3})).await.expect(200);

    let history = place.get(VIEWER, &format!("{one}/history")).await.expect(200);
    let items = history["items"].as_array().unwrap();
    let told: Vec<_> =
        items.iter().map(|item| (item["revision"].as_u64().unwrap(), item["by"].as_str().unwrap())).collect();
    assert_eq!(told, [(3, "root"), (2, "editor"), (1, "editor")], "a label is no change of spec");
    assert_eq!(items[0]["current"], true);
    assert_eq!(
        items[0]["changes"],
        json!([{"path": "spec.replicas", "op": "replace", "before": 2, "after": 3}])
    );

    let compared = place.get(VIEWER, &format!("{one}/history/compare?from=1&to=3")).await.expect(200);
    assert_eq!(compared["changes"].as_array().unwrap().len(), 2);
    assert!(compared["yaml"].as_str().unwrap().starts_with("--- revision 1\n+++ revision 3\n"));
    assert_eq!(
        place.get(VIEWER, &format!("{one}/history/2")).await.expect(200)["object"]["spec"]["replicas"],
        2
    );
    assert_eq!(place.get(VIEWER, &format!("{one}/history/9")).await.status, 404);

    let back = place
        .post(EDITOR, &format!("{one}/actions/rollback?dryRun=true"), &json!({"value": 1}))
        .await
        .expect(200);
    assert_eq!(back["changes"].as_array().unwrap().len(), 2);
    let back = place.post(EDITOR, &format!("{one}/actions/rollback"), &json!({"value": 1})).await.expect(200);
    assert_eq!(back["spec"], json!({"replicas": 1}), "what the revision did not have is gone");
    assert_eq!(back["metadata"]["labels"]["a"], "b", "metadata is not rolled back");
    let history = place.get(VIEWER, &format!("{one}/history")).await.expect(200);
    assert_eq!(history["items"][0]["revision"], 4);
    assert_eq!(
        place.post(VIEWER, &format!("{one}/actions/rollback"), &json!({"value": 2})).await.status,
        403
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_of_any_version_have_no_conflicts() {
    let place = Place::new().await;
    place.post(EDITOR, SHOPS, &shop("corner", 1)).await.expect(201);
    let one = format!("{SHOPS}/corner");
    place.patch(EDITOR, &one, &json!({"spec": {"replicas": 2}})).await.expect(200);
    let (rollback, revision) = (format!("{one}/actions/rollback"), json!({"value": 1}));
    for _ in 0..10 {
        // A replacement is only retried after losing to one of the other three, so five attempts suffice.
        let [first, second] = [shop("corner", 3), shop("corner", 4)];
        let (first, second, third, back) = tokio::join!(
            place.put(EDITOR, &one, &first),
            place.put(EDITOR, &one, &second),
            place.put(EDITOR, &one, &first),
            place.post(EDITOR, &rollback, &revision),
        );
        assert_eq!(first.expect(200)["spec"]["replicas"], 3);
        assert_eq!(second.expect(200)["spec"]["replicas"], 4);
        assert_eq!(third.expect(200)["spec"]["replicas"], 3);
        assert_eq!(back.expect(200)["spec"]["replicas"], 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_makes_a_request_once() {
    let place = Place::new().await;
    let send = async |token: &str, key: &str, body: Value| {
        let authorization = format!("Bearer {token}");
        let headers = [
            ("authorization", authorization.as_str()),
            ("idempotency-key", key),
            ("content-type", "application/json"),
        ];
        place.raw("POST", SHOPS, &headers, body.to_string().as_bytes()).await
    };
    let object = json!({"metadata": {"generateName": "corner-"}, "spec": {}});
    let first = send(EDITOR, "one", object.clone()).await;
    let again = send(EDITOR, "one", object.clone()).await;
    assert_eq!(first.expect(201), again.expect(201));
    assert_eq!(
        (first.header("idempotency-replayed"), again.header("idempotency-replayed")),
        (None, Some("true"))
    );
    assert_eq!(again.header("etag"), first.header("etag"));
    assert_eq!(send(EDITOR, "one", shop("other", 1)).await.expect(422)["reason"], "IdempotencyKeyReused");
    let root = send(ROOT, "one", object.clone()).await.expect(201);
    assert_ne!(root["metadata"]["name"], first.json()["metadata"]["name"], "keys are those of a user");
    // Failed requests can be retried.
    assert_eq!(send(VIEWER, "two", object.clone()).await.status, 403);
    assert_eq!(send(VIEWER, "two", object).await.header("idempotency-replayed"), None);
    assert_eq!(place.get(EDITOR, SHOPS).await.expect(200)["items"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_filtered_sorted_paged_and_cut() {
    let place = Place::new().await;
    for (name, replicas) in [("apple", 3), ("berry", 1), ("cherry", 2), ("date", 2)] {
        place.post(EDITOR, SHOPS, &shop(name, replicas)).await.expect(201);
    }
    place
        .report(
            "berry",
            &json!({"conditions": [{"type": "Ready", "status": "False", "reason": "PullError"}]}),
        )
        .await;
    let names = async |query: &str| {
        let list = place.get(VIEWER, &format!("{SHOPS}?{query}")).await.expect(200);
        let name = |item: &Value| item["object"]["metadata"]["name"].as_str().unwrap().to_owned();
        let names: Vec<_> = list["items"].as_array().unwrap().iter().map(name).collect();
        (names, list["continue"].as_str().map(str::to_owned))
    };
    assert_eq!(names("sort=-spec.replicas,metadata.name").await.0, ["apple", "cherry", "date", "berry"]);
    assert_eq!(names("sort=health&limit=1").await.0, ["berry"]);
    assert_eq!(names("filter=spec.replicas=2").await.0, ["cherry", "date"]);
    assert_eq!(names("filter=spec.replicas%3E1&filter=metadata.name!=date").await.0, ["apple", "cherry"]);
    assert_eq!(names("filter=health=failing").await.0, ["berry"]);
    assert_eq!(names("filter=ERR").await.0, ["berry", "cherry"]);
    assert_eq!(names("filter=metadata.name~at").await.0, ["date"]);
    for pages in ["limit=3", "limit=3&sort=metadata.name"] {
        let (first, next) = names(pages).await;
        let (second, end) = names(&format!("{pages}&continue={}", next.unwrap())).await;
        assert_eq!([first, second].concat(), ["apple", "berry", "cherry", "date"]);
        assert_eq!(end, None);
    }
    let cut = place.get(VIEWER, &format!("{SHOPS}?fields=spec.replicas&limit=1")).await.expect(200);
    let object = &cut["items"][0]["object"];
    assert_eq!(object["spec"], json!({"replicas": 3}));
    assert_eq!(
        object["metadata"].as_object().unwrap().keys().collect::<Vec<_>>(),
        ["name", "namespace", "resourceVersion", "uid"]
    );
    assert_eq!(place.get(VIEWER, &format!("{SHOPS}?limit=0")).await.status, 400);
    assert_eq!(place.get(VIEWER, &format!("{SHOPS}?sort=a..b")).await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_goes_down_to_pods_with_events_and_logs() {
    let place = Place::new().await;
    let deployments = "/v1/kinds/deployments.apps/namespaces/default/instances";
    let labels = json!({"app": "web"});
    let web = json!({"metadata": {"name": "web"}, "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {
        "metadata": {"labels": labels, "annotations": {"cluster.steersman.dev/logs": "hello"}},
        "spec": {"containers": [{"name": "c", "image": "web:1"}]},
    }}});
    place.post(ROOT, &format!("{deployments}?wait=ready&timeout=30s"), &web).await.expect(201);
    let tree = place.get(ROOT, &format!("{deployments}/web/tree")).await.expect(200);
    assert_eq!(
        (&tree["root"]["summary"], &tree["root"]["health"]["status"]),
        (&json!("2/2"), &json!("ready"))
    );
    let set = &tree["root"]["children"][0];
    assert_eq!(set["ref"]["kind"], "replicasets.apps");
    assert_eq!(set["children"].as_array().unwrap().len(), 2);
    assert_eq!(set["children"][0]["ref"]["kind"], "pods");
    assert_eq!(tree["denied"], json!([]));

    let events = place.get(ROOT, &format!("{deployments}/web/events")).await.expect(200);
    assert!(
        events["items"].as_array().unwrap().iter().any(|event| event["reason"] == "ScalingReplicaSet"),
        "{events}"
    );
    let more = place.get(ROOT, &format!("{deployments}/web/events?tree=true")).await.expect(200);
    assert!(more["items"].as_array().unwrap().len() > events["items"].as_array().unwrap().len());

    let pod = set["children"][0]["ref"]["name"].as_str().unwrap();
    // Pods without a kubelet have no logs except those set on the embedded cluster.
    if place.cluster().is_some() {
        let logs = place.get(ROOT, &format!("{deployments}/web/logs?pod={pod}")).await;
        assert_eq!((logs.status, logs.text().trim()), (200, "hello"));
        let all = place.get(ROOT, &format!("{deployments}/web/logs")).await.text();
        assert_eq!(all.matches("==> ").count(), 2);
    }
    let gone = place.delete(ROOT, &format!("{deployments}/web?dryRun=true")).await.expect(200);
    assert_eq!(gone["follow"].as_array().unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_can_wait_until_it_is_ready() {
    let place = Place::new().await;
    let late =
        place.post(EDITOR, &format!("{SHOPS}?wait=ready&timeout=0s"), &shop("late", 1)).await.expect(504);
    assert_eq!((&late["reason"], &late["health"]["status"]), (&json!("Timeout"), &json!("unknown")));
    let path = format!("{SHOPS}?wait=ready");
    let corner = shop("corner", 1);
    let created = place.post(EDITOR, &path, &corner);
    let reported = async {
        while place.get(EDITOR, &format!("{SHOPS}/corner")).await.status != 200 {
            tokio::task::yield_now().await;
        }
        place.report("corner", &json!({"conditions": [{"type": "Ready", "status": "True"}]})).await;
    };
    let (created, ()) = tokio::join!(created, reported);
    assert_eq!(created.expect(201)["status"]["conditions"][0]["status"], "True");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_overview_counts_what_a_caller_may_see() {
    let place = Place::new().await;
    place.post(EDITOR, SHOPS, &shop("corner", 1)).await.expect(201);
    place
        .report(
            "corner",
            &json!({"conditions": [{"type": "Failed", "status": "True", "message": "no image"}]}),
        )
        .await;
    let overview = place.get(ROOT, "/v1/overview").await.expect(200);
    assert_eq!(overview["kinds"][0]["total"], 1);
    assert_eq!(overview["kinds"][0]["health"]["failing"], 1);
    assert_eq!(overview["failing"][0]["health"]["message"], "no image");
    assert_eq!(overview["changes"][0]["user"], "editor");
    let overview = place.get(VIEWER, "/v1/overview").await.expect(200);
    assert_eq!(overview["kinds"][0]["total"], Value::Null, "the viewer may list in one namespace alone");
    assert!(overview["kinds"][0]["denied"].as_str().unwrap().contains("cannot list"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_describes_itself() {
    let place = Place::new().await;
    let document = place.get(VIEWER, "/openapi.json").await.expect(200);
    assert_eq!(document["openapi"], "3.1.0");
    let shop = &document["components"]["schemas"]["example.com.v1.Shop"];
    assert_eq!(shop["properties"]["spec"]["properties"]["replicas"]["maximum"], 10);
    let paths = document["paths"].as_object().unwrap();
    let one = "/v1/kinds/shops.example.com/namespaces/{namespace}/instances/{name}";
    assert!(paths[one].get("patch").is_some());
    let upgrade = &paths[&format!("{one}/actions/upgrade")]["post"];
    let value = &upgrade["requestBody"]["content"]["application/json"]["schema"]["properties"]["value"];
    assert_eq!(value["enum"], json!(["1", "2"]));
}

/// The portal's client is generated from the description of a server without custom kinds.
#[tokio::test(flavor = "multi_thread")]
async fn the_portal_has_the_description_that_the_api_gives() {
    let place = Place::bare(|builder| builder.cluster_name("a cluster")).await;
    let description = place.get(ROOT, "/openapi.json").await.expect(200);
    let description = format!("{description:#}\n");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../portal/openapi.json");
    if std::env::var_os("STEERSMAN_RECORD").is_some() {
        std::fs::write(path, &description).unwrap();
    }
    let known = std::fs::read_to_string(path).unwrap_or_default();
    assert!(known == description, "{path} is not what /openapi.json says; make portal-client writes it");
}
