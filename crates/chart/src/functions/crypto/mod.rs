//! Passwords, encryption, keys and certificates.

mod certs;
mod der;
mod keys;
mod primes;

use aes::Aes256;
use cbc::cipher::block_padding::NoPadding;
use cbc::cipher::{BlockModeDecrypt as _, BlockModeEncrypt as _, KeyIvInit as _};
use hmac::{KeyInit as _, Mac as _};
use steersman_gotemplate::{CallError, Funcs, Str};

use super::Host;
use super::args::define;
use super::encoding::{base64, base64_decode};
use crate::environment::Environment;
use keys::PrivateKey;

pub(super) fn register<H: Host>(funcs: &mut Funcs<H>) {
    certs::register(funcs);
    define!(funcs {
        "bcrypt" [env, budget] (password: &Str) => {
            budget.charge_cost(cost::BCRYPT)?;
            bcrypt_hash(env, password)
        };
        "htpasswd" [env, budget] (user: &Str, password: &Str) => {
            budget.charge_cost(cost::BCRYPT)?;
            htpasswd(env, user, password)
        };
        "derivePassword" [budget] (counter: u32, kind: &Str, password: &Str, user: &Str, site: &Str) => {
            budget.charge_cost(cost::SCRYPT)?;
            derive_password(counter, kind, password, user, site)
        };
        "encryptAES" [env] (password: &Str, text: &Str) => encrypt(env, password, text);
        "decryptAES" (password: &Str, text: &Str) => decrypt(password, text);
        "genPrivateKey" [env, budget] (kind: &Str) => {
            budget.charge_cost(match kind.as_bytes() {
                b"" | b"rsa" => cost::RSA_4096,
                b"dsa" => cost::DSA,
                b"ecdsa" | b"ed25519" => cost::ELLIPTIC,
                _ => 0,
            })?;
            match kind.as_bytes() {
                b"" | b"rsa" => PrivateKey::rsa(env, 4096).to_pem(),
                b"dsa" => PrivateKey::dsa(env).to_pem(),
                b"ecdsa" => PrivateKey::ecdsa(env).to_pem(),
                b"ed25519" => PrivateKey::ed25519(env).to_pem(),
                _ => format!("Unknown type {kind}"),
            }
        };
    });
}

/// Cost of cryptography, 1 being some 30 ns: measured on a common machine and rounded up.
mod cost {
    /// A password hash, some 50 ms.
    pub(super) const BCRYPT: usize = 2_000_000;
    /// A derived password, some 150 ms.
    pub(super) const SCRYPT: usize = 5_000_000;
    /// An RSA key of 2048 bits, some 50 ms.
    pub(super) const RSA_2048: usize = 2_000_000;
    /// An RSA key of 4096 bits, some 500 ms.
    pub(super) const RSA_4096: usize = 10_000_000;
    /// A DSA key with its own parameters, a few seconds.
    pub(super) const DSA: usize = 40_000_000;
    /// An elliptic-curve key, or a signature with one.
    pub(super) const ELLIPTIC: usize = 10_000;
    /// A signature with an RSA key of 2048 bits.
    pub(super) const RSA_SIGNATURE: usize = 100_000;
}

/// Work factor of the hashes, Go's default.
const BCRYPT_COST: u32 = 10;
/// Maximum length of a password for bcrypt.
const BCRYPT_MAX_LEN: usize = 72;

fn bcrypt_hash(env: &mut dyn Environment, password: &[u8]) -> String {
    let failed = |why: &str| format!("failed to encrypt string with bcrypt: {why}");
    if password.len() > BCRYPT_MAX_LEN {
        return failed("bcrypt: password length exceeds 72 bytes");
    }
    let mut salt = [0; 16];
    env.fill_random(&mut salt);
    match bcrypt::hash_with_salt(password, BCRYPT_COST, salt) {
        Ok(hash) => hash.format_for_version(bcrypt::Version::TwoA),
        Err(error) => failed(&error.to_string()),
    }
}

fn htpasswd(env: &mut dyn Environment, user: &Str, password: &[u8]) -> Vec<u8> {
    if user.contains(&b':') {
        return [b"invalid username: ", user.as_bytes()].concat();
    }
    [user.as_bytes(), b":", bcrypt_hash(env, password).as_bytes()].concat()
}

