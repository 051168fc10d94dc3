//! The certificate of the webhook server: read from files, or made and renewed by the operator itself.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client, api::PostParams};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::{
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

use crate::error::{Error, Result};

/// How often files are looked at, and the own certificate is.
const LOOK: Duration = Duration::from_secs(10);
/// How long an own certificate is good for, and how long before its end it is renewed.
const LIFE: jiff::SignedDuration = jiff::SignedDuration::from_hours(24 * 90);
const RENEW: jiff::SignedDuration = jiff::SignedDuration::from_hours(24 * 30);

/// Where the certificate comes from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// `tls.crt` and `tls.key` in a folder, as cert-manager mounts them.
    Files(PathBuf),
    /// The operator's own authority, kept in a secret that its replicas share.
    Own {
        /// The secret and the service.
        name: String,
        namespace: String,
    },
}

/// A certificate, its key and the authority that signed it, in PEM.
struct Pem {
    certificate: Vec<u8>,
    key: Vec<u8>,
    authority: Option<Vec<u8>>,
}

/// The current certificate.
#[derive(Debug)]
pub(crate) struct Certificates {
    source: Source,
    current: RwLock<Option<Arc<CertifiedKey>>>,
    changed: RwLock<Option<SystemTime>>,
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Certificates {
    /// Loads or makes the certificate. Returns the authority that clients should trust, if it is the operator's own.
    pub(crate) async fn load(source: Source, client: &Client) -> Result<(Arc<Self>, Option<Vec<u8>>)> {
        let certificates = Arc::new(Self { source, current: RwLock::default(), changed: RwLock::default() });
        let authority = certificates.refresh(client).await?;
        Ok((certificates, authority))
    }

    /// Keeps the certificate fresh, for ever.
    pub(crate) async fn watch(self: Arc<Self>, client: Client) {
        loop {
            tokio::time::sleep(LOOK).await;
            if let Err(error) = self.refresh(&client).await {
                tracing::warn!(%error, "the webhooks' certificate could not be renewed");
            }
        }
    }

    async fn refresh(&self, client: &Client) -> Result<Option<Vec<u8>>> {
        let pem = match &self.source {
            Source::Files(folder) => {
                let modified =
                    std::fs::metadata(folder.join("tls.crt")).and_then(|meta| meta.modified()).ok();
                let known = *self.changed.read().unwrap_or_else(PoisonError::into_inner);
                if known.is_some() && modified == known {
                    return Ok(None);
                }
                let pem = read_files(folder)?;
                *self.changed.write().unwrap_or_else(PoisonError::into_inner) = modified;
                pem
            }
            Source::Own { name, namespace } => shared(client, name, namespace).await?,
        };
        let key = certified(&pem)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(key));
        Ok(pem.authority)
    }
}

fn bad(error: impl std::fmt::Display) -> Error {
    Error::Certificate(error.to_string())
}

fn read_files(folder: &Path) -> Result<Pem> {
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read(&path).map_err(|error| bad(format!("{}: {error}", path.display())))
    };
    Ok(Pem { certificate: read("tls.crt")?, key: read("tls.key")?, authority: None })
}

fn certified(pem: &Pem) -> Result<CertifiedKey> {
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(&pem.certificate).collect::<Result<_, _>>().map_err(bad)?;
    let key = PrivateKeyDer::from_pem_slice(&pem.key).map_err(bad)?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(bad)
}

/// The certificate in the secret that all replicas share: whoever comes first makes it.
async fn shared(client: &Client, name: &str, namespace: &str) -> Result<Pem> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found = api.get_opt(name).await?;
    if let Some(secret) = &found
        && let Some(pem) = usable(secret)
    {
        return Ok(pem);
    }
    let mut secret = found.clone().unwrap_or_default();
    secret.metadata.name = Some(name.to_owned());
    secret.type_ = Some("kubernetes.io/tls".into());
    secret.data = Some(make(name, namespace)?);
    let written = match found {
        Some(_) => api.replace(name, &PostParams::default(), &secret).await,
        None => api.create(&PostParams::default(), &secret).await,
    };
    match written {
        Ok(secret) => usable(&secret).ok_or_else(|| bad("the own certificate is not usable")),
        // Another replica was faster: its certificate counts.
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
            usable(&api.get(name).await?).ok_or_else(|| bad("another replica's certificate is not usable"))
        }
        Err(error) => Err(error.into()),
    }
}

/// Reads a secret whose certificate has some time left.
fn usable(secret: &Secret) -> Option<Pem> {
    let data = secret.data.as_ref()?;
    let until: jiff::Timestamp = std::str::from_utf8(&data.get("until")?.0).ok()?.parse().ok()?;
    if jiff::Timestamp::now() > until.checked_sub(RENEW).ok()? {
        return None;
    }
    let get = |name: &str| data.get(name).map(|bytes| bytes.0.clone());
    Some(Pem { certificate: get("tls.crt")?, key: get("tls.key")?, authority: Some(get("ca.crt")?) })
}

fn make(name: &str, namespace: &str) -> Result<std::collections::BTreeMap<String, ByteString>> {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    authority.distinguished_name.push(DnType::CommonName, format!("{name} authority"));
    let authority_key = KeyPair::generate().map_err(bad)?;
    let authority_certificate = authority.self_signed(&authority_key).map_err(bad)?;
    let issuer = Issuer::new(authority, authority_key);
    let names = [
        format!("{name}.{namespace}.svc"),
        format!("{name}.{namespace}.svc.cluster.local"),
        format!("{name}.{namespace}"),
        "localhost".to_owned(),
    ];
    let serving = CertificateParams::new(names).map_err(bad)?;
    let key = KeyPair::generate().map_err(bad)?;
    let certificate = serving.signed_by(&key, &issuer).map_err(bad)?;
    let until = jiff::Timestamp::now().checked_add(LIFE).map_err(bad)?;
    let text = |text: String| ByteString(text.into_bytes());
    Ok([
        ("tls.crt".to_owned(), text(certificate.pem())),
        ("tls.key".to_owned(), text(key.serialize_pem())),
        ("ca.crt".to_owned(), text(authority_certificate.pem())),
        ("until".to_owned(), text(until.to_string())),
    ]
    .into())
}
