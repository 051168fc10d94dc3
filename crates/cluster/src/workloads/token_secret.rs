//! Token Secrets of service accounts. A token is valid as long as its Secret exists.

use k8s_openapi::{
    ByteString,
    api::{
        authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
        core::v1::{Secret, ServiceAccount},
    },
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Preconditions},
};

use crate::control_loop::{ACCOUNT_NAME, ControlLoop, Controller, is_not_found};

const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// The longest possible lifetime of a token, in seconds.
const LIFETIME: i64 = 1 << 32;

pub(super) async fn reconcile(control: &mut ControlLoop, namespace: &str, name: &str) -> kube::Result<()> {
    let secrets: Api<Secret> = Api::namespaced(control.client.clone(), namespace);
    if name.is_empty() {
        // A service account was deleted: check all token Secrets of the namespace, since its own are deleted with it.
        let of_type = ListParams::default().fields(&format!("type={TYPE}"));
        for secret in secrets.list(&of_type).await? {
            control.push(Controller::TokenSecret, namespace, &secret.name_any());
        }
        return Ok(());
    }
    let Some(mut secret) = secrets.get_opt(name).await? else { return Ok(()) };
    let wanted = secret.annotations().get(ACCOUNT_NAME).cloned().unwrap_or_default();
    if secret.type_.as_deref() != Some(TYPE) || wanted.is_empty() {
        return Ok(());
    }
    let account = control.caches.service_accounts.get(namespace, &wanted);
    let uid = secret.annotations().get(ACCOUNT_UID);
    let is_of = |account: &ServiceAccount| uid.is_none_or(|uid| account.uid().as_ref() == Some(uid));
    let Some(account) = account.filter(|account| is_of(account)) else {
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: secret.uid(), resource_version: None }),
            ..DeleteParams::default()
        };
        return match secrets.delete(name, &params).await {
            Err(error) if !is_not_found(&error) => Err(error),
            _ => Ok(()),
        };
    };
    let data = secret.data.clone().unwrap_or_default();
    let is_filled = |key: &str| data.get(key).is_some_and(|value| !value.0.is_empty());
    if uid.is_some() && ["token", "ca.crt", "namespace"].iter().all(|key| is_filled(key)) {
        return Ok(());
    }
    let token = if is_filled("token") { None } else { Some(request(control, &secret, &account).await?) };
    let certificate = control.options.authority.certificate().to_owned();
    let data = secret.data.get_or_insert_default();
    if let Some(token) = token {
        data.insert("token".to_owned(), ByteString(token.into_bytes()));
    }
    data.insert("ca.crt".to_owned(), ByteString(certificate.into_bytes()));
    data.insert("namespace".to_owned(), ByteString(namespace.as_bytes().to_vec()));
    secret.annotations_mut().insert(ACCOUNT_UID.to_owned(), account.uid().unwrap_or_default());
    secrets.replace(name, &control.params(), &secret).await.map(drop)
}

/// Requests a token that is bound to its Secret.
async fn request(
    control: &mut ControlLoop,
    secret: &Secret,
    account: &ServiceAccount,
) -> kube::Result<String> {
    let accounts: Api<ServiceAccount> =
        Api::namespaced(control.client.clone(), &account.namespace().unwrap_or_default());
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Secret".to_owned()),
                name: Some(secret.name_any()),
                uid: secret.uid(),
            }),
            expiration_seconds: Some(LIFETIME),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let made = accounts.create_token_request(&account.name_any(), &control.params(), &request).await?;
    Ok(made.status.and_then(|status| status.token).unwrap_or_default())
}
