//! Data directories: everything is restored, however the process ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use futures::StreamExt as _;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Pod},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::json;
use steersman_cluster::Cluster;

async fn quiet(directory: &Path) -> Cluster {
    Cluster::builder().workloads(false).data_directory(directory).start().await.unwrap()
}

fn map(name: &str, value: usize) -> ConfigMap {
    // Large enough for a torn write to show.
    let data = (0..8).map(|i| (format!("copy-{i}"), value.to_string().repeat(50))).collect();
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some(data),
        ..ConfigMap::default()
    }
}

#[tokio::test]
async fn a_cluster_starts_from_what_the_last_one_left() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = Cluster::builder().data_directory(directory.path()).start().await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let kept = maps.create(&PostParams::default(), &map("kept", 1)).await.unwrap();
    maps.create(&PostParams::default(), &map("dropped", 1)).await.unwrap();
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client());
    let wanted: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "web"}]},
            },
        },
    }))
    .unwrap();
    deployments.create(&PostParams::default(), &wanted).await.unwrap();
    cluster.settled().await;
    maps.delete("dropped", &DeleteParams::default()).await.unwrap();
    let (revision, certificate) =
        (cluster.server().store().revision(), cluster.root_certificate().to_owned());
    drop((maps, deployments, cluster));

    let cluster = Cluster::builder().data_directory(directory.path()).start().await.unwrap();
    cluster.settled().await;
    assert!(cluster.server().store().revision() >= revision, "numbers are never given twice");
    assert_eq!(cluster.root_certificate(), certificate);
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    assert_eq!(maps.get("kept").await.unwrap(), kept);
    assert!(maps.get_opt("dropped").await.unwrap().is_none());
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 2);
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client());
    deployments
        .patch("web", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 3}})))
        .await
        .unwrap();
    cluster.settled().await;
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 3);
}

#[tokio::test]
async fn a_directory_belongs_to_one_cluster() {
    let directory = tempfile::tempdir().unwrap();
    let _first = quiet(directory.path()).await;
    let second = Cluster::builder().workloads(false).data_directory(directory.path()).start().await;
    assert!(second.unwrap_err().to_string().contains("cannot keep data in"));
}

const DIRECTORY: &str = "STEERSMAN_TEST_DATA_DIRECTORY";
const ROUND: &str = "STEERSMAN_TEST_ROUND";
/// For each watcher, the last revision that it observed; empty if it has to list first.
const RESUME: &str = "STEERSMAN_TEST_RESUME";

const WATCHERS: usize = 2;

/// Not a test of its own: the process to be killed.
///
/// Several writers create, change and delete objects. Watchers resume where those of the previous process were. All of them
/// report on standard output what was acknowledged and what they observed.
#[test]
fn killed_writer() {
    let (Ok(directory), Ok(round)) = (std::env::var(DIRECTORY), std::env::var(ROUND)) else { return };
    let resume: Vec<Option<String>> = std::env::var(RESUME)
        .unwrap()
        .split(',')
        .map(|r| Some(r.to_owned()).filter(|r| !r.is_empty()))
        .collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let cluster = quiet(Path::new(&directory)).await;
        for (watcher, from) in resume.into_iter().enumerate() {
            tokio::spawn(watch(cluster.client(), watcher, from));
        }
        let writers =
            (0..8).map(|writer| tokio::spawn(write(cluster.client(), format!("r{round}-w{writer}"))));
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
    });
}

async fn write(client: kube::Client, prefix: String) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let told = |map: &ConfigMap| say(&format!("has {}", describe(map)));
    for count in 0.. {
        let name = format!("{prefix}-{count}");
        told(&maps.create(&PostParams::default(), &map(&name, 0)).await.unwrap());
        for value in 1..3 {
            told(&maps.replace(&name, &PostParams::default(), &map(&name, value)).await.unwrap());
        }
        if count % 2 == 0 {
            maps.delete(&name, &DeleteParams::default()).await.unwrap();
            say(&format!("lost {name}"));
        }
    }
}

