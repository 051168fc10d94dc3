//! Signs certificate signing requests (PKCS #10), as the built-in signers of a cluster do.
//!
//! The DER is written by hand, since the subject, with all its organisations, and the alternative names are copied verbatim
//! from the request.

use jiff::{SignedDuration, Timestamp};
use rcgen::SigningKey as _;
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer, pem::PemObject as _};

use crate::{
    error::Error,
    pki::{self, Authority, Der},
};

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OBJECT_ID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const TRUE: &[u8] = &[0x01, 0x01, 0xff];
/// `ecdsa-with-SHA256`, the authorities' signature algorithm.
const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
/// `extensionRequest`.
const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x0e];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
/// Certificates are valid from a few minutes before they are signed, because clocks differ.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);

/// A parsed certificate signing request.
#[derive(Debug)]
pub(crate) struct SigningRequest {
    subject: Vec<u8>,
    public_key: Vec<u8>,
    /// The subjectAltName extension, if there is one.
    alternative_names: Option<Vec<u8>>,
    /// The common name of the subject.
    pub(crate) common_name: String,
    /// The organisations of the subject.
    pub(crate) organisations: Vec<String>,
}

impl SigningRequest {
    /// Parses a PEM request. Returns `None` if it is invalid.
    pub(crate) fn from_pem(pem: &[u8]) -> Option<Self> {
        let der = CertificateSigningRequestDer::from_pem_slice(pem).ok()?;
        let request = Der(der.as_ref()).next().filter(|(tag, _)| *tag == SEQUENCE)?.1;
        let (_, info) = Der(request).next()?;
        let mut info = Der(info);
        let (_version, subject, key) = (info.next()?, info.next()?, info.next()?);
        let (name, organisations) = pki::subject(subject.1);
        Some(Self {
            subject: tlv(subject.0, subject.1),
            public_key: tlv(key.0, key.1),
            alternative_names: info.next().and_then(|(_, attributes)| alternative_names(attributes)),
            common_name: name.unwrap_or_default().to_owned(),
            organisations: organisations.into_iter().map(str::to_owned).collect(),
        })
    }

    /// Whether the request has subject alternative names.
    pub(crate) fn has_alternative_names(&self) -> bool {
        self.alternative_names.is_some()
    }

    /// Returns a certificate in PEM, signed by an authority for the given usages and lifetime.
    pub(crate) fn sign(
        &self,
        authority: &Authority,
        usages: &[String],
        now: Timestamp,
        lifetime: SignedDuration,
        serial: u64,
    ) -> Result<String, Error> {
        let issuer = authority.der()?;
        let issuer = pki::certificate_subject(&issuer)
            .map(|(tag, content)| tlv(tag, content))
            .ok_or_else(|| rustls::Error::General("the authority's certificate has no subject".into()))?;
        let algorithm = tlv(SEQUENCE, &tlv(OBJECT_ID, ECDSA_SHA256));
        let from = now.checked_sub(BACKDATE).unwrap_or(now);
        let until = now.checked_add(lifetime).unwrap_or(Timestamp::MAX);
        let mut number = serial.to_be_bytes().to_vec();
        // Makes the number positive and nonzero.
        number[0] = number[0] & 0x7f | 0x40;
        let mut extensions = vec![extension(KEY_USAGE, true, &key_usage(usages))];
        let purposes = purposes(usages);
        if !purposes.is_empty() {
            extensions.push(extension(EXTENDED_KEY_USAGE, false, &tlv(SEQUENCE, &purposes)));
        }
        extensions.push(extension(BASIC_CONSTRAINTS, true, &tlv(SEQUENCE, &[])));
        extensions.extend(self.alternative_names.clone());
        let body = tlv(
            SEQUENCE,
            &[
                tlv(0xa0, &tlv(INTEGER, &[2])),
                tlv(INTEGER, &number),
                algorithm.clone(),
                issuer,
                tlv(SEQUENCE, &[time(from), time(until)].concat()),
                self.subject.clone(),
                self.public_key.clone(),
                tlv(0xa3, &tlv(SEQUENCE, &extensions.concat())),
            ]
            .concat(),
        );
        let signature = authority.signing_key().sign(&body)?;
        let signature = tlv(BIT_STRING, &[&[0], signature.as_slice()].concat());
        let certificate = tlv(SEQUENCE, &[body, algorithm, signature].concat());
        Ok(pem(&CertificateDer::from(certificate)))
    }
}

