//! DER, as far as needed for keys and certificates.

use num_bigint::BigUint;

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const NULL: u8 = 0x05;
pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(super) const UTF8_STRING: u8 = 0x0C;
pub(super) const PRINTABLE_STRING: u8 = 0x13;
pub(super) const UTC_TIME: u8 = 0x17;
pub(super) const GENERALIZED_TIME: u8 = 0x18;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// Encodes a value with its tag and length.
pub(super) fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 6);
    out.push(tag);
    match u8::try_from(content.len()) {
        Ok(len) if len < 0x80 => out.push(len),
        _ => {
            let bytes = content.len().to_be_bytes();
            let significant = bytes.iter().skip_while(|b| **b == 0).copied().collect::<Vec<_>>();
            out.push(0x80 | significant.len() as u8);
            out.extend(significant);
        }
    }
    out.extend_from_slice(content);
    out
}

pub(super) fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    tlv(SEQUENCE, &parts.concat())
}

/// Encodes a non-negative integer.
pub(super) fn integer(n: &BigUint) -> Vec<u8> {
    let mut bytes = n.to_bytes_be();
    if bytes.first().is_none_or(|first| *first >= 0x80) {
        bytes.insert(0, 0);
    }
    tlv(INTEGER, &bytes)
}

/// Encodes an object identifier, given as its encoded content.
pub(super) fn oid(content: &[u8]) -> Vec<u8> {
    tlv(OBJECT_IDENTIFIER, content)
}

/// Encodes a bit string without unused bits.
pub(super) fn bit_string(bytes: &[u8]) -> Vec<u8> {
    tlv(BIT_STRING, &[&[0], bytes].concat())
}

/// Reads values in sequence.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

/// A decoded value: tag, content, and the complete encoding.
pub(super) struct Tlv<'a> {
    pub(super) tag: u8,
    pub(super) content: &'a [u8],
    pub(super) whole: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn next(&mut self) -> Option<Tlv<'a>> {
        let (tag, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (len, rest) = match first {
            0..=0x7F => (usize::from(*first), rest),
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7F))?;
                (bytes.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(len)?;
        let whole = self.0.get(..self.0.len() - rest.len())?;
        self.0 = rest;
        Some(Tlv { tag: *tag, content, whole })
    }

    /// Reads the next value, and returns its content if it has that tag.
    pub(super) fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|tlv| tlv.tag == tag).map(|tlv| tlv.content)
    }

    /// Reads the next value, and returns a reader of its content if it has that tag.
    pub(super) fn enter(&mut self, tag: u8) -> Option<Self> {
        self.expect(tag).map(Self)
    }

    /// Reads the next value if it has that tag; otherwise reads nothing.
    pub(super) fn optional(&mut self, tag: u8) -> Option<&'a [u8]> {
        if self.0.first() == Some(&tag) { self.expect(tag) } else { None }
    }

    pub(super) fn integer(&mut self) -> Option<BigUint> {
        let bytes = self.expect(INTEGER)?;
        // Keys contain no negative numbers.
        bytes.first().is_some_and(|first| *first < 0x80).then(|| BigUint::from_bytes_be(bytes))
    }
}

/// Encodes a PEM block of this type.
pub(super) fn to_pem(kind: &str, der: &[u8]) -> String {
    let base64 = crate::functions::encoding::base64(der);
    let mut out = format!("-----BEGIN {kind}-----\n");
    for line in base64.as_bytes().chunks(64) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    out.push_str(&format!("-----END {kind}-----\n"));
    out
}

