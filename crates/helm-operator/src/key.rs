//! The key that signs the records of an operator's releases.
//!
//! It is a Secret in the operator's own namespace, made when the first release is worked on. Tenants write in their own
//! namespaces, so that they can neither read nor replace it. Deleting it makes a new one at the next start; records
//! signed with the old one are then adopted like those of the real `helm`.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::core::Status;
use kube::{Api, Client};
use steersman_release::RecordKey;
use tokio::sync::OnceCell;

/// The name of the Secret.
pub const KEY_SECRET: &str = "steersman-release-key";
const FIELD: &str = "key";

/// The key, read or made once.
#[derive(Debug, Default)]
pub(crate) struct KeyStore(OnceCell<Option<RecordKey>>);

/// Why there is no key.
#[derive(Debug)]
enum NoKey {
    /// A quota or an admission webhook refused it, which may pass.
    Refused,
    Failed(kube::Error),
}

impl From<kube::Error> for NoKey {
    fn from(error: kube::Error) -> Self {
        Self::Failed(error)
    }
}

impl KeyStore {
    /// The key; nothing if the operator may not keep one. Then no record is trusted, and everything is rendered again.
    pub(crate) async fn key(&self, client: &Client) -> kube::Result<Option<RecordKey>> {
        match self.0.get_or_try_init(|| load(client)).await {
            Ok(key) => Ok(key.clone()),
            Err(NoKey::Refused) => Ok(None),
            Err(NoKey::Failed(error)) => Err(error),
        }
    }
}

/// Whether a refusal comes from the operator's role, and not from admission control.
fn is_role_missing(status: &Status) -> bool {
    status.message.contains(" cannot ")
}

async fn load(client: &Client) -> Result<Option<RecordKey>, NoKey> {
    let namespace = client.default_namespace();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let without = |reason: &str| {
        tracing::warn!(
            reason,
            "release records are not signed: hooks of uninstalls come from the chart, and nothing is rolled back. \
             Let the operator get and create the Secret {KEY_SECRET} in namespace {namespace}"
        );
        Ok(None)
    };
    let found = match secrets.get_opt(KEY_SECRET).await {
        Ok(Some(found)) => found,
        Ok(None) => match secrets.create(&PostParams::default(), &fresh()?).await {
            Ok(made) => made,
            // Another replica was faster.
            Err(kube::Error::Api(status)) if status.code == 409 => secrets.get(KEY_SECRET).await?,
            Err(kube::Error::Api(status)) if status.code == 403 && !is_role_missing(&status) => {
                tracing::warn!(reason = status.message, "the key of release records can't be made yet");
                return Err(NoKey::Refused);
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {
                return without(&status.message);
            }
            Err(error) => return Err(error.into()),
        },
        Err(kube::Error::Api(status)) if status.code == 403 => return without(&status.message),
        Err(error) => return Err(error.into()),
    };
    let bytes = found.data.as_ref().and_then(|data| data.get(FIELD)).map(|bytes| bytes.0.as_slice());
    match bytes.and_then(|bytes| <[u8; RecordKey::LENGTH]>::try_from(bytes).ok()) {
        Some(bytes) => Ok(Some(RecordKey::new(bytes))),
        None => {
            without(&format!("data.{FIELD} of the Secret has not {} bytes: delete it", RecordKey::LENGTH))
        }
    }
}

fn fresh() -> kube::Result<Secret> {
    let mut bytes = [0; RecordKey::LENGTH];
    getrandom::fill(&mut bytes).map_err(|error| kube::Error::Service(error.to_string().into()))?;
    Ok(Secret {
        metadata: ObjectMeta { name: Some(KEY_SECRET.to_owned()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([(FIELD.to_owned(), ByteString(bytes.to_vec()))])),
        immutable: Some(true),
        type_: Some("steersman.dev/release-key".to_owned()),
        ..Secret::default()
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ResourceQuota;
    use kube::api::DeleteParams;
    use serde_json::{from_value, json};
    use steersman_cluster::Cluster;

    use super::*;

    #[tokio::test]
    async fn a_key_that_a_quota_refuses_is_made_later() {
        let cluster = Cluster::builder().start().await.unwrap();
        let client = cluster.client();
        let quotas: Api<ResourceQuota> = Api::default_namespaced(client.clone());
        let quota = from_value(json!({"metadata": {"name": "none"}, "spec": {"hard": {"secrets": "0"}}}));
        quotas.create(&PostParams::default(), &quota.unwrap()).await.unwrap();
        // Quotas count once their usage is known.
        cluster.settled().await;
        let store = KeyStore::default();
        assert!(store.key(&client).await.unwrap().is_none());
        quotas.delete("none", &DeleteParams::default()).await.unwrap();
        assert!(store.key(&client).await.unwrap().is_some());
    }
}
