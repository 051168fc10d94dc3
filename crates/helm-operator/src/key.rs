//! Key that signs an operator's release records.
//!
//! It is a Secret in the operator's own namespace, created when the first release is processed. Tenants write in
//! their own namespaces, so they can neither read nor replace it. If it is deleted, a new one is created at the next
//! start; records signed with the old one are then adopted like those of the real `helm`.

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

/// The key, read or created once.
#[derive(Debug, Default)]
pub(crate) struct KeyStore(OnceCell<Option<RecordKey>>);

/// Why there is no key.
#[derive(Debug)]
enum NoKey {
    /// A quota or an admission webhook refused it, which may be temporary.
    Refused,
    Failed(kube::Error),
}

impl From<kube::Error> for NoKey {
    fn from(error: kube::Error) -> Self {
        Self::Failed(error)
    }
}

impl KeyStore {
    /// Returns the key; `None` if the operator has no permission for one. Then no record is trusted, and everything is
    /// rendered again.
    pub(crate) async fn key(&self, client: &Client) -> kube::Result<Option<RecordKey>> {
        match self.0.get_or_try_init(|| load(client)).await {
            Ok(key) => Ok(key.clone()),
            Err(NoKey::Refused) => Ok(None),
            Err(NoKey::Failed(error)) => Err(error),
        }
    }
}

/// Whether a refusal comes from RBAC rather than from admission control.
fn is_role_missing(status: &Status) -> bool {
    status.message.contains(" cannot ")
}

