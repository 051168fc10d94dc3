//! URLs, split and joined as by Go's `net/url`.
//!
//! The `url` crate follows the WHATWG rules, which normalize and reject other input than RFC 3986 and Go.

use steersman_gostd::{netip, strconv::quote};
use steersman_gotemplate::{CallError, Funcs, Map, Str, Value};

use super::args::define;
use super::{Host, NIL_DEREFERENCE, map_memory};

pub(super) fn register<H: Host>(funcs: &mut Funcs<H>) {
    define!(funcs {
        "urlParse" [budget] (url: &Str) => {
            budget.charge_memory(map_memory(8) + 2 * url.len())?;
            url_parse(url)
        };
        "urlJoin" (parts: Map) => url_join(&parts);
    });
}

fn url_parse(url: &Str) -> Result<Value, CallError> {
    let url = Url::parse(url).map_err(|error| CallError::new(format!("unable to parse url: {error}")))?;
    let hostname = url.hostname();
    Ok(Value::map([
        ("scheme", Value::string(url.scheme)),
        ("hostname", Value::string(hostname)),
        ("host", Value::string(url.host)),
        ("path", Value::string(url.path)),
        ("query", Value::string(url.query)),
        ("opaque", Value::string(url.opaque)),
        ("fragment", Value::string(url.fragment)),
        ("userinfo", Value::string(url.user.map(|user| user.text()).unwrap_or_default())),
    ]))
}

fn url_join(parts: &Map) -> Result<Vec<u8>, CallError> {
    let part = |key: &str| match parts.get(key.as_bytes()) {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(text.to_vec()),
        Some(Value::Nil) => Err(CallError::new(NIL_DEREFERENCE)),
        Some(other) => Err(CallError::new(format!(
            "unable to parse {key} key, must be of type string, but {} found",
            other.kind()
        ))),
    };
    let mut url = Url {
        scheme: part("scheme")?,
        host: part("host")?,
        path: part("path")?,
        query: part("query")?,
        opaque: part("opaque")?,
        fragment: part("fragment")?,
        ..Url::default()
    };
    let user = part("userinfo")?;
    if !user.is_empty() {
        let whole = [b"proto://", user.as_slice(), b"@host"].concat();
        let parsed = Url::parse(&whole)
            .map_err(|error| CallError::new(format!("unable to parse userinfo in dict: {error}")))?;
        url.user = parsed.user;
    }
    Ok(url.text())
}

/// A URL split into its parts, each decoded.
#[derive(Default)]
pub(crate) struct Url {
    pub(crate) scheme: Vec<u8>,
    opaque: Vec<u8>,
    user: Option<User>,
    pub(crate) host: Vec<u8>,
    pub(crate) path: Vec<u8>,
    /// The path as written, if that differs from its default escaping.
    raw_path: Vec<u8>,
    query: Vec<u8>,
    /// Whether the URL has a question mark with nothing after it.
    force_query: bool,
    /// Whether the scheme is followed by a path that begins with a slash, without `//`.
    omit_host: bool,
    fragment: Vec<u8>,
}

#[derive(Clone)]
struct User {
    name: Vec<u8>,
    password: Option<Vec<u8>>,
}

impl User {
    fn text(&self) -> Vec<u8> {
        let mut text = escape(&self.name, Part::User);
        if let Some(password) = &self.password {
            text.push(b':');
            text.extend(escape(password, Part::User));
        }
        text
    }
}

/// The parts of a URL, which differ in the characters to escape.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    Host,
    Zone,
    User,
    Fragment,
    /// A segment of the path, between two slashes.
    Segment,
}

fn must_escape(byte: u8, part: Part) -> bool {
    if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
        return false;
    }
    match part {
        Part::Host | Part::Zone => !b"!$&'()*+,;=:[]<>\"".contains(&byte),
        Part::Path => !b"$&+,/:;=@".contains(&byte),
        Part::User => !b"$&+,;=".contains(&byte),
        Part::Segment => !b"$&+:=@".contains(&byte),
        Part::Fragment => !b"$&+,/:;=?@!()*".contains(&byte),
    }
}

