//! Sign-in through an OpenID provider that the test serves. The embedded cluster is given the ID tokens that it issues; a real
//! one is configured to trust the provider, and verifies them.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use p256::ecdsa::{Signature, SigningKey, signature::Signer as _};
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use steersman_cluster::User;
use steersman_gateway::OidcProvider;
use steersman_listener::{Listener, RequestBody};
use tokio::net::TcpListener;

use crate::support::{Answer, Backend, Place};

const CLIENT: &str = "portal";
const SECRET: &str = "a secret: of the client";

/// How the provider behaves.
struct Behaviour {
    /// Overrides for the claims of the ID tokens.
    claims: Value,
    lasts: i64,
    gives_refresh_tokens: bool,
    is_down: bool,
}

type AddToken = Box<dyn Fn(&str) + Send + Sync>;

struct State {
    address: SocketAddr,
    /// The CA certificate of its TLS certificate, in PEM.
    authority: String,
    /// Signs the ID tokens.
    key: SigningKey,
    behaviour: Mutex<Behaviour>,
    /// The authorization requests, by the code issued for each.
    asked: Mutex<HashMap<String, HashMap<String, String>>>,
    refreshed: Mutex<usize>,
    /// Makes a token known to a cluster that does not verify it.
    add_token: OnceLock<AddToken>,
}

#[derive(Clone)]
struct Provider(Arc<State>);

