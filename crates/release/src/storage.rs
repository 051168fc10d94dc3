//! Where revisions are kept: Helm's own Secrets or ConfigMaps, read and written as Helm does.
//!
//! A record that does not fit into one object is kept in parts. Its main object then is a valid record for Helm too,
//! whose manifest names a kind that no cluster has: whatever Helm would do with it is refused with that word.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::{Client, ResourceExt as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result, code};
use crate::record::{ChartRecord, Hook, Release, Status};

const TYPE: &str = "helm.sh/release.v1";
const PART_TYPE: &str = "steersman.dev/release-part.v1";
const SYSTEM_LABELS: [&str; 6] = ["name", "owner", "status", "version", "createdAt", "modifiedAt"];

/// Until when a process that works on the revision vouches for being alive.
const ALIVE_UNTIL: &str = "release.steersman.dev/alive-until";
/// How many parts a record has, and which.
const PARTS: &str = "release.steersman.dev/parts";
const BODY: &str = "release.steersman.dev/body";

/// How long such a vow holds, and how often it is renewed.
const VOW: Duration = Duration::from_secs(30);
const RENEWAL: Duration = Duration::from_secs(10);
/// How long an operation of the real helm, which vouches for nothing, counts as being under way.
const UNVOWED: Duration = Duration::from_secs(600);

/// The most bytes that one object carries. Kubernetes takes 1 MiB; names and labels need some of that.
const MAX_OBJECT: usize = 1_000_000;
/// The most bytes that a record may have when it is unpacked.
const MAX_RECORD: u64 = 256 * 1024 * 1024;
/// How many records are read at once.
const READS: usize = 8;

/// What holds the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StorageKind {
    /// Secrets: Helm's default.
    #[default]
    Secrets,
    /// ConfigMaps.
    ConfigMaps,
}

/// A revision as its labels tell, without its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// The release's name.
    pub name: String,
    /// Where it is kept.
    pub namespace: String,
    /// The number.
    pub version: i64,
    /// How it stands.
    pub status: Status,
    /// Until when the process that works on it vouches for being alive, if it is pending.
    pub(crate) alive_until: Option<Timestamp>,
}

/// The records of one namespace, or of all.
#[derive(Clone)]
pub(crate) struct Storage {
    client: Client,
    namespace: Option<String>,
    kind: StorageKind,
    resource: ApiResource,
    /// What owns new records.
    owners: Vec<OwnerReference>,
}

