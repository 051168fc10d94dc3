//! Signatures of release records, which distinguish the records of one writer from those of others.
//!
//! Records are Secrets in the namespace of their release, where people with far fewer permissions than an operator may
//! write. A record therefore carries a keyed digest (HMAC-SHA256) of its content, its location and its subject. The key
//! is not in the namespace, so a record that was forged, changed, renamed, copied to another namespace or made for
//! another owner does not verify.
//!
//! A record that does not verify is *unverified*, not refused: the real `helm` writes such records. Only its list of
//! objects is used, and only objects with the release's ownership metadata are ever deleted.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// The annotation with the signature.
pub(crate) const SIGNATURE: &str = "release.steersman.dev/signature";
/// Version of the signature scheme.
const SCHEME: &str = "v1";

/// The key that signs release records. Whoever has it can write records that are trusted.
#[derive(Clone)]
pub struct RecordKey(Arc<[u8; RecordKey::LENGTH]>);

impl RecordKey {
    /// Length of a key, in bytes.
    pub const LENGTH: usize = 32;

    /// Creates a key from bytes, which must come from a secure random source.
    pub fn new(bytes: [u8; Self::LENGTH]) -> Self {
        Self(Arc::new(bytes))
    }
}

impl fmt::Debug for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecordKey(..)")
    }
}

/// Signs and verifies records for one owner.
#[derive(Clone, Debug)]
pub(crate) struct Verifier {
    /// Without a key no record verifies, and none is signed.
    pub(crate) key: Option<RecordKey>,
    /// Unique identity of the owner that the release is for.
    pub(crate) subject: String,
}

/// The signed content of a record.
#[derive(Clone, Copy)]
pub(crate) struct Signed<'a> {
    pub(crate) namespace: &'a str,
    /// The name of the Secret or ConfigMap.
    pub(crate) key: &'a str,
    /// The encoded record.
    pub(crate) data: &'a [u8],
    /// The digest of the parts; empty for records in one object.
    pub(crate) body: &'a str,
}

impl Verifier {
    fn digest(&self, signed: &Signed<'_>) -> Option<Hmac<Sha256>> {
        let key = self.key.as_ref()?;
        let mut mac = Hmac::<Sha256>::new_from_slice(key.0.as_slice()).ok()?;
        let parts: [&[u8]; 6] = [
            SCHEME.as_bytes(),
            self.subject.as_bytes(),
            signed.namespace.as_bytes(),
            signed.key.as_bytes(),
            signed.body.as_bytes(),
            signed.data,
        ];
        for part in parts {
            // Each part is preceded by its length, so that no two lists of parts yield the same bytes.
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        Some(mac)
    }

    /// Returns the signature of a record; `None` without a key.
    pub(crate) fn sign(&self, signed: &Signed<'_>) -> Option<String> {
        let digest = self.digest(signed)?.finalize().into_bytes();
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(format!("{SCHEME}:{hex}"))
    }

    /// Whether a signature matches the record.
    pub(crate) fn verify(&self, signed: &Signed<'_>, signature: &str) -> bool {
        let given = signature.strip_prefix(SCHEME).and_then(|rest| rest.strip_prefix(':')).and_then(unhex);
        match (self.digest(signed), given) {
            (Some(digest), Some(given)) => digest.verify_slice(&given).is_ok(),
            _ => false,
        }
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_holds_for_one_record_in_one_place() {
        let verifier = |key: u8, subject: &str| Verifier {
            key: Some(RecordKey::new([key; 32])),
            subject: subject.into(),
        };
        let signed = Signed { namespace: "lab", key: "shop.v1", data: b"record", body: "" };
        let signature = verifier(1, "a").sign(&signed).unwrap();
        assert!(verifier(1, "a").verify(&signed, &signature));
        assert!(!verifier(2, "a").verify(&signed, &signature), "another key");
        assert!(!verifier(1, "b").verify(&signed, &signature), "another owner");
        for other in [
            Signed { namespace: "den", ..signed },
            Signed { key: "shop.v2", ..signed },
            Signed { data: b"recorD", ..signed },
            Signed { body: "x", ..signed },
            // The same bytes, split differently.
            Signed { namespace: "labs", key: "hop.v1", ..signed },
        ] {
            assert!(!verifier(1, "a").verify(&other, &signature));
        }
        let keyless = Verifier { key: None, subject: "a".into() };
        assert!(keyless.sign(&signed).is_none() && !keyless.verify(&signed, &signature));
        for wrong in ["", "v1", "v1:", "v1:é", "v2:00", &signature[..20], &format!("{signature}00")] {
            assert!(!verifier(1, "a").verify(&signed, wrong), "{wrong}");
        }
    }
}
