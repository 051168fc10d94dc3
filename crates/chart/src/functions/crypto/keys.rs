//! Private keys: RSA, ECDSA, Ed25519 and DSA, generated, read, written and signed with.

use num_bigint::BigUint;
use p256::ecdsa::signature::hazmat::PrehashSigner as _;
use sha2::Digest as _;

use super::cost;
use super::der::{self, Reader, bit_string, integer, oid, sequence, tlv};
use super::primes::{self, Search};
use crate::environment::Environment;

const RSA_ENCRYPTION: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01];
const SHA256_WITH_RSA: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x0B];
const SHA256: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01];
const EC_PUBLIC_KEY: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01];
const P256: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2B, 0x81, 0x04, 0x00, 0x22];
const P521: &[u8] = &[0x2B, 0x81, 0x04, 0x00, 0x23];
const ECDSA_WITH_SHA256: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04, 0x03, 0x02];
const ECDSA_WITH_SHA384: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04, 0x03, 0x03];
const ECDSA_WITH_SHA512: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04, 0x03, 0x04];
const ED25519: &[u8] = &[0x2B, 0x65, 0x70];

/// The public exponent of every RSA key that is generated.
const RSA_EXPONENT: u32 = 65537;

/// A private key.
pub(super) enum PrivateKey {
    Rsa(Box<RsaKey>),
    P256(p256::ecdsa::SigningKey),
    P384(p384::ecdsa::SigningKey),
    P521(p521::ecdsa::SigningKey),
    Ed25519(Box<ed25519_dalek::SigningKey>),
    Dsa(Box<DsaKey>),
}

pub(super) struct RsaKey {
    modulus: BigUint,
    public_exponent: BigUint,
    private_exponent: BigUint,
    primes: [BigUint; 2],
}

pub(super) struct DsaKey {
    p: BigUint,
    q: BigUint,
    g: BigUint,
    public: BigUint,
    private: BigUint,
}

impl RsaKey {
    /// A key of so many bits. The two primes are looked for at the same time.
    pub(super) fn generate(env: &mut dyn Environment, bits: usize) -> Self {
        let exponent = BigUint::from(RSA_EXPONENT);
        loop {
            let searches = [Search::new(env, bits / 2), Search::new(env, bits / 2)];
            let suits = |prime: &BigUint| prime % RSA_EXPONENT != BigUint::from(1u32);
            let [first, second] = &searches;
            let (p, q) = std::thread::scope(|scope| {
                let other = scope.spawn(|| second.run(suits));
                let p = first.run(suits);
                (p, other.join().unwrap_or_default())
            });
            let order = (&p - 1u32) * (&q - 1u32);
            // Without it being invertible the primes would not have suited.
            if let Some(private_exponent) = exponent.modinv(&order).filter(|_| p != q) {
                return Self {
                    modulus: &p * &q,
                    public_exponent: exponent,
                    private_exponent,
                    primes: [p, q],
                };
            }
        }
    }

    /// A signature by PKCS #1 v1.5 of a SHA-256 digest.
    fn sign(&self, digest: &[u8]) -> Vec<u8> {
        let info = sequence(&[sequence(&[oid(SHA256), tlv(der::NULL, &[])]), tlv(der::OCTET_STRING, digest)]);
        let len = self.modulus.bits().div_ceil(8) as usize;
        let padding = vec![0xFF; len.saturating_sub(info.len() + 3)];
        let message = BigUint::from_bytes_be(&[&[0, 1], padding.as_slice(), &[0], &info].concat());
        // By the Chinese remainder theorem, which is four times as fast.
        let [p, q] = &self.primes;
        let power = |prime: &BigUint| message.modpow(&(&self.private_exponent % (prime - 1u32)), prime);
        let (by_p, by_q) = (power(p), power(q));
        let difference = (by_p + p - &by_q % p) % p;
        let signature = match q.modinv(p) {
            Some(inverse) => by_q + q * (difference * inverse % p),
            None => message.modpow(&self.private_exponent, &self.modulus),
        };
        let bytes = signature.to_bytes_be();
        [vec![0; len.saturating_sub(bytes.len())], bytes].concat()
    }

