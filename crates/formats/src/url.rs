//! URLs.

/// The parts of a URL as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    host: String,
    path: String,
    query: Vec<(String, String)>,
}

impl Url {
    /// Reads an absolute URL, or an absolute path.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.bytes().any(|b| b <= b' ' || b == 0x7f) {
            return None;
        }
        let (scheme, rest) = match text.split_once(':') {
            Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
            _ if text.starts_with('/') => (String::new(), text),
            _ => return None,
        };
        let rest = rest.split('#').next().unwrap_or(rest);
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, path) = match rest.strip_prefix("//") {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            None if rest.starts_with('/') => ("", rest),
            // What follows a scheme without a slash is opaque.
            None => ("", ""),
        };
        let host = host.rsplit('@').next().unwrap_or(host);
        let port = host.rsplit_once(':').filter(|(_, port)| !port.contains(']')).map(|(_, port)| port);
        if port.is_some_and(|port| !port.bytes().all(|b| b.is_ascii_digit())) {
            return None;
        }
        let query = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                Some((decoded(key)?, decoded(value)?))
            })
            .collect::<Option<_>>()
            .unwrap_or_default();
        decoded(path)?;
        Some(Self { scheme, host: host.to_owned(), path: path.to_owned(), query })
    }

    /// The scheme in lower case, or nothing.
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The host with its port.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The path as it was written.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The parameters in their order.
    #[must_use]
    pub fn query(&self) -> &[(String, String)] {
        &self.query
    }

    /// The host without port and brackets.
    #[must_use]
    pub fn hostname(&self) -> &str {
        let host = match self.host.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => host,
            _ => &self.host,
        };
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The port, or nothing.
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

/// Percent escapes and pluses resolved; `None` if an escape is broken.
fn decoded(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'%' => {
                let digits = std::str::from_utf8(bytes.get(at + 1..at + 3)?).ok()?;
                out.push(u8::from_str_radix(digits, 16).ok()?);
                at += 3;
            }
            b'+' => {
                out.push(b' ');
                at += 1;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}
