//! Sharding: the replicas of an operator share its objects.
//!
//! Objects are assigned to slots by their names. Each slot is a Lease; its holder works on the slot's objects, by the
//! rules of [`crate::leader`]: its writes stop before the lease can pass to another replica. Which replica should
//! hold which slot follows from the live replicas, each with a Lease of its own. Replicas may observe each other's
//! start and end at different moments, and then want the same slot: the slot's lease decides, so no object is ever
//! with two.
//!
//! Replicas with different numbers of slots would put one object under two leases. So a replica that holds no slot
//! acquires none while a replica with another number is alive: the new ones of a rolling update wait until the last old
//! one is gone.

mod ring;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use tokio::time::Instant;

use crate::{
    controller::Engine,
    environment::Environment,
    error::{Error, Result},
    kind::Key,
    leader::{Candidate, Times, identity},
    metrics::Metrics,
    write_guard::{self, Fence, Permit},
};

/// Label of the leases of a sharded operator, with its name as the value.
const LABEL: &str = "steersman.dev/sharding";
/// Label with the role of a lease: `member` or `slot`.
const ROLE: &str = "steersman.dev/sharding-role";
/// Label with a member's number of slots.
const SLOTS: &str = "steersman.dev/sharding-slots";

/// How replicas share the objects of an operator: all work at once, each on its own share. The caches of each replica
/// hold all objects. It replaces leader election.
///
/// ```
/// use steersman::{Operator, Sharding};
///
/// let operator = Operator::new("web-operator").sharding(Sharding::new().slots(32));
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Sharding {
    slots: usize,
    namespace: Option<String>,
    identity: Option<String>,
    times: Times,
}

impl Default for Sharding {
    fn default() -> Self {
        Self { slots: 16, namespace: None, identity: None, times: Times::default() }
    }
}

impl Sharding {
    /// Creates the default settings: sixteen slots, and leader election's times of 15 s, 10 s and 2 s.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of slots: at least the largest number of replicas ever, and the same in all of them. Each slot is a Lease
    /// that is renewed all the time. Replicas with another number wait until the others are gone. Default: 16.
    pub fn slots(mut self, slots: u16) -> Self {
        self.slots = usize::from(slots.max(1));
        self
    }

    /// Namespace of the leases. Default: the operator's own.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Identity of this replica. Default: its pod's or host's name, and a random number.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// Lease duration, renew deadline and retry period. Other replicas wait for the duration before they replace one
    /// that does not renew; a replica stops working after the deadline, which is always shorter.
    pub fn times(mut self, duration: Duration, deadline: Duration, retry: Duration) -> Self {
        self.times = Times::new(duration, deadline, retry);
        self
    }
}

/// Share of this replica.
pub(crate) struct Shards {
    pub(crate) identity: String,
    slots: Vec<Arc<Slot>>,
}

/// A slot: the objects whose names are assigned to it.
struct Slot {
    fence: Fence,
    /// Client whose writes pass while the slot is held.
    client: Client,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Whether new work may begin while the slot is held: it is not about to be released.
    open: bool,
    running: usize,
    /// Whether an object was skipped: all are enqueued once the slot is held.
    missed: bool,
}

impl Slot {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the slot. Changes of its objects are missed from now on: all are enqueued if it is acquired again.
    fn close(&self) {
        let mut state = self.state();
        state.open = false;
        state.missed = true;
    }

    /// Whether new work may begin.
    fn is_open(&self, state: &State) -> bool {
        state.open && self.fence.permit().is_good()
    }

    /// Whether objects were skipped before work could begin, reset by this call. They are enqueued once.
    fn take_missed(&self) -> bool {
        let mut state = self.state();
        self.is_open(&state) && std::mem::take(&mut state.missed)
    }
}

/// Guard of a worker on one object: its slot is not released until this is dropped.
#[must_use]
pub(crate) struct SlotGuard(Arc<Slot>);