    fn to_pkcs1(&self) -> Vec<u8> {
        let [p, q] = &self.primes;
        let exponent = |prime: &BigUint| integer(&(&self.private_exponent % (prime - 1u32)));
        sequence(&[
            integer(&BigUint::ZERO),
            integer(&self.modulus),
            integer(&self.public_exponent),
            integer(&self.private_exponent),
            integer(p),
            integer(q),
            exponent(p),
            exponent(q),
            integer(&q.modinv(p).unwrap_or_default()),
        ])
    }

    fn from_pkcs1(der: &[u8]) -> Option<Self> {
        let mut reader = Reader(der).enter(der::SEQUENCE)?;
        if reader.integer()? != BigUint::ZERO {
            return None;
        }
        let modulus = reader.integer()?;
        let public_exponent = reader.integer()?;
        let private_exponent = reader.integer()?;
        let primes = [reader.integer()?, reader.integer()?];
        let [p, q] = &primes;
        let sound = p * q == modulus && *p > BigUint::from(1u32) && *q > BigUint::from(1u32);
        sound.then_some(Self { modulus, public_exponent, private_exponent, primes })
    }
}

impl DsaKey {
    /// A key with parameters of its own, of 2048 and 256 bits.
    pub(super) fn generate(env: &mut dyn Environment) -> Self {
        let q = Search::new(env, 256).run(|_| true);
        let step = &q * 2u32;
        let p = loop {
            let mut bytes = [0; 256];
            env.fill_random(&mut bytes);
            let [first, ..] = &mut bytes;
            *first |= 0b1000_0000;
            let start = BigUint::from_bytes_be(&bytes);
            let candidate = &start - &start % &step + 1u32;
            let suits = candidate.bits() == 2048 && !primes::has_small_factor(&candidate);
            if suits && primes::is_prime(&candidate, &primes::bases(env)) {
                break candidate;
            }
        };
        let cofactor = (&p - 1u32) / &q;
        let one = BigUint::from(1u32);
        let g = (2u32..).map(|h| BigUint::from(h).modpow(&cofactor, &p)).find(|g| *g != one).unwrap_or(one);
        let mut bytes = [0; 40];
        env.fill_random(&mut bytes);
        let private = BigUint::from_bytes_be(&bytes) % (&q - 1u32) + 1u32;
        Self { public: g.modpow(&private, &p), p, q, g, private }
    }

    fn from_der(der: &[u8]) -> Option<Self> {
        let mut reader = Reader(der).enter(der::SEQUENCE)?;
        reader.integer()?;
        let mut next = || reader.integer();
        Some(Self { p: next()?, q: next()?, g: next()?, public: next()?, private: next()? })
    }
}

/// Random bytes that the curve takes for a private key.
macro_rules! ec_key {
    ($env:ident, $curve:ident, $len:literal) => {
        loop {
            let mut bytes = [0; $len];
            $env.fill_random(&mut bytes);
            if let Ok(key) = $curve::ecdsa::SigningKey::from_slice(&bytes) {
                break key;
            }
        }
    };
}

impl PrivateKey {
    pub(super) fn rsa(env: &mut dyn Environment, bits: usize) -> Self {
        Self::Rsa(Box::new(RsaKey::generate(env, bits)))
    }

    pub(super) fn dsa(env: &mut dyn Environment) -> Self {
        Self::Dsa(Box::new(DsaKey::generate(env)))
    }

    pub(super) fn ecdsa(env: &mut dyn Environment) -> Self {
        Self::P256(ec_key!(env, p256, 32))
    }

    pub(super) fn ed25519(env: &mut dyn Environment) -> Self {
        let mut seed = [0; 32];
        env.fill_random(&mut seed);
        Self::Ed25519(Box::new(ed25519_dalek::SigningKey::from_bytes(&seed)))
    }