/// Reports everything that a watcher observes, in order.
async fn watch(client: kube::Client, watcher: usize, mut from: Option<String>) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    loop {
        let revision = match from.take() {
            Some(revision) => revision,
            None => {
                let list = maps.list(&ListParams::default()).await.unwrap();
                let revision = list.metadata.resource_version.unwrap();
                say(&format!("listing {watcher} {revision}"));
                for item in list.items.iter().filter(|m| m.name_any() != "kube-root-ca.crt") {
                    say(&format!("listed {watcher} {}", describe(item)));
                }
                say(&format!("at {watcher} {revision}"));
                revision
            }
        };
        let mut events = std::pin::pin!(maps.watch(&WatchParams::default(), &revision).await.unwrap());
        let mut last = Some(revision);
        while let Some(event) = events.next().await {
            match event.unwrap() {
                WatchEvent::Added(map) | WatchEvent::Modified(map) => {
                    say(&format!("saw {watcher} {}", describe(&map)));
                    last = map.resource_version();
                }
                WatchEvent::Deleted(map) => {
                    let revision = map.resource_version().unwrap();
                    say(&format!("gone {watcher} {} {revision}", map.name_any()));
                    last = Some(revision);
                }
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(status) => {
                    assert_eq!(status.code, 410, "{}", status.message);
                    last = None;
                    break;
                }
            }
        }
        from = last;
    }
}

