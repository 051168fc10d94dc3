//! Escaping for HTML, JavaScript and URLs.

use crate::str::Str;
use steersman_gostd::unicode;

/// Escapes a string for HTML, attribute values included; `None` if the result exceeds `limit` bytes.
pub(super) fn html(text: Str, limit: usize) -> Option<Str> {
    if !text.iter().any(|b| b"'\"&<>\0".contains(b)) {
        return Some(text);
    }
    let mut out = Vec::with_capacity(text.len() + 16);
    for byte in text.iter() {
        if out.len() > limit {
            return None;
        }
        out.extend_from_slice(match byte {
            0 => "\u{FFFD}".as_bytes(),
            b'"' => b"&#34;",
            b'\'' => b"&#39;",
            b'&' => b"&amp;",
            b'<' => b"&lt;",
            b'>' => b"&gt;",
            other => std::slice::from_ref(other),
        });
    }
    Some(out.into())
}

/// Escapes a string for a JavaScript string literal; `None` if the result exceeds `limit` bytes.
pub(super) fn js(text: Str, limit: usize) -> Option<Str> {
    let mut out = Vec::with_capacity(text.len() + 16);
    let mut rest: &[u8] = &text;
    while let Some((c, width)) = unicode::decode(rest) {
        let (head, tail) = rest.split_at(width);
        rest = tail;
        if out.len() > limit {
            return None;
        }
        match c {
            '\\' => out.extend_from_slice(br"\\"),
            '\'' => out.extend_from_slice(br"\'"),
            '"' => out.extend_from_slice(br#"\""#),
            '<' => out.extend_from_slice(br"\u003C"),
            '>' => out.extend_from_slice(br"\u003E"),
            '&' => out.extend_from_slice(br"\u0026"),
            '=' => out.extend_from_slice(br"\u003D"),
            c if c < ' ' || (!c.is_ascii() && !unicode::is_print(c)) => {
                out.extend_from_slice(format!("\\u{:04X}", u32::from(c)).as_bytes());
            }
            _ => out.extend_from_slice(head),
        }
    }
    Some(out.into())
}

/// Escapes a string for a URL query; `None` if the result exceeds `limit` bytes.
pub(super) fn url_query(text: Str, limit: usize) -> Option<Str> {
    let mut out = Vec::with_capacity(text.len() + 16);
    for byte in text.iter() {
        if out.len() > limit {
            return None;
        }
        match byte {
            b' ' => out.push(b'+'),
            b'-' | b'_' | b'.' | b'~' => out.push(*byte),
            b if b.is_ascii_alphanumeric() => out.push(*b),
            b => out.extend_from_slice(format!("%{b:02X}").as_bytes()),
        }
    }
    Some(out.into())
}
