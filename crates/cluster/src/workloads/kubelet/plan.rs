//! The states of a pod's containers over time.
//!
//! They are a function of the pod's annotations and programs, the cluster's options and the elapsed time.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use super::program::Program;
use crate::{
    annotations::{CONTAINER, EXIT_CODE, FAIL, RUN_FOR, START_DELAY, STOP_DELAY},
    options::Options,
    workloads::parse_duration,
};

const FIRST_BACKOFF: Duration = Duration::from_secs(10);
const LAST_BACKOFF: Duration = Duration::from_secs(300);
/// Run time of a program that exits at once.
const IMMEDIATE_EXIT: Duration = Duration::from_millis(100);
/// How long an error is the waiting reason before its backoff is.
const BACKOFF_DELAY: Duration = Duration::from_secs(1);

/// A failure to simulate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// The image can't be pulled.
    ImagePull,
    /// The container can't be created.
    Config,
    /// The container exits again and again.
    CrashLoop,
    /// The container runs but never becomes ready.
    NeverReady,
}

/// The simulated course of a pod's containers.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) start_delay: Duration,
    pub(super) stop_delay: Duration,
    pub(super) failure: Option<Failure>,
    /// The only container that fails, or `None` if all do.
    pub(super) container: Option<String>,
    /// Run time and exit code of containers. `None`: they run forever.
    end: Option<(Duration, i32)>,
    /// The same for containers with a known program.
    known: BTreeMap<String, Option<(Duration, i32)>>,
    /// Containers whose image cannot be pulled.
    missing_image: BTreeSet<String>,
    /// The init containers, in order.
    pub(super) init_containers: Vec<InitContainer>,
    restart: Restart,
}

/// An init container. Times are relative to the pod's start.
#[derive(Debug, Clone)]
pub(super) struct InitContainer {
    name: String,
    pub(super) begin: Duration,
    /// When the next one begins: never if this one fails or keeps running.
    pub(super) over: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Restart {
    Always,
    OnFailure,
    Never,
}

/// The state of a container at one time. Times are relative to the pod's start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    Waiting { reason: &'static str },
    Running { since: Duration },
    Ended { since: Duration, at: Duration, code: i32 },
}

/// A container's state with its history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContainerSnapshot {
    pub(super) state: State,
    /// Its last termination.
    pub(super) last: Option<State>,
    pub(super) restarts: i32,
    pub(super) ready: bool,
    /// When the state changes next.
    pub(super) next: Option<Duration>,
}

impl ContainerSnapshot {
    fn new(state: State, next: Option<Duration>) -> Self {
        let ready = matches!(state, State::Running { .. });
        Self { state, last: None, restarts: 0, ready, next }
    }
}

impl Plan {
    pub(super) fn new(pod: &Pod, options: &Options) -> Self {
        let word = |name: &str| pod.annotations().get(name).map(String::as_str);
        let duration = |name: &str| word(name).and_then(parse_duration);
        let failure = match word(FAIL) {
            Some("image-pull") => Some(Failure::ImagePull),
            Some("config-error") => Some(Failure::Config),
            Some("crash-loop") => Some(Failure::CrashLoop),
            Some("never-ready") => Some(Failure::NeverReady),
            _ => None,
        };
        let restart = match pod.spec.as_ref().and_then(|s| s.restart_policy.as_deref()) {
            Some("Never") => Restart::Never,
            Some("OnFailure") => Restart::OnFailure,
            _ => Restart::Always,
        };
        let code: Option<i32> = word(EXIT_CODE).and_then(|v| v.parse().ok());
        let run_for = duration(RUN_FOR);
        // Annotations take precedence over what the program would do.
        let ordered = failure == Some(Failure::CrashLoop) || code.is_some() || word(RUN_FOR).is_some();
        let containers =
            || pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
        let is_missing = |image: &String| options.missing_images.contains(image);
        let missing_image: BTreeSet<String> = containers()
            .filter(|c| c.image.as_ref().is_some_and(is_missing))
            .map(|c| c.name.clone())
            .collect();
        let mut known = BTreeMap::new();
        if !ordered {
            for container in containers() {
                let end = match Program::of(container) {
                    Program::Waits => None,
                    Program::Ends(time, code) => {
                        Some((time.unwrap_or_else(|| IMMEDIATE_EXIT.min(options.pod_run_time)), code))
                    }
                    Program::Unknown => continue,
                };
                known.insert(container.name.clone(), end);
            }
        }
        let end = if failure == Some(Failure::CrashLoop) {
            Some((run_for.unwrap_or(BACKOFF_DELAY), code.unwrap_or(1)))
        } else if word(RUN_FOR) == Some("forever")
            || (restart == Restart::Always && code.is_none() && run_for.is_none())
        {
            None
        } else {
            Some((run_for.unwrap_or(options.pod_run_time), code.unwrap_or(0)))
        };
        let start_delay = duration(START_DELAY).unwrap_or(options.pod_start_delay);
        Self {
            init_containers: init_containers(pod, &known, &missing_image, start_delay),
            start_delay,
            stop_delay: duration(STOP_DELAY).unwrap_or(options.pod_stop_delay),
            failure,
            container: word(CONTAINER).map(str::to_owned),
            end,
            known,
            missing_image,
            restart,
        }
    }

