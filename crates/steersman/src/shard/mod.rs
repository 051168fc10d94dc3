//! Sharding: the replicas of an operator share its objects.
//!
//! Objects fall into slots by their names. Each slot is a Lease, and whoever holds it works on its objects, by the rules of
//! [`crate::leader`]: its writes stop before the lease can pass to another. Which replica should hold which slot
//! follows from the replicas that are alive, each with a Lease of its own. Replicas may see each other's coming and
//! going at different moments, and then want the same slot: the slot's lease decides, so no object is ever with two.

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
    door::{self, Fence, Permit},
    environment::Environment,
    error::{Error, Result},
    kind::Key,
    leader::{Candidate, Times, identity},
    metrics::Metrics,
};

/// Marks the leases of a sharded operator, with its name as the value.
const LABEL: &str = "steersman.dev/sharding";
/// Says what a lease is for: `member` or `slot`.
const ROLE: &str = "steersman.dev/sharding-role";

/// How replicas share the objects of an operator. All of them work at the same time, each on its own share; their caches
/// hold all objects. It takes the place of leader election.
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
    /// Sixteen slots, and leader election's times: 15 s, 10 s and 2 s.
    pub fn new() -> Self {
        Self::default()
    }

    /// Into how many slots objects fall: at least as many as there are ever replicas, and the same in all of them. Each
    /// is a Lease that is renewed all the time. Default: 16.
    pub fn slots(mut self, slots: u16) -> Self {
        self.slots = usize::from(slots.max(1));
        self
    }

    /// The leases' namespace. Default: the operator's own.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// What this replica calls itself. Default: its host's name and a random number.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// How long others wait for a replica that does not renew, how long it works without a renewal (always less than the
    /// first), and how often it renews.
    pub fn times(mut self, duration: Duration, deadline: Duration, retry: Duration) -> Self {
        self.times = Times::new(duration, deadline, retry);
        self
    }
}

/// This replica's share.
pub(crate) struct Shards {
    pub(crate) identity: String,
    slots: Vec<Arc<Slot>>,
}

/// The objects whose names fall into one place.
struct Slot {
    fence: Fence,
    /// Its writes pass while the slot is held.
    client: Client,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Whether work may begin while it is held: it is not about to be given away.
    open: bool,
    running: usize,
    /// Whether an object was turned away: all are looked at once the slot is held.
    missed: bool,
}

impl Slot {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.state().open = false;
    }

    /// Whether work may begin.
    fn is_open(&self, state: &State) -> bool {
        state.open && self.fence.permit().is_good()
    }

    /// Whether objects were turned away before work could begin. They are owed a look, once.
    fn owes(&self) -> bool {
        let mut state = self.state();
        self.is_open(&state) && std::mem::take(&mut state.missed)
    }
}

/// The right to work on one object, until it is dropped.
pub(crate) struct Seat(Arc<Slot>);

impl Seat {
    /// Waits until another replica may take the object.
    pub(crate) async fn lost(&self) {
        self.0.fence.closed().await;
        self.0.state().missed = true;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.state().running -= 1;
    }
}

impl Shards {
    /// Makes the share of a replica, which is empty at first, and what keeps it.
    pub(crate) fn new(
        sharding: Sharding,
        operator: &str,
        client: &Client,
        environment: &Arc<dyn Environment>,
        metrics: &Metrics,
    ) -> (Arc<Self>, Keeper) {
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
                client: door::guarded(client.clone(), Some(fence.clone()), metrics.clone()),
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
        let keeper = Keeper {
            member: metadata(member_name(operator, &identity), "member"),
            selector: ListParams::default().labels(&format!("{LABEL}={operator},{ROLE}=member")),
            api,
            times: sharding.times,
            environment: Arc::clone(environment),
            shards: Arc::clone(&shards),
            candidates,
            seen: BTreeMap::new(),
        };
        (shards, keeper)
    }

    fn number(&self, key: &Key) -> usize {
        ring::slot(&key.to_string(), self.slots.len())
    }

    fn slot(&self, key: &Key) -> Option<&Arc<Slot>> {
        self.slots.get(self.number(key))
    }

    /// The right to work on an object. `None`: it is with another replica, or with nobody; it is looked at when this one gets
    /// it.
    pub(crate) fn enter(&self, key: &Key) -> Option<Seat> {
        let slot = self.slot(key)?;
        let mut state = slot.state();
        if !slot.is_open(&state) {
            state.missed = true;
            return None;
        }
        state.running += 1;
        Some(Seat(Arc::clone(slot)))
    }

    /// The client for writes on behalf of an object.
    pub(crate) fn client(&self, key: &Key) -> Option<Client> {
        self.slot(key).map(|slot| slot.client.clone())
    }

    /// How many slots are held.
    pub(crate) fn held(&self) -> usize {
        self.slots.iter().filter(|slot| slot.fence.permit().is_good()).count()
    }
}

