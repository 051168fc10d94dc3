//! Certificates, with the fields and extensions that Go's `x509.CreateCertificate` writes for sprig.
//!
//! Encoded as DER here rather than by rcgen, which cannot generate RSA keys, does not accept a custom random source and
//! orders extensions differently.

use std::any::Any;
use std::net::IpAddr;
use std::rc::Rc;

use num_bigint::BigUint;
use sha2::Digest as _;
use steersman_gostd::strconv;
use steersman_gotemplate::{Budget, CallError, Funcs, Kind, List, Object, Str, Type, Value};

use super::cost;
use super::der::{self, Reader, bit_string, integer, oid, sequence, tlv};
use super::keys::PrivateKey;
use crate::environment::Environment;
use crate::functions::args::{Param, define};
use crate::functions::duration::{Duration, SECOND};
use crate::functions::encoding::base64_decode;
use crate::functions::layout;
use crate::functions::time::Time;
use crate::functions::{Host, TEXT};

/// Size in bits of the RSA keys generated for certificates.
const RSA_BITS: usize = 2048;

pub(super) fn register<H: Host>(funcs: &mut Funcs<H>) {
    define!(funcs {
        "buildCustomCert" [budget] (cert: &Str, key: &Str) => charged(budget, build_custom(budget, cert, key));
        "genCA" [env, budget] (name: &Str, days: i64) => {
            let key = new_key(env, budget)?;
            charged(budget, authority(env, budget, name, days, &key))
        };
        "genCAWithKey" [env, budget] (name: &Str, days: i64, key: &Str) =>
            charged(budget, authority(env, budget, name, days, &parse_key(budget, key)?));
        "genSelfSignedCert" [env, budget] (name: &Str, ips: List, hosts: List, days: i64) => {
            let key = new_key(env, budget)?;
            charged(budget, self_signed(env, budget, name, (&ips, &hosts), days, &key))
        };
        "genSelfSignedCertWithKey" [env, budget] (name: &Str, ips: List, hosts: List, days: i64, key: &Str) =>
            charged(budget, self_signed(env, budget, name, (&ips, &hosts), days, &parse_key(budget, key)?));
        "genSignedCert" [env, budget] (name: &Str, ips: List, hosts: List, days: i64, ca: &Certificate) => {
            let key = new_key(env, budget)?;
            charged(budget, signed(env, budget, name, (&ips, &hosts), days, ca, &key))
        };
        "genSignedCertWithKey" [env, budget]
            (name: &Str, ips: List, hosts: List, days: i64, ca: &Certificate, key: &Str) =>
            charged(budget, signed(env, budget, name, (&ips, &hosts), days, ca, &parse_key(budget, key)?));
    });
}

/// sprig's certificate type: a certificate and its key, both in PEM.
struct Certificate {
    cert: Str,
    key: Str,
}

impl<'a> Param<'a> for &'a Certificate {
    const TYPE: Type = Type::Named("sprig.certificate");
    fn from_value(value: &'a Value) -> Option<Self> {
        match value {
            Value::Object(object) => object.as_any().downcast_ref(),
            _ => None,
        }
    }
}

impl Object for Certificate {
    fn type_name(&self) -> &str {
        "sprig.certificate"
    }