/// Encodes a DER element.
fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match u8::try_from(content.len()) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            let digits: Vec<u8> =
                content.len().to_be_bytes().into_iter().skip_while(|digit| *digit == 0).collect();
            out.push(0x80 | u8::try_from(digits.len()).unwrap_or_default());
            out.extend(digits);
        }
    }
    out.extend_from_slice(content);
    out
}

fn extension(id: &[u8], critical: bool, value: &[u8]) -> Vec<u8> {
    let mut content = tlv(OBJECT_ID, id);
    if critical {
        content.extend_from_slice(TRUE);
    }
    content.extend(tlv(OCTET_STRING, value));
    tlv(SEQUENCE, &content)
}

/// Returns the subjectAltName extension among the attributes of a request.
fn alternative_names(attributes: &[u8]) -> Option<Vec<u8>> {
    for (_, attribute) in Der(attributes) {
        let mut attribute = Der(attribute);
        if attribute.next().is_none_or(|(_, id)| id != EXTENSION_REQUEST) {
            continue;
        }
        let (_, values) = attribute.next()?;
        for (_, extensions) in Der(values) {
            let found =
                Der(extensions).find(|(_, it)| Der(it).next().is_some_and(|(_, id)| id == ALTERNATIVE_NAMES));
            if let Some((tag, extension)) = found {
                return Some(tlv(tag, extension));
            }
        }
    }
    None
}

/// Returns the bits of the key usages among the given usages, most significant bit first.
fn key_usage(usages: &[String]) -> Vec<u8> {
    let bits = usages.iter().filter_map(|usage| {
        Some(match usage.as_str() {
            "signing" | "digital signature" => 0,
            "content commitment" => 1,
            "key encipherment" => 2,
            "data encipherment" => 3,
            "key agreement" => 4,
            "cert sign" => 5,
            "crl sign" => 6,
            "encipher only" => 7,
            _ => return None,
        })
    });
    let byte = bits.fold(0_u8, |sum, bit: u32| sum | 0x80 >> bit);
    if byte == 0 {
        return tlv(BIT_STRING, &[0]);
    }
    tlv(BIT_STRING, &[u8::try_from(byte.trailing_zeros()).unwrap_or_default(), byte])
}

/// Returns the encoded extended key usages among the given usages.
fn purposes(usages: &[String]) -> Vec<u8> {
    let number = |usage: &String| {
        Some(match usage.as_str() {
            "server auth" => 1,
            "client auth" => 2,
            "code signing" => 3,
            "email protection" | "s/mime" => 4,
            "timestamping" => 8,
            "ocsp signing" => 9,
            _ => return None,
        })
    };
    let numbers: std::collections::BTreeSet<u8> = usages.iter().filter_map(number).collect();
    let id = |number| tlv(OBJECT_ID, &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, number]);
    numbers.into_iter().flat_map(id).collect()
}

/// Encodes a time: with a two-digit year until 2049, as X.509 requires.
fn time(at: Timestamp) -> Vec<u8> {
    let year: i32 = at.strftime("%Y").to_string().parse().unwrap_or_default();
    if year < 2050 {
        return tlv(0x17, at.strftime("%y%m%d%H%M%SZ").to_string().as_bytes());
    }
    tlv(0x18, at.strftime("%Y%m%d%H%M%SZ").to_string().as_bytes())
}

fn pem(certificate: &CertificateDer<'_>) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let text = STANDARD.encode(certificate);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}
