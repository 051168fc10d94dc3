//! Runs replicas of the operator, and restarts them when they crash.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::FutureExt as _;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use steersman::{BoxError, testing::TestEnv};
use tokio::{sync::watch, task::JoinHandle, time::Instant};

use super::{Run, Subject};
use crate::{
    command::{self, Log},
    network::{Network, Process},
};

/// A replica of the operator, which is restarted when it crashes.
pub(super) struct Replica {
    pub(super) down: watch::Sender<bool>,
    process: Arc<Mutex<Option<Process>>>,
    task: JoinHandle<()>,
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Replica {
    pub(super) fn with_process(&self, act: impl FnOnce(&Process)) {
        if let Some(process) = self.process.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            act(process);
        }
    }

    /// Returns how long its program was runnable so far.
    pub(super) fn busy(&self) -> Duration {
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        process.as_ref().map_or(Duration::ZERO, Process::busy)
    }

    /// Returns since when it is idle; a replica that is down always is.
    pub(super) fn idle_since(&self, network: &Network) -> Option<Instant> {
        if *self.down.borrow() || network.stays_dead() {
            return Some(network.start());
        }
        self.process.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.idle_since()
    }
}

impl Run<'_> {
    /// Starts a replica and restarts it whenever it exits, after a delay if it crashed.
    pub(super) fn supervise(
        &self,
        subject: &Subject,
        client: Client,
        number: u32,
        has_died: bool,
    ) -> Replica {
        let (down, process) = (watch::Sender::new(false), Arc::new(Mutex::new(None)));
        let (network, env, subject) = (self.network.clone(), Arc::clone(&self.env), subject.clone());
        let (mut is_down, current, exits) = (down.subscribe(), Arc::clone(&process), Arc::clone(&self.exits));
        let (log, (first_delay, longest_delay)) = (self.log.clone(), self.settings.timing.restart);
        let task = tokio::spawn(async move {
            let mut delay = first_delay;
            if has_died {
                stay_dead(&network, first_delay).await;
                tokio::time::sleep(delay).await;
            }
            loop {
                // The sender outlives this task.
                let _ = is_down.wait_for(|down| !*down).await;
                let process = network.process(number);
                *current.lock().unwrap_or_else(PoisonError::into_inner) = Some(process.clone());
                let launched =
                    launch(subject.clone(), Arc::clone(&env), process.clone(), client.clone(), log.clone());
                let mut running = tokio::spawn(launched.boxed());
                tokio::select! {
                    biased;
                    () = process.dead() => {
                        // A program's task ends on its own once the program has exited.
                        if !matches!(subject, Subject::Command(_)) {
                            running.abort();
                        }
                        let _ = running.await;
                        delay = first_delay;
                        stay_dead(&network, first_delay).await;
                    }
                    ended = &mut running => {
                        let why = match ended {
                            Ok(Ok(())) => "it exited".to_owned(),
                            Ok(Err(error)) => format!("it exited: {error}"),
                            Err(error) => format!("it panicked: {error}"),
                        };
                        process.kill();
                        network.note(process.actor(), why.clone(), false);
                        exits.lock().unwrap_or_else(PoisonError::into_inner).push(why);
                        delay = (delay * 2).min(longest_delay);
                    }
                }
                current.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Subject::Command(_) = subject {
                    forget_leases(&env).await;
                }
                tokio::time::sleep(delay).await;
            }
        });
        Replica { down, process, task }
    }
}

/// Waits until an operator that is down may be restarted.
async fn stay_dead(network: &Network, pause: Duration) {
    while network.stays_dead() {
        tokio::time::sleep(pause).await;
    }
}

/// Runs the operator's process once.
async fn launch(
    subject: Subject,
    env: Arc<TestEnv>,
    process: Process,
    client: Client,
    log: Log,
) -> Result<(), BoxError> {
    let client = process.client(client);
    let operator = match subject {
        Subject::Operator(make) => make(),
        Subject::Prepared(prepare) => prepare(client.clone()).await?,
        Subject::Program(program) => return program(client).await,
        Subject::Command(command) => return command::run(&command, &process, client, &log).await,
    };
    Ok(env.confine(operator).run_until(client, std::future::pending()).await?)
}

/// Deletes leader election leases: in real time, a new leader would wait for 15 seconds.
async fn forget_leases(env: &TestEnv) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("coordination.k8s.io", "v1", "Lease"));
    let all: Api<DynamicObject> = Api::all_with(env.client(), &resource);
    let Ok(leases) = all.list(&ListParams::default()).await else { return };
    for lease in leases {
        let (Some(namespace), Some(name)) = (lease.metadata.namespace, lease.metadata.name) else { continue };
        // Leases of nodes are heartbeats.
        if namespace != "kube-node-lease" {
            let api: Api<DynamicObject> = Api::namespaced_with(env.client(), &namespace, &resource);
            // It may be deleted already.
            let _ = api.delete(&name, &DeleteParams::default()).await;
        }
    }
}
