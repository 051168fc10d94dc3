//! Sets of objects that belong together, with pruning and with dependencies between their members.
//!
//! Membership is recorded twice: in an annotation of the owner, and by a label on each member. The annotation finds members
//! of kinds that are no longer watched, but every user who may edit the owner can write it. So it only names candidates: a
//! member is pruned only if it has the owner among its owner references, by uid. The label finds members that were removed
//! from the annotation.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use futures::future::BoxFuture;
use kube::{
    api::{Patch, PatchParams},
    core::{ApiResource, DynamicObject, Request},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Context, events::NOT_PRUNED, write::to_value};
use crate::{
    Readiness,
    cache::Incoming,
    controller::IndexQuery,
    error::{Error, Result},
    kind::{Key, Kind, Object},
    readiness,
};

steersman_core::vocabulary! {
    /// Annotations and labels that operators in Rust write.
    pub const ANNOTATIONS = {
        /// On an object that owns a set of objects: the inventory of the set, used for pruning.
        const INVENTORY = "steersman.dev/inventory";
        /// Label on the members of a set: UID of the object that owns the set.
        const MEMBER_OF = "steersman.dev/set-of";
    };
}

/// Everything that an object should have, as plain data. [`Context::apply_set`] applies it.
///
/// Steps are applied in the order of their dependencies: a step waits until everything in the steps that it depends on
/// is [ready](crate::readiness()).
///
/// ```
/// # fn desired() -> steersman::Result<()> {
/// use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap, rbac::v1::RoleBinding};
/// use steersman::Desired;
///
/// let (settings, access, web) = (ConfigMap::default(), RoleBinding::default(), Deployment::default());
/// let desired = Desired::new()
///     .step("settings", [])
///     .with(&settings)?
///     .with(&access)?
///     .or_replace()
///     .step("run", ["settings"])
///     .with(&web)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Desired {
    steps: Vec<Step>,
}

#[derive(Debug, Clone)]
struct Step {
    name: String,
    after: Vec<String>,
    members: Vec<Wanted>,
}

#[derive(Debug, Clone)]
struct Wanted {
    kind: Kind,
    value: Value,
    /// Whether it is deleted and recreated where it can't be changed.
    replace: bool,
}

/// Progress of a set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetProgress {
    /// Objects that are not ready, and why: `Deployment one: 1 of 2 replicas available`.
    pub waiting: Vec<String>,
    /// Objects that will not become ready without a change.
    pub failed: Vec<String>,
    /// Steps that have not been started.
    pub pending: Vec<String>,
}

impl SetProgress {
    /// Whether everything exists and is ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.waiting.is_empty() && self.failed.is_empty() && self.pending.is_empty()
    }
}

impl Desired {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a step that depends on others. Objects added from here on belong to it. Objects added before the first
    /// call belong to an unnamed first step.
    pub fn step<'a>(mut self, name: &str, after: impl IntoIterator<Item = &'a str>) -> Self {
        let after = after.into_iter().map(str::to_owned).collect();
        self.steps.push(Step { name: name.to_owned(), after, members: Vec::new() });
        self
    }

    /// Adds an object.
    ///
    /// # Errors
    /// Fails if the object can't be written as JSON.
    pub fn with<K: Object>(self, object: &K) -> Result<Self> {
        let kind = Kind::of::<K>();
        let value = to_value(&kind, object)?;
        Ok(self.add(kind, value))
    }

    /// Adds an object of a kind that is known at run time.
    ///
    /// # Errors
    /// Fails if the object can't be written as JSON.
    pub fn with_dynamic(self, kind: &Kind, object: &DynamicObject) -> Result<Self> {
        let value = to_value(kind, object)?;
        Ok(self.add(kind.clone(), value))
    }

    fn add(mut self, kind: Kind, value: Value) -> Self {
        if self.steps.is_empty() {
            self = self.step("", []);
        }
        if let Some(step) = self.steps.last_mut() {
            step.members.push(Wanted { kind, value, replace: false });
        }
        self
    }

    /// Recreates the object added last where the API server refuses to change it. Examples are the `roleRef` of a
    /// binding and the selector of a Deployment; see [`Context::apply_or_replace`]. Default: the refusal is an error.
    pub fn or_replace(mut self) -> Self {
        if let Some(wanted) = self.steps.last_mut().and_then(|step| step.members.last_mut()) {
            wanted.replace = true;
        }
        self
    }
}