impl Storage {
    pub(crate) fn new(client: Client, namespace: Option<&str>, kind: StorageKind) -> Self {
        let resource = match kind {
            StorageKind::Secrets => ApiResource::erase::<k8s_openapi::api::core::v1::Secret>(&()),
            StorageKind::ConfigMaps => ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&()),
        };
        Self { client, namespace: namespace.map(str::to_owned), kind, resource, owners: Vec::new() }
    }

    pub(crate) fn owned_by(mut self, owners: Vec<OwnerReference>) -> Self {
        self.owners = owners;
        self
    }

    fn api(&self) -> Api<DynamicObject> {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &self.resource),
            None => Api::all_with(self.client.clone(), &self.resource),
        }
    }

    /// All revisions of a release, oldest first.
    pub(crate) async fn revisions(&self, name: &str) -> Result<Vec<Revision>> {
        let mut revisions = self.query(&format!("name={name},owner=helm")).await?;
        revisions.retain(|revision| revision.name == name);
        revisions.sort_by_key(|revision| revision.version);
        Ok(revisions)
    }

    /// The revisions that labels choose.
    pub(crate) async fn query(&self, selector: &str) -> Result<Vec<Revision>> {
        let mut params = ListParams::default().labels(selector).limit(500);
        let mut revisions = Vec::new();
        loop {
            let page =
                self.api().list_metadata(&params).await.map_err(Error::kube("cannot list releases"))?;
            revisions.extend(page.items.iter().filter_map(revision));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(revisions),
            }
        }
    }

    /// The record of a revision.
    pub(crate) async fn get(&self, name: &str, version: i64) -> Result<Release> {
        let key = key(name, version);
        let found = self.api().get_opt(&key).await.map_err(Error::kube("cannot read a release"))?;
        match found {
            Some(object) => self.read(&object).await,
            None => Err(Error::NotFound { name: name.to_owned() }),
        }
    }

    /// The records of revisions, in their order.
    pub(crate) async fn get_all(&self, revisions: &[Revision]) -> Result<Vec<Release>> {
        let read = |revision: &Revision| {
            let own = Self { namespace: Some(revision.namespace.clone()), ..self.clone() };
            let (name, version) = (revision.name.clone(), revision.version);
            async move { own.get(&name, version).await }
        };
        let reads: Vec<_> = revisions.iter().map(read).collect();
        stream::iter(reads).buffered(READS).try_collect().await
    }

    async fn read(&self, object: &DynamicObject) -> Result<Release> {
        let name = object.name_any();
        let broken = |reason: String| Error::Record { key: name.clone(), reason };
        let mut release: Release = decode(&self.data(object, "release").map_err(broken)?).map_err(broken)?;
        if let Some(parts) = object.annotations().get(PARTS) {
            let count: usize =
                parts.parse().map_err(|_| broken(format!("{parts:?} is no number of parts")))?;
            let digest = object.annotations().get(BODY).cloned().unwrap_or_default();
            let text = self.read_parts(&name, &digest, count).await?;
            let body: Body = decode(&text).map_err(broken)?;
            body.restore(&mut release);
        }
        release.labels = object.labels().clone();
        release.labels.retain(|label, _| !SYSTEM_LABELS.contains(&label.as_str()));
        Ok(release)
    }

    async fn read_parts(&self, name: &str, digest: &str, count: usize) -> Result<Vec<u8>> {
        let broken = |reason: String| Error::Record { key: name.to_owned(), reason };
        let mut text = Vec::new();
        for index in 0..count {
            let part = part_key(name, digest, index);
            let object =
                self.api().get(&part).await.map_err(Error::kube("cannot read a part of a release"))?;
            text.extend(self.data(&object, "part").map_err(broken)?);
        }
        if digest_of(&text) != digest {
            return Err(broken("its parts do not belong together".into()));
        }
        Ok(text)
    }

    fn data(&self, object: &DynamicObject, field: &str) -> Result<Vec<u8>, String> {
        let text = object.data.get("data").and_then(|data| data.get(field)).and_then(Value::as_str);
        let text = text.ok_or_else(|| format!("it has no data.{field}"))?;
        match self.kind {
            StorageKind::Secrets => BASE64.decode(text).map_err(|error| error.to_string()),
            StorageKind::ConfigMaps => Ok(text.as_bytes().to_vec()),
        }
    }

    /// Stores a new revision. Fails with [`Error::InProgress`] if it is there: somebody else was faster.
    pub(crate) async fn create(&self, release: &Release) -> Result<()> {
        let mut object = self.object(release, "createdAt").await?;
        object.metadata.owner_references = (!self.owners.is_empty()).then(|| self.owners.clone());
        match self.api().create(&PostParams::default(), &object).await {
            Ok(_) => Ok(()),
            Err(error) if code(&error) == Some(409) => Err(Error::InProgress { remaining: VOW }),
            Err(error) => Err(Error::kube("cannot store the release")(error)),
        }
    }

    /// Stores how a revision stands now.
    pub(crate) async fn update(&self, release: &Release) -> Result<()> {
        let object = self.object(release, "modifiedAt").await?;
        let mut patch = serde_json::to_value(&object).unwrap_or_default();
        if !release.info.status.is_pending() {
            patch["metadata"]["annotations"][ALIVE_UNTIL] = Value::Null;
        }
        let patch = Patch::Merge(patch);
        let key = key(&release.name, release.version);
        let done = self.api().patch(&key, &PatchParams::default(), &patch).await;
        done.map(|_| ()).map_err(Error::kube("cannot store the release"))
    }

    async fn object(&self, release: &Release, stamp: &str) -> Result<DynamicObject> {
        let key = key(&release.name, release.version);
        let mut annotations = BTreeMap::new();
        let mut text = encode(release)?;
        if text.len() > MAX_OBJECT {
            let body = encode(&Body::of(release))?;
            let digest = digest_of(&body);
            let count = self.write_parts(&key, &digest, &body, release).await?;
            annotations.insert(PARTS.to_owned(), count.to_string());
            annotations.insert(BODY.to_owned(), digest);
            text = encode(&Body::stub(release))?;
        }
        if release.info.status.is_pending() {
            annotations.insert(ALIVE_UNTIL.to_owned(), vow());
        }
        let mut object = self.data_object(&key, "release", &text, TYPE);
        object.metadata.annotations = (!annotations.is_empty()).then_some(annotations);
        let mut labels = release.labels.clone();
        labels.insert(stamp.into(), Timestamp::now().as_second().to_string());
        labels.insert("name".into(), release.name.clone());
        labels.insert("owner".into(), "helm".into());
        labels.insert("status".into(), release.info.status.to_string());
        labels.insert("version".into(), release.version.to_string());
        object.metadata.labels = Some(labels);
        Ok(object)
    }

    fn data_object(&self, name: &str, field: &str, data: &[u8], secret_type: &str) -> DynamicObject {
        let content = match self.kind {
            StorageKind::Secrets => json!({ "type": secret_type, "data": { field: BASE64.encode(data) } }),
            StorageKind::ConfigMaps => json!({ "data": { field: String::from_utf8_lossy(data) } }),
        };
        DynamicObject::new(name, &self.resource).data(content)
    }

    /// Parts are named after what they hold: a revision whose record changes writes new ones before it forgets the old.
    async fn write_parts(&self, key: &str, digest: &str, body: &[u8], release: &Release) -> Result<usize> {
        let params = PatchParams::apply("helm").force();
        let mut count = 0;
        for (index, chunk) in body.chunks(MAX_OBJECT).enumerate() {
            let mut object = self.data_object(&part_key(key, digest, index), "part", chunk, PART_TYPE);
            object.metadata.labels = Some(BTreeMap::from([
                ("owner".into(), "steersman".into()),
                ("release".into(), release.name.clone()),
                ("revision".into(), release.version.to_string()),
            ]));
            object.metadata.owner_references = (!self.owners.is_empty()).then(|| self.owners.clone());
            let name = object.name_any();
            let written = self.api().patch(&name, &params, &Patch::Apply(&object)).await;
            written.map_err(Error::kube("cannot store a part of the release"))?;
            count = index + 1;
        }
        Ok(count)
    }

    /// Forgets a revision. That it was not there is no failure.
    pub(crate) async fn delete(&self, name: &str, version: i64) -> Result<()> {
        let forget = |key: String| async move {
            match self.api().delete(&key, &DeleteParams::default()).await {
                Ok(_) => Ok(()),
                Err(error) if code(&error) == Some(404) => Ok(()),
                Err(error) => Err(Error::kube("cannot delete a release record")(error)),
            }
        };
        forget(key(name, version)).await?;
        let parts =
            ListParams::default().labels(&format!("owner=steersman,release={name},revision={version}"));
        let parts =
            self.api().list_metadata(&parts).await.map_err(Error::kube("cannot list release parts"))?;
        for part in parts.items {
            forget(part.name_any()).await?;
        }
        Ok(())
    }

    /// Runs an operation on a pending revision, vouching for being alive meanwhile.
    pub(crate) async fn while_alive<T>(&self, release: &Release, operation: impl Future<Output = T>) -> T {
        let key = key(&release.name, release.version);
        let mut operation = std::pin::pin!(operation);
        loop {
            tokio::select! {
                done = &mut operation => return done,
                () = tokio::time::sleep(RENEWAL) => {
                    let patch = Patch::Merge(json!({ "metadata": { "annotations": { ALIVE_UNTIL: vow() } } }));
                    // Not to renew a vow only means that somebody may take over sooner.
                    if let Err(error) = self.api().patch_metadata(&key, &PatchParams::default(), &patch).await {
                        tracing::debug!(%error, key, "cannot renew the lock on a release");
                    }
                }
            }
        }
    }
}

