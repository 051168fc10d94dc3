//! The `default` ServiceAccount and the root certificate ConfigMap of every namespace.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::{Api, api::ObjectMeta};

use crate::control_loop::{Actor, ControlLoop, ROOT_CERTIFICATE, is_already_exists};

pub(super) async fn reconcile(control: &mut ControlLoop, namespace: &str) -> kube::Result<()> {
    let Some(found) = control.caches.namespaces.get("", namespace) else { return Ok(()) };
    if found.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let meta = |name: &str| ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        ..ObjectMeta::default()
    };
    if control.caches.service_accounts.get(namespace, "default").is_none() {
        let account = ServiceAccount { metadata: meta("default"), ..ServiceAccount::default() };
        match control.create(&account).await {
            Err(error) if !is_already_exists(&error) => return Err(error),
            _ => {}
        }
    }
    let mut metadata = meta(ROOT_CERTIFICATE);
    metadata.annotations = Some(BTreeMap::from([(
        "kubernetes.io/description".to_owned(),
        "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as \
         the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of \
         Kubernetes clusters."
            .to_owned(),
    )]));
    let data = BTreeMap::from([("ca.crt".to_owned(), control.options.authority.certificate().to_owned())]);
    let api: Api<ConfigMap> = Api::namespaced(control.client.clone(), namespace);
    control.act_as(Actor::Account("root-ca-cert-publisher"));
    let params = control.params();
    match api.get_opt(ROOT_CERTIFICATE).await? {
        Some(found) if found.data.as_ref() == Some(&data) => Ok(()),
        Some(mut found) => {
            found.data = Some(data);
            api.replace(ROOT_CERTIFICATE, &params, &found).await.map(drop)
        }
        None => {
            let certificate = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
            api.create(&params, &certificate).await.map(drop)
        }
    }
}