fn escape(text: &[u8], part: Part) -> Vec<u8> {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        if must_escape(*byte, part) {
            let digit = |n: u8| HEX.get(usize::from(n)).copied().unwrap_or(b'0');
            out.extend([b'%', digit(byte >> 4), digit(byte & 15)]);
        } else {
            out.push(*byte);
        }
    }
    out
}

fn unescape(text: &[u8], part: Part) -> Result<Vec<u8>, String> {
    let bad = |escape: &[u8]| format!("invalid URL escape {}", quote(escape));
    let is_host = matches!(part, Part::Host | Part::Zone);
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        if *first != b'%' {
            if is_host && *first < 0x80 && must_escape(*first, part) {
                return Err(format!("invalid character {} in host name", quote([*first])));
            }
            out.push(*first);
            rest = tail;
            continue;
        }
        let escape = rest.get(..3).unwrap_or(rest);
        let hex = |at: usize| escape.get(at).and_then(|b| char::from(*b).to_digit(16));
        let (Some(high), Some(low)) = (hex(1), hex(2)) else { return Err(bad(escape)) };
        let byte = u8::try_from(high * 16 + low).unwrap_or(0);
        // Hosts may only escape non-ASCII bytes and the percent sign; zones also the characters allowed there
        // unescaped.
        let forbidden = escape != b"%25"
            && match part {
                Part::Host => high < 8,
                Part::Zone => byte != b' ' && must_escape(byte, Part::Host),
                _ => false,
            };
        if forbidden {
            return Err(bad(escape));
        }
        out.push(byte);
        rest = rest.get(3..).unwrap_or_default();
    }
    Ok(out)
}

/// Splits at the first `separator`; the second part is `None` if there is none.
fn cut(text: &[u8], separator: u8) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(separator, text) {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..)),
        None => (text, None),
    }
}

impl Url {
    /// Returns the host without port and brackets.
    pub(crate) fn hostname(&self) -> Vec<u8> {
        let host = self.host.as_slice();
        let name = match memchr::memrchr(b':', host) {
            Some(at) if is_optional_port(host.get(at..).unwrap_or_default()) => {
                host.get(..at).unwrap_or_default()
            }
            _ => host,
        };
        name.strip_prefix(b"[").and_then(|name| name.strip_suffix(b"]")).unwrap_or(name).to_vec()
    }

