//! The releases of a namespace: options, reads and what all operations share.

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

/// Helm's field manager: so that no field loses its owner when `helm` and `steer` take turns on a release.
const MANAGER: &str = "helm";
/// The longest name that a release may have.
const MAX_NAME: usize = 53;
/// Concurrent reads.
const READS: usize = 8;

type Decorate = Arc<dyn Fn(&mut Object) + Send + Sync>;
/// Changes a manifest before it is used: what `--post-renderer` runs.
pub type PostRender = Arc<dyn Fn(&str) -> std::result::Result<String, String> + Send + Sync>;

/// The releases of a namespace. Cheap to clone.
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
    /// Where the objects of releases may be; anywhere without it.
    pub(crate) confinement: Option<Confinement>,
    pub(crate) is_foreign: Option<IsForeign>,
    kind: StorageKind,
    manager: String,
    mode: WriteMode,
    decorate: Option<Decorate>,
}

/// When to recover a release whose last operation is still pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recover {
    /// Once its lock has expired: after half a minute, or ten minutes for an operation of the real `helm`, which takes no
    /// lock. The default.
    #[default]
    WhenStale,
    /// At once: the caller is the only writer, as a leader is.
    Always,
}

/// How to install or upgrade.
#[derive(Clone, Default)]
pub struct Options {
    /// Wait until the objects are ready. False by default.
    pub wait: bool,
    /// Wait until jobs have ended too. Only with `wait`. False by default.
    pub wait_for_jobs: bool,
    /// How long each hook, and waiting, may take. Five minutes by default.
    pub timeout: Timeout,
    /// Undo what failed: uninstall, or roll back. Implies `wait`. False by default.
    pub atomic: bool,
    /// Delete what an upgrade created if it fails. False by default.
    pub cleanup_on_fail: bool,
    /// Run no hooks. False by default.
    pub disable_hooks: bool,
    /// What becomes of the definitions in `crds/`. By default an install creates them and an upgrade leaves them.
    pub crds: Option<CrdPolicy>,
    /// Make the release's namespace. Only for installs. False by default.
    pub create_namespace: bool,
    /// Take the name of a release that failed or was uninstalled. Only for installs. False by default.
    pub replace: bool,
    /// Adopt objects without ownership metadata, or of another release. False by default.
    pub take_ownership: bool,
    /// Adopt the objects of a release whose records are missing: no hooks run, and random values of templates stay as
    /// they are. Only for installs. False by default.
    pub adopt_existing: bool,
    /// What the revision's description says. Helm's words by default.
    pub description: Option<String>,
    /// Labels of the record; on upgrades over those of the last one, where `null` removes one.
    pub labels: BTreeMap<String, String>,
    /// Write nothing. By default everything is written.
    pub dry_run: Option<DryRun>,
    /// How an upgrade's values come about. By default those given, or the last ones if none are.
    pub values: ValuesPolicy,
    /// How many revisions are kept; 0 keeps all. Ten by default.
    pub history_max: HistoryMax,
    /// Do not look at values.schema.json. False by default.
    pub skip_schema_validation: bool,
    /// How schemas that a schema refers to by URL are fetched. Not at all by default.
    pub fetch_schema: Option<FetchSchema>,
    /// Let `getHostByName` ask the network. False by default.
    pub enable_dns: bool,
    /// What rendering may use. By default a cost of 200 million, 256 MiB and one minute.
    pub render: RenderLimits,
    /// Take the notes of subcharts too. False by default.
    pub sub_notes: bool,
    /// Keep what templates draw at random as it was in the last revision. Only for upgrades. False by default, as in
    /// Helm.
    pub keep_random: bool,
    /// Changes the manifest before it is used.
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

/// A time to wait at most. Five minutes by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout(pub Duration);

impl Default for Timeout {
    fn default() -> Self {
        Self(Duration::from_secs(300))
    }
}

/// A number of revisions to keep; 0 keeps all. Ten by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryMax(pub usize);

impl Default for HistoryMax {
    fn default() -> Self {
        Self(10)
    }
}

/// What becomes of the definitions in a chart's `crds/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrdPolicy {
    /// They are left alone.
    Skip,
    /// Those that are missing are created.
    Create,
    /// Those that are missing are created, and those that differ are replaced.
    CreateReplace,
}

