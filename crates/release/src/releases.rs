//! The releases of a namespace: options, reads, and what all operations share.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Client;
use kube::api::DynamicObject;
use steersman_chart::{FetchSchema, HELM_VERSION};

use crate::confinement::Confinement;
use crate::error::{Error, Result};
use crate::kinds::Kinds;
use crate::object::Object;
use crate::ownership::IsForeign;
use crate::progress::{Progress, Reporter};
use crate::record::{Release, Status};
use crate::render::RenderLimits;
use crate::signature::{RecordKey, Verifier};
use crate::storage::{Revision, Storage, StorageKind};
use crate::write::{WriteMode, Writer};

/// Helm's field manager: no field changes its owner when `helm` and `steer` take turns on a release.
const MANAGER: &str = "helm";
/// Maximum length of a release name.
const MAX_NAME: usize = 53;
/// Maximum number of concurrent reads.
const READS: usize = 8;

type Decorate = Arc<dyn Fn(&mut Object) + Send + Sync>;
/// Post-renderer: changes a manifest before it is used, as Helm's `--post-renderer` does.
pub type PostRender = Arc<dyn Fn(&str) -> std::result::Result<String, String> + Send + Sync>;

/// Client for the releases of a namespace. Cheap to clone.
#[derive(Clone)]
pub struct Releases {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) storage: Storage,
    pub(crate) kinds: Kinds,
    pub(crate) reporter: Reporter,
    pub(crate) recover: Recover,
    /// Whether an interrupted operation is being recovered.
    pub(crate) recovering: bool,
    /// Confinement of releases; objects may be anywhere without it.
    pub(crate) confinement: Option<Confinement>,
    pub(crate) is_foreign: Option<IsForeign>,
    kind: StorageKind,
    manager: String,
    mode: WriteMode,
    decorate: Option<Decorate>,
}

/// When to recover a release with a pending operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recover {
    /// Once its lock has expired, which takes 30 seconds. For an operation of the real `helm`, which takes no lock,
    /// that is ten minutes. The default.
    #[default]
    WhenStale,
    /// At once: for a caller that is the only writer, such as a leader.
    Always,
}

/// Options of install and upgrade.
#[derive(Clone, Default)]
pub struct Options {
    /// Wait until the objects are ready. False by default.
    pub wait: bool,
    /// Wait until Jobs have completed too. Only with `wait`. False by default.
    pub wait_for_jobs: bool,
    /// Timeout of each hook, and of waiting. Five minutes by default.
    pub timeout: Timeout,
    /// Undo a failed operation: uninstall, or roll back. Implies `wait`. False by default.
    pub atomic: bool,
    /// Delete the objects that a failed upgrade created. False by default.
    pub cleanup_on_fail: bool,
    /// Run no hooks. False by default.
    pub disable_hooks: bool,
    /// Policy for the CRDs in `crds/`. By default an install creates missing ones, and an upgrade ignores them.
    pub crds: Option<CrdPolicy>,
    /// Create the release's namespace. Only for installs. False by default.
    pub create_namespace: bool,
    /// Reuse the name of a release that failed or was uninstalled. Only for installs. False by default.
    pub replace: bool,
    /// Adopt objects without ownership metadata, or with that of another release. False by default.
    pub take_ownership: bool,
    /// Adopt the objects of a release whose records are missing. No hooks run, and randomly generated values are kept
    /// from the live objects. Only for installs. False by default.
    pub adopt_existing: bool,
    /// Description of the revision. Helm's wording by default.
    pub description: Option<String>,
    /// Labels of the record. An upgrade merges them into the last revision's, where `null` removes a label.
    pub labels: BTreeMap<String, String>,
    /// Dry run: write nothing. Off by default.
    pub dry_run: Option<DryRun>,
    /// How an upgrade combines values. By default those given, or the last revision's if none are given.
    pub values: ValuesPolicy,
    /// Maximum number of revisions to keep; 0 keeps all. Ten by default.
    pub history_max: HistoryMax,
    /// Skip validation against values.schema.json. False by default.
    pub skip_schema_validation: bool,
    /// Fetches schemas that a schema references by URL. Not fetched by default.
    pub fetch_schema: Option<FetchSchema>,
    /// Let `getHostByName` query DNS. False by default.
    pub enable_dns: bool,
    /// Limits of rendering. By default a cost of 200 million, 256 MiB and one minute.
    pub render: RenderLimits,
    /// Include the notes of subcharts. False by default.
    pub sub_notes: bool,
    /// Keep randomly generated values of templates from the last revision. Only for upgrades. False by default, as in
    /// Helm.
    pub keep_random: bool,
    /// Changes the manifest before it is used. None by default.
    pub post_render: Option<PostRender>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wait, timeout, atomic, crds, dry_run, values, .. } = self;
        f.debug_struct("Options")
            .field("wait", wait)
            .field("timeout", timeout)
            .field("atomic", atomic)
            .field("crds", crds)
            .field("dry_run", dry_run)
            .field("values", values)
            .finish_non_exhaustive()
    }
}