    /// `url.Parse`; the error is Go's message.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        let (main, fragment) = cut(text, b'#');
        let error = |text: &[u8], error: String| format!("parse {}: {error}", quote(text));
        let mut url = Self::parse_main(main).map_err(|problem| error(main, problem))?;
        if let Some(fragment) = fragment {
            url.fragment = unescape(fragment, Part::Fragment).map_err(|problem| error(text, problem))?;
        }
        Ok(url)
    }

    fn parse_main(text: &[u8]) -> Result<Self, String> {
        if text.iter().any(|b| *b < b' ' || *b == 0x7F) {
            return Err("net/url: invalid control character in URL".into());
        }
        let mut url = Self::default();
        if text == b"*" {
            url.path = text.to_vec();
            return Ok(url);
        }
        let (scheme, rest) = split_scheme(text)?;
        url.scheme = scheme.to_ascii_lowercase();
        let (mut rest, query) = cut(rest, b'?');
        url.query = query.unwrap_or_default().to_vec();
        url.force_query = query.is_some_and(<[u8]>::is_empty);
        if !rest.starts_with(b"/") {
            if !scheme.is_empty() {
                url.opaque = rest.to_vec();
                return Ok(url);
            }
            if cut(rest, b'/').0.contains(&b':') {
                return Err("first path segment in URL cannot contain colon".into());
            }
        }
        if let Some(authority) = rest.strip_prefix(b"//")
            && (!scheme.is_empty() || !rest.starts_with(b"///"))
        {
            let end = memchr::memchr(b'/', authority).unwrap_or(authority.len());
            let (authority, path) = authority.split_at_checked(end).unwrap_or((authority, &[]));
            rest = path;
            url.set_authority(authority)?;
        } else {
            url.omit_host = !scheme.is_empty() && rest.starts_with(b"/");
        }
        url.set_path(rest)?;
        Ok(url)
    }

    fn set_path(&mut self, text: &[u8]) -> Result<(), String> {
        self.path = unescape(text, Part::Path)?;
        self.raw_path = if escape(&self.path, Part::Path) == text { Vec::new() } else { text.to_vec() };
        Ok(())
    }

    /// `URL.EscapedPath`.
    fn escaped_path(&self) -> Vec<u8> {
        let valid = |b: &u8| b"!$&'()*+,;=:@[]%".contains(b) || !must_escape(*b, Part::Path);
        if !self.raw_path.is_empty()
            && self.raw_path.iter().all(valid)
            && unescape(&self.raw_path, Part::Path).as_ref() == Ok(&self.path)
        {
            return self.raw_path.clone();
        }
        if self.path == b"*" { self.path.clone() } else { escape(&self.path, Part::Path) }
    }

    /// `URL.ResolveReference`, for a reference without a fragment.
    pub(crate) fn resolve(&self, reference: Self) -> Self {
        let mut url = reference;
        let is_absolute = !url.scheme.is_empty();
        let path = url.escaped_path();
        if !is_absolute {
            url.scheme.clone_from(&self.scheme);
        }
        if is_absolute || !url.host.is_empty() || url.user.is_some() {
            url.set_resolved_path(&resolve_path(&path, b""));
            if !is_absolute {
                url.opaque.clone_from(&self.opaque);
            }
            return url;
        }
        if path.is_empty() && !url.force_query && url.query.is_empty() {
            url.query.clone_from(&self.query);
        }
        if path.is_empty() && !self.opaque.is_empty() {
            url.opaque.clone_from(&self.opaque);
            return url;
        }
        url.host.clone_from(&self.host);
        url.user.clone_from(&self.user);
        url.set_resolved_path(&resolve_path(&self.escaped_path(), &path));
        // Differs from Go here, as the schema validator corrects it.
        url.opaque.clone_from(&self.opaque);
        url
    }

    /// Sets the path. As in Go, an error leaves it empty.
    fn set_resolved_path(&mut self, path: &[u8]) {
        if self.set_path(path).is_err() {
            self.path.clear();
            self.raw_path.clear();
        }
    }

    fn set_authority(&mut self, authority: &[u8]) -> Result<(), String> {
        let at = memchr::memrchr(b'@', authority);
        let host = at.and_then(|at| authority.get(at + 1..)).unwrap_or(authority);
        self.host = parse_host(&self.scheme, host)?;
        let Some(user) = at.and_then(|at| authority.get(..at)) else { return Ok(()) };
        if !user.iter().all(|b| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(b)) {
            return Err("net/url: invalid userinfo".into());
        }
        let (name, password) = cut(user, b':');
        self.user = Some(User {
            name: unescape(name, Part::User)?,
            password: password.map(|password| unescape(password, Part::User)).transpose()?,
        });
        Ok(())
    }

    /// `URL.String`.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.scheme.is_empty() {
            out.extend_from_slice(&self.scheme);
            out.push(b':');
        }
        if self.opaque.is_empty() {
            if !self.host.is_empty()
                || self.user.is_some()
                || (!self.scheme.is_empty() && !self.path.is_empty() && !self.omit_host)
            {
                out.extend_from_slice(b"//");
            }
            if let Some(user) = &self.user {
                out.extend(user.text());
                out.push(b'@');
            }
            out.extend(escape(&self.host, Part::Host));
            let path = self.escaped_path();
            if !path.is_empty() && !path.starts_with(b"/") && !self.host.is_empty() {
                out.push(b'/');
            }
            // A colon in the first segment would make it look like a scheme.
            if out.is_empty() && cut(&path, b'/').0.contains(&b':') {
                out.extend_from_slice(b"./");
            }
            out.extend(path);
        } else {
            out.extend_from_slice(&self.opaque);
        }
        if self.force_query || !self.query.is_empty() {
            out.push(b'?');
            out.extend_from_slice(&self.query);
        }
        if !self.fragment.is_empty() {
            out.push(b'#');
            out.extend(escape(&self.fragment, Part::Fragment));
        }
        out
    }
}

/// Go's `url.PathUnescape`; the error is Go's message.
pub(crate) fn path_unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    unescape(text, Part::Segment)
}

