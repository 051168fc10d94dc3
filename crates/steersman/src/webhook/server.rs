//! The webhook server, which the API server calls.

use std::sync::Arc;

use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use steersman_listener::{Limits, Listener, RequestBody};
use tokio::net::TcpListener;

use super::Webhooks;
use crate::{
    certificate::Certificates,
    error::Result,
    http::{Answer, text},
    metrics::Metrics,
};

/// Larger than any review: an object and its old state are at most 1.5 MiB each.
const LIMIT: usize = 8 << 20;

/// Serves webhooks over TLS until dropped.
pub(crate) async fn serve(
    listener: TcpListener,
    certificates: Arc<Certificates>,
    webhooks: Webhooks,
    metrics: Metrics,
) -> Result<()> {
    let config = certificates.server_config()?;
    let state = Arc::new((webhooks, metrics));
    let handler = move |request| {
        let state = Arc::clone(&state);
        async move { answer(&state.0, &state.1, request).await }
    };
    Listener::new(listener).tls(config).limits(limits()).serve(move |_| handler.clone()).await;
    Ok(())
}

/// Half of the default connection limit, which is half of the open-file limit. The operator's own requests need some
/// files, too.
fn limits() -> Limits {
    let limits = Limits::default();
    Limits { connections: limits.connections / 2, ..limits }
}

async fn answer(webhooks: &Webhooks, metrics: &Metrics, request: Request<RequestBody>) -> Answer {
    if request.method() != Method::POST {
        return text(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "method not allowed: use POST\n");
    }
    let path = request.uri().path().to_owned();
    let Ok(body) =
        Limited::new(request.into_body(), LIMIT).collect().await.map(http_body_util::Collected::to_bytes)
    else {
        return text(StatusCode::PAYLOAD_TOO_LARGE, "text/plain", "the review is too large\n");
    };
    if !webhooks.serves(&path) {
        return text(StatusCode::NOT_FOUND, "text/plain", "no such webhook\n");
    }
    let reviewing = metrics.review(&path);
    let answer = match serde_json::from_slice(&body) {
        Ok(review) => webhooks.answer(&path, &review).await,
        Err(_) => None,
    };
    let Some(answer) = answer else {
        reviewing.ended(400, false);
        return text(StatusCode::BAD_REQUEST, "text/plain", "not a review\n");
    };
    // The webhook's result is in the body; the HTTP status is always the same.
    reviewing.ended(200, answer.pointer("/response/status/code").is_some_and(|code| *code == 500));
    text(StatusCode::OK, "application/json", answer.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_left_for_the_operators_own_requests() {
        assert_eq!(limits().connections, Limits::default().connections / 2);
    }
}