impl SlotGuard {
    /// Waits until another replica may take the object.
    pub(crate) async fn lost(&self) {
        self.0.fence.closed().await;
        self.0.state().missed = true;
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.0.state().running -= 1;
    }
}

impl Shards {
    /// Returns the share of a replica, which is empty at first, and the manager that maintains it.
    pub(crate) fn new(
        sharding: Sharding,
        operator: &str,
        client: &Client,
        environment: &Arc<dyn Environment>,
        metrics: &Metrics,
    ) -> (Arc<Self>, SlotManager) {
        let namespace = sharding.namespace.unwrap_or_else(|| client.default_namespace().to_owned());
        let identity = sharding.identity.unwrap_or_else(|| identity(&**environment));
        let api: Api<Lease> = Api::namespaced(client.clone(), &namespace);
        let metadata = |name: String, role: &str| ObjectMeta {
            name: Some(name),
            labels: Some(
                [(LABEL.to_owned(), operator.to_owned()), (ROLE.to_owned(), role.to_owned())].into(),
            ),
            ..ObjectMeta::default()
        };
        let mut slots = Vec::new();
        let mut candidates = Vec::new();
        for number in 0..sharding.slots {
            let fence = Fence::new(Permit::Never);
            slots.push(Arc::new(Slot {
                client: write_guard::guarded(client.clone(), Some(fence.clone()), metrics.clone()),
                fence: fence.clone(),
                state: Mutex::new(State { open: false, running: 0, missed: true }),
            }));
            candidates.push(Candidate::new(
                api.clone(),
                metadata(format!("{operator}-slot-{number}"), "slot"),
                identity.clone(),
                sharding.times,
                fence,
                Arc::clone(environment),
            ));
        }
        let shards = Arc::new(Self { identity: identity.clone(), slots });
        let mut member = metadata(member_name(operator, &identity), "member");
        member.labels.get_or_insert_default().insert(SLOTS.to_owned(), sharding.slots.to_string());
        let manager = SlotManager {
            member,
            selector: ListParams::default().labels(&format!("{LABEL}={operator}")),
            api,
            times: sharding.times,
            environment: Arc::clone(environment),
            shards: Arc::clone(&shards),
            candidates,
            seen: BTreeMap::new(),
            waiting: false,
            stopping: false,
        };
        (shards, manager)
    }

    fn number(&self, key: &Key) -> usize {
        ring::slot(&key.to_string(), self.slots.len())
    }

    fn slot(&self, key: &Key) -> Option<&Arc<Slot>> {
        self.slots.get(self.number(key))
    }

    /// Acquires the right to work on an object. `None`: this replica does not hold its slot; the object is enqueued
    /// when it does.
    pub(crate) fn acquire(&self, key: &Key) -> Option<SlotGuard> {
        let slot = self.slot(key)?;
        let mut state = slot.state();
        if !slot.is_open(&state) {
            state.missed = true;
            return None;
        }
        state.running += 1;
        Some(SlotGuard(Arc::clone(slot)))
    }

    /// Returns the client for writes on behalf of an object.
    pub(crate) fn client(&self, key: &Key) -> Option<Client> {
        self.slot(key).map(|slot| slot.client.clone())
    }

    /// Number of slots that are held.
    pub(crate) fn held(&self) -> usize {
        self.slots.iter().filter(|slot| slot.fence.permit().is_good()).count()
    }
}

/// Returns a valid Lease name for any identity of a replica.
fn member_name(operator: &str, identity: &str) -> String {
    let plain = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' { c } else { '-' };
    let identity: String = identity.to_ascii_lowercase().chars().map(plain).collect();
    format!("{operator}-member-{}", identity.trim_matches(['-', '.']))
}

