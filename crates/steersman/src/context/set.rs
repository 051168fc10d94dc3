//! Sets: several objects that belong together, of which those that are no longer desired are pruned, and which may wait
//! for each other.

use std::collections::{BTreeMap, BTreeSet};

use kube::{
    api::{Patch, PatchParams},
    core::{ApiResource, DynamicObject, Request},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Context, write::to_value};
use crate::{
    cache::Incoming,
    error::{Error, Result},
    kind::{Key, Kind, Object},
    readiness::{Readiness, readiness},
};

/// Where the inventory is: an annotation of the object that owns the set.
const INVENTORY: &str = "steersman.dev/inventory";

/// Everything that an object wants to have, as plain data. [`Context::apply_set`] brings it about.
///
/// Steps are applied in the order of their dependencies: a step waits until everything in the steps that it comes after
/// is [ready](crate::readiness()).
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Desired {
    steps: Vec<Step>,
}

#[derive(Debug, Clone)]
struct Step {
    name: String,
    after: Vec<String>,
    members: Vec<(Kind, Value)>,
}

/// How far a set is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetProgress {
    /// What is not ready, and why: `Deployment one: 1 of 2 replicas available`.
    pub waiting: Vec<String>,
    /// What will not become ready by itself.
    pub failed: Vec<String>,
    /// The steps that have not been started.
    pub pending: Vec<String>,
}

impl SetProgress {
    /// Whether everything is there and ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.waiting.is_empty() && self.failed.is_empty() && self.pending.is_empty()
    }
}

impl Desired {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a step that comes after others. What is added from here on belongs to it. A set that begins without one
    /// has a nameless first step.
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
            step.members.push((kind, value));
        }
        self
    }
}

/// One line of an inventory.
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

    /// The same object, whatever the version that it is written in.
    fn identity(&self) -> (&str, &str, Option<&str>, &str) {
        (&self.group, &self.kind, self.namespace.as_deref(), &self.name)
    }
}

impl Context {
    /// Brings everything about that an object wants to have, step by step, and deletes what an earlier call had and this
    /// one does not. What belongs is noted down in an annotation of the object, before it is made, so that a crash at any
    /// moment loses track of nothing. Nothing is sent if nothing would change.
    ///
    /// # Errors
    /// As [`Context::apply`].
    pub async fn apply_set(&self, desired: Desired) -> Result<SetProgress> {
        let mut steps = Vec::new();
        let mut wanted = BTreeSet::new();
        for Step { name, after, members } in desired.steps {
            let mut complete = Vec::new();
            for (kind, mut value) in members {
                let key = self.complete(&kind, &mut value, true)?;
                wanted.insert(Member::new(&kind, &key));
                complete.push((kind, value));
            }
            steps.push(Step { name, after, members: complete });
        }
        let had = self.inventory();
        let both: BTreeSet<Member> = had.union(&wanted).cloned().collect();
        if both != had {
            self.write_inventory(&both).await?;
        }
        let progress = self.apply_steps(steps).await?;
        let kept: BTreeSet<_> = wanted.iter().map(Member::identity).collect();
        for member in had.iter().filter(|member| !kept.contains(&member.identity())) {
            self.delete_key(&member.kind(), &member.key()).await?;
        }
        if wanted != both {
            self.write_inventory(&wanted).await?;
        }
        Ok(progress)
    }

    async fn apply_steps(&self, steps: Vec<Step>) -> Result<SetProgress> {
        let mut progress = SetProgress::default();
        let mut ready: BTreeMap<String, bool> = BTreeMap::new();
        let mut left = steps;
        loop {
            let startable = |after: &[String]| after.iter().all(|name| ready.get(name) == Some(&true));
            let Some(next) = left.iter().position(|step| startable(&step.after)) else { break };
            let Step { name, members, .. } = left.remove(next);
            let mut complete = true;
            for (kind, value) in members {
                let snapshot = self.apply_value(&kind, value, true).await?;
                let mut live: Value = snapshot.parse()?;
                live["apiVersion"] = kind.resource().api_version.as_str().into();
                live["kind"] = kind.name().into();
                let what = format!("{} {}", kind.name(), snapshot.meta()?.name);
                match readiness(&live) {
                    Readiness::Ready => continue,
                    Readiness::Waiting(why) => progress.waiting.push(format!("{what}: {why}")),
                    Readiness::Failed(why) => progress.failed.push(format!("{what}: {why}")),
                }
                complete = false;
            }
            ready.insert(name, complete);
        }
        progress.pending = left.into_iter().map(|step| step.name).collect();
        Ok(progress)
    }

    fn inventory(&self) -> BTreeSet<Member> {
        let Some(snapshot) = self.cached(&self.primary.kind, &self.primary.key) else {
            return BTreeSet::new();
        };
        let Ok(meta) = snapshot.meta() else { return BTreeSet::new() };
        meta.annotations.get(INVENTORY).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
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
        self.engine.store()?.written(answer, Some(self.author()));
        Ok(())
    }
}
