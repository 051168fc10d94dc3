//! The cluster's certificates.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, KeyUsagePurpose};

use crate::error::Error;

/// The authority that signs every certificate of a cluster.
#[derive(Debug)]
pub(crate) struct Authority {
    certificate: String,
}

impl Authority {
    /// Makes a new authority.
    pub(crate) fn generate() -> Result<Self, Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "kubernetes");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { certificate })
    }

    /// The authority's certificate in PEM.
    pub(crate) fn certificate(&self) -> &str {
        &self.certificate
    }
}
