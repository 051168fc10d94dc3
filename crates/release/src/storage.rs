//! Storage of revisions: Helm's own Secrets or ConfigMaps, in Helm's format.
//!
//! A record that does not fit into one object is stored in parts. Its main object is then still a valid record for
//! Helm, with a manifest of a kind that no cluster has: Helm's operations on it fail with the name of that kind.
//!
//! The content of a record must match its object's name and namespace. With a [`Verifier`] records are signed. One that
//! does not verify is read by [`encoding::unverified`], and never signed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::encoding::{self, Identity, MAX_RECORD, MAX_UNVERIFIED, RecordBody, decode, digest_of, encode};
use crate::error::{Error, Result, code};
use crate::record::{Release, Status};
use crate::signature::{RecordKey, SIGNATURE, Signed, Verifier};

const TYPE: &str = "helm.sh/release.v1";
const PART_TYPE: &str = "steersman.dev/release-part.v1";
const SYSTEM_LABELS: [&str; 6] = ["name", "owner", "status", "version", "createdAt", "modifiedAt"];

/// Annotation with the expiry of the lock of the process that works on the revision.
const LOCKED_UNTIL: &str = "release.steersman.dev/alive-until";
/// Annotations with the number of parts of a record, and their digest.
const PARTS: &str = "release.steersman.dev/parts";
const BODY: &str = "release.steersman.dev/body";

/// Duration of such a lock, and how often it is renewed.
const LOCK_DURATION: Duration = Duration::from_secs(30);
const LOCK_RENEWAL: Duration = Duration::from_secs(10);
/// How long an operation of the real `helm`, which takes no lock, counts as in progress.
const HELM_LOCK_DURATION: Duration = Duration::from_secs(600);

/// Maximum payload of one object, in bytes. Kubernetes accepts 1 MiB; names and labels need some of that.
const MAX_OBJECT: usize = 1_000_000;
/// Maximum number of parts of a record: more than its size limit can fill.
const MAX_PARTS: usize = 256;
/// Maximum number of concurrent reads.
const READS: usize = 8;

/// Kind of the objects that store records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StorageKind {
    /// Secrets: Helm's default.
    #[default]
    Secrets,
    /// ConfigMaps.
    ConfigMaps,
}

/// A revision, as described by the labels of its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// The release's name.
    pub name: String,
    /// The namespace of its record.
    pub namespace: String,
    /// The revision number.
    pub version: i64,
    /// The status.
    pub status: Status,
    /// Expiry of the lock, if the revision is pending.
    pub(crate) locked_until: Option<Timestamp>,
}

/// The records of one namespace, or of all.
#[derive(Clone)]
pub(crate) struct Storage {
    client: Client,
    namespace: Option<String>,
    kind: StorageKind,
    resource: ApiResource,
    /// Owner references of new records.
    owners: Vec<OwnerReference>,
    /// Verifies records; without it all are trusted, as by Helm.
    verifier: Option<Verifier>,
}

impl Storage {
    pub(crate) fn new(client: Client, namespace: Option<&str>, kind: StorageKind) -> Self {
        let resource = resource(kind);
        Self {
            client,
            namespace: namespace.map(str::to_owned),
            kind,
            resource,
            owners: Vec::new(),
            verifier: None,
        }
    }

    pub(crate) fn of_kind(self, kind: StorageKind) -> Self {
        Self { kind, resource: resource(kind), ..self }
    }

    pub(crate) fn verified_by(mut self, verifier: Verifier) -> Self {
        self.verifier = Some(verifier);
        self
    }

    pub(crate) fn owned_by(mut self, owners: Vec<OwnerReference>) -> Self {
        self.owners = owners;
        self
    }

    /// Whether records are signed.
    pub(crate) fn signs(&self) -> bool {
        self.verifier.as_ref().is_none_or(|verifier| verifier.key.is_some())
    }

