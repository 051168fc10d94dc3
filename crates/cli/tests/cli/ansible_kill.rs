//! Kills an Ansible operator, its fork server and its runs at random, and checks what is left behind.
//!
//! Needs Python and Ansible: `make test-ansible` provides them. `KILLS` sets the number of kills, `SEED` their order.
#![cfg(unix)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, Config};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

/// Timeout for objects to converge, and for processes to start and exit.
const PATIENCE: Duration = Duration::from_secs(300);
const OBJECTS: usize = 4;
/// Number of kills after which everything must converge.
const BETWEEN: usize = 10;

/// Creates two objects with a pause in between.
///
/// A lock is held while the run or one of its workers lives: see the callback.
const PLAYBOOK: &str = r#"
- hosts: localhost
  gather_facts: false
  tasks:
    - &map
      kubernetes.core.k8s:
        definition:
          apiVersion: v1
          kind: ConfigMap
          metadata: {name: "{{ ansible_operator_meta.name }}-{{ part | default('first') }}", namespace: default}
          data: {round: "{{ round }}"}
    - ansible.builtin.command: sleep 0.2
    - <<: *map
      vars: {part: last}
"#;

/// Holds a lock for each object from the start of its run.
///
/// Children inherit it, so it is free only when all of them have exited. A run that finds it held records that.
const CALLBACK: &str = r#"
import fcntl
import os

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
    name: exclusive
    type: aggregate
    short_description: notes down runs of one object at the same time
    description: [Holds a lock as long as a process of the run lives.]
