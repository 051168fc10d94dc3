//! `ServiceAccount` admission: a pod's service account and its token volume.

use serde_json::{Value, json};
use steersman_api::{
    environment::EnvironmentExt as _,
    object,
    status::{ApiError, ApiResult, quote},
};

use crate::{admission::Attempt, call::Call};

const DEFAULT: &str = "default";
const MIRROR: &str = "kubernetes.io/config.mirror";
const VOLUME: &str = "kube-api-access-";
const MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Lifetime of projected tokens in seconds: an hour, plus some time for renewal.
const EXPIRATION: i64 = 3607;

/// The fields of a service account that apply to its pods.
#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Account {
    automount_service_account_token: Option<bool>,
    image_pull_secrets: Option<Vec<Secret>>,
}

#[derive(serde::Deserialize)]
struct Secret {
    name: Option<String>,
}

/// Sets the service account of a new pod.
pub(super) fn admit(attempt: &Attempt<'_>, pod: &mut Value) -> ApiResult<()> {
    let call = attempt.call;
    let given = object::text(pod, &["spec", "serviceAccountName"]).unwrap_or_default().to_owned();
    if object::get(pod, &["metadata", "annotations", MIRROR]).is_some() {
        return if given.is_empty() {
            Ok(())
        } else {
            Err(refuse(attempt.name, "a mirror pod may not reference service accounts"))
        };
    }
    let name = if given.is_empty() { DEFAULT.to_owned() } else { given };
    let key = object::key(call.scope(), &name);
    let account: Account = match call.core.store.get("serviceaccounts", &key) {
        Some(entry) => entry.part(),
        // A controller creates it in every namespace. It may be missing here or not be created yet.
        None if name == DEFAULT => Account::default(),
        None => {
            let why =
                format!("error looking up service account {key}: serviceaccount {} not found", quote(&name));
            return Err(refuse(attempt.name, &why));
        }
    };
    let spec = object::child(pod, "spec");
    spec.insert("serviceAccountName".into(), name.as_str().into());
    spec.insert("serviceAccount".into(), name.into());
    let asked = spec.get("automountServiceAccountToken").and_then(Value::as_bool);
    let mounts = asked.or(account.automount_service_account_token).unwrap_or(true);
    if mounts {
        mount_token(call, spec);
    }
    let own = spec.get("imagePullSecrets").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if let Some(secrets) = account.image_pull_secrets.filter(|_| !own) {
        let names = secrets.into_iter().map(|secret| json!({"name": secret.name}));
        spec.insert("imagePullSecrets".into(), names.collect());
    }
    Ok(())
}

fn refuse(pod: &str, why: &str) -> ApiError {
    ApiError::forbidden("", "pods", pod, why)
}

/// Mounts a token volume, except where a container already mounts something at the path.
fn mount_token(call: &Call, spec: &mut serde_json::Map<String, Value>) {
    let volumes = spec.get("volumes").and_then(Value::as_array);
    let existing = volumes
        .into_iter()
        .flatten()
        .filter_map(|volume| object::text(volume, &["name"]))
        .find(|name| name.starts_with(VOLUME))
        .map(str::to_owned);
    let name = existing.clone().unwrap_or_else(|| format!("{VOLUME}{}", call.core.environment.name_suffix()));
    let mut needed = false;
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let mounts = object::ensure(container).entry("volumeMounts").or_insert_with(|| json!([]));
            let Some(mounts) = mounts.as_array_mut() else { continue };
            if !mounts.iter().any(|mount| object::text(mount, &["mountPath"]) == Some(MOUNT)) {
                mounts.push(json!({"name": name, "readOnly": true, "mountPath": MOUNT}));
                needed = true;
            }
        }
    }
    if existing.is_some() || !needed {
        return;
    }
    let volumes = spec.entry("volumes").or_insert_with(|| json!([]));
    if let Some(volumes) = volumes.as_array_mut() {
        volumes.push(json!({
            "name": name,
            "projected": {
                "defaultMode": 420,
                "sources": [
                    {"serviceAccountToken": {"path": "token", "expirationSeconds": EXPIRATION}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                    {"downwardAPI": {"items": [
                        {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
                    ]}},
                ],
            },
        }));
    }
}