    fn kind(&self) -> Kind {
        Kind::Struct
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "Cert" => Some(Value::String(self.cert.clone())),
            "Key" => Some(Value::String(self.key.clone())),
            _ => None,
        }
    }

    fn fields(&self) -> Option<Vec<(&str, Value)>> {
        Some(vec![("Cert", Value::String(self.cert.clone())), ("Key", Value::String(self.key.clone()))])
    }

    fn display(&self) -> String {
        format!("{{{} {}}}", self.cert, self.key)
    }

    fn json(&self) -> Value {
        Value::map([("Cert", Value::String(self.cert.clone())), ("Key", Value::String(self.key.clone()))])
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn new_key(env: &mut dyn Environment, budget: &Budget) -> Result<PrivateKey, CallError> {
    budget.charge_cost(cost::RSA_2048)?;
    Ok(PrivateKey::rsa(env, RSA_BITS))
}

/// Charges for a certificate and its key.
fn charged(budget: &Budget, made: Result<Certificate, CallError>) -> Result<Value, CallError> {
    let made = made?;
    budget.charge_memory(made.cert.len() + made.key.len())?;
    Ok(Value::Object(Rc::new(made)))
}

/// Parses a PEM key, and charges for a signature with it. `what` prefixes the error.
fn read_key(budget: &Budget, pem: &Str, what: &str) -> Result<PrivateKey, CallError> {
    let key = PrivateKey::from_pem(&pem.to_str_lossy());
    let key = key.map_err(|error| CallError::new(format!("{what}: {error}")))?;
    budget.charge_cost(key.signing_cost())?;
    Ok(key)
}

fn parse_key(budget: &Budget, pem: &Str) -> Result<PrivateKey, CallError> {
    read_key(budget, pem, "parsing private key")
}

fn build_custom(budget: &Budget, cert: &Str, key: &Str) -> Result<Certificate, CallError> {
    let decode = |text: &Str, what: &str| {
        base64_decode(text).map_err(|_| CallError::new(format!("unable to decode base64 {what}")))
    };
    let cert = decode(cert, "certificate")?;
    let key = decode(key, "private key")?;
    let (_, der) = der::from_pem(&String::from_utf8_lossy(&cert))
        .ok_or_else(|| CallError::new("unable to decode certificate"))?;
    Issuer::from_der(&der)
        .map_err(|error| CallError::new(format!("error parsing certificate: decodedCert.Bytes: {error}")))?;
    let (cert, key) = (cert.into(), key.into());
    read_key(budget, &key, "error parsing private key")?;
    Ok(Certificate { cert, key })
}

fn authority(
    env: &mut dyn Environment,
    budget: &Budget,
    name: &Str,
    days: i64,
    key: &PrivateKey,
) -> Result<Certificate, CallError> {
    let request = Request { is_ca: true, ..Request::new(env, budget, name, None, days)? };
    request.issue(key, None)
}

fn self_signed(
    env: &mut dyn Environment,
    budget: &Budget,
    name: &Str,
    alternatives: (&List, &List),
    days: i64,
    key: &PrivateKey,
) -> Result<Certificate, CallError> {
    Request::new(env, budget, name, Some(alternatives), days)?.issue(key, None)
}

fn signed(
    env: &mut dyn Environment,
    budget: &Budget,
    name: &Str,
    alternatives: (&List, &List),
    days: i64,
    ca: &Certificate,
    key: &PrivateKey,
) -> Result<Certificate, CallError> {
    let (_, der) = der::from_pem(&ca.cert.to_str_lossy())
        .ok_or_else(|| CallError::new("unable to decode certificate"))?;
    let issuer = Issuer::from_der(&der).map_err(|error| {
        CallError::new(format!("error parsing certificate: decodedSignerCert.Bytes: {error}"))
    })?;
    let issuer_key = read_key(budget, &ca.key, "error parsing private key")?;
    Request::new(env, budget, name, Some(alternatives), days)?.issue(key, Some((&issuer, &issuer_key)))
}

/// Contents of a certificate to be created.
struct Request {
    serial: BigUint,
    name: Str,
    hosts: Vec<Str>,
    ips: Vec<IpAddr>,
    from: Time,
    until: Time,
    is_ca: bool,
}

/// Issuer data that a new certificate takes over.
struct Issuer {
    subject: Vec<u8>,
    public_info: Vec<u8>,
    key_id: Vec<u8>,
}

impl Issuer {
    fn from_der(der: &[u8]) -> Result<Self, String> {
        Self::read(der).ok_or_else(|| "x509: malformed certificate".into())
    }

    fn read(der: &[u8]) -> Option<Self> {
        let mut certificate = Reader(der).enter(der::SEQUENCE)?;
        let mut body = certificate.enter(der::SEQUENCE)?;
        body.optional(0xA0);
        body.expect(der::INTEGER)?;
        body.expect(der::SEQUENCE)?;
        body.expect(der::SEQUENCE)?;
        body.expect(der::SEQUENCE)?;
        let subject = body.next().filter(|tlv| tlv.tag == der::SEQUENCE)?.whole.to_vec();
        let public_info = body.next().filter(|tlv| tlv.tag == der::SEQUENCE)?.whole.to_vec();
        let mut key_id = Vec::new();
        if let Some(extensions) = body.optional(0xA3) {
            let mut extensions = Reader(extensions).enter(der::SEQUENCE)?;
            while let Some(mut extension) = extensions.enter(der::SEQUENCE) {
                if extension.expect(der::OBJECT_IDENTIFIER)? == SUBJECT_KEY_ID {
                    extension.optional(0x01);
                    key_id = Reader(extension.expect(der::OCTET_STRING)?).expect(der::OCTET_STRING)?.to_vec();
                }
            }
        }
        Some(Self { subject, public_info, key_id })
    }
}

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const SUBJECT_KEY_ID: &[u8] = &[0x55, 0x1D, 0x0E];
const KEY_USAGE: &[u8] = &[0x55, 0x1D, 0x0F];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1D, 0x11];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1D, 0x13];
const AUTHORITY_KEY_ID: &[u8] = &[0x55, 0x1D, 0x23];
const EXT_KEY_USAGE: &[u8] = &[0x55, 0x1D, 0x25];
const SERVER_AUTH: &[u8] = &[0x2B, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];
const CLIENT_AUTH: &[u8] = &[0x2B, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02];
const BOOLEAN_TRUE: &[u8] = &[0x01, 0x01, 0xFF];

