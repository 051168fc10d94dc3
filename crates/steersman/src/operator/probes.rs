//! Responses of the probe server: health, readiness and debug endpoints.

use std::sync::Arc;

use http::StatusCode;
use tokio::sync::watch;

use crate::{context::Shared, controller::Engine, http as server};

/// The probe server.
pub(super) struct Probes {
    pub(super) ready: watch::Receiver<bool>,
    /// Set if the debug endpoints are enabled.
    pub(super) debug: Option<(Vec<Arc<Engine>>, Arc<Shared>)>,
}

impl Probes {
    pub(super) fn answer(&self, path: &str) -> server::Answer {
        let plain = |status, body: &str| server::text(status, "text/plain", body.to_owned());
        match (path, &self.debug) {
            ("/healthz" | "/livez", _) => plain(StatusCode::OK, "ok"),
            ("/readyz", _) if *self.ready.borrow() => plain(StatusCode::OK, "ok"),
            ("/readyz", _) => plain(StatusCode::SERVICE_UNAVAILABLE, "the caches are not synced yet"),
            ("/debug/queue", Some((engines, _))) => {
                let queues: serde_json::Map<_, _> =
                    engines.iter().map(|engine| (engine.name.to_string(), engine.queue.describe())).collect();
                server::text(
                    StatusCode::OK,
                    "application/json",
                    serde_json::Value::Object(queues).to_string(),
                )
            }
            ("/debug/cache", Some((_, shared))) => {
                let caches: Vec<_> = shared.caches.all().iter().map(|store| {
                    let ((objects, bytes), selection) = (store.size(), &store.selection);
                    let progress = store.progress.borrow().clone();
                    serde_json::json!({
                        "kind": store.kind.to_string(), "labels": selection.labels, "fields": selection.fields,
                        "metadataOnly": selection.metadata, "objects": objects, "bytes": bytes, "synced": progress.synced, "error": progress.error,
                        "silenceSeconds": store.silence().as_secs(),
                    })
                }).collect();
                server::text(StatusCode::OK, "application/json", serde_json::Value::Array(caches).to_string())
            }
            _ => plain(StatusCode::NOT_FOUND, "there are /healthz and /readyz\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_ready_when_the_caches_are_filled() {
        let (filled, ready) = watch::channel(false);
        let probes = Probes { ready, debug: None };
        let status = |path: &str| probes.answer(path).status();
        assert_eq!(
            (status("/healthz"), status("/readyz")),
            (StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE)
        );
        filled.send_replace(true);
        assert_eq!((status("/livez"), status("/readyz")), (StatusCode::OK, StatusCode::OK));
        assert_eq!((status("/debug/queue"), status("/")), (StatusCode::NOT_FOUND, StatusCode::NOT_FOUND));
    }
}
