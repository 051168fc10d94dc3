//! Private keys (RSA, ECDSA, Ed25519, DSA): generating, parsing, encoding and signing.

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

/// Public exponent of every generated RSA key.
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
    /// Generates a key of `bits` bits. The two primes are searched for in parallel.
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
            // The primes were chosen so that the exponent is invertible.
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

    /// Signs a SHA-256 digest by PKCS #1 v1.5.
    fn sign(&self, digest: &[u8]) -> Vec<u8> {
        let info = sequence(&[sequence(&[oid(SHA256), tlv(der::NULL, &[])]), tlv(der::OCTET_STRING, digest)]);
        let len = self.modulus.bits().div_ceil(8) as usize;
        let padding = vec![0xFF; len.saturating_sub(info.len() + 3)];
        let message = BigUint::from_bytes_be(&[&[0, 1], padding.as_slice(), &[0], &info].concat());
        // The Chinese remainder theorem makes this four times as fast.
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
    /// Generates a key with its own parameters, of 2048 and 256 bits.
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

/// Draws random bytes until the curve accepts them as a private key.
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

    /// Parses a PEM block of any type that Go reads; the error is sprig's message.
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

    /// Encodes the key in the PEM form that sprig uses.
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

    /// Returns the public key as the bit string of a SubjectPublicKeyInfo.
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

    /// Returns the SubjectPublicKeyInfo.
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

    /// Returns the AlgorithmIdentifier of this key's certificate signatures.
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

    /// Returns the cost of a signature. For RSA it grows with the cube of the key size, which is unbounded.
    pub(super) fn signing_cost(&self) -> usize {
        let Self::Rsa(key) = self else { return cost::ELLIPTIC };
        let ratio = usize::try_from(key.modulus.bits().div_ceil(2048)).unwrap_or(usize::MAX);
        ratio.saturating_mul(ratio).saturating_mul(ratio).saturating_mul(cost::RSA_SIGNATURE)
    }

    /// Signs the message by [`PrivateKey::signature_algorithm`].
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::tests::Seeded;

    fn rsa() -> RsaKey {
        RsaKey::generate(&mut Seeded::new(3), 512)
    }

    #[test]
    fn what_an_rsa_key_signs_its_public_half_gives_back() {
        let key = rsa();
        let [p, q] = &key.primes;
        assert_eq!((key.modulus.bits(), p * q), (512, key.modulus.clone()));
        let digest = [7; 32];
        let signature = key.sign(&digest);
        assert_eq!(signature.len(), 64);
        let message = BigUint::from_bytes_be(&signature).modpow(&key.public_exponent, &key.modulus);
        let info = [&[0x30, 0x31, 0x30, 0x0D, 6, 9][..], SHA256, &[5, 0, 4, 0x20], &digest].concat();
        let expected = [&[1][..], &[0xFF; 10], &[0], &info].concat();
        assert_eq!(message.to_bytes_be(), expected);
    }

    #[test]
    fn an_rsa_key_is_written_and_read() {
        let key = rsa();
        let der = key.to_pkcs1();
        let read = RsaKey::from_pkcs1(&der).unwrap();
        assert_eq!((&read.modulus, &read.public_exponent), (&key.modulus, &key.public_exponent));
        assert_eq!((&read.private_exponent, &read.primes), (&key.private_exponent, &key.primes));
        let mut reader = Reader(&der).enter(der::SEQUENCE).unwrap();
        let numbers: Vec<BigUint> = std::iter::from_fn(|| reader.integer()).collect();
        let [p, q] = &key.primes;
        assert_eq!(numbers.len(), 9);
        assert_eq!(numbers[6], &key.private_exponent % (p - 1u32));
        assert_eq!(numbers[7], &key.private_exponent % (q - 1u32));
        assert_eq!(&numbers[8] * q % p, BigUint::from(1u32));
    }

    #[test]
    fn an_unsound_rsa_key_is_refused() {
        let number = |n: u32| integer(&BigUint::from(n));
        let key = |version: u32, modulus: u32, p: u32, q: u32| {
            let numbers = [number(version), number(modulus), number(3), number(7), number(p), number(q)];
            RsaKey::from_pkcs1(&sequence(&numbers))
        };
        assert!(key(0, 15, 3, 5).is_some());
        assert!(key(1, 15, 3, 5).is_none());
        assert!(key(0, 16, 3, 5).is_none());
        assert!(key(0, 5, 1, 5).is_none());
        assert!(key(0, 5, 5, 1).is_none());
        assert!(key(0, 0, 0, 5).is_none());
        assert!(RsaKey::from_pkcs1(&sequence(&[number(0), number(15)])).is_none());
    }

    /// Parses the key's own encoding.
    fn again(key: &PrivateKey) -> PrivateKey {
        PrivateKey::from_pem(&key.to_pem()).unwrap()
    }

    #[test]
    fn keys_of_every_kind_are_written_and_read() {
        let mut env = Seeded::new(5);
        let number = |n: u32| BigUint::from(n);
        let dsa =
            DsaKey { p: number(23), q: number(11), g: number(4), public: number(8), private: number(7) };
        let keys = [
            (PrivateKey::Rsa(Box::new(rsa())), "RSA PRIVATE KEY"),
            (PrivateKey::ecdsa(&mut env), "EC PRIVATE KEY"),
            (PrivateKey::P384(p384::ecdsa::SigningKey::from_slice(&[3; 48]).unwrap()), "EC PRIVATE KEY"),
            (
                PrivateKey::P521(
                    p521::ecdsa::SigningKey::from_slice(&[&[0][..], &[3; 65]].concat()).unwrap(),
                ),
                "EC PRIVATE KEY",
            ),
            (PrivateKey::ed25519(&mut env), "PRIVATE KEY"),
            (PrivateKey::Dsa(Box::new(dsa)), "DSA PRIVATE KEY"),
        ];
        for (key, kind) in keys {
            let pem = key.to_pem();
            assert!(pem.starts_with(&format!("-----BEGIN {kind}-----\n")), "{pem}");
            let read = again(&key);
            assert_eq!(read.to_pem(), pem);
            assert_eq!(read.public_info(), key.public_info());
            assert_eq!(read.sign(b"message").is_ok(), kind != "DSA PRIVATE KEY");
        }
    }

    #[test]
    fn keys_are_read_in_the_common_form_of_all_kinds() {
        let mut env = Seeded::new(5);
        let wrapped = |algorithm: &[Vec<u8>], key: &[u8]| {
            let parts = [integer(&BigUint::ZERO), sequence(algorithm), tlv(der::OCTET_STRING, key)];
            PrivateKey::from_pem(&der::to_pem("PRIVATE KEY", &sequence(&parts)))
        };
        let key = rsa();
        let read = wrapped(&[oid(RSA_ENCRYPTION), tlv(der::NULL, &[])], &key.to_pkcs1()).unwrap();
        assert_eq!(read.to_pem(), PrivateKey::Rsa(Box::new(key)).to_pem());
        let ecdsa = PrivateKey::ecdsa(&mut env);
        let PrivateKey::P256(secret) = &ecdsa else { panic!("not on P-256") };
        let without_curve =
            sequence(&[integer(&BigUint::from(1u32)), tlv(der::OCTET_STRING, &secret.to_bytes())]);
        let read = wrapped(&[oid(EC_PUBLIC_KEY), oid(P256)], &without_curve).unwrap();
        assert_eq!(read.to_pem(), ecdsa.to_pem());
        assert!(wrapped(&[oid(EC_PUBLIC_KEY)], &without_curve).is_err());
        assert!(wrapped(&[oid(EC_PUBLIC_KEY), oid(&[1])], &without_curve).is_err());
        assert!(wrapped(&[oid(SHA256)], &without_curve).is_err());
        assert!(wrapped(&[oid(ED25519)], &tlv(der::OCTET_STRING, &[1; 31])).is_err());
        assert!(wrapped(&[oid(ED25519)], &tlv(der::OCTET_STRING, &[1; 32])).is_ok());
    }

    #[test]
    fn what_is_no_key_is_named() {
        let error = |kind: &str| PrivateKey::from_pem(&der::to_pem(kind, &[5, 0])).err().unwrap();
        assert_eq!(
            error("RSA PRIVATE KEY"),
            "parsing RSA private key from PEM: asn1: structure error: invalid key"
        );
        assert_eq!(
            error("EC PRIVATE KEY"),
            "parsing EC private key from PEM: asn1: structure error: invalid key"
        );
        assert_eq!(
            error("DSA PRIVATE KEY"),
            "parsing DSA private key from PEM: asn1: structure error: invalid key"
        );
        assert_eq!(
            error("PRIVATE KEY"),
            "decoding PEM as PKCS#8: asn1: structure error: invalid private key"
        );
        assert_eq!(error("X PRIVATE KEY"), "invalid private key type X PRIVATE KEY");
        assert_eq!(error("CERTIFICATE"), "no private key data in PEM block of type CERTIFICATE");
        assert_eq!(PrivateKey::from_pem("x").err().unwrap(), "no PEM data in input");
    }

    #[test]
    fn short_and_foreign_keys_sign_no_certificates() {
        let short = PrivateKey::Rsa(Box::new(rsa()));
        assert!(
            short.signature_algorithm().unwrap_err().starts_with("crypto/rsa: 512-bit keys are insecure")
        );
        assert_eq!(short.signing_cost(), cost::RSA_SIGNATURE);
        let sized = |bits: u64| {
            let modulus = BigUint::from(1u32) << (bits - 1);
            PrivateKey::Rsa(Box::new(RsaKey { modulus, ..rsa() }))
        };
        assert!(sized(1023).signature_algorithm().is_err() && sized(1024).signature_algorithm().is_ok());
        assert_eq!(sized(2048).signing_cost(), cost::RSA_SIGNATURE);
        assert_eq!(sized(2049).signing_cost(), 8 * cost::RSA_SIGNATURE);
        assert_eq!(sized(6144).signing_cost(), 27 * cost::RSA_SIGNATURE);
        assert_eq!(PrivateKey::ecdsa(&mut Seeded::new(1)).signing_cost(), cost::ELLIPTIC);
    }
}
