//! The cluster's certificates.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use sha2::{Digest as _, Sha256};
use steersman_api::user::User;

use crate::error::Error;

/// The certificate authority of a cluster.
#[derive(Debug)]
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    /// Generates a new authority.
    pub(crate) fn generate() -> Result<Self, Error> {
        Self::named(CLUSTER)
    }

    /// Generates the authority of front proxies. It is separate: its certificates are trusted to name any user.
    pub(crate) fn front_proxy() -> Result<Self, Error> {
        Self::named("front-proxy-ca")
    }

    fn named(name: &str) -> Result<Self, Error> {
        let key = KeyPair::generate()?;
        let params = params(name);
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// Restores an authority from its certificate and key, in PEM.
    #[cfg(feature = "data-dir")]
    pub(crate) fn restore(certificate: String, key: &str) -> Result<Self, Error> {
        Ok(Self { issuer: Issuer::new(params(CLUSTER), KeyPair::from_pem(key)?), certificate })
    }

    /// Returns the authority's key in PEM.
    pub(crate) fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Returns a serving certificate for DNS names and IP addresses, and its key in PKCS #8.
    pub(crate) fn server(&self, names: &[String]) -> Result<(Vec<CertificateDer<'static>>, Vec<u8>), Error> {
        let key = KeyPair::generate()?;
        let certificate = self.sign_server(names, &key)?;
        Ok((vec![certificate.der().clone()], key.serialize_der()))
    }

    /// Returns a serving certificate chain, which ends with the authority's, and its key, both in PEM.
    pub(crate) fn server_pem(&self, names: &[String]) -> Result<(String, String), Error> {
        let key = KeyPair::generate()?;
        let certificate = self.sign_server(names, &key)?;
        Ok((format!("{}{}", certificate.pem(), self.certificate), key.serialize_pem()))
    }

    fn sign_server(&self, names: &[String], key: &KeyPair) -> Result<rcgen::Certificate, Error> {
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        Ok(params.signed_by(key, &self.issuer)?)
    }

    /// Returns a client certificate for a user, optionally in a group, and its key, both in PEM.
    pub(crate) fn client(&self, user: &str, group: Option<&str>) -> Result<(String, String), Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }

    /// Returns the authority's signing key.
    pub(crate) fn signing_key(&self) -> &KeyPair {
        self.issuer.key()
    }

    /// Returns the authority's certificate in DER.
    pub(crate) fn der(&self) -> Result<CertificateDer<'static>, Error> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes())
            .map_err(|error| rustls::Error::General(error.to_string()).into())
    }

    /// Returns the authority's certificate in PEM.
    pub(crate) fn certificate(&self) -> &str {
        &self.certificate
    }
}

/// Common name of a cluster's authority.
const CLUSTER: &str = "kubernetes";

/// Returns the parameters of an authority's own certificate.
fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params
}

/// Returns the user of a verified certificate: its common name, with the organisations as groups.
///
/// Parsed by hand, since only the subject is needed.
pub(crate) fn user(certificate: &CertificateDer<'_>) -> Option<User> {
    let (_, content) = certificate_subject(certificate)?;
    let (name, groups) = subject(content);
    let mut user = User::named(name.filter(|name| !name.is_empty())?, groups);
    let print: String = Sha256::digest(certificate).iter().map(|byte| format!("{byte:02x}")).collect();
    let credential = vec![format!("X509SHA256={print}")];
    user.extra.insert("authentication.kubernetes.io/credential-id".into(), credential);
    Some(user)
}

/// Returns the subject of a certificate as a DER element: its tag and its content.
pub(crate) fn certificate_subject<'a>(certificate: &'a CertificateDer<'_>) -> Option<(u8, &'a [u8])> {
    const SEQUENCE: u8 = 0x30;
    const VERSION: u8 = 0xa0;
    let mut outer = Der(certificate.as_ref());
    let mut body = Der(Der(outer.next().filter(|(tag, _)| *tag == SEQUENCE)?.1).next()?.1);
    let mut field = body.next()?;
    if field.0 == VERSION {
        field = body.next()?;
    }
    // Serial number, algorithm, issuer and validity come before the subject.
    for _ in 0..4 {
        field = body.next()?;
    }
    Some(field)
}

/// Returns the common name and the organisations of a subject.
pub(crate) fn subject(content: &[u8]) -> (Option<&str>, Vec<&str>) {
    const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
    const ORGANISATION: &[u8] = &[0x55, 0x04, 0x0a];
    let (mut name, mut organisations) = (None, Vec::new());
    for (_, set) in Der(content) {
        for (_, pair) in Der(set) {
            let mut pair = Der(pair);
            let (Some((_, kind)), Some((_, value))) = (pair.next(), pair.next()) else { continue };
            let Ok(text) = std::str::from_utf8(value) else { continue };
            match kind {
                COMMON_NAME => name = Some(text),
                ORGANISATION => organisations.push(text),
                _ => {}
            }
        }
    }
    (name, organisations)
}

/// Iterates over DER elements: the tag and the content of each.
pub(crate) struct Der<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Der<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (tag, rest) = self.0.split_first()?;
        let (first, mut rest) = rest.split_first()?;
        let mut length = usize::from(*first);
        if length >= 0x80 {
            let (digits, after) = rest.split_at_checked(length - 0x80)?;
            length = digits
                .iter()
                .try_fold(0_usize, |sum, digit| sum.checked_mul(256)?.checked_add(usize::from(*digit)))?;
            rest = after;
        }
        let (content, after) = rest.split_at_checked(length)?;
        self.0 = after;
        Some((*tag, content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_names_its_user() {
        let authority = Authority::generate().unwrap();
        let (certificate, _) = authority.client("jane", Some("developers")).unwrap();
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
        let mut jane = user(&certificate).unwrap();
        let credential = jane.extra.remove("authentication.kubernetes.io/credential-id").unwrap();
        assert_eq!(credential.concat().len(), "X509SHA256=".len() + 64);
        assert_eq!(jane, User::named("jane", ["developers"]));
        for length in 0..certificate.len() {
            let _ = user(&CertificateDer::from(&certificate[..length]));
        }
    }
}