/// Timeout of a wait. Five minutes by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout(pub Duration);

impl Default for Timeout {
    fn default() -> Self {
        Self(Duration::from_secs(300))
    }
}

/// Maximum number of revisions to keep; 0 keeps all. Ten by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryMax(pub usize);

impl Default for HistoryMax {
    fn default() -> Self {
        Self(10)
    }
}

/// Policy for the CRDs in a chart's `crds/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrdPolicy {
    /// Ignore them.
    Skip,
    /// Create missing ones.
    Create,
    /// Create missing ones, and replace those that differ.
    CreateReplace,
}

/// Whether a dry run may query the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    /// `lookup` finds nothing.
    Client,
    /// `lookup` queries the cluster.
    Server,
}

/// How an upgrade combines values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValuesPolicy {
    /// The given values; the last revision's if none are given.
    #[default]
    Given,
    /// The given values, even if there are none.
    Reset,
    /// The given values over the last revision's, with the last chart's defaults.
    Reuse,
    /// The given values over the last revision's, with the new chart's defaults.
    ResetThenReuse,
}

impl Releases {
    /// Creates a client for the releases of a namespace, in Helm's default storage.
    pub fn new(client: Client, namespace: impl Into<String>) -> Self {
        let kinds = Kinds::new(client.clone());
        Self::with_kinds(client, namespace, kinds)
    }

    /// As [`Releases::new`], with a shared discovery cache.
    pub fn with_kinds(client: Client, namespace: impl Into<String>, kinds: Kinds) -> Self {
        let namespace = namespace.into();
        let kind = StorageKind::default();
        Self {
            storage: Storage::new(client.clone(), Some(&namespace), kind),
            client,
            namespace,
            kinds,
            reporter: Reporter::default(),
            recover: Recover::default(),
            recovering: false,
            confinement: None,
            is_foreign: None,
            kind,
            manager: MANAGER.into(),
            mode: WriteMode::default(),
            decorate: None,
        }
    }

    /// Keeps records in Secrets or ConfigMaps. Secrets by default.
    #[must_use]
    pub fn storage(mut self, kind: StorageKind) -> Self {
        self.kind = kind;
        self.storage = self.storage.of_kind(kind);
        self
    }

    /// Trusts only records that this key signed for this subject, and signs new ones. By default all are trusted, as by
    /// Helm; with no key none are.
    ///
    /// A record that does not verify is used only to find the objects that it lists, which are deleted only if they
    /// have the release's ownership metadata. Its hooks do not run, and it cannot be rolled back to.
    #[must_use]
    pub fn verified_by(mut self, key: Option<RecordKey>, subject: impl Into<String>) -> Self {
        self.storage = self.storage.verified_by(Verifier { key, subject: subject.into() });
        self
    }

    /// Confines objects, hooks and lookups of releases to their namespace. Not confined by default.
    #[must_use]
    pub fn confined(mut self, confinement: Confinement) -> Self {
        self.confinement = Some(confinement);
        self
    }

