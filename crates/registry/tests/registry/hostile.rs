//! Registries and repositories that send endless responses, or redirect credentials elsewhere.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::Request as HttpRequest;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use steersman_registry::{Access, Error, Limits, Request};

use crate::support::{Certificates, Home, Login, OciServer, Repository, basic, serve};

const DATA: &[u8] = b"a packed chart";

fn ada() -> Access {
    Access { username: Some("ada".into()), password: Some("secret".into()), ..Access::default() }
}

/// The received requests: path and `Authorization` header.
type Seen = Arc<Mutex<Vec<(String, Option<String>)>>>;

/// Serves a registry; `answer` returns the response for a path.
async fn registry(answer: impl Fn(&str) -> Response + Clone + Send + Sync + 'static) -> (String, Seen) {
    let seen = Seen::default();
    let router = router(answer, Arc::clone(&seen));
    (serve(router).await.to_string(), seen)
}

fn router(answer: impl Fn(&str) -> Response + Clone + Send + Sync + 'static, seen: Seen) -> Router {
    Router::new().fallback(move |request: HttpRequest| {
        let path = request.uri().path().to_owned();
        let authorization = request.headers().get(header::AUTHORIZATION);
        let authorization = authorization.map(|value| value.to_str().unwrap().to_owned());
        seen.lock().unwrap().push((path.clone(), authorization));
        std::future::ready(answer(&path))
    })
}

/// A body that never ends.
fn endless() -> Response {
    let chunks = futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b' '; 1 << 16]));
    Body::from_stream(chunks).into_response()
}

async fn fetch(reference: String, access: &Access) -> Result<Vec<u8>, Error> {
    let request = Request::new(reference);
    Home::new().fetcher().fetch(&request, access).await.map(|chart| chart.data)
}

#[tokio::test]
async fn manifests_and_tags_without_end_are_cut_off() {
    let (host, _) = registry(|path| if path == "/v2/" { "{}".into_response() } else { endless() }).await;
    let error = fetch(format!("oci://{host}/shop:1.2.3"), &Access::default()).await.unwrap_err();
    assert_eq!(error.to_string(), format!("oci://{host}/shop:1.2.3 is larger than {} bytes", 4 << 20));
    let error = fetch(format!("oci://{host}/shop"), &Access::default()).await.unwrap_err();
    assert_eq!(error.to_string(), format!("oci://{host}/shop is larger than {} bytes", 32 << 20));
}

#[tokio::test]
async fn pages_of_tags_are_bounded_together() {
    // Each page ends with a different tag, so that there always seems to be another page.
    let count = Arc::new(Mutex::new(0));
    let (host, seen) = registry(move |path| {
        if path == "/v2/" {
            return "{}".into_response();
        }
        let mut count = count.lock().unwrap();
        *count += 1;
        let mut tags: Vec<String> = (0..1000).map(|i| format!("{i}-{}", "x".repeat(5000))).collect();
        tags.push(format!("page-{count}"));
        serde_json::json!({"name": "shop", "tags": tags}).to_string().into_response()
    })
    .await;
    let error = fetch(format!("oci://{host}/shop"), &Access::default()).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    assert!(seen.lock().unwrap().len() < 20);
}

#[tokio::test]
async fn answers_of_token_services_and_errors_without_end_are_cut_off() {
    let host_cell = Arc::new(Mutex::new(String::new()));
    let shared = Arc::clone(&host_cell);
    let (host, _) = registry(move |path| match path {
        "/token" => endless(),
        _ => {
            let realm = format!("Bearer realm=\"http://{}/token\"", shared.lock().unwrap());
            (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, realm)], endless().into_body())
                .into_response()
        }
    })
    .await;
    host_cell.lock().unwrap().clone_from(&host);
    let error = fetch(format!("oci://{host}/shop:1.2.3"), &ada()).await.unwrap_err();
    assert_eq!(error.to_string(), format!("http://{host}/token is larger than {} bytes", 1 << 20));

    let (host, _) = registry(|path| match path {
        "/v2/" => "{}".into_response(),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, endless().into_body()).into_response(),
    })
    .await;
    let error = fetch(format!("oci://{host}/shop:1.2.3"), &Access::default()).await.unwrap_err();
    assert!(error.to_string().ends_with("the registry answered 500 Internal Server Error"), "{error}");
}

#[tokio::test]
async fn an_index_without_end_is_cut_off() {
    let url = format!("http://{}", crate::support::endless().await);
    let fetcher = Home::new().fetcher_limited(Limits { index: 100_000, ..Limits::default() });
    let request = Request::new("shop").repository(&url);
    let error = fetcher.fetch(&request, &Access::default()).await.unwrap_err();
    assert!(error.to_string().ends_with("is larger than 100000 bytes"), "{error}");
}