/// Renews, acquires and releases the slots of a replica.
pub(crate) struct SlotManager {
    api: Api<Lease>,
    member: ObjectMeta,
    selector: ListParams,
    times: Times,
    environment: Arc<dyn Environment>,
    shards: Arc<Shards>,
    candidates: Vec<Candidate>,
    /// The members, by the names of their leases.
    seen: BTreeMap<String, Member>,
    /// Whether it acquires no slots because another replica has a different number of them.
    waiting: bool,
    /// Whether it acquires no more slots and releases idle ones.
    stopping: bool,
}

/// A replica as another one observes it.
struct Member {
    /// Its lease as last observed, and when it was first observed in that state.
    spec: LeaseSpec,
    since: Instant,
    /// Its number of slots. `None`: it does not state one.
    slots: Option<usize>,
}

impl SlotManager {
    /// Runs until dropped. Slots that this replica then holds stay held until their leases expire.
    pub(crate) async fn run(&mut self, engines: &[Arc<Engine>]) -> Error {
        loop {
            let start = Instant::now();
            // A request without a response must not delay the renewals until it is too late for them.
            match tokio::time::timeout(self.times.attempt_timeout(), self.sync(engines)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "the share could not be renewed"),
                Err(_) => tracing::warn!("the share could not be renewed in time"),
            }
            tokio::time::sleep_until(start + self.times.retry).await;
        }
    }

    async fn sync(&mut self, engines: &[Arc<Engine>]) -> Result<()> {
        // Held slots are renewed first.
        let known: Vec<String> = self.live_members();
        let renewed = self.sync_slots(&known, true, engines).await;
        self.announce().await?;
        if self.stopping {
            return renewed;
        }
        self.refresh_members().await?;
        self.waiting = self.must_wait();
        if self.waiting {
            return renewed;
        }
        let members = self.live_members();
        let taken = self.sync_slots(&members, false, engines).await;
        renewed.and(taken)
    }

    /// Releases each slot, from now on, as soon as no worker is on its objects.
    pub(crate) fn begin_shutdown(&mut self) {
        self.stopping = true;
    }

    /// Announces this replica as a member. One that stops stays a member until the end, since it may hold slots, but
    /// without an identity it is assigned none.
    async fn announce(&self) -> Result<()> {
        let spec = LeaseSpec {
            holder_identity: Some(self.shards.identity.clone()).filter(|_| !self.stopping),
            lease_duration_seconds: Some(self.times.seconds()),
            renew_time: Some(MicroTime(self.environment.now())),
            ..LeaseSpec::default()
        };
        let lease = Lease { metadata: self.member.clone(), spec: Some(spec) };
        let params = PatchParams::apply("steersman-sharding").force();
        self.api.patch(&self.member.name.clone().unwrap_or_default(), &params, &Patch::Apply(&lease)).await?;
        Ok(())
    }

    /// Observes the other replicas, and the leases of their slots. A slot of a dead replica can be taken once its lease
    /// was not renewed for long enough, counted from its first observation.
    async fn refresh_members(&mut self) -> Result<()> {
        let leases = self.api.list(&self.selector).await?.items;
        let now = Instant::now();
        let (slots, members): (Vec<Lease>, Vec<Lease>) =
            leases.into_iter().partition(|lease| lease.labels().get(ROLE).is_some_and(|role| role == "slot"));
        for lease in slots {
            let name = lease.name_any();
            let of_others = self.candidates.iter_mut().zip(&self.shards.slots);
            let mut of_others = of_others.filter(|(_, slot)| !slot.fence.permit().is_good());
            if let Some((candidate, _)) = of_others.find(|(candidate, _)| candidate.lease() == name) {
                candidate.observe(&lease.spec.unwrap_or_default(), now);
            }
        }
        let (mut seen, mut forgotten) = (BTreeMap::new(), Vec::new());
        for lease in members {
            let name = lease.name_any();
            let slots = lease.labels().get(SLOTS).and_then(|slots| slots.parse().ok());
            let spec = lease.spec.unwrap_or_default();
            let since = match self.seen.get(&name) {
                Some(before) if before.spec == spec => before.since,
                _ => now,
            };
            if now.duration_since(since) > self.times.duration * 8 {
                forgotten.push(name);
                continue;
            }
            seen.insert(name, Member { spec, since, slots });
        }
        self.seen = seen;
        for name in forgotten {
            // Its replica did not return.
            let _ = self.api.delete(&name, &DeleteParams::default()).await;
        }
        Ok(())
    }

    fn fresh(&self) -> impl Iterator<Item = &Member> {
        self.seen.values().filter(|member| member.since.elapsed() < self.times.duration)
    }

    /// Returns the live members that share the slots, as far as this replica knows.
    fn live_members(&self) -> Vec<String> {
        let same = |member: &&Member| member.slots.is_none_or(|slots| slots == self.candidates.len());
        self.fresh().filter(same).filter_map(|member| member.spec.holder_identity.clone()).collect()
    }

    /// Whether to wait for replicas that may use a different number of slots. Each announces its number before it looks for
    /// the others', so of two that start at once at least one waits; a replica that holds slots does not.
    fn must_wait(&self) -> bool {
        let own = self.candidates.len();
        let other = self.fresh().find_map(|member| member.slots.filter(|slots| *slots != own));
        let Some(other) = other.filter(|_| self.shards.held() == 0) else { return false };
        if !self.waiting {
            tracing::warn!(own, other, "waiting for replicas with a different number of slots to exit");
        }
        true
    }

    /// Advances each slot by one step: those that are held, or those that are not.
    async fn sync_slots(&mut self, members: &[String], held: bool, engines: &[Arc<Engine>]) -> Result<()> {
        let members: Vec<&str> = members.iter().map(String::as_str).collect();
        let wanted = ring::assign(&members, self.candidates.len());
        let (shards, stopping) = (&self.shards, self.stopping);
        let each = self.candidates.iter_mut().zip(&shards.slots).zip(wanted);
        let steps = each.filter_map(|((candidate, slot), wanted)| {
            let mine = wanted == Some(&*shards.identity);
            match (held, slot.fence.permit().is_good()) {
                // Without known members the slots are kept.
                (true, true) => Some(sync_slot(candidate, slot, !stopping && (mine || members.is_empty()))),
                (false, false) if mine => Some(sync_slot(candidate, slot, true)),
                _ => None,
            }
        });
        let outcomes = futures::future::join_all(steps).await;
        let missed: Vec<bool> = shards.slots.iter().map(|slot| slot.take_missed()).collect();
        if missed.contains(&true) {
            for engine in engines {
                engine.enqueue_matching(|key| missed.get(shards.number(key)).copied().unwrap_or_default());
            }
        }
        outcomes.into_iter().collect()
    }

    /// Releases everything. No work may be in progress.
    pub(crate) async fn release(&mut self) {
        for slot in &self.shards.slots {
            slot.close();
        }
        // Including those whose permit has ended: they may have been passing to other replicas.
        let held = self.candidates.iter_mut().filter(|candidate| candidate.may_hold());
        futures::future::join_all(held.map(Candidate::release)).await;
        if let Some(name) = &self.member.name {
            let params = DeleteParams::default();
            // Without a response the others find out on their own.
            let _ = tokio::time::timeout(self.times.attempt_timeout(), self.api.delete(name, &params)).await;
        }
    }
}

/// Renews or acquires a slot, or releases it once no worker is on its objects.
async fn sync_slot(candidate: &mut Candidate, slot: &Slot, mine: bool) -> Result<()> {
    if mine {
        if candidate.attempt().await? {
            slot.state().open = true;
        } else {
            slot.fence.set(Permit::Never);
            slot.close();
        }
        return Ok(());
    }
    slot.close();
    if slot.state().running == 0 {
        candidate.release().await;
    } else if !candidate.attempt().await? {
        slot.fence.set(Permit::Never);
    }
    Ok(())
}
