//! Signing in and out: `/v1/session` and the paths below it, and one-time sign-in links.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Response, StatusCode, header, request::Parts};
use serde_json::{Value, json};
use steersman_listener::RequestBody;

use crate::{
    Shared,
    answer::{self, Body},
    audit,
    identity::{Caller, Cookie, SESSION},
    oidc::{Oidc, SIGN_IN},
    problem::{Problem, Result},
    request::{Query, RequestContext},
    server,
};

/// A request that is not authenticated yet.
pub(crate) struct Unauthenticated<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) parts: &'a Parts,
    pub(crate) query: &'a Query,
    pub(crate) remote: &'a str,
    pub(crate) id: &'a str,
}

impl Unauthenticated<'_> {
    /// Serves `GET /v1/session`: the ways to sign in besides a token.
    pub(crate) fn ways(&self) -> Result<Response<Body>> {
        self.query.allow(&[])?;
        let oidc = self.shared.identities.oidc.as_ref();
        let oidc = oidc.map(|oidc| json!({"issuer": oidc.issuer(), "url": "/v1/session/oidc"}));
        Ok(answer::json(StatusCode::OK, &json!({"oidc": oidc})))
    }

    /// Serves `POST /v1/session`: signs in with a token of the cluster.
    pub(crate) async fn by_token(&self, body: RequestBody) -> Result<Response<Body>> {
        self.count()?;
        // A cross-site form cannot send this content type without a CORS preflight.
        let kind = self.parts.headers.get(header::CONTENT_TYPE);
        if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json")) {
            let detail = "Content-Type must be application/json";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", detail));
        }
        let body = server::read(&self.parts.headers, body).await?;
        let wrong = || Problem::bad_request("the body must be {\"token\": \"…\"}");
        let request: Value = serde_json::from_slice(&body).map_err(|_| wrong())?;
        let token = request["token"].as_str().map(str::trim).ok_or_else(wrong)?;
        let (session, caller) = self.shared.identities.sign_in(token, &self.shared.upstream).await?;
        let ctx = self.signed_in(caller, StatusCode::CREATED);
        let mut response = server::me(&ctx, StatusCode::CREATED).await?;
        self.add_cookie(&mut response, Cookie::Session.set(&session, SESSION, self.shared.is_tls));
        Ok(response)
    }

    /// Serves `GET /?once=CODE`: a one-time sign-in link.
    pub(crate) async fn by_link(&self, code: &str) -> Result<Response<Body>> {
        self.count()?;
        let (session, caller) = self.shared.identities.redeem(code, &self.shared.upstream).await?;
        self.signed_in(caller, StatusCode::SEE_OTHER);
        let mut response = see_other(own_path(self.query));
        self.add_cookie(&mut response, Cookie::Session.set(&session, SESSION, self.shared.is_tls));
        Ok(response)
    }

    fn oidc(&self) -> Result<&Oidc> {
        let missing = || {
            Problem::not_found("no OpenID provider is configured; `steer serve --oidc-issuer-url` sets one")
        };
        self.shared.identities.oidc.as_ref().ok_or_else(missing)
    }

    /// Serves `GET /v1/session/oidc`: redirects a browser to the OpenID provider.
    pub(crate) async fn begin_oidc(&self) -> Result<Response<Body>> {
        self.query.allow(&["next"])?;
        let oidc = self.oidc()?;
        self.count()?;
        let host = self.parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let host = host.or_else(|| self.parts.uri.authority().map(http::uri::Authority::as_str));
        let scheme = if self.shared.is_tls { "https" } else { "http" };
        let origin = format!("{scheme}://{}", host.unwrap_or_default());
        let departure = oidc.begin(&origin, own_path(self.query)).await?;
        let mut response = see_other(&departure.location);
        self.add_cookie(&mut response, Cookie::SignIn.set(&departure.browser, SIGN_IN, self.shared.is_tls));
        Ok(response)
    }

    /// Serves `GET /v1/session/oidc/callback`, to which the provider redirects back. The portal shows any error.
    pub(crate) async fn finish_oidc(&self) -> Result<Response<Body>> {
        let oidc = self.oidc()?;
        self.count()?;
        let mut response = match self.granted(oidc).await {
            Ok((session, next)) => {
                let mut response = see_other(&next);
                self.add_cookie(&mut response, Cookie::Session.set(&session, SESSION, self.shared.is_tls));
                response
            }
            Err(problem) => {
                tracing::warn!(
                    problem = problem.detail,
                    remote = self.remote,
                    "OpenID Connect sign-in failed"
                );
                // A reason code instead of a message: otherwise a crafted link could make the page show any text.
                let reason = match problem.status {
                    StatusCode::UNAUTHORIZED => "refused",
                    _ => "unavailable",
                };
                see_other(&format!("/?sign-in={reason}"))
            }
        };
        self.add_cookie(&mut response, Cookie::SignIn.clear(self.shared.is_tls));
        Ok(response)
    }

    async fn granted(&self, oidc: &Oidc) -> Result<(String, String)> {
        let parameter = |name: &str| self.query.get(name).unwrap_or_default();
        // The issuer that answers has to be the one that was asked (mix-up attack).
        if self.query.get("iss").is_some_and(|issuer| issuer != oidc.issuer()) {
            return Err(Problem::unauthorized("the response is from another issuer"));
        }
        if let Some(error) = self.query.get("error") {
            return Err(Problem::unauthorized(&format!("the OpenID provider returned an error: {error}")));
        }
        let browser = Cookie::SignIn.of(&self.parts.headers, self.shared.is_tls).unwrap_or_default();
        let (grant, next) = oidc.finish(parameter("state"), parameter("code"), browser).await?;
        let identities = &self.shared.identities;
        let (session, caller) = identities.sign_in_by_oidc(grant, &self.shared.upstream).await?;
        self.signed_in(caller, StatusCode::SEE_OTHER);
        Ok((session, next))
    }

    /// Counts a sign-in attempt against the address' rate limit.
    fn count(&self) -> Result<()> {
        self.shared.limits.request(&format!("address {}", self.remote))
    }

    fn add_cookie(&self, response: &mut Response<Body>, cookie: Option<HeaderValue>) {
        if let Some(cookie) = cookie {
            response.headers_mut().append(header::SET_COOKIE, cookie);
        }
    }

    /// Audits a sign-in.
    fn signed_in(&self, caller: Caller, status: StatusCode) -> RequestContext {
        let ctx = RequestContext {
            shared: Arc::clone(self.shared),
            caller,
            method: self.parts.method.clone(),
            path: self.parts.uri.path().to_owned(),
            headers: self.parts.headers.clone(),
            query: Query::default(),
            body: bytes::Bytes::new(),
            remote: self.remote.to_owned(),
            id: self.id.to_owned(),
        };
        audit::session(&ctx, "login", status);
        ctx
    }
}