    /// Returns a container's state when `elapsed` has passed since the pod's start.
    pub(super) fn at(&self, container: &str, elapsed: Duration) -> ContainerSnapshot {
        let begin = self.init_containers.last().map_or(self.start_delay, |last| last.over);
        self.snapshot(container, begin, elapsed)
    }

    /// Returns the state of a container that starts at `begin`.
    fn snapshot(&self, container: &str, begin: Duration, elapsed: Duration) -> ContainerSnapshot {
        let Some(since) = elapsed.checked_sub(begin) else {
            return ContainerSnapshot::new(State::Waiting { reason: "ContainerCreating" }, Some(begin));
        };
        if self.missing_image.contains(container) {
            return pull(begin, since);
        }
        let failure = self.failure.filter(|_| self.container.as_deref().is_none_or(|c| c == container));
        match failure {
            Some(Failure::ImagePull) => pull(begin, since),
            Some(Failure::Config) => {
                ContainerSnapshot::new(State::Waiting { reason: "CreateContainerConfigError" }, None)
            }
            Some(Failure::NeverReady) => ContainerSnapshot {
                ready: false,
                ..ContainerSnapshot::new(State::Running { since: begin }, None)
            },
            // Another container is the one that crashes.
            None if self.failure == Some(Failure::CrashLoop) => {
                ContainerSnapshot::new(State::Running { since: begin }, None)
            }
            _ => self.run(self.end_of(container), begin, since),
        }
    }

    fn end_of(&self, container: &str) -> Option<(Duration, i32)> {
        self.known.get(container).copied().unwrap_or(self.end)
    }

    /// Returns the current init container, if there is one: the next one starts when it is over.
    pub(super) fn running_init_container(&self, elapsed: Duration) -> Option<(usize, ContainerSnapshot)> {
        if elapsed < self.start_delay {
            return None;
        }
        let at = self.init_containers.iter().position(|init| elapsed < init.over)?;
        let InitContainer { name, begin, .. } = self.init_containers.get(at)?;
        let snapshot = match self.known.get(name).filter(|_| !self.missing_image.contains(name)) {
            Some(end @ (None | Some((_, 0)))) => self.run(*end, *begin, elapsed.saturating_sub(*begin)),
            _ => self.snapshot(name, *begin, elapsed),
        };
        // Init containers are never ready.
        Some((at, ContainerSnapshot { ready: false, ..snapshot }))
    }

    fn run(&self, end: Option<(Duration, i32)>, begin: Duration, since: Duration) -> ContainerSnapshot {
        let Some((run, code)) = end else {
            return ContainerSnapshot::new(State::Running { since: begin }, None);
        };
        let restarts = self.restarts_after(code);
        let (mut start, mut backoff) = (Duration::ZERO, FIRST_BACKOFF);
        let (mut last, mut count) = (None, 0);
        loop {
            let absolute = |at: Duration| begin.saturating_add(at);
            let end = start.saturating_add(run);
            if since < end {
                let state = State::Running { since: absolute(start) };
                return ContainerSnapshot {
                    last,
                    restarts: count,
                    ..ContainerSnapshot::new(state, Some(absolute(end)))
                };
            }
            let ended = State::Ended { since: absolute(start), at: absolute(end), code };
            if !restarts {
                return ContainerSnapshot { last, restarts: count, ..ContainerSnapshot::new(ended, None) };
            }
            let (shown, again) = (end.saturating_add(BACKOFF_DELAY), end.saturating_add(backoff));
            if since < shown {
                return ContainerSnapshot {
                    last,
                    restarts: count,
                    ..ContainerSnapshot::new(ended, Some(absolute(shown)))
                };
            }
            last = Some(ended);
            if since < again {
                let state = State::Waiting { reason: "CrashLoopBackOff" };
                return ContainerSnapshot {
                    last,
                    restarts: count,
                    ..ContainerSnapshot::new(state, Some(absolute(again)))
                };
            }
            start = again;
            backoff = (backoff * 2).min(LAST_BACKOFF);
            count += 1;
        }
    }