/// Returns the type and content of the first PEM block, as Go's `pem.Decode` does.
pub(super) fn from_pem(text: &str) -> Option<(String, Vec<u8>)> {
    let mut rest = text;
    loop {
        let at = rest.find("-----BEGIN ")?;
        // It must begin a line.
        let begins_line = at == 0 || rest.get(..at).is_some_and(|before| before.ends_with('\n'));
        rest = rest.get(at + "-----BEGIN ".len()..)?;
        if !begins_line {
            continue;
        }
        let (header, body) = rest.split_once('\n').unwrap_or((rest, ""));
        let Some(kind) = header.trim_end_matches([' ', '\t', '\r']).strip_suffix("-----") else { continue };
        let Some(end) = body.find(&format!("-----END {kind}-----")) else { continue };
        let mut body = body.get(..end)?;
        // Headers such as `Proc-Type: ...` end with an empty line.
        while let Some((line, after)) = body.split_once('\n')
            && line.contains(':')
        {
            body = after;
        }
        let digits: String = body.chars().filter(|c| !c.is_whitespace()).collect();
        if let Ok(der) = crate::functions::encoding::base64_decode(digits.as_bytes()) {
            return Some((kind.into(), der));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_take_as_few_bytes_as_they_can() {
        let head = |len: usize, bytes: usize| tlv(OCTET_STRING, &vec![7; len])[..bytes].to_vec();
        assert_eq!(head(0, 2), [4, 0]);
        assert_eq!(head(127, 3), [4, 0x7F, 7]);
        assert_eq!(head(128, 4), [4, 0x81, 0x80, 7]);
        assert_eq!(head(255, 4), [4, 0x81, 0xFF, 7]);
        assert_eq!(head(256, 5), [4, 0x82, 1, 0, 7]);
        assert_eq!(head(65_536, 6), [4, 0x83, 1, 0, 0, 7]);
        assert_eq!(tlv(OCTET_STRING, &[7; 300]).len(), 304);
    }

    #[test]
    fn numbers_are_never_written_as_negative() {
        for (n, expected) in [
            (0u32, &[2u8, 1, 0][..]),
            (1, &[2, 1, 1]),
            (127, &[2, 1, 0x7F]),
            (128, &[2, 2, 0, 0x80]),
            (255, &[2, 2, 0, 0xFF]),
            (256, &[2, 2, 1, 0]),
        ] {
            let n = BigUint::from(n);
            assert_eq!(integer(&n), expected);
            assert_eq!(Reader(expected).integer(), Some(n));
        }
        assert_eq!(Reader(&[2, 1, 0x80]).integer(), None);
        assert_eq!(Reader(&[2, 0]).integer(), None);
        assert_eq!(bit_string(&[1, 2]), [3, 3, 0, 1, 2]);
        assert_eq!(sequence(&[vec![5, 0], vec![2, 1, 1]]), [0x30, 5, 5, 0, 2, 1, 1]);
        assert_eq!(oid(&[0x2B, 0x65]), [6, 2, 0x2B, 0x65]);
    }

    #[test]
    fn values_are_read_one_after_the_other() {
        for len in [0, 1, 127, 128, 255, 256, 65_536] {
            let (content, mut all) = (vec![9; len], tlv(OCTET_STRING, &vec![9; len]));
            let size = all.len();
            all.extend([5, 0]);
            let mut reader = Reader(&all);
            let value = reader.next().unwrap();
            assert_eq!((value.tag, value.content, value.whole.len()), (OCTET_STRING, &content[..], size));
            assert_eq!(reader.expect(NULL), Some(&[][..]));
            assert!(reader.next().is_none());
        }
        for broken in [
            &[][..],
            &[4],
            &[4, 2, 1],
            &[4, 0x81],
            &[4, 0x82, 1],
            &[4, 0x80, 0, 0],
            &[4, 0x85, 0, 0, 0, 0, 0],
        ] {
            assert!(Reader(broken).next().is_none(), "{broken:?}");
        }
        assert_eq!(Reader(&[4, 1, 1]).expect(INTEGER), None);
        let mut reader = Reader(&[4, 1, 1, 0xA0, 1, 2]);
        assert_eq!(reader.optional(0xA0), None);
        assert_eq!((reader.optional(OCTET_STRING), reader.optional(0xA0)), (Some(&[1][..]), Some(&[2][..])));
        assert_eq!(Reader(&[0x30, 3, 2, 1, 5]).enter(SEQUENCE).unwrap().integer(), Some(BigUint::from(5u32)));
    }

    #[test]
    fn blocks_have_lines_of_64_letters() {
        let pem = to_pem("THING", &[1; 49]);
        let lines: Vec<usize> = pem.lines().map(str::len).collect();
        assert_eq!(lines, ["-----BEGIN THING-----".len(), 64, 4, "-----END THING-----".len()]);
        assert!(pem.ends_with("-----END THING-----\n"));
        assert_eq!(from_pem(&pem), Some(("THING".into(), vec![1; 49])));
    }

    #[test]
    fn the_first_sound_block_is_read() {
        let found = |text: &str| from_pem(text).map(|(kind, der)| (kind, String::from_utf8(der).unwrap()));
        let expected = Some(("A".to_owned(), "a".to_owned()));
        assert_eq!(found("-----BEGIN A-----\nYQ==\n-----END A-----"), expected);
        assert_eq!(found("text\n-----BEGIN A----- \t\r\nY\r\nQ==\n-----END A-----"), expected);
        assert_eq!(found("-----BEGIN A-----\nProc-Type: 4\nDEK: x\n\nYQ==\n-----END A-----"), expected);
        assert_eq!(
            found("x-----BEGIN B-----\nYg==\n-----END B-----\n-----BEGIN A-----\nYQ==\n-----END A-----"),
            expected
        );
        assert_eq!(found("-----BEGIN B----\n-----BEGIN A-----\nYQ==\n-----END A-----"), expected);
        assert_eq!(
            found("-----BEGIN B-----\n!\n-----END B-----\n-----BEGIN A-----\nYQ==\n-----END A-----"),
            expected
        );
        assert_eq!(found("-----BEGIN B-----\n-----BEGIN A-----\nYQ==\n-----END A-----"), expected);
        for none in ["", "a", "-----BEGIN A-----", "-----BEGIN A-----\nYQ==\n-----END B-----"] {
            assert_eq!(found(none), None, "{none}");
        }
    }
}
