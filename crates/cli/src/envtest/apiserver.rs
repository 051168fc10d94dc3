//! `kube-apiserver`: reads flags and files, and requests its etcd to open a port.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use steersman_cluster::KUBERNETES_VERSION;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::flags::Flags;
use super::link::{MARK, Opened, ProxyCertificate, Registration, RequestHeaders, SERVERS, TokenUser};
use super::log;
use crate::commands::interruption;

/// The flags of the real program with their types, from its help.
const FLAGS: &str = include_str!("../../data/kube-apiserver-flags.tsv");
/// The admission plugins of the real program.
const PLUGINS: &str = include_str!("../../data/admission-plugins.txt");
/// Flags with an effect. All others are accepted and ignored.
const HONOURED: [&str; 26] = [
    "anonymous-auth",
    "authorization-mode",
    "bind-address",
    "cert-dir",
    "client-ca-file",
    "disable-admission-plugins",
    "enable-admission-plugins",
    "etcd-prefix",
    "etcd-servers",
    "event-ttl",
    "feature-gates",
    "help",
    "proxy-client-cert-file",
    "proxy-client-key-file",
    "requestheader-allowed-names",
    "requestheader-client-ca-file",
    "requestheader-extra-headers-prefix",
    "requestheader-group-headers",
    "requestheader-uid-headers",
    "requestheader-username-headers",
    "secure-port",
    "tls-cert-file",
    "tls-private-key-file",
    "token-auth-file",
    "v",
    "version",
];
/// Environment variable that enables controllers.
const WORKLOADS: &str = "STEER_ENVTEST_WORKLOADS";
/// Timeout for the etcd to accept a connection.
const ETCD_TIMEOUT: Duration = Duration::from_secs(20);
/// Timeout for closing a port.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_ANSWER: usize = 1 << 20;

pub(super) fn run(words: &[String]) -> Result<(), String> {
    let flags = match Flags::parse("kube-apiserver", words, kind) {
        Ok(flags) => flags,
        Err(error) => {
            eprintln!("Error: {error}");
            std::process::exit(1);
        }
    };
    if flags.is_on("help", false)? {
        print!("{}", help());
        return Ok(());
    }
    if flags.get("version").is_some() {
        println!("Kubernetes {KUBERNETES_VERSION}");
        return Ok(());
    }
    let ignored: Vec<String> =
        flags.names().filter(|name| !HONOURED.contains(name)).map(|name| format!("--{name}")).collect();
    if !ignored.is_empty() {
        log("I", &format_args!("ignoring unsupported flags: {}", ignored.join(" ")));
    }
    let etcd = etcd_address(&flags)?;
    let registration = registration(&flags)?;
    let runtime = crate::runtime::current_thread().map_err(|failure| failure.message().to_owned())?;
    runtime.block_on(serve(&etcd, &registration))
}

fn kind(name: &str) -> Option<&'static str> {
    if name == "help" {
        return Some("bool");
    }
    FLAGS
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .find(|(known, _)| *known == name)
        .map(|(_, kind)| kind)
}

fn help() -> String {
    let mut text = String::from(
        "The Kubernetes API of steer envtest. Its etcd has to be that of steer envtest too.\n\n\
         Usage:\n  kube-apiserver [flags]\n\nFlags (those marked * have a meaning here, the others are ignored):\n\n",
    );
    for (name, kind) in FLAGS.lines().filter_map(|line| line.split_once('\t')) {
        let kind = if kind == "bool" { String::new() } else { format!(" {kind}") };
        let mark = if HONOURED.contains(&name) { " *" } else { "" };
        text.push_str(&format!("      --{name}{kind}{mark}\n"));
    }
    text
}

/// Returns host and port of the etcd.
fn etcd_address(flags: &Flags) -> Result<String, String> {
    let servers = flags.list("etcd-servers");
    let first = servers.first().ok_or("--etcd-servers must be specified")?;
    let address = first
        .strip_prefix("http://")
        .ok_or_else(|| format!("--etcd-servers={first}: the etcd of steer envtest speaks plain http only"))?;
    Ok(address.trim_end_matches('/').to_owned())
}

