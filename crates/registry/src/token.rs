//! Buying an access token with an identity token, which oci-client does not do: it only knows names and passwords.

use serde::Deserialize;
use url::form_urlencoded;

use crate::{Access, Error, Limits, http};

/// The most that a token answer may have.
const MAX_ANSWER: u64 = 1 << 20;

#[derive(Deserialize)]
struct Answer {
    access_token: Option<String>,
    token: Option<String>,
}

/// An access token for pulling `repository`, from whatever service the registry at `host` points to.
pub(crate) async fn exchange(
    host: &str,
    repository: &str,
    identity: &str,
    access: &Access,
    limits: &Limits,
) -> Result<String, Error> {
    let refused = |reason: String| Error::Unauthorized {
        reference: format!("oci://{host}/{repository}"),
        registry: host.to_owned(),
        reason,
    };
    let scheme = if access.plain_http { "http" } else { "https" };
    let client = http::client(access, limits)?;

    let front = format!("{scheme}://{host}/v2/");
    let answer = client.get(&front).send().await.map_err(|error| http::transport(&front, &error))?;
    let challenge = answer
        .headers()
        .get(reqwest::header::WWW_AUTHENTICATE)
        .and_then(|header| header.to_str().ok())
        .and_then(|header| http_auth::parse_challenges(header).ok()?.into_iter().next())
        .filter(|challenge| challenge.scheme.eq_ignore_ascii_case("bearer"))
        .ok_or_else(|| refused("the registry does not take identity tokens".into()))?;
    let parameter = |name: &str| {
        challenge
            .params
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.to_unescaped())
    };
    let realm = parameter("realm").ok_or_else(|| refused("the registry names no token service".into()))?;

    let form = form_urlencoded::Serializer::new(String::new())
        .append_pair("grant_type", "refresh_token")
        .append_pair("client_id", "steersman")
        .append_pair("service", &parameter("service").unwrap_or_default())
        .append_pair("scope", &format!("repository:{repository}:pull"))
        .append_pair("refresh_token", identity)
        .finish();
    let request = client
        .post(&realm)
        .header(reqwest::header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(form);
    let response = request.send().await.map_err(|error| http::transport(&realm, &error))?;
    let status = response.status();
    if !status.is_success() {
        return Err(refused(format!("{realm} answered {status}")));
    }
    let body = http::read_body(response, &realm, MAX_ANSWER).await?;
    let answer: Answer =
        serde_json::from_slice(&body).map_err(|error| refused(format!("{realm} gave no token: {error}")))?;
    answer.access_token.or(answer.token).ok_or_else(|| refused(format!("{realm} gave no token")))
}
