//! Credentials for OCI registries, from the files that `helm registry login` and `docker login` write.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::{Error, Paths};

/// The timeout of a credential helper: some of them prompt the user.
const HELPER_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum size of a credential helper's output.
const HELPER_OUTPUT: u64 = 64 << 10;
/// What helpers print for an unknown server; the protocol has no other way to report it.
const HELPER_NOT_FOUND: &str = "credentials not found in native keychain";

/// A credential for a registry.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// A username and password.
    Basic(String, String),
    /// An identity token, which is exchanged for access tokens.
    Identity(String),
    /// An access token, sent verbatim.
    Access(String),
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Basic(name, _) => write!(f, "Basic({name:?}, <redacted>)"),
            Self::Identity(_) => f.write_str("Identity(<redacted>)"),
            Self::Access(_) => f.write_str("Access(<redacted>)"),
        }
    }
}

/// Finds the credential for a registry's host, in Helm's file or else Docker's. `None` if neither has one.
pub(crate) async fn find(paths: &Paths, registry: &str) -> Result<Option<Credential>, Error> {
    if let Some(credential) = find_in(&paths.registry_config, registry).await? {
        return Ok(Some(credential));
    }
    match &paths.docker_config {
        Some(path) => find_in(path, registry).await,
        None => Ok(None),
    }
}

async fn find_in(path: &Path, registry: &str) -> Result<Option<Credential>, Error> {
    let config = match fs::read(path) {
        Ok(data) => Config::parse(&data).map_err(|error| invalid(path, error.to_string()))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(invalid(path, error.to_string())),
    };
    let server = server_address(registry);
    let helper = config.helpers.get(server).or(config.store.as_ref()).filter(|name| !name.is_empty());
    if let Some(helper) = helper {
        return ask_helper(helper, server).await;
    }
    config
        .entry(server)
        .map_or(Ok(None), |entry| entry.credential().map_err(|message| invalid(path, message)))
}

fn invalid(path: &Path, message: String) -> Error {
    Error::CredentialsFile { path: path.to_owned(), message }
}

/// Returns the key under which credentials for a host are stored: Docker Hub has a historic one.
fn server_address(registry: &str) -> &str {
    match registry {
        "docker.io" | "index.docker.io" | "registry-1.docker.io" => "https://index.docker.io/v1/",
        other => other,
    }
}

/// The fields of `config.json` about credentials.
#[derive(Debug, Default, Deserialize)]
struct Config {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
    #[serde(default, rename = "credHelpers")]
    helpers: BTreeMap<String, String>,
    #[serde(default, rename = "credsStore")]
    store: Option<String>,
}

impl Config {
    fn parse(data: &[u8]) -> Result<Self, serde_json::Error> {
        // Some logout commands leave an empty file behind.
        if data.trim_ascii().is_empty() { Ok(Self::default()) } else { serde_json::from_slice(data) }
    }

    fn entry(&self, server: &str) -> Option<&Entry> {
        self.auths
            .get(server)
            .or_else(|| self.auths.iter().find(|(key, _)| host(key) == server).map(|(_, entry)| entry))
    }
}

/// Older files keep `https://registry.example.com/v1/` for `registry.example.com`.
fn host(key: &str) -> &str {
    let bare = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    bare.split('/').next().unwrap_or(bare)
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Entry {
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
    registrytoken: String,
}

impl Entry {
    fn credential(&self) -> Result<Option<Credential>, String> {
        if !self.registrytoken.is_empty() {
            return Ok(Some(Credential::Access(self.registrytoken.clone())));
        }
        if !self.identitytoken.is_empty() {
            return Ok(Some(Credential::Identity(self.identitytoken.clone())));
        }
        let (name, password) = if self.auth.is_empty() {
            (self.username.clone(), self.password.clone())
        } else {
            let decoded = STANDARD.decode(&self.auth).map_err(|_| "auth is not base64".to_owned())?;
            let text = String::from_utf8(decoded).map_err(|_| "auth is not text".to_owned())?;
            let (name, password) = text.split_once(':').ok_or("auth is not base64 of name:password")?;
            (name.to_owned(), password.to_owned())
        };
        let known = !name.is_empty() || !password.is_empty();
        Ok(known.then_some(Credential::Basic(name, password)))
    }
}

/// A credential helper's response to `get`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    #[serde(default)]
    username: String,
    #[serde(default)]
    secret: String,
}

async fn ask_helper(helper: &str, server: &str) -> Result<Option<Credential>, Error> {
    let failed = |message: String| Error::CredentialHelper { helper: helper.to_owned(), message };
    // The name becomes part of a program's name: it must not contain a path.
    if !helper.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        return Err(failed("not a name that a helper can have".into()));
    }
    let (success, stdout) = tokio::time::timeout(HELPER_TIMEOUT, run_helper(helper, server))
        .await
        .map_err(|_| failed("timed out".into()))?
        .map_err(|error| failed(error.to_string()))?;
    if !success {
        let said = String::from_utf8_lossy(&stdout);
        return match said.trim() {
            HELPER_NOT_FOUND => Ok(None),
            said => Err(failed(said.to_owned())),
        };
    }
    let answer: Answer = serde_json::from_slice(&stdout).map_err(|error| failed(error.to_string()))?;
    Ok(match (answer.username.as_str(), answer.secret.as_str()) {
        ("", "") => None,
        ("<token>", _) => Some(Credential::Identity(answer.secret)),
        _ => Some(Credential::Basic(answer.username, answer.secret)),
    })
}

async fn run_helper(helper: &str, server: &str) -> io::Result<(bool, Vec<u8>)> {
    let mut child = Command::new(format!("docker-credential-{helper}"))
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A helper that answers without reading its input closes the pipe, which is not an error.
        let _ = stdin.write_all(server.as_bytes()).await;
    }
    let mut said = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(HELPER_OUTPUT).read_to_end(&mut said).await?;
    }
    Ok((child.wait().await?.success(), said))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credential(config: &str, registry: &str) -> Option<Credential> {
        let config = Config::parse(config.as_bytes()).unwrap();
        config.entry(server_address(registry)).and_then(|entry| entry.credential().unwrap())
    }

    #[test]
    fn a_login_is_found_by_host() {
        let config = r#"{"auths": {"r.example.com:5000": {"auth": "YWRhOnM6ZWNyZXQ="}}}"#;
        let expected = Credential::Basic("ada".into(), "s:ecret".into());
        assert_eq!(credential(config, "r.example.com:5000"), Some(expected));
        assert_eq!(credential(config, "r.example.com"), None);
    }

    #[test]
    fn older_files_keep_urls() {
        let config = r#"{"auths": {"https://r.example.com/v1/": {"username": "ada", "password": "x"}}}"#;
        assert_eq!(credential(config, "r.example.com"), Some(Credential::Basic("ada".into(), "x".into())));
    }

    #[test]
    fn dockers_registry_has_a_historic_name() {
        let config = r#"{"auths": {"https://index.docker.io/v1/": {"identitytoken": "t"}}}"#;
        for registry in ["docker.io", "index.docker.io", "registry-1.docker.io"] {
            assert_eq!(credential(config, registry), Some(Credential::Identity("t".into())));
        }
    }

    #[test]
    fn an_entry_without_secrets_is_none() {
        assert_eq!(credential(r#"{"auths": {"r": {}}}"#, "r"), None);
        assert_eq!(credential("  \n", "r"), None);
    }

    #[test]
    fn secrets_are_not_printed() {
        let shown = format!("{:?}", Credential::Basic("ada".into(), "s3cret".into()));
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}