"""

class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "exclusive"

    def v2_playbook_on_play_start(self, play):
        name = play.get_variable_manager().get_vars(play=play)["ansible_operator_meta"]["name"]
        directory = os.environ["LOCKS"]
        self._lock = os.open(os.path.join(directory, name + ".lock"), os.O_RDWR | os.O_CREAT)
        os.set_inheritable(self._lock, True)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            with open(os.path.join(directory, "overlaps"), "a") as file:
                file.write(name + "\n")
"#;

/// A process of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Operator,
    Server,
    Run,
}

struct Lab {
    home: tempfile::TempDir,
    client: Client,
    cluster: Child,
    operator: Child,
}

impl Lab {
    async fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        for folder in ["tmp", "locks", "callback_plugins"] {
            std::fs::create_dir(home.path().join(folder)).unwrap();
        }
        std::fs::write(home.path().join("play.yml"), PLAYBOOK).unwrap();
        std::fs::write(home.path().join("callback_plugins/exclusive.py"), CALLBACK).unwrap();
        let watches = json!([{
            "group": "kill.example.com", "version": "v1", "kind": "Target", "playbook": home.path().join("play.yml"),
            "markUnsafe": true,
        }]);
        std::fs::write(home.path().join("watches.yaml"), watches.to_string()).unwrap();
        let kubeconfig = home.path().join("kubeconfig");
        let cluster = logged(&home.path().join("cluster.log"))
            .args(["cluster", "--kubeconfig"])
            .arg(&kubeconfig)
            .spawn()
            .unwrap();
        let client = until("the cluster answers", async || {
            let file = Kubeconfig::read_from(&kubeconfig).ok()?;
            let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.ok()?;
            let client = Client::try_from(config).ok()?;
            client.apiserver_version().await.ok().map(|_| client)
        })
        .await;
        define(&client).await;
        let operator = operator(home.path());
        Self { home, client, cluster, operator }
    }

    fn objects(&self) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: "kill.example.com".into(),
            version: "v1".into(),
            api_version: "kill.example.com/v1".into(),
            kind: "Target".into(),
            plural: "targets".into(),
        };
        Api::namespaced_with(self.client.clone(), "default", &resource)
    }

    /// Triggers a run for every object.
    async fn touch(&self, round: usize) {
        for number in 0..OBJECTS {
            let target = json!({
                "apiVersion": "kill.example.com/v1", "kind": "Target",
                "metadata": { "name": format!("t{number}") }, "spec": { "round": round.to_string() },
            });
            let params = PatchParams::apply("test").force();
            self.objects().patch(&format!("t{number}"), &params, &Patch::Apply(&target)).await.unwrap();
        }
    }

    /// Kills a process of the given type, or of another one if there is none.
    fn kill(&mut self, victim: Victim, random: &mut fastrand::Rng) -> Victim {
        let server = children(self.operator.id()).into_iter().next();
        let runs = server.map(children).unwrap_or_default();
        let (victim, process) = match (victim, server, runs.is_empty()) {
            (Victim::Run, _, false) => (Victim::Run, runs[random.usize(..runs.len())]),
            (Victim::Server | Victim::Run, Some(server), _) => (Victim::Server, server),
            _ => (Victim::Operator, self.operator.id()),
        };
        let pid = Pid::from_raw(i32::try_from(process).unwrap()).unwrap();
        let _ = kill_process(pid, Signal::KILL);
        if victim == Victim::Operator {
            self.operator.wait().unwrap();
        }
        self.revive();
        victim
    }

    /// Restarts an operator that has exited, as a cluster does.
    ///
    /// It exits on its own if its Python is killed while its version is being queried.
    fn revive(&mut self) {
        if self.operator.try_wait().unwrap().is_some() {
            self.operator = operator(self.home.path());
        }
    }

    /// Waits for a condition while restarting the operator if it exits.
    async fn until(&mut self, what: &str, look: impl AsyncFn(&Self) -> Option<()>) {
        let begun = Instant::now();
        while look(self).await.is_none() {
            assert!(begun.elapsed() < PATIENCE, "{what}: not in time");
            self.revive();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until every object has the state of its last round and its status reports that.
    async fn converged(&mut self, round: usize) {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), "default");
        for number in 0..OBJECTS {
            let name = format!("t{number}");
            self.until(&format!("{name} converges to {round}"), async |lab: &Self| {
                let object = lab.objects().get(&name).await.ok()?;
                let conditions = object.data["status"]["conditions"].as_array()?;
                let is = |kind: &str, reason: &str| {
                    conditions.iter().any(|one| one["type"] == kind && one["reason"] == reason)
                };
                let last = maps.get_opt(&format!("{name}-last")).await.ok()??;
                let is_current = last.data?.get("round")? == &round.to_string();
                (is_current && is("Running", "Successful") && is("Successful", "Successful")).then_some(())
            })
            .await;
        }
        let overlaps = std::fs::read_to_string(self.home.path().join("locks/overlaps")).unwrap_or_default();
        assert_eq!(overlaps, "", "objects had two runs at the same time");
    }

    /// Waits until nothing is left of runs: no process except the server, and no directory.
    async fn quiet(&mut self) {
        self.until("only the server is left", async |lab: &Self| {
            let servers = children(lab.operator.id());
            let runs: usize = servers.iter().map(|server| children(*server).len()).sum();
            (servers.len() == 1 && runs == 0).then_some(())
        })
        .await;
        let left = |lab: &Self| {
            let operators = std::fs::read_dir(lab.home.path().join("tmp")).unwrap().flatten();
            let operators: Vec<_> = operators.map(|entry| entry.path()).collect();
            let runs =
                operators.iter().flat_map(|one| std::fs::read_dir(one.join("runs")).into_iter().flatten());
            (operators.len(), runs.count())
        };
        self.until("the directories are removed", async |lab: &Self| (left(lab) == (1, 0)).then_some(()))
            .await;
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for process in [&mut self.operator, &mut self.cluster] {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

async fn define(client: &Client) {
    let any = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": { "name": "targets.kill.example.com" },
        "spec": {
            "group": "kill.example.com", "scope": "Namespaced", "names": { "kind": "Target", "plural": "targets" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": any, "status": any } } },
            }],
        },
    }))
    .unwrap();
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    api.create(&PostParams::default(), &definition).await.unwrap();
    await_condition(api, "targets.kill.example.com", conditions::is_crd_established()).await.unwrap();
}

fn logged(log: &Path) -> Command {
    let file = std::fs::File::options().append(true).create(true).open(log).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_steer"));
    command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
    command
}

fn operator(home: &Path) -> Child {
    logged(&home.join("operator.log"))
        .args(["run", "ansible", "--metrics-bind-address=0", "--health-probe-bind-address=0"])
        .args(["--max-concurrent-reconciles=4"])
        .current_dir(home)
        .env("KUBECONFIG", home.join("kubeconfig"))
        .env("TMPDIR", home.join("tmp"))
        .env("LOCKS", home.join("locks"))
        // Ansible creates its temporary directories there.
        .env("HOME", home)
        .spawn()
        .unwrap()
}

/// The children of a process, zombies included.
fn children(parent: u32) -> Vec<u32> {
    let path = format!("/proc/{parent}/task");
    let tasks = std::fs::read_dir(path).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let mut all: Vec<u32> = lists
        .flat_map(|list| list.split_whitespace().filter_map(|one| one.parse().ok()).collect::<Vec<_>>())
        .collect();
    all.sort_unstable();
    all
}

/// Returns the processes whose environment contains a path.
fn processes_with(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let named = entries.filter(|entry| {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let path = path.as_os_str().as_encoded_bytes();
        environment.windows(path.len()).any(|window| window == path)
    });
    named.filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok()).collect()
}

async fn until<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: not in time");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python and Ansible: make test-ansible"]
async fn ansible_operators_survive_being_killed() {
    let (kills, seed) = (number("KILLS", 20), number("SEED", 18));
    let mut random = fastrand::Rng::with_seed(seed);
    let mut lab = Lab::start().await;
    lab.touch(0).await;
    lab.converged(0).await;
    let mut killed = [0; 3];
    for round in 1..=usize::try_from(kills).unwrap() {
        lab.touch(round).await;
        tokio::time::sleep(Duration::from_millis(random.u64(0..1500))).await;
        let victim = [Victim::Operator, Victim::Server, Victim::Run][random.usize(..3)];
        killed[lab.kill(victim, &mut random) as usize] += 1;
        if round % BETWEEN == 0 {
            lab.converged(round).await;
            lab.quiet().await;
        }
    }
    lab.converged(kills.try_into().unwrap()).await;
    lab.quiet().await;
    println!(
        "{kills} kills with seed {seed}: {} operators, {} servers, {} runs",
        killed[0], killed[1], killed[2]
    );
    // An operator that is terminated gracefully leaves nothing behind.
    let pid = Pid::from_raw(i32::try_from(lab.operator.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert!(lab.operator.wait().unwrap().success());
    let temporary = lab.home.path().join("tmp");
    until("all processes end", async || processes_with(&temporary).is_empty().then_some(())).await;
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
    let ansible = std::fs::read_dir(lab.home.path().join(".ansible/tmp")).into_iter().flatten();
    assert_eq!(ansible.count(), 0, "tasks of killed runs left their directories");
}
