//! Proxies requests to the servers behind APIServices.

use bytes::{Buf as _, Bytes};
use http::{
    HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri, Version, header, request::Parts,
};
use http_body_util::{BodyExt as _, Empty, Limited};
use steersman_api::{
    http::{Body, text_response},
    user::User,
};

use super::{ProxyBody, Remote};
use crate::{cluster_service, core::Core};

const USER: HeaderName = HeaderName::from_static("x-remote-user");
const UID: HeaderName = HeaderName::from_static("x-remote-uid");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const EXTRA: &str = "x-remote-extra-";
/// Maximum size of a fetched document.
const MAX_DOCUMENT: usize = 64 << 20;

/// Proxies a user's request.
pub(crate) async fn proxy<B>(
    core: &Core,
    remote: &Remote,
    user: &User,
    mut request: Parts,
    body: B,
) -> Response<Body>
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if !remote.available {
        return unavailable("service unavailable");
    }
    let is_upgrade = is_upgrade(&request.headers);
    strip_hop_headers(&mut request.headers, is_upgrade);
    name_user(&mut request.headers, user);
    request.uri = match request.uri.path_and_query() {
        Some(path) => Uri::from(path.clone()),
        None => Uri::from_static("/"),
    };
    request.version = Version::HTTP_11;
    let body = body.map_frame(|frame| frame.map_data(|mut data| data.copy_to_bytes(data.remaining())));
    let request = Request::from_parts(request, body.map_err(Into::into).boxed_unsync());
    match send(core, remote, request).await {
        Ok(mut response) => {
            let switches = response.status() == StatusCode::SWITCHING_PROTOCOLS;
            strip_hop_headers(response.headers_mut(), switches);
            response
        }
        Err(why) => unavailable(&format!("error trying to reach service: {why}")),
    }
}

/// Returns the "service unavailable" response of the aggregator.
fn unavailable(why: &str) -> Response<Body> {
    let mut response = text_response(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"));
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

async fn send(
    core: &Core,
    remote: &Remote,
    mut request: Request<ProxyBody>,
) -> Result<Response<Body>, String> {
    let Some(client) = &core.aggregator.client else {
        return Err("no client for aggregated API servers configured".into());
    };
    let host = format!("{}.{}.svc", remote.service, remote.namespace);
    let host = HeaderValue::from_str(&host).map_err(|error| error.to_string())?;
    request.headers_mut().insert(header::HOST, host);
    let service = cluster_service::stored(&core.store, &remote.namespace, &remote.service);
    client.send(remote.target(&core.store, service.as_ref()), request).await
}

/// A document fetched from an extension server as the aggregator's own user.
pub(super) struct Fetched {
    pub(super) status: StatusCode,
    pub(super) media_type: String,
    pub(super) body: Bytes,
}

/// Fetches a document, whether or not the server is known to be available.
pub(super) async fn fetch(core: &Core, remote: &Remote, path: &str, accept: &str) -> Result<Fetched, String> {
    let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
    let mut request =
        Request::get(path).header(header::ACCEPT, accept).body(body).map_err(|error| error.to_string())?;
    name_user(request.headers_mut(), &User::named("system:kube-aggregator", ["system:masters"]));
    let response = send(core, remote, request).await?;
    let (head, body) = response.into_parts();
    let body = Limited::new(body, MAX_DOCUMENT).collect().await.map_err(|error| error.to_string())?;
    let media_type = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    Ok(Fetched {
        status: head.status,
        media_type: media_type.unwrap_or_default().to_owned(),
        body: body.to_bytes(),
    })
}

/// Replaces all headers by which a client could claim an identity.
fn name_user(headers: &mut HeaderMap, user: &User) {
    let claims: Vec<HeaderName> = headers
        .keys()
        .filter(|name| {
            let name = name.as_str();
            name == "authorization" || name.starts_with("x-remote-") || name.starts_with("impersonate-")
        })
        .cloned()
        .collect();
    for name in claims {
        headers.remove(name);
    }
    let mut say = |name: HeaderName, value: &str| {
        // Values not allowed in a header are omitted.
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            headers.append(name, value);
        }
    };
    say(USER, &user.name);
    if !user.uid.is_empty() {
        say(UID, &user.uid);
    }
    for group in &user.groups {
        say(GROUP, group);
    }
    for (key, values) in &user.extra {
        if let Ok(name) = HeaderName::try_from(format!("{EXTRA}{}", escape(key))) {
            values.iter().for_each(|value| say(name.clone(), value));
        }
    }
}

/// Escapes a key for use in a header name: other characters are percent-encoded.
fn escape(key: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
    key.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Whether a request upgrades the connection to another protocol.
fn is_upgrade(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|word| word.trim().eq_ignore_ascii_case("upgrade"))
}

/// Removes hop-by-hop headers, except those for a protocol upgrade.
fn strip_hop_headers(headers: &mut HeaderMap, switches: bool) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::try_from(name.trim()).ok())
        .collect();
    let upgrade = headers.get(header::UPGRADE).cloned().filter(|_| switches);
    for name in named.iter().chain(&[
        header::CONNECTION,
        header::PROXY_AUTHENTICATE,
        header::PROXY_AUTHORIZATION,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ]) {
        headers.remove(name);
    }
    headers.remove("keep-alive");
    headers.remove("proxy-connection");
    if let Some(upgrade) = upgrade {
        headers.insert(header::UPGRADE, upgrade);
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_of_clients_are_replaced() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer secret"),
            ("x-remote-user", "root"),
            ("x-remote-group", "system:masters"),
            ("x-remote-extra-scope", "all"),
            ("x-remote-uid", "7"),
            ("impersonate-user", "root"),
            ("accept", "application/json"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let mut user = User::named("jane", ["developers"]);
        user.extra.insert("example.com/a%b".into(), vec!["x".into(), "y".into()]);
        name_user(&mut headers, &user);
        let mut said: Vec<_> = headers.iter().map(|(k, v)| format!("{k}: {}", v.to_str().unwrap())).collect();
        said.sort();
        assert_eq!(
            said,
            [
                "accept: application/json",
                "x-remote-extra-example.com%2fa%25b: x",
                "x-remote-extra-example.com%2fa%25b: y",
                "x-remote-group: developers",
                "x-remote-group: system:authenticated",
                "x-remote-user: jane",
            ]
        );
    }

    #[test]
    fn headers_of_one_connection_stay_behind() {
        let mut headers = HeaderMap::new();
        for (name, value) in
            [("connection", "close, X-Private"), ("x-private", "1"), ("te", "trailers"), ("x-kept", "1")]
        {
            headers.append(name, HeaderValue::from_static(value));
        }
        strip_hop_headers(&mut headers, false);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-kept"]);
        headers.insert(header::UPGRADE, HeaderValue::from_static("SPDY/3.1"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        assert!(is_upgrade(&headers));
        strip_hop_headers(&mut headers, true);
        assert_eq!(headers[header::UPGRADE], "SPDY/3.1");
    }
}