#[tokio::test]
async fn credentials_go_to_no_token_service_without_tls() {
    for realm in ["http://127.evil.example/token", "http://auth.example.com/token", "ftp://127.0.0.1/token"] {
        let challenge = format!("Bearer realm=\"{realm}\",service=\"test\"");
        let (host, _) = registry(move |_| {
            (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge.clone())]).into_response()
        })
        .await;
        let home = Home::new();
        let config = format!(r#"{{"auths": {{"{host}": {{"identitytoken": "long-lived"}}}}}}"#);
        home.write(&home.paths().registry_config, &config);
        for access in [ada(), Access::default()] {
            let request = Request::new(format!("oci://{host}/shop:1.2.3"));
            let error = home.fetcher().fetch(&request, &access).await.unwrap_err();
            assert!(matches!(error, Error::Unauthorized { .. }), "{error}");
            assert!(error.to_string().contains("refusing to send credentials"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_token_service_cannot_send_credentials_on() {
    let (elsewhere, stolen) = registry(|_| r#"{"token":"a-token"}"#.into_response()).await;
    let host_cell = Arc::new(Mutex::new(String::new()));
    let shared = Arc::clone(&host_cell);
    let (host, _) = registry(move |path| match path {
        "/token" => {
            let target = format!("http://{elsewhere}/token");
            (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, target)]).into_response()
        }
        _ => {
            let realm = format!("Bearer realm=\"http://{}/token\"", shared.lock().unwrap());
            (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, realm)]).into_response()
        }
    })
    .await;
    host_cell.lock().unwrap().clone_from(&host);
    let home = Home::new();
    let config = format!(r#"{{"auths": {{"{host}": {{"identitytoken": "long-lived"}}}}}}"#);
    home.write(&home.paths().registry_config, &config);
    for access in [ada(), Access::default()] {
        let request = Request::new(format!("oci://{host}/shop:1.2.3"));
        let error = home.fetcher().fetch(&request, &access).await.unwrap_err();
        assert!(matches!(error, Error::Unauthorized { .. }), "{error}");
    }
    assert!(stolen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn credentials_do_not_follow_a_redirect_to_another_host() {
    // Registries redirect to the storage of their blobs.
    let (storage, seen) = registry(|_| DATA.into_response()).await;
    let server = OciServer { login: Login::Basic("ada".into(), "secret".into()), ..OciServer::default() };
    server.push("shop", "1.2.3", DATA, None);
    let inner = server.router();
    let front = Router::new().fallback(move |request: HttpRequest| {
        let (inner, storage) = (inner.clone(), storage.clone());
        async move {
            if request.uri().path().contains("/blobs/") {
                let target = format!("http://{storage}/blob");
                return (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, target)]).into_response();
            }
            tower_service::Service::call(&mut inner.clone(), request).await.unwrap()
        }
    });
    let host = serve(front).await.to_string();
    assert_eq!(fetch(format!("oci://{host}/shop:1.2.3"), &ada()).await.unwrap(), DATA);
    assert_eq!(*seen.lock().unwrap(), [("/blob".to_owned(), None)]);

    let (elsewhere, seen) = registry(|_| DATA.into_response()).await;
    let repository = Repository { required: Some(basic("ada", "secret")), ..Repository::default() };
    repository.put_index("shop", "1.2.3", "shop-1.2.3.tgz", None);
    repository.redirect("/shop-1.2.3.tgz", format!("http://{elsewhere}/shop-1.2.3.tgz"));
    let request = Request::new("shop").repository(repository.start().await);
    assert_eq!(Home::new().fetcher().fetch(&request, &ada()).await.unwrap().data, DATA);
    assert_eq!(*seen.lock().unwrap(), [("/shop-1.2.3.tgz".to_owned(), None)]);
}

#[tokio::test]
async fn a_redirect_does_not_lead_out_of_tls() {
    let (plain, seen) = registry(|_| DATA.into_response()).await;
    let certificates = Certificates::new(false);
    let repository = Repository::default();
    repository.put_index("shop", "1.2.3", "shop-1.2.3.tgz", None);
    repository.redirect("/shop-1.2.3.tgz", format!("http://{plain}/shop-1.2.3.tgz"));
    let address = certificates.serve(repository.router()).await;
    let access = Access { ca_file: Some(certificates.path("ca.pem")), ..ada() };
    let request = Request::new("shop").repository(format!("https://{address}"));
    let error = Home::new().fetcher().fetch(&request, &access).await.unwrap_err();
    assert!(error.to_string().contains("redirect from https to http"), "{error}");
    assert!(seen.lock().unwrap().is_empty());
}