impl Revision {
    /// How long this pending revision may still be worked on by somebody.
    pub(crate) fn held_for(&self, now: Timestamp) -> Option<Duration> {
        let until = self.alive_until?;
        Duration::try_from(until.duration_since(now)).ok().filter(|remaining| !remaining.is_zero())
    }
}

fn revision(object: &PartialObjectMeta<DynamicObject>) -> Option<Revision> {
    let labels = object.labels();
    let status = labels.get("status")?;
    let number = |label: &str| labels.get(label).and_then(|text| text.parse::<i64>().ok());
    let vowed = object.annotations().get(ALIVE_UNTIL).and_then(|text| text.parse().ok());
    let touched = number("modifiedAt").or_else(|| number("createdAt"));
    let unvowed = touched.and_then(|second| Timestamp::from_second(second).ok()?.checked_add(UNVOWED).ok());
    Some(Revision {
        name: labels.get("name")?.clone(),
        namespace: object.namespace().unwrap_or_default(),
        version: number("version")?,
        status: serde_json::from_value(Value::String(status.clone())).unwrap_or_default(),
        alive_until: vowed.or(unvowed),
    })
}

fn vow() -> String {
    Timestamp::now().checked_add(VOW).map(|until| until.to_string()).unwrap_or_default()
}

fn key(name: &str, version: i64) -> String {
    format!("sh.helm.release.v1.{name}.v{version}")
}

