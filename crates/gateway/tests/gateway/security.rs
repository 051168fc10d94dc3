//! Authorization, and the requests that are rejected.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::support::{Answer, EDITOR, Place, ROOT, SHOPS, STRANGER, VIEWER, shop};

fn cookie(answer: &Answer) -> String {
    answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_answered_without_credentials() {
    let place = Place::new().await;
    let one = format!("{SHOPS}/a");
    let addresses = [
        ("GET", "/v1/me".to_owned()),
        ("GET", "/v1/kinds".into()),
        ("GET", "/v1/kinds/shops.example.com".into()),
        ("GET", "/v1/kinds/shops.example.com/access".into()),
        ("GET", "/v1/overview".into()),
        ("GET", "/v1/audit".into()),
        ("GET", "/v1/operator".into()),
        ("GET", "/openapi.json".into()),
        ("DELETE", "/v1/session".into()),
        ("GET", SHOPS.into()),
        ("POST", SHOPS.into()),
        ("GET", one.clone()),
        ("PUT", one.clone()),
        ("PATCH", one.clone()),
        ("DELETE", one.clone()),
        ("GET", format!("{one}/tree")),
        ("GET", format!("{one}/logs")),
        ("GET", format!("{one}/history")),
        ("POST", format!("{one}/actions/scale")),
    ];
    for (method, path) in &addresses {
        for headers in [
            &[][..],
            &[("authorization", "Bearer nonsense")],
            &[("authorization", "Bearer ")],
            &[("authorization", "Basic cm9vdDpyb290")],
            &[("cookie", "steer_session=forged")],
            &[("cookie", "__Host-steer_session=")],
            &[("x-remote-user", "root"), ("impersonate-user", "root")],
        ] {
            let answer = place.raw(method, path, headers, b"").await;
            assert_eq!(answer.expect(401)["reason"], "Unauthorized", "{method} {path} {headers:?}");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
    }
    assert_eq!(place.raw("GET", "/healthz", &[], b"").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_decides_what_a_caller_may_do() {
    let place = Place::new().await;
    // verb, and whether the editor, the viewer and the stranger may: RBAC for shops in the namespace default.
    for (token, reads, writes) in
        [(ROOT, true, true), (EDITOR, true, true), (VIEWER, true, false), (STRANGER, false, false)]
    {
        let name = format!("of-{}", token.trim_end_matches("-token"));
        place.post(ROOT, SHOPS, &shop(&name, 1)).await.expect(201);
        let one = format!("{SHOPS}/{name}");
        let (read, write) = (if reads { 200 } else { 403 }, if writes { 200 } else { 403 });
        assert_eq!(place.get(token, &one).await.status, read, "{token} get");
        assert_eq!(place.get(token, SHOPS).await.status, read, "{token} list");
        for part in ["status", "history", "actions", "tree"] {
            assert_eq!(place.get(token, &format!("{one}/{part}")).await.status, read, "{token} {part}");
        }
        assert_eq!(
            place.post(token, SHOPS, &shop(&format!("{name}-new"), 1)).await.status,
            if writes { 201 } else { 403 }
        );
        assert_eq!(
            place.patch(token, &one, &json!({"spec": {"replicas": 2}})).await.status,
            write,
            "{token} patch"
        );
        assert_eq!(
            place.patch(token, &format!("{one}?dryRun=true"), &json!({"spec": {"replicas": 3}})).await.status,
            write
        );
        assert_eq!(place.put(token, &one, &shop(&name, 3)).await.status, write, "{token} update");
        assert_eq!(
            place.post(token, &format!("{one}/actions/scale"), &json!({"value": 1})).await.status,
            write,
            "{token} scale"
        );
        assert_eq!(place.delete(token, &one).await.status, write, "{token} delete");

        // The access reviews agree with the outcome.
        let access =
            place.get(token, "/v1/kinds/shops.example.com/access?namespace=default").await.expect(200);
        for verb in ["get", "list", "watch", "history"] {
            assert_eq!(access[verb]["allowed"], reads, "{token} {verb}");
        }
        for verb in ["create", "update", "patch", "delete"] {
            assert_eq!(access[verb]["allowed"], writes, "{token} {verb}");
        }
        assert_eq!(access["actions"]["scale"]["allowed"], writes);
    }
    // In other namespaces and for other kinds, the editor has no permissions either.
    for path in [
        "/v1/kinds/shops.example.com/instances",
        "/v1/kinds/shops.example.com/namespaces/kube-system/instances",
        "/v1/kinds/secrets/namespaces/default/instances",
        "/v1/kinds/pods/namespaces/default/instances",
        "/v1/kinds/nodes/instances",
        "/v1/kinds/clusterroles.rbac.authorization.k8s.io/instances",
    ] {
        assert_eq!(place.get(EDITOR, path).await.expect(403)["reason"], "Forbidden", "{path}");
    }
    let headers = [
        ("authorization", "Bearer viewer-token"),
        ("impersonate-user", "root"),
        ("impersonate-group", "system:masters"),
    ];
    assert_eq!(place.raw("GET", "/v1/kinds/nodes/instances", &headers, b"").await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_signs_in_once() {
    let place = Place::new().await;
    let path = place.gateway.sign_in_path().unwrap();
    let answer = place.raw("GET", &path, &[], b"").await;
    assert_eq!((answer.status, answer.header("location")), (303, Some("/")));
    let set = answer.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Lax", "Path=/"] {
        assert!(set.contains(part), "{set}");
    }
    assert_eq!(place.raw("GET", &path, &[], b"").await.status, 401, "the link is used up");
    assert_eq!(place.raw("GET", "/?once=guess", &[], b"").await.status, 401);

    let session = cookie(&answer);
    let me = place.raw("GET", "/v1/me", &[("cookie", &session)], b"").await.expect(200);
    assert_eq!(me["via"], "session");
    assert!(me["csrfToken"].as_str().unwrap().len() > 40);
    let elsewhere = place.gateway.sign_in_path().unwrap() + "&next=//evil.example";
    assert_eq!(place.raw("GET", &elsewhere, &[], b"").await.header("location"), Some("/"));
    let inside = place.gateway.sign_in_path().unwrap() + "&next=/kinds/shops.example.com";
    assert_eq!(
        place.raw("GET", &inside, &[], b"").await.header("location"),
        Some("/kinds/shops.example.com")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_changes_nothing_without_its_token() {
    let place = Place::new().await;
    let sign_in = async |token: &str| {
        let body = json!({"token": token}).to_string();
        place.raw("POST", "/v1/session", &[("content-type", "application/json")], body.as_bytes()).await
    };
    assert_eq!(sign_in("nonsense").await.status, 401);
    let body = json!({"token": EDITOR}).to_string();
    let form = place.raw("POST", "/v1/session", &[("content-type", "text/plain")], body.as_bytes()).await;
    assert_eq!(form.status, 415, "a form of another site sends text");
    let answer = sign_in(EDITOR).await;
    let me = answer.expect(201);
    assert_eq!(me["username"], "editor");
    let (session, csrf) = (cookie(&answer), me["csrfToken"].as_str().unwrap().to_owned());

    let new = shop("corner", 1).to_string();
    let post = async |headers: &[(&str, &str)]| {
        let headers =
            [&[("content-type", "application/json"), ("cookie", session.as_str())], headers].concat();
        place.raw("POST", SHOPS, &headers, new.as_bytes()).await
    };
    assert_eq!(post(&[]).await.expect(403)["reason"], "CSRF");
    assert_eq!(post(&[("x-csrf-token", "guess")]).await.expect(403)["reason"], "CSRF");
    let own = format!("http://{}", place.address);
    let evil = post(&[("x-csrf-token", &csrf), ("origin", "http://evil.example")]).await;
    assert_eq!(evil.expect(403)["reason"], "CrossOrigin");
    assert_eq!(post(&[("x-csrf-token", &csrf), ("origin", "null")]).await.status, 403);
    let other = sign_in(VIEWER).await.json()["csrfToken"].as_str().unwrap().to_owned();
    assert_eq!(post(&[("x-csrf-token", &other)]).await.status, 403, "another session's token is none");
    post(&[("x-csrf-token", &csrf), ("origin", &own)]).await.expect(201);
    assert_eq!(place.raw("GET", SHOPS, &[("cookie", &session)], b"").await.status, 200);

    let headers = [("cookie", session.as_str()), ("x-csrf-token", csrf.as_str())];
    assert_eq!(place.raw("DELETE", "/v1/session", &headers, b"").await.status, 204);
    assert_eq!(place.raw("GET", "/v1/me", &[("cookie", &session)], b"").await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_origins_call_only_if_named() {
    let place = Place::with(|builder| builder.allow_origin("https://portal.example.com")).await;
    let get = async |origin: &str| {
        place
            .raw("GET", "/v1/kinds", &[("authorization", "Bearer viewer-token"), ("origin", origin)], b"")
            .await
    };
    let allowed = get("https://portal.example.com").await;
    assert_eq!(allowed.status, 200);
    assert_eq!(allowed.header("access-control-allow-origin"), Some("https://portal.example.com"));
    assert_eq!(allowed.header("access-control-allow-credentials"), Some("true"));
    let refused = get("https://portal.example.com.evil.example").await;
    assert_eq!(refused.status, 403);
    assert_eq!(refused.header("access-control-allow-origin"), None);
    assert_eq!(refused.header("access-control-allow-credentials"), None);
    let preflight = place.raw("OPTIONS", SHOPS, &[("origin", "https://portal.example.com")], b"").await;
    assert_eq!(preflight.status, 204);
    assert!(preflight.header("access-control-allow-methods").unwrap().contains("POST"));
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_lead_nowhere_else() {
    let place = Place::new().await;
    for path in [
        "/v1/kinds/shops.example.com/namespaces/default/instances/..%2f..%2f..%2fsecrets",
        "/v1/kinds/shops.example.com/namespaces/..%2fkube-system/instances",
        "/v1/kinds/shops.example.com/namespaces/default/instances/a%3fdryRun=All",
        "/v1/kinds/shops.example.com/namespaces/default/instances/%2e%2e",
        "/v1/kinds/shops.example.com/namespaces/default/instances/a/../b",
        "/v1/kinds/shops.example.com/namespaces//instances/a",
        "/v1/kinds/..%2f..%2fapi/instances",
        "/v1/kinds/shops.example.com%2fstatus/instances",
        "/v1/../api/v1/secrets",
        "/v1/",
        "/v1/nothing",
        "/v1/kinds/nodes/namespaces/default/instances",
        "/v1/kinds/shops.example.com/instances/corner",
        "/assets/../../Cargo.toml",
    ] {
        assert_eq!(place.get(ROOT, path).await.status, 404, "{path}");
    }
    let answer = place.raw("TRACE", "/v1/kinds", &[("authorization", "Bearer root-token")], b"").await;
    assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")));
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_have_a_limit() {
    let place = Place::new().await;
    let headers = [("authorization", "Bearer editor-token"), ("content-type", "application/json")];
    let large = vec![b' '; (3 << 20) + 1];
    assert_eq!(place.raw("POST", SHOPS, &headers, &large).await.expect(413)["reason"], "PayloadTooLarge");
    let chunked = [&headers[..], &[("transfer-encoding", "chunked")]].concat();
    let mut body = format!("{:x}\r\n", large.len()).into_bytes();
    body.extend(&large);
    body.extend(b"\r\n0\r\n\r\n");
    // Without a Content-Length, it is counted as it arrives.
    let answer = place.chunked("POST", SHOPS, &chunked, &body).await;
    assert_eq!(answer.status, 413);
    assert_eq!(place.raw("POST", SHOPS, &headers, b"{\"spec\":").await.expect(400)["reason"], "BadRequest");
    assert_eq!(place.raw("POST", SHOPS, &headers, b"[]").await.status, 400);
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    assert_eq!(place.raw("POST", SHOPS, &headers, &deep).await.status, 400);
    let strange = [headers[0], ("content-type", "text/html")];
    assert_eq!(place.raw("POST", SHOPS, &strange, b"{}").await.status, 415);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_asks_too_often_is_told_to_wait() {
    let place = Place::new().await;
    let mut refused = None;
    for _ in 0..1000 {
        let answer = place.raw("GET", "/v1/me", &[("authorization", "Bearer guess")], b"").await;
        if answer.status == 429 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("never refused");
    assert_eq!(
        (refused.json()["reason"].as_str(), refused.header("retry-after")),
        (Some("TooManyRequests"), Some("1"))
    );
    assert_eq!(place.get(VIEWER, "/v1/me").await.status, 200, "others are not held up");
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_shown_only_if_asked_for() {
    let place = Place::new().await;
    let secrets = "/v1/kinds/secrets/namespaces/default/instances";
    let applied =
        json!({"kubectl.kubernetes.io/last-applied-configuration": "{\"data\":{\"key\":\"aHVudGVyMg==\"}}"});
    let secret = json!({"metadata": {"name": "s", "annotations": applied}, "data": {"key": "aHVudGVyMg=="}});
    let made = place.post(ROOT, secrets, &secret).await;
    assert_eq!(made.expect(201)["data"]["key"], "••••••");
    let shop = json!({"metadata": {"name": "corner"}, "spec": {"password": "hunter2"}});
    let made = [made.text(), place.post(EDITOR, SHOPS, &shop).await.text()];
    let one = format!("{SHOPS}/corner");
    let mut shown = vec![
        place.get(ROOT, &format!("{secrets}/s")).await.text(),
        place.get(ROOT, secrets).await.text(),
        place.get(EDITOR, &one).await.text(),
        place.get(EDITOR, SHOPS).await.text(),
        place
            .patch(EDITOR, &format!("{one}?dryRun=true"), &json!({"spec": {"password": "hunter2!"}}))
            .await
            .text(),
        place.get(EDITOR, &format!("{one}/history")).await.text(),
        place.get(EDITOR, &format!("{one}/history/1")).await.text(),
        place.get(ROOT, "/v1/audit").await.text(),
    ];
    shown.extend(made);
    for text in &shown {
        assert!(!text.contains("hunter2") && !text.contains("aHVudGVyMg"), "{text}");
    }
    let plain = place.get(ROOT, &format!("{secrets}/s?reveal=true")).await.expect(200);
    assert_eq!(plain["data"]["key"], "aHVudGVyMg==");
    let audit = place.get(ROOT, "/v1/audit?kind=secrets").await.expect(200);
    assert_eq!(audit["items"][0]["action"], "reveal");
    assert_eq!(place.get(EDITOR, &format!("{secrets}/s?reveal=true")).await.status, 403);
    // A redacted object must not overwrite the real one.
    let shown = place.get(EDITOR, &one).await.json();
    let refused = place.put(EDITOR, &one, &shown).await.expect(422);
    assert_eq!(refused["causes"][0]["field"], "spec.password");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_done_is_recorded_without_tokens() {
    let file = std::env::temp_dir().join(format!("steer-gateway-audit-{}.jsonl", std::process::id()));
    let place = Place::with(|builder| builder.audit_log(&file)).await;
    let signed_in = json!({"token": EDITOR}).to_string();
    place
        .raw("POST", "/v1/session", &[("content-type", "application/json")], signed_in.as_bytes())
        .await
        .expect(201);
    place.post(EDITOR, SHOPS, &shop("corner", 1)).await.expect(201);
    place.post(EDITOR, &format!("{SHOPS}/corner/actions/scale"), &json!({"value": 3})).await.expect(200);
    place.delete(VIEWER, &format!("{SHOPS}/corner")).await.expect(403);

    let log = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> = lines
        .iter()
        .filter(|line| line["user"] != "root")
        .map(|line| {
            (
                line["user"].as_str().unwrap(),
                line["action"].as_str().unwrap(),
                line["status"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("editor", "login", 201),
            ("editor", "create", 201),
            ("editor", "scale", 200),
            ("viewer", "delete", 403)
        ]
    );
    let scaled = lines.iter().find(|line| line["action"] == "scale").unwrap();
    assert_eq!(
        scaled["changes"],
        json!([{"path": "spec.replicas", "op": "replace", "before": 1, "after": 3}])
    );
    assert_eq!(scaled["remote"], "127.0.0.1");
    for token in [ROOT, EDITOR, VIEWER] {
        assert!(!log.contains(token), "{token} is in the log");
    }

    let audit = async |token: &str, query: &str| {
        place.get(token, &format!("/v1/audit?{query}")).await.expect(200)["items"].as_array().unwrap().clone()
    };
    let seen = audit(VIEWER, "kind=shops.example.com&name=corner").await;
    assert_eq!(seen.len(), 3);
    assert_eq!(seen[0]["action"], "delete", "newest first");
    assert_eq!(audit(VIEWER, &format!("before={}&limit=1", seen[0]["id"])).await[0]["action"], "scale");
    assert!(
        audit(STRANGER, "").await.is_empty(),
        "who may not get an object does not see what was done to it"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn with_tls_cookies_are_for_this_host_alone() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let place = Place::with(|builder| builder.tls(certificate.as_bytes(), key.as_bytes()).unwrap()).await;
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let get = async |path: &str, cookie: &str| {
        let stream = TcpStream::connect(place.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = connector.connect(name, stream).await.unwrap();
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: localhost\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        // The connection may end without TLS' close_notify.
        let _ = stream.read_to_string(&mut answer).await;
        answer
    };
    let answer = get(&place.gateway.sign_in_path().unwrap(), "").await;
    assert!(answer.starts_with("HTTP/1.1 303"), "{answer}");
    let cookie = answer.lines().find(|line| line.starts_with("set-cookie: ")).unwrap();
    assert!(cookie.starts_with("set-cookie: __Host-steer_session="), "{cookie}");
    assert!(cookie.contains("; Secure") && cookie.contains("; HttpOnly"), "{cookie}");
    let pair = cookie["set-cookie: ".len()..].split(';').next().unwrap();
    assert!(get("/v1/me", pair).await.starts_with("HTTP/1.1 200"));
    // Sibling domains can set a cookie with the unprefixed name, so it is ignored.
    assert!(get("/v1/me", &pair.replace("__Host-", "")).await.starts_with("HTTP/1.1 401"));
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_come_with_a_policy() {
    let place = Place::new().await;
    let page = place.raw("GET", "/", &[("accept", "text/html")], b"").await;
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.contains("default-src 'self'; script-src 'self';")
            && policy.contains("frame-ancestors 'none'"),
        "{policy}"
    );
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert!(!page.text().contains("__CSP_NONCE__"));
    let deep = place.raw("GET", "/kinds/shops.example.com", &[("accept", "text/html")], b"").await;
    assert_eq!(deep.status, 200);
    assert_eq!(place.raw("GET", "/missing.js", &[("accept", "*/*")], b"").await.status, 404);
    assert_eq!(place.raw("POST", "/", &[], b"").await.status, 405);
    let api = place.get(VIEWER, "/v1/me").await;
    assert_eq!(api.header("cache-control"), Some("no-store"));
    assert!(api.header("x-request-id").is_some());
}

/// Collects the log at every level.
#[derive(Clone, Default)]
struct Logged(Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Single-threaded, so that everything is logged to the test's subscriber.
#[tokio::test]
async fn tokens_are_in_no_log() {
    let logged = Logged::default();
    let writer = logged.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    // With a single dispatcher, a callsite that another test registers first would be disabled for this thread
    // too.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let _guard = tracing::subscriber::set_default(subscriber);
    let place = Place::new().await;
    place.post(EDITOR, SHOPS, &shop("a", 1)).await.expect(201);
    place.post("not-a-token-of-anyone", SHOPS, &shop("a", 1)).await.expect(401);
    let body = json!({"token": VIEWER}).to_string();
    let answer =
        place.raw("POST", "/v1/session", &[("content-type", "application/json")], body.as_bytes()).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let session = cookie(&answer);
    place.raw("GET", SHOPS, &[("cookie", session.as_str())], b"").await.expect(200);
    let text = String::from_utf8_lossy(&logged.0.lock().unwrap()).into_owned();
    assert!(text.contains("DEBUG"), "everything is logged: {text}");
    let id = session.split_once('=').unwrap().1;
    for secret in [EDITOR, VIEWER, "not-a-token-of-anyone", id] {
        let found = text.lines().find(|line| line.contains(secret));
        assert_eq!(found, None, "{secret} is in the log");
    }
}