/// One entry of an inventory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Member {
    group: String,
    version: String,
    kind: String,
    plural: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    namespace: Option<String>,
    name: String,
}

impl Member {
    fn new(kind: &Kind, key: &Key) -> Self {
        let ApiResource { group, version, kind, plural, .. } = kind.resource().clone();
        Self {
            group,
            version,
            kind,
            plural,
            namespace: key.namespace().map(str::to_owned),
            name: key.name().to_owned(),
        }
    }

    fn kind(&self) -> Kind {
        let api_version = if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        };
        let resource = ApiResource {
            group: self.group.clone(),
            version: self.version.clone(),
            api_version,
            kind: self.kind.clone(),
            plural: self.plural.clone(),
        };
        Kind::dynamic(resource, self.namespace.is_some())
    }

    fn key(&self) -> Key {
        Key::new(self.namespace.as_deref(), &self.name)
    }

    /// Whether its parts are valid names, and not paths to somewhere else.
    fn is_sound(&self) -> bool {
        let name = |text: &str| {
            let odd =
                |c: char| c.is_control() || c.is_whitespace() || matches!(c, '/' | '%' | '?' | '#' | '\\');
            !matches!(text, "" | "." | "..") && text.len() <= 253 && !text.chars().any(odd)
        };
        [&self.version, &self.kind, &self.plural, &self.name].into_iter().all(|text| name(text))
            && (self.group.is_empty() || name(&self.group))
            && self.namespace.as_deref().is_none_or(name)
    }

    /// Returns the identity of the object, regardless of the API version.
    fn identity(&self) -> (&str, &str, Option<&str>, &str) {
        (&self.group, &self.kind, self.namespace.as_deref(), &self.name)
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.key())
    }
}

