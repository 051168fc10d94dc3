//! TLS certificates of the webhook and metrics servers, read from files or issued by the operator.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client, api::PostParams};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

use crate::{
    environment::Environment,
    error::{Error, Result},
    metrics::Metrics,
};

/// Interval between checks of certificate files and of the own certificate.
const LOOK: Duration = Duration::from_secs(10);
/// Lifetime of an own certificate, and how long before its expiry it is renewed.
const LIFE: SignedDuration = SignedDuration::from_hours(24 * 90);
const RENEW: SignedDuration = SignedDuration::from_hours(24 * 30);
/// Tolerated clock skew.
const SKEW: SignedDuration = SignedDuration::from_hours(24);

/// Where the certificate comes from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// `tls.crt` and `tls.key` in a directory, as cert-manager mounts them.
    Files(PathBuf),
    /// The operator's own CA, kept in a Secret that its replicas share.
    Own {
        /// Name of the Secret and of the Service.
        name: String,
        namespace: String,
    },
    /// A self-signed certificate for `localhost` that lives as long as the process.
    SelfSigned,
}

/// A certificate, its key and the CA certificate, in PEM.
struct Pem {
    certificate: Vec<u8>,
    key: Vec<u8>,
    authority: Option<Vec<u8>>,
}

/// Publishes the CA bundle to the cluster.
pub(crate) type Announce = Box<dyn Fn(Vec<u8>) -> BoxFuture<'static, Result<()>> + Send + Sync>;

/// The current certificate.
pub(crate) struct Certificates {
    source: Source,
    client: Client,
    environment: Arc<dyn Environment>,
    metrics: Metrics,
    announce: Announce,
    current: RwLock<Option<Arc<CertifiedKey>>>,
    /// Where the current certificate was read from. That is the modification time of the files, or the CA bundle that
    /// was announced.
    known: Mutex<LoadedVersion>,
}

#[derive(Default)]
struct LoadedVersion {
    modified: Option<SystemTime>,
    /// Expiry of a self-signed certificate.
    until: Option<Timestamp>,
    authority: Option<Vec<u8>>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("source", &self.source).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Certificates {
    /// Loads or issues the certificate, and announces the CA that signed it if it is the operator's own.
    pub(crate) async fn load(
        source: Source,
        client: Client,
        environment: Arc<dyn Environment>,
        metrics: Metrics,
        announce: Announce,
    ) -> Result<Arc<Self>> {
        let certificates = Arc::new(Self {
            source,
            client,
            environment,
            metrics,
            announce,
            current: RwLock::default(),
            known: Mutex::default(),
        });
        certificates.refresh().await?;
        Ok(certificates)
    }

    /// Returns the TLS settings of a server with the current certificate and without client certificates.
    pub(crate) fn server_config(self: &Arc<Self>) -> Result<Arc<ServerConfig>> {
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(bad)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        Ok(Arc::new(config))
    }

    /// Keeps the certificate up to date, forever.
    pub(crate) async fn watch(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK).await;
            if let Err(error) = self.refresh().await {
                tracing::warn!(%error, source = ?self.source, "the certificate could not be renewed");
            }
            // Webhook configurations may be created after the operator starts, or be replaced.
            let authority = self.known().authority.clone();
            if let Some(authority) = authority
                && let Err(error) = (self.announce)(authority).await
            {
                tracing::warn!(%error, "the webhooks' authority could not be announced");
            }
        }
    }

    async fn refresh(&self) -> Result<()> {
        let result = self.try_refresh().await;
        if !matches!(result, Ok(false)) {
            self.metrics.certificate(result.is_ok());
        }
        result.map(drop)
    }

    /// Returns whether anything changed.
    async fn try_refresh(&self) -> Result<bool> {
        let (mut modified, mut until) = (None, None);
        let pem = match &self.source {
            Source::Files(folder) => {
                modified = std::fs::metadata(folder.join("tls.crt")).and_then(|meta| meta.modified()).ok();
                if modified.is_some() && self.known().modified == modified {
                    return Ok(false);
                }
                read_files(folder)?
            }
            Source::Own { name, namespace } => {
                let pem = shared(&self.client, name, namespace, self.environment.now()).await?;
                if pem.authority.is_some() && self.known().authority == pem.authority {
                    return Ok(false);
                }
                pem
            }
            Source::SelfSigned => {
                let now = self.environment.now();
                if self
                    .known()
                    .until
                    .is_some_and(|until| now.checked_add(RENEW).is_ok_and(|then| then < until))
                {
                    return Ok(false);
                }
                let end = now.checked_add(LIFE).map_err(bad)?;
                until = Some(end);
                self_signed(now, end)?
            }
        };
        let key = certified(&pem)?;
        self.known().modified = modified;
        self.known().until = until;
        if let Some(authority) = pem.authority {
            // The cluster must trust the CA before the first client sees a certificate.
            (self.announce)(authority.clone()).await?;
            self.known().authority = Some(authority);
        }
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(key));
        Ok(true)
    }

    fn known(&self) -> MutexGuard<'_, LoadedVersion> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bad(error: impl fmt::Display) -> Error {
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