    /// Sets a predicate for live objects that have the release's metadata but belong to another owner. They are not
    /// deleted. None by default.
    #[must_use]
    pub fn foreign_if(
        mut self,
        is_foreign: impl Fn(&serde_json::Value) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.is_foreign = Some(Arc::new(is_foreign));
        self
    }

    /// Sets the owner references of new records. None by default.
    #[must_use]
    pub fn owned_by(mut self, owners: Vec<OwnerReference>) -> Self {
        self.storage = self.storage.owned_by(owners);
        self
    }

    /// Sets how objects are written. By server-side apply by default.
    #[must_use]
    pub fn write_mode(mut self, mode: WriteMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the field manager of all writes. `helm` by default, so that `helm` and `steer` can take turns.
    #[must_use]
    pub fn field_manager(mut self, manager: impl Into<String>) -> Self {
        self.manager = manager.into();
        self
    }

    /// Changes every object before it is written; the recorded manifest stays as rendered.
    #[must_use]
    pub fn decorated(mut self, decorate: impl Fn(&mut Object) + Send + Sync + 'static) -> Self {
        self.decorate = Some(Arc::new(decorate));
        self
    }

    /// Calls a listener with each step.
    ///
    /// ```
    /// use steersman_release::{Progress, Releases};
    ///
    /// # fn example(releases: Releases) {
    /// let releases = releases.on_progress(|step| {
    ///     if let Progress::Written { id, outcome } = step {
    ///         println!("{id}: {outcome:?}");
    ///     }
    /// });
    /// # let _ = releases;
    /// # }
    /// ```
    #[must_use]
    pub fn on_progress(mut self, listener: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        self.reporter = Reporter::new(listener);
        self
    }

    /// Sets when interrupted operations are recovered. Once their lock has expired by default.
    #[must_use]
    pub fn recover(mut self, recover: Recover) -> Self {
        self.recover = recover;
        self
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The discovery cache.
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// Returns the revisions of a release, oldest first; none if there is no such release.
    ///
    /// # Errors
    /// Fails if the cluster cannot be queried.
    pub fn revisions<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<Revision>>> {
        Box::pin(async move { self.storage.revisions(name).await })
    }

    /// Returns a revision of a release, the latest by default.
    ///
    /// # Errors
    /// Fails if it does not exist or cannot be read.
    pub fn get<'a>(&'a self, name: &'a str, revision: Option<i64>) -> BoxFuture<'a, Result<Release>> {
        Box::pin(async move {
            check_name(name)?;
            let version = match revision.filter(|revision| *revision > 0) {
                Some(revision) => revision,
                None => self.last(name).await?.version,
            };
            self.storage.get(name, version).await
        })
    }

    /// Returns all revisions of a release with their records, oldest first.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use steersman_chart::{Chart, File, Values};
    /// # let chart = Chart::from_files([
    /// #     File::new("Chart.yaml", "{apiVersion: v2, name: hello, version: 0.1.0}"),
    /// #     File::new("templates/config.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: hello}, data: {text: {{ .Values.text | quote }}}}"),
    /// # ])?;
    /// # let cluster = steersman_cluster::Cluster::start().await?;
    /// # let client = cluster.client();
    /// # let mut values = Values::new();
    /// # values.set("text=one")?;
    /// use steersman_release::{Options, Releases, Status};
    ///
    /// let releases = Releases::new(client, "default");
    /// releases.install("hello", &chart, &values, &Options::default()).await?;
    /// let history = releases.history("hello").await?;
    /// assert_eq!(history[0].info.status, Status::Deployed);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if there is no such release, or if a record cannot be read.
    pub fn history<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<Release>>> {
        Box::pin(async move {
            check_name(name)?;
            let revisions = self.storage.revisions(name).await?;
            if revisions.is_empty() {
                return Err(Error::NotFound { name: name.to_owned() });
            }
            self.storage.get_all(&revisions).await
        })
    }

    /// Returns the latest revision of each release, by name. `selector` is a label selector; `everywhere` includes
    /// all namespaces.
    ///
    /// # Errors
    /// Fails if the cluster cannot be queried. Invalid records are left out.
    pub fn list<'a>(
        &'a self,
        selector: Option<&'a str>,
        everywhere: bool,
    ) -> BoxFuture<'a, Result<Vec<Release>>> {
        Box::pin(async move {
            let storage = if everywhere {
                Storage::new(self.client.clone(), None, self.kind)
            } else {
                self.storage.clone()
            };
            let selector = match selector.filter(|selector| !selector.is_empty()) {
                Some(selector) => format!("owner=helm,{selector}"),
                None => "owner=helm".to_owned(),
            };
            let mut latest: BTreeMap<(String, String), Revision> = BTreeMap::new();
            for revision in storage.query(&selector).await? {
                let key = (revision.name.clone(), revision.namespace.clone());
                match latest.get(&key) {
                    Some(known) if known.version > revision.version => {}
                    _ => {
                        latest.insert(key, revision);
                    }
                }
            }
            let latest: Vec<Revision> = latest.into_values().collect();
            storage.get_all(&latest).await
        })
    }

