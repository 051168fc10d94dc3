//! Pushing images: uploads by the distribution API, credentials, and blobs that already exist.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use steersman_registry::image::{Image, ImageFile, ImageSpec};
use steersman_registry::{Access, Error, OciReference, push};

use crate::support::{Home, basic, serve, sha256};

/// A registry that accepts images, and records the requests.
#[derive(Clone, Default)]
struct Registry {
    blobs: Arc<Mutex<BTreeMap<String, Bytes>>>,
    manifests: Arc<Mutex<BTreeMap<String, (String, Bytes)>>>,
    asked: Arc<Mutex<Vec<String>>>,
    password: Option<String>,
}

impl Registry {
    fn router(&self) -> Router {
        let registry = self.clone();
        Router::new().fallback(move |request: Request| {
            let registry = registry.clone();
            async move { registry.answer(request).await }
        })
    }

    async fn answer(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        if let Some(password) = &self.password {
            let given = parts.headers.get("authorization").and_then(|value| value.to_str().ok());
            if given != Some(basic("jane", password).as_str()) {
                let challenge = [("www-authenticate", "Basic realm=\"registry\"")];
                return (StatusCode::UNAUTHORIZED, challenge).into_response();
            }
        }
        if path == "/v2/" {
            return StatusCode::OK.into_response();
        }
        self.asked.lock().unwrap().push(format!("{} {path}", parts.method));
        let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        match (parts.method, path.contains("/manifests/")) {
            (Method::HEAD, false) if self.blobs.lock().unwrap().contains_key(&name) => {
                StatusCode::OK.into_response()
            }
            (Method::HEAD, false) => StatusCode::NOT_FOUND.into_response(),
            (Method::POST, false) => {
                (StatusCode::ACCEPTED, [("location", "/uploads/1?state=a")]).into_response()
            }
            (Method::PUT, false) => {
                let query = parts.uri.query().unwrap_or_default();
                let digest = format!("sha256:{}", sha256(&body));
                assert_eq!(query, format!("state=a&digest={}", digest.replace(':', "%3A")));
                self.blobs.lock().unwrap().insert(digest, body);
                StatusCode::CREATED.into_response()
            }
            (Method::PUT, true) => {
                let kind = parts.headers["content-type"].to_str().unwrap().to_owned();
                self.manifests.lock().unwrap().insert(name, (kind, body));
                StatusCode::CREATED.into_response()
            }
            _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        }
    }
}

fn image(architectures: &[&str]) -> Image {
    let specs: Vec<ImageSpec> = architectures
        .iter()
        .map(|architecture| ImageSpec {
            architecture: (*architecture).into(),
            files: vec![ImageFile::executable("manager", architecture.as_bytes())],
            entrypoint: vec!["/manager".into()],
            ..ImageSpec::default()
        })
        .collect();
    Image::build("shop", &specs).unwrap()
}

#[tokio::test]
async fn an_image_for_several_architectures_is_pushed_once() {
    let home = Home::new();
    let registry = Registry { password: Some("secret".into()), ..Registry::default() };
    let address = serve(registry.router()).await;
    let image = image(&["amd64", "arm64"]);
    let reference = OciReference::parse(&format!("{address}/team/shop:v1")).unwrap();
    let access = |password: &str| Access {
        username: Some("jane".into()),
        password: Some(password.into()),
        plain_http: true,
        ..Access::default()
    };
    let refused = push(&image, &reference, &access("other"), &home.paths()).await;
    assert!(matches!(refused, Err(Error::Unauthorized { .. })), "{refused:?}");
    push(&image, &reference, &access("secret"), &home.paths()).await.unwrap();
    let (kind, index) = registry.manifests.lock().unwrap()["v1"].clone();
    assert_eq!(kind, "application/vnd.oci.image.index.v1+json");
    assert_eq!(format!("sha256:{}", sha256(&index)), image.digest());
    assert_eq!(registry.manifests.lock().unwrap().len(), 3, "two manifests by digest, and the index");
    assert_eq!(registry.blobs.lock().unwrap().len(), 4, "two layers and two configurations");

    registry.asked.lock().unwrap().clear();
    push(&image, &reference, &access("secret"), &home.paths()).await.unwrap();
    let asked = registry.asked.lock().unwrap().clone();
    assert!(asked.iter().all(|line| !line.starts_with("POST")), "{asked:?}");
}

/// The upload URL may be on another host, which must not receive the registry's credentials.
#[tokio::test]
async fn credentials_do_not_follow_an_upload_to_another_host() {
    let home = Home::new();
    let seen: Arc<Mutex<Vec<bool>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let storage = serve(Router::new().fallback(move |request: Request| {
        noted.lock().unwrap().push(request.headers().contains_key("authorization"));
        async { StatusCode::CREATED }
    }))
    .await;
    let registry = serve(Router::new().fallback(move |request: Request| async move {
        let is_open = request.headers().contains_key("authorization");
        match (request.method().clone(), request.uri().path()) {
            _ if !is_open => {
                (StatusCode::UNAUTHORIZED, [("www-authenticate", "Basic realm=\"r\"")]).into_response()
            }
            (_, "/v2/") => StatusCode::OK.into_response(),
            (Method::HEAD, _) => StatusCode::NOT_FOUND.into_response(),
            (Method::POST, _) => {
                (StatusCode::ACCEPTED, [("location", format!("http://{storage}/put"))]).into_response()
            }
            _ => StatusCode::CREATED.into_response(),
        }
    }))
    .await;
    let access = Access {
        username: Some("jane".into()),
        password: Some("secret".into()),
        plain_http: true,
        ..Access::default()
    };
    let reference = OciReference::parse(&format!("{registry}/shop:v1")).unwrap();
    push(&image(&["amd64"]), &reference, &access, &home.paths()).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [false, false]);
}
