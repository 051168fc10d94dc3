//! URLs.

use std::sync::Arc;

use super::{Library, unfit};
use crate::types::Type;
use crate::value::{EvalError, Evaluated, Value};

const URL: Type = Type::Opaque("kubernetes.URL");

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
    fn parse(text: &str) -> Option<Self> {
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
            None => return None,
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

    fn hostname(&self) -> &str {
        let host = match self.host.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => host,
            _ => &self.host,
        };
        host.trim_start_matches('[').trim_end_matches(']')
    }

    fn port(&self) -> &str {
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

fn part(args: &[Value], read: fn(&Url) -> &str) -> Evaluated {
    match args {
        [Value::Url(url)] => Ok(Value::string(read(url))),
        _ => unfit(),
    }
}

pub(super) fn add(library: &mut Library) {
    use Type::{Bool, String};
    library.global("url", [String], URL, |args| match args {
        [Value::String(text)] => match Url::parse(text) {
            Some(url) => Ok(Value::Url(Arc::new(url))),
            None => Err(EvalError(format!(
                "URL parse error during conversion from string: parse {text:?}: invalid URI for request"
            ))),
        },
        _ => unfit(),
    });
    library.global("isURL", [String], Bool, |args| match args {
        [Value::String(text)] => Ok(Value::Bool(Url::parse(text).is_some())),
        _ => unfit(),
    });
    library.member("getScheme", [URL], String, |args| part(args, |url| &url.scheme));
    library.member("getHost", [URL], String, |args| part(args, |url| &url.host));
    library.member("getHostname", [URL], String, |args| part(args, Url::hostname));
    library.member("getPort", [URL], String, |args| part(args, Url::port));
    library.member("getEscapedPath", [URL], String, |args| part(args, |url| &url.path));
    library.member("getQuery", [URL], Type::map(String, Type::list(String)), |args| match args {
        [Value::Url(url)] => {
            let mut out: Vec<(Value, Vec<Value>)> = Vec::new();
            for (key, value) in &url.query {
                let value = Value::string(value.as_str());
                match out.iter_mut().find(|(k, _)| matches!(k, Value::String(k) if **k == **key)) {
                    Some((_, values)) => values.push(value),
                    None => out.push((Value::string(key.as_str()), vec![value])),
                }
            }
            Ok(Value::map(out.into_iter().map(|(k, v)| (k, Value::list(v))).collect()))
        }
        _ => unfit(),
    });
}
