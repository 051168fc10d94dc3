//! The messages between a server and its etcd.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use steersman_cluster::{RequestHeaderAuthentication, Serving, Settings, User};

/// Path of an etcd's open ports.
pub(super) const SERVERS: &str = "/steersman.dev/v1/servers";

/// A field in the response to `/version` that identifies an etcd of this program.
pub(super) const MARK: &str = "steersman";

/// A server's request for a port.
///
/// It contains certificates and keys instead of file names, as an etcd reads and writes no files.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Registration {
    /// Servers with the same prefix have the same objects.
    pub(super) prefix: String,
    pub(super) address: SocketAddr,
    pub(super) certificates: String,
    pub(super) key: String,
    pub(super) client_authorities: String,
    pub(super) anonymous: bool,
    pub(super) request_headers: Option<RequestHeaders>,
    pub(super) proxy_certificate: Option<ProxyCertificate>,
    pub(super) tokens: Vec<TokenUser>,
    pub(super) disabled_plugins: BTreeSet<String>,
    pub(super) allow_all: bool,
    pub(super) event_ttl_seconds: u64,
    /// Whether controllers run, as decided by the first server of a prefix.
    pub(super) workloads: bool,
}

/// Settings for authenticating requests of front proxies.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestHeaders {
    pub(super) authorities: String,
    pub(super) allowed_names: Vec<String>,
    pub(super) username_headers: Vec<String>,
    pub(super) uid_headers: Vec<String>,
    pub(super) group_headers: Vec<String>,
    pub(super) extra_header_prefixes: Vec<String>,
}

/// The client certificate for servers behind APIServices, and its key.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(super) struct ProxyCertificate {
    pub(super) certificates: String,
    pub(super) key: String,
}

/// A bearer token and its user.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(super) struct TokenUser {
    pub(super) token: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) groups: Vec<String>,
}

impl TokenUser {
    pub(super) fn user(&self) -> User {
        let mut user = User::named(&self.name, self.groups.iter().map(String::as_str));
        user.uid.clone_from(&self.uid);
        user
    }
}

impl Registration {
    pub(super) fn serving(&self) -> Serving {
        Serving {
            address: self.address,
            certificates: self.certificates.clone(),
            key: self.key.clone(),
            client_authorities: self.client_authorities.clone(),
            anonymous: self.anonymous,
            request_headers: self.request_headers.clone().map(|it| RequestHeaderAuthentication {
                authorities: it.authorities,
                allowed_names: it.allowed_names,
                username_headers: it.username_headers,
                uid_headers: it.uid_headers,
                group_headers: it.group_headers,
                extra_header_prefixes: it.extra_header_prefixes,
            }),
        }
    }

    pub(super) fn settings(&self) -> Settings {
        Settings {
            disabled_plugins: self.disabled_plugins.clone(),
            allow_all: self.allow_all,
            event_ttl: Duration::from_secs(self.event_ttl_seconds),
        }
    }
}

/// An open port.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Opened {
    pub(super) id: u64,
    pub(super) address: SocketAddr,
}