fn form(text: &str) -> HashMap<String, String> {
    form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

impl Provider {
    async fn start() -> Self {
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = socket.local_addr().unwrap();
        let behaviour =
            Behaviour { claims: json!({}), lasts: 3600, gives_refresh_tokens: true, is_down: false };
        let made = rcgen::generate_simple_self_signed([address.ip().to_string()]).unwrap();
        let provider = Self(Arc::new(State {
            address,
            authority: made.cert.pem(),
            // A P-256 key, random because it is derived from the certificate's.
            key: SigningKey::from_slice(&Sha256::digest(made.signing_key.serialize_der())).unwrap(),
            behaviour: Mutex::new(behaviour),
            asked: Mutex::default(),
            refreshed: Mutex::default(),
            add_token: OnceLock::new(),
        }));
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let tls = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let served = provider.clone();
        tokio::spawn(Listener::new(socket).tls(Arc::new(tls)).serve(move |_| {
            let provider = served.clone();
            move |request| provider.clone().answer(request)
        }));
        provider
    }

    fn issuer(&self) -> String {
        format!("https://{}", self.0.address)
    }

    /// Starts a gateway with sign-in through this provider, as Ada.
    async fn place(&self) -> Place {
        let client = OidcProvider::new(self.issuer(), CLIENT).unwrap().client_secret(SECRET).scope("email");
        let client = client.certificate_authority(self.0.authority.as_bytes()).unwrap();
        let place = Place::with(|builder| builder.oidc(client)).await;
        if let Backend::Embedded(cluster) = &place.backend {
            let server = cluster.server().clone();
            let add = move |token: &str| server.add_token(token, User::named("ada", []));
            assert!(self.0.add_token.set(Box::new(add)).is_ok());
        } else if !self.0.behaviour.lock().unwrap().is_down {
            self.introduce(&place).await;
        }
        place
    }

    /// Configures a real cluster to trust the provider, and waits until it does.
    async fn introduce(&self, place: &Place) {
        let kubeconfig = std::env::var("STEERSMAN_TEST_KUBECONFIG").unwrap();
        let config = json!({
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
            "jwt": [{
                "issuer": {
                    "url": self.issuer(), "audiences": [CLIENT], "certificateAuthority": self.0.authority,
                },
                "claimMappings": {"username": {"claim": "name", "prefix": ""}},
            }],
        });
        // Renamed into place, so that the server never reads a partial file.
        let file = Path::new(&kubeconfig).with_file_name("authentication.yaml");
        let new = file.with_extension("new");
        std::fs::write(&new, config.to_string()).unwrap();
        std::fs::rename(&new, &file).unwrap();
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": {"token": self.token(None), "audiences": null},
        });
        loop {
            let request = Request::post("/apis/authentication.k8s.io/v1/tokenreviews")
                .header("content-type", "application/json")
                .body(review.to_string().into_bytes())
                .unwrap();
            let answer: Value = place.client().request(request).await.unwrap();
            if answer["status"]["authenticated"] == true {
                assert_eq!(answer["status"]["user"]["username"], "ada");
                return;
            }
            // The server does not report when it has reloaded the file and fetched the provider's keys.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn behave(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.0.behaviour.lock().unwrap());
    }

    async fn answer(self, request: Request<RequestBody>) -> Response<Full<bytes::Bytes>> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let (status, document) = if self.0.behaviour.lock().unwrap().is_down {
            (503, json!({}))
        } else {
            match parts.uri.path() {
                "/.well-known/openid-configuration" => (200, self.description()),
                "/keys" => (200, self.keys()),
                "/token" => self.tokens(&parts.headers, &form(std::str::from_utf8(&body).unwrap())),
                _ => (404, json!({})),
            }
        };
        Response::builder().status(status).body(Full::from(document.to_string())).unwrap()
    }

    fn description(&self) -> Value {
        let issuer = self.issuer();
        json!({
            "issuer": issuer, "authorization_endpoint": format!("{issuer}/authorize?tenant=a"),
            "token_endpoint": format!("{issuer}/token"), "jwks_uri": format!("{issuer}/keys"),
            "scopes_supported": ["openid", "offline_access"], "response_types_supported": ["code"],
            "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["ES256"],
        })
    }

    /// The keys by which a cluster verifies ID tokens.
    fn keys(&self) -> Value {
        let point = self.0.key.verifying_key().to_sec1_point(false);
        let text = |coordinate: &[u8]| URL_SAFE_NO_PAD.encode(coordinate);
        json!({"keys": [{
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": "1",
            "x": text(point.x().unwrap()), "y": text(point.y().unwrap()),
        }]})
    }

    fn tokens(&self, headers: &http::HeaderMap, form: &HashMap<String, String>) -> (u16, Value) {
        // `portal:a secret: of the client`, each form-encoded.
        let basic = format!(
            "Basic {}",
            base64::engine::general_purpose::STANDARD.encode("portal:a+secret%3A+of+the+client")
        );
        assert_eq!(headers["authorization"], basic);
        match form["grant_type"].as_str() {
            "authorization_code" => {
                let Some(asked) = self.0.asked.lock().unwrap().remove(&form["code"]) else {
                    return (400, json!({"error": "invalid_grant"}));
                };
                let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(form["code_verifier"].as_bytes()));
                assert_eq!(asked["code_challenge"], challenge);
                assert_eq!(asked["redirect_uri"], form["redirect_uri"]);
                (200, self.issue(Some(&asked["nonce"])))
            }
            "refresh_token" => {
                let mut refreshed = self.0.refreshed.lock().unwrap();
                if form["refresh_token"] != format!("refresh {refreshed}") {
                    return (400, json!({"error": "invalid_grant", "error_description": "used already"}));
                }
                *refreshed += 1;
                drop(refreshed);
                (200, self.issue(None))
            }
            other => panic!("{other}"),
        }
    }

    /// Returns an ID token for Ada.
    fn token(&self, nonce: Option<&str>) -> String {
        let behaviour = self.0.behaviour.lock().unwrap();
        let mut claims = json!({
            "iss": self.issuer(), "sub": "1", "name": "ada", "aud": [CLIENT], "nonce": nonce,
            "exp": Timestamp::now().as_second() + behaviour.lasts, "jti": *self.0.refreshed.lock().unwrap(),
        });
        claims.as_object_mut().unwrap().extend(behaviour.claims.as_object().unwrap().clone());
        let encode = |part: Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let signed =
            format!("{}.{}", encode(json!({"alg": "ES256", "kid": "1", "typ": "JWT"})), encode(claims));
        let signature: Signature = self.0.key.sign(signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.to_bytes()))
    }

    /// Issues a token that the cluster accepts as Ada's.
    fn issue(&self, nonce: Option<&str>) -> Value {
        let token = self.token(nonce);
        if let Some(add) = self.0.add_token.get() {
            add(&token);
        }
        let refreshed = *self.0.refreshed.lock().unwrap();
        let gives_refresh_tokens = self.0.behaviour.lock().unwrap().gives_refresh_tokens;
        let refresh = gives_refresh_tokens.then(|| format!("refresh {refreshed}"));
        json!({"id_token": token, "access_token": "unused", "token_type": "Bearer", "refresh_token": refresh})
    }

    /// Signs in a browser that was redirected here; returns the gateway's path that it is redirected to.
    fn authorize(&self, location: &str) -> String {
        let asked = location.strip_prefix(&format!("{}/authorize?", self.issuer())).expect(location);
        let asked = form(asked);
        assert_eq!(asked["tenant"], "a", "what the address said already is kept");
        assert_eq!((asked["client_id"].as_str(), asked["response_type"].as_str()), (CLIENT, "code"));
        assert_eq!(
            (asked["scope"].as_str(), asked["code_challenge_method"].as_str()),
            ("openid email offline_access", "S256")
        );
        let path = asked["redirect_uri"].split_once("://").unwrap().1.split_once('/').unwrap().1;
        let code = format!("code {}", asked["state"]);
        let back = form_urlencoded::Serializer::new(String::new())
            .extend_pairs([("code", &code), ("state", &asked["state"])])
            .finish();
        let path = format!("/{path}?{back}");
        self.0.asked.lock().unwrap().insert(code, asked);
        path
    }
}