async fn load(client: &Client) -> Result<Option<RecordKey>, NoKey> {
    let namespace = client.default_namespace();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let without = |reason: &str| {
        tracing::warn!(
            reason,
            "release records are not signed: uninstall hooks come from the chart, and rollbacks are \
             disabled. Allow the operator to get and create the Secret {KEY_SECRET} in namespace {namespace}"
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
                tracing::warn!(
                    reason = status.message,
                    "cannot create the signing key of release records yet"
                );
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
        None => without(&format!(
            "data.{FIELD} of the Secret is not {} bytes long: delete the Secret",
            RecordKey::LENGTH
        )),
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
    use kube::client::Body;
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
        // Quotas apply once their usage is known.
        cluster.settled().await;
        let store = KeyStore::default();
        assert!(store.key(&client).await.unwrap().is_none());
        quotas.delete("none", &DeleteParams::default()).await.unwrap();
        assert!(store.key(&client).await.unwrap().is_some());
    }

    fn secrets(client: &Client) -> Api<Secret> {
        Api::default_namespaced(client.clone())
    }

    /// Returns a client of a user with these verbs on Secrets, and no other permissions.
    async fn allowed(cluster: &Cluster, verbs: &[&str]) -> Client {
        let name = if verbs.is_empty() { "none".to_owned() } else { verbs.join("-") };
        let mut rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": verbs}]);
        if verbs.is_empty() {
            rules = json!([]);
        }
        let role = from_value(json!({"metadata": {"name": name}, "rules": rules})).unwrap();
        let binding = from_value(json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
        }))
        .unwrap();
        let client = cluster.client();
        let roles: Api<k8s_openapi::api::rbac::v1::Role> = Api::default_namespaced(client.clone());
        roles.create(&PostParams::default(), &role).await.unwrap();
        let bindings: Api<k8s_openapi::api::rbac::v1::RoleBinding> = Api::default_namespaced(client);
        bindings.create(&PostParams::default(), &binding).await.unwrap();
        cluster.client_as(steersman_cluster::User::service_account("default", &name))
    }

    #[tokio::test]
    async fn a_key_is_made_once_and_read_by_all() {
        let cluster = Cluster::start().await.unwrap();
        let client = cluster.client();
        let store = KeyStore::default();
        assert!(store.key(&client).await.unwrap().is_some());
        let made = secrets(&client).get(KEY_SECRET).await.unwrap();
        assert_eq!(made.data.as_ref().unwrap()["key"].0.len(), RecordKey::LENGTH);
        assert!(made.data.as_ref().unwrap()["key"].0.iter().any(|byte| *byte != 0));
        assert_eq!((made.immutable, made.type_.as_deref()), (Some(true), Some("steersman.dev/release-key")));
        assert!(KeyStore::default().key(&client).await.unwrap().is_some());
        assert_eq!(secrets(&client).get(KEY_SECRET).await.unwrap().data, made.data);
        // It is read only once.
        secrets(&client).delete(KEY_SECRET, &DeleteParams::default()).await.unwrap();
        assert!(store.key(&client).await.unwrap().is_some());
        assert!(secrets(&client).get_opt(KEY_SECRET).await.unwrap().is_none());
        assert_ne!(fresh().unwrap().data, fresh().unwrap().data);
    }

    #[tokio::test]
    async fn without_the_right_to_keep_a_key_there_is_none() {
        let cluster = Cluster::start().await.unwrap();
        for verbs in [&[][..], &["create"], &["get"]] {
            let client = allowed(&cluster, verbs).await;
            let store = KeyStore::default();
            assert!(store.key(&client).await.unwrap().is_none(), "{verbs:?}");
            assert!(secrets(&cluster.client()).get_opt(KEY_SECRET).await.unwrap().is_none());
            // The result is final.
            assert!(store.0.initialized());
        }
        let client = allowed(&cluster, &["get", "create"]).await;
        assert!(KeyStore::default().key(&client).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_key_of_another_length_is_none() {
        let cluster = Cluster::start().await.unwrap();
        let client = cluster.client();
        for data in [json!({"key": "AAAA"}), json!({}), json!({"other": "AAAA"})] {
            let secret = from_value(json!({"metadata": {"name": KEY_SECRET}, "data": data})).unwrap();
            secrets(&client).create(&PostParams::default(), &secret).await.unwrap();
            assert!(KeyStore::default().key(&client).await.unwrap().is_none(), "{data}");
            secrets(&client).delete(KEY_SECRET, &DeleteParams::default()).await.unwrap();
        }
    }

    /// Fakes the responses to the first read, and to a creation.
    #[derive(Clone)]
    struct Answers {
        inner: Client,
        read: Option<u16>,
        create: Option<u16>,
    }

    impl tower_service::Service<http::Request<Body>> for Answers {
        type Response = http::Response<Body>;
        type Error = std::io::Error;
        type Future = std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

        fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
            std::task::Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: http::Request<Body>) -> Self::Future {
            let is_read = request.method() == http::Method::GET;
            let code = if is_read { self.read.take() } else { self.create };
            let inner = self.inner.clone();
            Box::pin(async move {
                let Some(code) = code else {
                    return inner.send(request).await.map_err(std::io::Error::other);
                };
                let reason = if code == 404 { "NotFound" } else { "Test" };
                let status = json!({"kind": "Status", "status": "Failure", "code": code, "message": "no", "reason": reason});
                let body = Body::from(status.to_string().into_bytes());
                http::Response::builder().status(code).body(body).map_err(std::io::Error::other)
            })
        }
    }

    fn answering(client: &Client, read: Option<u16>, create: Option<u16>) -> Client {
        Client::new(Answers { inner: client.clone(), read, create }, "default")
    }

    #[tokio::test]
    async fn the_key_of_a_faster_replica_is_taken() {
        let cluster = Cluster::start().await.unwrap();
        let client = cluster.client();
        assert!(KeyStore::default().key(&client).await.unwrap().is_some());
        // It does not exist at the first read, and does when it is created.
        let late = answering(&client, Some(404), None);
        assert!(KeyStore::default().key(&late).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn what_may_pass_is_asked_again() {
        let cluster = Cluster::start().await.unwrap();
        let client = cluster.client();
        for (read, create, expected) in [
            (Some(500), None, None),
            (Some(403), None, Some(true)),
            (None, Some(500), None),
            (None, Some(404), Some(true)),
            // A refusal that does not come from RBAC.
            (None, Some(403), Some(false)),
        ] {
            let store = KeyStore::default();
            let found = store.key(&answering(&client, read, create)).await;
            match expected {
                None => {
                    let error = found.unwrap_err();
                    assert!(matches!(&error, kube::Error::Api(status) if status.code == 500), "{error}");
                    assert!(!store.0.initialized());
                }
                Some(is_final) => {
                    assert!(found.unwrap().is_none(), "{read:?} {create:?}");
                    assert_eq!(store.0.initialized(), is_final, "{read:?} {create:?}");
                }
            }
        }
    }
}