/// A name that Kubernetes takes, whatever a replica calls itself.
fn member_name(operator: &str, identity: &str) -> String {
    let plain = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' { c } else { '-' };
    let identity: String = identity.to_ascii_lowercase().chars().map(plain).collect();
    format!("{operator}-member-{}", identity.trim_matches(['-', '.']))
}

/// Keeps the share of a replica: renews, takes and gives.
pub(crate) struct Keeper {
    api: Api<Lease>,
    member: ObjectMeta,
    selector: ListParams,
    times: Times,
    environment: Arc<dyn Environment>,
    shards: Arc<Shards>,
    candidates: Vec<Candidate>,
    /// The members' leases as last seen, and when each was first seen so.
    seen: BTreeMap<String, (LeaseSpec, Instant)>,
}

impl Keeper {
    /// Runs until it is dropped. What this replica holds when that happens, it holds until its leases expire.
    pub(crate) async fn keep(&mut self, engines: &[Arc<Engine>]) -> Error {
        loop {
            let start = Instant::now();
            // A request without an answer must not hold up the renewals for longer than they last.
            match tokio::time::timeout(self.times.deadline, self.round(engines)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "the share could not be renewed"),
                Err(_) => tracing::warn!("the share could not be renewed in time"),
            }
            tokio::time::sleep_until(start + self.times.retry).await;
        }
    }

    async fn round(&mut self, engines: &[Arc<Engine>]) -> Result<()> {
        // What is held comes first, whoever else is there.
        let known: Vec<String> = self.alive();
        let renewed = self.turn(&known, true, engines).await;
        self.announce().await?;
        self.look().await?;
        let members = self.alive();
        let taken = self.turn(&members, false, engines).await;
        renewed.and(taken)
    }

    /// Says that this replica is there.
    async fn announce(&self) -> Result<()> {
        let spec = LeaseSpec {
            holder_identity: Some(self.shards.identity.clone()),
            lease_duration_seconds: Some(self.times.seconds()),
            renew_time: Some(MicroTime(self.environment.now())),
            ..LeaseSpec::default()
        };
        let lease = Lease { metadata: self.member.clone(), spec: Some(spec) };
        let params = PatchParams::apply("steersman-sharding").force();
        self.api.patch(&self.member.name.clone().unwrap_or_default(), &params, &Patch::Apply(&lease)).await?;
        Ok(())
    }

    /// Looks who else is there.
    async fn look(&mut self) -> Result<()> {
        let now = Instant::now();
        let mut seen = BTreeMap::new();
        for lease in self.api.list(&self.selector).await?.items {
            let name = lease.name_any();
            let spec = lease.spec.unwrap_or_default();
            let since = match self.seen.remove(&name) {
                Some((before, since)) if before == spec => since,
                _ => now,
            };
            if now.duration_since(since) > self.times.duration * 8 {
                // Nobody came back for it.
                let _ = self.api.delete(&name, &DeleteParams::default()).await;
                continue;
            }
            seen.insert(name, (spec, since));
        }
        self.seen = seen;
        Ok(())
    }

    /// Who is there, as far as this replica knows.
    fn alive(&self) -> Vec<String> {
        let fresh = self.seen.values().filter(|(_, since)| since.elapsed() < self.times.duration);
        fresh.filter_map(|(spec, _)| spec.holder_identity.clone()).collect()
    }

    /// Brings each slot one step further: those that are held, or those that are not.
    async fn turn(&mut self, members: &[String], held: bool, engines: &[Arc<Engine>]) -> Result<()> {
        let members: Vec<&str> = members.iter().map(String::as_str).collect();
        let wanted = ring::assign(&members, self.candidates.len());
        let shards = &self.shards;
        let each = self.candidates.iter_mut().zip(&shards.slots).zip(wanted);
        let steps = each.filter_map(|((candidate, slot), wanted)| {
            let mine = wanted == Some(&*shards.identity);
            match (held, slot.fence.permit().is_good()) {
                // Whoever knows of nobody keeps what it has.
                (true, true) => Some(step(candidate, slot, mine || members.is_empty())),
                (false, false) if mine => Some(step(candidate, slot, true)),
                _ => None,
            }
        });
        let outcomes = futures::future::join_all(steps).await;
        for (number, slot) in shards.slots.iter().enumerate() {
            if slot.owes() {
                for engine in engines {
                    engine.look_at(|key| shards.number(key) == number);
                }
            }
        }
        outcomes.into_iter().collect()
    }

    /// Gives everything back. No work is under way any more.
    pub(crate) async fn leave(&mut self) {
        for slot in &self.shards.slots {
            slot.close();
        }
        let held = self.candidates.iter_mut().zip(&self.shards.slots);
        let held = held.filter(|(_, slot)| slot.fence.permit().is_good());
        futures::future::join_all(held.map(|(candidate, _)| candidate.release())).await;
        if let Some(name) = &self.member.name {
            let _ = self.api.delete(name, &DeleteParams::default()).await;
        }
    }
}

/// Renews or takes a slot, or gives it away once nobody works on its objects.
async fn step(candidate: &mut Candidate, slot: &Slot, mine: bool) -> Result<()> {
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