    /// Whether a container that exited with this code is restarted.
    pub(super) fn restarts_after(&self, code: i32) -> bool {
        match self.restart {
            Restart::Always => true,
            Restart::OnFailure => code != 0,
            Restart::Never => false,
        }
    }
}

/// Returns when init containers start, one after the other. Unknown programs exit at once.
fn init_containers(
    pod: &Pod,
    known: &BTreeMap<String, Option<(Duration, i32)>>,
    missing_image: &BTreeSet<String>,
    start_delay: Duration,
) -> Vec<InitContainer> {
    let mut begin = start_delay;
    let containers = pod.spec.iter().flat_map(|s| s.init_containers.iter().flatten());
    let init_containers = containers.map(|container| {
        let sidecar = container.restart_policy.as_deref() == Some("Always");
        let over = match known.get(&container.name).filter(|_| !sidecar) {
            _ if missing_image.contains(&container.name) => Duration::MAX,
            None => begin,
            Some(Some((time, 0))) => begin.saturating_add(*time),
            Some(_) => Duration::MAX,
        };
        // A completed init container stays completed even if its annotations change. Times in the status are in whole
        // seconds.
        let over = match ended(pod, &container.name) {
            Some(ended) if over > ended.saturating_add(Duration::from_secs(1)) => ended.max(begin),
            _ => over,
        };
        InitContainer { name: container.name.clone(), begin: std::mem::replace(&mut begin, over), over }
    });
    init_containers.collect()
}

/// Returns when an init container succeeded, by the pod's status and relative to the pod's start.
fn ended(pod: &Pod, container: &str) -> Option<Duration> {
    let status = pod.status.as_ref()?;
    let mut init_containers = status.init_container_statuses.iter().flatten();
    let ended = init_containers.find(|c| c.name == container)?.state.as_ref()?.terminated.as_ref()?;
    let finished = ended.finished_at.as_ref().filter(|_| ended.exit_code == 0)?;
    Duration::try_from(finished.0.duration_since(status.start_time.as_ref()?.0)).ok()
}