impl Request {
    fn new(
        env: &mut dyn Environment,
        budget: &Budget,
        name: &Str,
        alternatives: Option<(&List, &List)>,
        days: i64,
    ) -> Result<Self, CallError> {
        let (ips, hosts) = match alternatives {
            Some((ips, hosts)) => (parse_ips(budget, ips)?, parse_hosts(budget, hosts)?),
            None => Default::default(),
        };
        // The encoding is built from the inside out, with copies on the way.
        let text = hosts.iter().fold(name.len(), |sum: usize, host| sum.saturating_add(host.len()));
        budget.ensure_memory(text.saturating_add(TEXT * (ips.len() + hosts.len())).saturating_mul(8))?;
        let mut serial = [0; 16];
        env.fill_random(&mut serial);
        let from = Time::from_system(env.now());
        // As in Go, a validity that does not fit a duration wraps.
        let validity = Duration(days.wrapping_mul(24 * 3600 * SECOND));
        let until = from.add(validity);
        Ok(Self {
            serial: BigUint::from_bytes_be(&serial),
            name: name.clone(),
            hosts,
            ips,
            from,
            until,
            is_ca: false,
        })
    }

    /// Issues the certificate for a key, signed by the issuer, or self-signed without one.
    fn issue(
        &self,
        key: &PrivateKey,
        issuer: Option<(&Issuer, &PrivateKey)>,
    ) -> Result<Certificate, CallError> {
        let der = self
            .to_der(key, issuer)
            .map_err(|error| CallError::new(format!("error creating certificate: {error}")))?;
        let cert = der::to_pem("CERTIFICATE", &der).into();
        Ok(Certificate { cert, key: key.to_pem().into() })
    }

    fn to_der(&self, key: &PrivateKey, issuer: Option<(&Issuer, &PrivateKey)>) -> Result<Vec<u8>, String> {
        let signer = issuer.map_or(key, |(_, signer)| signer);
        let algorithm = signer.signature_algorithm()?;
        if matches!(key, PrivateKey::Dsa(_)) {
            return Err("x509: unsupported public key type: *dsa.PublicKey".into());
        }
        let subject = self.subject()?;
        let issuer_name = issuer.map_or(&subject, |(issuer, _)| &issuer.subject);
        if let Some((issuer, signer)) = issuer
            && issuer.public_info != signer.public_info()
        {
            return Err("x509: provided PrivateKey doesn't match parent's PublicKey".into());
        }
        let authority_id = issuer.map(|(issuer, _)| issuer).filter(|issuer| issuer.subject != subject);
        let authority_id = authority_id.map(|issuer| issuer.key_id.as_slice()).unwrap_or_default();
        let extensions = self.extensions(&subject, key, authority_id)?;
        let body = sequence(&[
            tlv(0xA0, &integer(&BigUint::from(2u32))),
            integer(&self.serial),
            algorithm.clone(),
            issuer_name.clone(),
            sequence(&[encode_time(&self.from)?, encode_time(&self.until)?]),
            subject,
            key.public_info(),
            tlv(0xA3, &extensions),
        ]);
        let signature = signer.sign(&body)?;
        Ok(sequence(&[body, algorithm, bit_string(&signature)]))
    }

