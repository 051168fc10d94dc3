//! Schema addresses: resolving URLs as Go does, and their fragments.

use crate::functions::urls::{Url, path_escape, path_unescape};
use crate::gofmt;

/// An address split into URL and fragment.
pub(super) struct Address {
    pub(super) url: String,
    /// Unescaped fragment.
    pub(super) fragment: String,
}

/// Quotes as Go's `%q` does.
pub(super) fn quote(text: &str) -> String {
    gofmt::quote(&text.into())
}

/// Resolves a reference against a base.
pub(super) fn join(base: &str, reference: &str) -> Result<Address, String> {
    // A reference within the resource needs no URL parsing; most are of this kind.
    if reference.starts_with('#') {
        let (_, fragment) = split_fragment(reference)?;
        return Ok(Address { url: base.to_owned(), fragment });
    }
    let parse = |url: &str| {
        Url::parse(url.as_bytes()).map_err(|error| format!("error in parsing {}: {error}", quote(url)))
    };
    let base = parse(base)?;
    let (url, fragment) = split_fragment(reference)?;
    let url = base.resolve(parse(url)?).text();
    Ok(Address { url: String::from_utf8_lossy(&url).into_owned(), fragment })
}

/// Splits off the fragment and decodes it.
pub(super) fn split_fragment(address: &str) -> Result<(&str, String), String> {
    let (url, fragment) = address.split_once('#').unwrap_or((address, ""));
    let fragment = path_unescape(fragment.as_bytes())
        .map_err(|error| format!("error in parsing {}: {error}", quote(address)))?;
    Ok((url, String::from_utf8_lossy(&fragment).into_owned()))
}

/// Returns the scheme of a URL, in lower case.
pub(super) fn scheme(url: &str) -> String {
    let scheme = Url::parse(url.as_bytes()).map(|url| url.scheme).unwrap_or_default();
    String::from_utf8_lossy(&scheme).into_owned()
}

/// Escapes a fragment except for its slashes.
pub(super) fn encode(fragment: &str) -> String {
    let parts = fragment.split('/').map(|part| path_escape(part.as_bytes()));
    let parts: Vec<String> = parts.map(|part| String::from_utf8_lossy(&part).into_owned()).collect();
    parts.join("/")
}

/// Escapes a token for a JSON pointer.
pub(super) fn escape_token(token: &str) -> String {
    token.replace('~', "~0").replace('/', "~1")
}

/// Unescapes a token of a JSON pointer; `None` if an escape is invalid.
pub(super) fn unescape_token(token: &str) -> Option<String> {
    let mut parts = token.split('~');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut rest = part.chars();
        text.push(match rest.next()? {
            '0' => '~',
            '1' => '/',
            _ => return None,
        });
        text.push_str(rest.as_str());
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved_as_by_go() {
        let cases = [
            ("file:///values.schema.json", "other.json", "file:///other.json"),
            ("file:///values.schema.json", "#/a", "file:///values.schema.json"),
            ("http://h/a/b/c", "../d", "http://h/a/d"),
            ("http://h/a/b/c", "./d/.", "http://h/a/b/d/"),
            ("http://h/a/b/c?q", "", "http://h/a/b/c?q"),
            ("http://h/a", "//i/b", "http://i/b"),
            ("http://h/a", "/b%2Fc?", "http://h/b%2Fc?"),
            ("http://h/a", "urn:x:y", "urn:x:y"),
            ("urn:x:y", "#/a", "urn:x:y"),
            ("urn:x:y", "z", "urn:x:y"),
        ];
        for (base, reference, joined) in cases {
            assert_eq!(join(base, reference).map(|address| address.url), Ok(joined.to_owned()));
        }
        assert_eq!(
            join("http://h/", "#%zz").err().as_deref(),
            Some(r##"error in parsing "#%zz": invalid URL escape "%zz""##)
        );
    }

    #[test]
    fn pointers_are_escaped() {
        assert_eq!(encode("/a b/c~1d/é;"), "/a%20b/c~1d/%C3%A9%3B");
        assert_eq!(unescape_token("a~1b~0").as_deref(), Some("a/b~"));
        assert_eq!(unescape_token("a~2"), None);
        assert_eq!(unescape_token("a~"), None);
    }
}