fn part_key(key: &str, digest: &str, index: usize) -> String {
    let short = digest.get(..12).unwrap_or(digest);
    format!("{key}.{short}.{index}")
}

fn digest_of(data: &[u8]) -> String {
    Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether labels were given that Helm keeps for itself.
pub(crate) fn has_system_labels(labels: &BTreeMap<String, String>) -> bool {
    let system = BTreeSet::from(SYSTEM_LABELS);
    labels.keys().any(|label| system.contains(label.as_str()))
}

fn encode(record: &impl Serialize) -> Result<Vec<u8>> {
    let broken = |reason: String| Error::Record { key: "to be stored".into(), reason };
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    let text = serde_json::to_vec(record).map_err(|error| broken(error.to_string()))?;
    packed.write_all(&text).map_err(|error| broken(error.to_string()))?;
    let packed = packed.finish().map_err(|error| broken(error.to_string()))?;
    Ok(BASE64.encode(packed).into_bytes())
}

fn decode<T: for<'de> Deserialize<'de>>(text: &[u8]) -> Result<T, String> {
    const GZIP: &[u8] = &[0x1f, 0x8b, 0x08];
    let mut data = BASE64.decode(text).map_err(|error| error.to_string())?;
    // Records from before Helm packed them are plain.
    if data.starts_with(GZIP) {
        let mut plain = Vec::new();
        let unpack = GzDecoder::new(data.as_slice()).take(MAX_RECORD).read_to_end(&mut plain);
        unpack.map_err(|error| error.to_string())?;
        data = plain;
    }
    serde_json::from_slice(&data).map_err(|error| error.to_string())
}

/// What never changes in a revision. How it stands is kept in its main object, so that parts are written once.
#[derive(Debug, Serialize, Deserialize)]
struct Body {
    chart: ChartRecord,
    config: Map<String, Value>,
    manifest: String,
    hooks: Vec<Hook>,
}

/// What Helm says when it is asked to work on a record in parts: no cluster has this kind.
const REFUSAL: &str = "\
apiVersion: release.steersman.dev/v1
kind: StoredInPartsUseSteerInsteadOfHelm
metadata:
  name: stored-in-parts
";

impl Body {
    fn of(release: &Release) -> Self {
        let mut hooks = release.hooks.clone();
        hooks.iter_mut().for_each(|hook| hook.last_run = crate::record::HookExecution::default());
        Self {
            chart: release.chart.clone(),
            config: release.config.clone(),
            manifest: release.manifest.clone(),
            hooks,
        }
    }

    fn stub(release: &Release) -> Release {
        let chart = ChartRecord { metadata: release.chart.metadata.clone(), ..ChartRecord::default() };
        let hooks = release.hooks.iter().map(|hook| Hook {
            name: hook.name.clone(),
            last_run: hook.last_run.clone(),
            ..Hook::default()
        });
        Release {
            name: release.name.clone(),
            namespace: release.namespace.clone(),
            version: release.version,
            info: release.info.clone(),
            manifest: REFUSAL.into(),
            chart,
            hooks: hooks.collect(),
            ..Release::default()
        }
    }

    fn restore(self, release: &mut Release) {
        let runs: Vec<_> = std::mem::take(&mut release.hooks).into_iter().map(|hook| hook.last_run).collect();
        release.chart = self.chart;
        release.config = self.config;
        release.manifest = self.manifest;
        release.hooks = self.hooks;
        for (hook, run) in release.hooks.iter_mut().zip(runs) {
            hook.last_run = run;
        }
    }
}
