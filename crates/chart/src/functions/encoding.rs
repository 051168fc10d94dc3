//! Base64, base32, checksums and paths.

use sha1::Digest as _;
use steersman_gotemplate::{Funcs, Str};

use super::Host;
use super::args::define;

pub(super) fn register<H: Host>(funcs: &mut Funcs<H>) {
    define!(funcs {
        "b64enc" (text: &Str) => base64(text);
        "b64dec" (text: &Str) => base64_decode(text).unwrap_or_else(String::into_bytes);
        "b32enc" (text: &Str) => base32(text);
        "b32dec" (text: &Str) => base32_decode(text).unwrap_or_else(String::into_bytes);
        "sha1sum" (text: &Str) => hex(&sha1::Sha1::digest(text));
        "sha256sum" (text: &Str) => hex(&sha2::Sha256::digest(text));
        "sha512sum" (text: &Str) => hex(&sha2::Sha512::digest(text));
        "adler32sum" (text: &Str) => adler32(text).to_string();
        "base" | "osBase" (path: &Str) => base(path);
        "dir" | "osDir" (path: &Str) => dir(path);
        "clean" | "osClean" (path: &Str) => clean(path);
        "ext" | "osExt" (path: &Str) => ext(path);
        "isAbs" | "osIsAbs" (path: &Str) => path.starts_with(b"/");
    });
}

