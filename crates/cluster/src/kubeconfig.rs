//! The kubeconfig of a cluster.

use std::{fs, io, io::Write as _, net::SocketAddr, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// Renders a kubeconfig for a user with a bearer token.
pub(crate) fn render(address: SocketAddr, certificate: &str, token: &str) -> String {
    let authority = STANDARD.encode(certificate);
    format!(
        "\
apiVersion: v1
kind: Config
clusters:
- name: steersman
  cluster:
    server: https://{address}
    certificate-authority-data: {authority}
users:
- name: steersman
  user:
    token: {token}
contexts:
- name: steersman
  context:
    cluster: steersman
    user: steersman
    namespace: default
current-context: steersman
preferences: {{}}
"
    )
}

/// Writes a file that only its owner can read, atomically: a reader never sees a partial file.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let temporary = path.with_file_name(name);
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let result = options
        .open(&temporary)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&temporary, path));
    if result.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    result
}