    fn api(&self) -> Api<DynamicObject> {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &self.resource),
            None => Api::all_with(self.client.clone(), &self.resource),
        }
    }

    /// Returns all revisions of a release, oldest first.
    pub(crate) async fn revisions(&self, name: &str) -> Result<Vec<Revision>> {
        let mut revisions = self.query(&format!("name={name},owner=helm")).await?;
        revisions.retain(|revision| revision.name == name);
        revisions.sort_by_key(|revision| revision.version);
        Ok(revisions)
    }

    /// Returns the revisions that match a label selector.
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

    /// Returns the record of a revision.
    pub(crate) async fn get(&self, name: &str, version: i64) -> Result<Release> {
        let key = key(name, version);
        let found = self.api().get_opt(&key).await.map_err(Error::kube("cannot read a release"))?;
        match found {
            Some(object) => self.read(&object).await,
            None => Err(Error::NotFound { name: name.to_owned() }),
        }
    }

    /// Returns the records of revisions, in their order.
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
        let mut release = read_main(object, self.kind, self.verifier.as_ref())?;
        if let (false, Some(parts)) = (release.unverified, object.annotations().get(PARTS)) {
            let key = object.name_any();
            let broken = |reason: String| Error::Record { key: key.clone(), reason };
            let count = parts.parse().ok().filter(|count| *count <= MAX_PARTS);
            let count = count.ok_or_else(|| broken(format!("invalid number of parts {parts:?}")))?;
            let text = match self.read_parts(&key, body_of(object), count).await {
                Ok(text) => text,
                // The main object verifies, but its parts were changed or deleted.
                Err(error)
                    if self.verifier.is_some()
                        && (matches!(error, Error::Record { .. }) || error.status_code() == Some(404)) =>
                {
                    tracing::warn!(%error, "incomplete release record: parts are missing");
                    return Ok(Release { hooks: Vec::new(), unverified: true, ..release });
                }
                Err(error) => return Err(error),
            };
            let body: RecordBody = decode(&text, MAX_RECORD).map_err(broken)?;
            body.restore(&mut release);
        }
        Ok(release)
    }

    /// Whether a record is signed with our key, for the expected subject.
    fn verifies(&self, object: &DynamicObject, data: &[u8]) -> bool {
        self.verifier.as_ref().is_some_and(|verifier| verifies(verifier, object, data))
    }

    /// Returns the signature of a record of ours; `None` if records are not signed.
    fn sign(&self, key: &str, data: &[u8], body: &str) -> Option<String> {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        self.verifier.as_ref()?.sign(&Signed { namespace, key, data, body })
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
            return Err(broken("its parts do not match their digest".into()));
        }
        Ok(text)
    }

    fn data(&self, object: &DynamicObject, field: &str) -> Result<Vec<u8>, String> {
        data_of(object, field, self.kind)
    }

    /// Stores a new revision. Fails with [`Error::InProgress`] if it exists, since another process created it.
    pub(crate) async fn create(&self, release: &Release) -> Result<()> {
        let mut object = self.object(release, "createdAt").await?;
        object.metadata.owner_references = (!self.owners.is_empty()).then(|| self.owners.clone());
        match self.api().create(&PostParams::default(), &object).await {
            Ok(_) => Ok(()),
            Err(error) if code(&error) == Some(409) => Err(Error::InProgress { remaining: LOCK_DURATION }),
            Err(error) => Err(Error::kube("cannot store the release")(error)),
        }
    }

    /// Updates the record of a revision. If it does not verify, only its status and description are updated.
    pub(crate) async fn update(&self, release: &Release) -> Result<()> {
        if release.unverified {
            let Release { name, version, info, .. } = release;
            return self.set_status(name, *version, info.status, &info.description).await;
        }
        let object = self.object(release, "modifiedAt").await?;
        let mut patch = serde_json::to_value(&object).unwrap_or_default();
        if !release.info.status.is_pending() {
            patch["metadata"]["annotations"][LOCKED_UNTIL] = Value::Null;
        }
        self.patch(&key(&release.name, release.version), patch).await
    }

    async fn patch(&self, key: &str, patch: Value) -> Result<()> {
        let done = self.api().patch(key, &PatchParams::default(), &Patch::Merge(patch)).await;
        done.map(|_| ()).map_err(Error::kube("cannot store the release"))
    }

    /// Updates the status of a revision without parsing the rest of the record. The description is updated unless it
    /// is empty. A record that did not verify still does not.
    pub(crate) async fn set_status(
        &self,
        name: &str,
        version: i64,
        status: Status,
        description: &str,
    ) -> Result<()> {
        let key = key(name, version);
        let found = self.api().get_opt(&key).await.map_err(Error::kube("cannot read a release"))?;
        let Some(object) = found else { return Err(Error::NotFound { name: name.to_owned() }) };
        let data = self.data(&object, "release");
        let verified = data.as_ref().is_ok_and(|data| self.verifies(&object, data));
        let limit = if verified || self.verifier.is_none() { MAX_RECORD } else { MAX_UNVERIFIED };
        let with_status = data.and_then(|data| encoding::with_status(&data, limit, status, description));
        let mut patch = match with_status {
            Ok(text) => {
                let signature = verified.then(|| self.sign(&key, &text, body_of(&object))).flatten();
                let mut changed = self.data_object(&key, "release", &text, TYPE);
                changed.metadata.annotations =
                    signature.map(|signature| BTreeMap::from([(SIGNATURE.to_owned(), signature)]));
                serde_json::to_value(&changed).unwrap_or_default()
            }
            // The label is what counts when revisions are listed.
            Err(reason) if self.verifier.is_some() => {
                tracing::warn!(key, reason, "cannot read a release record: only its label is changed");
                json!({})
            }
            Err(reason) => return Err(Error::Record { key, reason }),
        };
        let now = Timestamp::now().as_second().to_string();
        patch["metadata"]["labels"] = json!({ "status": status.as_str(), "modifiedAt": now });
        if !status.is_pending() {
            patch["metadata"]["annotations"][LOCKED_UNTIL] = Value::Null;
        }
        self.patch(&key, patch).await
    }

    async fn object(&self, release: &Release, stamp: &str) -> Result<DynamicObject> {
        let key = key(&release.name, release.version);
        let mut annotations = BTreeMap::new();
        let mut text = encode(release)?;
        if text.len() > MAX_OBJECT {
            let body = encode(&RecordBody::of(release))?;
            let digest = digest_of(&body);
            let count = self.write_parts(&key, &digest, &body, release).await?;
            annotations.insert(PARTS.to_owned(), count.to_string());
            annotations.insert(BODY.to_owned(), digest);
            text = encode(&RecordBody::stub(release))?;
        }
        let body = annotations.get(BODY).map_or("", String::as_str);
        if let Some(signature) = self.sign(&key, &text, body) {
            annotations.insert(SIGNATURE.to_owned(), signature);
        }
        if release.info.status.is_pending() {
            annotations.insert(LOCKED_UNTIL.to_owned(), lock_expiry());
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

    /// Writes parts, named after their content. A changed record gets new parts before the old ones are deleted.
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

    /// Deletes a revision. One that does not exist is not an error.
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

    /// Runs an operation on a pending revision, and renews its lock in the meantime.
    pub(crate) async fn with_heartbeat<T>(&self, release: &Release, operation: impl Future<Output = T>) -> T {
        let key = key(&release.name, release.version);
        let mut operation = std::pin::pin!(operation);
        loop {
            tokio::select! {
                done = &mut operation => return done,
                () = tokio::time::sleep(LOCK_RENEWAL) => {
                    let patch = Patch::Merge(json!({ "metadata": { "annotations": { LOCKED_UNTIL: lock_expiry() } } }));
                    // A lock that is not renewed only expires earlier.
                    if let Err(error) = self.api().patch_metadata(&key, &PatchParams::default(), &patch).await {
                        tracing::debug!(%error, key, "cannot renew the lock on a release");
                    }
                }
            }
        }
    }
}

/// Reads a record from its Secret, without the parts of a record in parts. `trusted` is a key, and the subject that the
/// record must be signed for: see [`Releases::verified_by`](crate::Releases::verified_by).
///
/// # Errors
/// Fails if it is not a record, or if its content does not match the Secret's name and namespace.
pub fn read_record(secret: &Value, trusted: Option<(&RecordKey, &str)>) -> Result<Release> {
    let object: DynamicObject = serde_json::from_value(secret.clone())
        .map_err(|error| Error::Record { key: String::new(), reason: error.to_string() })?;
    let verifier =
        trusted.map(|(key, subject)| Verifier { key: Some(key.clone()), subject: subject.to_owned() });
    read_main(&object, StorageKind::Secrets, verifier.as_ref())
}

/// Reads the main object of a record, without its parts.
fn read_main(object: &DynamicObject, kind: StorageKind, verifier: Option<&Verifier>) -> Result<Release> {
    let key = object.name_any();
    let broken = |reason: String| Error::Record { key: key.clone(), reason };
    let namespace = object.namespace().unwrap_or_default();
    let (name, version) = parse_key(&key).ok_or_else(|| broken("not the name of a release record".into()))?;
    let identity = Identity { namespace: &namespace, name, version };
    let data = data_of(object, "release", kind);
    if let Some(verifier) = verifier
        && !data.as_ref().is_ok_and(|data| verifies(verifier, object, data))
    {
        return Ok(encoding::unverified(&data.unwrap_or_default(), &identity));
    }
    let mut release: Release = decode(&data.map_err(broken)?, MAX_RECORD).map_err(broken)?;
    if let Some(reason) = identity.mismatch(&release.namespace, &release.name, release.version) {
        return Err(broken(reason));
    }
    release.labels = object.labels().clone();
    release.labels.retain(|label, _| !SYSTEM_LABELS.contains(&label.as_str()));
    Ok(release)
}

fn verifies(verifier: &Verifier, object: &DynamicObject, data: &[u8]) -> bool {
    let Some(signature) = object.annotations().get(SIGNATURE) else { return false };
    let (key, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
    let signed = Signed { namespace: &namespace, key: &key, data, body: body_of(object) };
    verifier.verify(&signed, signature)
}

fn data_of(object: &DynamicObject, field: &str, kind: StorageKind) -> Result<Vec<u8>, String> {
    let text = object.data.get("data").and_then(|data| data.get(field)).and_then(Value::as_str);
    let text = text.ok_or_else(|| format!("field data.{field} is missing"))?;
    match kind {
        StorageKind::Secrets => BASE64.decode(text).map_err(|error| error.to_string()),
        StorageKind::ConfigMaps => Ok(text.as_bytes().to_vec()),
    }
}

fn resource(kind: StorageKind) -> ApiResource {
    match kind {
        StorageKind::Secrets => ApiResource::erase::<k8s_openapi::api::core::v1::Secret>(&()),
        StorageKind::ConfigMaps => ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&()),
    }
}

impl Revision {
    /// Returns the name of the Secret or ConfigMap that holds it.
    pub fn key(&self) -> String {
        key(&self.name, self.version)
    }

    /// Returns how long the lock on this pending revision is still valid.
    pub(crate) fn lock_remaining(&self, now: Timestamp) -> Option<Duration> {
        let until = self.locked_until?;
        Duration::try_from(until.duration_since(now)).ok().filter(|remaining| !remaining.is_zero())
    }
}

fn revision(object: &PartialObjectMeta<DynamicObject>) -> Option<Revision> {
    let labels = object.labels();
    let status = labels.get("status")?;
    let number = |label: &str| labels.get(label).and_then(|text| text.parse::<i64>().ok());
    let locked_until = object.annotations().get(LOCKED_UNTIL).and_then(|text| text.parse().ok());
    let touched = number("modifiedAt").or_else(|| number("createdAt"));
    let helm_locked_until =
        touched.and_then(|second| Timestamp::from_second(second).ok()?.checked_add(HELM_LOCK_DURATION).ok());
    // Records are read by the name of their object: if the labels disagree, they are not Helm's.
    let own = object.name_any();
    let (name, version) = parse_key(&own)?;
    if labels.get("name").map(String::as_str) != Some(name) || number("version") != Some(version) {
        tracing::debug!(key = own, "labels and name of a release record do not match");
        return None;
    }
    Some(Revision {
        name: name.to_owned(),
        namespace: object.namespace().unwrap_or_default(),
        version,
        status: serde_json::from_value(Value::String(status.clone())).unwrap_or_default(),
        locked_until: locked_until.or(helm_locked_until),
    })
}

fn lock_expiry() -> String {
    Timestamp::now().checked_add(LOCK_DURATION).map(|until| until.to_string()).unwrap_or_default()
}

pub(crate) fn key(name: &str, version: i64) -> String {
    format!("sh.helm.release.v1.{name}.v{version}")
}

/// Parses the name of a record into release name and revision.
fn parse_key(key: &str) -> Option<(&str, i64)> {
    let (name, version) = key.strip_prefix("sh.helm.release.v1.")?.rsplit_once(".v")?;
    // Canonical form only: a sign or a leading zero would make two keys of one revision.
    let version = version.parse().ok().filter(|number: &i64| *number > 0 && number.to_string() == version)?;
    Some((name, version)).filter(|(name, _)| !name.is_empty())
}

fn body_of(object: &DynamicObject) -> &str {
    object.annotations().get(BODY).map_or("", String::as_str)
}

fn part_key(key: &str, digest: &str, index: usize) -> String {
    let short = digest.get(..12).unwrap_or(digest);
    format!("{key}.{short}.{index}")
}

/// Whether labels include some that Helm reserves.
pub(crate) fn has_system_labels(labels: &BTreeMap<String, String>) -> bool {
    let system = BTreeSet::from(SYSTEM_LABELS);
    labels.keys().any(|label| system.contains(label.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        assert_eq!(parse_key(&key("shop.v2", 13)), Some(("shop.v2", 13)));
        assert_eq!(parse_key(&key("shop", i64::MAX)), Some(("shop", i64::MAX)));
        for wrong in
            ["shop.v1", "sh.helm.release.v1.shop", "sh.helm.release.v1.shop.v-1", "sh.helm.release.v1..v1"]
        {
            assert_eq!(parse_key(wrong), None, "{wrong}");
        }
        for twice in ["v0", "v01", "v+1", "v99999999999999999999"] {
            assert_eq!(parse_key(&format!("sh.helm.release.v1.shop.{twice}")), None, "{twice}");
        }
    }

    #[test]
    fn a_lock_is_valid_until_it_expires() {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let remaining = |until: Option<&str>| {
            let locked_until = until.map(|until| until.parse().unwrap());
            let revision = Revision {
                name: "shop".into(),
                namespace: "lab".into(),
                version: 1,
                status: Status::PendingInstall,
                locked_until,
            };
            assert_eq!(revision.key(), "sh.helm.release.v1.shop.v1");
            revision.lock_remaining(now)
        };
        assert_eq!(remaining(Some("2026-01-02T03:04:35Z")), Some(Duration::from_secs(30)));
        assert_eq!(remaining(Some("2026-01-02T03:04:05Z")), None);
        assert_eq!(remaining(Some("2026-01-02T03:04:04Z")), None);
        assert_eq!(remaining(None), None);
        let expiry: Timestamp = lock_expiry().parse().unwrap();
        let ahead = expiry.duration_since(Timestamp::now()).as_secs();
        assert!((25..=30).contains(&ahead), "{ahead}");
    }

    fn listed(name: &str, labels: Value, annotations: Value) -> Option<Revision> {
        let metadata =
            json!({ "name": name, "namespace": "lab", "labels": labels, "annotations": annotations });
        revision(&serde_json::from_value(json!({ "metadata": metadata })).unwrap())
    }

    #[test]
    fn labels_and_name_of_a_record_agree() {
        let name = "sh.helm.release.v1.shop.v3";
        let labels = json!({ "name": "shop", "version": "3", "status": "deployed" });
        let found = listed(name, labels.clone(), json!({})).unwrap();
        assert_eq!((found.name.as_str(), found.namespace.as_str(), found.version), ("shop", "lab", 3));
        assert_eq!((found.status, found.locked_until), (Status::Deployed, None));
        for (key, value) in [("name", json!("other")), ("version", json!("4")), ("version", json!("x"))] {
            let mut labels = labels.clone();
            labels[key] = value;
            assert_eq!(listed(name, labels, json!({})), None, "{key}");
        }
        assert_eq!(listed("other", labels, json!({})), None);
        assert_eq!(
            listed(name, json!({ "name": "shop", "version": "3" }), json!({})),
            None,
            "it has no status"
        );
    }

    #[test]
    fn a_lock_counts_before_the_time_of_a_change() {
        let name = "sh.helm.release.v1.shop.v3";
        let labels = json!({ "name": "shop", "version": "3", "status": "odd", "createdAt": "1000", "modifiedAt": "2000" });
        let until = |labels: Value, annotations: Value| {
            listed(name, labels, annotations).unwrap().locked_until.map(Timestamp::as_second)
        };
        assert_eq!(until(labels.clone(), json!({})), Some(2600));
        assert_eq!(until(labels.clone(), json!({ LOCKED_UNTIL: "1970-01-01T00:00:10Z" })), Some(10));
        assert_eq!(until(labels, json!({ LOCKED_UNTIL: "soon" })), Some(2600));
        let created = json!({ "name": "shop", "version": "3", "status": "odd", "createdAt": "1000" });
        assert_eq!(until(created, json!({})), Some(1600));
    }

    #[test]
    fn parts_are_named_after_what_they_hold() {
        assert_eq!(part_key("key", "0123456789abcdef", 2), "key.0123456789ab.2");
        assert_eq!(part_key("key", "012", 0), "key.012.0");
    }
}