/// Go's `url.PathEscape`.
pub(crate) fn path_escape(text: &[u8]) -> Vec<u8> {
    escape(text, Part::Segment)
}

/// Resolves a path relative to a base, including its dot segments.
fn resolve_path(base: &[u8], reference: &[u8]) -> Vec<u8> {
    let full = match reference.first() {
        None => base.to_vec(),
        Some(b'/') => reference.to_vec(),
        Some(_) => {
            let end = memchr::memrchr(b'/', base).map_or(0, |at| at + 1);
            [base.get(..end).unwrap_or_default(), reference].concat()
        }
    };
    if full.is_empty() {
        return full;
    }
    let mut path = vec![b'/'];
    let mut is_first = true;
    let mut last: &[u8] = b"";
    for part in full.split(|b| *b == b'/') {
        last = part;
        match part {
            b"." => is_first = false,
            b".." => {
                let end = memchr::memrchr(b'/', path.get(1..).unwrap_or_default()).map_or(1, |at| at + 1);
                path.truncate(end);
                is_first = path.len() == 1;
            }
            _ => {
                if !is_first {
                    path.push(b'/');
                }
                path.extend_from_slice(part);
                is_first = false;
            }
        }
    }
    if matches!(last, b"." | b"..") {
        path.push(b'/');
    }
    // The path already begins with a slash of its own.
    if path.get(1) == Some(&b'/') {
        path.remove(0);
    }
    path
}

fn split_scheme(text: &[u8]) -> Result<(&[u8], &[u8]), String> {
    for (i, byte) in text.iter().enumerate() {
        match byte {
            b if b.is_ascii_alphabetic() => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if i > 0 => {}
            b':' if i == 0 => return Err("missing protocol scheme".into()),
            b':' => return Ok((text.get(..i).unwrap_or_default(), text.get(i + 1..).unwrap_or_default())),
            _ => break,
        }
    }
    Ok((&[], text))
}

/// Whether it is empty, or a colon followed by digits.
fn is_optional_port(text: &[u8]) -> bool {
    match text.split_first() {
        None => true,
        Some((b':', digits)) => digits.iter().all(u8::is_ascii_digit),
        Some(_) => false,
    }
}

fn parse_host(scheme: &[u8], host: &[u8]) -> Result<Vec<u8>, String> {
    let invalid_port = |port: &[u8]| format!("invalid port {} after host", quote(port));
    match memchr::memrchr(b'[', host) {
        Some(0) => {
            let close = memchr::memrchr(b']', host).ok_or("missing ']' in host")?;
            let (name, port) = host.split_at_checked(close).unwrap_or((host, &[]));
            let (name, port) = (name.get(1..).unwrap_or_default(), port.get(1..).unwrap_or_default());
            if !is_optional_port(port) {
                return Err(invalid_port(port));
            }
            let name = match memchr::memmem::find(name, b"%25").and_then(|at| name.split_at_checked(at)) {
                Some((address, zone)) => {
                    [unescape(address, Part::Host)?, unescape(zone, Part::Zone)?].concat()
                }
                None => unescape(name, Part::Host)?,
            };
            check_ip_literal(&name)?;
            return Ok([b"[", name.as_slice(), b"]", port].concat());
        }
        Some(_) => return Err("invalid IP-literal".into()),
        None => {}
    }
    // Database URLs list several hosts with ports; only http and https forbid that.
    let strict = matches!(scheme, b"http" | b"https");
    let colon = if strict { memchr::memchr(b':', host) } else { memchr::memrchr(b':', host) };
    if let Some(port) = colon.and_then(|at| host.get(at..))
        && !is_optional_port(port)
    {
        return Err(invalid_port(port));
    }
    unescape(host, Part::Host)
}

/// Checks a host in brackets, which must be an IPv6 address, optionally with a zone.
fn check_ip_literal(name: &[u8]) -> Result<(), String> {
    match netip::parse_addr(&String::from_utf8_lossy(name)) {
        Ok((address, _)) if address.is_ipv4() => Err("invalid IP-literal".into()),
        Ok(_) => Ok(()),
        Err(error) => Err(format!("invalid host: {error}")),
    }
}
