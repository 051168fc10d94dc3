//! Front proxies: trusted clients that pass the user of a request in headers.

use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, UnixTime},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use steersman_api::user::User;
use steersman_apiserver::RequestHeaderAuthentication;

use crate::{error::Error, pki, serving::certificates};

/// Verifies client certificates against a set of authorities.
#[derive(Debug, Clone)]
struct Authorities(Option<Arc<dyn ClientCertVerifier>>);

impl Authorities {
    fn new(certificates: Vec<CertificateDer<'static>>) -> Result<Self, Error> {
        if certificates.is_empty() {
            return Ok(Self(None));
        }
        let mut roots = RootCertStore::empty();
        for certificate in certificates {
            roots.add(certificate)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .allow_unauthenticated()
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        Ok(Self(Some(verifier)))
    }

    /// Whether one of the authorities signed the certificate.
    fn trust(&self, certificate: &CertificateDer<'_>) -> bool {
        let verifier = self.0.as_ref();
        verifier.is_some_and(|it| it.verify_client_cert(certificate, &[], UnixTime::now()).is_ok())
    }
}

/// Verifies the front proxies of a port and reads their headers.
#[derive(Debug, Clone)]
pub(crate) struct FrontProxies {
    authorities: Authorities,
    /// Authorities of certificates that identify users directly.
    clients: Authorities,
    settings: RequestHeaderAuthentication,
}

impl FrontProxies {
    /// Returns the front proxies of a port whose other clients have certificates signed by `clients`.
    pub(crate) fn new(
        settings: &RequestHeaderAuthentication,
        clients: Vec<CertificateDer<'static>>,
    ) -> Result<Self, Error> {
        let authorities = Authorities::new(Self::authorities(settings)?)?;
        Ok(Self { authorities, clients: Authorities::new(clients)?, settings: settings.clone() })
    }

    /// Returns the authorities of front proxies.
    pub(crate) fn authorities(
        settings: &RequestHeaderAuthentication,
    ) -> Result<Vec<CertificateDer<'static>>, Error> {
        certificates("the front proxies' authorities", &settings.authorities)
    }

    /// Whether a certificate identifies a user directly, rather than a front proxy.
    pub(crate) fn name_client(&self, certificate: &CertificateDer<'_>) -> bool {
        self.clients.trust(certificate)
    }

    /// Whether a certificate belongs to a front proxy: signed by their authorities, with an allowed name.
    pub(crate) fn include(&self, certificate: &CertificateDer<'_>) -> bool {
        let names = &self.settings.allowed_names;
        self.authorities.trust(certificate)
            && (names.is_empty() || pki::user(certificate).is_some_and(|user| names.contains(&user.name)))
    }

    /// Returns the user in a front proxy's headers, and removes these headers.
    pub(crate) fn user(&self, headers: &mut HeaderMap) -> Option<User> {
        let settings = &self.settings;
        let first = |names: &[String]| {
            let texts = names.iter().filter_map(|name| headers.get(name.as_str())?.to_str().ok());
            texts.filter(|text| !text.is_empty()).map(str::to_owned).next()
        };
        let name = first(&settings.username_headers)?;
        let uid = first(&settings.uid_headers).unwrap_or_default();
        let groups = settings.group_headers.iter().flat_map(|name| headers.get_all(name.as_str()));
        let groups: Vec<&str> = groups.filter_map(|value| value.to_str().ok()).collect();
        let mut user = User::named(&name, groups);
        user.uid = uid;
        let prefixes: Vec<String> =
            settings.extra_header_prefixes.iter().map(|prefix| prefix.to_ascii_lowercase()).collect();
        for (header, value) in &*headers {
            let key = prefixes.iter().find_map(|prefix| header.as_str().strip_prefix(prefix.as_str()));
            if let (Some(key), Ok(value)) = (key, value.to_str()) {
                let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
                user.extra.entry(key).or_default().push(value.to_owned());
            }
        }
        let lists = [&settings.username_headers, &settings.uid_headers, &settings.group_headers];
        let said: Vec<HeaderName> = headers
            .keys()
            .filter(|name| {
                let name = name.as_str();
                lists.iter().any(|list| list.iter().any(|header| header.eq_ignore_ascii_case(name)))
                    || prefixes.iter().any(|prefix| name.starts_with(prefix.as_str()))
            })
            .cloned()
            .collect();
        for name in said {
            headers.remove(name);
        }
        Some(user)
    }
}