impl Context {
    /// Applies everything that an object should have, step by step, and prunes what is no longer desired. Membership is
    /// recorded in an annotation of the object before a member is created, so that a crash at any moment loses track of
    /// nothing. Nothing is sent if nothing would change.
    ///
    /// A failing member holds up the steps after its own, and nothing else: the other members are applied, and what is no
    /// longer desired is pruned, before the error is returned. Only objects that have this one as their owner are pruned,
    /// whatever the annotation says.
    ///
    /// # Errors
    /// Fails with [`Error::Set`], which names each failed member, or as [`Context::apply`] if one of them can't be
    /// owned.
    pub fn apply_set(&self, desired: Desired) -> BoxFuture<'_, Result<SetProgress>> {
        Box::pin(async move {
            let mut steps = Vec::new();
            let mut wanted = BTreeSet::new();
            for Step { name, after, members } in desired.steps {
                let mut complete = Vec::new();
                for Wanted { kind, mut value, replace } in members {
                    let key = self.complete(&kind, &mut value, true)?;
                    value["metadata"]["labels"][MEMBER_OF] = self.primary.uid.as_str().into();
                    wanted.insert(Member::new(&kind, &key));
                    complete.push(Wanted { kind, value, replace });
                }
                steps.push(Step { name, after, members: complete });
            }
            let noted = self.inventory();
            let both: BTreeSet<Member> = noted.union(&wanted).cloned().collect();
            if both != noted {
                self.write_inventory(&both).await?;
            }
            let (progress, mut failures) = self.apply_steps(steps).await;
            let kept: BTreeSet<_> = wanted.iter().map(Member::identity).collect();
            let had: BTreeSet<Member> = noted.iter().cloned().chain(self.marked()).collect();
            let stale: Vec<&Member> =
                had.iter().filter(|member| !kept.contains(&member.identity())).collect();
            let total = wanted.len() + stale.len();
            let mut left = wanted.clone();
            for member in stale {
                if let Err(error) = self.prune(member).await {
                    failures.push((member.to_string(), error));
                    left.insert(member.clone());
                }
            }
            if left != both {
                self.write_inventory(&left).await?;
            }
            if failures.is_empty() { Ok(progress) } else { Err(Error::Set { failures, total }) }
        })
    }

    async fn apply_steps(&self, steps: Vec<Step>) -> (SetProgress, Vec<(String, Error)>) {
        let (mut progress, mut failures) = (SetProgress::default(), Vec::new());
        let mut ready: BTreeMap<String, bool> = BTreeMap::new();
        let mut left = steps;
        loop {
            let startable = |after: &[String]| after.iter().all(|name| ready.get(name) == Some(&true));
            let Some(next) = left.iter().position(|step| startable(&step.after)) else { break };
            let Step { name, members, .. } = left.remove(next);
            let mut complete = true;
            for wanted in members {
                let name = wanted.value["metadata"]["name"].as_str().unwrap_or_default();
                let what = format!("{} {name}", wanted.kind.name());
                match self.apply_member(wanted).await {
                    Ok(Readiness::Ready) => continue,
                    Ok(Readiness::Waiting(why)) => progress.waiting.push(format!("{what}: {why}")),
                    Ok(Readiness::Failed(why)) => progress.failed.push(format!("{what}: {why}")),
                    Err(error) => failures.push((what, error)),
                }
                complete = false;
            }
            ready.insert(name, complete);
        }
        progress.pending = left.into_iter().map(|step| step.name).collect();
        (progress, failures)
    }

    async fn apply_member(&self, Wanted { kind, value, replace }: Wanted) -> Result<Readiness> {
        let snapshot = if replace {
            self.apply_or_replace_value(&kind, value).await?
        } else {
            self.apply_value(&kind, value, true).await?
        };
        let mut live: Value = snapshot.parse()?;
        live["apiVersion"] = kind.resource().api_version.as_str().into();
        live["kind"] = kind.name().into();
        Ok(readiness(&live))
    }

    /// Deletes a member that is no longer desired, if the object being reconciled owns it.
    async fn prune(&self, member: &Member) -> Result<()> {
        let (kind, key) = (member.kind(), member.key());
        let caches = self.caches(&kind);
        let live = match (caches.get(&key), caches.covering(&key)) {
            (Some((_, live)), _) => live,
            (None, Some(store)) if store.progress.borrow().synced && !store.is_doubtful(&key) => {
                return Ok(());
            }
            _ => match self.fetch(&kind, &key).await? {
                Some(live) => live,
                None => return Ok(()),
            },
        };
        if live.meta()?.is_owned_by(&self.primary.uid) {
            return self.delete_owned(&kind, &key, &live).await;
        }
        tracing::warn!(%member, "not pruned: listed in the inventory, but not owned by the object");
        self.warn(NOT_PRUNED, format!("not pruned: {member} is not owned by this object"));
        Ok(())
    }

    /// Returns the members in the caches, found by their label.
    fn marked(&self) -> Vec<Member> {
        let mut members = Vec::new();
        let owned = IndexQuery::by_controller(&self.primary.uid);
        for kind in self.engine.owned_kinds() {
            for (key, snapshot) in self.caches(&kind).by_index(owned.name, &owned.value, &owned.values) {
                let Ok(meta) = snapshot.meta() else { continue };
                let marked = meta.labels.get(MEMBER_OF).is_some_and(|uid| **uid == *self.primary.uid);
                if marked && meta.is_owned_by(&self.primary.uid) && !meta.deleting() {
                    members.push(Member::new(&kind, &key));
                }
            }
        }
        members
    }

    /// Returns the members that the annotation lists. Every user who may edit the object can write it.
    fn inventory(&self) -> BTreeSet<Member> {
        let Some(snapshot) = self.cached(&self.primary.kind, &self.primary.key) else {
            return BTreeSet::new();
        };
        let Ok(meta) = snapshot.meta() else { return BTreeSet::new() };
        let listed: Option<BTreeSet<Member>> =
            meta.annotations.get(INVENTORY).and_then(|text| serde_json::from_str(text).ok());
        let mut members = listed.unwrap_or_default();
        members.retain(Member::is_sound);
        members
    }

    async fn write_inventory(&self, members: &BTreeSet<Member>) -> Result<()> {
        let kind = &self.primary.kind;
        let text = serde_json::to_string(members)
            .map_err(|source| Error::Convert { what: "an inventory".into(), source })?;
        let patch = json!({"metadata": {"uid": self.primary.uid, "annotations": {INVENTORY: text}}});
        let params =
            PatchParams { field_manager: Some(self.shared.name.to_string()), ..PatchParams::default() };
        let request = Request::new(kind.url(self.primary.key.namespace()))
            .patch(self.primary.key.name(), &params, &Patch::Merge(&patch))
            .map_err(kube::Error::BuildRequest)?;
        let answer: Incoming = self.primary.client.request(request).await?;
        self.caches(kind).written(answer, &self.author(), &self.shared.name);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{
        core::v1::{ConfigMap, Namespace},
        rbac::v1::Role,
    };

    use super::*;

    fn member() -> Member {
        Member::new(&Kind::of::<Role>(), &Key::namespaced("lab", "one"))
    }

    #[test]
    fn a_member_leads_back_to_its_kind_and_object() {
        assert_eq!(member().kind().resource(), Kind::of::<Role>().resource());
        assert!(member().kind().namespaced());
        assert_eq!(
            (member().key(), member().to_string()),
            (Key::namespaced("lab", "one"), "Role lab/one".into())
        );
        let map = Member::new(&Kind::of::<ConfigMap>(), &Key::namespaced("lab", "one"));
        assert_eq!(map.kind().resource().api_version, "v1");
        let space = Member::new(&Kind::of::<Namespace>(), &Key::cluster("lab"));
        assert!(!space.kind().namespaced() && space.key() == Key::cluster("lab"));
        let newer = Member { version: "v2".into(), ..member() };
        assert_eq!(newer.identity(), member().identity(), "it is the same object");
        for other in [
            Member { group: "other".into(), ..member() },
            Member { kind: "Other".into(), ..member() },
            Member { namespace: None, ..member() },
            Member { name: "two".into(), ..member() },
        ] {
            assert_ne!(other.identity(), member().identity());
        }
    }

    #[test]
    fn only_names_are_sound() {
        assert!(member().is_sound());
        assert!(Member { group: String::new(), namespace: None, ..member() }.is_sound());
        assert!(Member { name: "n".repeat(253), ..member() }.is_sound());
        let long = "n".repeat(254);
        for odd in ["", ".", "..", "a/b", "a%2fb", "a?b", "a#b", "a\\b", "a b", "a\nb", "a\u{0}b", &long] {
            let odd = || odd.to_owned();
            for member in [
                Member { version: odd(), ..member() },
                Member { kind: odd(), ..member() },
                Member { plural: odd(), ..member() },
                Member { name: odd(), ..member() },
                Member { namespace: Some(odd()), ..member() },
            ] {
                assert!(!member.is_sound(), "{member:?}");
            }
            // The core group has an empty name.
            assert_eq!(Member { group: odd(), ..member() }.is_sound(), odd().is_empty(), "{:?}", odd());
        }
    }

    #[test]
    fn a_set_is_ready_when_nothing_is_left() {
        assert!(SetProgress::default().is_ready());
        let some = || vec!["x".to_owned()];
        assert!(!SetProgress { waiting: some(), ..SetProgress::default() }.is_ready());
        assert!(!SetProgress { failed: some(), ..SetProgress::default() }.is_ready());
        assert!(!SetProgress { pending: some(), ..SetProgress::default() }.is_ready());
    }

    #[test]
    fn what_is_added_belongs_to_the_last_step() {
        let map = ConfigMap::default();
        let desired = Desired::new().with(&map).unwrap().or_replace();
        let desired = desired.step("next", [""]).with(&map).unwrap().with(&map).unwrap().or_replace();
        let steps: Vec<_> = desired
            .steps
            .iter()
            .map(|step| {
                (
                    step.name.as_str(),
                    step.after.len(),
                    step.members.iter().map(|one| one.replace).collect::<Vec<_>>(),
                )
            })
            .collect();
        assert_eq!(steps, [("", 0, vec![true]), ("next", 1, vec![false, true])]);
        assert!(Desired::new().or_replace().steps.is_empty());
    }
}
