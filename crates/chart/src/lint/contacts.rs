//! E-mail addresses and URLs, by the expressions of the validator that Helm uses.

use std::sync::LazyLock;

use regex::Regex;

use crate::functions::urls::Url;

/// Non-ASCII characters that addresses may contain.
const WIDE: &str = r"[\x{00A0}-\x{D7FF}\x{F900}-\x{FDCF}\x{FDF0}-\x{FFEF}]";

static EMAIL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let atom = format!(r"([a-zA-Z0-9!#$%&'*+\-/=?^_`{{|}}~]|{WIDE})+");
    let word = format!("([a-zA-Z0-9]|{WIDE})");
    Regex::new(&format!(
        r"^((({atom}(\.{atom})*)|((\x22)((((\x20|\x09)*(\x0d\x0a))?(\x20|\x09)+)?(([\x01-\x08\x0b\x0c\x0e-\x1f\x7f]|\x21|[\x23-\x5b]|[\x5d-\x7e]|{WIDE})|(\([\x01-\x09\x0b\x0c\x0d-\x7f]|{WIDE}))))*(((\x20|\x09)*(\x0d\x0a))?(\x20|\x09)+)?(\x22)))@(({word}|({word}([a-zA-Z]|[0-9]|-|\.|_|~|{WIDE})*{word}))\.)+(([a-zA-Z]|{WIDE})|(([a-zA-Z]|{WIDE})([a-zA-Z]|[0-9]|-|_|~|{WIDE})*([a-zA-Z]|{WIDE})))\.?$"
    ))
    .ok()
});

/// An IPv6 address.
const IP: &str = r"(([0-9a-fA-F]{1,4}:){7,7}[0-9a-fA-F]{1,4}|([0-9a-fA-F]{1,4}:){1,7}:|([0-9a-fA-F]{1,4}:){1,6}:[0-9a-fA-F]{1,4}|([0-9a-fA-F]{1,4}:){1,5}(:[0-9a-fA-F]{1,4}){1,2}|([0-9a-fA-F]{1,4}:){1,4}(:[0-9a-fA-F]{1,4}){1,3}|([0-9a-fA-F]{1,4}:){1,3}(:[0-9a-fA-F]{1,4}){1,4}|([0-9a-fA-F]{1,4}:){1,2}(:[0-9a-fA-F]{1,4}){1,5}|[0-9a-fA-F]{1,4}:((:[0-9a-fA-F]{1,4}){1,6})|:((:[0-9a-fA-F]{1,4}){1,7}|:)|fe80:(:[0-9a-fA-F]{0,4}){0,4}%[0-9a-zA-Z]{1,}|::(ffff(:0{1,4}){0,1}:){0,1}((25[0-5]|(2[0-4]|1{0,1}[0-9]){0,1}[0-9])\.){3,3}(25[0-5]|(2[0-4]|1{0,1}[0-9]){0,1}[0-9])|([0-9a-fA-F]{1,4}:){1,4}:((25[0-5]|(2[0-4]|1{0,1}[0-9]){0,1}[0-9])\.){3,3}(25[0-5]|(2[0-4]|1{0,1}[0-9]){0,1}[0-9]))";

static URL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let scheme = "(?:(?:ftp|tcp|udp|wss?|https?)://)";
    let user = r"(?:[^\t\n\f\r ]+(?::[^\t\n\f\r ]*)?@)";
    let ipv4 = r"([1-9][0-9]?|1[0-9][0-9]|2[01][0-9]|22[0-3]|24[0-9]|25[0-5])(\.([0-9]{1,2}|1[0-9][0-9]|2[0-4][0-9]|25[0-5])){2}(?:\.([0-9][0-9]?|1[0-9][0-9]|2[0-4][0-9]|25[0-5]))";
    let subdomain = r"((www\.)|([a-zA-Z0-9]+([-_.]?[a-zA-Z0-9])*[a-zA-Z0-9]\.[a-zA-Z0-9]+))";
    let name = format!(
        r"(([a-zA-Z0-9]([a-zA-Z0-9_-]+)?[a-zA-Z0-9]([-.][a-zA-Z0-9]+)*)|({subdomain}?))?(([a-zA-Z\x{{00a1}}-\x{{ffff}}0-9]+-?-?)*[a-zA-Z\x{{00a1}}-\x{{ffff}}0-9]+)(?:\.([a-zA-Z\x{{00a1}}-\x{{ffff}}]{{1,}}))?"
    );
    let path = r"(?:[/?#][^\t\n\f\r ]*)";
    let host = format!(r"(?:{ipv4}|(\[{IP}\])|{name})");
    Regex::new(&format!(r"^{scheme}?{user}?{host}\.?(?::[0-9]{{1,5}})?{path}?$")).ok()
});

/// `govalidator.IsEmail`.
pub(super) fn is_email(text: &str) -> bool {
    EMAIL.as_ref().is_some_and(|email| email.is_match(text))
}

/// `govalidator.IsRequestURL`: whether it is a URL with a scheme.
pub(super) fn is_request_url(text: &str) -> bool {
    // A request has no fragment, so `#` is an ordinary character.
    let url = Url::parse(text.replace('#', "%23").as_bytes());
    url.is_ok_and(|url| !url.scheme.is_empty())
}

/// `govalidator.IsURL`: whether it looks like a URL, with or without a scheme.
pub(super) fn is_url(text: &str) -> bool {
    const LONGEST: usize = 2083;
    const SHORTEST: usize = 3;
    if text.chars().count() >= LONGEST || text.len() <= SHORTEST || text.starts_with('.') {
        return false;
    }
    // A URL without a scheme may still have a port.
    let has_port_alone = text.contains(':') && !text.contains("://");
    let whole = if has_port_alone { format!("http://{text}") } else { text.to_owned() };
    let Ok(url) = Url::parse(whole.as_bytes()) else { return false };
    let is_word = url.host.is_empty() && !url.path.is_empty() && !url.path.contains(&b'.');
    !url.host.starts_with(b".") && !is_word && URL.as_ref().is_some_and(|url| url.is_match(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expressions_are_some() {
        assert!(EMAIL.is_some() && URL.is_some());
    }

    #[test]
    fn addresses_are_judged_as_by_helm() {
        for text in ["a@b.c", "a.b@c.de", "a@b_c.de", "\u{e9}@b.de", "a@b.de.", "\"a\"@b.de", "a@b.d-e"] {
            assert!(is_email(text), "{text}");
        }
        for text in
            ["", "a", "a@b", "@b.de", "a..b@c.de", ".a@b.de", "a b@c.de", "a@-b.de", "a@b.c1", "a@b.1x"]
        {
            assert!(!is_email(text), "{text}");
        }
        for text in
            ["http://a.b", "a.b/c", "http://localhost", "localhost:80", "http://1.2.3.4", "http://[::1]/"]
        {
            assert!(is_url(text), "{text}");
        }
        for text in ["", "a.b", "localhost", ".a.b", "irc://a.b", "HTTP://a.b", "http://a b", "http://a_b.c"]
        {
            assert!(!is_url(text), "{text}");
        }
        assert!(is_url(&format!("http://a.b/{}", "x".repeat(2071))));
        assert!(!is_url(&format!("http://a.b/{}", "x".repeat(2072))));
        for text in ["http://a.b", "mailto:a@b.c", "file:///x", "http://a.b/#c"] {
            assert!(is_request_url(text), "{text}");
        }
        for text in ["", "a.b", "/a", "http://a b/", "http://a.b:x", "http://a.b#c", "1:b"] {
            assert!(!is_request_url(text), "{text}");
        }
    }
}