/// Returns the state of a container with an image that can't be pulled.
fn pull(begin: Duration, since: Duration) -> ContainerSnapshot {
    let (mut attempt, mut backoff) = (Duration::ZERO, FIRST_BACKOFF);
    while since >= attempt + backoff {
        attempt += backoff;
        backoff = (backoff * 2).min(LAST_BACKOFF);
    }
    let (reason, next) = if since < attempt + BACKOFF_DELAY {
        ("ErrImagePull", attempt + BACKOFF_DELAY)
    } else {
        ("ImagePullBackOff", attempt + backoff)
    };
    ContainerSnapshot::new(State::Waiting { reason }, Some(begin.saturating_add(next)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::pki::Authority;

    fn plan(annotations: &[(&str, &str)], restart: &str) -> Plan {
        let annotations: serde_json::Map<_, _> =
            annotations.iter().map(|(k, v)| (format!("cluster.steersman.dev/{k}"), json!(v))).collect();
        let pod = json!({"metadata": {"annotations": annotations}, "spec": {"restartPolicy": restart, "containers": []}});
        Plan::new(&serde_json::from_value(pod).unwrap(), &options())
    }

    fn options() -> Options {
        Options {
            parts: BTreeSet::new(),
            nodes: 1,
            heartbeats: true,
            pod_start_delay: Duration::ZERO,
            pod_run_time: Duration::from_secs(1),
            pod_stop_delay: Duration::ZERO,
            missing_images: BTreeSet::from(["gone:1".to_owned()]),
            authority: Arc::new(Authority::generate().unwrap()),
        }
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn a_service_runs_for_ever_and_a_task_ends() {
        let service = plan(&[("start-delay", "5s")], "Always");
        assert_eq!(service.at("c", seconds(4)).state, State::Waiting { reason: "ContainerCreating" });
        assert_eq!(service.at("c", seconds(4)).next, Some(seconds(5)));
        assert_eq!(service.at("c", seconds(500)).state, State::Running { since: seconds(5) });
        let task = plan(&[("exit-code", "3")], "Never");
        assert_eq!(task.at("c", Duration::ZERO).next, Some(seconds(1)));
        assert_eq!(
            task.at("c", seconds(9)).state,
            State::Ended { since: seconds(0), at: seconds(1), code: 3 }
        );
    }

    #[test]
    fn a_crash_loop_backs_off_further_each_time() {
        let plan = plan(&[("fail", "crash-loop")], "Always");
        let at = |n| {
            let snapshot = plan.at("c", seconds(n));
            (snapshot.state, snapshot.restarts)
        };
        assert_eq!(at(0), (State::Running { since: seconds(0) }, 0));
        assert!(matches!(at(1).0, State::Ended { code: 1, .. }));
        assert_eq!(at(2), (State::Waiting { reason: "CrashLoopBackOff" }, 0));
        assert_eq!(at(11), (State::Running { since: seconds(11) }, 1));
        assert_eq!(at(31), (State::Waiting { reason: "CrashLoopBackOff" }, 1));
        assert_eq!(at(32), (State::Running { since: seconds(32) }, 2));
    }

    #[test]
    fn what_takes_longer_than_can_be_counted_never_ends() {
        let longest = i64::MAX.to_string() + "s";
        let plan = plan(&[("start-delay", &longest), ("run-for", &longest)], "Never");
        let begun = plan.start_delay.saturating_add(seconds(1));
        assert!(matches!(plan.at("c", begun).state, State::Running { .. }));
        let forever = plan.run(Some((Duration::MAX, 0)), seconds(1), seconds(1));
        assert_eq!(forever.next, Some(Duration::MAX));
    }

    #[test]
    fn a_container_of_the_start_that_ended_does_not_begin_again() {
        let mut pod: Pod = serde_json::from_value(json!({
            "spec": {"initContainers": [{"name": "i", "command": ["sleep", "3"]}], "containers": [{"name": "c"}]},
            "status": {"startTime": "2026-01-01T00:00:00Z"},
        }))
        .unwrap();
        let running = |pod: &Pod| Plan::new(pod, &options()).at("c", seconds(10)).state;
        let before = running(&pod);
        assert_eq!(before, State::Running { since: seconds(3) });
        let waits = |pod: &mut Pod| {
            let container = &mut pod.spec.as_mut().unwrap().init_containers.as_mut().unwrap()[0];
            (container.command, container.image) = (None, Some("pause".to_owned()));
        };
        let status = json!([{"name": "i", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": {
            "terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:00:03Z"},
        }}]);
        pod.status.as_mut().unwrap().init_container_statuses = serde_json::from_value(status).unwrap();
        assert_eq!(running(&pod), before);
        waits(&mut pod);
        assert_eq!(running(&pod), before);
        pod.status.as_mut().unwrap().init_container_statuses = None;
        assert_eq!(running(&pod), State::Waiting { reason: "ContainerCreating" });
    }

    #[test]
    fn only_containers_whose_image_is_there_begin() {
        let waits = |spec: serde_json::Value, container: &str| {
            let plan = Plan::new(&serde_json::from_value(json!({"spec": spec})).unwrap(), &options());
            let begun = plan.running_init_container(seconds(5)).map(|(_, snapshot)| snapshot);
            matches!(begun.unwrap_or_else(|| plan.at(container, seconds(5))).state, State::Waiting { .. })
        };
        let main = |image: &str| json!({"name": "c", "image": image});
        let beside = |image: &str| json!({"name": "d", "image": image});
        assert!(waits(json!({"containers": [main("gone:1"), beside("there:1")]}), "c"));
        assert!(!waits(json!({"containers": [main("gone:1"), beside("there:1")]}), "d"));
        assert!(!waits(json!({"containers": [main("gone:2")]}), "c"));
        // The program does not matter.
        let first = json!({"name": "i", "image": "gone:1", "command": ["true"]});
        assert!(waits(json!({"initContainers": [first], "containers": [main("there:1")]}), "c"));
    }

    #[test]
    fn an_image_is_tried_again() {
        let plan = plan(&[("fail", "image-pull")], "Always");
        let reason = |n| match plan.at("c", seconds(n)).state {
            State::Waiting { reason } => reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            [0, 1, 9, 10, 11, 29, 30].map(reason),
            [
                "ErrImagePull",
                "ImagePullBackOff",
                "ImagePullBackOff",
                "ErrImagePull",
                "ImagePullBackOff",
                "ImagePullBackOff",
                "ErrImagePull"
            ]
        );
    }
}
