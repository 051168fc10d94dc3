//! The signing key of service account tokens: ES256, in compact JWT form.

use std::{fmt, sync::OnceLock};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use p256::ecdsa::{
    Signature, SigningKey,
    signature::{Signer as _, Verifier as _},
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Claims, ISSUER, Invalid};

/// The prefix of a P-256 public key in DER, up to the point.
const PUBLIC_KEY_HEAD: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// The signing key.
/// Derived from its seed on first use; signing is deterministic, so that runs are repeatable.
pub(crate) struct Key {
    seed: [u8; 32],
    derived: OnceLock<DerivedKey>,
}

struct DerivedKey {
    signing: SigningKey,
    /// The key ID (`kid`) in token headers.
    id: String,
    /// The point's coordinates.
    x: String,
    y: String,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

impl Key {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self { seed, derived: OnceLock::new() }
    }

    fn derived(&self) -> &DerivedKey {
        self.derived.get_or_init(|| {
            let signing = signing_key(self.seed);
            let point = signing.verifying_key().to_sec1_point(false);
            let bytes = point.as_bytes();
            let coordinate = |range| BASE64.encode(bytes.get(range).unwrap_or_default());
            let id =
                BASE64.encode(Sha256::new().chain_update(PUBLIC_KEY_HEAD).chain_update(bytes).finalize());
            DerivedKey { id, x: coordinate(1..33), y: coordinate(33..65), signing }
        })
    }

    /// Signs claims and returns the token.
    pub(super) fn sign(&self, claims: &Claims) -> Result<String, serde_json::Error> {
        let derived = self.derived();
        let header = json!({"alg": "ES256", "kid": derived.id}).to_string();
        let mut token = format!("{}.{}", BASE64.encode(header), BASE64.encode(serde_json::to_vec(claims)?));
        let signature: Signature = derived.signing.sign(token.as_bytes());
        token.push('.');
        token.push_str(&BASE64.encode(signature.to_bytes()));
        Ok(token)
    }

    /// Returns the claims of a token, if this key signed it.
    pub(super) fn verify(&self, token: &str) -> Result<Claims, Invalid> {
        let (signed, signature) = token.rsplit_once('.').ok_or(Invalid::Unknown)?;
        let (header, payload) = signed.split_once('.').ok_or(Invalid::Unknown)?;
        let read = |text: &str| -> Option<Value> { serde_json::from_slice(&BASE64.decode(text).ok()?).ok() };
        let payload = read(payload).filter(|p| p["iss"] == ISSUER).ok_or(Invalid::Unknown)?;
        let header = read(header).ok_or(Invalid::Unknown)?;
        if header["kid"].as_str().is_some_and(|id| id != self.derived().id) {
            return Err(Invalid::Because("invalid signature, no keys found".into()));
        }
        let broken = || Invalid::Because("go-jose/go-jose: error in cryptographic primitive".into());
        let bytes = BASE64.decode(signature).map_err(|_| broken())?;
        let signature = Signature::from_slice(&bytes).map_err(|_| broken())?;
        let key = self.derived().signing.verifying_key();
        key.verify(signed.as_bytes(), &signature).map_err(|_| broken())?;
        serde_json::from_value(payload).map_err(|error| Invalid::Because(error.to_string()))
    }

    /// Returns the public key as a JSON Web Key Set.
    pub(crate) fn public(&self) -> Value {
        let DerivedKey { id, x, y, .. } = self.derived();
        json!({"keys": [{"use": "sig", "kty": "EC", "kid": id, "crv": "P-256", "alg": "ES256", "x": x, "y": y}]})
    }
}

/// Derives a key from a seed. A few values are not valid keys; then the next hash in a chain is tried.
fn signing_key(seed: [u8; 32]) -> SigningKey {
    let mut bytes = seed;
    loop {
        if let Ok(key) = SigningKey::from_slice(&bytes) {
            return key;
        }
        bytes = Sha256::digest(bytes).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::token::{Bound, Reference};

    fn claims() -> Claims {
        let account = Reference { name: "s".into(), uid: "u".into() };
        let bound = Bound {
            namespace: "n".into(),
            node: None,
            pod: None,
            secret: None,
            serviceaccount: account,
            warnafter: None,
        };
        Claims {
            aud: vec![ISSUER.into()],
            exp: 2,
            iat: 1,
            iss: ISSUER.into(),
            jti: "j".into(),
            bound,
            nbf: 1,
            sub: "system:serviceaccount:n:s".into(),
        }
    }

    #[test]
    fn only_the_own_signature_counts() {
        let (key, other) = (Key::new([7; 32]), Key::new([8; 32]));
        let token = key.sign(&claims()).unwrap();
        assert_eq!(key.verify(&token).unwrap(), claims());
        assert_eq!(token, Key::new([7; 32]).sign(&claims()).unwrap());
        assert!(matches!(other.verify(&token), Err(Invalid::Because(_))));
        let mut changed = claims();
        changed.exp = 3;
        let forged = BASE64.encode(serde_json::to_vec(&changed).unwrap());
        let mut parts: Vec<&str> = token.split('.').collect();
        parts[1] = &forged;
        assert!(matches!(key.verify(&parts.join(".")), Err(Invalid::Because(_))));
        for nonsense in ["", ".", "..", "a.b.c", "nonsense"] {
            assert_eq!(key.verify(nonsense), Err(Invalid::Unknown));
        }
        assert_eq!(Key::new([0; 32]).public()["keys"][0]["alg"], "ES256");
    }
}