    /// The key in a PEM block of any of the types that Go reads; the error is sprig's text.
    pub(super) fn from_pem(pem: &str) -> Result<Self, String> {
        let (kind, der) = der::from_pem(pem).ok_or("no PEM data in input")?;
        if kind == "PRIVATE KEY" {
            return Self::from_pkcs8(&der)
                .ok_or_else(|| "decoding PEM as PKCS#8: asn1: structure error: invalid private key".into());
        }
        let malformed =
            |name: &str| format!("parsing {name} private key from PEM: asn1: structure error: invalid key");
        match kind.strip_suffix(" PRIVATE KEY") {
            Some("RSA") => {
                RsaKey::from_pkcs1(&der).map(|key| Self::Rsa(Box::new(key))).ok_or_else(|| malformed("RSA"))
            }
            Some("EC") => Self::from_sec1(&der, None).ok_or_else(|| malformed("EC")),
            Some("DSA") => {
                DsaKey::from_der(&der).map(|key| Self::Dsa(Box::new(key))).ok_or_else(|| malformed("DSA"))
            }
            Some(_) => Err(format!("invalid private key type {kind}")),
            None => Err(format!("no private key data in PEM block of type {kind}")),
        }
    }

    fn from_pkcs8(der: &[u8]) -> Option<Self> {
        let mut reader = Reader(der).enter(der::SEQUENCE)?;
        reader.integer()?;
        let mut algorithm = reader.enter(der::SEQUENCE)?;
        let key = reader.expect(der::OCTET_STRING)?;
        match algorithm.expect(der::OBJECT_IDENTIFIER)? {
            RSA_ENCRYPTION => Some(Self::Rsa(Box::new(RsaKey::from_pkcs1(key)?))),
            EC_PUBLIC_KEY => Self::from_sec1(key, algorithm.optional(der::OBJECT_IDENTIFIER)),
            ED25519 => {
                let seed = Reader(key).expect(der::OCTET_STRING)?.try_into().ok()?;
                Some(Self::Ed25519(Box::new(ed25519_dalek::SigningKey::from_bytes(&seed))))
            }
            _ => None,
        }
    }

    fn from_sec1(der: &[u8], curve: Option<&[u8]>) -> Option<Self> {
        let mut reader = Reader(der).enter(der::SEQUENCE)?;
        reader.integer()?;
        let secret = reader.expect(der::OCTET_STRING)?;
        let named = reader.optional(0xA0).and_then(|inner| Reader(inner).expect(der::OBJECT_IDENTIFIER));
        let padded = |len: usize| [vec![0; len.saturating_sub(secret.len())], secret.to_vec()].concat();
        match curve.or(named)? {
            P256 => p256::ecdsa::SigningKey::from_slice(&padded(32)).ok().map(Self::P256),
            P384 => p384::ecdsa::SigningKey::from_slice(&padded(48)).ok().map(Self::P384),
            P521 => p521::ecdsa::SigningKey::from_slice(&padded(66)).ok().map(Self::P521),
            _ => None,
        }
    }

    /// In the PEM form that sprig gives it.
    pub(super) fn to_pem(&self) -> String {
        match self {
            Self::Rsa(key) => der::to_pem("RSA PRIVATE KEY", &key.to_pkcs1()),
            Self::P256(key) => self.to_sec1(&key.to_bytes(), P256),
            Self::P384(key) => self.to_sec1(&key.to_bytes(), P384),
            Self::P521(key) => self.to_sec1(&key.to_bytes(), P521),
            Self::Ed25519(key) => {
                let seed = tlv(der::OCTET_STRING, key.as_bytes());
                let algorithm = sequence(&[oid(ED25519)]);
                let pkcs8 = [integer(&BigUint::ZERO), algorithm, tlv(der::OCTET_STRING, &seed)];
                der::to_pem("PRIVATE KEY", &sequence(&pkcs8))
            }
            Self::Dsa(key) => {
                let numbers = [&BigUint::ZERO, &key.p, &key.q, &key.g, &key.public, &key.private];
                der::to_pem("DSA PRIVATE KEY", &sequence(&numbers.map(integer)))
            }
        }
    }

    fn to_sec1(&self, secret: &[u8], curve: &[u8]) -> String {
        let parts = [
            integer(&BigUint::from(1u32)),
            tlv(der::OCTET_STRING, secret),
            tlv(0xA0, &oid(curve)),
            tlv(0xA1, &bit_string(&self.public_bits())),
        ];
        der::to_pem("EC PRIVATE KEY", &sequence(&parts))
    }

