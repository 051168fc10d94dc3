//! The scale subresource of an autoscaler's target.

use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet, StatefulSet},
    autoscaling::v2::CrossVersionObjectReference,
    core::v1::ReplicationController,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::control_loop::{ControlLoop, Kind, MANAGER};

/// Characters to escape in a path segment.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The scale of an autoscaler's target.
#[derive(Debug)]
pub(super) struct Scale {
    path: String,
    /// Group and kind of the target.
    kind: (String, String),
    pub(super) replicas: i32,
    /// Selector of the target's pods, serialized.
    pub(super) selector: String,
}

/// Why a request failed.
pub(super) enum RequestError {
    /// The API refused it, with this message.
    Refused(String),
    /// There was no response: the reconcile fails.
    Failed(kube::Error),
}

impl From<kube::Error> for RequestError {
    fn from(error: kube::Error) -> Self {
        Self::Failed(error)
    }
}

/// Reads the scale of a target.
///
/// # Errors
/// Fails with the reason why there is none.
pub(super) async fn read(
    control: &mut ControlLoop,
    namespace: &str,
    target: &CrossVersionObjectReference,
) -> Result<Scale, RequestError> {
    let group = match target.api_version.as_deref().unwrap_or_default().split_once('/') {
        Some((_, version)) if version.contains('/') => {
            let text = target.api_version.clone().unwrap_or_default();
            return Err(RequestError::Refused(format!("unexpected GroupVersion string: {text}")));
        }
        Some((group, _)) => group,
        None => "",
    };
    let found = control.resources.values().find(|resource| {
        resource.namespaced && resource.api.group == group && resource.api.kind == target.kind
    });
    let Some(resource) = found else {
        let why = format!("no matches for kind \"{}\" in group \"{group}\"", target.kind);
        return Err(RequestError::Refused(why));
    };
    let (version, plural) = (&resource.api.version, &resource.api.plural);
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let name = utf8_percent_encode(&target.name, ESCAPED);
    let path = format!("{root}/namespaces/{namespace}/{plural}/{name}/scale");
    let kind = (group.to_owned(), target.kind.clone());
    let request = http::Request::get(&path).body(Vec::new());
    let scale = send(control, request).await?;
    Ok(Scale {
        path,
        kind,
        replicas: number(&scale["spec"]["replicas"]),
        selector: scale["status"]["selector"].as_str().unwrap_or_default().to_owned(),
    })
}

/// Sets the replicas of a target.
///
/// # Errors
/// Fails with the reason why the API refused.
pub(super) async fn write(
    control: &mut ControlLoop,
    namespace: &str,
    name: &str,
    scale: &Scale,
    replicas: i32,
) -> Result<(), RequestError> {
    let patch = json!({"spec": {"replicas": replicas}});
    let request = http::Request::patch(format!("{}?fieldManager={MANAGER}", scale.path))
        .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
        .body(patch.to_string().into_bytes());
    control.spend();
    send(control, request).await?;
    match (scale.kind.0.as_str(), scale.kind.1.as_str()) {
        ("apps", "Deployment") => refresh::<Deployment>(control, namespace, name).await?,
        ("apps", "StatefulSet") => refresh::<StatefulSet>(control, namespace, name).await?,
        ("apps", "ReplicaSet") => refresh::<ReplicaSet>(control, namespace, name).await?,
        ("", "ReplicationController") => refresh::<ReplicationController>(control, namespace, name).await?,
        // Other kinds have no cache.
        _ => {}
    }
    Ok(())
}

/// Caches the object that was written.
async fn refresh<K: Kind>(control: &mut ControlLoop, namespace: &str, name: &str) -> kube::Result<()> {
    if let Some(scaled) = K::api(&control.client, namespace).get_opt(name).await? {
        control.put_object(scaled);
    }
    Ok(())
}

fn number(value: &Value) -> i32 {
    value.as_i64().and_then(|number| i32::try_from(number).ok()).unwrap_or_default()
}

/// Sends a request, and distinguishes a refusal from a missing response.
async fn send(
    control: &mut ControlLoop,
    request: http::Result<http::Request<Vec<u8>>>,
) -> Result<Value, RequestError> {
    let request = request.map_err(|error| RequestError::Refused(error.to_string()))?;
    match control.client.request::<Value>(request).await {
        Ok(answer) => Ok(answer),
        Err(kube::Error::Api(status)) => Err(RequestError::Refused(status.message.clone())),
        Err(error) => Err(error.into()),
    }
}
