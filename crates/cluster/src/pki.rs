//! The cluster's certificates.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;

use crate::error::Error;

/// The authority that signs every certificate of a cluster.
#[derive(Debug)]
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    /// Makes a new authority.
    pub(crate) fn generate() -> Result<Self, Error> {
        let key = KeyPair::generate()?;
        let params = params();
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// The authority that made this certificate, from it and its key in PEM.
    pub(crate) fn restore(certificate: String, key: &str) -> Result<Self, Error> {
        Ok(Self { issuer: Issuer::new(params(), KeyPair::from_pem(key)?), certificate })
    }

    /// The authority's key in PEM.
    pub(crate) fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// A certificate for a server with these names and addresses, and its key in PKCS #8.
    pub(crate) fn server(&self, names: &[String]) -> Result<(Vec<CertificateDer<'static>>, Vec<u8>), Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok((vec![certificate.der().clone()], key.serialize_der()))
    }

    /// The authority's certificate in PEM.
    pub(crate) fn certificate(&self) -> &str {
        &self.certificate
    }
}

/// What every authority says of itself.
fn params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "kubernetes");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params
}
