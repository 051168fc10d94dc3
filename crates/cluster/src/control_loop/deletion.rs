//! Deletions, of whose answers no more is read than a controller goes by.

use kube::{Client, api::DeleteParams, core::Request};
use serde::Deserialize;

/// What became of an object that is to be deleted.
pub(crate) enum Deletion {
    /// It is gone.
    Gone,
    /// It waits for finalizers or its grace period: its JSON.
    Pending(String),
}

impl Deletion {
    /// Deletes an object of the resource at a URL.
    pub(crate) async fn of(
        client: &Client,
        url: &str,
        name: &str,
        options: &DeleteParams,
    ) -> kube::Result<Self> {
        let request = Request::new(url).delete(name, options).map_err(kube::Error::BuildRequest)?;
        let answer = client.request_text(request).await?;
        // Some kinds answer with their last state where others say that they are gone.
        let outline: Outline = serde_json::from_str(&answer).unwrap_or_default();
        let is_pending = !outline.metadata.finalizers.is_empty()
            || outline.metadata.deletion_grace_period_seconds.is_some_and(|grace| grace > 0);
        Ok(if is_pending { Self::Pending(answer) } else { Self::Gone })
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Outline {
    metadata: OutlineMeta,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OutlineMeta {
    finalizers: Vec<String>,
    deletion_grace_period_seconds: Option<i64>,
}