/// What a dry run may ask the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    /// Templates look nothing up.
    Client,
    /// Templates look things up.
    Server,
}

/// How an upgrade's values come about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValuesPolicy {
    /// Those given; the last ones if none are given.
    #[default]
    Given,
    /// Those given, even if there are none.
    Reset,
    /// Those given over the last ones, and the last chart's defaults.
    Reuse,
    /// Those given over the last ones, and the new chart's defaults.
    ResetThenReuse,
}

impl Releases {
    /// The releases of a namespace, in Helm's default storage.
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

    /// Trusts only records that this key signed for this subject, and signs new ones. All are trusted by default, as Helm
    /// does; without a key none are.
    ///
    /// A record that does not verify serves to find the objects that it lists, which are deleted only if they carry the
    /// release's ownership. Its hooks do not run, and it is not rolled back to.
    #[must_use]
    pub fn verified_by(mut self, key: Option<RecordKey>, subject: impl Into<String>) -> Self {
        self.storage = self.storage.verified_by(Verifier { key, subject: subject.into() });
        self
    }

    /// Keeps objects, hooks and lookups of releases in their namespace. They may be anywhere by default.
    #[must_use]
    pub fn confined(mut self, confinement: Confinement) -> Self {
        self.confinement = Some(confinement);
        self
    }

    /// Predicate for live objects that belong to another owner though they carry the release's metadata: they are not
    /// deleted. None by default.
    #[must_use]
    pub fn foreign_if(
        mut self,
        is_foreign: impl Fn(&serde_json::Value) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.is_foreign = Some(Arc::new(is_foreign));
        self
    }

    /// Lets new records belong to these owners. None by default.
    #[must_use]
    pub fn owned_by(mut self, owners: Vec<OwnerReference>) -> Self {
        self.storage = self.storage.owned_by(owners);
        self
    }

    /// How objects are written. By server-side apply by default.
    #[must_use]
    pub fn write_mode(mut self, mode: WriteMode) -> Self {
        self.mode = mode;
        self
    }

    /// Field manager of all writes. `helm` by default, so that `helm` and `steer` can take turns.
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

    /// When interrupted operations are recovered. Once their lock has expired by default.
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

    /// The revisions of a release, oldest first; none if there is no such release.
    ///
    /// # Errors
    /// Fails if the cluster cannot be asked.
    pub fn revisions<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<Revision>>> {
        Box::pin(async move { self.storage.revisions(name).await })
    }

    /// A revision of a release, the latest by default.
    ///
    /// # Errors
    /// Fails if there is none, or it cannot be read.
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

    /// All revisions of a release with their records, oldest first.
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
    /// Fails if there is none, or one cannot be read.
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

    /// The latest revision of each release, by name. `selector` chooses among labels; `everywhere` looks into all
    /// namespaces.
    ///
    /// # Errors
    /// Fails if the cluster cannot be asked. Records that are none are left out.
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
            let description = format!("Interrupted while {}, taken up by the next run", revision.status);
            self.storage.set_status(&revision.name, revision.version, Status::Failed, &description).await?;
            revision.status = Status::Failed;
            recovered.recovering = true;
        }
        Ok(recovered)
    }

    /// The live states of objects, in their order.
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

/// The number of the revision after these.
pub(crate) fn next_version(revisions: &[Revision]) -> Result<i64> {
    let Some(last) = revisions.last() else { return Ok(1) };
    last.version.checked_add(1).ok_or_else(|| Error::Record {
        key: last.key(),
        reason: "no revision number comes after it: delete the record".into(),
    })
}

/// Lower-case letters, digits and dashes in parts between dots, each beginning and ending with no dash.
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
