//! URLs of other servers.

use std::net::IpAddr;

use reqwest::Url;

/// Parses the URL of a server that receives secrets or changes: HTTPS, or on this machine.
pub(crate) fn parse_secure(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    let is_local = url.host_str().is_some_and(|host| {
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    });
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_local => Ok(url),
        "http" => Err("secrets would be sent unencrypted; use https".into()),
        other => Err(format!("scheme {other} is not supported; use https")),
    }
}
