//! PEM decoding. Hand-written: existing crates reject text between blocks, which Go skips.

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// Returns the labels of all valid blocks.
pub(crate) fn labels(bytes: &[u8]) -> Vec<String> {
    blocks(bytes).into_iter().map(|(label, _)| label).collect()
}

/// Returns the content of the first valid block, if it has this label.
#[must_use]
pub fn first(bytes: &[u8], label: &str) -> Option<Vec<u8>> {
    let (given, content) = blocks(bytes).into_iter().next()?;
    (given == label).then_some(content)
}

/// Returns all valid blocks with their labels.
fn blocks(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let text = String::from_utf8_lossy(bytes);
    let mut blocks = Vec::new();
    let mut rest: &str = &text;
    // Pairs each END with the last BEGIN before it, so that time stays linear even with many unterminated blocks.
    while let Some((before, after)) = rest.split_once("-----END ") {
        rest = after;
        let Some((_, block)) = before.rsplit_once("-----BEGIN ") else { continue };
        let Some((label, body)) = block.split_once("-----") else { continue };
        if !after.strip_prefix(label).is_some_and(|end| end.starts_with("-----")) {
            continue;
        }
        // Headers, if any, end with an empty line.
        let body = body.replace("\r\n", "\n");
        let content = body.rsplit("\n\n").next().unwrap_or_default();
        let content: String = content.chars().filter(|c| !c.is_whitespace()).collect();
        if let Ok(content) = STANDARD.decode(content) {
            blocks.push((label.to_owned(), content));
        }
    }
    blocks
}

/// Returns why a certificate and key are not a valid pair, judging by their PEM labels only.
pub(crate) fn check_pair(certificate: &[u8], key: &[u8]) -> Option<String> {
    let skipped = labels(certificate);
    if !skipped.iter().any(|label| label == "CERTIFICATE") {
        return Some(match skipped.as_slice() {
            [] => "tls: failed to find any PEM data in certificate input".to_owned(),
            [one] if one.ends_with("PRIVATE KEY") => "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched".to_owned(),
            several => format!(
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [{}]",
                several.join(" ")
            ),
        });
    }
    let skipped = labels(key);
    if skipped.iter().any(|label| label == "PRIVATE KEY" || label.ends_with(" PRIVATE KEY")) {
        return None;
    }
    Some(match skipped.as_slice() {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [one] if one == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        several => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: [{}]",
            several.join(" ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTIFICATE: &[u8] = b"x\n-----BEGIN CERTIFICATE-----\naGk=\n-----END CERTIFICATE-----\n";
    const KEY: &[u8] = b"-----BEGIN EC PRIVATE KEY-----\nA: b\n\naGk=\n-----END EC PRIVATE KEY-----\n";

    #[test]
    fn blocks_are_told_apart() {
        assert_eq!(labels(CERTIFICATE), ["CERTIFICATE"]);
        assert_eq!(labels(KEY), ["EC PRIVATE KEY"]);
        assert_eq!(labels(b"-----BEGIN X-----\n%\n-----END X-----"), [""; 0]);
        assert_eq!(labels(b"-----BEGIN X-----\r\nA: b\r\n\r\naGk=\r\n-----END X-----"), ["X"]);
        let mut unended = b"-----BEGIN X-----\n".repeat(200_000);
        unended.extend_from_slice(CERTIFICATE);
        assert_eq!(labels(&unended), ["CERTIFICATE"]);
        assert_eq!(check_pair(CERTIFICATE, KEY), None);
        assert!(check_pair(KEY, CERTIFICATE).is_some_and(|why| why.ends_with("may have been switched")));
        assert!(check_pair(b"hi", KEY).is_some_and(|why| why.ends_with("in certificate input")));
    }
}
