//! URLs.

use steersman_gostd::strconv::quote;

/// A parsed URL, with its parts as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    host: String,
    path: String,
    query: Vec<(String, String)>,
}

impl Url {
    /// Parses an absolute URL or an absolute path.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::read(text).ok()
    }

    /// Parses an absolute URL or an absolute path. Errors are those of Go's `url.ParseRequestURI`.
    pub fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("empty url".into());
        }
        Self::split(text, true)?;
        Self::split(text.split('#').next().unwrap_or(text), false)
    }

    /// Splits a URL into its parts. A request URI has no fragment, and no host without a scheme.
    fn split(text: &str, of_request: bool) -> Result<Self, String> {
        if text.bytes().any(|b| b < b' ' || b == 0x7f) {
            return Err("net/url: invalid control character in URL".into());
        }
        let (scheme, rest) = match text.split_once(':') {
            Some(("", _)) => return Err("missing protocol scheme".into()),
            Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
            _ => (String::new(), text),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let has_host = !scheme.is_empty() || (!of_request && !rest.starts_with("///"));
        let (host, path) = match rest.strip_prefix("//") {
            Some(rest) if has_host => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            _ if rest.starts_with('/') => ("", rest),
            // Without a slash after the scheme, the rest is opaque.
            _ if !scheme.is_empty() => ("", ""),
            _ => return Err("invalid URI for request".into()),
        };
        let host = host.rsplit('@').next().unwrap_or(host);
        check_host(host)?;
        unescaped(path, false)?;
        let query = query
            .split('&')
            .filter(|pair| !pair.is_empty() && !pair.contains(';'))
            .filter_map(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                Some((unescaped(key, true).ok()?, unescaped(value, true).ok()?))
            })
            .collect();
        Ok(Self { scheme, host: host.to_owned(), path: path.to_owned(), query })
    }

    /// Returns the scheme in lower case, or an empty string.
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Returns the host including its port.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the path as written, still escaped.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the query parameters, in order.
    #[must_use]
    pub fn query(&self) -> &[(String, String)] {
        &self.query
    }

    /// Returns the host without port and brackets.
    #[must_use]
    pub fn hostname(&self) -> &str {
        let host = match self.host.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => host,
            _ => &self.host,
        };
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Returns the port, or an empty string.
    #[must_use]
    pub fn port(&self) -> &str {
        match self.host.rsplit_once(':') {
            Some((_, port)) if !port.contains(']') => port,
            _ => "",
        }
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
}

fn check_host(host: &str) -> Result<(), String> {
    let port = if host.starts_with('[') {
        let (_, port) = host.rsplit_once(']').ok_or("missing ']' in host")?;
        port
    } else {
        host.rfind(':').map_or("", |at| &host[at..])
    };
    let is_port = port.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()));
    if !port.is_empty() && !is_port {
        return Err(format!("invalid port {} after host", quote(port)));
    }
    match host.chars().find(|c| matches!(c, ' ' | '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}')) {
        Some(bad) => Err(format!("invalid character {} in host name", quote(bad.to_string()))),
        None => Ok(()),
    }
}

/// Resolves percent escapes, and `+` as a space if `pluses`. Fails on an invalid escape.
fn unescaped(text: &str, pluses: bool) -> Result<String, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let mut width = 1;
        out.push(match byte {
            b'%' => {
                width = 3;
                let escape = bytes.get(at..bytes.len().min(at + 3)).unwrap_or_default();
                let digits = escape.get(1..3).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
                let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
                let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                byte.ok_or_else(|| format!("invalid URL escape {}", quote(escape)))?
            }
            b'+' if pluses => b' ',
            byte => byte,
        });
        at += width;
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}
