//! The status of a pod, by its plan.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{
        Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
        ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::ResourceExt as _;

use super::plan::{ContainerSnapshot, InitContainer, Plan, State};
use crate::control_loop::whole;

/// Builds a pod's status.
pub(super) struct StatusBuilder<'a> {
    pub(super) pod: &'a Pod,
    pub(super) plan: &'a Plan,
    pub(super) started: Timestamp,
    pub(super) host: &'a str,
    pub(super) address: &'a str,
}

impl StatusBuilder<'_> {
    /// Returns the status when `elapsed` has passed since the start, and when it changes next.
    ///
    /// Without `elapsed`, no container has started.
    pub(super) fn at(&self, elapsed: Option<Duration>, now: Time) -> (PodStatus, Option<Duration>) {
        let spec = self.pod.spec.clone().unwrap_or_default();
        let has_init = spec.init_containers.as_ref().is_some_and(|c| !c.is_empty());
        let stuck = elapsed.and_then(|elapsed| self.plan.running_init_container(elapsed));
        let creating = if has_init { "PodInitializing" } else { "ContainerCreating" };
        let waiting = |next| ContainerSnapshot {
            state: State::Waiting { reason: creating },
            last: None,
            restarts: 0,
            ready: false,
            next,
        };
        let snapshots: Vec<(&Container, ContainerSnapshot)> = spec
            .containers
            .iter()
            .map(|c| {
                let snapshot = match (elapsed, &stuck) {
                    (_, Some((_, stuck))) => waiting(stuck.next),
                    (Some(elapsed), None) if elapsed < self.plan.start_delay => {
                        waiting(Some(self.plan.start_delay))
                    }
                    (Some(elapsed), None) => self.plan.at(&c.name, elapsed),
                    (None, None) => waiting(Some(Duration::ZERO)),
                };
                (c, snapshot)
            })
            .collect();
        let next = snapshots.iter().filter_map(|(_, m)| m.next).min();
        let begun = elapsed.is_some_and(|e| e >= self.plan.start_delay) && stuck.is_none();
        let ends = |m: &ContainerSnapshot| match m.state {
            State::Ended { code, .. } => !self.plan.restarts_after(code),
            _ => false,
        };
        let broken = stuck.as_ref().is_some_and(|(_, m)| ends(m));
        let over = broken || snapshots.iter().all(|(_, m)| ends(m));
        let failed = broken
            || snapshots.iter().any(|(_, m)| matches!(m.state, State::Ended { code, .. } if code != 0));
        let started = snapshots
            .iter()
            .any(|(_, m)| !matches!(m.state, State::Waiting { .. }) || m.restarts > 0 || m.last.is_some());
        let phase = match (over, failed, started) {
            (true, true, _) => "Failed",
            (true, false, _) => "Succeeded",
            (false, _, true) => "Running",
            (false, _, false) => "Pending",
        };
        let old = self.pod.status.clone().unwrap_or_default();
        let containers: Vec<ContainerStatus> = snapshots.iter().map(|(c, m)| self.container(c, m)).collect();
        let unready: Vec<&str> = containers.iter().filter(|c| !c.ready).map(|c| c.name.as_str()).collect();
        let init: Vec<ContainerStatus> = spec
            .init_containers
            .iter()
            .flatten()
            .zip(&self.plan.init_containers)
            .enumerate()
            .map(|(at, (c, init))| match &stuck {
                Some((stuck, snapshot)) if *stuck == at => self.container(c, snapshot),
                Some((stuck, _)) => self.init(c, init, at < *stuck, over),
                None => self.init(c, init, begun, over),
            })
            .collect();
        let mut status = PodStatus {
            phase: Some(phase.to_owned()),
            start_time: Some(Time(self.started)),
            host_ip: Some(self.host.to_owned()),
            host_ips: Some(vec![HostIP { ip: self.host.to_owned() }]),
            pod_ip: Some(self.address.to_owned()),
            pod_ips: Some(vec![PodIP { ip: self.address.to_owned() }]),
            observed_generation: self.pod.metadata.generation,
            container_statuses: Some(containers.clone()),
            init_container_statuses: has_init.then_some(init),
            ..old
        };
        let unready_reason = if over { "PodCompleted" } else { "ContainersNotReady" };
        let unready_message = if over {
            None
        } else {
            Some(format!("containers with unready status: [{}]", unready.join(" ")))
        };
        let initialized = begun || !has_init;
        let unfinished = stuck.as_ref().map_or(0, |(at, _)| *at);
        let uninitialized: Vec<&str> =
            spec.init_containers.iter().flatten().skip(unfinished).map(|c| c.name.as_str()).collect();
        let gates_open = self.gates_open(&status);
        let mut conditions = Conditions {
            list: status.conditions.take().unwrap_or_default(),
            generation: self.pod.metadata.generation,
            now,
        };
        conditions.set("PodReadyToStartContainers", !over, None, None);
        conditions.set(
            "Initialized",
            initialized,
            (!initialized)
                .then_some("ContainersNotInitialized")
                .or(over.then_some("PodCompleted").filter(|_| !failed)),
            (!initialized)
                .then(|| format!("containers with incomplete status: [{}]", uninitialized.join(" "))),
        );
        let ready = unready.is_empty() && !over;
        let blocked = ready && !gates_open;
        conditions.set(
            "Ready",
            ready && gates_open,
            if blocked { Some("ReadinessGatesNotReady") } else { (!ready).then_some(unready_reason) },
            if blocked { None } else { unready_message.clone().filter(|_| !ready) },
        );
        conditions.set(
            "ContainersReady",
            ready,
            (!ready).then_some(unready_reason),
            unready_message.filter(|_| !ready),
        );
        conditions.set("PodScheduled", true, None, None);
        status.conditions = Some(conditions.list);
        (status, next)
    }

    fn gates_open(&self, status: &PodStatus) -> bool {
        let gates = self.pod.spec.iter().flat_map(|s| s.readiness_gates.iter().flatten());
        gates.into_iter().all(|gate| {
            let mut conditions = status.conditions.iter().flatten();
            conditions.any(|c| c.type_ == gate.condition_type && c.status == "True")
        })
    }

    fn time(&self, after: Duration) -> Time {
        let after = SignedDuration::try_from(after).unwrap_or(SignedDuration::MAX);
        whole(self.started.checked_add(after).unwrap_or(Timestamp::MAX))
    }

    fn id(&self, name: &str, restarts: i32) -> String {
        format!("simulated://{}/{name}/{restarts}", self.pod.uid().unwrap_or_default())
    }

    fn state(&self, state: &State, container: &Container, restarts: i32) -> ContainerState {
        match state {
            State::Waiting { reason } => ContainerState {
                waiting: Some(ContainerStateWaiting {
                    reason: Some((*reason).to_owned()),
                    message: self.explanation(reason, container),
                }),
                ..ContainerState::default()
            },
            State::Running { since } => ContainerState {
                running: Some(ContainerStateRunning { started_at: Some(self.time(*since)) }),
                ..ContainerState::default()
            },
            State::Ended { since, at, code } => ContainerState {
                terminated: Some(ContainerStateTerminated {
                    container_id: Some(self.id(&container.name, restarts)),
                    exit_code: *code,
                    reason: Some(if *code == 0 { "Completed" } else { "Error" }.to_owned()),
                    started_at: Some(self.time(*since)),
                    finished_at: Some(self.time(*at)),
                    ..ContainerStateTerminated::default()
                }),
                ..ContainerState::default()
            },
        }
    }

    fn explanation(&self, reason: &str, container: &Container) -> Option<String> {
        let image = container.image.as_deref().unwrap_or_default();
        match reason {
            "ErrImagePull" => Some(format!("failed to pull and unpack image \"{image}\": not found")),
            "ImagePullBackOff" => {
                Some(format!("Back-off pulling image \"{image}\": ErrImagePull: not found"))
            }
            "CrashLoopBackOff" => {
                let name = format!("{}_{}", self.pod.name_any(), self.pod.namespace().unwrap_or_default());
                let uid = self.pod.uid().unwrap_or_default();
                Some(format!("back-off restarting failed container={} pod={name}({uid})", container.name))
            }
            "CreateContainerConfigError" => {
                Some("the container refers to a ConfigMap or Secret that does not exist".to_owned())
            }
            _ => None,
        }
    }

    fn container(&self, container: &Container, snapshot: &ContainerSnapshot) -> ContainerStatus {
        let begun = !matches!(snapshot.state, State::Waiting { .. }) || snapshot.last.is_some();
        let image = container.image.clone().unwrap_or_default();
        ContainerStatus {
            name: container.name.clone(),
            image: image.clone(),
            image_id: if begun { image } else { String::new() },
            container_id: begun.then(|| self.id(&container.name, snapshot.restarts)),
            ready: snapshot.ready,
            started: Some(matches!(snapshot.state, State::Running { .. })),
            restart_count: snapshot.restarts,
            state: Some(self.state(&snapshot.state, container, snapshot.restarts)),
            last_state: Some(
                snapshot
                    .last
                    .as_ref()
                    .map(|last| self.state(last, container, (snapshot.restarts - 1).max(0)))
                    .unwrap_or_default(),
            ),
            ..ContainerStatus::default()
        }
    }

    fn init(&self, container: &Container, init: &InitContainer, begun: bool, over: bool) -> ContainerStatus {
        let since = init.begin;
        let sidecar = container.restart_policy.as_deref() == Some("Always");
        let state = match (begun, sidecar && !over) {
            (false, _) => State::Waiting { reason: "PodInitializing" },
            (true, true) => State::Running { since },
            (true, false) => State::Ended { since, at: init.over, code: 0 },
        };
        let snapshot = ContainerSnapshot { ready: begun, state, last: None, restarts: 0, next: None };
        self.container(container, &snapshot)
    }
}