    fn subject(&self) -> Result<Vec<u8>, String> {
        if self.name.is_empty() {
            return Ok(sequence(&[]));
        }
        let printable = |b: &u8| b.is_ascii_alphanumeric() || b"'()+,-./ :=?".contains(b);
        let tag = if self.name.iter().all(printable) { der::PRINTABLE_STRING } else { der::UTF8_STRING };
        if self.name.as_str().is_none() {
            return Err("asn1: string not valid UTF-8".into());
        }
        let attribute = sequence(&[oid(COMMON_NAME), tlv(tag, &self.name)]);
        Ok(sequence(&[tlv(der::SET, &attribute)]))
    }

    fn extensions(&self, subject: &[u8], key: &PrivateKey, authority_id: &[u8]) -> Result<Vec<u8>, String> {
        // Digital signature and key encipherment; a CA also signs certificates.
        let usage: &[u8] = if self.is_ca { &[2, 0b1010_0100] } else { &[5, 0b1010_0000] };
        let constraints: &[Vec<u8>] = if self.is_ca { &[BOOLEAN_TRUE.to_vec()] } else { &[] };
        let mut all = vec![
            extension(KEY_USAGE, true, &tlv(der::BIT_STRING, usage)),
            extension(EXT_KEY_USAGE, false, &sequence(&[oid(SERVER_AUTH), oid(CLIENT_AUTH)])),
            extension(BASIC_CONSTRAINTS, true, &sequence(constraints)),
        ];
        if self.is_ca {
            let digest = sha2::Sha256::digest(key.public_bits());
            let id = digest.get(..20).unwrap_or_default();
            all.push(extension(SUBJECT_KEY_ID, false, &tlv(der::OCTET_STRING, id)));
        }
        if !authority_id.is_empty() {
            all.push(extension(AUTHORITY_KEY_ID, false, &sequence(&[tlv(0x80, authority_id)])));
        }
        if !self.hosts.is_empty() || !self.ips.is_empty() {
            let mut names = Vec::new();
            for host in &self.hosts {
                if !host.is_ascii() {
                    return Err(format!("x509: {} cannot be encoded as an IA5String", strconv::quote(host)));
                }
                names.push(tlv(0x82, host));
            }
            names.extend(self.ips.iter().map(|ip| match ip.to_canonical() {
                IpAddr::V4(ip) => tlv(0x87, &ip.octets()),
                IpAddr::V6(ip) => tlv(0x87, &ip.octets()),
            }));
            let anonymous = subject == sequence(&[]);
            all.push(extension(SUBJECT_ALT_NAME, anonymous, &sequence(&names)));
        }
        Ok(sequence(&all))
    }
}

fn extension(id: &[u8], critical: bool, value: &[u8]) -> Vec<u8> {
    let flag = if critical { BOOLEAN_TRUE.to_vec() } else { Vec::new() };
    sequence(&[oid(id), flag, tlv(der::OCTET_STRING, value)])
}

/// Encodes a time, with two-digit years from 1950 to 2049 and four-digit years otherwise.
fn encode_time(time: &Time) -> Result<Vec<u8>, String> {
    match time.civil().0.year {
        1950..=2049 => Ok(tlv(der::UTC_TIME, &layout::format(time, b"060102150405Z"))),
        0..=9999 => Ok(tlv(der::GENERALIZED_TIME, &layout::format(time, b"20060102150405Z"))),
        _ => Err("asn1: structure error: cannot represent time as GeneralizedTime".into()),
    }
}

fn parse_ips(budget: &Budget, ips: &List) -> Result<Vec<IpAddr>, CallError> {
    ips.iter()
        .map(|ip| match ip {
            Value::String(text) => text
                .as_str()
                .and_then(|text| text.parse().ok())
                .ok_or_else(|| CallError::new(format!("error parsing ip: {text}"))),
            other => {
                Err(CallError::new(format!("error parsing ip: {} is not a string", budget.print(other)?)))
            }
        })
        .collect()
}

fn parse_hosts(budget: &Budget, hosts: &List) -> Result<Vec<Str>, CallError> {
    hosts
        .iter()
        .map(|host| match host {
            Value::String(text) => Ok(text.clone()),
            other => Err(CallError::new(format!(
                "error processing alternate dns name: {} is not a string",
                budget.print(other)?
            ))),
        })
        .collect()
}

#[cfg(test)]
mod tests;