    /// The public key as the bit string of a SubjectPublicKeyInfo holds it.
    pub(super) fn public_bits(&self) -> Vec<u8> {
        match self {
            Self::Rsa(key) => sequence(&[integer(&key.modulus), integer(&key.public_exponent)]),
            Self::P256(key) => key.verifying_key().to_sec1_point(false).as_bytes().to_vec(),
            Self::P384(key) => key.verifying_key().to_sec1_point(false).as_bytes().to_vec(),
            Self::P521(key) => key.verifying_key().to_sec1_point(false).as_bytes().to_vec(),
            Self::Ed25519(key) => key.verifying_key().to_bytes().to_vec(),
            Self::Dsa(key) => integer(&key.public),
        }
    }

    /// The SubjectPublicKeyInfo.
    pub(super) fn public_info(&self) -> Vec<u8> {
        let algorithm = match self {
            Self::Rsa(_) => vec![oid(RSA_ENCRYPTION), tlv(der::NULL, &[])],
            Self::P256(_) => vec![oid(EC_PUBLIC_KEY), oid(P256)],
            Self::P384(_) => vec![oid(EC_PUBLIC_KEY), oid(P384)],
            Self::P521(_) => vec![oid(EC_PUBLIC_KEY), oid(P521)],
            Self::Ed25519(_) | Self::Dsa(_) => vec![oid(ED25519)],
        };
        sequence(&[sequence(&algorithm), bit_string(&self.public_bits())])
    }

    /// How this key signs certificates: the AlgorithmIdentifier.
    pub(super) fn signature_algorithm(&self) -> Result<Vec<u8>, String> {
        Ok(sequence(&match self {
            Self::Rsa(key) if key.modulus.bits() < 1024 => {
                return Err(format!(
                    "crypto/rsa: {}-bit keys are insecure (see https://go.dev/pkg/crypto/rsa#hdr-Minimum_key_size)",
                    key.modulus.bits()
                ));
            }
            Self::Rsa(_) => vec![oid(SHA256_WITH_RSA), tlv(der::NULL, &[])],
            Self::P256(_) => vec![oid(ECDSA_WITH_SHA256)],
            Self::P384(_) => vec![oid(ECDSA_WITH_SHA384)],
            Self::P521(_) => vec![oid(ECDSA_WITH_SHA512)],
            Self::Ed25519(_) => vec![oid(ED25519)],
            Self::Dsa(_) => {
                return Err("x509: certificate private key does not implement crypto.Signer".into());
            }
        }))
    }

    /// The cost of a signature: for RSA it grows with the third power of the key's size, which has no bound.
    pub(super) fn signing_cost(&self) -> usize {
        let Self::Rsa(key) = self else { return cost::ELLIPTIC };
        let ratio = usize::try_from(key.modulus.bits().div_ceil(2048)).unwrap_or(usize::MAX);
        ratio.saturating_mul(ratio).saturating_mul(ratio).saturating_mul(cost::RSA_SIGNATURE)
    }

    /// A signature of the message by [`PrivateKey::signature_algorithm`].
    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        let failed = |_| "signing failed".to_owned();
        Ok(match self {
            Self::Rsa(key) => key.sign(&sha2::Sha256::digest(message)),
            Self::P256(key) => {
                let signature: p256::ecdsa::Signature =
                    key.sign_prehash(&sha2::Sha256::digest(message)).map_err(failed)?;
                signature.to_der().as_bytes().to_vec()
            }
            Self::P384(key) => {
                let signature: p384::ecdsa::Signature =
                    key.sign_prehash(&sha2::Sha384::digest(message)).map_err(failed)?;
                signature.to_der().as_bytes().to_vec()
            }
            Self::P521(key) => {
                let signature: p521::ecdsa::Signature =
                    key.sign_prehash(&sha2::Sha512::digest(message)).map_err(failed)?;
                signature.to_der().as_bytes().to_vec()
            }
            Self::Ed25519(key) => {
                use ed25519_dalek::Signer as _;
                key.sign(message).to_bytes().to_vec()
            }
            Self::Dsa(_) => {
                return Err("x509: certificate private key does not implement crypto.Signer".into());
            }
        })
    }
}