fn registration(flags: &Flags) -> Result<Registration, String> {
    let ip: IpAddr = parsed(flags, "bind-address")?.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let port: u16 = parsed(flags, "secure-port")?.unwrap_or(6443);
    let (certificates, key) = certificate(flags, ip)?;
    let modes = flags.list("authorization-mode");
    for mode in &modes {
        if !["AlwaysAllow", "AlwaysDeny", "ABAC", "Webhook", "RBAC", "Node"].contains(&mode.as_str()) {
            return Err(format!("authorization-mode {mode:?} is not a valid mode"));
        }
    }
    let allow_all = modes.is_empty() || modes.iter().any(|mode| mode == "AlwaysAllow");
    if !allow_all && !modes.iter().any(|mode| mode == "RBAC") {
        return Err(format!(
            "--authorization-mode={}: steer envtest authorizes by RBAC or AlwaysAllow",
            modes.join(",")
        ));
    }
    let event_ttl = match flags.get("event-ttl") {
        None => Duration::from_secs(3600),
        Some(text) => crate::flags::duration(text)
            .map_err(|why| format!("invalid argument {text:?} for \"--event-ttl\" flag: {why}"))?,
    };
    Ok(Registration {
        prefix: flags.get("etcd-prefix").unwrap_or("/registry").to_owned(),
        address: SocketAddr::new(ip, port),
        certificates,
        key,
        client_authorities: flags.get("client-ca-file").map(read).transpose()?.unwrap_or_default(),
        // The real server disables anonymous requests with the mode AlwaysAllow.
        anonymous: flags.is_on("anonymous-auth", true)? && !allow_all,
        request_headers: request_headers(flags)?,
        proxy_certificate: proxy_certificate(flags)?,
        tokens: flags
            .get("token-auth-file")
            .map(read)
            .transpose()?
            .map_or_else(Vec::new, |text| tokens(&text)),
        disabled_plugins: disabled_plugins(flags)?,
        allow_all,
        event_ttl_seconds: event_ttl.as_secs(),
        workloads: std::env::var(WORKLOADS).is_ok_and(|value| crate::flags::go_bool(&value) == Some(true)),
    })
}

/// Returns the front proxy settings. As in the real server, they require a request-header CA.
fn request_headers(flags: &Flags) -> Result<Option<RequestHeaders>, String> {
    let Some(file) = flags.get("requestheader-client-ca-file") else { return Ok(None) };
    Ok(Some(RequestHeaders {
        authorities: read(file)?,
        allowed_names: flags.list("requestheader-allowed-names"),
        username_headers: flags.list("requestheader-username-headers"),
        uid_headers: flags.list("requestheader-uid-headers"),
        group_headers: flags.list("requestheader-group-headers"),
        extra_header_prefixes: flags.list("requestheader-extra-headers-prefix"),
    }))
}

/// Returns the client certificate for servers behind APIServices.
fn proxy_certificate(flags: &Flags) -> Result<Option<ProxyCertificate>, String> {
    match (flags.get("proxy-client-cert-file"), flags.get("proxy-client-key-file")) {
        (Some(certificates), Some(key)) => {
            Ok(Some(ProxyCertificate { certificates: read(certificates)?, key: read(key)? }))
        }
        _ => Ok(None),
    }
}

/// Parses a flag's value.
fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
    flags: &Flags,
    name: &str,
) -> Result<Option<T>, String> {
    let parse = |text: &str| {
        text.parse().map_err(|why| format!("invalid argument {text:?} for \"--{name}\" flag: {why}"))
    };
    flags.get(name).map(parse).transpose()
}

fn read(path: impl AsRef<Path>) -> Result<String, String> {
    let path = path.as_ref();
    std::fs::read_to_string(path).map_err(|error| format!("open {}: {error}", path.display()))
}

/// Returns the serving certificate and key.
///
/// They are those named by flags, else those in the certificate directory, else newly generated and written there.
fn certificate(flags: &Flags, ip: IpAddr) -> Result<(String, String), String> {
    if let (Some(certificate), Some(key)) = (flags.get("tls-cert-file"), flags.get("tls-private-key-file")) {
        return Ok((read(certificate)?, read(key)?));
    }
    let directory = PathBuf::from(flags.get("cert-dir").unwrap_or("/var/run/kubernetes"));
    let (certificate, key) = (directory.join("apiserver.crt"), directory.join("apiserver.key"));
    if certificate.exists() && key.exists() {
        return Ok((read(certificate)?, read(key)?));
    }
    let names = [ip.to_string(), "127.0.0.1".into(), "localhost".into(), "kubernetes.default.svc".into()];
    let made = steersman_cluster::self_signed(&names).map_err(|error| error.to_string())?;
    let failed =
        |error: std::io::Error| format!("cannot write certificates into {}: {error}", directory.display());
    std::fs::create_dir_all(&directory).map_err(failed)?;
    std::fs::write(&certificate, &made.0).map_err(failed)?;
    write_secret(&key, &made.1).map_err(failed)?;
    Ok(made)
}

fn write_secret(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(path)?.write_all(text.as_bytes())
}

fn disabled_plugins(flags: &Flags) -> Result<BTreeSet<String>, String> {
    let disabled: BTreeSet<String> = flags.list("disable-admission-plugins").into_iter().collect();
    let enabled = flags.list("enable-admission-plugins");
    for (flag, plugin) in disabled
        .iter()
        .map(|plugin| ("disable", plugin))
        .chain(enabled.iter().map(|plugin| ("enable", plugin)))
    {
        if !PLUGINS.lines().any(|known| known == plugin) {
            return Err(format!("{flag}-admission-plugins plugin {plugin:?} is unknown"));
        }
        if flag == "enable" && disabled.contains(plugin) {
            return Err(format!(
                "{plugin} in enable-admission-plugins and disable-admission-plugins overlapped"
            ));
        }
    }
    Ok(disabled)
}