/// `DELETE /v1/session`.
pub(crate) fn end(ctx: &RequestContext) -> Response<Body> {
    ctx.shared.identities.close(&ctx.headers);
    audit::session(ctx, "logout", StatusCode::NO_CONTENT);
    let mut response = answer::empty(StatusCode::NO_CONTENT);
    if let Some(cookie) = Cookie::Session.clear(ctx.shared.is_tls) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Redirects a browser.
fn see_other(location: &str) -> Response<Body> {
    let mut response = answer::empty(StatusCode::SEE_OTHER);
    let headers: &mut HeaderMap = response.headers_mut();
    let location = HeaderValue::from_str(location).unwrap_or(HeaderValue::from_static("/"));
    headers.insert(header::LOCATION, location);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns the path that a browser is redirected to after signing in, always on this server.
fn own_path(query: &Query) -> &str {
    query.get("next").filter(|next| is_own_path(next)).unwrap_or("/")
}

/// Whether a path stays on this server: browsers take `//host` and `/\host` for other hosts.
fn is_own_path(path: &str) -> bool {
    path.starts_with('/')
        && !path[1..].starts_with(['/', '\\'])
        && path.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_nowhere_else() {
        for path in ["/", "/kinds/shops", "/a?b=c"] {
            assert!(is_own_path(path), "{path}");
        }
        for path in
            ["//evil.example", "/\\evil.example", "https://evil.example", "", "/a\r\nSet-Cookie: x", "/ä"]
        {
            assert!(!is_own_path(path), "{path}");
        }
    }
}