    async fn last(&self, name: &str) -> Result<Revision> {
        let last = self.storage.revisions(name).await?.pop();
        last.ok_or_else(|| Error::NotFound { name: name.to_owned() })
    }

    pub(crate) fn writer(&self) -> Writer {
        Writer { client: self.client.clone(), manager: self.manager.clone(), mode: self.mode, dry_run: false }
    }

    pub(crate) fn decorate(&self, object: &mut Object) {
        if let Some(decorate) = &self.decorate {
            decorate(object);
        }
    }

    /// Recovers interrupted operations by marking their revisions as failed. Fails while the lock on one is valid.
    pub(crate) async fn recovered(&self, revisions: &mut [Revision]) -> Result<Self> {
        let mut recovered = self.clone();
        for revision in revisions.iter_mut().filter(|revision| revision.status.is_pending()) {
            if self.recover == Recover::WhenStale
                && let Some(remaining) = revision.lock_remaining(Timestamp::now())
            {
                return Err(Error::InProgress { remaining });
            }
            let what = format!("revision {} was left {}", revision.version, revision.status);
            self.reporter.report(&Progress::Recovering { what });
            let description = format!("Interrupted while {}, recovered by the next run", revision.status);
            self.storage.set_status(&revision.name, revision.version, Status::Failed, &description).await?;
            revision.status = Status::Failed;
            recovered.recovering = true;
        }
        Ok(recovered)
    }

    /// Returns the live states of objects, in their order.
    pub(crate) async fn live(&self, objects: &[Object]) -> Result<Vec<Option<DynamicObject>>> {
        let writer = self.writer();
        let reads: Vec<_> = objects.iter().map(|object| writer.live(object)).collect();
        stream::iter(reads).buffered(READS).try_collect().await
    }
}

impl fmt::Debug for Releases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Releases")
            .field("namespace", &self.namespace)
            .field("kind", &self.kind)
            .field("mode", &self.mode)
            .field("helm", &HELM_VERSION)
            .finish_non_exhaustive()
    }
}

/// Returns the next revision number.
pub(crate) fn next_version(revisions: &[Revision]) -> Result<i64> {
    let Some(last) = revisions.last() else { return Ok(1) };
    last.version.checked_add(1).ok_or_else(|| Error::Record {
        key: last.key(),
        reason: "the revision number is at its maximum: delete the record".into(),
    })
}

/// Checks a release name. Allowed are lower-case alphanumerics and dashes in parts between dots, without a dash at
/// either end.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| {
        part.bytes().next().is_some_and(word)
            && part.bytes().last().is_some_and(word)
            && part.bytes().all(|byte| word(byte) || byte == b'-')
    };
    if !name.is_empty() && name.len() <= MAX_NAME && name.split('.').all(is_part) {
        return Ok(());
    }
    Err(Error::InvalidName(name.to_owned()))
}