/// Parses a token file: lines of token, name, uid and groups; several groups are one quoted field.
fn tokens(text: &str) -> Vec<TokenUser> {
    text.lines()
        .map(csv_fields)
        .filter(|fields| fields.len() >= 3)
        .map(|fields| TokenUser {
            token: fields[0].clone(),
            name: fields[1].clone(),
            uid: fields[2].clone(),
            groups: fields
                .get(3)
                .into_iter()
                .flat_map(|groups| groups.split(','))
                .map(|group| group.trim().to_owned())
                .filter(|group| !group.is_empty())
                .collect(),
        })
        .collect()
}

fn csv_fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for character in line.chars() {
        match character {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => fields.last_mut().unwrap_or(&mut String::new()).push(other),
        }
    }
    fields.iter().map(|field| field.trim().to_owned()).collect()
}

async fn serve(etcd: &str, registration: &Registration) -> Result<(), String> {
    let interruption = interruption().map_err(|error| format!("cannot wait for signals: {error}"))?;
    let mut link = Link::connect(etcd).await?;
    let version = link.ask(Method::GET, "/version", Bytes::new()).await?;
    if version.1.get(MARK).is_none() {
        return Err(format!(
            "http://{etcd} is not the etcd of steer envtest, and this server needs that one: start the etcd \
             beside this program, or use the real kube-apiserver"
        ));
    }
    let body = serde_json::to_vec(registration).map_err(|error| error.to_string())?;
    let (status, answer) = link.ask(Method::POST, SERVERS, body.into()).await?;
    if status != StatusCode::OK {
        return Err(answer["error"].as_str().unwrap_or("the etcd did not open a port").to_owned());
    }
    let opened: Opened = serde_json::from_value(answer).map_err(|error| error.to_string())?;
    log("I", &format_args!("Serving securely on {}", opened.address));
    let path = format!("{SERVERS}/{}", opened.id);
    tokio::select! {
        () = interruption => {}
        // The etcd closes the port if this connection ends before the request to close it.
        _ = link.ask(Method::GET, &path, Bytes::new()) => {
            return Err(format!("lost the connection to the etcd at {etcd}"));
        }
    }
    // The next server may use the same port.
    let close = async { Link::connect(etcd).await?.ask(Method::DELETE, &path, Bytes::new()).await };
    let _ = timeout(CLOSE_TIMEOUT, close).await;
    Ok(())
}

/// A connection to an etcd.
struct Link {
    address: String,
    sender: http1::SendRequest<Full<Bytes>>,
}

impl Link {
    async fn connect(address: &str) -> Result<Self, String> {
        let deadline = Instant::now() + ETCD_TIMEOUT;
        let stream = loop {
            match TcpStream::connect(address).await {
                Ok(stream) => break stream,
                Err(error) if Instant::now() >= deadline => {
                    return Err(format!("the etcd at http://{address} does not answer: {error}"));
                }
                // It may still be starting.
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        };
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| format!("the etcd at http://{address}: {error}"))?;
        tokio::spawn(async move {
            // Errors are reported to the pending request.
            let _ = connection.await;
        });
        Ok(Self { address: address.to_owned(), sender })
    }

    async fn ask(&mut self, method: Method, path: &str, body: Bytes) -> Result<(StatusCode, Value), String> {
        let address = self.address.clone();
        let failed = |error: &dyn std::fmt::Display| format!("the etcd at http://{address}: {error}");
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &self.address)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| failed(&error))?;
        let answer = self.sender.send_request(request).await.map_err(|error| failed(&error))?;
        let status = answer.status();
        let body =
            Limited::new(answer.into_body(), MAX_ANSWER).collect().await.map_err(|error| failed(&error))?;
        // A response that is not JSON is not from this program's etcd, which the caller detects.
        Ok((status, serde_json::from_slice(&body.to_bytes()).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(words: &[&str]) -> Flags {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        Flags::parse("kube-apiserver", &words, kind).unwrap()
    }

    #[test]
    fn flags_with_a_meaning_are_flags_of_the_real_program() {
        for name in HONOURED {
            assert!(kind(name).is_some(), "{name}");
        }
        assert!(help().contains("--secure-port int *") && !help().contains("insecure-port"));
    }

    #[test]
    fn plugins_are_those_of_the_real_program() {
        let disabled = |words: &[&str]| disabled_plugins(&flags(words));
        let one = disabled(&["--disable-admission-plugins=ServiceAccount,Priority"]).unwrap();
        assert_eq!(one.into_iter().collect::<Vec<_>>(), ["Priority", "ServiceAccount"]);
        let unknown = disabled(&["--enable-admission-plugins=Nonsense"]).unwrap_err();
        assert_eq!(unknown, "enable-admission-plugins plugin \"Nonsense\" is unknown");
        assert!(
            disabled(&["--enable-admission-plugins=Priority", "--disable-admission-plugins=Priority"])
                .is_err()
        );
    }

    #[test]
    fn token_files_name_users_and_groups() {
        let users = tokens("secret,jane,7,\"developers,testers\"\nother,joe,8\nbroken\n");
        assert_eq!(users.len(), 2);
        assert_eq!(users[0].groups, ["developers", "testers"]);
        assert_eq!((users[1].name.as_str(), users[1].user().uid.as_str()), ("joe", "8"));
    }
}
