//! Deletions, which parse no more of the response than controllers need.

use kube::{Client, api::DeleteParams, core::Request};
use serde::Deserialize;

/// The outcome of a deletion request.
pub(crate) enum Deletion {
    /// The object is gone.
    Gone,
    /// The object waits for finalizers or its grace period. Contains its JSON.
    Pending(String),
}

impl Deletion {
    /// Deletes an object of the resource at `url`.
    pub(crate) async fn of(
        client: &Client,
        url: &str,
        name: &str,
        options: &DeleteParams,
    ) -> kube::Result<Self> {
        let request = Request::new(url).delete(name, options).map_err(kube::Error::BuildRequest)?;
        let answer = client.request_text(request).await?;
        // For some kinds the response is the object's last state, for others a Status, although both are gone.
        let outline: ObjectOutline = serde_json::from_str(&answer).unwrap_or_default();
        let is_pending = !outline.metadata.finalizers.is_empty()
            || outline.metadata.deletion_grace_period_seconds.is_some_and(|grace| grace > 0);
        Ok(if is_pending { Self::Pending(answer) } else { Self::Gone })
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ObjectOutline {
    metadata: OutlineMeta,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OutlineMeta {
    finalizers: Vec<String>,
    deletion_grace_period_seconds: Option<i64>,
}
