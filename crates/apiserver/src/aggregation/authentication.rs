//! Publishes authentication settings for extension API servers (`extension-apiserver-authentication`).

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_api::{object, store::Draft};

use crate::{apply, call::Call, catalog::Verb, core::Core, pipeline};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// Client authentication settings published in `kube-system/extension-apiserver-authentication`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientAuthentication {
    /// CA certificates for client certificates, in PEM; empty for none.
    pub client_authorities: String,
    /// Front proxy authentication. Default: none.
    pub request_headers: Option<RequestHeaderAuthentication>,
}

/// Front proxy (request header) authentication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHeaderAuthentication {
    /// CA certificates for the proxies' client certificates, in PEM.
    pub authorities: String,
    /// Allowed common names of the proxies' certificates; empty for any.
    pub allowed_names: Vec<String>,
    /// Headers with the user name; the first that is set counts.
    pub username_headers: Vec<String>,
    /// Headers with the user's uid.
    pub uid_headers: Vec<String>,
    /// Headers with the user's groups.
    pub group_headers: Vec<String>,
    /// Prefixes of headers with further attributes of the user.
    pub extra_header_prefixes: Vec<String>,
}

impl RequestHeaderAuthentication {
    /// Creates the settings with the conventional header names.
    #[must_use]
    pub fn new(authorities: impl Into<String>, allowed_names: Vec<String>) -> Self {
        Self {
            authorities: authorities.into(),
            allowed_names,
            username_headers: vec!["X-Remote-User".into()],
            uid_headers: Vec::new(),
            group_headers: vec!["X-Remote-Group".into()],
            extra_header_prefixes: vec!["X-Remote-Extra-".into()],
        }
    }
}

impl ClientAuthentication {
    fn data(&self) -> Value {
        let mut data = json!({});
        if !self.client_authorities.is_empty() {
            data["client-ca-file"] = self.client_authorities.as_str().into();
        }
        if let Some(proxies) = self.request_headers.as_ref().filter(|proxies| !proxies.authorities.is_empty())
        {
            data["requestheader-client-ca-file"] = proxies.authorities.as_str().into();
            for (key, list) in [
                ("requestheader-username-headers", &proxies.username_headers),
                ("requestheader-uid-headers", &proxies.uid_headers),
                ("requestheader-group-headers", &proxies.group_headers),
                ("requestheader-extra-headers-prefix", &proxies.extra_header_prefixes),
                ("requestheader-allowed-names", &proxies.allowed_names),
            ] {
                if !(list.is_empty() && key == "requestheader-uid-headers") {
                    data[key] = json!(list).to_string().into();
                }
            }
        }
        data
    }
}

/// Publishes the settings for extension API servers.
pub(crate) fn publish(core: &Arc<Core>, authentication: &ClientAuthentication) {
    let data = authentication.data();
    let catalog = core.catalog();
    let Some(resource) = catalog.find("", "v1", "configmaps") else { return };
    let call = Call::internal(Arc::clone(core), Arc::clone(resource), Verb::Create, NAMESPACE, None);
    let Some(entry) = core.store.get(&resource.storage, &object::key(NAMESPACE, NAME)) else {
        if data.as_object().is_some_and(|data| !data.is_empty()) {
            let map = json!({"metadata": {"name": NAME, "namespace": NAMESPACE}, "data": data});
            // If it was created meanwhile, the same server wrote it.
            let _ = pipeline::create_now(&call, map);
        }
        return;
    };
    let old = entry.value();
    if old["data"] == data {
        return;
    }
    let mut next = old.clone();
    next["data"] = data;
    apply::track_now(&call, Some(&old), &mut next, &[]);
    if let Ok(draft) = Draft::new(&next, Vec::new()) {
        let _ = core.store.update(&resource.storage, entry.key(), entry.revision(), draft);
    }
}