fn hex(bytes: &[u8]) -> String {
    let digit = |n: u8| char::from_digit(u32::from(n), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Adler-32, written here because a crate is not worth ten lines.
fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65521;
    // Number of bytes that cannot overflow the sums.
    const RUN: usize = 5552;
    let (mut a, mut b) = (1, 0);
    for run in bytes.chunks(RUN) {
        for byte in run {
            a += u32::from(*byte);
            b += a;
        }
        a %= MODULUS;
        b %= MODULUS;
    }
    b << 16 | a
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Returns the index of each byte in an alphabet, 255 for the others.
const fn positions(alphabet: &[u8]) -> [u8; 256] {
    let mut table = [255; 256];
    let mut i = 0;
    while i < alphabet.len() {
        table[alphabet[i] as usize] = i as u8;
        i += 1;
    }
    table
}

/// Standard base64 with padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    encode::<3>(bytes, BASE64, 6)
}

fn base32(bytes: &[u8]) -> String {
    encode::<5>(bytes, BASE32, 5)
}

/// Encodes groups of `N` bytes as digits of `bits` bits, padded with `=`.
fn encode<const N: usize>(bytes: &[u8], alphabet: &[u8], bits: usize) -> String {
    let digits = N * 8 / bits;
    let mut out = String::with_capacity(bytes.len().div_ceil(N) * digits);
    for group in bytes.chunks(N) {
        let word = (0..N).fold(0u64, |word, i| word << 8 | u64::from(group.get(i).copied().unwrap_or(0)));
        let used = (group.len() * 8).div_ceil(bits);
        for i in 0..digits {
            let digit = (word >> (bits * (digits - 1 - i))) as usize & (alphabet.len() - 1);
            out.push(if i < used { char::from(alphabet.get(digit).copied().unwrap_or(b'=')) } else { '=' });
        }
    }
    out
}

fn corrupt(kind: &str, at: usize) -> String {
    format!("illegal {kind} data at input byte {at}")
}

/// Decodes standard base64 as Go does, which no crate does.
///
/// Line breaks are skipped anywhere, unused bits at the end are ignored, and the error has the offset of the invalid
/// byte.
pub(super) fn base64_decode(text: &[u8]) -> Result<Vec<u8>, String> {
    const POSITIONS: [u8; 256] = positions(BASE64);
    let err = |at: usize| Err(corrupt("base64", at));
    let is_newline = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut at = 0;
    let mut word = 0u32;
    let mut digits = 0;
    while let Some(byte) = text.get(at) {
        at += 1;
        match POSITIONS.get(usize::from(*byte)) {
            Some(digit) if *digit != 255 => {
                word = word << 6 | u32::from(*digit);
                digits += 1;
                if digits == 4 {
                    out.extend_from_slice(word.to_be_bytes().get(1..).unwrap_or_default());
                    (word, digits) = (0, 0);
                }
                continue;
            }
            _ if is_newline(byte) => continue,
            _ if *byte != b'=' || digits < 2 => return err(at - 1),
            _ => {}
        }
        let skip =
            |at: usize| at + text.get(at..).unwrap_or_default().iter().take_while(|b| is_newline(b)).count();
        if digits == 2 {
            at = skip(at);
            match text.get(at) {
                None => return err(text.len()),
                Some(b'=') => at += 1,
                Some(_) => return err(at - 1),
            }
        }
        at = skip(at);
        if at < text.len() {
            return err(at);
        }
        let bytes = (word << (6 * (4 - digits))).to_be_bytes();
        out.extend_from_slice(bytes.get(1..digits).unwrap_or_default());
        return Ok(out);
    }
    if digits > 0 { err(at - digits) } else { Ok(out) }
}

/// Decodes standard base32 as Go does, including the offsets in errors.
fn base32_decode(text: &[u8]) -> Result<Vec<u8>, String> {
    const POSITIONS: [u8; 256] = positions(BASE32);
    let err = |at: usize| Err(corrupt("base32", at));
    let text: Vec<u8> = text.iter().copied().filter(|byte| !matches!(byte, b'\n' | b'\r')).collect();
    let mut out = Vec::with_capacity(text.len() / 8 * 5);
    let mut at = 0;
    while at < text.len() {
        let mut word = 0u64;
        let mut digits = 0;
        while digits < 8 {
            let Some(byte) = text.get(at) else { return err(at - digits) };
            at += 1;
            let left = text.len() - at;
            if *byte == b'=' && digits >= 2 && left < 8 {
                if left + digits < 7 {
                    return err(text.len());
                }
                let padding = text.get(at..).unwrap_or_default().iter().take(7 - digits);
                if let Some(wrong) = padding.clone().position(|byte| *byte != b'=') {
                    return err(at + wrong - 1);
                }
                if matches!(digits, 3 | 6) {
                    return err(at - 1);
                }
                let bytes = (word << (5 * (8 - digits))).to_be_bytes();
                out.extend_from_slice(bytes.get(3..3 + digits * 5 / 8).unwrap_or_default());
                return Ok(out);
            }
            match POSITIONS.get(usize::from(*byte)) {
                Some(digit) if *digit != 255 => word = word << 5 | u64::from(*digit),
                _ => return err(at - 1),
            }
            digits += 1;
        }
        out.extend_from_slice(word.to_be_bytes().get(3..).unwrap_or_default());
    }
    Ok(out)
}

fn base(path: &[u8]) -> Vec<u8> {
    if path.is_empty() {
        return b".".to_vec();
    }
    match path.split(|b| *b == b'/').rfind(|part| !part.is_empty()) {
        Some(part) => part.to_vec(),
        None => b"/".to_vec(),
    }
}

fn dir(path: &[u8]) -> Vec<u8> {
    let end = memchr::memrchr(b'/', path).map_or(0, |at| at + 1);
    clean(path.get(..end).unwrap_or_default())
}

fn ext(path: &[u8]) -> &[u8] {
    let name = memchr::memrchr(b'/', path).and_then(|at| path.get(at + 1..)).unwrap_or(path);
    memchr::memrchr(b'.', name).and_then(|at| name.get(at..)).unwrap_or_default()
}

fn clean(path: &[u8]) -> Vec<u8> {
    let rooted = path.starts_with(b"/");
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." if parts.last().is_some_and(|last| *last != b"..") => {
                parts.pop();
            }
            b".." if rooted => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join(&b'/');
    match (rooted, joined.is_empty()) {
        (true, _) => [b"/", joined.as_slice()].concat(),
        (false, true) => b".".to_vec(),
        (false, false) => joined,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_skips_line_ends_and_says_where_it_stopped() {
        let decode =
            |text: &str| base64_decode(text.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(decode("aGVs\r\nbG8="), Ok("hello".into()));
        assert_eq!(decode("aGVsbG8=\n"), Ok("hello".into()));
        assert_eq!(decode("aA=\n="), Ok("h".into()));
        assert_eq!(decode("aGVsbG8"), Err("illegal base64 data at input byte 4".into()));
        assert_eq!(decode("aG=sbG8="), Err("illegal base64 data at input byte 2".into()));
        assert_eq!(decode("aA="), Err("illegal base64 data at input byte 3".into()));
        assert_eq!(decode("****"), Err("illegal base64 data at input byte 0".into()));
        assert_eq!(base64(b"\xff\xfe"), "//4=");
    }

    #[test]
    fn base32_round_trips() {
        for text in ["", "f", "fo", "foo", "foob", "fooba", "foobar"] {
            assert_eq!(base32_decode(base32(text.as_bytes()).as_bytes()), Ok(text.as_bytes().to_vec()));
        }
        assert_eq!(base32(b"foob"), "MZXW6YQ=");
        assert_eq!(base32_decode(b"MZXW6YQ"), Err("illegal base32 data at input byte 0".into()));
    }

    #[test]
    fn paths_are_cleaned_lexically() {
        assert_eq!(clean(b"a//b/../c/."), b"a/c");
        assert_eq!(clean(b"/../a"), b"/a");
        assert_eq!(clean(b"../../a/.."), b"../..");
        assert_eq!(clean(b""), b".");
        assert_eq!(dir(b"/a/b"), b"/a");
        assert_eq!(dir(b"b"), b".");
        assert_eq!(base(b"/a/b//"), b"b");
        assert_eq!(ext(b"a.b/c"), b"");
        assert_eq!(ext(b"a/c.tar.gz"), b".gz");
    }
}