/// Returns the certificate in the Secret that all replicas share. The first replica creates it, or renews it in time.
async fn shared(client: &Client, name: &str, namespace: &str, now: Timestamp) -> Result<Pem> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found = api.get_opt(name).await?;
    if let Some(secret) = &found
        && let Some(pem) = usable(secret, now)
    {
        return Ok(pem);
    }
    let mut secret = found.clone().unwrap_or_default();
    let before = secret.data.as_ref().and_then(|data| data.get("ca.crt")).map(|bytes| bytes.0.clone());
    secret.metadata.name = Some(name.to_owned());
    secret.data = Some(make(name, namespace, before.as_deref(), now)?);
    let written = match found {
        Some(_) => api.replace(name, &PostParams::default(), &secret).await,
        None => api.create(&PostParams::default(), &secret).await,
    };
    match written {
        Ok(secret) => usable(&secret, now).ok_or_else(|| bad("this replica's certificate is not usable")),
        // Another replica was faster: its certificate is used.
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
            let secret = api.get(name).await?;
            usable(&secret, now).ok_or_else(|| bad("another replica's certificate is not usable"))
        }
        Err(error) => Err(error.into()),
    }
}

/// Reads the certificate from a Secret, unless it is due for renewal.
fn usable(secret: &Secret, now: Timestamp) -> Option<Pem> {
    let data = secret.data.as_ref()?;
    let until: Timestamp = std::str::from_utf8(&data.get("until")?.0).ok()?.parse().ok()?;
    if now > until.checked_sub(RENEW).ok()? {
        return None;
    }
    let get = |name: &str| data.get(name).map(|bytes| bytes.0.clone());
    Some(Pem { certificate: get("tls.crt")?, key: get("tls.key")?, authority: Some(get("ca.crt")?) })
}

/// Issues a CA and a certificate signed by it. The previous CA stays trusted, since another replica may still serve the
/// previous certificate.
fn make(
    name: &str,
    namespace: &str,
    before: Option<&[u8]>,
    now: Timestamp,
) -> Result<BTreeMap<String, ByteString>> {
    let until = now.checked_add(LIFE).map_err(bad)?;
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    authority.distinguished_name.push(DnType::CommonName, format!("{name} authority"));
    limit(&mut authority, now, until)?;
    let authority_key = KeyPair::generate().map_err(bad)?;
    let authority_certificate = authority.self_signed(&authority_key).map_err(bad)?;
    let issuer = Issuer::new(authority, authority_key);
    let names = [
        format!("{name}.{namespace}.svc"),
        format!("{name}.{namespace}.svc.cluster.local"),
        format!("{name}.{namespace}"),
        "localhost".to_owned(),
    ];
    let mut serving = CertificateParams::new(names).map_err(bad)?;
    limit(&mut serving, now, until)?;
    let key = KeyPair::generate().map_err(bad)?;
    let certificate = serving.signed_by(&key, &issuer).map_err(bad)?;
    let mut authorities = authority_certificate.pem();
    if let Some(before) = before.and_then(first_certificate) {
        authorities.push_str(before);
    }
    let text = |text: String| ByteString(text.into_bytes());
    Ok([
        ("tls.crt".to_owned(), text(certificate.pem())),
        ("tls.key".to_owned(), text(key.serialize_pem())),
        ("ca.crt".to_owned(), text(authorities)),
        ("until".to_owned(), text(until.to_string())),
    ]
    .into())
}

/// Issues a self-signed certificate for `localhost`.
fn self_signed(now: Timestamp, until: Timestamp) -> Result<Pem> {
    let mut certificate =
        CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()]).map_err(bad)?;
    limit(&mut certificate, now, until)?;
    let key = KeyPair::generate().map_err(bad)?;
    let signed = certificate.self_signed(&key).map_err(bad)?;
    Ok(Pem { certificate: signed.pem().into_bytes(), key: key.serialize_pem().into_bytes(), authority: None })
}

/// Returns the first certificate of a CA bundle, which is the newest.
fn first_certificate(bundle: &[u8]) -> Option<&str> {
    const END: &str = "-----END CERTIFICATE-----";
    let text = std::str::from_utf8(bundle).ok()?;
    let end = text.find(END)? + END.len();
    let rest = text.get(end..)?;
    let line_break = rest.len() - rest.trim_start_matches(['\r', '\n']).len();
    text.get(..end + line_break)
}

/// Sets the validity period of a certificate, in whole days.
fn limit(certificate: &mut CertificateParams, from: Timestamp, until: Timestamp) -> Result<()> {
    let day = |moment: Timestamp| {
        let date = moment.to_zoned(TimeZone::UTC).date();
        let part = |number: i8| u8::try_from(number).unwrap_or(1);
        rcgen::date_time_ymd(date.year().into(), part(date.month()), part(date.day()))
    };
    certificate.not_before = day(from.checked_sub(SKEW).map_err(bad)?);
    certificate.not_after = day(until.checked_add(SKEW).map_err(bad)?);
    Ok(())
}