struct Conditions {
    list: Vec<PodCondition>,
    generation: Option<i64>,
    now: Time,
}

impl Conditions {
    fn set(&mut self, type_: &str, is: bool, reason: Option<&str>, message: Option<String>) {
        let status = if is { "True" } else { "False" };
        let at = self.now.clone();
        let (reason, generation) = (reason.map(str::to_owned), self.generation);
        match self.list.iter_mut().find(|c| c.type_ == type_) {
            Some(c) => {
                if c.status != status {
                    c.last_transition_time = Some(at);
                }
                (c.status, c.reason, c.message) = (status.to_owned(), reason, message);
                c.observed_generation = generation;
            }
            None => self.list.push(PodCondition {
                type_: type_.to_owned(),
                status: status.to_owned(),
                reason,
                message,
                last_transition_time: Some(at),
                observed_generation: generation,
                last_probe_time: None,
            }),
        }
    }
}

/// Marks a pod of a lost node as not ready. Returns whether that changed anything.
pub(super) fn unready(pod: &mut Pod, now: &Time) -> bool {
    let mut changed = false;
    let conditions = pod.status.iter_mut().flat_map(|s| s.conditions.iter_mut().flatten());
    for condition in conditions.filter(|c| c.type_ == "Ready" && c.status == "True") {
        condition.status = "False".to_owned();
        condition.last_transition_time = Some(now.clone());
        changed = true;
    }
    changed
}