/// The cookies that an answer sets, as a browser sends them back.
fn cookies(answer: &Answer) -> String {
    let set = answer.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
    let pairs: Vec<&str> =
        set.filter_map(|(_, value)| value.split(';').next()).filter(|pair| !pair.ends_with('=')).collect();
    pairs.join("; ")
}

/// Takes a browser to the provider and back.
async fn sign_in(place: &Place, provider: &Provider) -> Answer {
    let sent = place.raw("GET", "/v1/session/oidc?next=/kinds/shops.example.com", &[], b"").await;
    assert_eq!(sent.status, 303, "{}", sent.text());
    let back = provider.authorize(sent.header("location").unwrap());
    place.raw("GET", &back, &[("cookie", &cookies(&sent))], b"").await
}

async fn me(place: &Place, session: &str) -> Answer {
    place.raw("GET", "/v1/me", &[("cookie", session)], b"").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_signs_in_by_the_provider_and_acts_as_the_cluster_knows_it() {
    let provider = Provider::start().await;
    let place = provider.place().await;
    let ways = place.raw("GET", "/v1/session", &[], b"").await.expect(200);
    assert_eq!(ways["oidc"], json!({"issuer": provider.issuer(), "url": "/v1/session/oidc"}));

    let signed_in = sign_in(&place, &provider).await;
    assert_eq!((signed_in.status, signed_in.header("location")), (303, Some("/kinds/shops.example.com")));
    let session = cookies(&signed_in);
    let me = me(&place, &session).await.expect(200);
    assert_eq!((&me["username"], &me["via"]), (&json!("ada"), &json!("session")));
    let list = "/v1/kinds/shops.example.com/instances";
    assert_eq!(
        place.raw("GET", list, &[("cookie", &session)], b"").await.status,
        403,
        "Ada has no rights yet"
    );
    let csrf = me["csrfToken"].as_str().unwrap();
    let out = place.raw("DELETE", "/v1/session", &[("cookie", &session), ("x-csrf-token", csrf)], b"").await;
    assert_eq!(out.status, 204);
    assert_eq!(self::me(&place, &session).await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_this_browser_did_not_ask_for_signs_no_one_in() {
    let provider = Provider::start().await;
    let place = provider.place().await;
    let begin = async || place.raw("GET", "/v1/session/oidc", &[], b"").await;
    let refused = |answer: &Answer, reason: &str| {
        assert_eq!(
            answer.header("location"),
            Some(format!("/?sign-in={reason}").as_str()),
            "{}",
            answer.text()
        );
        assert_eq!(cookies(answer), "", "no session");
    };
    // A link that completes the attacker's sign-in, opened by other browsers: one without a pending sign-in, one with its own.
    let (attacker, victim) = (begin().await, begin().await);
    let link = provider.authorize(attacker.header("location").unwrap());
    refused(&place.raw("GET", &link, &[], b"").await, "refused");
    let link = provider.authorize(begin().await.header("location").unwrap());
    refused(&place.raw("GET", &link, &[("cookie", &cookies(&victim))], b"").await, "refused");

    // A state is valid once, and only for the provider that the browser was sent to.
    let sent = begin().await;
    let back = provider.authorize(sent.header("location").unwrap());
    let cookie = cookies(&sent);
    let other = format!("{back}&iss=https://other.example");
    refused(&place.raw("GET", &other, &[("cookie", &cookie)], b"").await, "refused");
    assert_ne!(cookies(&place.raw("GET", &back, &[("cookie", &cookie)], b"").await), "");
    refused(&place.raw("GET", &back, &[("cookie", &cookie)], b"").await, "refused");
    let denied = "/v1/session/oidc/callback?error=access_denied&state=x";
    refused(&place.raw("GET", denied, &[], b"").await, "refused");

    // Tokens for another nonce, client, issuer, or time.
    for claims in [
        json!({"nonce": "another"}),
        json!({"nonce": null}),
        json!({"aud": "another"}),
        json!({"azp": "another"}),
        json!({"iss": "https://other.example"}),
        json!({"exp": 1}),
    ] {
        provider.behave(|behaviour| behaviour.claims = claims);
        refused(&sign_in(&place, &provider).await, "unavailable");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_renewed_until_the_provider_refuses() {
    let provider = Provider::start().await;
    let place = provider.place().await;
    provider.behave(|behaviour| behaviour.lasts = 30);
    let session = cookies(&sign_in(&place, &provider).await);
    me(&place, &session).await.expect(200);
    assert_eq!(*provider.0.refreshed.lock().unwrap(), 1, "a token that is about to end was renewed");
    provider.behave(|behaviour| behaviour.is_down = true);
    me(&place, &session).await.expect(200);
    provider.behave(|behaviour| (behaviour.is_down, behaviour.lasts) = (false, 3600));
    me(&place, &session).await.expect(200);
    me(&place, &session).await.expect(200);
    assert_eq!(*provider.0.refreshed.lock().unwrap(), 2, "once, for it lasts");

    // A token of another user, and a revoked refresh token.
    for end in [json!({"sub": "2"}), json!({})] {
        provider.behave(|behaviour| (behaviour.lasts, behaviour.claims) = (30, json!({})));
        let session = cookies(&sign_in(&place, &provider).await);
        if end.as_object().unwrap().is_empty() {
            *provider.0.refreshed.lock().unwrap() += 7;
        }
        provider.behave(|behaviour| behaviour.claims = end);
        assert_eq!(me(&place, &session).await.status, 401);
        provider.behave(|behaviour| behaviour.claims = json!({}));
        assert_eq!(me(&place, &session).await.status, 401, "the session has ended");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_refresh_token_the_session_ends_with_the_token() {
    let provider = Provider::start().await;
    let place = provider.place().await;
    provider.behave(|behaviour| (behaviour.gives_refresh_tokens, behaviour.lasts) = (false, 300));
    let session = cookies(&sign_in(&place, &provider).await);
    let me = me(&place, &session).await.expect(200);
    let expires: Timestamp = me["expiresAt"].as_str().unwrap().parse().unwrap();
    assert!(Timestamp::now().duration_until(expires).as_secs() <= 300, "{me}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_away_or_another_is_named() {
    let provider = Provider::start().await;
    provider.behave(|behaviour| behaviour.is_down = true);
    let place = provider.place().await;
    let away = place.raw("GET", "/v1/session/oidc", &[], b"").await.expect(502);
    assert_eq!(away["detail"], "the OpenID provider: it answered 503 Service Unavailable");

    let plain = Place::new().await;
    assert_eq!(plain.raw("GET", "/v1/session", &[], b"").await.expect(200), json!({"oidc": null}));
    plain.raw("GET", "/v1/session/oidc", &[], b"").await.expect(404);
    plain.raw("GET", "/v1/session/oidc/callback?code=a&state=b", &[], b"").await.expect(404);

    assert!(OidcProvider::new("http://issuer.example", CLIENT).is_err(), "tokens in the clear");
    assert!(
        !format!("{:?}", OidcProvider::new("https://issuer.example", CLIENT).unwrap().client_secret(SECRET))
            .contains(SECRET)
    );
}