#[cfg(test)]
#[cfg(feature = "testing")]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

    use steersman_cluster::Cluster;

    use super::*;

    #[derive(Debug, Default)]
    struct Clock(AtomicI64);

    impl Environment for Clock {
        fn now(&self) -> Timestamp {
            Timestamp::from_second(1_800_000_000 + self.0.load(SeqCst) * 86_400).unwrap()
        }

        fn random(&self) -> u64 {
            4
        }
    }

    fn count(bundle: &[u8]) -> usize {
        CertificateDer::pem_slice_iter(bundle).collect::<Result<Vec<_>, _>>().unwrap().len()
    }

    #[tokio::test]
    async fn an_own_certificate_is_shared_and_renewed_in_time() {
        let cluster = Cluster::builder().workloads(false).start().await.unwrap();
        let clock = Arc::new(Clock::default());
        let announced = Arc::new(Mutex::new(Vec::new()));
        let replica = async || {
            let announced = Arc::clone(&announced);
            let announce: Announce = Box::new(move |authority| {
                announced.lock().unwrap().push(authority);
                Box::pin(std::future::ready(Ok(())))
            });
            let source = Source::Own { name: "hook".into(), namespace: "default".into() };
            let clock: Arc<dyn Environment> = Arc::clone(&clock) as _;
            Certificates::load(source, cluster.client(), clock, Metrics::new(), announce).await.unwrap()
        };
        let served =
            |replica: &Certificates| replica.current.read().unwrap().clone().unwrap().cert[0].clone();
        let (one, two) = (replica().await, replica().await);
        assert_eq!(served(&one), served(&two));
        assert_eq!(count(&announced.lock().unwrap()[1]), 1);

        clock.0.store(59, SeqCst);
        one.refresh().await.unwrap();
        assert_eq!(announced.lock().unwrap().len(), 2, "nothing new");

        clock.0.store(61, SeqCst);
        let before = served(&one);
        one.refresh().await.unwrap();
        assert_ne!(served(&one), before);
        let bundle = announced.lock().unwrap()[2].clone();
        assert_eq!(count(&bundle), 2, "the authority before is trusted until all replicas have followed");
        assert_eq!(served(&two), before);
        two.refresh().await.unwrap();
        assert_eq!(served(&two), served(&one));

        clock.0.store(130, SeqCst);
        two.refresh().await.unwrap();
        assert_eq!(count(announced.lock().unwrap().last().unwrap()), 2, "no more than one is kept");
    }

    #[tokio::test]
    async fn a_self_signed_certificate_is_renewed_in_time() {
        let cluster = Cluster::builder().workloads(false).start().await.unwrap();
        let clock = Arc::new(Clock::default());
        let announce: Announce = Box::new(|_| Box::pin(std::future::ready(Err(bad("nothing to announce")))));
        let environment: Arc<dyn Environment> = Arc::clone(&clock) as _;
        let metrics = Metrics::new();
        let own =
            Certificates::load(Source::SelfSigned, cluster.client(), environment, metrics.clone(), announce);
        let own = own.await.unwrap();
        let counted = |name: &str| {
            let text = metrics.render();
            let line = text.lines().find(|line| line.starts_with(name)).map(str::to_owned);
            line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        };
        let reads = || counted("certwatcher_read_certificate_total");
        let served = || own.current.read().unwrap().clone().unwrap().cert[0].clone();
        let before = served();
        assert_eq!(reads(), Some(1));
        clock.0.store(59, SeqCst);
        own.refresh().await.unwrap();
        assert_eq!((served(), reads()), (before.clone(), Some(1)));
        clock.0.store(61, SeqCst);
        own.refresh().await.unwrap();
        assert_ne!(served(), before);
        assert_eq!((reads(), counted("certwatcher_read_certificate_errors_total")), (Some(2), Some(0)));
    }

    #[tokio::test]
    async fn files_are_read_again_when_they_change() {
        let cluster = Cluster::builder().workloads(false).start().await.unwrap();
        let folder = std::env::temp_dir().join(format!("steersman-certificates-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, age: u64| {
            let made = make(name, "default", None, Timestamp::now()).unwrap();
            for file in ["tls.crt", "tls.key"] {
                std::fs::write(folder.join(file), &made[file].0).unwrap();
                let time = SystemTime::now() - Duration::from_secs(age);
                std::fs::File::open(folder.join(file)).unwrap().set_modified(time).unwrap();
            }
        };
        write("old", 60);
        let announce: Announce = Box::new(|_| Box::pin(std::future::ready(Err(bad("nothing to announce")))));
        let source = Source::Files(folder.clone());
        let clock: Arc<dyn Environment> = Arc::new(Clock::default());
        let files =
            Certificates::load(source, cluster.client(), clock, Metrics::new(), announce).await.unwrap();
        let served = || files.current.read().unwrap().clone().unwrap().cert[0].clone();
        let before = served();
        files.refresh().await.unwrap();
        assert_eq!(served(), before);
        // Partially written files are not used.
        std::fs::write(folder.join("tls.crt"), "nonsense").unwrap();
        assert!(files.refresh().await.is_err());
        assert_eq!(served(), before);
        write("new", 30);
        files.refresh().await.unwrap();
        assert_ne!(served(), before);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