/// Name, value and revision.
fn describe(map: &ConfigMap) -> String {
    let copies: Vec<&String> = map.data.iter().flat_map(BTreeMap::values).collect();
    assert!(copies.len() == 8 && copies.windows(2).all(|w| w[0] == w[1]), "{} is torn", map.name_any());
    format!("{} {} {}", map.name_any(), &copies[0][..1], map.resource_version().unwrap())
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // A single write, so that a line is either complete or absent.
    out.write_all(format!("\n{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// The reports of all processes so far.
#[derive(Default)]
struct Told {
    /// The latest observed value of each object, or `None` if it was deleted.
    values: BTreeMap<String, Option<usize>>,
    /// The object and value that was written at each revision; `None` for a deletion.
    revisions: BTreeMap<u64, (String, Option<usize>)>,
    watchers: [Watcher; WATCHERS],
    answers: usize,
    lists: usize,
}

/// What a watcher observed since its last list.
#[derive(Default)]
struct Watcher {
    /// The revision from which on the watcher must have observed every change; `None` while it lists.
    from: Option<u64>,
    last: u64,
    seen: BTreeSet<u64>,
}

impl Told {
    fn value(&mut self, name: &str, value: usize) {
        let known = self.values.entry(name.to_owned()).or_insert(Some(value));
        // Lines of writers and watchers are interleaved in any order. A name is never reused.
        *known = known.map(|known| known.max(value));
    }

    fn revision(&mut self, revision: u64, name: &str, value: Option<usize>) {
        let new = (name.to_owned(), value);
        let known = self.revisions.entry(revision).or_insert_with(|| new.clone());
        assert_eq!(*known, new, "revision {revision} is given twice");
    }

    fn saw(&mut self, watcher: usize, revision: u64) {
        let watcher = &mut self.watchers[watcher];
        assert!(revision > watcher.last, "{revision} comes after {}", watcher.last);
        watcher.last = revision;
        watcher.seen.insert(revision);
    }

    fn take(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |text: &str| -> u64 { text.parse().unwrap() };
        let small = |text: &str| -> usize { text.parse().unwrap() };
        match words.as_slice() {
            ["has", name, value, revision] => {
                self.answers += 1;
                self.value(name, small(value));
                self.revision(number(revision), name, Some(small(value)));
            }
            ["lost", name] => {
                self.answers += 1;
                self.values.insert((*name).to_owned(), None);
            }
            ["listing", watcher, revision] => {
                self.lists += 1;
                let revision = number(revision);
                assert!(revision >= self.watchers[small(watcher)].last, "a list goes back to {revision}");
                self.watchers[small(watcher)] = Watcher { from: None, last: revision, ..Watcher::default() };
            }
            ["listed", _, name, value, revision] => {
                self.value(name, small(value));
                self.revision(number(revision), name, Some(small(value)));
            }
            ["at", watcher, revision] => self.watchers[small(watcher)].from = Some(number(revision)),
            ["saw", watcher, name, value, revision] => {
                self.saw(small(watcher), number(revision));
                self.value(name, small(value));
                self.revision(number(revision), name, Some(small(value)));
            }
            ["gone", watcher, name, revision] => {
                self.saw(small(watcher), number(revision));
                self.values.insert((*name).to_owned(), None);
                self.revision(number(revision), name, None);
            }
            _ => {}
        }
    }

    /// Checks that watchers which resumed have observed every change in between.
    fn check_watchers(&self, round: usize) {
        for watcher in &self.watchers {
            let Some(from) = watcher.from.filter(|from| *from < watcher.last) else { continue };
            let happened = self.revisions.range(from + 1..=watcher.last).map(|(revision, _)| *revision);
            let missed: Vec<u64> = happened.filter(|revision| !watcher.seen.contains(revision)).collect();
            assert!(missed.is_empty(), "round {round}: a watcher missed {missed:?}");
        }
    }

    fn resume(&self) -> String {
        let from = |w: &Watcher| w.from.map(|_| w.last.to_string()).unwrap_or_default();
        self.watchers.iter().map(from).collect::<Vec<_>>().join(",")
    }
}

/// Repeatedly kills a process with writers and watchers, and verifies its reports after each restart.
fn survive(rounds: usize) {
    let directory = tempfile::tempdir().unwrap();
    let mut told = Told::default();
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "disk::killed_writer", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .env(ROUND, round.to_string())
            .env(RESUME, told.resume())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (answered, answers) = mpsc::channel();
        let reader = std::thread::spawn(move || -> Vec<String> {
            let tell = |line: &String| {
                if line.starts_with("has") {
                    let _ = answered.send(());
                }
            };
            out.lines().map_while(Result::ok).inspect(tell).collect()
        });
        // Every fifth round kills the process during startup, the others after a varying number of writes.
        if round % 5 == 4 {
            std::thread::sleep(Duration::from_millis(20 + (round as u64 * 37) % 160));
        } else {
            for _ in 0..10 + (round * 37) % 160 {
                answers.recv_timeout(Duration::from_secs(60)).unwrap();
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        for line in reader.join().unwrap() {
            told.take(&line);
        }
        told.check_watchers(round);
        check(directory.path(), &told, round);
    }
    let (answers, events) = (told.answers, told.revisions.len());
    println!(
        "{rounds} kills, {answers} answered writes, {events} revisions, {} lists: none lost",
        told.lists
    );
    assert!(answers > rounds && events > rounds, "the writers hardly wrote");
}

fn check(directory: &Path, told: &Told, round: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (found, revision) = runtime.block_on(async {
        let cluster = quiet(directory).await;
        let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
        let list = maps.list(&ListParams::default()).await.unwrap();
        (list.items, list.metadata.resource_version.unwrap())
    });
    let last = told.revisions.last_key_value().map_or(0, |(revision, _)| *revision);
    let revision: u64 = revision.parse().unwrap();
    assert!(revision >= last, "round {round}: {last} was seen, and the cluster starts at {revision}");
    let mut values = BTreeMap::new();
    for map in found {
        let described = describe(&map);
        let words: Vec<&str> = described.split(' ').collect();
        values.insert(words[0].to_owned(), words[1].parse::<usize>().unwrap());
    }
    for (name, last) in &told.values {
        match (last, values.get(name)) {
            // Writes after the last acknowledged one may or may not have been persisted.
            (Some(last), Some(value)) => assert!(value >= last, "round {round}: {name} went back"),
            (Some(2), None) => {
                let count: usize = name.rsplit('-').next().unwrap().parse().unwrap();
                assert!(count.is_multiple_of(2), "round {round}: {name} is lost");
            }
            (Some(_), None) => panic!("round {round}: {name} is lost"),
            (None, found) => assert!(found.is_none(), "round {round}: {name} is back"),
        }
    }
}

#[test]
fn nothing_told_is_lost_or_invented_by_a_kill() {
    survive(5);
}

#[test]
#[ignore = "a hundred kills take a minute"]
fn nothing_told_is_lost_or_invented_by_a_hundred_kills() {
    survive(100);
}