/// Password templates of the Master Password algorithm; each letter represents a class of characters.
fn password_templates(kind: &[u8]) -> &'static [&'static str] {
    match kind {
        b"maximum" => &["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"],
        b"long" => &[
            "CvcvnoCvcvCvcv",
            "CvcvCvcvnoCvcv",
            "CvcvCvcvCvcvno",
            "CvccnoCvcvCvcv",
            "CvccCvcvnoCvcv",
            "CvccCvcvCvcvno",
            "CvcvnoCvccCvcv",
            "CvcvCvccnoCvcv",
            "CvcvCvccCvcvno",
            "CvcvnoCvcvCvcc",
            "CvcvCvcvnoCvcc",
            "CvcvCvcvCvccno",
            "CvccnoCvccCvcv",
            "CvccCvccnoCvcv",
            "CvccCvccCvcvno",
            "CvcvnoCvccCvcc",
            "CvcvCvccnoCvcc",
            "CvcvCvccCvccno",
            "CvccnoCvcvCvcc",
            "CvccCvcvnoCvcc",
            "CvccCvcvCvccno",
        ],
        b"medium" => &["CvcnoCvc", "CvcCvcno"],
        b"short" => &["Cvcn"],
        b"basic" => &["aaanaaan", "aannaaan", "aaannaaa"],
        b"pin" => &["nnnn"],
        _ => &[],
    }
}

fn template_characters(class: u8) -> &'static [u8] {
    match class {
        b'C' => b"BCDFGHJKLMNPQRSTVWXYZ",
        b'v' => b"aeiou",
        b'c' => b"bcdfghjklmnpqrstvwxyz",
        b'a' => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
        b'n' => b"0123456789",
        b'o' => b"@&%?,=[]_:-+*$#!'^~;()/.",
        _ => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
    }
}

fn derive_password(
    counter: u32,
    kind: &Str,
    password: &[u8],
    user: &[u8],
    site: &[u8],
) -> Result<String, CallError> {
    const SCOPE: &[u8] = b"com.lyndir.masterpassword";
    let templates = password_templates(kind);
    if templates.is_empty() {
        return Ok(format!("cannot find password template {kind}"));
    }
    let len = |text: &[u8]| u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes();
    let failed = |_| CallError::new("failed to derive password");
    let params = scrypt::Params::new(15, 8, 2).map_err(|_| CallError::new("failed to derive password"))?;
    let mut key = [0; 64];
    let salt = [SCOPE, len(user).as_slice(), user].concat();
    scrypt::scrypt(password, &salt, &params, &mut key).map_err(failed)?;
    let mut mac = hmac::Hmac::<sha2::Sha256>::new_from_slice(&key)
        .map_err(|_| CallError::new("failed to derive password"))?;
    mac.update(&[SCOPE, len(site).as_slice(), site, counter.to_be_bytes().as_slice()].concat());
    let seed = mac.finalize().into_bytes();
    let mut seed = seed.iter().map(|byte| usize::from(*byte));
    let template = templates.get(seed.next().unwrap_or(0) % templates.len()).copied().unwrap_or_default();
    let pick = |(class, byte): (u8, usize)| {
        let characters = template_characters(class);
        characters.get(byte % characters.len()).copied().map(char::from)
    };
    Ok(template.bytes().zip(seed).filter_map(pick).collect())
}

const AES_BLOCK: usize = 16;

/// Derives the AES key: the password, truncated or padded with zeros.
fn aes_key(password: &[u8]) -> [u8; 32] {
    let mut key = [0; 32];
    for (key, byte) in key.iter_mut().zip(password) {
        *key = *byte;
    }
    key
}

fn encrypt(env: &mut dyn Environment, password: &[u8], text: &[u8]) -> String {
    if text.is_empty() {
        return String::new();
    }
    let mut iv = [0; AES_BLOCK];
    env.fill_random(&mut iv);
    let padding = AES_BLOCK - text.len() % AES_BLOCK;
    let padded = [text, &vec![padding as u8; padding]].concat();
    let cipher = cbc::Encryptor::<Aes256>::new(&aes_key(password).into(), &iv.into());
    let encrypted = cipher.encrypt_padded_vec::<NoPadding>(&padded);
    base64(&[iv.as_slice(), &encrypted].concat())
}

fn decrypt(password: &[u8], text: &[u8]) -> Result<Vec<u8>, CallError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let bytes = base64_decode(text).map_err(CallError::new)?;
    let out_of_range = |what: String| CallError::new(format!("runtime error: {what}"));
    let Some((iv, encrypted)) = bytes.split_first_chunk::<AES_BLOCK>() else {
        // Go's decoder allocates for whole groups of digits.
        let capacity = text.len() / 4 * 3;
        return Err(out_of_range(format!(
            "slice bounds out of range [:{AES_BLOCK}] with capacity {capacity}"
        )));
    };
    let cipher = cbc::Decryptor::<Aes256>::new(&aes_key(password).into(), &(*iv).into());
    let decrypted = cipher
        .decrypt_padded_vec::<NoPadding>(encrypted)
        .map_err(|_| CallError::new("crypto/cipher: input not full blocks"))?;
    let Some(padding) = decrypted.last().map(|byte| usize::from(*byte)) else {
        return Err(out_of_range("index out of range [-1]".into()));
    };
    match decrypted.len().checked_sub(padding) {
        Some(len) => Ok(decrypted.get(..len).unwrap_or_default().to_vec()),
        None => Err(out_of_range(format!("slice bounds out of range [:-{}]", padding - decrypted.len()))),
    }
}