/// Terminates every container at once.
pub(super) fn kill(pod: &mut Pod, now: &Time) {
    unready(pod, now);
    let status = pod.status.get_or_insert_default();
    status.phase = Some("Failed".to_owned());
    let init_containers = status.init_container_statuses.iter_mut().flatten();
    let init_containers = init_containers.filter(|c| c.state.as_ref().is_some_and(|s| s.running.is_some()));
    for container in status.container_statuses.iter_mut().flatten().chain(init_containers) {
        let running = container.state.take().and_then(|s| s.running);
        container.ready = false;
        container.started = Some(false);
        container.state = Some(ContainerState {
            terminated: Some(ContainerStateTerminated {
                exit_code: 137,
                reason: Some("Error".to_owned()),
                started_at: running.and_then(|r| r.started_at),
                finished_at: Some(now.clone()),
                ..ContainerStateTerminated::default()
            }),
            ..ContainerState::default()
        });
    }
}

/// Returns the events for the change from the pod's status to `new`.
pub(super) fn events(pod: &Pod, new: &PodStatus) -> Vec<(bool, &'static str, String)> {
    let mut events = Vec::new();
    let before = pod.status.as_ref().and_then(|s| s.container_statuses.as_deref()).unwrap_or_default();
    for container in new.container_statuses.iter().flatten() {
        let old = before.iter().find(|c| c.name == container.name);
        let Some(state) = &container.state else { continue };
        let was = old.and_then(|c| c.state.as_ref());
        let image = &container.image;
        let restarted = old.is_some_and(|c| c.restart_count != container.restart_count);
        let begun = state.running.is_some()
            || (state.terminated.is_some() && was.is_some_and(|s| s.waiting.is_some()));
        if begun && (restarted || was.is_none_or(|s| s.running.is_none())) {
            events.push((false, "Pulled", format!("Container image \"{image}\" already present on machine")));
            events.push((false, "Created", "Container created".to_owned()));
            events.push((false, "Started", "Container started".to_owned()));
        }
        let reason = state.waiting.as_ref().and_then(|w| w.reason.as_deref());
        let old_reason = was.and_then(|s| s.waiting.as_ref()).and_then(|w| w.reason.as_deref());
        if reason == old_reason {
            continue;
        }
        match reason {
            Some("ErrImagePull") => {
                events.push((true, "Failed", format!("Failed to pull image \"{image}\": not found")));
                events.push((true, "Failed", "Error: ErrImagePull".to_owned()));
            }
            Some("ImagePullBackOff") => {
                events.push((false, "BackOff", format!("Back-off pulling image \"{image}\"")));
                events.push((true, "Failed", "Error: ImagePullBackOff".to_owned()));
            }
            Some("CrashLoopBackOff") => {
                let what = format!(
                    "Back-off restarting failed container {} in pod {}",
                    container.name,
                    pod.name_any()
                );
                events.push((true, "BackOff", what));
            }
            Some("CreateContainerConfigError") => {
                events.push((true, "Failed", "Error: CreateContainerConfigError".to_owned()));
            }
            _ => {}
        }
    }
    events
}
